// MILCGPU_COMPARE: MILC's results beside the library's.
#include "milc_glue/api/context.h"
#include "milc_glue/links/link_checks.h"
#include "milc_glue/routines/clover.h"
#include "milc_glue/routines/state.h"
#include "milc_glue/solve/solve_arguments.h"
#include <algorithm>
#include <cmath>
#include <numeric>

using namespace milcgpu;

namespace {

struct SolutionsCompared {
    TrueResiduals gpu{0, 0}, cpu{0, 0};
    double relative_difference = 0;
    double worst = 0; // relative to what is allowed
};

// Logs and counts one comparison. worst: relative to what is allowed. Returns true if it is within that.
bool line(Plugin &p, milcgpu_routine routine, const std::string &what, double worst, double seconds,
          double cpu_seconds) {
    RoutineAccount &account = p.ledger[routine];
    const bool good = worst <= 1; // false for NaN
    ++account.compared;
    account.beyond += good ? 0 : 1;
    account.worst = worst > account.worst || !(worst == worst) ? worst : account.worst;
    account.compared_gpu_seconds += seconds;
    account.compared_cpu_seconds += cpu_seconds;
    p.print(format("compare %s: %s; seconds MILC %.4g milcgpu %.4g, speed-up %.1f%s", routine_name(routine),
                   what.c_str(), cpu_seconds, seconds, cpu_seconds / seconds, good ? "" : "; BEYOND TOLERANCE"));
    return good;
}

bool field_line(Plugin &p, milcgpu_routine routine, const char *what, double difference, double allowed, double seconds,
                double cpu_seconds) {
    return line(p, routine, format("%s, difference %.2e (allowed %.0e)", what, difference, allowed),
                difference / allowed, seconds, cpu_seconds);
}

// The difference on all ranks, from each rank's.
Difference of_all_ranks(Plugin &p, const Difference &mine) {
    double squares[] = {mine.difference * mine.difference, mine.size * mine.size};
    if (p.collective.size() == 1)
        return mine;
    p.collective.add(squares, 2);
    return {std::sqrt(squares[0]), std::sqrt(squares[1])};
}

// A residual in units of the tolerance; 0 if there is no tolerance. A residual that is not above MILC's is good enough
// (single precision cannot reach every tolerance). A solution that is rounded to MILC's single precision has a residual
// of up to 2e-7 more, in quadrature.
double from_asked(const Plugin &p, double tolerance, double ours, double theirs) {
    return tolerance > 0 ? ours / std::max(std::hypot(tolerance, p.in_double() ? 0 : 2e-7), 1.1 * theirs) : 0;
}
// The larger of both residuals that MILC tests, in these units.
template <class Call>
double from_asked(const Plugin &p, const Call &call, const TrueResiduals &ours, const TrueResiduals &theirs) {
    return worse_error(from_asked(p, call.tolerance, ours.residual, theirs.residual),
                       from_asked(p, call.relative_tolerance, ours.relative, theirs.relative));
}
bool is_as_asked(const milcgpu_plugin_solve_call &call, const TrueResiduals &of) {
    return !(call.tolerance > 0 && !(of.residual <= call.tolerance)) &&
           !(call.relative_tolerance > 0 && !(of.relative <= call.relative_tolerance));
}

// Words for a line; empty if there is no tolerance for MILC's relative residual.
std::string relative_residuals(double tolerance, const TrueResiduals &gpu, const TrueResiduals &cpu) {
    return tolerance > 0 ? format(", relative residual MILC %.3e milcgpu %.3e", cpu.relative, gpu.relative)
                         : std::string();
}

// Two solutions may differ by |x - y| <= |A^-1| (|r_x| + |r_y|), and |A^-1| <= 1 / (4 m^2). The GPU's residuals must
// also meet the tolerance. Throws if residuals cannot be computed.
SolutionsCompared compared(Plugin &p, const milcgpu_plugin_solve_call &call, const milcgpu_field &gpu,
                           const milcgpu_field &cpu) {
    SolutionsCompared s;
    const LinkSet *links = p.context != nullptr ? p.links_for(call.routine, call.fat, call.lng) : nullptr;
    if (links == nullptr)
        throw Error(Status::device_lost, "the links are not on the device, so residuals cannot be compared");
    for (const auto &[field, of] : {std::pair(&gpu, &s.gpu), std::pair(&cpu, &s.cpu)}) {
        *of = {}; // NaN, which it stays if the solution has NaN
        const milcgpu_status status =
            p.collective(true_residuals(links->handle, call.parity, call.mass, &call.source, field, &of->residual,
                                        call.relative_tolerance > 0 ? &of->relative : nullptr));
        if (status != MILCGPU_OK && status != MILCGPU_NAN_OR_INF)
            throw Error(Status::device_lost, reason());
    }
    const HostRecords b = p.parity_of(call.source, call.parity);
    const Difference d =
        of_all_ranks(p, difference_of(p.parity_of(gpu, call.parity), p.parity_of(cpu, call.parity), p.in_double()));
    const double source = of_all_ranks(p, difference_of(b, b, p.in_double())).size;
    s.relative_difference = d.difference == 0 ? 0 : d.difference / d.size;
    const double allowed = 1.01 * (s.gpu.residual + s.cpu.residual) * source / (4 * call.mass * call.mass);
    s.worst = worse_error(d.difference == 0 ? 0 : d.difference / allowed, from_asked(p, call, s.gpu, s.cpu));
    return s;
}

// |<v, w>|^2 for MILC's vector k, divided by its norm, and each of ours.
template <class Real>
void add_products(const Plugin &p, const milcgpu_plugin_eigen_comparison &of, int k, double *sums) {
    const auto reals = [&](void *field) {
        return static_cast<const Real *>(p.parity_of({field, p.real(), 0}, of.parity).data);
    };
    const Real *const w = reals(of.cpu_vectors[k]);
    const size_t count = size_t(3) * p.sites_of(of.parity);
    for (int j = -1; j < of.count; ++j) {
        const Real *const v = j < 0 ? w : reals(of.vectors[j]);
        double re = 0, im = 0;
        for (size_t c = 0; c < count; ++c) {
            re += double(v[2 * c]) * w[2 * c] + double(v[2 * c + 1]) * w[2 * c + 1];
            im += double(v[2 * c]) * w[2 * c + 1] - double(v[2 * c + 1]) * w[2 * c];
        }
        sums[2 * j + 2] = re, sums[2 * j + 3] = im;
    }
}
std::vector<double> parts_of(Plugin &p, const milcgpu_plugin_eigen_comparison &of, int k) {
    std::vector<double> sums(2 * (of.count + 1)), parts(of.count);
    p.in_double() ? add_products<double>(p, of, k, sums.data()) : add_products<float>(p, of, k, sums.data());
    if (p.collective.size() > 1)
        p.collective.add(sums.data(), static_cast<int>(sums.size()));
    for (int j = 0; j < of.count; ++j)
        parts[j] = (sums[2 * j + 2] * sums[2 * j + 2] + sums[2 * j + 3] * sums[2 * j + 3]) / sums[0];
    return parts;
}

// The worse of two, number by number.
TrueResiduals worst_of(const TrueResiduals &all, const TrueResiduals &one) {
    return {worse_error(all.residual, one.residual), worse_error(all.relative, one.relative)};
}
SolutionsCompared worst_of(const SolutionsCompared &all, const SolutionsCompared &one) {
    return {worst_of(all.gpu, one.gpu), worst_of(all.cpu, one.cpu),
            worse_error(all.relative_difference, one.relative_difference), worse_error(all.worst, one.worst)};
}

// At the iteration limit residuals would allow any solution. There the solve must have ended at MILC's step and, in
// MILC's own precision, with MILC's solution (measured: 1e-14 in double). Two cases are judged by the residual alone: a
// solve in single precision that ends before the limit, because it gets no further; and several sources in one call,
// which may share a Krylov space and get further than MILC. Returns what is beyond tolerance, as `worst`.
double at_limit(const Plugin &p, const SolutionsCompared &s, const milcgpu_plugin_solve_call &call, int sources,
                int limit, int iterations, int cpu_iterations) {
    const bool limited = iterations >= limit || (cpu_iterations >= limit && p.in_double());
    if (!limited || sources > 1 || (is_as_asked(call, s.gpu) && is_as_asked(call, s.cpu)))
        return 0;
    if (iterations != cpu_iterations)
        return INFINITY;
    constexpr int few_iterations = 200;
    const bool own_precision = p.policy->precise == p.real() && p.policy->sloppy == p.real();
    return own_precision && iterations <= few_iterations ? s.relative_difference / (p.in_double() ? 1e-12 : 1e-4) : 0;
}

// A comparison that fails counts as no difference.
template <class Work> int compared_by(milcgpu_routine routine, const Work &work) noexcept {
    return common_answer_of(routine_name(routine), "It is not compared", 1, work);
}

HostRecords records_of(const Plugin &p, const void *field, int reals) { // on all sites
    const size_t bytes = p.bytes_of(reals);
    return {field, static_cast<size_t>(p.sites), bytes, bytes};
}
HostRecords quark_records(const Plugin &p, const void *field) { return records_of(p, field, 6); }

// The projection of APE smearing ends when three hits gain less than ape_gain of the trace. Single precision knows a
// gain to 1e-7 of the trace. So if a gain is close to ape_gain, MILC and the library may end three hits apart. Three
// hits turn the link W by |dW| / |W| = sqrt(2 gain), because close to its maximum Re tr falls by |dW|^2 / 2 from |W|^2
// = 3. (Measured between MILC's own single and double precision: 4e-4.)
constexpr double ape_gain = 1e-5;

// Rounding of MILC's unitarization for each ratio of eigenvalues (measured: a quarter), and of its derivative for each
// ratio of terms (measured on fields of all roughness: at most a fifth).
constexpr double of_unitarization = 4 * 2.2e-16, of_derivative = 16 * 2.2e-16;

double terms_to_derivative(Plugin &p, const void *v, double filter) {
    const DerivativeSize mine = derivative_size(v, 4 * static_cast<size_t>(p.sites), p.in_double(), filter);
    double sums[] = {mine.terms, mine.value};
    if (p.collective.size() > 1)
        p.collective.add(sums, 2);
    return std::sqrt(sums[0] / sums[1]);
}

double links_allowed(const Plugin &p, milcgpu_routine routine) {
    if (p.in_double())
        return 1e-12;
    return routine == MILCGPU_APE_SMEAR ? 2e-5 + std::sqrt(2 * ape_gain) : 2e-5;
}

// Compares n fields of links; pairs with a nullptr are left out.
double worst_of_links(Plugin &p, int n, void *const *gpu, void *const *cpu) {
    double worst = 0;
    for (int k = 0; k < n; ++k)
        if (gpu[k] != nullptr && cpu[k] != nullptr)
            worst = worse_error(worst,
                                worst_link_difference(gpu[k], cpu[k], 4 * static_cast<size_t>(p.sites), p.in_double()));
    return p.collective.worst(worst);
}

const char *parity_name(int parity) { return parity == MILCGPU_EVEN ? "EVEN" : "ODD"; }

} // namespace

