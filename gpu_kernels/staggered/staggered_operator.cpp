#include "gpu_kernels/staggered/staggered_operator.h"
#include "gpu_kernels/halo/halo.h"
#include "gpu_kernels/machine/backend/device.h"
#include <cmath>

namespace milcgpu {

StaggeredOperator::StaggeredOperator(const Geometry &geometry, int parity, const OperatorSpec &spec,
                                     const LinkPair &links, Halo *halo)
    : NormalOperator(geometry, parity, spec), links_(links), halo_(halo),
      checked_residual_(find_checked_dslash(spec.spinor, spec.link, spec.reals, Epilogue::residual)) {
    for (const EpilogueTraits &end : epilogues)
        one_source_[static_cast<int>(end.epilogue)] = &find_dslash(spec.spinor, spec.link, spec.reals, end.epilogue);
}

const DslashKernel &StaggeredOperator::kernel(Epilogue epilogue, const HalfCall &half) const {
    if (half.checksums != nullptr)
        return *checked_residual_;
    return half.in.sources == 1 ? *one_source_[static_cast<int>(epilogue)]
                                : find_dslash(spec().spinor, spec().link, spec().reals, epilogue, half.in.sources);
}

void StaggeredOperator::apply_half(Device &device, const HalfCall &half, Epilogue epilogue) const {
    const int onto = epilogue == Epilogue::plain ? 1 - parity() : parity();
    DslashCall D{};
    static_cast<HalfCall &>(D) = half;
    D.lattice = geometry().lattice();
    D.parity = onto;
    D.fat = links_.fat, D.lng = links_.lng;
    check_call(D, epilogue);
    const DslashKernel &row = kernel(epilogue, half);
    if (halo_ != nullptr && half.in.sources > 1 && half.cg == nullptr && halo_->goes_beside(onto)) {
        halo_->exchange_beside(half.in, 1 - onto, [&] {
            D.tiles = halo_->tiles(Tiles::Which::inner);
            row.whole(device, D, epilogue);
        });
        D.tiles = halo_->tiles(Tiles::Which::at_cut);
    } else if (halo_ != nullptr) {
        const ActiveSources active{half.cg != nullptr ? &half.cg->active : nullptr, sizeof(CgState)};
        D.exchange = halo_->before_dslash(half.in, 1 - onto, {half.in_sent, half.send_out}, active);
    }
    row.launch(device, D, epilogue);
}

void StaggeredOperator::send(Device &, const SpinorBlock &x) const {
    if (halo_ != nullptr)
        halo_->send(x, parity());
}

SendOut StaggeredOperator::send_out() const { return halo_ != nullptr ? halo_->send_out(parity()) : SendOut{}; }

SpinorField StaggeredOperator::between(Device &device, const char *owner, int sources) const {
    return {device, spec().spinor, geometry(), 1 - parity(), owner, sources};
}

// Rounded links change D by dD, and the residual b - A x by about |D dD x|. An element of a link has the error q =
// scale epsilon / sqrt(12) on average. So dD changes a colour vector by sqrt(8 * 6) q (8 fat links, 6 terms each), and
// D itself multiplies a rough vector by about 2.5.
double StaggeredOperator::rounding(Precision p) const {
    const double epsilon = p == Precision::half ? 1.0 / 32768 : p == Precision::single ? 1.0 / (1 << 24) : 0;
    return 2.5 * std::sqrt(48.0) * links_.fat->scale * epsilon / std::sqrt(12.0);
}

std::vector<Region> StaggeredOperator::checked_regions() const {
    return {links_.fat->region("fat links"), links_.lng->region("long links")};
}

double StaggeredOperator::flops(Epilogue second) const {
    return double(dslash_flops(Epilogue::plain, sites_between())) +
           double(dslash_flops(second, geometry().sites(parity())));
}

double StaggeredOperator::bytes(Epilogue second) const {
    const auto half = [this](Epilogue e, size_t sites) {
        return double(dslash_bytes(spec().spinor, spec().link, spec().reals, e, sites));
    };
    return half(Epilogue::plain, sites_between()) + half(second, geometry().sites(parity()));
}

} // namespace milcgpu
