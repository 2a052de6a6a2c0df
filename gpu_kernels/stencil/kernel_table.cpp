#include "gpu_kernels/stencil/kernel_table.h"

namespace milcgpu {

void refuse_kernel(const char *of, const KernelKey &wanted, const std::vector<KernelKey> &built) {
    std::string list;
    for (const KernelKey &row : built)
        if (row.does(wanted))
            list += format(" %s/%s/%d/%d", name(row.spinor), name(row.link), row.reals, row.directions);
    throw Error(Status::not_built,
                format("no %s kernel for epilogue %s, %d source%s, %d directions, spinor %s, link %s, %d reals a link; "
                       "built (spinor/link/reals/directions):%s",
                       of, name(wanted.epilogue), wanted.most_sources, wanted.most_sources == 1 ? "" : "s",
                       wanted.directions, name(wanted.spinor), name(wanted.link), wanted.reals,
                       list.empty() ? " none" : list.c_str()));
}

bool is_like(const SpinorBlock &field, const SpinorBlock &other) {
    return field && field.precision == other.precision && field.components == other.components &&
           field.stride == other.stride && field.sources == other.sources &&
           (field.sources == 1 || field.source_bytes == other.source_bytes);
}

bool fields_fit(const HalfCall &call, Epilogue epilogue) {
    const bool plain = epilogue == Epilogue::plain, step = epilogue == Epilogue::step;
    const auto fits = [&call](const SpinorBlock &field) { return is_like(field, call.in); };
    return call.in && fits(call.out) && call.in.data != call.out.data && (plain || fits(call.x)) &&
           (!(step || epilogue == Epilogue::residual) || fits(call.z)) &&
           (!step || (fits(call.s) && call.cg != nullptr)) &&
           (call.in.sources == 1 || (call.sum == nullptr && (call.cg == nullptr || plain || step)));
}

} // namespace milcgpu
