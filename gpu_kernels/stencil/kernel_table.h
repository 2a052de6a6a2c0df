// The table of an operator's kernels: which combinations are built, and how a launch finds and checks its own.
#pragma once
#include "gpu_kernels/algebra/epilogue.h"
#include "gpu_kernels/fields/link_field.h"
#include "gpu_kernels/machine/backend/launch_types.h"
#include <string>
#include <vector>

namespace milcgpu {

// A launch of a stencil on one parity, with an epilogue. Operators add their links and parameters.
struct StencilCall : HalfCall {
    CutLattice lattice;
    int parity; // of out: 0 even, 1 odd
    // The previous launch on the device does not write the links: then some are loaded before it has ended.
    bool links_at_rest = false;
    Tiles tiles{}; // not all tiles: only on a GPU, with several sources without sums (Halo::tiles)
};
template <class Call> Call call_on(const HalfCall &half, const CutLattice &lattice, int parity) {
    Call call{};
    static_cast<HalfCall &>(call) = half;
    call.lattice = lattice, call.parity = parity;
    return call;
}

// What tells the kernels of an operator apart; also what a caller looks for.
struct KernelKey {
    Precision spinor, link;
    int reals; // of a link; for staggered fermions of a long link
    Epilogue epilogue = Epilogue::plain;
    int most_sources = 1; // 1, or up to so many at once
    int directions = 4;
    bool checks = false; // computes the checksums of the links it reads (HalfCall::checksums)
    bool lanes = false;  // several sites at once, on the host (fields/lane_links.h)
    bool stores_as(const KernelKey &wanted) const {
        return spinor == wanted.spinor && link == wanted.link && reals == wanted.reals &&
               directions == wanted.directions;
    }
    bool does(const KernelKey &wanted) const {
        return epilogue == wanted.epilogue && checks == wanted.checks && lanes == wanted.lanes &&
               wanted.most_sources <= most_sources && (most_sources == 1) == (wanted.most_sources == 1);
    }
};

template <class Call> struct StencilKernel : KernelKey {
    using Launch = void(Device &, const Call &, Epilogue);
    Launch *whole; // launches it on a whole lattice
    LaunchShape shape;
    Launch *cut = nullptr; // and on a cut one; nullptr: not built
    // On the host, one of them serves all lattices, because compilers may round two instances of the same source
    // differently.
    void launch(Device &device, const Call &call, Epilogue end) const {
        const bool as_cut = call.lattice.is_cut() || (cut != nullptr && !queue_of(device).on_gpu());
        (as_cut ? cut : whole)(device, call, end);
    }
};

// nullptr: not built.
template <class Row> const Row *look_for_kernel(const std::vector<Row> &table, const KernelKey &wanted) {
    for (const Row &row : table)
        if (row.does(wanted) && row.stores_as(wanted))
            return &row;
    return nullptr;
}
[[noreturn]] void refuse_kernel(const char *of, const KernelKey &wanted, const std::vector<KernelKey> &built);
// Throws Error(not_built) with a list of what is built.
template <class Row> const Row &find_kernel(const std::vector<Row> &table, const char *of, const KernelKey &wanted) {
    if (const Row *row = look_for_kernel(table, wanted))
        return *row;
    refuse_kernel(of, wanted, {table.begin(), table.end()});
}

// add(Rows<Where>(), table): adds the rows for this kind of lattice, which other sources instantiate.
template <class Where_> struct Rows { using Where = Where_; };
template <class Row, class Add> std::vector<Row> table_of(const Add &add) {
    std::vector<Row> rows, cut;
    add(Rows<OnThisBackend>(), rows);
#if defined(MILCGPU_WITH_CUDA)
    add(Rows<CutLattice>(), cut);
#else
    cut = rows;
#endif
    for (Row &row : rows)
        if (const Row *same = look_for_kernel(cut, row))
            row.cut = same->whole;
    return rows;
}

// Adds a row for each epilogue.
template <class Call>
void add_rows(std::vector<StencilKernel<Call>> &table, const KernelKey &key,
              typename StencilKernel<Call>::Launch *launch, const LaunchShape &shape) {
    StencilKernel<Call> row{key, launch, shape};
    for (const EpilogueTraits &end : epilogues) {
        row.epilogue = end.epilogue;
        table.push_back(row);
    }
}
// Calls function(integral constant) for each of these numbers.
template <int... numbers, class Function> void for_each_of(const Function &function) {
    (function(std::integral_constant<int, numbers>()), ...);
}

// Whether a field has the storage and the number of sources of another.
bool is_like(const SpinorBlock &field, const SpinorBlock &other);
// Whether the fields of a call fit each other, and whether it has what its epilogue and its sums need.
bool fields_fit(const HalfCall &, Epilogue);

} // namespace milcgpu
