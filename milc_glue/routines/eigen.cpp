// Eigenvectors of MILC's links: computing them, loading them from MILC's fields or a file, copying them there, and
// choosing those that deflate a solve.
#include "milc_glue/api/context.h"
#include "milc_glue/routines/entry.h"
#include "milc_glue/routines/report_for_milc.h"
#include "milc_glue/routines/solve.h"
#include "milc_glue/solve/eigen_handle.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

using namespace milcgpu;

namespace {

using Set = EigenStore::Set;

// |B v - l v| / (the largest l) that each precision reaches.
constexpr double least_of_single = 1e-6, least_of_double = 1e-13;

// MILC's Ritz ends when an eigenvalue changes by less than its tolerance in one sweep. The error of an eigenvalue is
// |B v - l v|^2 divided by the distance to the next one. So Lanczos asks for a |B v - l v| of half the root of the
// tolerance (MILC's vectors have 5e-5 at 1e-8 on 8^4), divided by the largest eigenvalue, which is about 20.
double lanczos_tolerance(const milcgpu_plugin_eigen_call &call) {
    constexpr double factor = 0.5 / 20, most = 1e-3;
    const double asked = std::fabs(call.tolerance);
    return std::fmin(std::fmax(call.of_eigenvalues != 0 ? factor * std::sqrt(asked) : asked, least_of_double), most);
}

// The |B v - l v| that MILC's tolerance stands for: the error of an eigenvalue is about the square of it, and the
// largest eigenvalue is about 20.
double asked_residual(const milcgpu_plugin_eigen_call &call) {
    const double asked = std::fabs(call.tolerance);
    return call.of_eigenvalues != 0 ? std::sqrt(asked) : 20 * asked;
}

// True if vectors in this precision fit. They take 48, 24 or 16 bytes per site.
bool fits(Plugin &p, milcgpu_eigen_spec spec, int precision) {
    constexpr double of_free = 0.9;
    size_t bytes = 0;
    spec.precision = precision;
    const bool here = milcgpu_eigenvectors_plan(p.context, &spec, &bytes) == MILCGPU_OK &&
                      static_cast<double>(bytes) < of_free * static_cast<double>(p.context->device->free_bytes());
    return !p.collective(!here);
}

const char *sites_of(int parity) { return parity == MILCGPU_EVEN ? "even" : "odd"; }
int other_than(int parity) { return MILCGPU_EVEN + MILCGPU_ODD - parity; }

uint64_t bytes_of(const Plugin &p, int parity, int count) {
    return static_cast<uint64_t>(count) * p.sites_of(parity) * p.bytes_of(6);
}

// A pass builds a basis, from the vectors that the last pass has kept.
struct LanczosLines {
    ProgressLines lines;
    int pass = 1, last = 0, kept = 0;
    double begun = 0; // the pass
};

// Whether another pass follows is known only at the end of a pass.
void progress(void *user, int done, int of) {
    LanczosLines &l = *static_cast<LanczosLines *>(user);
    if (done < l.last)
        ++l.pass, l.kept = done, l.begun = l.lines.seconds();
    l.last = done;
    l.lines.log(seconds_left(l.lines.seconds() - l.begun, static_cast<double>(done - l.kept) / (of - l.kept)), [&] {
        return format("%d of %d Lanczos vectors", done, of) + (l.pass > 1 ? format(" of pass %d", l.pass) : "");
    });
}

bool has(const Set *set, int count) { return set != nullptr && set->count() >= count; }

// For whom vectors are computed, and what happens if that fails; nullptr: MILC's own routine computes them. kept: only
// this library knows them. Then a line logs them, they count as a call, and if memory is short some is freed for them.
struct Maker {
    const char *name, *otherwise;
    bool kept;
};
const Maker for_milc{nullptr, nullptr, false},
    of_fields{"MILC's eigenvectors", "Solves go on without deflation", false},
    of_other_parity{routine_name(MILCGPU_EIGENSOLVE), "Solves there go on without deflation", false},
    of_links{routine_name(MILCGPU_EIGENSOLVE), "These links have no eigenvectors", true};

// Keeps what make() makes; nullptr after a line in the log if it fails. If the links have changed on the device, the
// next call loads them again. content: of the links that the set is found by.
template <class Make>
Set *made_by(Plugin &p, LinkSet &links, uint64_t content, int parity, bool exact, const Maker &maker,
             const Make &make) {
    milcgpu_eigenvectors *handle = nullptr;
    const auto attempt = [&] {
        const milcgpu_status status = p.collective(make(handle));
        if (status != MILCGPU_OK)
            milcgpu_eigenvectors_destroy(std::exchange(handle, nullptr));
        return status;
    };
    const milcgpu_status status = maker.kept ? with_room(p, MILCGPU_EIGENSOLVE, &links, attempt) : attempt();
    Set *const made = status == MILCGPU_CORRUPTED ? nullptr : &p.eigenvectors->keep(content, parity, exact, handle);
    if (status == MILCGPU_OK) {
        p.ledger[MILCGPU_EIGENSOLVE].calls += maker.kept;
        return made;
    }
    if (made == nullptr)
        links.mirror.forget_copy();
    if (maker.otherwise == nullptr) {
        p.report_failure(MILCGPU_EIGENSOLVE, status);
    } else {
        p.log_failure(MILCGPU_EIGENSOLVE, format("%s: %s. %s", maker.name, p.reason().c_str(), maker.otherwise));
        p.end_context_after(status);
    }
    return nullptr;
}

Set *compute(Plugin &p, LinkSet &links, int parity, const milcgpu_plugin_eigenvectors &wanted, const Maker &maker,
             milcgpu_eigen_report &report) {
    report = {};
    report.struct_size = sizeof report;
    milcgpu_eigen_spec spec{};
    milcgpu_eigen_defaults(&spec, sizeof spec);
    spec.parity = parity;
    spec.count = wanted.count;
    const bool exact = wanted.tolerance > 0,
               fine = exact && wanted.tolerance < least_of_single && p.real() == MILCGPU_DOUBLE;
    const auto in = [&](int precision) { // with a tolerance that this precision reaches
        spec.precision = precision;
        if (exact)
            spec.tolerance =
                std::max(wanted.tolerance, precision == MILCGPU_DOUBLE ? least_of_double : least_of_single);
    };
    if (fine && fits(p, spec, MILCGPU_DOUBLE))
        in(MILCGPU_DOUBLE);
    else if (!maker.kept) // MILC prints residuals, which half has no better than 1e-6
        in(fits(p, spec, MILCGPU_SINGLE) ? MILCGPU_SINGLE : MILCGPU_HALF);
    else
        in(wanted.precision);
    if (fine && spec.precision != MILCGPU_DOUBLE)
        p.log(1, format("%s: memory for vectors in double is short, so residuals are up to %.0e of the largest "
                        "eigenvalue. The tolerance stands for %.0e; use more ranks or fewer vectors",
                        routine_name(MILCGPU_EIGENSOLVE), least_of_single, wanted.tolerance));
    LanczosLines lines{{p, routine_name(MILCGPU_EIGENSOLVE)}};
    spec.progress = progress;
    spec.user = &lines;
    size_t bytes = 0;
    milcgpu_eigenvectors_plan(p.context, &spec, &bytes);
    p.eigenvectors->make_room(bytes, links);
    Set *const made = made_by(p, links, links.content(), parity, exact, maker, [&](milcgpu_eigenvectors *&handle) {
        milcgpu_status status = p.collective(milcgpu_eigenvectors_compute(links.handle, &spec, &handle, &report));
        if (status == MILCGPU_NO_MEMORY && !maker.kept) {
            p.log(1, format("%s: %s. Trying again in 16 bytes a site and vector, without the other sets of links",
                            routine_name(MILCGPU_EIGENSOLVE), p.reason().c_str()));
            while (p.links->drop_oldest(&links))
                continue;
            in(MILCGPU_HALF);
            status = milcgpu_eigenvectors_compute(links.handle, &spec, &handle, &report);
        }
        return status;
    });
    if (made == nullptr)
        return nullptr;
    p.ledger[MILCGPU_EIGENSOLVE].flops += report.gflops * 1e9 * report.seconds;
    if (!maker.kept)
        return made;
    std::vector<double> values(report.count);
    milcgpu_eigenvectors_values(made->handle, values.data(), nullptr);
    p.log(1, format("%s: %d eigenvectors on %s sites, l = %.4g to %.4g, in %.2f s%s%s",
                    routine_name(MILCGPU_EIGENSOLVE), report.count, sites_of(parity), values.front(), values.back(),
                    report.seconds, report.message[0] != 0 ? ". " : "", report.message));
    if (wanted.note != nullptr && p.certificate.remarks.insert({MILCGPU_EIGENSOLVE, wanted.note}).second)
        p.log(1, wanted.note);
    return made;
}

// Loads the vectors of MILC's fields. content: as above.
Set *take(Plugin &p, LinkSet &links, uint64_t content, int parity, const milcgpu_plugin_eigenvectors &wanted,
          void *const *vectors, const Maker &maker) {
    Set *const made = made_by(p, links, content, parity, false, maker, [&](milcgpu_eigenvectors *&handle) {
        milcgpu_status status =
            p.collective(milcgpu_eigenvectors_create(links.handle, parity, wanted.precision, wanted.count, &handle));
        for (int k = 0; k < wanted.count && status == MILCGPU_OK; ++k) {
            const milcgpu_field from{vectors[k], p.real(), 0};
            status = p.collective(milcgpu_eigenvectors_load(handle, links.handle, k, &from));
        }
        return status;
    });
    if (made != nullptr)
        p.ledger[MILCGPU_EIGENSOLVE].to_device += bytes_of(p, parity, wanted.count);
    return made;
}

// Computes D of the vectors of the other parity, which were requested last, with these links or with others.
Set *turn(Plugin &p, LinkSet &links, int parity, const Set &other, const Maker &maker,
          milcgpu_links *by_others = nullptr) {
    milcgpu_links *const by = by_others != nullptr ? by_others : links.handle;
    Set *const made = made_by(p, links, other.content, parity, false, maker, [&](milcgpu_eigenvectors *&handle) {
        return other_parity_of(other.handle, by, &handle);
    });
    if (made == nullptr)
        p.links->forget_copy(by); // they may have been emptied
    if (made != nullptr && maker.kept)
        p.log(1, format("%s: %d eigenvectors on %s sites, by D of the others", routine_name(MILCGPU_EIGENSOLVE),
                        made->count(), sites_of(parity)));
    return made;
}

bool is_named(const char *path) { return path != nullptr && path[0] != 0; }

// Reads a file and keeps its vectors, on the file's parity; nullptr after a line in the log if that fails.
Set *read(Plugin &p, LinkSet &links, const milcgpu_plugin_eigenvectors &wanted) {
    milcgpu_eigenvectors *handle = nullptr;
    const milcgpu_status status = with_room(p, MILCGPU_EIGENSOLVE, &links, [&] {
        return milcgpu_eigenvectors_read(links.handle, wanted.read_from, wanted.precision, wanted.count, &handle);
    });
    if (status != MILCGPU_OK) {
        p.log(0, format("%s: %s: %s. The eigenvectors are computed", routine_name(MILCGPU_EIGENSOLVE), wanted.read_from,
                        p.reason().c_str()));
        p.end_context_after(status);
        return nullptr;
    }
    const int parity = handle->set->parity() == 0 ? MILCGPU_EVEN : MILCGPU_ODD;
    p.log(1, format("%s: %d eigenvectors on %s sites, from %s", routine_name(MILCGPU_EIGENSOLVE),
                    milcgpu_eigenvectors_count(handle), sites_of(parity), wanted.read_from));
    return &p.eigenvectors->keep(links.content(), parity, false, handle);
}

// The file that these vectors must be written to; nullptr: no file, a file for other links, or written already. Links
// that were once named without a file never get one: MILC of 2025 leaves the twist of one set of propagators in the
// links of the next, and says that there is none.
Plugin::EigenFile *due_file(Plugin &p, const LinkSet &links, int parity, const milcgpu_plugin_eigenvectors &wanted) {
    if (!is_named(wanted.write_to))
        return nullptr;
    std::vector<Plugin::EigenFile> &files = p.eigen_files;
    auto file = std::find_if(files.begin(), files.end(), [&](const auto &one) { return one.name == wanted.write_to; });
    if (file == files.end())
        file = files.insert(file, Plugin::EigenFile{wanted.write_to});
    uint64_t content = 0; // on all ranks
    bool done = false;    // on any: one alone may have seen that its part of the lattice has changed
    for (const auto &[here, done_here] : p.collective.gathered(std::array<uint64_t, 2>{links.content(), file->done})) {
        content = combined(here, content);
        done = done || done_here != 0;
    }
    file->done = done;
    if (!done && file->of == 0 && file->not_of.count(content) == 0) {
        if (wanted.saved != 0)
            file->of = content;
        else
            file->not_of.insert(content);
    }
    return !done && parity == MILCGPU_EVEN && file->of == content ? &*file : nullptr;
}

void write(Plugin &p, const Set &set, Plugin::EigenFile &file) {
    file.done = true;
    const milcgpu_status status =
        p.collective(milcgpu_eigenvectors_write(set.handle, file.name.c_str(), p.real(), nullptr));
    const bool good = status == MILCGPU_OK;
    const std::string begin = good ? "the eigenvectors are in " : p.reason() + ". They are not in ";
    p.log(good, format("%s: %s%s%s", routine_name(MILCGPU_EIGENSOLVE), begin.c_str(), file.name.c_str(),
                       good ? ", those of the links without a twist and with eps_naik 0" : ""));
}

// exact: to the tolerance, and not as D of the other parity's vectors. Vectors for a file are always exact.
Set *made_for(Plugin &p, LinkSet &links, int parity, milcgpu_plugin_eigenvectors wanted, bool exact) {
    Plugin::EigenFile *const due = due_file(p, links, parity, wanted);
    exact = exact || due != nullptr;
    if (!exact)
        wanted.tolerance = 0;
    const int other_parity = other_than(parity);
    Set *made = nullptr, *other = exact ? nullptr : p.eigenvectors->of(links, other_parity);
    if (is_named(wanted.read_from) && !has(other, 1)) {
        read(p, links, wanted);
        if (p.context == nullptr)
            return nullptr;
        made = p.eigenvectors->of(links, parity), other = p.eigenvectors->of(links, other_parity);
    }
    milcgpu_eigen_report report;
    if (!has(made, 1))
        made = has(other, 1) ? turn(p, links, parity, *other, of_links)
                             : compute(p, links, parity, wanted, of_links, report);
    if (made != nullptr && due != nullptr)
        write(p, *made, *due);
    else if (made != nullptr && is_named(wanted.write_to) && !has(other, 1))
        p.log(1, format("%s: they are not written into %s, which is for the first links without a twist and with "
                        "eps_naik 0 that name it",
                        routine_name(MILCGPU_EIGENSOLVE), wanted.write_to));
    return made;
}

// For a solve that requests no vectors, for example on odd sites after MILC's own deflation: D of the other parity's
// vectors. nullptr: there are none, or memory is short.
Set *turned_where_there_is_room(Plugin &p, LinkSet &links, int parity) {
    Set *const other = p.eigenvectors->of(links, other_than(parity));
    if (!has(other, 1))
        return nullptr;
    const size_t bytes = Eigenvectors::bytes(p.context->geometry, other->handle->set->precision(), other->count());
    if (p.collective(static_cast<int>(p.context->device->free_bytes() / 2 < bytes)) != 0)
        return nullptr;
    return turn(p, links, parity, *other, of_links);
}

// Runs an entry: work(links) with the links on the device.
template <class Work> int with_links(const void *fat, const void *lng, const Work &work) {
    return offloaded(MILCGPU_EIGENSOLVE, [&](Plugin &p, RoutineAccount &account) -> Done {
        LinkSet *const links = p.context != nullptr ? p.links_for(MILCGPU_EIGENSOLVE, fat, lng) : nullptr;
        return links != nullptr ? work(p, *links, account) : left_to_milc;
    });
}

} // namespace

