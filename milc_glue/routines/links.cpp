// Makes and moves links.
#include "milc_glue/routines/entry.h"
#include "milc_glue/routines/report_for_milc.h"
#include <algorithm>

using namespace milcgpu;

extern "C" {

// New links are about to be written at these addresses, or to be deferred there.
static void begin_new_links(Plugin &p, int n, void *const *fat, void *const *lng) {
    const auto begin = [&](const void *field) {
        if (field == nullptr)
            return;
        milcgpu_plugin_before_change(field);
        p.deferred.drop(MILCGPU_FERMION_LINKS, field);
    };
    for (int k = 0; k < n; ++k)
        begin(fat[k]), begin(lng[k]);
    milcgpu_plugin_before_change(p.links->own_derivative().first);
}

int milcgpu_plugin_links(milcgpu_plugin_links_call call, milcgpu_fatlink_report *given_report) {
    const ReportForMilc<milcgpu_fatlink_report> report(given_report);
    const milcgpu_routine routine = call.routine;
    if (plugin().links != nullptr)
        begin_new_links(plugin(), call.n, call.fat, call.lng);
    return offloaded(routine, [&](Plugin &p, RoutineAccount &account) -> Done {
        p.vectors.forget_solutions();
        const milcgpu_field gauge_field = p.links->field(call.gauge), vs = p.links->field(call.v),
                            ys = p.links->field(call.y), ws = p.links->field(call.w);
        const auto wanted = [](const milcgpu_field &field) { return field.data != nullptr ? &field : nullptr; };
        const milcgpu_hisq_links hisq{wanted(vs), wanted(ys), wanted(ws)};
        const int n_eps = call.n - (call.spec->derivative != 0);
        const bool sums = call.device_only && n_eps > 1; // of the first set and the derivative
        milcgpu_fatlink_spec how = *call.spec;
        how.derivative = sums || call.spec->derivative != 0;
        struct Made {
            LinkCache::Addresses links;
            double eps;
            milcgpu_field fat, lng;
        };
        std::vector<Made> made;
        uint64_t content = 0; // of the first set on the device; 0: it does not stay there
        const auto make = [&](const void *of_fat, const void *of_lng, double of_eps) {
            made.push_back({{of_fat, of_lng}, of_eps, p.links->field(of_fat), p.links->field(of_lng)});
        };
        const auto given = [&](int k) { make(call.fat[k], call.lng[k], call.eps[k]); };
        for (int k = 0; k < (sums ? 1 : call.n); ++k)
            given(k);
        if (sums && n_eps < call.n)
            given(n_eps);
        else if (sums)
            make(p.links->own_derivative().first, p.links->own_derivative().second, 0);
        const auto attempt = [&] {
            std::vector<milcgpu_fatlink_set> sets;
            std::vector<LinkCache::Addresses> wanted_slots;
            for (size_t k = 0; k < std::min(made.size(), most_link_sets); ++k)
                wanted_slots.push_back(made[k].links);
            std::vector<LinkSet *> kept = p.links->slots_for(wanted_slots);
            kept.resize(made.size(), nullptr);
            for (size_t k = 0; k < made.size(); ++k) {
                if (kept[k] != nullptr)
                    kept[k]->mirror.forget_copy(); // its content changes, whatever happens
                sets.push_back({made[k].eps, call.device_only ? nullptr : wanted(made[k].fat),
                                call.device_only ? nullptr : wanted(made[k].lng),
                                kept[k] != nullptr ? &kept[k]->handle : nullptr});
            }
            const int n_sets = static_cast<int>(sets.size());
            const milcgpu_status status = p.collective(
                call.gauge != nullptr
                    ? milcgpu_links_make(p.context, &how, &gauge_field, sets.data(), n_sets, &hisq, report)
                    : milcgpu_gauge_make_links(p.gauge->handle(), &how, sets.data(), n_sets, &hisq, report));
            for (size_t k = 0; k < made.size() && status == MILCGPU_OK; ++k)
                if (kept[k] != nullptr)
                    call.device_only ? p.links->keep_deferred(*kept[k], made[k].links.first, made[k].links.second)
                                     : p.links->keep(*kept[k], made[k].links.first, made[k].links.second);
            content = status == MILCGPU_OK && !kept.empty() && kept[0] != nullptr ? kept[0]->content() : 0;
            for (int k = 1; k < n_eps && sums && status == MILCGPU_OK; ++k)
                p.links->keep_sum({call.fat[k], call.lng[k]}, made[0].links, call.eps[k] - call.eps[0], made[1].links);
            return status;
        };
        const milcgpu_status status = with_links_dropped(routine, attempt);
        if (status != MILCGPU_OK) {
            p.links->drop_all();
            return status;
        }
        if (p.vectors.keeps_copies()) { // other links, or another gauge field: another lattice
            const int way = 4 * routine + 2 * (call.spec->hisq != 0);
            if (call.gauge != nullptr) // a part of it is enough
                p.links_made(way, hash_records(p.link_records(call.gauge), Share::sample));
            else if (content != 0)
                p.links_made(way + 1, content);
        }
        account.flops += report->flops;
        account.to_device += report->bytes_to_device;
        account.to_host += report->bytes_to_host;
        return status;
    });
}

int milcgpu_plugin_links_sum(milcgpu_plugin_link_fields links, milcgpu_plugin_link_fields a, double factor,
                             milcgpu_plugin_link_fields b) {
    return offloaded(MILCGPU_HISQ_LINKS, [&](Plugin &p, RoutineAccount &) -> Done {
        p.links->keep_sum({links.fat, links.lng}, {a.fat, a.lng}, factor, {b.fat, b.lng});
        // It is made now, of what a and b are.
        return p.links_for(MILCGPU_HISQ_LINKS, links.fat, links.lng) != nullptr ? uncounted : left_to_milc;
    });
}

void milcgpu_plugin_back_links(const void *links, int hops, void *back) {
    Plugin &p = plugin();
    const Stopwatch watch(p.ledger[MILCGPU_BACK_LINKS].seconds);
    ++p.ledger[MILCGPU_BACK_LINKS].calls;
    gather_adjoint_links(links, {p.layout.extent, p.site_map.data()}, hops, p.in_double(), back);
}

void milcgpu_plugin_gather_links(const void *first, size_t pitch, void *to) {
    Plugin &p = plugin();
    const Stopwatch watch(p.ledger[MILCGPU_GATHER_LINKS].seconds);
    ++p.ledger[MILCGPU_GATHER_LINKS].calls;
    HostRecords records = p.link_records(first);
    records.pitch = pitch;
    gather_records(records, to);
}

void *milcgpu_plugin_allocate(size_t bytes) { return host_allocate(bytes); }

} // extern "C"
