#include "gpu_kernels/staggered/dslash.h"
#include <algorithm>
#include <iterator>

namespace milcgpu {

// Each is instantiated separately (staggered_rows.cu). Cut lattices have the same rows in the same order.
template <class Where> void double_rows(std::vector<DslashKernel> &);
template <class Where> void true_residual_rows(std::vector<DslashKernel> &);
template <class Where> void single_rows(std::vector<DslashKernel> &);
template <class Where> void half_rows(std::vector<DslashKernel> &);
template <class Where> void double_sources_rows(std::vector<DslashKernel> &);
template <class Where> void single_sources_rows(std::vector<DslashKernel> &);
template <class Where> void half_sources_rows(std::vector<DslashKernel> &);
template <class Where> void add_all(std::vector<DslashKernel> &table) {
    double_rows<Where>(table);
    true_residual_rows<Where>(table);
    single_rows<Where>(table);
    half_rows<Where>(table);
    double_sources_rows<Where>(table);
    single_sources_rows<Where>(table);
    half_sources_rows<Where>(table);
}

const std::vector<DslashKernel> &dslash_table() {
    static const std::vector<DslashKernel> table = [] {
        std::vector<DslashKernel> rows, cut;
        add_all<OnThisBackend>(rows);
#if defined(MILCGPU_WITH_CUDA)
        add_all<CutLattice>(cut);
#else
        std::copy_if(rows.begin(), rows.end(), std::back_inserter(cut),
                     [](const DslashKernel &row) { return !row.checks; });
#endif
        size_t k = 0;
        for (DslashKernel &row : rows)
            if (!row.checks)
                row.cut = cut[k++].whole;
        return rows;
    }();
    return table;
}

namespace {
bool serves(const DslashKernel &row, Epilogue epilogue, int sources) { // except for precisions and reals
    return row.epilogue == epilogue && !row.checks && sources <= row.most_sources &&
           (row.most_sources == 1) == (sources == 1);
}
} // namespace

const DslashKernel *look_for_dslash(Precision spinor, Precision link, int reals, Epilogue epilogue, int sources) {
    for (const DslashKernel &row : dslash_table())
        if (serves(row, epilogue, sources) && row.spinor == spinor && row.link == link && row.reals == reals)
            return &row;
    return nullptr;
}

const DslashKernel &find_dslash(Precision spinor, Precision link, int reals, Epilogue epilogue, int sources) {
    if (const DslashKernel *row = look_for_dslash(spinor, link, reals, epilogue, sources))
        return *row;
    std::string built;
    for (const DslashKernel &row : dslash_table())
        if (serves(row, epilogue, sources))
            built += format(" %s/%s/%d", name(row.spinor), name(row.link), row.reals);
    throw Error(Status::not_built,
                format("no dslash kernel for spinor %s, link %s, %d reals a long link, epilogue %s, %d source%s; "
                       "built (spinor/link/reals):%s",
                       name(spinor), name(link), reals, name(epilogue), sources, sources == 1 ? "" : "s",
                       built.empty() ? " none" : built.c_str()));
}

const DslashKernel *find_checked_dslash(Precision spinor, Precision link, int reals, Epilogue epilogue) {
    for (const DslashKernel &row : dslash_table())
        if (row.checks && row.spinor == spinor && row.link == link && row.reals == reals && row.epilogue == epilogue)
            return &row;
    return nullptr;
}

void check_call(const DslashCall &call, Epilogue epilogue) {
    const auto fits = [&](const SpinorBlock &block) {
        return block.precision == call.in.precision && block.stride == call.in.stride &&
               block.sources == call.in.sources && (block.sources == 1 || block.source_bytes == call.in.source_bytes);
    };
    const bool spinors_fit =
        fits(call.out) && (epilogue == Epilogue::plain || fits(call.x)) &&
        (epilogue != Epilogue::residual || fits(call.z)) &&
        (epilogue != Epilogue::step || (fits(call.z) && fits(call.s) && call.cg != nullptr)) &&
        (call.in.sources == 1 || call.sum == nullptr) &&
        (call.in.sources == 1 || call.cg == nullptr || epilogue == Epilogue::plain || epilogue == Epilogue::step);
    const bool checks_fit = call.checksums == nullptr ||
                            (call.in.sources == 1 && find_checked_dslash(call.in.precision, call.fat->precision(),
                                                                         call.lng->reals(), epilogue) != nullptr);
    if (!spinors_fit || !checks_fit || call.fat->precision() != call.lng->precision() || call.fat->reals() != 18 ||
        call.in.data == call.out.data)
        throw Error(Status::bad_argument,
                    "dslash: needs spinors of one precision, equal numbers of sources, in and out that differ, scalars "
                    "for a step and for sums of several sources, and links of one precision with 18 reals a fat link; "
                    "only the rows that milcgpu_kernels_list marks compute checksums");
}

void dslash(Device &device, const DslashCall &call, Epilogue epilogue) {
    check_call(call, epilogue);
    const Precision spinor = call.in.precision, link = call.fat->precision();
    const int reals = call.lng->reals();
    const DslashKernel &row = call.checksums != nullptr ? *find_checked_dslash(spinor, link, reals, epilogue)
                                                        : find_dslash(spinor, link, reals, epilogue, call.in.sources);
    row.launch(device, call, epilogue);
}

size_t dslash_bytes(Precision spinor, Precision link, int reals, Epilogue epilogue, size_t sites) {
    return sites *
           (8 * link_bytes(link, 18) + 8 * link_bytes(link, reals) + traits(epilogue).spinors * spinor_bytes(spinor));
}

size_t dslash_flops(Epilogue epilogue, size_t sites) { return sites * (1146 + traits(epilogue).flops); }

} // namespace milcgpu
