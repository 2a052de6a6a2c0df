#include "gpu_kernels/laplace/laplace_operator.h"
#include "gpu_kernels/halo/halo.h"
#include <cmath>

namespace milcgpu {

void check_directions(int directions) {
    if (directions != 3 && directions != 4)
        throw Error(Status::bad_argument,
                    format("Laplace operator in %d directions: it must be 3 (X Y Z) or 4", directions));
}

void check_laplace(int directions, double kappa) {
    check_directions(directions);
    if (!(kappa > 0 && 2 * directions * kappa < 1))
        throw Error(
            Status::bad_argument,
            format("kappa is %.17g: must be positive and below 1 / %d, or the operator in %d directions may have a "
                   "zero or negative eigenvalue",
                   kappa, 2 * directions, directions));
}

LaplaceOperator::LaplaceOperator(const Geometry &geometry, int parity, const OperatorSpec &spec, const LinkField &links,
                                 int directions, double kappa, Halo *halo)
    : NormalOperator(geometry, parity, spec), links_(&links), directions_(directions), kappa_(kappa), halo_(halo) {
    check_laplace(directions, kappa);
    if (spec.spinor != spec.link || spec.link != links.precision() || spec.reals != links.reals())
        throw Error(Status::bad_argument,
                    "Laplace operator: needs vectors and links of one precision, and the reals of these links");
    find_laplace(spec.spinor, spec.reals, directions, Epilogue::residual);
}

void LaplaceOperator::launch(Device &device, const HalfCall &half, Epilogue epilogue, int to,
                             bool links_at_rest) const {
    LaplaceCall call{};
    static_cast<HalfCall &>(call) = half;
    call.lattice = geometry().lattice();
    call.halo = halo_;
    call.parity = to;
    call.directions = directions_;
    call.links = links_;
    call.kappa = kappa_;
    call.links_at_rest = links_at_rest;
    laplace(device, call, epilogue);
}

void LaplaceOperator::apply_half(Device &device, const HalfCall &half, Epilogue epilogue) const {
    // The launch before the second half is the first half. With one of these the launch before the first half is
    // another D, or a step of a solve.
    const bool first = epilogue == Epilogue::plain,
               in_solve = half.pending != nullptr || half.gate != nullptr || half.cg != nullptr;
    launch(device, half, epilogue, first ? 1 - parity() : parity(), !first || in_solve);
}

void LaplaceOperator::add_neighbours(Device &device, int on, const SpinorBlock &z, const SpinorBlock &in,
                                     const SpinorBlock &out) const {
    HalfCall call;
    call.in = in, call.out = out;
    call.x = z, call.z = z;
    call.a = 0, call.alpha = 1;
    launch(device, call, Epilogue::residual, on, false);
}

void LaplaceOperator::residual_on(Device &device, int on, const SpinorBlock &b, const SpinorBlock &x,
                                  const SpinorBlock &x_other, const SpinorBlock &out, double *sum) const {
    HalfCall call;
    call.in = x_other, call.out = out;
    call.x = x, call.z = b;
    call.a = 1, call.alpha = 1;
    call.sum = sum;
    launch(device, call, Epilogue::residual, on, false);
}

SpinorField LaplaceOperator::between(Device &device, const char *owner, int sources) const {
    return {device, spec().spinor, geometry(), 1 - parity(), owner, sources};
}

// As for staggered fermions: an element of a link has the error q = scale epsilon / sqrt(12), so B has the error kappa
// sqrt(2 d * 6) q for each colour vector, and B itself is about kappa sqrt(2 d) on rough vectors.
double LaplaceOperator::rounding(Precision p) const {
    const double epsilon = p == Precision::half ? 1.0 / 32768 : p == Precision::single ? 1.0 / (1 << 24) : 0;
    const double hops = 2 * directions_;
    return kappa_ * std::sqrt(hops) * kappa_ * std::sqrt(6 * hops) * links_->scale * epsilon / std::sqrt(12.0);
}

double LaplaceOperator::lowest(double of_shift) const {
    const double largest = 2 * directions_ * kappa_;
    return of_shift - largest * largest;
}

double LaplaceOperator::flops(Epilogue second) const {
    return double(laplace_flops(directions_, Epilogue::plain, sites_between())) +
           double(laplace_flops(directions_, second, geometry().sites(parity())));
}

double LaplaceOperator::bytes(Epilogue second) const {
    return double(laplace_bytes(spec().spinor, spec().reals, directions_, Epilogue::plain, sites_between())) +
           double(laplace_bytes(spec().spinor, spec().reals, directions_, second, geometry().sites(parity())));
}

bool LaplaceOperator::needs_host() const { return halo_ != nullptr && halo_->needs_host(); }

} // namespace milcgpu
