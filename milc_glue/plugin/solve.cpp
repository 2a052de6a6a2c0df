// Solves of one mass and of several, and D.
#include "milc_glue/plugin/solve.h"
#include "milc_glue/plugin/link_watch.h"
#include <algorithm>

using namespace milcgpu;

namespace {

const Policy *policy_for(const Plugin &p, int mixed) {
    if (p.precision_is_set() || mixed == MILCGPU_MIXED_AUTO)
        return p.policy;
    const int sloppy = mixed == MILCGPU_MIXED_HALF     ? MILCGPU_HALF
                       : mixed == MILCGPU_MIXED_SINGLE ? MILCGPU_SINGLE
                                                       : p.real();
    const Policy *asked = policy_of(p.real(), sloppy);
    return asked != nullptr ? asked : p.policy;
}

// What the library's calls of progress() need to know.
struct SolveUnderWay {
    const Plugin &plugin;
    LinkWatch &links;
    double since = wall_seconds(), said_at = since;
};

// Called while the device has work queued.
void progress(void *user, int step, double residual) {
    SolveUnderWay &solve = *static_cast<SolveUnderWay *>(user);
    constexpr double looks_after_seconds = 1e-3; // shorter solves are over before threads have begun
    const double now = wall_seconds();
    if (now - solve.since > looks_after_seconds)
        solve.links.begin();
    if (now - solve.said_at < 10)
        return;
    solve.said_at = now;
    solve.plugin.say(1, format("step %d, residual %.2e", step, residual));
}

// Links were edited, so few of them that this call's look before the solve did not see it.
void say_edited(const Plugin &p, milcgpu_routine routine) {
    p.say(0, format("%s: MILC's links are no longer those on the device: a few were edited, and a look at all of them "
                    "during the solve has shown it. They are loaded again, and the solve goes on",
                    routine_name(routine)));
}

// Whether there is a safer precision to try after `status`; says so, and makes it `policy`.
bool fallen_back(Plugin &p, milcgpu_routine routine, int status, const Policy *&policy) {
    if (status == MILCGPU_DEVICE_LOST || status == MILCGPU_BAD_ARGUMENT || policy->safer < 0)
        return false;
    policy = &policies[policy->safer];
    p.say(0, format("%s: %s. Trying %s precision", routine_name(routine), reason().c_str(), policy->name));
    ++p.ledger[routine].safer;
    return true;
}

// Whether this solve's answer is there already: the solution that a multi-mass call left in these addresses, for this
// source and these links, none of them changed since.
const KnownSolution *known_for(Plugin &p, const milcgpu_plugin_solve_call &call) {
    const KnownSolution *found = p.known.find(call, p.parity_of(call.source, call.parity),
                                              p.parity_of(call.solution, call.parity), p.in_double() ? 1e-13 : 1e-6);
    const bool unknown = agreed(found == nullptr);
    const LinkSet *links = unknown ? nullptr : p.links_for(call.fat, call.lng);
    return links != nullptr && links->content() == found->links ? found : nullptr;
}

// `work`, again with fewer sets of links on the device for as long as memory is short.
template <class Work> milcgpu_status with_room(Plugin &p, const LinkSet *links, const Work &work) {
    milcgpu_status status = agreed(work());
    while (status == MILCGPU_NO_MEMORY && p.links->drop_oldest(links))
        status = agreed(work());
    return status;
}

template <class Report> void add(RoutineAccount &account, const Report &report) {
    account.flops += report.gflops * 1e9 * report.solver_seconds;
    account.to_device += report.bytes_to_device;
    account.to_host += report.bytes_to_host;
}

} // namespace

milcgpu_solve_spec milcgpu::solve_spec(const Plugin &p, const Policy &policy, const milcgpu_plugin_solve_call &call) {
    milcgpu_solve_spec spec{};
    spec.struct_size = sizeof spec;
    spec.parity = call.parity;
    spec.mass = call.mass;
    spec.tolerance = call.tolerance;
    spec.relative_tolerance = call.relative_tolerance;
    spec.max_iterations = call.max_iterations;
    spec.max_restarts = call.max_restarts;
    spec.precise.precision = policy.precise;
    if (policy.sloppy != policy.precise)
        spec.sloppy = {policy.sloppy, 0, p.reconstruct};
    return spec;
}

