// Operations on quark fields in measurements: shifts, operators of one to four links, smearing, contractions, tie-ups
// of baryons. Shifts, the Laplacian and a tie-up are compared with the CPU reference, operators with the average over
// the orders of shifts, contractions with the norm; single precision is compared with double.
#include "examples/bench/bench.h"
#include "gpu_kernels/fields/spinor_field.h"
#include "gpu_kernels/measure/quark_operators.h"
#include "gpu_kernels/measure/tie_ups.h"
#include "reorder/resident_links.h"
#include "tests/reference/baryons.h"
#include <algorithm>
#include <set>

namespace examples {
using namespace milcgpu;

namespace {

using Reals = std::vector<double>; // a field in MILC's order

double difference(const Reals &a, const Reals &b) {
    long double d = 0, size = 0;
    for (size_t k = 0; k < b.size(); ++k)
        d += (a[k] - b[k]) * (a[k] - b[k]), size += b[k] * b[k];
    return static_cast<double>(std::sqrt(d / size));
}

struct Field {
    SpinorField even, odd;
    FullVectors vectors() const { return {even, odd}; }
};

class Mesons {
  public:
    explicit Mesons(const Bench &bench)
        : device_(bench.device()), geometry_(bench.system.lattice.n), lattice_(bench.system.lattice),
          table_(bench.table), volume_(lattice_.volume()), gauge_(reference::near_unit_gauge(lattice_, 0.3, 5)),
          reorder_(device_, map_, geometry_) {
        for (int k = 0; k < colours; ++k)
            x_.push_back(reference::random_fermion(lattice_, 10 + k));
    }
    void run() {
        for (const Precision p : {Precision::double_, Precision::single}) {
            const LinkField u = links(p);
            LinkProducts products(device_, geometry_, u);
            const Field x = up(p), y = allocate(p);
            operators(p, u, products, x, y);
            smearing(p, u, products, x, y);
            contractions(p, x);
            thinned(p, x);
            for (int octets = 1; octets <= (device_.on_gpu() ? 3 : 1); ++octets)
                tie_ups(p, x, octets);
        }
    }

  private:
    static constexpr int colours = 3;

