#include "gpu_kernels/laplace/laplace_operator.h"
#include "gpu_kernels/halo/halo.h"

namespace milcgpu {

void check_laplace(int directions, double kappa) {
    if (directions != 3 && directions != 4)
        throw Error(Status::bad_argument,
                    format("Laplace operator in %d directions: it must be 3 (X Y Z) or 4", directions));
    if (!(kappa > 0 && 2 * directions * kappa < 1))
        throw Error(
            Status::bad_argument,
            format("kappa is %.17g: must be positive and below 1 / %d, or the operator in %d directions may have a "
                   "zero or negative eigenvalue",
                   kappa, 2 * directions, directions));
}

LaplaceOperator::LaplaceOperator(const Geometry &geometry, int parity, const OperatorSpec &spec, const LinkField &links,
                                 int directions, double kappa, Halo *halo)
    : StencilOperator(geometry, parity, spec, halo), links_(&links), directions_(directions), kappa_(kappa) {
    check_laplace(directions, kappa);
    find_laplace(spec.spinor, spec.reals, directions, Epilogue::residual);
}

void LaplaceOperator::launch(Device &device, const HalfCall &half, Epilogue epilogue, int to,
                             bool links_at_rest) const {
    auto call = call_on<LaplaceCall>(half, geometry().lattice(), to);
    call.halo = halo();
    call.directions = directions_, call.links = links_, call.kappa = kappa_;
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

void LaplaceOperator::add_neighbours(Device &device, int on, double a, const ResidualFields &of, double *sum) const {
    HalfCall call;
    call.in = of.between, call.out = of.out;
    call.x = of.x, call.z = of.b;
    call.a = a, call.alpha = 1;
    call.sum = sum;
    launch(device, call, Epilogue::residual, on, false);
}

// D has 2 d links, and B = kappa D multiplies rough vectors by about kappa sqrt(2 d).
double LaplaceOperator::rounding(Precision p) const {
    const double hops = 2 * directions_;
    return error_of_links(p, kappa_ * std::sqrt(hops) * kappa_ * std::sqrt(6 * hops), links_->scale);
}

double LaplaceOperator::lowest(double of_shift) const {
    const double largest = 2 * directions_ * kappa_;
    return of_shift - largest * largest;
}

bool LaplaceOperator::needs_host() const { return halo() != nullptr && halo()->needs_host(); }

} // namespace milcgpu
