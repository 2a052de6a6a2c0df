// Arguments and reports of a solve.
#include "milc_glue/solve/solve_arguments.h"
#include "gpu_kernels/staggered/dslash.h"
#include "milc_glue/api/members.h"
#include <cmath>

using namespace milcgpu;

OperatorSpec milcgpu::operator_of(const milcgpu_storage &given, const char *what) {
    OperatorSpec spec;
    spec.spinor = precision_of(given.precision, format("%s.precision", what).c_str());
    spec.link = spec.spinor;
    spec.reals = given.reconstruct == 0 ? 18 : given.reconstruct;
    try {
        find_dslash(spec.spinor, spec.link, spec.reals, Epilogue::residual);
    } catch (const Error &error) {
        throw Error(error.status(), format("%s.reconstruct is %d: %s", what, given.reconstruct, error.what()));
    }
    return spec;
}

void milcgpu::check_pair(const OperatorSpec &precise, const OperatorSpec &sloppy) {
    if (sloppy.spinor < precise.spinor)
        throw Error(
            Status::not_built,
            format("spec.sloppy is %s, finer than spec.precise, %s; built (precise/sloppy vectors): double/double "
                   "double/single double/half single/single single/half half/half",
                   name(sloppy.spinor), name(precise.spinor)));
}

void milcgpu::check_iterations(int max_iterations, int max_restarts) {
    if (max_restarts > 0 && max_iterations > 2000000000 / max_restarts)
        refuse(format("max_iterations %d and max_restarts %d: their product must be below 2e9", max_iterations,
                      max_restarts));
}

SolveArguments milcgpu::checked_solve(const milcgpu_solve_spec &spec) {
    checked_copy("spec", spec);
    SolveArguments a{};
    a.parity = parity_index(spec.parity);
    a.precise = operator_of(spec.precise, "spec.precise");
    a.sloppy = spec.sloppy.precision == 0 ? a.precise : operator_of(spec.sloppy, "spec.sloppy");
    check_pair(a.precise, a.sloppy);
    a.limits.shift = shift_of_mass(spec.mass);
    if (!(spec.tolerance > 0 || spec.relative_tolerance > 0))
        refuse("spec.tolerance and spec.relative_tolerance are 0: one must be above 0");
    check_iterations(spec.max_iterations, spec.max_restarts);
    a.limits.tolerance = spec.tolerance;
    a.limits.relative_tolerance = spec.relative_tolerance;
    a.limits.max_iterations = spec.max_iterations;
    a.limits.max_restarts = spec.max_restarts;
    a.limits.reliable_delta = spec.reliable_delta;
    a.limits.jump_limit = spec.jump_limit;
    return a;
}

void milcgpu::fill_report(const CgReport &r, const SolveArguments &a, milcgpu_solve_report &report) {
    report.status = static_cast<int>(r.status);
    report.iterations = r.iterations;
    report.steps = r.steps;
    report.restarts = r.restarts;
    report.reliable_updates = r.reliable_updates;
    report.source_norm = r.source_norm;
    report.true_residual = r.true_residual;
    report.relative_residual = r.relative_residual;
    report.recursion_residual = r.recursion_residual;
    report.largest_jump = r.largest_jump;
    report.steps_in_half = r.steps_in_half;
    fill_rates(r.seconds, r.flops, r.bytes, report);
    report.reconstruct = a.precise.reals;
    report.sloppy_reconstruct = a.sloppy.reals;
    report.deflations = r.deflations, report.deflation_off = r.deflation_off;
    const std::string off = r.deflation_off
                                ? "a deflation raised the residual or did not help, so the solve went on without: "
                                  "these are not eigenvectors of these links, or rounding limits the residual. "
                                : "";
    std::snprintf(report.message, sizeof report.message, "%s%s", off.c_str(), r.message.c_str());
}