Set *milcgpu::eigenvectors_of(Plugin &p, RoutineAccount &account, LinkSet &links,
                              const milcgpu_plugin_solve_call &call) {
    const bool due = call.eigenvectors != nullptr && due_file(p, links, call.parity, *call.eigenvectors) != nullptr;
    if (call.deflate == MILCGPU_UNDEFLATED)
        return nullptr;
    const bool of_milcs = call.deflate == MILCGPU_DEFLATED_BY_MILCS;
    Set *set = of_milcs ? p.eigenvectors->of_fields(call.parity) : p.eigenvectors->of(links, call.parity);
    const double begin = wall_seconds();
    if ((set == nullptr || (due && has(set, 1))) && call.eigenvectors != nullptr && call.eigenvectors->count > 0) {
        const double shift = 4 * call.mass * call.mass, last = p.eigenvectors->last_value(call.parity);
        if (!due && last > 0 && shift >= last)
            return nullptr;
        set = made_for(p, links, call.parity, *call.eigenvectors, false);
    } else if (set == nullptr && !of_milcs) {
        set = turned_where_there_is_room(p, links, call.parity);
    }
    const double seconds = wall_seconds() - begin;
    account.seconds -= seconds;
    p.ledger[MILCGPU_EIGENSOLVE].seconds += seconds;
    return has(set, 1) ? set : nullptr;
}

