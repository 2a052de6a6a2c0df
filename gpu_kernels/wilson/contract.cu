// Contractions of two Dirac fields (contract.h).
//
// Numbers of sites: one thread a site. Reads 48 p bytes a site, writes 32 p.
//
// Sums over time slices: a thread has a place (x, y, t) and loops over z, so that a warp reads neighbouring sites of
// both parities in whole lines. A gamma matrix takes spin m to spin m ^ flip, so the products of colours phi_m^dag
// psi_(m ^ flip) serve all pairs of gammas with the same flips, a group of up to four. A thread computes the numbers of
// one group, and the warps of a block those of the groups of one place, so that three of four reads of a field are from
// the L1 cache. Bytes a site: 48 p for each source, once for up to four groups; after the sum over z, V/Z numbers of 16
// bytes for each pair and factor in z are left. Flops: dirac_sums_flops().
#include "gpu_kernels/fields/for_real.h"
#include "gpu_kernels/fields/spinor_storage.h"
#include "gpu_kernels/machine/backend/launch.h"
#include "gpu_kernels/wilson/contract.h"
#include <algorithm>

namespace milcgpu {

namespace {

constexpr int spins_of_dirac = 4, source_spins = 4;
constexpr int pairs_a_group = 4, groups_a_pass = 4; // a pass: what is computed while the fields are in the caches
constexpr int open_numbers = 144, colours_squared = 9;
constexpr int warp = 32;

template <Precision p> struct DiracView {
    using S = SpinorOf<p>;
    using Real = typename S::Real;
    const unsigned char *even, *odd;
    size_t stride, source_bytes, component_bytes;
    explicit DiracView(const FullVectors &v)
        : even(v.even.data), odd(v.odd.data), stride(v.even.stride), source_bytes(v.even.source_bytes),
          component_bytes(v.even.component_bytes) {}
    MILCGPU_HD Vector<Real> load(int parity, int source, int spin, int i) const {
        return load_spinor<S>((parity != 0 ? odd : even) + source * source_bytes + spin * component_bytes, stride, i);
    }
};

// a^dag b
template <class T> MILCGPU_HD Complex<T> dot(const Vector<T> &a, const Vector<T> &b) {
    Complex<T> sum = {};
    MILCGPU_UNROLL
    for (int k = 0; k < 3; ++k)
        sum = plus(sum, conj(a.c[k]), b.c[k]);
    return sum;
}

// ---- numbers of sites

template <class Real> struct StoreNumbers {
    Complex<Real> *data;
    size_t from_number, from_site;
    const int *map;
    explicit StoreNumbers(const SiteNumbers &to)
        : data(static_cast<Complex<Real> *>(to.data)), from_number(to.from_number), from_site(to.from_site),
          map(to.map) {}
    MILCGPU_HD Complex<Real> *at(int place) const { return data + (map != nullptr ? map[place] : place) * from_site; }
};

template <Precision p> struct OpenSpins {
    using Real = typename DiracView<p>::Real;
    DiracView<p> phi, psi;
    StoreNumbers<Real> to;
    int even_sites;
    MILCGPU_HD void operator()(int place) const {
        const int parity = place >= even_sites ? 1 : 0, i = parity != 0 ? place - even_sites : place;
        Complex<Real> *const numbers = to.at(place);
        Vector<Real> right[spins_of_dirac];
        MILCGPU_UNROLL
        for (int n = 0; n < spins_of_dirac; ++n)
            right[n] = psi.load(parity, 0, n, i);
        MILCGPU_UNROLL
        for (int m = 0; m < spins_of_dirac; ++m) {
            const Vector<Real> left = phi.load(parity, 0, m, i);
            MILCGPU_UNROLL
            for (int n = 0; n < spins_of_dirac; ++n)
                numbers[(m * spins_of_dirac + n) * to.from_number] = dot(left, right[n]);
        }
    }
};

template <Precision p> struct GammasOfSites {
    using Real = typename DiracView<p>::Real;
    DiracView<p> phi, psi;
    StoreNumbers<Real> to;
    int even_sites;
    int number[gamma_matrices], power[gamma_matrices]; // of the gamma with this flip and signs, at 4 flip + signs
    MILCGPU_HD void operator()(int place) const {
        const int parity = place >= even_sites ? 1 : 0, i = parity != 0 ? place - even_sites : place;
        Complex<Real> *const numbers = to.at(place);
        Vector<Real> left[spins_of_dirac], right[spins_of_dirac];
        MILCGPU_UNROLL
        for (int m = 0; m < spins_of_dirac; ++m)
            left[m] = phi.load(parity, 0, m, i), right[m] = psi.load(parity, 0, m, i);
        MILCGPU_UNROLL
        for (int flip = 0; flip < spins_of_dirac; ++flip) {
            Complex<Real> a[spins_of_dirac];
            MILCGPU_UNROLL
            for (int m = 0; m < spins_of_dirac; ++m)
                a[m] = dot(left[m], right[m ^ flip]);
            MILCGPU_UNROLL
            for (int signs = 0; signs < spins_of_dirac; ++signs) {
                Complex<Real> sum = a[0];
                MILCGPU_UNROLL
                for (int m = 1; m < spins_of_dirac; ++m)
                    sum = Gamma::odd(m & signs) != 0 ? sum - a[m] : sum + a[m];
                const int k = 4 * flip + signs;
                numbers[number[k] * to.from_number] = times_i(sum, power[k]);
            }
        }
    }
};

// ---- sums over time slices

// Pairs of gammas with the same flips. Bit 4 r + m of signs[k] is set if pair k has a minus sign for source r and spin
// m of phi.
struct Group {
    int flip_in = 0, flip_out = 0;
    uint32_t signs[pairs_a_group] = {};
};

// The numbers of a group, without the powers of i.
template <Precision p, int sources> struct GammaNumbers {
    static constexpr int count = pairs_a_group;
    DiracView<p> phi, psi;
    Group groups[groups_a_pass];
    MILCGPU_HD void make(int group, int parity, int i, Complex<double> (&made)[count]) const {
        const Group &pairs = groups[group];
        MILCGPU_UNROLL
        for (int k = 0; k < count; ++k)
            made[k] = {};
        MILCGPU_ROLLED
        for (int r = 0; r < sources; ++r) {
            MILCGPU_UNROLL
            for (int m = 0; m < spins_of_dirac; ++m) {
                const Complex<double> product = convert<double>(
                    dot(phi.load(parity, r, m, i), psi.load(parity, r ^ pairs.flip_in, m ^ pairs.flip_out, i)));
                MILCGPU_UNROLL
                for (int k = 0; k < count; ++k) {
                    const double sign = (pairs.signs[k] >> (spins_of_dirac * r + m) & 1u) != 0 ? -1.0 : 1.0;
                    made[k].re += sign * product.re;
                    made[k].im += sign * product.im;
                }
            }
        }
    }
};

// Nine numbers for spins m and n, group 4 m + n.
template <Precision p> struct OpenNumbers {
    static constexpr int count = colours_squared;
    DiracView<p> phi, psi;
    Gamma in;
    MILCGPU_HD void make(int group, int parity, int i, Complex<double> (&made)[count]) const {
        using Real = typename DiracView<p>::Real;
        Complex<Real> sum[count] = {};
        MILCGPU_ROLLED
        for (int r = 0; r < source_spins; ++r) {
            const Vector<Real> left = phi.load(parity, r, group / spins_of_dirac, i);
            const Real sign = Gamma::odd(r & in.signs) != 0 ? Real(-1) : Real(1);
            const Vector<Real> right = sign * psi.load(parity, in.column(r), group % spins_of_dirac, i);
            MILCGPU_UNROLL
            for (int k = 0; k < count; ++k)
                sum[k] = plus(sum[k], conj(left.c[k / 3]), right.c[k % 3]);
        }
        MILCGPU_UNROLL
        for (int k = 0; k < count; ++k)
            made[k] = convert<double>(sum[k]);
    }
};

// to[((f groups + group) count + k) columns + column]: sum over z of factors[f][z] numbers_k(x, y, z, t), column x + X
// (y + Y t). together: factors that a thread does at once.
template <class Numbers, int together> struct SumColumns {
    static constexpr int count = Numbers::count;
    Numbers numbers;
    Lattice lattice;
    const Complex<double> *factors;
    Complex<double> *to;
    int n_factors, groups, tiles; // tiles of 32 columns
    MILCGPU_HD void operator()(int thread) const {
        const int task = thread / warp, group = task % groups, tile = task / groups % tiles,
                  first = task / groups / tiles * together;
        const int plane = lattice.extent[0] * lattice.extent[1], n_z = lattice.extent[2],
                  columns = plane * lattice.extent[3], column = tile * warp + thread % warp;
        if (column >= columns)
            return;
        const int t = column / plane, in_plane = column - t * plane, y = in_plane / lattice.extent[0],
                  x = in_plane - y * lattice.extent[0];
        int parity = (x + y + t + lattice.origin_parity) & 1, lexicographic = in_plane + plane * n_z * t;
        Complex<double> sum[together][count] = {};
        MILCGPU_ROLLED
        for (int z = 0; z < n_z; ++z) {
            Complex<double> made[count];
            numbers.make(group, parity, lexicographic >> 1, made);
            MILCGPU_UNROLL
            for (int f = 0; f < together; ++f)
                if (first + f < n_factors) {
                    const Complex<double> factor = factors[(first + f) * n_z + z];
                    MILCGPU_UNROLL
                    for (int k = 0; k < count; ++k)
                        sum[f][k] = plus(sum[f][k], factor, made[k]);
                }
            lexicographic += plane;
            parity ^= 1;
        }
        MILCGPU_UNROLL
        for (int f = 0; f < together; ++f)
            if (first + f < n_factors)
                MILCGPU_UNROLL
        for (int k = 0; k < count; ++k)
            to[(size_t((first + f) * groups + group) * count + k) * columns + column] = sum[f][k];
    }
};

template <int together, int blocks, class Numbers>
void launch_columns(Device &device, const Lattice &lattice, const MomentumSums::Level &z, const Numbers &numbers,
                    int groups, Complex<double> *to) {
    const int columns = lattice.extent[0] * lattice.extent[1] * lattice.extent[3], tiles = (columns + warp - 1) / warp,
              passes = (z.outputs + together - 1) / together;
    launch_bounded<128, blocks>(
        device, passes * tiles * groups * warp,
        SumColumns<Numbers, together>{numbers, lattice, z.factors.data(), to, z.outputs, groups, tiles},
        "sums over z of Dirac fields");
}

// together: for several factors.
template <int together, class Numbers>
void sum_columns(Device &device, const Lattice &lattice, const MomentumSums::Level &z, const Numbers &numbers,
                 int groups, Complex<double> *to) {
    if (z.outputs == 1)
        launch_columns<1, 4>(device, lattice, z, numbers, groups, to);
    else
        launch_columns<together, 3>(device, lattice, z, numbers, groups, to);
}

void check(const Geometry &geometry, const FullVectors &phi, const FullVectors &psi, bool four_sources) {
    const Precision p = phi.even.precision;
    bool fit = p != Precision::half;
    for (const FullVectors &field : {phi, psi})
        for (const int parity : {0, 1}) {
            const SpinorBlock &block = parity == 0 ? field.even : field.odd;
            fit = fit && block.precision == p && block.components == spins_of_dirac &&
                  block.component_sites == geometry.sites(parity) && block.stride == field.even.stride &&
                  block.sources == (four_sources ? source_spins : 1);
        }
    if (!fit)
        throw Error(Status::bad_argument,
                    format("contraction of Dirac fields: both must have four components a site and %s, on the sites of "
                           "the geometry, in double or both in single precision",
                           four_sources ? "four sources" : "one source"));
}

} // namespace

void open_spins(Device &device, const Geometry &geometry, const FullVectors &phi, const FullVectors &psi,
                const SiteNumbers &to) {
    check(geometry, phi, psi, false);
    for_real(phi.even.precision, [&](auto real) {
        constexpr Precision p = decltype(real)::value;
        using Real = typename DiracView<p>::Real;
        launch(device, geometry.volume(),
               OpenSpins<p>{DiracView<p>(phi), DiracView<p>(psi), StoreNumbers<Real>(to), geometry.sites(0)},
               "open spins");
    });
}

void gammas_of_sites(Device &device, const Geometry &geometry, GammaBasis basis, const FullVectors &phi,
                     const FullVectors &psi, const SiteNumbers &to) {
    check(geometry, phi, psi, false);
    for_real(phi.even.precision, [&](auto real) {
        constexpr Precision p = decltype(real)::value;
        using Real = typename DiracView<p>::Real;
        GammasOfSites<p> body{DiracView<p>(phi), DiracView<p>(psi), StoreNumbers<Real>(to), geometry.sites(0), {}, {}};
        for (int k = 0; k < gamma_matrices; ++k) {
            const Gamma gamma = gamma_of(basis, k);
            body.number[4 * gamma.flip + gamma.signs] = k;
            body.power[4 * gamma.flip + gamma.signs] = gamma.power;
        }
        launch_bounded<128, 3>(device, geometry.volume(), body, "gammas of sites");
    });
}

DiracSums::DiracSums(Device &device, const Geometry &geometry, const std::vector<Momentum> &momenta, const int *origin)
    : device_(device), geometry_(geometry.without_ghosts()), momenta_(device, geometry, momenta, origin, {2, 1, 0}) {}

// For each pair of gammas, the group and the number in the group.
struct DiracSums::Plan {
    struct Place {
        int group, number, power;
    };
    std::vector<Group> groups;
    std::vector<int> filled; // for each group
    std::vector<Place> places;
    int sources;
    Plan(const std::vector<GammaPair> &pairs, int of_sources) : sources(of_sources) {
        for (const GammaPair &pair : pairs) {
            const Gamma in = sources == 1 ? unit_gamma() : pair.in;
            uint32_t signs = 0;
            for (int r = 0; r < sources; ++r)
                for (int m = 0; m < spins_of_dirac; ++m)
                    signs |= static_cast<uint32_t>(Gamma::odd(r & in.signs) ^ Gamma::odd(m & pair.out.signs))
                             << (spins_of_dirac * r + m);
            places.push_back(place_of(in.flip, pair.out.flip, signs));
            places.back().power = in.power + pair.out.power;
        }
    }