extern "C" {

int milcgpu_plugin_compare_solve(const milcgpu_plugin_solve_call *call, int sources, int iterations, double seconds,
                                 milcgpu_field cpu_solution, int cpu_iterations, double cpu_seconds) {
    return compared_by(call->routine, [&] {
        Plugin &p = plugin();
        SolutionsCompared s = compared(p, *call, call->solution, cpu_solution);
        s.worst = worse_error(s.worst, at_limit(p, s, *call, sources, call->max_iterations * call->max_restarts,
                                                iterations, cpu_iterations));
        return line(
            p, call->routine,
            format("%s m %.6g: iterations MILC %d milcgpu %d, true residual MILC %.3e milcgpu %.3e%s, difference %.2e",
                   parity_name(call->parity), call->mass, cpu_iterations, iterations, s.cpu.residual, s.gpu.residual,
                   relative_residuals(call->relative_tolerance, s.gpu, s.cpu).c_str(), s.relative_difference),
            s.worst, seconds, cpu_seconds);
    });
}

int milcgpu_plugin_compare_invert(const milcgpu_plugin_solve_call *call, int sources, int iterations, double seconds,
                                  milcgpu_field cpu_solution, int cpu_iterations, double cpu_seconds) {
    return compared_by(call->routine, [&] {
        Plugin &p = plugin();
        SolutionsCompared all;
        for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD}) {
            milcgpu_plugin_solve_call one = *call;
            one.parity = parity;
            all = worst_of(all, compared(p, one, call->solution, cpu_solution));
        }
        all.worst = worse_error(all.worst, at_limit(p, all, *call, sources, call->max_iterations * call->max_restarts,
                                                    iterations, cpu_iterations));
        return line(p, call->routine,
                    format("m %.6g: iterations MILC %d milcgpu %d, worst true residual MILC %.3e milcgpu %.3e%s, worst "
                           "difference %.2e",
                           call->mass, cpu_iterations, iterations, all.cpu.residual, all.gpu.residual,
                           relative_residuals(call->relative_tolerance, all.gpu, all.cpu).c_str(),
                           all.relative_difference),
                    all.worst, seconds, cpu_seconds);
    });
}

