#include "milc_glue/residency/residency.h"
#include <utility>

namespace milcgpu {

void Residency::open(MilcSide &milc, milcgpu_context *context, const Habits &habits) {
    const int real = milc.real();
    links = std::make_unique<LinkCache>(milc.collective, context, milc.sites, real, habits.looks_at_all, deferred);
    gauge = std::make_unique<GaugeOwner>(milc.collective, context, real, milc.sites);
    kept_gauge = std::make_unique<KeptGauge>(context, real, habits.keeps_fields);
    meson_links = std::make_unique<MesonLinksCache>(milc.collective, context, real, *kept_gauge);
    wilson = std::make_unique<WilsonLinks>(milc.collective, context, real, *kept_gauge);
    eigenvectors = std::make_unique<EigenStore>(milc.collective, context, real, deferred);
    vectors.open(milc, context, habits.keeps_fields);
    octets_on_device.emplace(*context, *this);
}

bool OctetsOnDevice::release_idle() {
    std::vector<VectorStore::Held *> all;
    for (auto &[cache, octet] : residency_.octets)
        for (VectorStore::Held &held : octet)
            if (held.is_there())
                all.push_back(&held);
    if (!residency_.vectors.leave_to_host(all))
        return false;
    context_.log(2, "memory is short: a quark of an octet stays on the host");
    return true;
}

std::vector<std::function<bool()>> Residency::ways_to_free() {
    return {
        [this] { return vectors.drop_oldest(); },
        [this] { return kept_gauge != nullptr && kept_gauge->drop_if_idle(); },
        [this] { return meson_links != nullptr && meson_links->drop_if_idle(); },
    };
}

void Residency::drop_all() {
    octets_on_device.reset();
    vectors.close();
    gauge.reset();
    meson_links.reset();
    wilson.reset();
    kept_gauge.reset();
    eigenvectors_lost = eigenvectors_lost || (eigenvectors != nullptr && eigenvectors->newest_on_device());
    eigenvectors.reset();
    links.reset();
    deferred.drop_without_maker();
    made_of_.clear();
}

void Residency::drop_reloadable() {
    links->drop_all();
    kept_gauge->drop();
    meson_links->drop_all();
    wilson->drop();
    eigenvectors->drop_all_but_newest();
    vectors.free_unused();
}

void Residency::lattice_changed() {
    vectors.forget_solutions();
    vectors.drop_copies();
}

bool Residency::links_made(int way, uint64_t content) {
    const auto [at, first] = made_of_.try_emplace(way, content);
    return !first && std::exchange(at->second, content) != content;
}

} // namespace milcgpu
