// Contractions of Dirac fields: numbers of sites, sums of 16 gammas and of 16 mesons over time slices at momenta.
// Double precision is compared with the CPU reference, single precision with double. Rows "written" store 16 numbers
// per site and sum them one by one.
#include "examples/bench/bench.h"
#include "gpu_kernels/fields/spinor_field.h"
#include "gpu_kernels/measure/quark_operators.h"
#include "gpu_kernels/wilson/contract.h"
#include "reorder/spinor_reorder.h"
#include "tests/reference/dirac.h"

namespace examples {
using namespace milcgpu;

namespace {

using Reals = std::vector<double>;

struct Field {
    SpinorField even, odd;
    FullVectors vectors() const { return {even, odd}; }
};

class Dirac {
  public:
    explicit Dirac(const Bench &bench)
        : bench_(bench), device_(bench.device()), geometry_(bench.system.lattice.n), lattice_(bench.system.lattice),
          volume_(lattice_.volume()), reorder_(device_, map_, geometry_, spins),
          phi_(reference::random_spin_wilson_field(lattice_, 31)),
          psi_(reference::random_spin_wilson_field(lattice_, 41)) {
        for (int k = 0; k < gamma_matrices; ++k)
            pairs_.push_back({gamma_of(GammaBasis::milc, k), gamma_of(GammaBasis::milc, k)});
    }
    void run() {
        for (const Precision p : {Precision::double_, Precision::single}) {
            const Field phi = up(p, phi_), psi = up(p, psi_);
            sites(p, phi.vectors().first(1), psi.vectors().first(1));
            for (const int momenta : {1, 10}) {
                sums(p, phi.vectors().first(1), psi.vectors().first(1), momenta);
                sums(p, phi.vectors(), psi.vectors(), momenta);
                if (p == Precision::double_)
                    sums_of_written(p, phi.vectors().first(1), psi.vectors().first(1), momenta);
            }
        }
    }

  private:
    static constexpr int spins = 4;

    Field up(Precision p, const reference::SpinWilsonField &field) {
        Field to{{device_, p, geometry_, 0, "bench", spins, spins}, {device_, p, geometry_, 1, "bench", spins, spins}};
        Reals host = reference::field_to_milc<double>(lattice_, field, 1);
        for (int k = 0; k < spins; ++k) {
            const HostField from{host.data() + 24 * k, Precision::double_, sizeof field[0]};
            reorder_.to_device(from, 0, to.even[k]);
            reorder_.to_device(from, 1, to.odd[k]);
        }
        return to;
    }
    template <class Launch> double seconds(const Launch &launch) {
        return median_seconds(device_, 5, device_.on_gpu() ? 10 : 1, launch);
    }
    static Reals reals_of(const std::vector<Complex<double>> &numbers) {
        Reals reals;
        for (const auto &z : numbers)
            reals.insert(reals.end(), {z.re, z.im});
        return reals;
    }
    // error: the error of the result in double.
    void row(const std::string &what, Precision p, double seconds, double flops, double bytes, const Reals &made,
             double error, int sources = 1) {
        const bool is_double = p == Precision::double_;
        Reals &in_double = results_[format("%s of %d", what.c_str(), sources)];
        if (is_double)
            in_double = made;
        bench_.table.row({"dirac", what, name(p), sources}, {seconds, flops * volume_, bytes * volume_},
                         is_double ? error : difference(bench_.ranks, made, in_double, made.size()),
                         times_measured * (is_double ? 4.7e-15 : 2e-7)); // at 24^3 x 32
    }

    void sites(Precision p, const FullVectors &phi, const FullVectors &psi) {
        const size_t numbers = size_t(gamma_matrices) * volume_;
        const DeviceArray<unsigned char> to(device_, 2 * numbers * real_bytes(p), "bench");
        const SiteNumbers striped{to.data(), size_t(volume_), 1};
        const auto down = [&] {
            const std::vector<unsigned char> raw = to.to_host();
            Reals reals(2 * numbers);
            for (size_t k = 0; k < reals.size(); ++k)
                reals[k] = p == Precision::double_ ? reinterpret_cast<const double *>(raw.data())[k]
                                                   : reinterpret_cast<const float *>(raw.data())[k];
            return reals;
        };
        // Number k of all sites in MILC's order, from the reference.
        const auto wanted = [&](auto number) {
            const std::vector<int> order = reference::milc_order(lattice_);
            Reals reals(2 * numbers);
            for (int j = 0; j < volume_; ++j) {
                const auto a = reference::open_spin(phi_[order[j]].d[0], psi_[order[j]].d[0]);
                for (int k = 0; k < gamma_matrices; ++k) {
                    const reference::Complex z = number(k, a);
                    reals[2 * (size_t(k) * volume_ + j)] = z.real(),
                                                     reals[2 * (size_t(k) * volume_ + j) + 1] = z.imag();
                }
            }
            return reals;
        };
        const double bytes = 80.0 * real_bytes(p);
        const auto check = [&](const Reals &made, auto number) {
            return p == Precision::double_ ? difference(bench_.ranks, made, wanted(number), made.size()) : 0;
        };
        double t = seconds([&] { open_spins(device_, geometry_, phi, psi, striped); });
        Reals made = down();
        row("open spins of sites", p, t, 288, bytes, made,
            check(made, [](int k, const reference::SpinMatrix &a) { return a[k / 4][k % 4]; }));
        std::vector<reference::SpinMatrix> gammas;
        for (int k = 0; k < gamma_matrices; ++k)
            gammas.push_back(reference::gamma_of_set(reference::GammaSet::milc, k));
        t = seconds([&] { gammas_of_sites(device_, geometry_, GammaBasis::milc, phi, psi, striped); });
        made = down();
        row("16 gammas of sites", p, t, 288 + 256, bytes, made,
            check(made, [&](int k, const reference::SpinMatrix &a) { return reference::bilinear(gammas[k], a); }));
    }