int milcgpu_plugin_compare_clover(const milcgpu_plugin_clover_call *call, int iterations, double seconds,
                                  milcgpu_field cpu_solution, int cpu_iterations, double cpu_seconds) {
    return compared_by(MILCGPU_CLOVER_SOLVE, [&] {
        Plugin &p = plugin();
        const TrueResiduals ours = clover_residuals(p, *call, call->solution),
                            theirs = clover_residuals(p, *call, cpu_solution);
        const Difference d = of_all_ranks(p, difference_of(records_of(p, call->solution.data, 24),
                                                           records_of(p, cpu_solution.data, 24), p.in_double()));
        return line(
            p, MILCGPU_CLOVER_SOLVE,
            format("kappa %.6g: iterations MILC %d milcgpu %d, true residual MILC %.3e milcgpu %.3e%s, difference %.2e",
                   call->kappa, cpu_iterations, iterations, theirs.residual, ours.residual,
                   relative_residuals(call->relative_tolerance, ours, theirs).c_str(),
                   d.difference == 0 ? 0 : d.difference / d.size),
            from_asked(p, *call, ours, theirs), seconds, cpu_seconds);
    });
}

int milcgpu_plugin_compare_multi_mass(const milcgpu_plugin_multi_mass_call *call, int iterations, double seconds,
                                      const milcgpu_field *cpu_solutions, int cpu_iterations, double cpu_seconds) {
    return compared_by(MILCGPU_KS_MULTICG, [&] {
        Plugin &p = plugin();
        milcgpu_plugin_solve_call one{};
        one.routine = MILCGPU_KS_MULTICG;
        one.fat = call->fat, one.lng = call->lng;
        one.parity = call->parity;
        one.source = call->source;
        SolutionsCompared all;
        for (int i = 0; i < call->n_shifts; ++i) {
            one.mass = 0.5 * std::sqrt(call->offsets[i]);
            one.tolerance = call->tolerances[i];
            one.relative_tolerance = call->relative_tolerances[i];
            all = worst_of(all, compared(p, one, call->solutions[i], cpu_solutions[i]));
        }
        all.worst = worse_error(all.worst, at_limit(p, all, one, 1, call->max_iterations + 1, iterations,
                                                    cpu_iterations)); // MILC counts from 1
        return line(
            p, MILCGPU_KS_MULTICG,
            format("%s, %d masses: iterations MILC %d milcgpu %d, worst true residual MILC %.3e milcgpu %.3e%s, worst "
                   "difference %.2e",
                   parity_name(call->parity), call->n_shifts, cpu_iterations, iterations, all.cpu.residual,
                   all.gpu.residual, relative_residuals(one.relative_tolerance, all.gpu, all.cpu).c_str(),
                   all.relative_difference),
            all.worst, seconds, cpu_seconds);
    });
}

