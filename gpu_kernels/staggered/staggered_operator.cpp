#include "gpu_kernels/staggered/staggered_operator.h"
#include "gpu_kernels/fields/lane_links.h"
#include "gpu_kernels/halo/halo.h"
#include "gpu_kernels/machine/backend/device.h"

namespace milcgpu {

StaggeredOperator::StaggeredOperator(const Geometry &geometry, int parity, const OperatorSpec &spec,
                                     const LinkPair &links, Halo *halo)
    : StencilOperator(geometry, parity, spec, halo), links_(links),
      checked_residual_(look_for_dslash({spec.spinor, spec.link, spec.reals, Epilogue::residual, 1, 4, true})) {
    const bool lanes = links.lanes != nullptr || (spec.link == Precision::half && spec.spinor != spec.link);
    for (const EpilogueTraits &end : epilogues)
        one_source_[static_cast<int>(end.epilogue)] = &find_kernel(
            dslash_table(), "dslash", {spec.spinor, spec.link, spec.reals, end.epilogue, 1, 4, false, lanes});
}

OperatorSpec StaggeredOperator::of_lanes(OperatorSpec spec) {
    if (spec.allows_half_links && LaneLinks::built(spec.spinor, Precision::half, spec.reals))
        spec.link = Precision::half;
    return spec;
}

bool StaggeredOperator::takes_lanes(const OperatorSpec &spec) {
    const bool pays = !spec.for_residuals || spec.link != Precision::double_; // in double memory limits D
    return pays && LaneLinks::built(spec.spinor, spec.link, spec.reals);
}

const DslashKernel &StaggeredOperator::kernel(Epilogue epilogue, const HalfCall &half) const {
    if (half.checksums != nullptr)
        return *checked_residual_;
    const KernelKey &one = *one_source_[static_cast<int>(epilogue)];
    return half.in.sources == 1
               ? *one_source_[static_cast<int>(epilogue)]
               : find_kernel(dslash_table(), "dslash",
                             {one.spinor, one.link, one.reals, epilogue, half.in.sources, 4, false, one.lanes});
}

void StaggeredOperator::apply_half(Device &device, const HalfCall &half, Epilogue epilogue) const {
    const int onto = epilogue == Epilogue::plain ? 1 - parity() : parity();
    DslashCall D = call_on<DslashCall>(half, geometry().lattice(), onto);
    D.fat = links_.fat, D.lng = links_.lng;
    const DslashKernel &row = kernel(epilogue, half);
    D.lanes = row.lanes ? links_.lanes : nullptr;
    check_call(D, epilogue);
    if (halo() != nullptr && half.in.sources > 1 && half.cg == nullptr && halo()->goes_beside(onto)) {
        halo()->exchange_beside(half.in, 1 - onto, [&] {
            D.tiles = halo()->tiles(Tiles::Which::inner);
            row.whole(device, D, epilogue);
        });
        D.tiles = halo()->tiles(Tiles::Which::at_cut);
    } else if (halo() != nullptr) {
        const ActiveSources active{half.cg != nullptr ? &half.cg->active : nullptr, sizeof(CgState)};
        D.exchange = halo()->before_dslash(half.in, 1 - onto, {half.in_sent, half.send_out}, active);
    }
    row.launch(device, D, epilogue);
}

void StaggeredOperator::send(Device &, const SpinorBlock &x) const {
    if (halo() != nullptr)
        halo()->send(x, parity());
}

SendOut StaggeredOperator::send_out() const { return halo() != nullptr ? halo()->send_out(parity()) : SendOut{}; }

std::vector<Region> StaggeredOperator::checked_regions() const {
    std::vector<Region> regions = {links_.fat->region("fat links"), links_.lng->region("long links")};
    if (links_.lanes != nullptr)
        regions.push_back(links_.lanes->region());
    return regions;
}

} // namespace milcgpu