    LinkField links(Precision p) {
        LinkField to(device_, p, 18, geometry_, "bench");
        auto host = reference::links_to_milc<double>(lattice_, gauge_);
        std::vector<float> floats(host.begin(), host.end());
        links_to_device(device_,
                        p == Precision::double_ ? HostField{host.data(), p, 576} : HostField{floats.data(), p, 288},
                        map_, geometry_, to);
        return to;
    }
    Field allocate(Precision p) {
        return {{device_, p, geometry_, 0, "bench", colours}, {device_, p, geometry_, 1, "bench", colours}};
    }
    Field up(Precision p) {
        Field to = allocate(p);
        for (int k = 0; k < colours; ++k) {
            auto host = reference::vector_to_milc<double>(lattice_, x_[k]);
            const HostField from{host.data(), Precision::double_, 48};
            reorder_.to_device(from, 0, to.even[k]);
            reorder_.to_device(from, 1, to.odd[k]);
        }
        return to;
    }
    Reals down(const FullVectors &from) { // the first source
        Reals host(6 * size_t(volume_));
        const HostField to{host.data(), Precision::double_, 48};
        reorder_.to_host(from.even[0], 0, to);
        reorder_.to_host(from.odd[0], 1, to);
        return host;
    }
    // A row. result: the timed result. In double the caller gives its error; in single it is compared with double.
    void row(const std::string &what, Precision p, double seconds, double flops, double bytes, const Reals &result,
             double error_in_double, double measured_in_double, int sources = 1) {
        const bool is_double = p == Precision::double_;
        Reals &in_double = results_[what + format(" of %d", sources)];
        if (is_double)
            in_double = result;
        table_.row({"mesons", what, name(p), sources}, {seconds, flops * volume_, bytes * volume_},
                   is_double ? error_in_double : difference(result, in_double),
                   times_measured * (is_double ? measured_in_double : 3e-7));
    }
    template <class Launch> double seconds(const Launch &launch) {
        return median_seconds(device_, 5, device_.on_gpu() ? 10 : 1, launch);
    }
    static Neighbours shift(const LinkField &u, int mu) {
        Neighbours what;
        what.links = &u, what.first_slot = mu, what.steps = corner_steps(1u << mu), what.neighbours = 0.5;
        return what;
    }
    Neighbours corners(const LinkField &u, LinkProducts &products, unsigned directions) {
        Neighbours what = shift(u, 0);
        what.steps = corner_steps(directions);
        if (what.steps.size() > 1)
            what.links = &products.corners(directions);
        what.neighbours = 0.5 / static_cast<double>(what.steps.size());
        return what;
    }
    // The average over orders of symmetric shifts of one source, without signs.
    Reals by_shifts(Precision p, const LinkField &u, std::vector<int> directions, const FullVectors &x) {
        const Field a = allocate(p), b = allocate(p);
        Reals sum(6 * size_t(volume_));
        int orders = 0;
        std::sort(directions.begin(), directions.end());
        do {
            FullVectors from = x.first(1);
            for (size_t k = 0; k < directions.size(); ++k) {
                const FullVectors to = (k % 2 == 0 ? a : b).vectors().first(1);
                sum_neighbours(device_, geometry_, shift(u, directions[k]), from, to);
                from = to;
            }
            const Reals one = down(from);
            for (size_t k = 0; k < sum.size(); ++k)
                sum[k] += one[k];
            ++orders;
        } while (std::next_permutation(directions.begin(), directions.end()));
        for (double &value : sum)
            value /= orders;
        return sum;
    }

    void operators(Precision p, const LinkField &u, LinkProducts &products, const Field &x, const Field &y) {
        const char *const names[] = {"shift", "two-link operator", "three-link operator", "four-link operator"};
        for (int n = 1; n <= 4; ++n) {
            const unsigned directions = (1u << n) - 1;
            const Neighbours what = corners(u, products, directions);
            const int steps = static_cast<int>(what.steps.size());
            std::vector<int> all;
            for (int mu = 0; mu < n; ++mu)
                all.push_back(mu);
            for (const int sources : {1, colours}) {
                const FullVectors from = x.vectors().first(sources), to = y.vectors().first(sources);
                const double t = seconds([&] { sum_neighbours(device_, geometry_, what, from, to); });
                const Reals made = down(to);
                double error = 0;
                if (p == Precision::double_)
                    error =
                        difference(made, n == 1 ? reference::vector_to_milc<double>(
                                                      lattice_, reference::shift(lattice_, gauge_, 0,
                                                                                 reference::ShiftWay::symmetric, x_[0]))
                                                : by_shifts(p, u, all, from));
                row(names[n - 1], p, t, sources * neighbours_flops(steps, true), neighbours_bytes(p, steps, sources),
                    made, error, 5e-16, sources);
            }
        }
        const double t = seconds([&] {
            products.forget();
            products.corners(15);
        });
        const FullVectors from = x.vectors().first(1), to = y.vectors().first(1);
        sum_neighbours(device_, geometry_, corners(u, products, 15), from, to);
        const Reals made = down(to);
        constexpr int matrix_products = 6 * 2 * 2 + 4 * 4 * 3 + 8 * 4;
        row("all products for operators", p, t, 198.0 * matrix_products, (4 + 36) * link_bytes(p, 18), made,
            difference(made, results_["four-link operator of 1"]), 5e-16);
    }