int milcgpu_plugin_compare_links(milcgpu_routine routine, int n, void *const *gpu, void *const *cpu, double seconds,
                                 double cpu_seconds) {
    return compared_by(routine, [&] {
        Plugin &p = plugin();
        return field_line(p, routine, "worst link", worst_of_links(p, n, gpu, cpu), links_allowed(p, routine), seconds,
                          cpu_seconds);
    });
}

int milcgpu_plugin_compare_smeared_links(milcgpu_routine routine, void *gpu, void *cpu, void *moved, double seconds,
                                         double cpu_seconds) {
    return compared_by(routine, [&] {
        Plugin &p = plugin();
        --p.ledger[routine].calls; // the call that made `moved`
        const double by = worst_of_links(p, 1, &gpu, &moved), allowed = links_allowed(p, routine);
        const bool grows = by > allowed && by < INFINITY;
        const std::string what =
            grows ? format("worst link (rounding of the links that are smeared grows to %.1e)", by) : "worst link";
        return field_line(p, routine, what.c_str(), worst_of_links(p, 1, &gpu, &cpu),
                          allowed + (by < INFINITY ? 10 * by : 0), seconds, cpu_seconds);
    });
}

int milcgpu_plugin_compare_hisq_links(int n, void *const *gpu, void *const *cpu, const void *v,
                                      const milcgpu_fatlink_spec *spec, double seconds, double cpu_seconds) {
    return compared_by(MILCGPU_HISQ_LINKS, [&] {
        Plugin &p = plugin();
        const WorstV mine = worst_of_v(v, 4 * static_cast<size_t>(p.sites), p.in_double(), unitarize_spec(*spec));
        const double ratio = p.collective.worst(mine.ratio), inverse = p.collective.worst(mine.inverse);
        const double of_v = 2 * (p.in_double() ? 1.1e-16 : 6e-8); // the rounding of V
        const std::string what =
            ratio < INFINITY
                ? format("worst link (eigenvalues of V^dag V: largest to smallest %.2g; least singular value %.2g)",
                         ratio, 1 / inverse)
                : std::string("worst link (V is zero on some links, as the gauge field is: any unitary matrix may be W "
                              "there, so W and what is made of it are not compared)");
        return field_line(p, MILCGPU_HISQ_LINKS, what.c_str(), worst_of_links(p, n, gpu, cpu),
                          links_allowed(p, MILCGPU_HISQ_LINKS) + of_unitarization * ratio + of_v * inverse, seconds,
                          cpu_seconds);
    });
}

