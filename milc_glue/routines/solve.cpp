// Solves for one mass and for several, and D.
#include "milc_glue/routines/solve.h"
#include "milc_glue/api/context.h"
#include "milc_glue/residency/link_watch.h"
#include "milc_glue/routines/entry.h"
#include "milc_glue/routines/report_for_milc.h"
#include "milc_glue/routines/retry.h"
#include "milc_glue/solve/memory_plan.h"
#include <algorithm>
#include <cmath>
#include <utility>

using namespace milcgpu;

namespace {

// The data of progress().
struct SolveUnderWay {
    SolveLines lines;
    LinkWatch &links;
};

// Called while the device has work queued.
void progress(void *user, int step, double residual) {
    SolveUnderWay &solve = *static_cast<SolveUnderWay *>(user);
    constexpr double looks_after_seconds = 1e-3; // shorter solves end before threads start
    if (solve.lines.seconds() > looks_after_seconds)
        solve.links.begin();
    solve.lines.log(step, residual);
}

// Ends the look at the host's links. Returns true, after a line in the log, if they are not those on the device: the
// caller loads them again.
bool edited(Plugin &p, milcgpu_routine routine, LinkWatch &looks, LinkSet &links) {
    if (!p.collective(!looks.end()))
        return false;
    links.mirror.forget_copy();
    p.log(0, format("%s: MILC has changed a few of its links since they were loaded, which was seen during the solve. "
                    "They are loaded again, and the solve continues",
                    p.name_of(routine)));
    return true;
}

// Vectors that the solve computes first, for itself and for a file, must be those of the links as they are now.
Mirror::Look look_before(const milcgpu_plugin_solve_call &call) {
    return call.eigenvectors != nullptr ? Mirror::Look::whole : Mirror::Look::sample;
}

// The memory of a solve on the device, without the links as handed over.
template <class Spec> size_t bytes_of(const Plugin &p, const Spec &spec) {
    const MemoryPlan plan = plan_of(*p.context, p.real(), spec);
    return plan.packed + plan.vectors;
}

milcgpu_multi_mass_spec multi_mass_spec(const Plugin &p, const Policy &policy,
                                        const milcgpu_plugin_multi_mass_call &call,
                                        const std::vector<milcgpu_pole> &shifts) {
    milcgpu_multi_mass_spec spec{};
    spec.struct_size = sizeof spec;
    spec.parity = call.parity;
    spec.n_shifts = call.n_shifts;
    spec.shifts = shifts.data();
    spec.max_iterations = call.max_iterations;
    spec.max_restarts = call.max_restarts;
    spec.shared.precision = spec.precise.precision = policy.precise;
    if (policy.sloppy != policy.precise)
        spec.sloppy = {policy.sloppy, p.reconstruct};
    spec.leave_tolerance = 1e-16; // heavy masses as accurate as MILC's: forces and actions sum over all masses
    return spec;
}

} // namespace

void milcgpu::SolveLines::log(int step, double residual) {
    if (!(first_ > 0) || step < step_)
        first_ = residual, begun_ = seconds();
    step_ = step;
    const double done = relative_ ? 0 : std::log(residual / first_) / std::log(target_ / first_);
    lines_.log(seconds_left(seconds() - begun_, done), [&] {
        return format("step %d, |r| / |b| = %.1e, target %.1e%s%s", step, residual, target_,
                      relative_ ? " of the relative residual" : "", of_);
    });
}

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
        spec.sloppy = {policy.sloppy, p.reconstruct};
    return spec;
}

milcgpu_status milcgpu::with_room(Plugin &p, milcgpu_routine routine, const LinkSet *links,
                                  const std::function<milcgpu_status()> &work) {
    milcgpu_status status = p.collective(work());
    while (status == MILCGPU_NO_MEMORY) {
        const std::string why = p.reason();
        const bool fewer_links = p.links->drop_oldest(links);
        if (!fewer_links && !p.eigenvectors->drop_others())
            break;
        p.log(1,
              format("%s: %s. Trying again %s", p.name_of(routine), why.c_str(),
                     fewer_links ? "with fewer sets of links on the device" : "without eigenvectors of other links"));
        status = p.collective(work());
    }
    return status;
}

