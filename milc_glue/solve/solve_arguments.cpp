// Arguments and reports of a solve.
#include "milc_glue/solve/solve_arguments.h"
#include "gpu_kernels/algebra/block_steps.h"
#include "gpu_kernels/solver/precision_ladder.h"
#include "gpu_kernels/staggered/dslash.h"
#include "milc_glue/api/members.h"
#include <cmath>
#include <cstring>
#include <tuple>

using namespace milcgpu;

namespace {
void find_staggered(const OperatorSpec &spec) { // throws not_built
    find_dslash(spec.spinor, spec.link, spec.reals, Epilogue::residual);
}
} // namespace

OperatorSpec milcgpu::operator_of(const milcgpu_storage &given, const char *what) {
    return operator_of(given, what, find_staggered);
}

void milcgpu::check_pair(const OperatorSpec &precise, const OperatorSpec &sloppy) {
    if (sloppy.spinor < precise.spinor)
        throw Error(
            Status::not_built,
            format("spec.sloppy is %s, finer than spec.precise, %s; built (precise/sloppy vectors): double/double "
                   "double/single double/half single/single single/half half/half",
                   name(sloppy.spinor), name(precise.spinor)));
}

std::vector<int> milcgpu::parities_of(int parity) {
    if (parity == MILCGPU_EVEN + MILCGPU_ODD)
        return {0, 1};
    if (parity != MILCGPU_EVEN && parity != MILCGPU_ODD)
        refuse(format("parity is %d: must be MILCGPU_EVEN (2), MILCGPU_ODD (1) or their sum", parity));
    return {parity_index(parity)};
}

void milcgpu::check_iterations(int max_iterations, int max_restarts) {
    if (max_restarts > 0 && max_iterations > 2000000000 / max_restarts)
        refuse(format("max_iterations %d and max_restarts %d: their product must be below 2e9", max_iterations,
                      max_restarts));
}

SolveArguments milcgpu::checked_solve(const milcgpu_solve_spec &spec) {
    checked_copy("spec", spec);
    const int parity = parity_index(spec.parity);
    SolveArguments a = arguments_of(spec, find_staggered);
    a.parity = parity;
    a.limits.shift = shift_of_mass(spec.mass);
    if (!(spec.tolerance > 0 || spec.relative_tolerance > 0))
        refuse("spec.tolerance and spec.relative_tolerance are 0: one must be above 0");
    a.limits.relative_tolerance = spec.relative_tolerance;
    return a;
}

int milcgpu::sources_at_once(int n, int together, bool some_are_loose) {
    if (n <= 1 || together == MILCGPU_ONE_BY_ONE || (together == MILCGPU_TOGETHER_AUTO && some_are_loose))
        return 1;
    const int groups = (n + most_block - 1) / most_block;
    return (n + groups - 1) / groups;
}

void milcgpu::check_together(int together, int n) {
    if (together < MILCGPU_TOGETHER_AUTO || together > MILCGPU_ONE_BY_ONE)
        refuse(format("together is %d: must be one of milcgpu_together (0 to %d)", together, MILCGPU_ONE_BY_ONE));
    require_count(n, 0, "n, the number of sources,");
}

milcgpu_solve_spec milcgpu::spec_of_source(const milcgpu_solve_spec &spec, int k) {
    milcgpu_solve_spec own = spec;
    if (spec.source_tolerances != nullptr)
        own.tolerance = spec.source_tolerances[k];
    if (spec.source_max_iterations != nullptr)
        own.max_iterations = spec.source_max_iterations[k];
    own.source_tolerances = nullptr, own.source_max_iterations = nullptr;
    return own;
}

SolveArguments milcgpu::checked_sources(const milcgpu_solve_spec &spec, int n, OfEachSource &of_each) {
    if (n == 0)
        return checked_solve(spec);
    SolveArguments arguments{};
    for (int k = 0; k < n; ++k) {
        try {
            const SolveArguments own = checked_solve(spec_of_source(spec, k));
            if (k == 0)
                arguments = own;
            of_each.tolerances.push_back(own.limits.tolerance);
            of_each.max_iterations.push_back(own.limits.max_iterations);
            of_each.loose += ladder::is_loose(own.limits.tolerance, own.limits.relative_tolerance);
        } catch (const Error &error) {
            std::string words = error.what(); // of the members that source k has instead
            for (const auto &[member, its, given] :
                 {std::tuple("spec.tolerance ", "spec.source_tolerances", spec.source_tolerances != nullptr),
                  {"spec.max_iterations ", "spec.source_max_iterations", spec.source_max_iterations != nullptr}})
                if (given && words.rfind(member, 0) == 0)
                    words.replace(0, std::strlen(member), format("%s[%d] ", its, k));
            throw Error(error.status(), words);
        }
    }
    return arguments;
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
    std::snprintf(report.message, sizeof report.message, "%s%s%s", off.c_str(), r.message.c_str(),
                  if_zero(r.status, r.source_norm));
}

const char *milcgpu::if_zero(Status status, double source_norm) {
    return status == Status::ok && source_norm == 0
               ? "the source is 0 on all sites that this call reads, so the solution is 0"
               : "";
}
