// The routines of molecular dynamics.
#include "gpu_kernels/gauge/forces/forces.h"
#include "gpu_kernels/machine/backend/host_threads.h"
#include "milc_glue/routines/entry.h"
#include "milc_glue/routines/report_for_milc.h"

using namespace milcgpu;

namespace {

void take_report(RoutineAccount &account, const milcgpu_force_report &report) {
    account.flops += report.flops;
    account.to_device += report.bytes_to_device;
    account.to_host += report.bytes_to_host;
}

// Runs work() on the device's copies of `reads`; afterwards only the device has `writes`. work() gets true if asked()
// is true on all ranks; an empty asked: false.
template <class Work>
int on_gauge(milcgpu_routine routine, const milcgpu_plugin_lattice *lattice, int reads, int writes,
             const std::function<bool()> &asked, const Work &work) {
    milcgpu_plugin_host_writes(writes);
    return offloaded(routine, [&](Plugin &p, RoutineAccount &account) -> Done {
        if (writes & MILCGPU_LINKS) {
            p.lattice_changed();
            if (p.links != nullptr)
                p.links->drop_all_but_deferred();
        }
        const auto attempt = [&] {
            bool holds = asked && asked();
            const milcgpu_status ready =
                p.gauge->on_device(*lattice, reads, account.to_device, asked ? &holds : nullptr);
            return p.collective(ready != MILCGPU_OK ? ready : work(p.gauge->handle(), account, holds));
        };
        const milcgpu_status status = with_reload(
            routine, "Trying again with the host's", [&] { p.gauge->load_again(); }, attempt);
        if (status == MILCGPU_OK)
            p.gauge->device_wrote(writes, p.poisons());
        return status;
    });
}

template <class Work>
int on_gauge(milcgpu_routine routine, const milcgpu_plugin_lattice *lattice, int reads, int writes, const Work &work) {
    return on_gauge(routine, lattice, reads, writes, {},
                    [&](milcgpu_gauge *gauge, RoutineAccount &account, bool) { return work(gauge, account); });
}

// to += constant * from, for vectors of the host.
template <class Real> void add_scaled(double constant, const HostRecords &from, const HostRecords &to) {
    const auto at = [](const HostRecords &records, size_t k) {
        return static_cast<const unsigned char *>(records.data) + k * records.pitch;
    };
#pragma omp parallel for if (to.count >= few_sites)
    for (size_t k = 0; k < to.count; ++k)
        for (int c = 0; c < 6; ++c)
            reinterpret_cast<Real *>(const_cast<unsigned char *>(at(to, k)))[c] +=
                static_cast<Real>(constant * reinterpret_cast<const Real *>(at(from, k))[c]);
}

milcgpu_force_report empty_report() {
    milcgpu_force_report report{};
    report.struct_size = sizeof report;
    return report;
}

// A long trajectory logs how far it is; the last one says how far that is.
void log_update() {
    Trajectory *const t = plugin().trajectory.get();
    if (t == nullptr || !t->lines)
        return;
    const int done = ++t->updates, all = t->updates_of_last;
    t->lines->log(seconds_left(t->lines->seconds(), all > 0 ? static_cast<double>(done) / all : 0), [&] {
        return format("%d updates of the gauge field", done) + (all > 0 ? format("; the last one had %d", all) : "");
    });
}

} // namespace

