// Eigenvectors of MILC's links, for the solves to come, and for MILC.
#include "milc_glue/api/context.h"
#include "milc_glue/plugin/solve.h"
#include "milc_glue/solve/eigen.h"
#include <algorithm>
#include <utility>

using namespace milcgpu;

namespace {

using Set = KeptEigenvectors::Set;

// Of |B v - l v| / (the largest l): vectors of single precision come as close.
constexpr double least_tolerance = 1e-6;

const char *sites_of(int parity) { return parity == MILCGPU_EVEN ? "even" : "odd"; }

// What the library's calls of progress() need to know.
struct UnderWay {
    const Plugin &plugin;
    double said_at = wall_seconds();
};
void progress(void *user, int done, int of) {
    UnderWay &solve = *static_cast<UnderWay *>(user);
    const double now = wall_seconds();
    if (now - solve.said_at < 10)
        return;
    solve.said_at = now;
    solve.plugin.log(1, format("%s: %d of %d vectors of the Krylov space", routine_name(MILCGPU_EIGENSOLVE), done, of));
}

// Kept, also where they could not be made. Links that are no longer what they were are loaded again with the next call.
void keep(Plugin &p, LinkSet &links, int parity, bool exact, milcgpu_status status, milcgpu_eigenvectors *handle,
          Set *&made) {
    if (status == MILCGPU_CORRUPTED)
        links.mirror.forget_copy();
    else
        made = &p.eigenvectors->keep(links, parity, exact, handle);
}

milcgpu_status compute(Plugin &p, LinkSet &links, int parity, const milcgpu_plugin_eigenvectors &wanted, Set *&made) {
    milcgpu_eigen_spec spec{};
    milcgpu_eigen_defaults(&spec, sizeof spec);
    spec.parity = parity;
    spec.count = wanted.count;
    spec.precision = wanted.precision;
    spec.tolerance = wanted.tolerance > 0 ? std::max(wanted.tolerance, least_tolerance) : 0;
    UnderWay under_way{p};
    spec.progress = progress;
    spec.user = &under_way;
    size_t bytes = 0;
    milcgpu_eigenvectors_plan(p.context, &spec, &bytes);
    p.eigenvectors->make_room(bytes, links);
    milcgpu_eigenvectors *handle = nullptr;
    milcgpu_eigen_report report{};
    report.struct_size = sizeof report;
    const milcgpu_status status = with_room(p, MILCGPU_EIGENSOLVE, &links, [&] {
        return milcgpu_eigenvectors_compute(links.handle, &spec, &handle, &report);
    });
    keep(p, links, parity, wanted.tolerance > 0, status, handle, made);
    if (status != MILCGPU_OK)
        return status;
    std::vector<double> values(report.count);
    milcgpu_eigenvectors_values(handle, values.data(), nullptr);
    RoutineAccount &account = p.ledger[MILCGPU_EIGENSOLVE];
    account.flops += report.gflops * 1e9 * report.seconds;
    p.log(1,
          format("%s: %d eigenvectors on %s sites, l = %.4g to %.4g, in %.2f s. %s", routine_name(MILCGPU_EIGENSOLVE),
                 report.count, sites_of(parity), values.front(), values.back(), report.seconds, report.message));
    static const char *said = nullptr;
    if (wanted.note != nullptr && std::exchange(said, wanted.note) != wanted.note)
        p.log(1, wanted.note);
    return status;
}

// Those of MILC's fields.
milcgpu_status take(Plugin &p, LinkSet &links, int parity, const milcgpu_plugin_eigenvectors &wanted,
                    const milcgpu_field *vectors, Set *&made) {
    milcgpu_eigenvectors *handle = nullptr;
    milcgpu_status status = with_room(p, MILCGPU_EIGENSOLVE, &links, [&] {
        return milcgpu_eigenvectors_create(links.handle, parity, wanted.precision, wanted.count, &handle);
    });
    for (int k = 0; k < wanted.count && status == MILCGPU_OK; ++k)
        status = p.collective(milcgpu_eigenvectors_load(handle, links.handle, k, &vectors[k]));
    if (status != MILCGPU_OK)
        milcgpu_eigenvectors_destroy(std::exchange(handle, nullptr));
    keep(p, links, parity, false, status, handle, made);
    p.ledger[MILCGPU_EIGENSOLVE].to_device += wanted.count * p.sites_of(parity) * p.bytes_of(6);
    return status;
}

// D of the vectors of the other parity, which were asked for last.
milcgpu_status turn(Plugin &p, LinkSet &links, int parity, const Set &other, Set *&made) {
    milcgpu_eigenvectors *handle = nullptr;
    const milcgpu_status status =
        with_room(p, MILCGPU_EIGENSOLVE, &links, [&] { return other_parity_of(other.handle, links.handle, &handle); });
    keep(p, links, parity, false, status, handle, made);
    if (status == MILCGPU_OK)
        p.log(1, format("%s: %d eigenvectors on %s sites, by D of the others", routine_name(MILCGPU_EIGENSOLVE),
                        milcgpu_eigenvectors_count(handle), sites_of(parity)));
    return status;
}

bool has(const Set *set, int count) {
    return set != nullptr && set->handle != nullptr && milcgpu_eigenvectors_count(set->handle) >= count;
}

// What `make` makes; nullptr, and said: it could not be done.
template <class Make> Set *made_by(Plugin &p, const Make &make) {
    RoutineAccount &account = p.ledger[MILCGPU_EIGENSOLVE];
    const Stopwatch watch(account.seconds);
    Set *made = nullptr;
    const milcgpu_status status = make(made);
    if (status == MILCGPU_OK) {
        ++account.calls;
        return made;
    }
    p.log_failure(MILCGPU_EIGENSOLVE, format("%s: %s. These links have no eigenvectors",
                                             routine_name(MILCGPU_EIGENSOLVE), reason().c_str()));
    p.end_context_after(status);
    return nullptr;
}

bool is_named(const char *path) { return path != nullptr && path[0] != 0; }

// Kept for the parity that the file has; nullptr, and said: they could not be taken from it.
Set *read(Plugin &p, LinkSet &links, const milcgpu_plugin_eigenvectors &wanted) {
    milcgpu_eigenvectors *handle = nullptr;
    const milcgpu_status status = with_room(p, MILCGPU_EIGENSOLVE, &links, [&] {
        return milcgpu_eigenvectors_read(links.handle, wanted.read_from, wanted.precision, wanted.count, &handle);
    });
    if (status != MILCGPU_OK) {
        p.log(0, format("%s: %s: %s. The eigenvectors are computed", routine_name(MILCGPU_EIGENSOLVE), wanted.read_from,
                        reason().c_str()));
        p.end_context_after(status);
        return nullptr;
    }
    const int parity = handle->set->parity() == 0 ? MILCGPU_EVEN : MILCGPU_ODD;
    p.log(1, format("%s: %d eigenvectors on %s sites, from %s", routine_name(MILCGPU_EIGENSOLVE),
                    milcgpu_eigenvectors_count(handle), sites_of(parity), wanted.read_from));
    return &p.eigenvectors->keep(links, parity, false, handle);
}

void write(Plugin &p, const Set &set, const char *path) {
    const milcgpu_status status = p.collective(milcgpu_eigenvectors_write(set.handle, path, p.real(), nullptr));
    const std::string why = status == MILCGPU_OK ? "" : reason() + ". They are not in ";
    p.log(status == MILCGPU_OK, format("%s: %s%s%s", routine_name(MILCGPU_EIGENSOLVE), why.c_str(),
                                       status == MILCGPU_OK ? "the eigenvectors are in " : "", path));
}

// exact: not D of those of the other parity.
Set *made_for(Plugin &p, LinkSet &links, int parity, const milcgpu_plugin_eigenvectors &wanted, bool exact) {
    const int other_parity = MILCGPU_EVEN + MILCGPU_ODD - parity;
    Set *made = nullptr, *other = exact ? nullptr : p.eigenvectors->of(links, other_parity);
    if (is_named(wanted.read_from) && !has(other, 1)) {
        read(p, links, wanted);
        if (p.context == nullptr)
            return nullptr;
        made = p.eigenvectors->of(links, parity), other = p.eigenvectors->of(links, other_parity);
    }
    if (!has(made, 1))
        made = made_by(p, [&](Set *&made) {
            return has(other, 1) ? turn(p, links, parity, *other, made) : compute(p, links, parity, wanted, made);
        });
    if (made != nullptr && is_named(wanted.write_to) && !has(other, 1))
        write(p, *made, wanted.write_to);
    return made;
}

// For a solve of MILC's that asks for none, as those of odd sites that MILC's own deflation has begun: D of the other
// parity's. nullptr: there are none, or memory is short.
Set *turned_where_there_is_room(Plugin &p, LinkSet &links, int parity) {
    Set *const other = p.eigenvectors->of(links, MILCGPU_EVEN + MILCGPU_ODD - parity);
    if (!has(other, 1))
        return nullptr;
    const size_t bytes = Eigenvectors::bytes(p.context->geometry, other->handle->set->precision(),
                                             milcgpu_eigenvectors_count(other->handle));
    if (p.collective(static_cast<int>(p.context->device->free_bytes() / 2 < bytes)) != 0)
        return nullptr;
    return made_by(p, [&](Set *&made) { return turn(p, links, parity, *other, made); });
}

// An entry: `work` with the links on the device.
template <class Work> int with_links(const void *fat, const void *lng, const Work &work) {
    return done_by(MILCGPU_EIGENSOLVE, [&] {
        Plugin &p = plugin();
        if (p.context == nullptr)
            return false;
        LinkSet *const links = p.links_for(MILCGPU_EIGENSOLVE, fat, lng);
        return links != nullptr && work(p, *links);
    });
}

} // namespace

