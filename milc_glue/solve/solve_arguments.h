// Arguments and reports of solves, of all families.
#pragma once
#include "gpu_kernels/solver/cg.h"
#include "milc_glue/api/context.h"

namespace milcgpu {

OperatorSpec operator_of(const milcgpu_storage &given, const char *what);
// A specification of one solve, looked over.
struct SolveArguments {
    int parity;
    OperatorSpec precise, sloppy;
    CgLimits limits;
};
SolveArguments checked_solve(const milcgpu_solve_spec &);
inline double shift_of_mass(double mass) { return 4 * mass * mass; }
void check_iterations(int max_iterations, int max_restarts); // throws where their product is too large

// Several sources: what each has for itself, and the arguments of the first of n, looked over with those of the others.
struct OfEachSource {
    std::vector<double> tolerances;
    std::vector<int> max_iterations;
    int loose = 0; // so many: ladder::is_loose
};
SolveArguments checked_sources(const milcgpu_solve_spec &, int n, OfEachSource &);
milcgpu_solve_spec spec_of_source(const milcgpu_solve_spec &, int k); // of source k alone
void check_together(int together, int n);
// Of n sources in a call, some of them loose or none: groups alike, of at most most_block. 1: one by one, as far as the
// arguments say.
int sources_at_once(int n, int together, bool some_are_loose);
// make(most), or with half of them while memory is short.
template <class Make> void make_for_most(int most, const Make &make) {
    for (;; most = (most + 1) / 2)
        try {
            return make(most);
        } catch (const Error &error) {
            if (error.status() != Status::no_memory || most == 1)
                throw;
        }
}
// The caller's progress function, of a specification that stays as long as the solve.
template <class Spec> CgProgress progress_of(milcgpu_context &context, const Spec &spec) {
    if (spec.progress == nullptr)
        return {};
    return [&](int step, double residual) {
        context.callbacks.run("spec.progress", [&] { spec.progress(spec.user, step, residual); });
        context.device->make_current();
    };
}
// Of a solver that took so many seconds.
template <class Report> void fill_rates(double seconds, double flops, double bytes, Report &report) {
    report.solver_seconds = seconds;
    if (seconds > 0)
        report.gflops = flops / seconds * 1e-9, report.gbytes_per_second = bytes / seconds * 1e-9;
}
// From the solver's report, but for seconds and bytes of the call.
void fill_report(const CgReport &, const SolveArguments &, milcgpu_solve_report &);
void check_pair(const OperatorSpec &precise, const OperatorSpec &sloppy); // throws not_built
// milcgpu_staggered_residual, and with it MILC's relative residual, where that is wanted: relative may be nullptr.
milcgpu_status true_residuals(milcgpu_links *, int parity, double mass, const milcgpu_field *source,
                              const milcgpu_field *solution, double *residual, double *relative);

} // namespace milcgpu
