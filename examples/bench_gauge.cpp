// Gauge fixing and APE smearing. Double precision is held against the CPU reference, single precision against double.
#include "examples/bench.h"
#include "gpu_kernels/gauge/gauge_fix.h"
#include "reorder/resident_links.h"
#include "tests/reference/gauge_fix.h"

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
