#include "gpu_kernels/staggered/dslash.h"
#include "gpu_kernels/fields/lane_links.h"

namespace milcgpu {

// Each is instantiated separately (staggered_rows.cu).
template <class Where> void double_rows(std::vector<DslashKernel> &);
template <class Where> void true_residual_rows(std::vector<DslashKernel> &);
template <class Where> void single_rows(std::vector<DslashKernel> &);
template <class Where> void half_rows(std::vector<DslashKernel> &);
template <class Where> void double_sources_rows(std::vector<DslashKernel> &);
template <class Where> void single_sources_rows(std::vector<DslashKernel> &);
template <class Where> void single_fewer_reals_rows(std::vector<DslashKernel> &);
template <class Where> void half_sources_rows(std::vector<DslashKernel> &);
template <class Where> void lanes_rows(std::vector<DslashKernel> &);

const std::vector<DslashKernel> &dslash_table() {
    static const auto table = table_of<DslashKernel>([](auto rows, std::vector<DslashKernel> &to) {
        using Where = typename decltype(rows)::Where;
        double_rows<Where>(to), true_residual_rows<Where>(to), single_rows<Where>(to), half_rows<Where>(to);
        double_sources_rows<Where>(to), single_sources_rows<Where>(to);
        single_fewer_reals_rows<Where>(to), half_sources_rows<Where>(to);
#if !defined(MILCGPU_WITH_CUDA)
        lanes_rows<Where>(to);
#endif
    });
    return table;
}

const DslashKernel *look_for_dslash(const KernelKey &wanted) { return look_for_kernel(dslash_table(), wanted); }

const DslashKernel &find_dslash(Precision spinor, Precision link, int reals, Epilogue epilogue, int sources) {
    return find_kernel(dslash_table(), "dslash", {spinor, link, reals, epilogue, sources});
}

namespace {
KernelKey key_of(const DslashCall &call, Epilogue epilogue) {
    const bool lanes = call.lanes != nullptr;
    return {call.in.precision,         lanes ? call.lanes->precision() : call.fat->precision(),
            call.lng->reals(),         epilogue,
            call.in.sources,           4,
            call.checksums != nullptr, lanes};
}
} // namespace

void check_call(const DslashCall &call, Epilogue epilogue) {
    const bool checks_fit = call.checksums == nullptr || look_for_dslash(key_of(call, epilogue)) != nullptr;
    const bool lanes_fit =
        call.lanes == nullptr || LaneLinks::built(call.in.precision, call.lanes->precision(), call.lng->reals());
    if (!fields_fit(call, epilogue) || !checks_fit || !lanes_fit || call.fat->precision() != call.lng->precision() ||
        call.fat->reals() != 18)
        throw Error(Status::bad_argument,
                    "dslash: needs spinors of one precision, equal numbers of sources, in and out that differ, scalars "
                    "for a step and for sums of several sources, and links of one precision with 18 reals a fat link; "
                    "only the rows that milcgpu_kernels_list marks compute checksums");
}

void dslash(Device &device, const DslashCall &call, Epilogue epilogue) {
    check_call(call, epilogue);
    find_kernel(dslash_table(), "dslash", key_of(call, epilogue)).launch(device, call, epilogue);
}

size_t dslash_bytes(Precision spinor, Precision link, int reals, Epilogue epilogue, size_t sites) {
    return sites *
           (8 * link_bytes(link, 18) + 8 * link_bytes(link, reals) + traits(epilogue).spinors * spinor_bytes(spinor));
}

size_t dslash_flops(Epilogue epilogue, size_t sites) { return sites * (1146 + traits(epilogue).flops); }

} // namespace milcgpu