Outcome milcgpu::solve_until_done(Plugin &p, RoutineAccount &account, int n, const milcgpu_plugin_solve_call *calls,
                                  milcgpu_solve_report *reports, const SourcesOnDevice *on_device, LinkSet *given) {
    milcgpu_plugin_solve_call call = *calls;
    std::vector<milcgpu_field> sources, solutions;
    for (int k = 0; on_device == nullptr && k < n; ++k) {
        p.vectors.to_host(calls[k].source.data);
        p.vectors.to_host(calls[k].solution.data);
        sources.push_back(calls[k].source), solutions.push_back(calls[k].solution);
    }
    Retry retry(p, call.routine, call.mixed);
    Starts starts(call);
    std::vector<int> iterations(n, 0);
    while (p.context != nullptr) {
        LinkSet *links = std::exchange(given, nullptr);
        if (links == nullptr) {
            const auto head = p.links_at_head(call.routine, call.fat, call.lng, look_before(call),
                                              on_device != nullptr ? &on_device->made_of : nullptr);
            links = head.set;
            if (links == nullptr)
                return Outcome::failed;
            if (on_device != nullptr && !head.same_content)
                return Outcome::from_start;
        }
        EigenStore::Set *const vectors = eigenvectors_of(p, account, *links, call);
        const bool kept = vectors != nullptr && call.deflate == MILCGPU_DEFLATED_BY_KEPT;
        if (p.context == nullptr)
            return Outcome::failed;
        LinkWatch looks(*p.links, *links, call.fat, call.lng, p.watch_threads);
        SolveUnderWay under_way{{p, call.routine, call.tolerance, call.relative_tolerance}, looks};
        milcgpu_solve_spec spec = solve_spec(p, retry.policy(), call);
        spec.progress = progress;
        spec.user = &under_way;
        if (vectors != nullptr)
            spec.eigenvectors = vectors->handle;
        const milcgpu_status status = with_room(p, call.routine, links, [&] {
            if (on_device != nullptr)
                return milcgpu_staggered_solve_vectors(links->handle, &spec, on_device->together, n,
                                                       on_device->sources.data(), on_device->solutions.data(), reports);
            return n == 1 ? milcgpu_staggered_solve(links->handle, &spec, sources.data(), solutions.data(), reports)
                          : milcgpu_staggered_solve_sources(links->handle, &spec, MILCGPU_TOGETHER_AUTO, n,
                                                            sources.data(), solutions.data(), reports);
        });
        if (kept && reports[0].deflation_off != 0 && !std::exchange(vectors->said, true))
            p.log(1, format("%s: %s", p.name_of(call.routine), reports[0].message));
        for (int k = 0; k < n; ++k) {
            iterations[k] += reports[k].iterations;
            add(account, reports[k]);
        }
        if (edited(p, call.routine, looks, *links)) {
            if (on_device != nullptr)
                return Outcome::from_start;
            continue; // the solutions so far are the next guesses
        }
        const bool done = retry.is_answer(status);
        if (status == MILCGPU_NO_MEMORY && vectors != nullptr) {
            p.log(1, format("%s: %s. Trying again without eigenvectors", p.name_of(call.routine), p.reason().c_str()));
            call.deflate = MILCGPU_UNDEFLATED;
            if (kept)
                p.eigenvectors->forget_vectors(*vectors);
            continue;
        }
        if (!done && on_device != nullptr && status == MILCGPU_NO_MEMORY)
            return Outcome::out_of_memory;
        if (!done && retry.again(
                         status, [&] { links->mirror.forget_copy(); },
                         [&](const Policy &policy) {
                             const milcgpu_solve_spec other = solve_spec(p, policy, call);
                             return bytes_of(p, other);
                         })) {
            if (on_device != nullptr && status == MILCGPU_CORRUPTED)
                return Outcome::from_start;
            continue;
        }
        if (!done) {
            p.report_failure(call.routine, status);
            return Outcome::failed;
        }
        if (starts.again(n, reports, iterations.data())) {
            for (int &one : iterations)
                --one; // MILC counts from 1 once
            continue;
        }
        for (int k = 0; k < n; ++k) {
            reports[k].iterations = iterations[k];
            add_solution(account, reports[k], call.tolerance, call.relative_tolerance);
        }
        return Outcome::done;
    }
    return Outcome::failed; // the device was lost before
}

