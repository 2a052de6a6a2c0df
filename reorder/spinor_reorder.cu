// Copies raw and permutes on the device: the bus transfers one contiguous (or one strided, 2-D) copy, and the
// transposition from [site][spin][colour] records to stripes runs at memory speed on the device. Bytes a colour vector:
// 24 or 48 read, spinor_bytes() written.
#include "gpu_kernels/fields/spinor_block.h"
#include "gpu_kernels/fields/spinor_storage.h"
#include "gpu_kernels/machine/backend/device.h"
#include "gpu_kernels/machine/backend/launch.h"
#include "reorder/spinor_reorder.h"
#include <algorithm>
#include <cstring>

namespace milcgpu {

namespace {

// Colour vectors of a site, and elements from one to the next.
struct Components {
    int count;
    size_t apart;
    explicit Components(const SpinorBlock &field) : count(field.components), apart(field.stride / field.components) {}
};

template <class Spinor, class HostReal> struct Pack {
    const HostReal *raw;
    const int *map; // of this parity, nullptr = identity
    unsigned char *out;
    size_t stride;
    Components components;
    MILCGPU_HD void operator()(int i) const {
        const HostReal *record = raw + 6 * static_cast<size_t>(map != nullptr ? map[i] : i) * components.count;
        for (int d = 0; d < components.count; ++d) {
            Vector<HostReal> x;
            memcpy(&x, record + 6 * d, sizeof x);
            store_spinor<Spinor>(out, stride, d * components.apart + i, convert<typename Spinor::Real>(x));
        }
    }
};

template <class Spinor, class HostReal> struct Unpack {
    HostReal *raw;
    const int *map;
    const unsigned char *in;
    size_t stride;
    Components components;
    MILCGPU_HD void operator()(int i) const {
        HostReal *record = raw + 6 * static_cast<size_t>(map != nullptr ? map[i] : i) * components.count;
        for (int d = 0; d < components.count; ++d) {
            const Vector<HostReal> x = convert<HostReal>(load_spinor<Spinor>(in, stride, d * components.apart + i));
            memcpy(record + 6 * d, &x, sizeof x);
        }
    }
};

template <template <class, class> class Body, class HostReal>
void launch_for(Device &device, const SpinorBlock &field, unsigned char *raw, const int *map) {
    HostReal *reals = reinterpret_cast<HostReal *>(raw);
    const auto start = [&](auto body) { launch(device, field.component_sites, body, "reorder a spinor"); };
    const Components components(field);
    if (field.precision == Precision::double_)
        start(Body<SpinorDouble, HostReal>{reals, map, field.data, field.stride, components});
    else if (field.precision == Precision::single)
        start(Body<SpinorSingle, HostReal>{reals, map, field.data, field.stride, components});
    else
        start(Body<SpinorHalf, HostReal>{reals, map, field.data, field.stride, components});
}

template <template <class, class> class Body>
void reorder(Device &device, const SpinorBlock &field, Precision real, unsigned char *raw, const int *map) {
    if (real == Precision::double_)
        launch_for<Body, double>(device, field, raw, map);
    else
        launch_for<Body, float>(device, field, raw, map);
}

} // namespace

SiteMap::SiteMap(Device &device, const int *host_index, int sites) {
    if (host_index == nullptr)
        return;
    std::vector<char> seen(static_cast<size_t>(sites), 0);
    bool identity = true;
    for (int k = 0; k < sites; ++k) {
        const int index = host_index[k];
        if (index < 0 || index >= sites || seen[index])
            throw Error(Status::bad_argument,
                        format("site map: entry %d is %d, which is %s; every host index from 0 to %d must occur once",
                               k, index, index < 0 || index >= sites ? "out of range" : "a repetition", sites - 1));
        seen[index] = 1;
        identity = identity && index == k;
    }
    if (identity)
        return;                                                       // the fast path
    map_ = DeviceArray<int>(device, (sites + 3) / 4 * 4, "site map"); // whole pieces of a checksum
    device.fill_zero(map_.data(), map_.bytes());
    device.copy_to_device(map_.data(), host_index, static_cast<size_t>(sites) * sizeof(int));
    expected_ = checksum(device, map_.data(), map_.bytes());
}

SpinorReorder::SpinorReorder(Device &device, const SiteMap &map, const Geometry &geometry, int components)
    : device_(device), map_(map), geometry_(geometry), components_(components),
      raw_(device,
           static_cast<size_t>(map.data() != nullptr ? geometry.volume() : geometry.most_sites()) *
               record_bytes(Precision::double_),
           "raw copy of a host spinor") {}

SpinorReorder::Span SpinorReorder::span(const HostField &field, int parity) const {
    unsigned char *data = static_cast<unsigned char *>(field.data);
    const int first = parity == 0 ? 0 : geometry_.sites(0);
    if (map_.data() != nullptr)
        return {data, geometry_.volume(), first};
    return {data + first * field.pitch_bytes, geometry_.sites(parity), 0};
}

bool SpinorReorder::is_zero(const HostField &field, int parity) const {
    const Span s = span(field, parity);
    const size_t words = record_bytes(field.real) / sizeof(uint64_t);
    const auto bits_of = [&](int record) {
        uint64_t bits = 0, word;
        for (size_t k = 0; k < words; ++k) {
            std::memcpy(&word, s.host + record * field.pitch_bytes + k * sizeof word, sizeof word);
            bits |= word;
        }
        return bits;
    };
    const int records = static_cast<int>(s.records), looked_at = std::min(records, 64);
    for (int k = 0; k < looked_at; ++k) // a guess that is not zero is seldom zero there
        if (bits_of(k) != 0)
            return false;
    uint64_t bits = 0;
#pragma omp parallel for schedule(static) reduction(| : bits) if (records >= few_sites)
    for (int k = looked_at; k < records; ++k)
        bits |= bits_of(k);
    return bits == 0;
}

void SpinorReorder::to_device(const HostField &from, int parity, const SpinorBlock &to) {
    const Span s = span(from, parity);
    device_.copy_rows_to_device(raw_.data(), s.host, from.pitch_bytes, record_bytes(from.real), s.records);
    reorder<Pack>(device_, to, from.real, raw_.data(), map_.data() != nullptr ? map_.data() + s.first : nullptr);
}

void SpinorReorder::to_host(const SpinorBlock &from, int parity, const HostField &to) {
    const Span s = span(to, parity);
    if (map_.data() != nullptr) // the other parity's records are copied along and come back unchanged
        device_.copy_rows_to_device(raw_.data(), s.host, to.pitch_bytes, record_bytes(to.real), s.records);
    reorder<Unpack>(device_, from, to.real, raw_.data(), map_.data() != nullptr ? map_.data() + s.first : nullptr);
    device_.copy_rows_to_host(s.host, raw_.data(), to.pitch_bytes, record_bytes(to.real), s.records);
}

} // namespace milcgpu
