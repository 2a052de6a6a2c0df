#include "gpu_kernels/wilson/wilson_operator.h"
#include "gpu_kernels/halo/halo.h"
#include "gpu_kernels/machine/backend/device.h"

namespace milcgpu {

WilsonMatrix::WilsonMatrix(Device &device, const Geometry &geometry, int parity, const OperatorSpec &spec,
                           const LinkField &links, double kappa, const CloverPair &clover, WilsonHalo *halo)
    : LinearOperator(geometry, parity, spec, wilson_components), links_(links), kappa_(kappa), clover_(clover),
      halo_(halo) {
    find_wilson(spec.spinor, spec.link, spec.reals);
    if (geometry.is_cut())
        throw Error(Status::bad_argument,
                    "Wilson operator: the geometry has ghosts. Pass Geometry::without_ghosts() and a WilsonHalo");
    allocate(device, 1);
}

void WilsonMatrix::allocate(Device &device, int sources) const {
    if (middle_.empty() || middle_.back().sources() < sources)
        middle_.emplace_back(device, spec().spinor, geometry(), 1 - parity(), "Wilson vectors", sources, components());
}

SpinorBlock WilsonMatrix::middle(int sources) const {
    for (const SpinorField &scratch : middle_)
        if (scratch.sources() >= sources)
            return scratch.block().first(sources);
    throw Error(Status::bad_argument, format("Wilson operator: %d sources at once, but it has memory for %d. Allocate "
                                             "the fields between its halves for as many (NormalOperator::between)",
                                             sources, middle_.back().sources()));
}

std::vector<Region> WilsonMatrix::checked_regions() const {
    std::vector<Region> all = {links_.region("links of Wilson fermions")};
    if (clover_.term != nullptr)
        join(all, {clover_.term->region("clover term"), clover_.inverse->region("inverse of the clover term")});
    return all;
}

WilsonCall WilsonMatrix::call_on(const HalfCall &half, int parity, int sign) const {
    auto call = milcgpu::call_on<WilsonCall>(half, halo_ != nullptr ? halo_->lattice : geometry().lattice(), parity);
    call.halo = halo_;
    call.links = &links_;
    call.sign = sign;
    return call;
}

void WilsonMatrix::hop_to_middle(Device &device, const HalfCall &half, int sign, bool after_step) const {
    WilsonCall hop = call_on(half, 1 - parity(), sign);
    hop.form = WilsonForm::hop;
    hop.clover = clover_.inverse;
    hop.out = middle(half.in.sources);
    hop.after_step = after_step;
    // The previous launch is another D, or a step of a solve.
    hop.links_at_rest = half.pending != nullptr || half.gate != nullptr || half.cg != nullptr;
    hop.sum = hop.defer = nullptr;
    wilson(device, hop, Epilogue::plain);
}

WilsonCall WilsonMatrix::back(const HalfCall &half, const SpinorBlock &own, int sign) const {
    WilsonCall call = call_on(half, parity(), sign);
    call.form = WilsonForm::matrix;
    call.factor = kappa_ * kappa_;
    call.clover = clover_.term;
    call.links_at_rest = true; // the previous launch is the hop
    call.in = middle(half.in.sources);
    call.own = own;
    call.pending = nullptr;
    return call;
}

void WilsonMatrix::return_from_middle(Device &device, const HalfCall &half, const SpinorBlock &own, Epilogue epilogue,
                                      int sign) const {
    wilson(device, back(half, own, sign), epilogue);
}

void WilsonMatrix::apply(Device &device, const MatrixCall &call, int sign) const {
    HalfCall half;
    half.in = call.in, half.out = call.out;
    half.gate = call.gate;
    hop_to_middle(device, half, sign, false);
    WilsonCall matrix = back(half, call.in, sign);
    matrix.with = call.with;
    matrix.dots = call.sums;
    wilson(device, matrix, Epilogue::plain);
}

double WilsonMatrix::flops(const WilsonEnd &end) const {
    const bool clover = clover_.term != nullptr;
    return double(wilson_flops({WilsonForm::hop, Epilogue::plain, false}, clover, geometry().sites(1 - parity()))) +
           double(wilson_flops(end, clover, geometry().sites(parity())));
}

double WilsonMatrix::bytes(const WilsonEnd &end) const {
    const auto launch = [this](const WilsonEnd &e, int on) {
        return double(
            wilson_bytes(spec().spinor, spec().link, spec().reals, e, clover_.term != nullptr, geometry().sites(on)));
    };
    return launch({WilsonForm::hop, Epilogue::plain, false}, 1 - parity()) + launch(end, parity());
}

void WilsonNormal::apply_half(Device &device, const HalfCall &half, Epilogue epilogue) const {
    const bool first = epilogue == Epilogue::plain;
    const int sign = first ? 1 : -1;
    matrix_->hop_to_middle(device, half, sign, first);
    matrix_->return_from_middle(device, half, half.in, epilogue, sign);
}

double WilsonNormal::flops(Epilogue second) const {
    return matrix_->flops({WilsonForm::matrix, Epilogue::plain, false}) +
           matrix_->flops({WilsonForm::matrix, second, false});
}

double WilsonNormal::bytes(Epilogue second) const {
    return matrix_->bytes({WilsonForm::matrix, Epilogue::plain, false}) +
           matrix_->bytes({WilsonForm::matrix, second, false});
}

bool WilsonMatrix::needs_host() const { return halo_ != nullptr && halo_->halo.needs_host(); }

} // namespace milcgpu
