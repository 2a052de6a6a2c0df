#include "gpu_kernels/laplace/laplace.h"
#include "gpu_kernels/halo/halo.h"
#include <algorithm>
#include <iterator>

namespace milcgpu {

// Each is instantiated separately (laplace_rows.cu).
template <class Where> void double_rows(std::vector<LaplaceKernel> &);
template <class Where> void single_rows(std::vector<LaplaceKernel> &);
template <class Where> void half_rows(std::vector<LaplaceKernel> &);
template <class Where> void add_all(std::vector<LaplaceKernel> &table) {
    double_rows<Where>(table);
    single_rows<Where>(table);
    half_rows<Where>(table);
}

const std::vector<LaplaceKernel> &laplace_table() {
    static const std::vector<LaplaceKernel> table = [] {
        std::vector<LaplaceKernel> rows, cut;
        add_all<OnThisBackend>(rows);
#if defined(MILCGPU_WITH_CUDA)
        add_all<CutLattice>(cut);
#else
        std::copy_if(rows.begin(), rows.end(), std::back_inserter(cut),
                     [](const LaplaceKernel &row) { return row.most_sources == 1; });
#endif
        size_t one_source = 0;
        for (LaplaceKernel &row : rows)
            if (row.most_sources == 1)
                row.cut = cut[one_source++].whole;
        return rows;
    }();
    return table;
}

const LaplaceKernel &find_laplace(Precision precision, int reals, int directions, Epilogue epilogue, int sources) {
    std::string built;
    for (const LaplaceKernel &row : laplace_table()) {
        const bool serves =
            row.epilogue == epilogue && sources <= row.most_sources && (row.most_sources == 1) == (sources == 1);
        if (serves && row.precision == precision && row.reals == reals && row.directions == directions)
            return row;
        if (serves)
            built += format(" %s/%d/%d", name(row.precision), row.reals, row.directions);
    }
    throw Error(Status::not_built,
                format("no Laplace kernel for %s precision, %d reals a link, %d directions, epilogue "
                       "%s, %d source%s; built (precision/reals/directions):%s",
                       name(precision), reals, directions, name(epilogue), sources, sources == 1 ? "" : "s",
                       built.empty() ? " none" : built.c_str()));
}

void check_call(const LaplaceCall &call, Epilogue epilogue) {
    const auto fits = [&](const SpinorBlock &block) {
        return block.precision == call.in.precision && block.stride == call.in.stride &&
               block.sources == call.in.sources && (block.sources == 1 || block.source_bytes == call.in.source_bytes);
    };
    const bool several = call.in.sources > 1;
    if (!fits(call.out) || (epilogue != Epilogue::plain && !fits(call.x)) ||
        ((epilogue == Epilogue::residual || epilogue == Epilogue::step) && !fits(call.z)) ||
        (epilogue == Epilogue::step && (!fits(call.s) || call.cg == nullptr)) || (several && call.sum != nullptr) ||
        (several && call.cg != nullptr && epilogue != Epilogue::plain && epilogue != Epilogue::step) ||
        call.links->precision() != call.in.precision || call.links->stride() != call.in.stride ||
        call.links->directions() < call.directions || call.in.data == call.out.data || call.checksums != nullptr ||
        (call.lattice.is_cut() && call.halo == nullptr))
        throw Error(Status::bad_argument, "laplace: needs vectors and links of one precision and one lattice, equal "
                                          "numbers of sources, in and out that differ, scalars for a step and for sums "
                                          "of several sources, no checksums, and a halo if the lattice is cut");
    for (int mu = 0; mu < call.directions; ++mu)
        if (call.lattice.extent[mu] % 2 != 0 && !call.lattice.cut(mu))
            throw Error(Status::bad_argument,
                        format("laplace: the extent in %c is %d: it must be even, or a step would "
                               "not lead from even to odd sites",
                               "XYZT"[mu], call.lattice.extent[mu]));
}

void laplace(Device &device, const LaplaceCall &call, Epilogue epilogue) {
    const LaplaceKernel &row =
        find_laplace(call.in.precision, call.links->reals(), call.directions, epilogue, call.in.sources);
    check_call(call, epilogue);
    if (!call.lattice.is_cut())
        return row.launch(device, call, epilogue);
    call.halo->exchange(call.in, 1 - call.parity, 1, call.directions);
    const LaplaceKernel &of_one = find_laplace(call.in.precision, call.links->reals(), call.directions, epilogue);
    for (int k = 0; k < call.in.sources; ++k) {
        LaplaceCall one = call;
        one.keep_source(k);
        of_one.launch(device, one, epilogue);
    }
}

size_t laplace_bytes(Precision precision, int reals, int directions, Epilogue epilogue, size_t sites) {
    return sites * (2 * directions * link_bytes(precision, reals) + traits(epilogue).spinors * spinor_bytes(precision));
}

size_t laplace_flops(int directions, Epilogue epilogue, size_t sites) {
    return sites * (2 * directions * 66 + (2 * directions - 1) * 6 + traits(epilogue).flops);
}

} // namespace milcgpu
