#include "gpu_kernels/fields/lane_links.h"
#include "gpu_kernels/fields/spinor_lanes.h"
#include "gpu_kernels/machine/backend/device.h"
#include "gpu_kernels/machine/backend/host_threads.h"

namespace milcgpu {

#if MILCGPU_LANES
namespace {

constexpr int reals = LaneLinks::reals, links = LaneLinks::links;

template <class T>
void pack(const CutLattice &lattice, const LaneBlocks &blocks, const LinkField &fat, const LinkField &lng,
          unsigned char *data) {
    const int all = blocks.all(lattice);
#pragma omp parallel for schedule(static) if (lattice.volume() >= few_sites)
    for (int b = 0; b < 2 * all; ++b) {
        const int parity = b / all, first = blocks.first(b % all);
        unsigned char *link = data + b * LaneLinks::block_bytes;
        int own[Lanes<T>::count];
        Site sites[Lanes<T>::count];
        for (int l = 0; l < Lanes<T>::count; ++l)
            own[l] = first + lanes::site_of(l, T()), sites[l] = lattice.site(parity, own[l]);
        for (int k = 0; k < links; ++k, link += reals * lane_bytes) {
            const LaneLinks::Place place = LaneLinks::place(k, fat.precision());
            const LinkField &field = place.is_long ? lng : fat;
            const unsigned char *const from = field.block(place.behind ? 1 - parity : parity, place.mu);
            const int hops = place.is_long ? lattice.third_hop[place.mu] : 1;
            for (int l = 0; l < Lanes<T>::count; ++l) {
                T one[reals];
                memcpy(one, from + (place.behind ? lattice.backward(sites[l], place.mu, hops) : own[l]) * sizeof one,
                       sizeof one);
                for (int r = 0; r < reals; ++r)
                    memcpy(link + r * lane_bytes + l * sizeof(T), &one[r], sizeof(T));
            }
        }
    }
}

} // namespace
#endif

bool LaneLinks::fit(const Geometry &geometry, Precision precision, int long_reals) {
    const int nx = geometry.lattice().extent[0];
    return MILCGPU_LANES != 0 && precision == Precision::single && long_reals == reals && nx % 2 == 0 &&
           nx / 2 >= lane_bytes / static_cast<int>(real_bytes(precision)) && !geometry.cut(0);
}

size_t LaneLinks::bytes_of(const Geometry &geometry, Precision precision) {
    const LaneBlocks blocks(geometry.lattice(), lane_bytes / static_cast<int>(real_bytes(precision)));
    return 2 * block_bytes * blocks.all(geometry.lattice());
}

LaneLinks::LaneLinks([[maybe_unused]] Device &device, [[maybe_unused]] const Geometry &geometry,
                     [[maybe_unused]] const LinkField &fat, [[maybe_unused]] const LinkField &lng) {
#if MILCGPU_LANES
    blocks_ = {geometry.lattice(), lane_bytes / static_cast<int>(real_bytes(fat.precision()))};
    data_ = {device, bytes_of(geometry, fat.precision()), "links of several sites"};
    pack<float>(geometry.lattice(), blocks_, fat, lng, data_.data());
    checksum_ = checksum(device, data_.data(), data_.bytes());
#endif
}

} // namespace milcgpu
