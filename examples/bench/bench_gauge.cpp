// Gauge fixing, APE smearing, sweeps of over-relaxation and heat bath. Double precision is compared with the CPU
// reference, single precision with double. Over-relaxation must keep the action; the heat bath must lead to the known
// plaquette.
#include "examples/bench/bench.h"
#include "gpu_kernels/gauge/flow/gauge_fix.h"
#include "gpu_kernels/gauge/forces/forces.h"
#include "reorder/resident_links.h"
#include "tests/reference/gauge_fix.h"
#include <cstring>

namespace examples {
using namespace milcgpu;

namespace {

using Reals = std::vector<double>; // a field in MILC's order

class Gauge {
  public:
    explicit Gauge(const Bench &bench)
        : bench_(bench), geometry_(bench.system.lattice.n), box_(geometry_), lattice_(bench.system.lattice),
          gauge_(reference::near_unit_gauge(lattice_, 0.3, 5)) {}
    void run() {
        for (const Precision p : {Precision::double_, Precision::single}) {
            coulomb(p);
            ape(p, false);
            ape(p, true);
            sweeps(p);
        }
    }

  private:
    Device &device() const { return bench_.device(); }
    LinkField up(Precision p) const {
        LinkField to(device(), p, 18, geometry_, "bench");
        Reals host = reals_of(gauge_);
        std::vector<float> floats(host.begin(), host.end());
        links_to_device(device(),
                        p == Precision::double_ ? HostField{host.data(), p, 576} : HostField{floats.data(), p, 288},
                        map_, geometry_, to);
        return to;
    }
    Reals reals_of(const reference::Gauge &links) const { return reference::links_to_milc<double>(lattice_, links); }
    Reals down(const LinkField &from) const {
        Reals host(72 * size_t(lattice_.volume()));
        links_to_host(device(), from, map_, geometry_, {host.data(), Precision::double_, 576});
        return host;
    }
    template <class Launch> double seconds(const Launch &launch) const {
        return median_seconds(device(), 5, device().on_gpu() ? 10 : 1, launch);
    }
    void row(const char *what, Precision p, double seconds, double flops, double bytes, const Reals &made,
             const Reals &wanted) {
        const double volume = lattice_.volume();
        bench_.table.row({"gauge", what, name(p), 1}, {seconds, flops * volume, bytes * volume},
                         difference(bench_.ranks, made, wanted, made.size()),
                         times_measured * (p == Precision::double_ ? 1e-15 : 3e-7));
    }

    void coulomb(Precision p) {
        const GaugeCondition condition{7, 1.8, Signs::phases_out};
        const auto step = [&](const LinkField &u) {
            for (const int parity : {1, 0})
                relax_gauge(device(), box_, u, condition, parity);
        };
        LinkField u = up(p);
        step(u);
        const Reals made = down(u);
        reference::Gauge wanted = gauge_;
        reference::gauge_fix_step(lattice_, wanted, 3, condition.boost);
        row("Coulomb step", p, seconds([&] { step(u); }), relax_gauge_flops(condition), relax_gauge_bytes(p, condition),
            made, reals_of(wanted));
    }
    void ape(Precision p, bool staples_in_time) {
        const ApeSpec spec{0.05, staples_in_time, 10, 1e-5, Signs::phases_out};
        const LinkField u = up(p), to(device(), p, 18, geometry_, "bench");
        const DeviceArray<uint64_t> failures(device(), 1, "bench");
        device().fill_zero(failures.data(), failures.bytes());
        const double t = seconds([&] { ape_smear(device(), box_, u, spec, to, failures.data()); });
        int failed = 0;
        row(staples_in_time ? "APE step, all staples" : "APE step", p, t, ape_smear_flops(spec), ape_smear_bytes(p),
            down(to),
            reals_of(reference::ape_smear(lattice_, gauge_, spec.weight, !staples_in_time, spec.most_hits,
                                          spec.tolerance, &failed)));
    }

    // MILC's generators, word by word for all sites, and the count of drawn numbers.
    std::vector<uint32_t> generators() const {
        const size_t sites = lattice_.volume();
        std::vector<uint32_t> words((generator_words + 1) * sites);
        reference::Rng rng(12);
        const float scale = 1.f / 0x1000000;
        for (size_t i = 0; i < sites; ++i) {
            const auto word = [&](int k) -> uint32_t & { return words[k * sites + i]; };
            for (const int k : {0, 1, 2, 3, 4, 5, 6, 11, 12})
                word(k) = static_cast<uint32_t>(reference::uniform(rng) * 0x1000000);
            word(7) = static_cast<uint32_t>(100005 + 8 * i), word(9) = 12345;
            std::memcpy(&word(13), &scale, sizeof scale);
            word(14) = 40;
        }
        return words;
    }
    double plaquette(const LinkField &u) const {
        const PlaquetteMeans means = plaquettes(device(), box_, u);
        return (means.space + means.time) / 6;
    }
    // To rounding; in single precision the error adds up over the sweeps.
    void sweeps(Precision p) {
        const double exact = times_measured * (p == Precision::double_ ? 1e-15 : 2e-6);
        const LinkField u = up(p);
        const double before = plaquette(u);
        double t = seconds([&] { overrelax(device(), geometry_, u); });
        const double kept = plaquette(u), moved = difference(bench_.ranks, down(u), reals_of(gauge_), gauge_.size());
        sweep_row("over-relaxation sweep", p, t, overrelax_bytes(p), moved > 0.1 ? kept / before - 1 : 1, exact);
        constexpr double beta = 6, known = 0.5937, as_equilibrated = 0.05;
        const DeviceArray<uint32_t> words(device(), generators().size(), "bench");
        device().copy_to_device(words.data(), generators().data(), words.bytes());
        t = seconds([&] { heat_bath(device(), geometry_, u, beta, words.data()); });
        for (int sweep = 0; sweep < 20; ++sweep)
            heat_bath(device(), geometry_, u, beta, words.data());
        sweep_row("heat bath sweep", p, t, heat_bath_bytes(p), plaquette(u) / known - 1, as_equilibrated);
    }
    // Random numbers are not counted.
    void sweep_row(const char *what, Precision p, double seconds, double bytes, double error, double tolerance) {
        const double volume = lattice_.volume();
        bench_.table.row({"gauge", what, name(p), 1}, {seconds, overrelax_flops * volume, bytes * volume},
                         std::fabs(error), tolerance);
    }

    const Bench &bench_;
    Geometry geometry_;
    WideBox box_;
    SiteMap map_;
    reference::Lattice lattice_;
    reference::Gauge gauge_;
};

} // namespace

void bench_gauge(const Bench &bench) { Gauge(bench).run(); }

} // namespace examples