    void smearing(Precision p, const LinkField &u, LinkProducts &products, const Field &x, const Field &y) {
        const LinkField two(device_, p, 18, geometry_, "bench", 3);
        const double seconds_of_products = seconds([&] { two_link_products(device_, geometry_, u, two); });
        Neighbours what = in_space(products, u, 2, 6, -1, -1);
        what.links = &two;
        for (const int sources : {1, colours}) {
            const FullVectors from = x.vectors().first(sources), to = y.vectors().first(sources);
            const double t = seconds([&] { sum_neighbours(device_, geometry_, what, from, to); });
            const Reals made = down(to);
            double error = 0;
            if (p == Precision::double_) {
                Reals wanted =
                    reference::vector_to_milc<double>(lattice_, reference::laplacian(lattice_, gauge_, 2, -1, x_[0]));
                for (double &value : wanted)
                    value = -value;
                error = difference(made, wanted);
            }
            if (sources == 1)
                row("products of two links", p, seconds_of_products, two_link_flops, 6 * link_bytes(p, 18), made, error,
                    5e-16);
            row("step of smearing", p, t, sources * (neighbours_flops(3, true) + 12), neighbours_bytes(p, 3, sources),
                made, error, 5e-16, sources);
        }
    }

    // Local operators: one dot product, and the sums over slices for n momenta.
    void contractions(Precision p, const Field &x) {
        const DeviceArray<Complex<double>> numbers(device_, volume_, "bench");
        const int origin[4] = {0, 0, 0, 0};
        Neighbours as_it_is;
        as_it_is.self = 1;
        const FullVectors one = x.vectors().first(1);
        for (const int n : {1, 10}) {
            std::vector<Momentum> momenta;
            for (int k = 0; k < n; ++k)
                momenta.push_back(
                    {{k % 3, k / 3 % 3, k / 9}, {MomentumParity::both, MomentumParity::both, MomentumParity::both}});
            SliceSums sums(device_, geometry_, momenta, origin, 1);
            const double t = seconds([&] {
                dot_neighbours(device_, geometry_, as_it_is, one, one, {}, numbers.data());
                sums.sum(0, numbers.data());
            });
            const int times = lattice_.n[3];
            const auto found = sums.to_host();
            Reals result;
            double norm = 0;
            for (int k = 0; k < SliceSums::classes * times; ++k)
                norm += found[k].re;
            for (const auto &z : found)
                result.insert(result.end(), {z.re, z.im});
            double error = std::fabs(norm / reference::dot(x_[0], x_[0]).real() - 1);
            const Momentum &last = momenta.back();
            const auto wanted = reference::slice_sums(lattice_, x_[0], x_[0], {last.p[0], last.p[1], last.p[2]},
                                                      {'B', 'B', 'B'}, {0, 0, 0, 0});
            for (int t = 0; t < times; ++t) {
                reference::Complex sum = 0;
                for (int c = 0; c < SliceSums::classes; ++c) {
                    const Complex<double> z = found[((n - 1) * SliceSums::classes + c) * size_t(times) + t];
                    sum += reference::Complex(z.re, z.im);
                }
                const double off = std::abs(sum - wanted[t]) / norm;
                error = off <= error || error != error ? error : off; // NaN is the worst
            }
            row(format("local contraction of %d momenta", n), p, t, 24 + 8 * n, 2 * spinor_bytes(p), result, error,
                1e-14);
        }
    }

    // The sources of a disconnected current, in sequence: noise on every second site of each direction.
    void thinned(Precision p, const Field &x) {
        constexpr int step = 2, vectors = step * step * step * step / 2;
        const Field thin{{device_, p, geometry_, 0, "bench", vectors}, {device_, p, geometry_, 1, "bench", vectors}};
        const double t = seconds([&] { thin_sources(device_, geometry_, x.vectors().first(1), step, thin.vectors()); });
        Reals made, wanted;
        for (int k = 0; k < vectors; ++k) {
            reference::Fermion one = x_[0];
            for (int site = 0; site < volume_; ++site) {
                int place = 0;
                for (const int at : lattice_.coordinates(site))
                    place = place * step + at % step;
                if (place / 2 != k)
                    one[site] = {};
            }
            const Reals there = down({thin.even[k], thin.odd[k]}),
                        ours = reference::vector_to_milc<double>(lattice_, one);
            made.insert(made.end(), there.begin(), there.end());
            wanted.insert(wanted.end(), ours.begin(), ours.end());
        }
        row("thinned sources", p, t, 0, (1 + vectors) * spinor_bytes(p), made, difference(made, wanted), 1e-16,
            vectors);
    }