extern "C" {

int milcgpu_plugin_solve(const milcgpu_plugin_solve_call *call, milcgpu_solve_report *report) {
    Plugin &p = plugin();
    RoutineAccount &account = p.ledger[call->routine];
    const Stopwatch watch(account.seconds);
    *report = {};
    report->struct_size = sizeof *report;
    if (!(call->tolerance > 0) && !(call->relative_tolerance > 0))
        return 0; // MILC then does one iteration's worth; nothing to gain
    if (const KnownSolution *k = known_for(p, *call)) {
        ++account.calls;
        ++account.known;
        report->iterations = k->zero_source ? 0 : std::max(1, k->report.iterations); // as MILC counts
        report->restarts = k->report.iterations > 1;
        report->true_residual = report->recursion_residual = k->report.true_residual;
        report->relative_residual = call->relative_tolerance > 0 ? k->report.relative_residual : 1;
        return 1;
    }
    if (p.context == nullptr) // lost while the known solution was looked for
        return 0;
    int iterations = 0;
    for (const Policy *policy = policy_for(p, call->mixed);;) {
        LinkSet *links = p.links_for(call->fat, call->lng);
        if (links == nullptr)
            return 0;
        LinkWatch looks(*p.links, *links, call->fat, call->lng, p.watch_threads);
        SolveUnderWay under_way{p, looks};
        milcgpu_solve_spec spec = solve_spec(p, *policy, *call);
        spec.progress = progress;
        spec.user = &under_way;
        const milcgpu_status status = with_room(p, links, [&] {
            return milcgpu_solve(p.context, links->handle, &spec, &call->source, &call->solution, report);
        });
        iterations += report->iterations;
        add(account, *report);
        const bool edited = agreed(!looks.end());
        if (edited) {
            links->loaded = false;
            say_edited(p, call->routine);
            continue;
        }
        const bool floor = status == MILCGPU_PRECISION_FLOOR;
        if (status == MILCGPU_OK || status == MILCGPU_NOT_CONVERGED ||
            (floor && (policy->precise == policy->sloppy || !p.in_double())))
            break;
        if (fallen_back(p, call->routine, status, policy))
            continue;
        if (floor)
            break;
        p.report_failure(call->routine, status);
        return 0;
    }
    ++account.calls;
    report->iterations = iterations;
    return 1;
}

int milcgpu_plugin_multi_mass(const milcgpu_plugin_multi_mass_call *call, milcgpu_shift_report *shifts,
                              milcgpu_multi_mass_report *report) {
    Plugin &p = plugin();
    RoutineAccount &account = p.ledger[MILCGPU_KS_MULTICG];
    const Stopwatch watch(account.seconds);
    p.known.clear();
    std::vector<milcgpu_shift> asked;
    std::vector<HostRecords> solutions;
    for (int i = 0; i < call->n_shifts; ++i) {
        asked.push_back({call->offsets[i], call->tolerances[i], call->relative_tolerances[i]});
        solutions.push_back(p.parity_of(call->solutions[i], call->parity));
    }
    for (const Policy *policy = policy_for(p, call->mixed);;) {
        LinkSet *links = p.links_for(call->fat, call->lng);
        if (links == nullptr)
            return 0;
        LinkWatch looks(*p.links, *links, call->fat, call->lng, p.watch_threads);
        SolveUnderWay under_way{p, looks};
        milcgpu_multi_mass_spec spec{};
        spec.struct_size = sizeof spec;
        spec.parity = call->parity;
        spec.n_shifts = call->n_shifts;
        spec.shifts = asked.data();
        spec.max_iterations = call->max_iterations;
        spec.max_restarts = call->max_restarts;
        spec.shared.precision = spec.precise.precision = policy->precise;
        if (policy->sloppy != policy->precise)
            spec.sloppy = {policy->sloppy, 0, p.reconstruct};
        spec.leave_tolerance = 1e-16; // heavy masses as accurate as MILC has them: forces and actions sum over all
        spec.progress = progress;
        spec.user = &under_way;
        const milcgpu_status status = with_room(p, links, [&] {
            *report = {};
            report->struct_size = sizeof *report;
            report->shifts = shifts;
            return milcgpu_multi_mass(p.context, links->handle, &spec, &call->source, call->solutions, report);
        });
        add(account, *report);
        const bool edited = agreed(!looks.end());
        if (edited) {
            links->loaded = false;
            say_edited(p, MILCGPU_KS_MULTICG);
            continue;
        }
        if (status == MILCGPU_OK || status == MILCGPU_NOT_CONVERGED || status == MILCGPU_PRECISION_FLOOR) {
            ++account.calls;
            p.known.remember(*call, solutions, p.parity_of(call->source, call->parity), links->content(),
                             report->source_norm == 0, shifts);
            return 1;
        }
        if (!fallen_back(p, MILCGPU_KS_MULTICG, status, policy)) {
            p.report_failure(MILCGPU_KS_MULTICG, status);
            return 0;
        }
    }
}

int milcgpu_plugin_dslash(const void *fat, const void *lng, int parity, milcgpu_field source,
                          milcgpu_field destination) {
    Plugin &p = plugin();
    RoutineAccount &account = p.ledger[MILCGPU_DSLASH];
    const Stopwatch watch(account.seconds);
    LinkSet *links = p.links_for(fat, lng);
    if (links == nullptr)
        return 0;
    milcgpu_operator what{};
    what.precision = p.real();
    const milcgpu_status status =
        agreed(milcgpu_dslash(p.context, links->handle, &what, parity, &source, &destination));
    if (status != MILCGPU_OK) {
        p.report_failure(MILCGPU_DSLASH, status);
        return 0;
    }
    const uint64_t bytes = static_cast<uint64_t>(p.even_sites) * 6 * (p.in_double() ? 8 : 4);
    ++account.calls;
    account.flops += 1146.0 * p.even_sites;
    account.to_device += bytes;
    account.to_host += bytes;
    return 1;
}

} // extern "C"