int milcgpu_plugin_compare_dslash(int parity, const void *source, const void *gpu, const void *cpu, double seconds,
                                  double cpu_seconds) {
    return compared_by(MILCGPU_DSLASH, [&] {
        Plugin &p = plugin();
        const auto records = [&](const void *field, int on) {
            return p.parity_of({const_cast<void *>(field), 0, 0}, on);
        };
        const HostRecords x = records(source, MILCGPU_EVEN + MILCGPU_ODD - parity);
        const Difference d = of_all_ranks(p, difference_of(records(gpu, parity), records(cpu, parity), p.in_double()));
        const double size =
            of_all_ranks(p, difference_of(x, x, p.in_double())).size; // D x may be small by cancellation
        return field_line(p, MILCGPU_DSLASH, parity_name(parity), d.difference == 0 ? 0 : d.difference / size,
                          p.in_double() ? 1e-14 : 1e-5, seconds, cpu_seconds);
    });
}

int milcgpu_plugin_compare_eigen(const milcgpu_plugin_eigen_comparison *of) {
    return compared_by(MILCGPU_EIGENSOLVE, [&] {
        Plugin &p = plugin();
        // Rounding of an eigenvalue, and of 1 - |part of a vector|^2: our vectors are in single.
        const double of_value = p.in_double() ? 1e-12 : 1e-4, of_part = 1e-6;
        const int n = of->count;
        double above = -INFINITY, outside = 0, worst = 0, r_most = 0;
        for (int k = 0; k < n; ++k)
            r_most = worse_error(r_most, of->residuals[k]);
        for (int k = 0; k < n; ++k) {
            const double r = of->residuals[k], off = of->values[k] - of->cpu_values[k];
            const double allowed = 10 * of->tolerance + std::min(r, 100 * r * r) + of_value;
            above = worse_error(above, off);
            worst = worse_error(worst, off / allowed);
            const double to_next = of->values[n - 1] - of->values[k];
            const double part = (of->cpu_residuals[k] + r_most) / to_next, part_allowed = 4 * part * part + of_part;
            if (to_next <= 0 || part_allowed > 0.1) // the next mode is too close
                continue;
            std::vector<double> inside = parts_of(p, *of, k);
            const double left = 1 - std::accumulate(inside.begin(), inside.end(), 0.0);
            outside = worse_error(outside, left);
            worst = worse_error(worst, left / part_allowed);
        }
        return line(
            p, MILCGPU_EIGENSOLVE,
            format("%d eigenvalues from %.4e to %.4e, %.1e above MILC's at the most; residual MILC %.1e milcgpu "
                   "%.1e; MILC's vectors are in milcgpu's space but for %.1e of their norm squared",
                   n, of->values[0], of->values[n - 1], above,
                   *std::max_element(of->cpu_residuals, of->cpu_residuals + n), r_most, outside),
            worst, of->seconds, of->cpu_seconds);
    });
}

int milcgpu_plugin_compare_wilson_dslash(const void *source, const void *gpu, const void *cpu, double seconds,
                                         double cpu_seconds) {
    return compared_by(MILCGPU_WILSON_DSLASH, [&] {
        Plugin &p = plugin();
        const HostRecords x = records_of(p, source, 24);
        const Difference d =
            of_all_ranks(p, difference_of(records_of(p, gpu, 24), records_of(p, cpu, 24), p.in_double()));
        const double size = of_all_ranks(p, difference_of(x, x, p.in_double())).size;
        return field_line(p, MILCGPU_WILSON_DSLASH, "field", d.difference == 0 ? 0 : d.difference / size,
                          p.in_double() ? 1e-14 : 1e-5, seconds, cpu_seconds);
    });
}