extern "C" {

int milcgpu_plugin_eigensolve(const milcgpu_plugin_eigen_call *call, double *values, double *residuals,
                              milcgpu_eigen_report *given_report) {
    const ReportForMilc<milcgpu_eigen_report> report(given_report);
    return with_links(call->fat, call->lng, [&](Plugin &p, LinkSet &links, RoutineAccount &) -> Done {
        p.eigenvectors->drop_all();
        p.eigenvectors_lost = false;
        milcgpu_plugin_eigenvectors wanted{};
        wanted.count = call->count;
        wanted.tolerance = lanczos_tolerance(*call);
        const Set *const set = compute(p, links, call->parity, wanted, for_milc, *report);
        if (set == nullptr) {
            report->count = 0;
            return left_to_milc;
        }
        p.eigenvectors->mirror(*set, call->vectors, false);
        milcgpu_eigenvectors_values(set->handle, values, residuals);
        for (int k = 0; p.poisons() && k < report->count; ++k) {
            const HostRecords field = p.parity_of({call->vectors[k], p.real(), 0}, call->parity);
            std::memset(const_cast<void *>(field.data), 0xFF, field.count * field.bytes);
        }
        if (report->count < call->count) {
            p.log(0, format("%s: %d of %d eigenvectors. %s", routine_name(MILCGPU_EIGENSOLVE), report->count,
                            call->count, report->message));
            return left_to_milc;
        }
        const double reached = *std::max_element(residuals, residuals + report->count), asked = asked_residual(*call);
        if (reached > asked)
            p.log(1,
                  format("%s: |B v - l v| is up to %.1e. The tolerance of %.1e stands for %.1e, which their precision "
                         "does not reach",
                         routine_name(MILCGPU_EIGENSOLVE), reached, std::fabs(call->tolerance), asked));
        return MILCGPU_OK;
    });
}

int milcgpu_plugin_eigen_ready(const milcgpu_plugin_eigen_call *call) {
    return offloaded(MILCGPU_EIGENSOLVE, [&](Plugin &p, RoutineAccount &) -> Done {
        if (p.context == nullptr || p.eigenvectors_lost)
            return left_to_milc;
        if (p.eigenvectors->has(call->vectors, call->count, call->parity))
            return uncounted;
        if (p.eigenvectors->newest_on_device() && p.eigenvectors->is_at(call->vectors))
            return left_to_milc; // a bit has flipped in them, and a line has said so
        LinkSet *const links = p.links_for(MILCGPU_EIGENSOLVE, call->fat, call->lng);
        if (links == nullptr)
            return left_to_milc;
        p.eigenvectors->drop_all();
        milcgpu_plugin_eigenvectors wanted{};
        wanted.count = call->count;
        const Set *const set = take(p, *links, links->content(), call->parity, wanted, call->vectors, of_fields);
        if (set == nullptr)
            return left_to_milc;
        p.eigenvectors->mirror(*set, call->vectors, true);
        return uncounted;
    });
}

int milcgpu_plugin_eigen_other_parity(const milcgpu_plugin_eigen_call *call) {
    return offloaded(MILCGPU_EIGENSOLVE, [&](Plugin &p, RoutineAccount &) -> Done {
        if (p.context == nullptr)
            return left_to_milc;
        p.eigenvectors->forget_other_parity();
        if (!p.eigenvectors->newest_on_device() || !p.eigenvectors->has(call->vectors, call->count, call->parity))
            return left_to_milc;
        LinkSet *const links = p.links_for(MILCGPU_EIGENSOLVE, call->fat, call->lng);
        if (links == nullptr)
            return left_to_milc;
        p.eigenvectors->make_other_parity_by(LinkCache::hold(*links));
        return uncounted;
    });
}

int milcgpu_plugin_eigen_both_parities(const milcgpu_plugin_eigen_call *call) {
    return with_links(call->fat, call->lng, [&](Plugin &p, LinkSet &links, RoutineAccount &) {
        EigenStore &store = *p.eigenvectors;
        const int parity = other_than(call->parity);
        const Set *set = store.of_fields(parity), *const own = store.of_fields(call->parity);
        milcgpu_links *const made_by = store.links_of_other_parity();
        milcgpu_plugin_eigenvectors wanted{};
        wanted.count = call->count;
        if (set == nullptr && has(own, 1) && made_by != nullptr)
            set = turn(p, links, parity, *own, of_other_parity, made_by);
        else if (set == nullptr && has(own, 1) && !store.newest_on_device())
            set = take(p, links, own->content, parity, wanted, call->vectors, of_other_parity);
        return has(set, 1) ? uncounted : left_to_milc;
    });
}

int milcgpu_plugin_eigen_on_device(void *const *vectors) {
    const Plugin &p = plugin();
    return p.eigenvectors != nullptr && p.eigenvectors->newest_on_device() && p.eigenvectors->is_at(vectors);
}

int milcgpu_plugin_eigen_check(const milcgpu_plugin_eigen_call *call, const double *values, double *residuals,
                               double *norms) {
    return with_links(call->fat, call->lng, [&](Plugin &p, const LinkSet &links, RoutineAccount &) -> Done {
        const Set *const set = p.eigenvectors->mirrored();
        milcgpu_links *const made_by = p.eigenvectors->links_of_other_parity();
        if (set == nullptr || (call->parity != set->parity && made_by == nullptr))
            return left_to_milc; // MILC's fields have that part
        return {p.collective(look_at_eigenvectors(set->handle, links.handle, made_by, call->parity, call->count, values,
                                                  residuals, norms)),
                0};
    });
}

int milcgpu_plugin_eigen_need(void) {
    return common_answer_of("eigenvectors", "They are lost", 0, [&] {
        Plugin &p = plugin();
        if (p.eigenvectors_lost)
            p.log_failure(MILCGPU_EIGENSOLVE, "eigenvectors were on the device alone, and are lost");
        if (p.eigenvectors_lost || p.eigenvectors == nullptr || !p.eigenvectors->newest_on_device())
            return !p.eigenvectors_lost;
        const Set &set = *p.eigenvectors->mirrored();
        p.ledger[MILCGPU_EIGENSOLVE].to_host +=
            bytes_of(p, set.parity, set.count()) +
            (p.eigenvectors->links_of_other_parity() != nullptr ? bytes_of(p, other_than(set.parity), set.count()) : 0);
        try {
            p.bring_to_host("eigenvectors", [&] { p.eigenvectors->to_host(); });
        } catch (const Error &error) {
            p.eigenvectors->drop_all();
            p.eigenvectors_lost = true;
            p.log(0, std::string("eigenvectors are on the device and lost: ") + error.what());
        }
        return !p.eigenvectors_lost;
    });
}

int milcgpu_plugin_eigenvectors_get(const void *fat, const void *lng, int parity,
                                    const milcgpu_plugin_eigenvectors *wanted, double *values, void *const *vectors) {
    return with_links(fat, lng, [&](Plugin &p, LinkSet &links, RoutineAccount &account) -> Done {
        Set *set = p.eigenvectors->of(links, parity);
        const bool exact = values != nullptr || vectors != nullptr;
        if (!has(set, wanted->count) || (exact && !set->exact) || due_file(p, links, parity, *wanted) != nullptr)
            set = made_for(p, links, parity, *wanted, exact);
        if (set == nullptr)
            return left_to_milc;
        if (exact && !has(set, wanted->count)) {
            p.log_failure(MILCGPU_EIGENSOLVE, format("%s: there are %d eigenvectors of the %d that were asked for",
                                                     routine_name(MILCGPU_EIGENSOLVE), set->count(), wanted->count));
            return left_to_milc;
        }
        if (vectors != nullptr) {
            if (const milcgpu_status status = p.eigenvectors->save(*set, wanted->count, vectors))
                return status;
            account.to_host += bytes_of(p, parity, wanted->count);
        }
        if (values != nullptr) {
            std::vector<double> all(set->count());
            milcgpu_eigenvectors_values(set->handle, all.data(), nullptr);
            std::copy_n(all.begin(), wanted->count, values);
        }
        return uncounted;
    });
}

int milcgpu_plugin_eigenvectors_set(const void *fat, const void *lng, int parity,
                                    const milcgpu_plugin_eigenvectors *wanted, void *const *vectors) {
    return with_links(fat, lng, [&](Plugin &p, LinkSet &links, RoutineAccount &) {
        const Set *const set = take(p, links, links.content(), parity, *wanted, vectors, of_links);
        return set != nullptr ? uncounted : left_to_milc;
    });
}

void milcgpu_plugin_eigenvectors_drop(void) {
    Plugin &p = plugin();
    p.eigenvectors_lost = false;
    if (p.eigenvectors != nullptr)
        p.eigenvectors->drop_all();
}

} // extern "C"
