// The stencil of dslash.h for several consecutive sites at once, on the host. At each site it does the arithmetic of
// hops.h in the same order, so the results have the same bits. Links have the precision of the vectors, or are in half
// beside vectors in single.
//
// A row has nx/2 sites of a parity. In y, z and t the neighbours of consecutive sites of a row are consecutive, too. In
// x the neighbours are the sites of the same row, shifted by up to two sites, and continue at the other end of the row.
// A block may reach over several rows. So the neighbours of each block are listed beside its links: computing them took
// up to two thirds of the time of D.
#pragma once
#include "gpu_kernels/fields/lane_links.h"
#include "gpu_kernels/fields/spinor_lanes.h"
#include "gpu_kernels/staggered/dslash.h"
#include "gpu_kernels/stencil/launches.h"

#if MILCGPU_LANES
namespace milcgpu {

// D of one source or of several. The links of a block come from memory for the first source, and from the cache for the
// others.
template <class Spinor, Precision link> struct LanesHops {
    using Real = typename Spinor::Real;
    using Vec = Vector<Real>;
    static constexpr int reach = 3, sites = Real::count, sites_at_once = sites;
    static constexpr bool has_scales = link == Precision::half;
    static constexpr bool on_host = true;

    CutLattice lattice;
    const unsigned char *in, *links;
    const int *neighbours;
    unsigned end_of_in;          // the number of sites of `in`, ghosts included
    float fat_scale, long_scale; // of half links; other links have the scale 1

    void fill(const Device &, const DslashCall &call) {
        lattice = call.lattice;
        end_of_in = static_cast<unsigned>(call.in.stride);
        in = call.in.data, links = call.lanes->of(call.parity), neighbours = call.lanes->neighbours(call.parity);
        fat_scale = static_cast<float>(call.lanes->fat_scale());
        long_scale = static_cast<float>(call.lanes->long_scale());
    }

    // The sums over fat and over long links. If one_sum, `fat` is the sum over both.
    struct Sum {
        Vec fat, lng;
    };
    Vec scaled(const Sum &sum) const {
        if constexpr (has_scales)
            return Real(fat_scale) * sum.fat + Real(long_scale) * sum.lng;
        else
            return sum.fat + sum.lng;
    }
    // A sum has one accumulator: two of them and a vector do not fit in 16 registers. So all fat links come first,
    // unless both have one sum.
    template <bool one_sum = false> MILCGPU_HD Sum all(int first, const unsigned char *from) const {
        const size_t block = first / sites;
        const unsigned char *const first_link = links + block * LaneLinks::block_bytes(link),
                                   *ahead = first_link + LaneLinks::block_bytes(link);
        const int *const at = neighbours + block * LaneLinks::links * sites;
        Sum sum = {};
        const auto add_two = [&](Vec & to, int k) __attribute__((always_inline)) { // k: LaneLinks::place
            constexpr int bytes = LaneLinks::reals / 2 * LaneNumber::bytes;
            const auto neighbour = [&](int of) __attribute__((always_inline)) {
                return load_spinor<Spinor>(from, 0, NeighboursAtOnce{at + of * sites, end_of_in});
            };
            add<false>(to, first_link + k * bytes, ahead, neighbour(k));
            add<true>(to, first_link + (k + 1) * bytes, ahead, neighbour(k + 1));
        };
        for (int mu = 0; mu < 4; ++mu) {
            add_two(sum.fat, 4 * mu);
            if constexpr (one_sum)
                add_two(sum.fat, 4 * mu + 2);
        }
        for (int mu = 0; !one_sum && mu < 4; ++mu)
            add_two(sum.lng, 4 * mu + 2);
        return sum;
    }

  private:
    // multiply_add and adjoint_multiply_subtract of su3.h, but each element is loaded where it is used: a matrix of
    // converted numbers does not fit in the registers. ahead: bytes of the next block, prefetched in the order of
    // memory, because the CPU prefetches them too late: D from memory would take twice as long.
    template <bool behind>
    static MILCGPU_HD void add(Vec &sum, const unsigned char *from, const unsigned char *&ahead, const Vec &x) {
        constexpr int bytes = LaneNumber::bytes;
        for (int row = 0; row < 3; ++row)
            for (int k = 0; k < 3; ++k, ahead += bytes) {
                if (bytes >= 64 || (3 * row + k) % 2 == 0) // once a cache line
                    __builtin_prefetch(ahead);
                const Complex<Real> u = LaneNumber::load(from + (behind ? 3 * k + row : 3 * row + k) * bytes);
                if constexpr (behind) {
                    sum.c[row].re -= u.re * x.c[k].re;
                    sum.c[row].im -= u.re * x.c[k].im;
                    sum.c[row].re -= u.im * x.c[k].im;
                    sum.c[row].im += u.im * x.c[k].re;
                } else {
                    sum.c[row].re += u.re * x.c[k].re;
                    sum.c[row].im += u.re * x.c[k].im;
                    sum.c[row].re -= u.im * x.c[k].im;
                    sum.c[row].im += u.im * x.c[k].re;
                }
            }
    }
    // A complex number as lane_links.cpp stores it.
    struct LaneNumber {
        static constexpr int bytes = link == Precision::half ? lane_bytes : 2 * lane_bytes;
        static MILCGPU_HD Complex<Real> load(const unsigned char *from) {
            if constexpr (link == Precision::half) {
                typedef uint32_t Words __attribute__((vector_size(lane_bytes)));
                typedef int32_t Signed __attribute__((vector_size(lane_bytes)));
                using Register = typename Real::Register;
                Words both;
                memcpy(&both, from, sizeof both);
                return {Real(__builtin_convertvector(reinterpret_cast<Signed>(both), Register)),
                        Real(__builtin_convertvector(reinterpret_cast<Signed>(both << 16), Register))};
            } else {
                return {Real::load(from), Real::load(from + lane_bytes)};
            }
        }
    };
};

template <class Spinor, Precision link, class End> struct LanesStencil : LanesHops<Spinor, link> {
    using Base = LanesHops<Spinor, link>;
    End end;
    void operator()(int first, Sums<End::sums> *sums) const {
        StoredSpinor<Spinor> made;
        const auto sum = this->all(first, this->in);
        const auto of_sites = end(0, SitesAtOnce{first}, this->scaled(sum), made);
        for (int n = 0; n < End::sums; ++n)
            for (int l = 0; l < Base::sites; ++l)
                sums[lanes::site_of(l, typename Base::Real::Number())].v[n] = of_sites.v[n].v[l];
    }
};

// For TogetherStencil. It sums as SourcesHops does. The host takes one source after the other.
template <class Spinor, Precision link> struct LanesOfSources : LanesHops<Spinor, link> {
    using Base = LanesHops<Spinor, link>;
    using typename Base::Vec;
    using Part = typename Base::Sum;
    static constexpr size_t stride = 0;
    static constexpr bool one_sum = link == Precision::single;
    size_t source_bytes;
    Vec scaled(const Part &sum) const {
        if constexpr (one_sum)
            return sum.fat;
        else
            return Base::scaled(sum);
    }
    template <int, bool, int count>
    void all(const SitesAtOnce &at, const Sources<count> &own, Part (&sum)[count]) const {
        static_assert(count == 1, "one source after the other");
        sum[0] = Base::template all<one_sum>(at.first, own.first_of(this->in, source_bytes));
    }
};

template <class Scalar, Precision link> struct OfLanes {
    using Call = DslashCall;
    using Where = OnThisBackend;
    using Spinor = SpinorLanes<Scalar>;
    static constexpr const char *name = "launch dslash", *name_of_several = "launch dslash on several sources",
                                *name_without_sums = "launch dslash on several sources, no sums";
    template <class End> using OneSource = LanesStencil<Spinor, link, End>;
    template <class End> using EachSource = OneSource<End>;
    using Together = LanesOfSources<Spinor, link>;
    static constexpr KernelKey key = {Scalar::precision, link, 18, Epilogue::plain, 1, 4, false, true};
};

} // namespace milcgpu
#endif