    // All that correlators of u u u, u u s, u d s need: the triples whose corners XOR to 0 at both ends.
    void tie_ups(Precision p, const Field &x, int octets) {
        const int n = octets * cube_corners * colours;
        const Field all{{device_, p, geometry_, 0, "bench", n}, {device_, p, geometry_, 1, "bench", n}};
        std::vector<TiedQuark> quarks;
        for (int k = 0; k < n; ++k)
            for (const auto &[from, to] : {std::pair(&x.even, &all.even), std::pair(&x.odd, &all.odd)})
                device_.copy_on_device((*to)[k].data, (*from)[k % colours].data, (*from)[0].stride * spinor_bytes(p));
        const auto vector = [&](int k) { return all.vectors().from(k).first(1); };
        for (int k = 0; k < n; k += colours)
            quarks.push_back({{vector(k), vector(k + 1), vector(k + 2)}});
        std::set<std::array<std::pair<int, int>, 3>> distinct; // a tie-up is symmetric in its quarks
        for (int k = 0; k < 4096; ++k) {
            const int s0 = k & 7, s1 = k >> 3 & 7, k0 = k >> 6 & 7, k1 = k >> 9;
            std::array<std::pair<int, int>, 3> one = {{{s0, k0}, {s1, k1}, {s0 ^ s1, k0 ^ k1}}};
            for (int f = 0; f < 3; ++f) // u u s: the first two are equal
                one[f].first += cube_corners * (octets == 3 ? f : octets == 2 && f == 2);
            std::sort(one.begin(), one.end());
            distinct.insert(one);
        }
        std::vector<TieUp> list;
        for (const auto &one : distinct)
            list.push_back({{one[0].first, one[1].first, one[2].first}, {one[0].second, one[1].second, one[2].second}});
        std::vector<Complex<double>> found;
        const double t = median_seconds(device_, device_.on_gpu() ? 5 : 1, 1,
                                        [&] { found = tie_up(device_, nullptr, geometry_, quarks, {}, list); });
        const size_t times = lattice_.n[3];
        Reals made, last, wanted;
        for (const auto &z : found)
            made.insert(made.end(), {z.re, z.im});
        last.assign(made.end() - 2 * times, made.end());
        if (p == Precision::double_) {
            reference::Octet octet;
            octet.fill({x_[0], x_[1], x_[2]});
            const int *const k = list.back().shift;
            for (const auto &z : reference::tie_up(lattice_, {&octet, &octet, &octet}, {}, {k[0], k[1], k[2]}, {}))
                wanted.insert(wanted.end(), {z.real(), z.imag()});
        }
        const double sites = 1.0 / 8; // of the corner
        row(format("%zu tie-ups of octets", list.size()), p, t, 360.0 * sites * static_cast<double>(list.size()),
            2.0 * n * spinor_bytes(p), made, wanted.empty() ? 0 : difference(last, wanted), 2e-15, octets);
    }

    Device &device_;
    Geometry geometry_;
    reference::Lattice lattice_;
    Table &table_;
    int volume_;
    reference::Gauge gauge_;
    SiteMap map_;
    SpinorReorder reorder_;
    std::vector<reference::Fermion> x_;
    std::map<std::string, Reals> results_;
};

} // namespace

void bench_mesons(const Bench &bench) { Mesons(bench).run(); }

} // namespace examples
