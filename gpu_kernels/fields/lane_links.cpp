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

// How a block stores a complex number of each of its sites: a register of real parts and one of imaginary parts.
template <Precision p> struct Stored {
    using Real = typename LinkReal<p>::Real;
    static constexpr int lanes = LaneLinks::sites(p), bytes = 2 * lane_bytes; // of a complex number
    static void store(double re, double im, double, int lane, unsigned char *to) {
        const Real parts[2] = {static_cast<Real>(re), static_cast<Real>(im)};
        for (int k = 0; k < 2; ++k)
            memcpy(to + k * lane_bytes + lane * sizeof(Real), &parts[k], sizeof(Real));
    }
};
// Both parts in a 32-bit word, in units of 1 / per_unit: the imaginary part in the lower half, and the real part in the
// whole word, in units of 2^-16. So D masks nothing. The upper half is rounded so that the whole word is nearest.
template <> struct Stored<Precision::half> {
    using Real = float;
    static constexpr int lanes = LaneLinks::sites(Precision::half), bytes = lane_bytes;
    static void store(double re, double im, double per_unit, int lane, unsigned char *to) {
        const auto rounded = [](double x) { return static_cast<int>(rint(fmin(fmax(x, -32768.0), 32767.0))); };
        const uint32_t low = static_cast<uint32_t>(rounded(im * per_unit)) & 0xFFFFu,
                       word = static_cast<uint32_t>(rounded(re * per_unit - low / 65536.0)) << 16 | low;
        memcpy(to + lane * sizeof word, &word, sizeof word);
    }
};

// The threads share the blocks of a parity as in D, so each thread first touches the memory of the links that it reads.
template <Precision p, class From>
void pack(const CutLattice &lattice, int parity, const LinkField &fat, const LinkField &lng,
          const LaneLinks::FatLong &per_unit, unsigned char *data, int *neighbours) {
    using As = Stored<p>;
    const int blocks = lattice.volume() / 2 / As::lanes;
#pragma omp parallel for schedule(static) if (lattice.volume() >= few_sites)
    for (int b = 0; b < blocks; ++b) {
        unsigned char *link = data + (parity * blocks + b) * LaneLinks::block_bytes(p);
        store_neighbours(lattice, parity, b, As::lanes, neighbours + size_t(b) * links * As::lanes);
        int own[As::lanes];
        Site sites[As::lanes];
        for (int l = 0; l < As::lanes; ++l)
            own[l] = b * As::lanes + lanes::site_of(l, typename As::Real()), sites[l] = lattice.site(parity, own[l]);
        for (int k = 0; k < links; ++k, link += reals / 2 * As::bytes) {
            const LaneLinks::Place place = LaneLinks::place(k);
            const LinkField &field = place.is_long ? lng : fat;
            const unsigned char *const from = field.block(place.behind ? 1 - parity : parity, place.mu);
            const int hops = place.is_long ? lattice.third_hop[place.mu] : 1;
            for (int l = 0; l < As::lanes; ++l) {
                From one[reals];
                memcpy(one, from + (place.behind ? lattice.backward(sites[l], place.mu, hops) : own[l]) * sizeof one,
                       sizeof one);
                for (int e = 0; e < reals / 2; ++e)
                    As::store(one[2 * e], one[2 * e + 1], place.is_long ? per_unit.lng : per_unit.fat, l,
                              link + e * As::bytes);
            }
        }
    }
}

} // namespace
#endif

bool LaneLinks::fit(const Geometry &geometry, Precision precision) {
    return MILCGPU_LANES != 0 && geometry.lattice().extent[0] % 2 == 0 && geometry.sites(0) % sites(precision) == 0 &&
           !geometry.cut(0);
}

size_t LaneLinks::bytes_of(const Geometry &geometry, Precision precision) {
    return size_t(geometry.volume()) * links * (link_bytes(precision, reals) + sizeof(int));
}

LaneLinks::LaneLinks([[maybe_unused]] Device &device, [[maybe_unused]] const Geometry &geometry,
                     [[maybe_unused]] const LinkField &fat, [[maybe_unused]] const LinkField &lng, Precision precision,
                     [[maybe_unused]] const FatLong &largest)
    : precision_(precision), links_bytes_(size_t(geometry.volume()) * links * link_bytes(precision, reals)) {
#if MILCGPU_LANES
    device.collective("memory for links of several sites", [&] {
        data_ = {device, bytes_of(geometry, precision), "links of several sites"};
    });
    const auto per_unit = [](double most) { return most > 0 ? 32767 / most : 1; };
    const FatLong units{per_unit(largest.fat), per_unit(largest.lng)};
    const auto pack_as = [&](auto as) {
        for_real(fat.precision(), [&](auto given) {
            for (const int parity : {0, 1})
                pack<decltype(as)::value, typename LinkReal<decltype(given)::value>::Real>(
                    geometry.lattice(), parity, fat, lng, units, data_.data(), const_cast<int *>(neighbours(parity)));
        });
    };
    if (precision == Precision::half) {
        pack_as(std::integral_constant<Precision, Precision::half>());
        scale_ = {0x1p-16 / units.fat, 0x1p-16 / units.lng};
    } else {
        for_real(precision, pack_as);
    }
    device.collective("a checksum of links", [&] { checksum_ = checksum(device, data_.data(), data_.bytes()); });
#endif
}

} // namespace milcgpu