Set *milcgpu::eigenvectors_of(Plugin &p, RoutineAccount &account, LinkSet &links,
                              const milcgpu_plugin_solve_call &call) {
    if (call.undeflated != 0)
        return nullptr;
    Set *set = p.eigenvectors->of(links, call.parity);
    const double begin = wall_seconds();
    if (set == nullptr && call.eigenvectors != nullptr && call.eigenvectors->count > 0) {
        const double shift = 4 * call.mass * call.mass, last = p.eigenvectors->last_value(call.parity);
        if (last > 0 && shift >= last)
            return nullptr;
        set = made_for(p, links, call.parity, *call.eigenvectors, false);
    } else if (set == nullptr) {
        set = turned_where_there_is_room(p, links, call.parity);
    }
    account.seconds -= wall_seconds() - begin;
    return set != nullptr && set->handle != nullptr ? set : nullptr;
}

extern "C" {

int milcgpu_plugin_eigenvectors_get(const void *fat, const void *lng, int parity,
                                    const milcgpu_plugin_eigenvectors *wanted, double *values,
                                    const milcgpu_field *vectors) {
    return with_links(fat, lng, [&](Plugin &p, LinkSet &links) {
        Set *set = p.eigenvectors->of(links, parity);
        const bool exact = values != nullptr || vectors != nullptr;
        if (!has(set, wanted->count) || (exact && !set->exact))
            set = made_for(p, links, parity, *wanted, exact);
        if (set == nullptr)
            return false;
        const int count = milcgpu_eigenvectors_count(set->handle);
        if (count < wanted->count && exact) {
            p.log_failure(MILCGPU_EIGENSOLVE, format("%s: there are %d eigenvectors of the %d that were asked for",
                                                     routine_name(MILCGPU_EIGENSOLVE), count, wanted->count));
            return false;
        }
        std::vector<double> all(count);
        milcgpu_eigenvectors_values(set->handle, all.data(), nullptr);
        for (int k = 0; vectors != nullptr && k < wanted->count; ++k) {
            const milcgpu_status status = p.collective(milcgpu_eigenvectors_save(set->handle, k, &vectors[k]));
            if (status != MILCGPU_OK) {
                p.report_failure(MILCGPU_EIGENSOLVE, status);
                return false;
            }
            p.ledger[MILCGPU_EIGENSOLVE].to_host += p.sites_of(parity) * p.bytes_of(6);
        }
        if (values != nullptr)
            std::copy_n(all.begin(), wanted->count, values);
        return true;
    });
}

int milcgpu_plugin_eigenvectors_set(const void *fat, const void *lng, int parity,
                                    const milcgpu_plugin_eigenvectors *wanted, const milcgpu_field *vectors) {
    return with_links(fat, lng, [&](Plugin &p, LinkSet &links) {
        return made_by(p, [&](Set *&made) { return take(p, links, parity, *wanted, vectors, made); }) != nullptr;
    });
}

void milcgpu_plugin_eigenvectors_drop(void) {
    done_by(MILCGPU_EIGENSOLVE, [] {
        if (plugin().eigenvectors != nullptr)
            plugin().eigenvectors->drop_all();
        return true;
    });
}

} // extern "C"