extern "C" {

int milcgpu_plugin_solve(const milcgpu_plugin_solve_call *call, milcgpu_solve_report *given_report) {
    const ReportForMilc<milcgpu_solve_report> report(given_report);
    return offloaded(call->routine, [&](Plugin &p, RoutineAccount &account) -> Done {
        p.running.append(": m %g", call->mass);
        if (p.context == nullptr || (!(call->tolerance > 0) && !(call->relative_tolerance > 0)))
            return left_to_milc; // MILC then does one iteration: nothing to gain
        // As far as this rank knows.
        const VectorStore::Solution *const k = p.vectors.solved(*call);
        const auto head = p.links_at_head(call->routine, call->fat, call->lng,
                                          k != nullptr ? Mirror::Look::whole : look_before(*call),
                                          k != nullptr ? &k->links : nullptr);
        if (head.set == nullptr)
            return left_to_milc;
        if (head.same_content) {
            ++account.known;
            report->iterations = k->zero_source ? 0 : std::max(1, k->report.iterations); // as MILC counts
            report->restarts = k->report.iterations > 1;
            report->true_residual = report->recursion_residual = k->report.true_residual;
            report->relative_residual = call->relative_tolerance > 0 ? k->report.relative_residual : 1;
            return MILCGPU_OK;
        }
        return solve_until_done(p, account, 1, call, report, nullptr, head.set) == Outcome::done ? MILCGPU_OK
                                                                                                 : left_to_milc;
    });
}

int milcgpu_plugin_solve_sources(int n, const milcgpu_plugin_solve_call *calls, milcgpu_solve_report *given_reports) {
    return offloaded(calls->routine, [&](Plugin &p, RoutineAccount &account) -> Done {
        p.running.append(": m %g", calls->mass);
        const ReportForMilc<milcgpu_solve_report> reports(given_reports, n);
        if (!(calls->tolerance > 0) && !(calls->relative_tolerance > 0))
            return left_to_milc;
        return solve_until_done(p, account, n, calls, reports, nullptr) == Outcome::done ? Done(MILCGPU_OK, n)
                                                                                         : left_to_milc;
    });
}

int milcgpu_plugin_multi_mass(const milcgpu_plugin_multi_mass_call *call, milcgpu_shift_report *shifts,
                              milcgpu_multi_mass_report *given_report) {
    const ReportForMilc<milcgpu_multi_mass_report> report(given_report);
    return offloaded(MILCGPU_KS_MULTICG, [&](Plugin &p, RoutineAccount &account) -> Done {
        p.running.append(": %d shifts from %g", call->n_shifts,
                         *std::min_element(call->offsets, call->offsets + call->n_shifts));
        const auto is_asked = [](double tolerance) { return tolerance > 0; };
        if (std::none_of(call->tolerances, call->tolerances + call->n_shifts, is_asked) &&
            std::none_of(call->relative_tolerances, call->relative_tolerances + call->n_shifts, is_asked))
            return left_to_milc;
        p.vectors.forget_solutions();
        std::vector<milcgpu_pole> asked;
        for (int i = 0; i < call->n_shifts; ++i)
            asked.push_back({call->offsets[i], call->tolerances[i], call->relative_tolerances[i]});
        // The number of the first solution on the device; -1: solutions are copied to the host.
        const bool stay = p.vectors.defers();
        int resident = stay ? p.vectors.take(call->solutions, call->n_shifts) : -1;
        const auto make_room = [&] {
            p.vectors.all_to_host();
            p.vectors.free_deferred();
            resident = -1;
        };
        const auto head = p.links_at_head(MILCGPU_KS_MULTICG, call->fat, call->lng, Mirror::Look::sample, nullptr,
                                          resident >= 0, stay ? make_room : std::function<void()>());
        LinkSet *found = head.set;
        if (stay && !head.also && p.collective(resident >= 0)) { // some ranks can defer them, not all
            p.vectors.all_to_host();
            p.vectors.end();
            resident = -1;
        }
        if (stay && !p.vectors.defers())
            p.log(1, format("%s: %s. Solutions go to the host", p.name_of(MILCGPU_KS_MULTICG), p.reason().c_str()));
        p.vectors.to_host(call->source.data);
        for (int i = 0; i < call->n_shifts; ++i)
            resident >= 0 ? p.vectors.holds_no_more(call->solutions[i], call->parity)
                          : p.vectors.to_host(call->solutions[i].data);
        Retry retry(p, MILCGPU_KS_MULTICG, call->mixed);
        for (;; found = p.links_for(MILCGPU_KS_MULTICG, call->fat, call->lng, Mirror::Look::sample)) {
            LinkSet *const links = found;
            if (links == nullptr)
                return left_to_milc;
            LinkWatch looks(*p.links, *links, call->fat, call->lng, p.watch_threads);
            SolveUnderWay under_way{
                {p, MILCGPU_KS_MULTICG, asked[0].tolerance, asked[0].relative_tolerance, " for the first mass"}, looks};
            milcgpu_multi_mass_spec spec = multi_mass_spec(p, retry.policy(), *call, asked);
            spec.progress = progress;
            spec.user = &under_way;
            const milcgpu_status status = with_room(p, MILCGPU_KS_MULTICG, links, [&] {
                *report = {};
                report->struct_size = sizeof *report;
                report->shifts = shifts;
                return resident >= 0
                           ? milcgpu_staggered_multi_mass_vectors(links->handle, &spec, &call->source,
                                                                  p.vectors.deferred(), resident, report)
                           : milcgpu_staggered_multi_mass(links->handle, &spec, &call->source, call->solutions, report);
            });
            add(account, *report);
            if (edited(p, MILCGPU_KS_MULTICG, looks, *links))
                continue;
            if (status == MILCGPU_NO_MEMORY && resident >= 0) {
                p.log(1, format("%s: %s. Solutions go to the host", p.name_of(MILCGPU_KS_MULTICG), p.reason().c_str()));
                make_room();
                continue;
            }
            if (retry.is_answer(status)) {
                for (int i = 0; resident >= 0 && i < call->n_shifts; ++i)
                    p.vectors.now_holds(call->solutions[i], call->parity, p.poisons());
                for (int i = 0; i < call->n_shifts; ++i)
                    add_solution(account, shifts[i], asked[i].tolerance, asked[i].relative_tolerance);
                p.vectors.remember(*call, links->content(), report->source_norm == 0, shifts);
                return MILCGPU_OK;
            }
            if (!retry.again(
                    status, [&] { links->mirror.forget_copy(); },
                    [&](const Policy &policy) {
                        const milcgpu_multi_mass_spec other = multi_mass_spec(p, policy, *call, asked);
                        return bytes_of(p, other);
                    }))
                return status;
        }
    });
}

int milcgpu_plugin_dslash(const void *fat, const void *lng, int parity, milcgpu_field source,
                          milcgpu_field destination) {
    return offloaded(MILCGPU_DSLASH, [&](Plugin &p, RoutineAccount &account) -> Done {
        const int other = MILCGPU_EVEN + MILCGPU_ODD - parity,
                  number = source.data == destination.data ? p.vectors.held(&source, 1, other) : -1;
        const auto head = p.links_at_head(MILCGPU_DSLASH, fat, lng, Mirror::Look::whole, nullptr, number >= 0);
        LinkSet *links = head.set;
        if (links == nullptr)
            return left_to_milc;
        if (head.also) {
            p.vectors.holds_no_more(source, parity); // if D fails its destination may be empty
            if (p.collective(milcgpu_vectors_dslash(p.vectors.deferred(), number, links->handle, parity)) ==
                MILCGPU_OK) {
                p.vectors.now_holds(source, parity, p.poisons());
                account.flops += 1146.0 * p.sites_of(parity);
                return MILCGPU_OK;
            }
            p.log(1, format("%s: %s. Solutions go to the host", routine_name(MILCGPU_DSLASH), p.reason().c_str()));
        }
        p.vectors.to_host(source.data);
        p.vectors.to_host(destination.data);
        milcgpu_storage what{};
        what.precision = p.real();
        const milcgpu_status status =
            p.collective(milcgpu_staggered_dslash(links->handle, &what, parity, &source, &destination));
        if (status != MILCGPU_OK) {
            if (status == MILCGPU_CORRUPTED)
                links->mirror.forget_copy();
            return status;
        }
        const uint64_t bytes = static_cast<uint64_t>(p.sites_of(parity)) * 6 * (p.in_double() ? 8 : 4);
        account.flops += 1146.0 * p.sites_of(parity);
        account.to_device += bytes;
        account.to_host += bytes;
        return status;
    });
}

} // extern "C"