    static std::vector<Momentum> momenta_of(int n) {
        std::vector<Momentum> momenta;
        for (int k = 0; k < n; ++k)
            momenta.push_back(
                {{k % 3, k / 3 % 3, k / 9}, {MomentumParity::both, MomentumParity::both, MomentumParity::both}});
        return momenta;
    }
    // Gamma_5 at the last momentum: of one source, or of the mesons as the kernel has them.
    Reals expected(const Momentum &momentum, int sources) const {
        const reference::MomentumFactor f{{momentum.p[0], momentum.p[1], momentum.p[2]}, {'B', 'B', 'B'}, {}};
        const reference::SpinMatrix &five = reference::gamma_matrix(4);
        std::vector<reference::Complex> sum(lattice_.n[3]);
        for (int site = 0; site < volume_; ++site) {
            reference::Complex z = 0;
            for (int r = 0; r < sources; ++r) // gamma_5 at the source is diagonal
                z += (sources == 1 ? 1.0 : five[r][r]) *
                     reference::bilinear(five, reference::open_spin(phi_[site].d[r], psi_[site].d[r]));
            sum[lattice_.coordinates(site)[3]] +=
                z * reference::momentum_factor(lattice_, site, f.p, f.parity, f.origin);
        }
        Reals reals;
        for (const auto &z : sum)
            reals.insert(reals.end(), {z.real(), z.imag()});
        return reals;
    }
    double error_of(const Reals &made, const Momentum &last, int n, int sources) const {
        const size_t size = 2 * size_t(lattice_.n[3]), first = ((n - 1) * gamma_matrices + 4) * size;
        return difference(bench_.ranks, {made.begin() + first, made.begin() + first + size}, expected(last, sources),
                          size);
    }

    void sums(Precision p, const FullVectors &phi, const FullVectors &psi, int n) {
        const int origin[3] = {0, 0, 0}, sources = phi.sources();
        const std::vector<Momentum> momenta = momenta_of(n);
        DiracSums sums(device_, geometry_, momenta, origin);
        const double t = seconds([&] { sums.first_pass(phi, psi, pairs_); });
        const Reals made = reals_of(sums.of_gammas(phi, psi, pairs_));
        const double factors = momenta.back().p[2] + 1; // different factors in z
        row(format("16 %s at %d momenta", sources == 1 ? "gammas" : "mesons", n), p, t,
            dirac_sums_flops(sources, 4, gamma_matrices, factors), dirac_sums_bytes(p, sources), made,
            p == Precision::double_ ? error_of(made, momenta.back(), n, sources) : 0, sources);
    }

    void sums_of_written(Precision p, const FullVectors &phi, const FullVectors &psi, int n) {
        const int origin[3] = {0, 0, 0};
        const std::vector<Momentum> momenta = momenta_of(n);
        const DeviceArray<Complex<double>> numbers(device_, size_t(gamma_matrices) * volume_, "bench");
        SliceSums sums(device_, geometry_, momenta, origin, gamma_matrices);
        const double t = seconds([&] {
            gammas_of_sites(device_, geometry_, GammaBasis::milc, phi, psi, {numbers.data(), size_t(volume_), 1});
            for (int k = 0; k < gamma_matrices; ++k)
                sums.sum(k, numbers.data() + size_t(k) * volume_);
        });
        const auto found = sums.to_host();
        const size_t times = lattice_.n[3];
        std::vector<Complex<double>> added(momenta.size() * gamma_matrices * times);
        for (int k = 0; k < gamma_matrices; ++k)
            for (int q = 0; q < n; ++q)
                for (int c = 0; c < SliceSums::classes; ++c)
                    for (size_t at = 0; at < times; ++at) {
                        Complex<double> &to = added[(size_t(q) * gamma_matrices + k) * times + at];
                        to = to + found[((size_t(k) * n + q) * SliceSums::classes + c) * times + at];
                    }
        const Reals made = reals_of(added);
        row(format("16 gammas at %d momenta, written", n), p, t, 288 + 256 + 8.0 * gamma_matrices,
            dirac_sums_bytes(p, 1), made, error_of(made, momenta.back(), n, 1));
    }

    const Bench &bench_;
    Device &device_;
    Geometry geometry_;
    reference::Lattice lattice_;
    int volume_;
    SiteMap map_;
    SpinorReorder reorder_;
    reference::SpinWilsonField phi_, psi_;
    std::vector<GammaPair> pairs_;
    std::map<std::string, Reals> results_;
};

} // namespace

void bench_dirac(const Bench &bench) { Dirac(bench).run(); }

} // namespace examples
