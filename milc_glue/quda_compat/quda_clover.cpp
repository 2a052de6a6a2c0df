// Solves with the clover matrix of quda_milc_interface.h. Vectors of these calls are gamma_5 times MILC's, because that
// interface has D_- where MILC has D_+ = gamma_5 D_- gamma_5.
#include "milc_glue/quda_compat/internal.h"
#include <cmath>
#include <cstdlib>
#include <cstring>

using namespace milcgpu::quda;

namespace {

constexpr int reals_of_vector = 24;

// to = gamma_5 from = (from_0, from_1, -from_2, -from_3) on all sites. `to` and `from` may be the same field.
template <class Real> void times_gamma_5(const Real *from, Real *to) {
    const size_t reals = reals_of_vector * lattice.sites();
    for (size_t i = 0; i < reals; ++i)
        to[i] = i % reals_of_vector < reals_of_vector / 2 ? from[i] : -from[i];
}

void times_gamma_5(int precision, const void *from, void *to) {
    if (precision == 1)
        times_gamma_5(static_cast<const float *>(from), static_cast<float *>(to));
    else
        times_gamma_5(static_cast<const double *>(from), static_cast<double *>(to));
}

using Room = std::unique_ptr<void, decltype(&std::free)>;

// Why a call cannot be done; nullptr: it can.
const char *refusal(int precision, double kappa, double tolerance, double relative, const void *links,
                    const void *source, const void *solution) {
    return lattice.ranks == 0                                             ? "called before qudaInit"
           : precision != 1 && precision != 2                             ? "precision must be 1 (float) or 2 (double)"
           : links == nullptr || source == nullptr || solution == nullptr ? "links and vectors must not be NULL"
           : !(kappa > 0)                                                 ? "kappa must be above 0"
           : !(tolerance > 0) && !(relative > 0) ? "no tolerance is given: one must be above 0, and so must its square"
                                                 : nullptr;
}

} // namespace

extern "C" void qudaCloverInvert(int external_precision, int, double kappa, double clover_coeff,
                                 QudaInvertArgs_t inv_args, double target_residual, double target_fermilab_residual,
                                 const void *link, void *, void *, void *source, void *solution, double *final_residual,
                                 double *final_fermilab_residual, int *num_iters) {
    *final_residual = *final_fermilab_residual = INFINITY;
    *num_iters = 0;
    const size_t reals = lattice.ranks > 0 ? reals_of_vector * lattice.sites() : 0;
    const bool good = guarded(__func__, [&] {
        const double tolerance = milcgpu_tolerance(target_residual, external_precision),
                     relative = milcgpu_tolerance(target_fermilab_residual, external_precision);
        if (const char *why = refusal(external_precision, kappa, tolerance, relative, link, source, solution)) {
            complain("qudaCloverInvert", why);
            return false;
        }
        if (!start("qudaCloverInvert", external_precision))
            return false;
        const Room scratch(milcgpu::host_allocate(reals * bytes_of(external_precision)), std::free);
        if (milcgpu_plugin_agreed(scratch == nullptr) != 0) { // a failure on one rank is a failure on all
            complain("qudaCloverInvert", "no room in the host's memory");
            return false;
        }
        times_gamma_5(external_precision, source, scratch.get());
        std::memset(solution, 0, reals * bytes_of(external_precision)); // MILC passes no guess
        milcgpu_plugin_clover_call call{};
        call.mixed = inv_args.mixed_precision;
        call.links = packed(const_cast<void *>(link), external_precision);
        call.kappa = kappa;
        call.clover = clover_coeff / kappa;
        call.tolerance = tolerance;
        call.relative_tolerance = relative;
        call.source = packed(scratch.get(), external_precision);
        call.solution = packed(solution, external_precision);
        call.max_iterations = inv_args.max_iter;
        call.max_restarts = most_starts, call.limit_of_all = 1;
        milcgpu_solve_report report{};
        if (!done("qudaCloverInvert", external_precision,
                  [&] { return milcgpu_plugin_clover_solve(&call, &report) != 0; }))
            return false;
        *num_iters = report.iterations;
        times_gamma_5(external_precision, solution, solution);
        *final_residual = report.true_residual;
        *final_fermilab_residual = relative > 0 ? report.relative_residual : 1;
        return true;
    });
    if (!good)
        fill_with_nan(solution, reals, external_precision);
}
