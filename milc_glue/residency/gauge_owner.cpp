#include "milc_glue/residency/gauge_owner.h"
#include "gpu_kernels/machine/error.h"
#include "milc_glue/residency/reason.h"
#include <memory>
#include <vector>

namespace milcgpu {

namespace {

constexpr int members[] = {MILCGPU_LINKS, MILCGPU_MOMENTA};

const char *name_of(int one) { return one == MILCGPU_LINKS ? "the gauge field" : "the momenta"; }

} // namespace

HostRecords GaugeOwner::records(int one) const {
    const size_t bytes = (one == MILCGPU_LINKS ? 72 : 40) * (real_ == MILCGPU_DOUBLE ? sizeof(double) : sizeof(float));
    const size_t pitch = field(one).pitch_bytes;
    return {field(one).data, static_cast<size_t>(sites_), bytes, pitch != 0 ? pitch : bytes};
}

milcgpu_status GaugeOwner::load(int one) const {
    return one == MILCGPU_LINKS ? milcgpu_gauge_load(gauge_, &field(one), -1) // MILC accepts any links, and so do we
                                : milcgpu_momenta_load(gauge_, &field(one));
}

milcgpu_status GaugeOwner::save(int one, const milcgpu_field &to) const {
    return one == MILCGPU_LINKS ? milcgpu_gauge_save(gauge_, &to) : milcgpu_momenta_save(gauge_, &to);
}

milcgpu_status GaugeOwner::on_device(const milcgpu_plugin_lattice &lattice, int what, uint64_t &moved, bool *also) {
    if (gauge_ == nullptr) {
        const milcgpu_status made = collective_(milcgpu_gauge_create(context_, real_, &gauge_));
        if (made != MILCGPU_OK)
            return made;
    }
    lattice_ = lattice;
    Mirror::Tag now[2];
    uint64_t same = 0; // fields that MILC has not written
    int looked_at = 0;
    for (const int one : members) {
        mirror(one).lies_at(records(one));
        if ((what & one) == 0 || mirror(one).is(Mirror::Newest::device))
            continue;
        looked_at |= one;
        now[one == MILCGPU_MOMENTA] = mirror(one).tag_now();
        same |= mirror(one).has(now[one == MILCGPU_MOMENTA]) ? one : 0;
    }
    if (looked_at != 0 || also != nullptr) {
        const Collective::Words all = collective_.on_all_ranks({same, also != nullptr && *also});
        same = all[0];
        if (also != nullptr)
            *also = all[1] != 0;
    }
    for (const int one : members) {
        if ((looked_at & ~same & one) == 0) // MILC has written it on no rank
            continue;
        if (mirror(one).is(Mirror::Newest::both))
            mirror(one).host_wrote();
        const milcgpu_status loaded = collective_(load(one));
        if (loaded != MILCGPU_OK)
            return loaded;
        mirror(one).both_have(now[one == MILCGPU_MOMENTA]);
        moved += records(one).count * records(one).bytes;
    }
    return MILCGPU_OK;
}

void GaugeOwner::device_wrote(int what, bool poison) {
    for (const int one : members)
        if ((what & one) != 0)
            mirror(one).device_wrote(poison);
}

void GaugeOwner::host_wrote(int what) {
    for (const int one : members)
        if ((what & one) != 0)
            mirror(one).host_wrote();
}

void GaugeOwner::load_again() {
    for (const int one : members)
        if (mirror(one).is(Mirror::Newest::both))
            mirror(one).forget_copy();
}

int GaugeOwner::newer_on_device(int what) const {
    int newer = 0;
    for (const int one : members)
        if ((what & one) != 0 && mirror(one).is(Mirror::Newest::device))
            newer |= one;
    return newer;
}

bool GaugeOwner::has_links(const void *packed) const {
    const size_t bytes = records(MILCGPU_LINKS).bytes;
    return gauge_ != nullptr && links_.has_copy({packed, static_cast<size_t>(sites_), bytes, bytes});
}

void GaugeOwner::to_host(int what, const char *who) {
    for (const int one : members) {
        if (newer_on_device(one) == 0 || (what & one) == 0)
            continue;
        if (collective_(!mirror(one).is_untouched()))
            throw Error(
                Status::corrupted,
                format("the host wrote %s while the device had the newest: %s needs this field, and neither copy "
                       "is right. MILCGPU_AUTO=0 copies after every routine; please report this",
                       name_of(one), who));
        over_host(one);
        Copies &copies = copies_[format("%s, %s", who, name_of(one))];
        ++copies.count;
        copies.bytes += records(one).count * records(one).bytes;
    }
}

void GaugeOwner::over_host(int what) {
    for (const int one : members) {
        if (newer_on_device(one) == 0 || (what & one) == 0)
            continue;
        const milcgpu_status saved = collective_(save(one, field(one)));
        if (saved != MILCGPU_OK)
            throw Error(static_cast<Status>(saved),
                        format("the newest copy of %s is on the device and %s: %s", name_of(one),
                               saved == MILCGPU_DEVICE_LOST ? "lost" : "could not be copied", reason().c_str()));
        mirror(one).both_have();
    }
}

Difference GaugeOwner::difference(int one) {
    const HostRecords host = records(one);
    std::vector<unsigned char> device(host.count * host.bytes);
    if (save(one, {device.data(), real_, 0}) != MILCGPU_OK)
        throw Error(Status::device_lost, reason());
    return difference_of({device.data(), host.count, host.bytes, host.bytes}, host, real_ == MILCGPU_DOUBLE);
}

std::string GaugeOwner::table() const {
    std::string text;
    for (const auto &[who, copies] : copies_)
        text +=
            format("%-40s %6ld times %9.1f MB\n", who.c_str(), copies.count, static_cast<double>(copies.bytes) * 1e-6);
    return text.empty() ? text : "copied back for\n" + text;
}

} // namespace milcgpu
