// Making and moving links.
#include "milc_glue/plugin/state.h"
#include <algorithm>

using namespace milcgpu;

extern "C" {

int milcgpu_plugin_links(milcgpu_routine routine, const milcgpu_fatlink_spec *spec, const void *gauge, int n,
                         const double *eps, void *const *fat, void *const *lng, void *v, void *y, void *w, int alone,
                         milcgpu_fatlink_report *report) {
    return done_by(routine, [&] {
        Plugin &p = plugin();
        RoutineAccount &account = p.ledger[routine];
        const Stopwatch watch(account.seconds);
        p.known.clear();
        p.links->forget_alone();
        const auto field_list = [&](void *const *from) {
            std::vector<milcgpu_field> fields;
            for (int k = 0; k < n; ++k)
                fields.push_back(p.links->field(from != nullptr ? from[k] : nullptr));
            return fields;
        };
        if (alone && n > static_cast<int>(most_link_sets))
            return false;
        const std::vector<milcgpu_field> fats = field_list(fat), lngs = field_list(lng);
        const milcgpu_field gauge_field = p.links->field(gauge), vs = p.links->field(v), ys = p.links->field(y),
                            ws = p.links->field(w);
        const auto wanted = [](const milcgpu_field &field) { return field.data != nullptr ? &field : nullptr; };
        const milcgpu_hisq_links hisq{wanted(vs), wanted(ys), wanted(ws)};
        const auto attempt = [&] {
            std::vector<milcgpu_fatlink_set> sets;
            std::vector<LinkCache::Addresses> wanted_slots;
            for (int k = 0; k < std::min(n, static_cast<int>(most_link_sets)); ++k)
                wanted_slots.emplace_back(fats[k].data, lngs[k].data);
            std::vector<LinkSet *> kept = p.links->slots_for(wanted_slots);
            kept.resize(n, nullptr);
            for (int k = 0; k < n; ++k) {
                if (kept[k] != nullptr)
                    kept[k]->loaded = false; // not what it was, whatever happens
                sets.push_back({eps[k], alone ? nullptr : wanted(fats[k]), alone ? nullptr : wanted(lngs[k]),
                                kept[k] != nullptr ? &kept[k]->handle : nullptr});
            }
            report->struct_size = sizeof *report;
            const milcgpu_status status = p.agreed(
                gauge != nullptr ? milcgpu_fat_links(p.context, spec, &gauge_field, sets.data(), n, &hisq, report)
                                 : milcgpu_gauge_links(p.gauge->handle(), spec, sets.data(), n, &hisq, report));
            for (int k = 0; k < n && status == MILCGPU_OK; ++k)
                if (kept[k] != nullptr)
                    alone ? p.links->keep_alone(*kept[k], fats[k].data, lngs[k].data)
                          : p.links->keep(*kept[k], fats[k].data, lngs[k].data);
            return status;
        };
        const milcgpu_status status = with_links_dropped(routine, attempt);
        if (status != MILCGPU_OK) {
            p.links->drop_all();
            p.report_failure(routine, status);
            return false;
        }
        if (p.quarks->stay()) // a part of the links is enough to know another lattice
            p.quarks->links_made(2 * routine + (spec->hisq != 0),
                                 gauge != nullptr ? hash_part(p.link_records(gauge), 0) : p.gauge->links_version());
        ++account.calls;
        account.flops += report->flops;
        account.to_device += report->bytes_to_device;
        account.to_host += report->bytes_to_host;
        return true;
    });
}

void milcgpu_plugin_forget_alone(void) {
    if (plugin().links != nullptr)
        plugin().links->forget_alone();
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

void *milcgpu_plugin_room(size_t bytes) {
    void *const block = milcgpu_plugin_block(bytes, 0);
    return block != nullptr ? block : host_room(bytes);
}
void *milcgpu_plugin_untouched_room(size_t bytes) { return host_room(bytes); }

} // extern "C"