extern "C" {

int milcgpu_plugin_resident(void) {
    const Plugin &p = plugin();
    return p.context == nullptr || p.settings.asks_for("copy_back") ? 0 : p.poisons() ? 2 : 1;
}

int milcgpu_plugin_load_links(const milcgpu_plugin_lattice *lattice) {
    Plugin &p = plugin();
    return common_answer_of("gauge field", "It is loaded where it is needed", 0, [&] {
        RoutineAccount &account = p.ledger[MILCGPU_GATHER_LINKS]; // the routine that MILC called
        if (!p.active() || p.collective(p.gauge->on_device(*lattice, MILCGPU_LINKS, account.to_device)) != MILCGPU_OK)
            return false;
        ++account.calls;
        return true;
    });
}

int milcgpu_plugin_save_links(void *to) {
    return offloaded(MILCGPU_GATHER_LINKS, [&](Plugin &p, RoutineAccount &account) -> Done {
        const milcgpu_status status = p.gauge->save_links(to);
        account.to_host += status == MILCGPU_OK ? p.sites * p.bytes_of(72) : 0;
        return {status, 0};
    });
}

int milcgpu_plugin_update_links(const milcgpu_plugin_lattice *lattice, double eps, int order) {
    return on_gauge(MILCGPU_UPDATE_U, lattice, MILCGPU_LINKS | MILCGPU_MOMENTA, MILCGPU_LINKS,
                    [&](milcgpu_gauge *gauge, RoutineAccount &account) {
                        milcgpu_force_report report = empty_report();
                        const milcgpu_status status = milcgpu_gauge_update(gauge, eps, order, &report);
                        take_report(account, report);
                        log_update();
                        return status;
                    });
}

int milcgpu_plugin_overrelax(const milcgpu_plugin_lattice *lattice, int sweeps) {
    return on_gauge(MILCGPU_OVERRELAX, lattice, MILCGPU_LINKS, MILCGPU_LINKS,
                    [&](milcgpu_gauge *gauge, RoutineAccount &account) {
                        account.flops += sweeps * overrelax_flops * plugin().sites;
                        return milcgpu_gauge_overrelax(gauge, sweeps);
                    });
}

int milcgpu_plugin_heat_bath(const milcgpu_plugin_lattice *lattice, double beta, int sweeps, const uint32_t *generators,
                             uint32_t *drawn) {
    return on_gauge(MILCGPU_HEAT_BATH, lattice, MILCGPU_LINKS, MILCGPU_LINKS,
                    [&](milcgpu_gauge *gauge, RoutineAccount &account) {
                        account.to_device += 4 * generator_words * plugin().sites;
                        account.to_host += 4 * plugin().sites;
                        return milcgpu_gauge_heat_bath(gauge, beta, sweeps, generators, drawn);
                    });
}

int milcgpu_plugin_gauge_force(const milcgpu_plugin_lattice *lattice, const milcgpu_loops *loops, double beta,
                               double eps) {
    return on_gauge(MILCGPU_GAUGE_FORCE_KS, lattice, MILCGPU_LINKS | MILCGPU_MOMENTA, MILCGPU_MOMENTA,
                    [&](milcgpu_gauge *gauge, RoutineAccount &account) {
                        milcgpu_force_report report = empty_report();
                        const milcgpu_status status = milcgpu_momenta_add_gauge_force(gauge, loops, beta, eps, &report);
                        take_report(account, report);
                        return status;
                    });
}

int milcgpu_plugin_fermion_force(const milcgpu_plugin_lattice *lattice, const milcgpu_force_spec *spec,
                                 const milcgpu_field *x, milcgpu_force_report *given_report) {
    const ReportForMilc<milcgpu_force_report> report(given_report);
    const auto on_device = [&] { return plugin().vectors.held(x, spec->n_terms, MILCGPU_EVEN + MILCGPU_ODD) == 0; };
    const auto work = [&](milcgpu_gauge *gauge, RoutineAccount &account, bool on_device_everywhere) {
        VectorStore &vectors = plugin().vectors;
        plugin().links->make_room_for_force();
        *report = empty_report();
        milcgpu_status status;
        if (on_device_everywhere) {
            status = milcgpu_momenta_add_force_of_vectors(gauge, spec, vectors.deferred(), report);
        } else {
            vectors.all_to_host();
            status = milcgpu_momenta_add_fermion_force(gauge, spec, x, report);
        }
        if (status != MILCGPU_OK) // MILC's own routine may be next
            vectors.all_to_host();
        take_report(account, *report);
        return status;
    };
    return on_gauge(MILCGPU_FERMION_FORCE, lattice, MILCGPU_LINKS | MILCGPU_MOMENTA, MILCGPU_MOMENTA, on_device, work);
}

int milcgpu_plugin_reunitarize(const milcgpu_plugin_lattice *lattice, double tolerance,
                               milcgpu_reunitarize_report *given_report) {
    const ReportForMilc<milcgpu_reunitarize_report> report(given_report);
    return on_gauge(
        MILCGPU_REUNITARIZE, lattice, MILCGPU_LINKS, MILCGPU_LINKS,
        [&](milcgpu_gauge *gauge, RoutineAccount &) { return milcgpu_gauge_reunitarize(gauge, tolerance, report); });
}

int milcgpu_plugin_gauge_action(const milcgpu_plugin_lattice *lattice, const milcgpu_loops *loops, double *action) {
    return on_gauge(MILCGPU_GAUGE_ACTION, lattice, MILCGPU_LINKS, 0,
                    [&](milcgpu_gauge *gauge, RoutineAccount &) { return milcgpu_gauge_action(gauge, loops, action); });
}

int milcgpu_plugin_plaquettes(const milcgpu_plugin_lattice *lattice, double *space, double *time) {
    return on_gauge(MILCGPU_PLAQUETTE, lattice, MILCGPU_LINKS, 0, [&](milcgpu_gauge *gauge, RoutineAccount &) {
        return milcgpu_gauge_plaquettes(gauge, space, time);
    });
}

int milcgpu_plugin_momentum_action(const milcgpu_plugin_lattice *lattice, double *action) {
    return on_gauge(MILCGPU_MOMENTUM_ACTION, lattice, MILCGPU_MOMENTA, 0,
                    [&](milcgpu_gauge *gauge, RoutineAccount &) { return milcgpu_momenta_action(gauge, action); });
}

int milcgpu_plugin_gauge_measure(const milcgpu_plugin_lattice *lattice, int phases_in, int n, const int *lengths,
                                 const int *steps, double *plaquettes, double *polyakov, double *traces) {
    return on_gauge(MILCGPU_GAUGE_MEASURE, lattice, MILCGPU_LINKS, 0, [&](milcgpu_gauge *gauge, RoutineAccount &) {
        milcgpu_status status = milcgpu_gauge_plaquettes(gauge, &plaquettes[0], &plaquettes[1]);
        if (status == MILCGPU_OK)
            status = milcgpu_gauge_polyakov_loop(gauge, &polyakov[0], &polyakov[1]);
        if (status == MILCGPU_OK && n > 0)
            status = milcgpu_gauge_loop_traces(gauge, phases_in != 0 ? MILCGPU_SIGNS_IN : MILCGPU_SIGNS_OUT, n, lengths,
                                               steps, traces);
        for (int k = 0; phases_in != 0 && k < 2; ++k) // phases change the sign of all of them
            plaquettes[k] = -plaquettes[k], polyakov[k] = -polyakov[k];
        if (status == MILCGPU_OK)
            plugin().certificate.measured(plaquettes[0], plaquettes[1]);
        return status;
    });
}

void milcgpu_plugin_trajectory(int entering) {
    answer_of("lines of a trajectory", "They are left out", 0, [&] {
        Plugin &p = plugin();
        if (!p.trajectory)
            p.trajectory = std::make_unique<Trajectory>();
        Trajectory &t = *p.trajectory;
        if (entering != 0) {
            t.lines.emplace(p, "trajectory");
        } else {
            t.lines.reset();
            t.updates_of_last = std::exchange(t.updates, 0);
        }
        return 0;
    });
}

void milcgpu_plugin_vectors_begin(int most, int again) {
    Plugin &p = plugin();
    p.solutions_again = again != 0;
    p.solutions_lost = false;
    common_answer_of("solutions on the device", "They go to the host", 0, [&] {
        if (p.active() && p.compare == 0 && milcgpu_plugin_resident() != 0)
            p.vectors.begin(most);
        return 0;
    });
}

int milcgpu_plugin_vectors_sum(const milcgpu_field *x, int n, const double *weights, int parity, double constant,
                               milcgpu_field source, milcgpu_field to) {
    Plugin &p = plugin();
    return common_answer_of("sum of solutions", "MILC's own routine does this call", 0, [&] {
        if (!p.active() || !p.vectors.defers())
            return false;
        const int first = p.vectors.held(x, n, parity);
        if (p.collective(first < 0))
            return false;
        const milcgpu_status status =
            p.collective(milcgpu_vectors_sum(p.vectors.deferred(), first, n, weights, parity, &to));
        if (status != MILCGPU_OK) {
            p.report_failure(MILCGPU_KS_MULTICG, status);
            return false;
        }
        p.ledger[MILCGPU_KS_MULTICG].to_host += p.sites_of(parity) * p.bytes_of(6);
        const HostRecords from = p.parity_of(source, parity), sum = p.parity_of(to, parity);
        p.in_double() ? add_scaled<double>(constant, from, sum) : add_scaled<float>(constant, from, sum);
        return true;
    });
}

int milcgpu_plugin_vectors_need(void) {
    Plugin &p = plugin();
    return common_answer_of("solutions on the device", "MILC cannot go on", 0, [&] {
        if (!p.vectors.defers()) // the same on all ranks, unlike what is allocated
            return !p.lost;
        try {
            p.bring_to_host("solutions on the device", [&] {
                Status status = Status::ok; // of this rank
                std::string why;
                try {
                    p.vectors.all_to_host();
                } catch (const Error &error) {
                    status = error.status(), why = error.what();
                }
                status = p.collective(status);
                if (status != Status::ok)
                    throw Error(status, p.collective.words(why));
            });
        } catch (const Error &error) {
            p.lose_solutions(error.what());
        }
        return !p.lost;
    });
}

int milcgpu_plugin_vectors_end(void) {
    Plugin &p = plugin();
    p.vectors.forget_solutions();
    p.vectors.end();
    p.solutions_again = false;
    return p.solutions_lost;
}

int milcgpu_plugin_newer_on_device(int what) {
    const Plugin &p = plugin();
    return p.gauge != nullptr ? p.gauge->newer_on_device(what) : 0;
}

int milcgpu_plugin_has_links(const void *links) {
    Plugin &p = plugin();
    return common_answer_of("gauge field", "It is loaded", 0,
                            [&] { return !p.collective(p.gauge == nullptr || !p.gauge->has_links(links)); });
}

int milcgpu_plugin_host_needs(int what, const char *who) {
    Plugin &p = plugin();
    return common_answer_of(who, "MILC cannot go on", 0, [&] {
        if (p.lost)
            return false;
        if (p.gauge == nullptr)
            return true;
        p.bring_to_host(who, [&] { p.gauge->to_host(what, who); });
        return true;
    });
}

void milcgpu_plugin_host_writes(int what) {
    if (what & MILCGPU_LINKS)
        milcgpu_plugin_before_change(nullptr);
}

void milcgpu_plugin_host_wrote(int what) {
    if (what & MILCGPU_LINKS)
        plugin().lattice_changed();
    if (plugin().gauge != nullptr)
        plugin().gauge->host_wrote(what);
}

} // extern "C"
