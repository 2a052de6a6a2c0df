#include "gpu_kernels/fields/lane_links.h"
#include "gpu_kernels/fields/for_real.h"
#include "gpu_kernels/fields/spinor_lanes.h"
#include "gpu_kernels/machine/backend/device.h"
#include "gpu_kernels/machine/backend/host_threads.h"

namespace milcgpu {

#if MILCGPU_LANES
namespace {

constexpr int reals = LaneLinks::reals, links = LaneLinks::links;

void store_neighbours(const CutLattice &lattice, int parity, int block, int count, int *to) {
    for (int k = 0; k < links; ++k, to += count) {
        const LaneLinks::Place place = LaneLinks::place(k);
        const int hops = place.is_long ? lattice.third_hop[place.mu] : 1;
        bool consecutive = true;
        for (int l = 0; l < count; ++l) {
            const Site site = lattice.site(parity, block * count + l);
            to[l] = place.behind ? lattice.backward(site, place.mu, hops) : lattice.forward(site, place.mu, hops);
            consecutive = consecutive && to[l] == to[0] + l;
        }
        if (consecutive)
            to[0] = ~to[0];
    }
}

// The loop over a parity is the loop that D makes over it later, so each thread has its links in its own memory.
template <class T, class From>
void pack(const CutLattice &lattice, int parity, const LinkField &fat, const LinkField &lng, unsigned char *data,
          int *neighbours) {
    const int blocks = lattice.volume() / 2 / Lanes<T>::count;
#pragma omp parallel for schedule(static) if (lattice.volume() >= few_sites)
    for (int b = 0; b < blocks; ++b) {
        unsigned char *link = data + (parity * blocks + b) * LaneLinks::block_bytes;
        store_neighbours(lattice, parity, b, Lanes<T>::count, neighbours + size_t(b) * links * Lanes<T>::count);
        int own[Lanes<T>::count];
        Site sites[Lanes<T>::count];
        for (int l = 0; l < Lanes<T>::count; ++l)
            own[l] = b * Lanes<T>::count + lanes::site_of(l, T()), sites[l] = lattice.site(parity, own[l]);
        for (int k = 0; k < links; ++k, link += reals * lane_bytes) {
            const LaneLinks::Place place = LaneLinks::place(k);
            const LinkField &field = place.is_long ? lng : fat;
            const unsigned char *const from = field.block(place.behind ? 1 - parity : parity, place.mu);
            const int hops = place.is_long ? lattice.third_hop[place.mu] : 1;
            for (int l = 0; l < Lanes<T>::count; ++l) {
                From one[reals];
                memcpy(one, from + (place.behind ? lattice.backward(sites[l], place.mu, hops) : own[l]) * sizeof one,
                       sizeof one);
                for (int r = 0; r < reals; ++r) {
                    const T real = static_cast<T>(one[r]);
                    memcpy(link + r * lane_bytes + l * sizeof(T), &real, sizeof(T));
                }
            }
        }
    }
}

} // namespace
#endif

bool LaneLinks::fit(const Geometry &geometry, Precision precision, int long_reals) {
    const int count = lane_bytes / static_cast<int>(real_bytes(precision));
    return built(precision, long_reals) && geometry.lattice().extent[0] % 2 == 0 && geometry.sites(0) % count == 0 &&
           !geometry.cut(0);
}

size_t LaneLinks::bytes_of(const Geometry &geometry, Precision precision) {
    return size_t(geometry.volume()) * links * (link_bytes(precision, reals) + sizeof(int));
}

LaneLinks::LaneLinks([[maybe_unused]] Device &device, [[maybe_unused]] const Geometry &geometry,
                     [[maybe_unused]] const LinkField &fat, [[maybe_unused]] const LinkField &lng, Precision precision)
    : precision_(precision), links_bytes_(size_t(geometry.volume()) * links * link_bytes(precision, reals)) {
#if MILCGPU_LANES
    device.collective("memory for links of several sites", [&] {
        data_ = {device, bytes_of(geometry, precision), "links of several sites"};
    });
    for_real(precision, [&](auto of) {
        for_real(fat.precision(), [&](auto given) {
            for (const int parity : {0, 1})
                pack<typename LinkReal<of>::Real, typename LinkReal<given>::Real>(
                    geometry.lattice(), parity, fat, lng, data_.data(), const_cast<int *>(neighbours(parity)));
        });
    });
    checksum_ = checksum(device, data_.data(), data_.bytes());
#endif
}

} // namespace milcgpu