int milcgpu_plugin_compare_gauge(milcgpu_routine routine, int one, const char *expected, const void *v, double filter,
                                 double seconds, double cpu_seconds) {
    return compared_by(routine, [&] {
        Plugin &p = plugin();
        Difference d;
        try {
            d = of_all_ranks(p, p.gauge->difference(one));
            p.gauge->over_host(one);
        } catch (...) { // keeps MILC's own result
            p.gauge->host_wrote(one);
            throw;
        }
        const double relative = d.difference == 0 ? 0 : d.difference / d.size;
        // A hit divides by the part of link and staples in its subgroup, which may be small.
        const double more = routine == MILCGPU_OVERRELAX || routine == MILCGPU_HEAT_BATH ? 100 : 1;
        const double allowed = more * (p.in_double() ? 1e-14 : 1e-5),
                     of_terms = v != nullptr ? terms_to_derivative(p, v, filter) : 0;
        std::string what = one == MILCGPU_LINKS ? "links" : "momenta";
        if (v != nullptr)
            what += format(" (MILC's derivative of W has terms %.2g times as large as itself)", of_terms);
        if (expected == nullptr)
            return field_line(p, routine, what.c_str(), relative,
                              std::max(allowed, std::min(of_derivative * of_terms, 1e-5)), seconds, cpu_seconds);
        p.log(1, format("%s: momenta differ by %.2e from MILC's, which is expected: %s", routine_name(routine),
                        relative, expected));
        return true;
    });
}

int milcgpu_plugin_compare_quarks(milcgpu_routine routine, const void *gpu, const void *cpu, double seconds,
                                  double cpu_seconds) {
    return compared_by(routine, [&] {
        Plugin &p = plugin();
        const Difference d =
            of_all_ranks(p, difference_of(quark_records(p, gpu), quark_records(p, cpu), p.in_double()));
        return field_line(p, routine, "field", d.difference == 0 ? 0 : d.difference / d.size,
                          p.in_double() ? 1e-13 : 2e-5, seconds, cpu_seconds);
    });
}

// MILC sums in its own precision.
int milcgpu_plugin_compare_correlators(const milcgpu_plugin_correlators *of) {
    return compared_by(of->routine, [&] {
        Plugin &p = plugin();
        const auto size_of = [&](const void *field) {
            const HostRecords records = records_of(p, field, of->reals);
            return of_all_ranks(p, difference_of(records, records, p.in_double())).size;
        };
        const auto largest_of = [&](const void *field) {
            double largest = 0;
            for (size_t k = 0; k < size_t(of->reals) * p.sites; ++k)
                largest = std::fmax(largest, std::fabs(p.in_double() ? static_cast<const double *>(field)[k]
                                                                     : static_cast<const float *>(field)[k]));
            return p.collective.worst(largest);
        };
        double size = of->factor * size_of(of->sources[0]) * size_of(of->sources[1]), difference = 0;
        if (of->sources[2] != nullptr)
            size *= largest_of(of->sources[2]);
        for (int k = 0; k < of->n; ++k) {
            difference = worse_error(
                difference, std::hypot(of->gpu[2 * k] - of->cpu[2 * k], of->gpu[2 * k + 1] - of->cpu[2 * k + 1]));
            size = std::fmax(size, std::hypot(of->cpu[2 * k], of->cpu[2 * k + 1]));
        }
        difference = p.collective.worst(difference);
        const std::string what =
            of->repeats == 1
                ? "correlators"
                : format("correlators (up to %d of this pair have the same operator and momentum. MILC adds "
                         "each into all of them, so its correlators are that many times too large. milcgpu's "
                         "are right; for this comparison they were multiplied likewise)",
                         of->repeats);
        return field_line(p, of->routine, what.c_str(), difference == 0 ? 0 : difference / size,
                          (p.in_double() ? 1e-13 : 1e-4) * (of->sources[2] != nullptr ? 0.1 : 1), of->seconds,
                          of->cpu_seconds);
    });
}

int milcgpu_plugin_compare_number(milcgpu_routine routine, double ours, double theirs, double seconds,
                                  double cpu_seconds) {
    return compared_by(routine, [&] {
        Plugin &p = plugin();
        return field_line(p, routine, "value", ours == theirs ? 0 : std::fabs(ours / theirs - 1),
                          p.in_double() ? 1e-13 : 1e-5, seconds, cpu_seconds);
    });
}

} // extern "C"