  private:
    Place place_of(int flip_in, int flip_out, uint32_t signs) {
        int group = 0;
        for (; group < static_cast<int>(groups.size()); ++group) {
            Group &known = groups[group];
            if (known.flip_in != flip_in || known.flip_out != flip_out)
                continue;
            const uint32_t *const end = known.signs + filled[group];
            const uint32_t *const found = std::find(static_cast<const uint32_t *>(known.signs), end, signs);
            if (found != end)
                return {group, static_cast<int>(found - known.signs), 0};
            if (filled[group] < pairs_a_group)
                break;
        }
        if (group == static_cast<int>(groups.size())) {
            groups.push_back({flip_in, flip_out, {}});
            filled.push_back(0);
        }
        groups[group].signs[filled[group]] = signs;
        return {group, filled[group]++, 0};
    }
};

void DiracSums::allocate(int classes) {
    const int *const n = geometry_.lattice().extent;
    const auto scratch = [&](DeviceArray<Complex<double>> &array, size_t numbers) {
        if (array.size() < numbers)
            array = {}, array = {device_, numbers, "sums over time slices"};
    };
    const size_t lines = size_t(classes) * n[0] * n[3];
    scratch(along_z_, lines * n[1] * momenta_.level(0).outputs);
    scratch(along_y_, lines * momenta_.level(1).outputs);
    scratch(sums_, size_t(classes) * n[3] * momenta_.momenta());
}

void DiracSums::sum_over_y_and_x(int classes) {
    const int *const n = geometry_.lattice().extent;
    momenta_.add(1, {classes, n[3], n[0], 1}, along_z_.data(), along_y_.data());
    momenta_.add(2, {classes, n[3], 1, 1}, along_y_.data(), sums_.data());
}

void DiracSums::pass_over(const FullVectors &phi, const FullVectors &psi, const Plan &plan, int first_group) {
    const int groups = std::min(groups_a_pass, static_cast<int>(plan.groups.size()) - first_group);
    allocate(groups * pairs_a_group);
    for_real(phi.even.precision, [&](auto real) {
        constexpr Precision p = decltype(real)::value;
        const auto start = [&](auto numbers) {
            std::copy_n(plan.groups.begin() + first_group, groups, numbers.groups);
            sum_columns<4>(device_, geometry_.lattice(), momenta_.level(0), numbers, groups, along_z_.data());
        };
        if (plan.sources == 1)
            start(GammaNumbers<p, 1>{DiracView<p>(phi), DiracView<p>(psi), {}});
        else
            start(GammaNumbers<p, source_spins>{DiracView<p>(phi), DiracView<p>(psi), {}});
    });
    sum_over_y_and_x(groups * pairs_a_group);
}

int DiracSums::first_pass(const FullVectors &phi, const FullVectors &psi, const std::vector<GammaPair> &pairs) {
    check(geometry_, phi, psi, phi.sources() != 1);
    const Plan plan(pairs, phi.sources());
    pass_over(phi, psi, plan, 0);
    return static_cast<int>(std::count_if(plan.places.begin(), plan.places.end(),
                                          [](const Plan::Place &place) { return place.group < groups_a_pass; }));
}

std::vector<Complex<double>> DiracSums::of_gammas(const FullVectors &phi, const FullVectors &psi,
                                                  const std::vector<GammaPair> &pairs) {
    check(geometry_, phi, psi, phi.sources() != 1);
    const Plan plan(pairs, phi.sources());
    const int times = geometry_.lattice().extent[3];
    std::vector<Complex<double>> found(momenta_.momenta() * pairs.size() * times);
    for (int first = 0; first < static_cast<int>(plan.groups.size()); first += groups_a_pass) {
        pass_over(phi, psi, plan, first);
        const int groups = std::min(groups_a_pass, static_cast<int>(plan.groups.size()) - first);
        const std::vector<Complex<double>> sums = sums_.to_host();
        for (size_t k = 0; k < pairs.size(); ++k) {
            const Plan::Place &place = plan.places[k];
            if (place.group < first || place.group >= first + groups)
                continue;
            for (int q = 0; q < momenta_.momenta(); ++q)
                for (int t = 0; t < times; ++t)
                    found[(q * pairs.size() + k) * times + t] = times_i(
                        sums[size_t((q * groups + place.group - first) * pairs_a_group + place.number) * times + t],
                        place.power);
        }
    }
    return found;
}

std::vector<Complex<double>> DiracSums::of_open_meson(const FullVectors &phi, const FullVectors &psi, const Gamma &in) {
    check(geometry_, phi, psi, true);
    constexpr int groups = spins_of_dirac * spins_of_dirac;
    allocate(open_numbers);
    for_real(phi.even.precision, [&](auto real) {
        constexpr Precision p = decltype(real)::value;
        sum_columns<2>(device_, geometry_.lattice(), momenta_.level(0),
                       OpenNumbers<p>{DiracView<p>(phi), DiracView<p>(psi), in}, groups, along_z_.data());
    });
    sum_over_y_and_x(open_numbers);
    const int times = geometry_.lattice().extent[3];
    const std::vector<Complex<double>> sums = sums_.to_host();
    std::vector<Complex<double>> found(size_t(momenta_.momenta()) * open_numbers * times);
    for (int q = 0; q < momenta_.momenta(); ++q)
        for (int m = 0; m < spins_of_dirac; ++m)
            for (int n = 0; n < spins_of_dirac; ++n)
                for (int k = 0; k < colours_squared; ++k)
                    for (int t = 0; t < times; ++t) {
                        const int open = ((k / 3 * spins_of_dirac + m) * spins_of_dirac + n) * 3 + k % 3;
                        const int own = (m * spins_of_dirac + n) * colours_squared + k;
                        found[size_t(q * open_numbers + open) * times + t] =
                            times_i(sums[size_t(q * open_numbers + own) * times + t], in.power);
                    }
    return found;
}

} // namespace milcgpu
