// Arguments and reports of solves, of all families.
#pragma once
#include "gpu_kernels/solver/cg.h"
#include "milc_glue/api/context.h"

namespace milcgpu {

// The checked storage of an operator. find(spec): throws if its kernels are not built.
template <class Find> OperatorSpec operator_of(const milcgpu_storage &given, const char *what, const Find &find) {
    OperatorSpec spec;
    spec.spinor = precision_of(given.precision, format("%s.precision", what).c_str());
    spec.link = spec.spinor;
    spec.reals = given.reconstruct == 0 ? 18 : given.reconstruct;
    try {
        find(spec);
    } catch (const Error &error) {
        throw Error(error.status(), format("%s.reconstruct is %d: %s", what, given.reconstruct, error.what()));
    }
    return spec;
}
OperatorSpec operator_of(const milcgpu_storage &given, const char *what); // staggered
// The checked specification of one solve.
struct SolveArguments {
    int parity;
    OperatorSpec precise, sloppy;
    CgLimits limits;
};
SolveArguments checked_solve(const milcgpu_solve_spec &);
std::vector<int> parities_of(int parity); // also 0 and 1 for MILCGPU_EVEN_AND_ODD
inline double shift_of_mass(double mass) { return 4 * mass * mass; }
void check_pair(const OperatorSpec &precise, const OperatorSpec &sloppy); // throws not_built
void check_iterations(int max_iterations, int max_restarts);              // throws if their product is too large
// The storages and limits of a solve, checked. find: as operator_of's.
template <class Spec, class Find> SolveArguments arguments_of(const Spec &spec, const Find &find) {
    SolveArguments a{};
    a.precise = operator_of(spec.precise, "spec.precise", find);
    a.sloppy = spec.sloppy.precision == 0 ? a.precise : operator_of(spec.sloppy, "spec.sloppy", find);
    check_pair(a.precise, a.sloppy);
    a.sloppy.allows_half_links = a.precise.spinor == Precision::double_ && a.sloppy.spinor == Precision::single;
    check_iterations(spec.max_iterations, spec.max_restarts);
    a.limits.tolerance = spec.tolerance;
    a.limits.max_iterations = spec.max_iterations;
    a.limits.max_restarts = spec.max_restarts;
    a.limits.reliable_delta = spec.reliable_delta;
    a.limits.jump_limit = spec.jump_limit;
    return a;
}

// The members that each of several sources has for itself. checked_sources: checks the arguments of all n sources and
// returns those of the first.
struct OfEachSource {
    std::vector<double> tolerances;
    std::vector<int> max_iterations;
    int loose = 0; // the number of loose sources (ladder::is_loose)
};
SolveArguments checked_sources(const milcgpu_solve_spec &, int n, OfEachSource &);
milcgpu_solve_spec spec_of_source(const milcgpu_solve_spec &, int k); // of source k alone
void check_together(int together, int n);
// How many of n sources are solved at once: groups of equal size, of at most most_block. 1: one by one because of these
// arguments.
int sources_at_once(int n, int together, bool some_are_loose);
// Calls make(most); halves `most` while memory is short.
template <class Make> void make_for_most(int most, const Make &make) {
    for (;; most = (most + 1) / 2)
        try {
            return make(most);
        } catch (const Error &error) {
            if (error.status() != Status::no_memory || most == 1)
                throw;
        }
}
// The caller's progress function. The specification must outlive the solve.
template <class Spec> CgProgress progress_of(milcgpu_context &context, const Spec &spec) {
    if (spec.progress == nullptr)
        return {};
    return [&](int step, double residual) {
        context.callbacks.run("spec.progress", [&] { spec.progress(spec.user, step, residual); });
        context.device->make_current();
    };
}
// Rates of a solver that took this many seconds.
template <class Report> void fill_rates(double seconds, double flops, double bytes, Report &report) {
    report.solver_seconds = seconds;
    if (seconds > 0)
        report.gflops = flops / seconds * 1e-9, report.gbytes_per_second = bytes / seconds * 1e-9;
}
// Fills all from the solver's report, except seconds and bytes of the call.
void fill_report(const CgReport &, const SolveArguments &, milcgpu_solve_report &);
// For the message of a report: words if the source is 0, as one is that lives on the other parity; else empty.
const char *if_zero(Status status, double source_norm);
// milcgpu_staggered_residual, with MILC's relative residual unless relative is nullptr.
milcgpu_status true_residuals(milcgpu_links *, int parity, double mass, const milcgpu_field *source,
                              const milcgpu_field *solution, double *residual, double *relative);

} // namespace milcgpu
