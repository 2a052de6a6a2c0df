// Molecular dynamics: forces of asqtad and HISQ and their parts, gauge force, updates, actions; the gradient flow.
// Double precision is compared with central differences of the differentiated function, along random momenta, or with
// the CPU reference; single precision is compared with double. Then whole calls of the C interface, with all their work
// on the device; on ranks they are compared with calls of one rank.
#include "examples/bench/bench.h"
#include "gpu_kernels/algebra/blas.h"
#include "gpu_kernels/fields/spinor_field.h"
#include "gpu_kernels/gauge/flow/flow_integrators.h"
#include "gpu_kernels/gauge/forces/fermion_force.h"
#include "milc_glue/api/milcgpu_md.h"
#include "reorder/resident_links.h"
#include "tests/reference/forces.h"
#include <optional>

namespace examples {
using namespace milcgpu;

namespace {

using Reals = std::vector<double>; // a field in MILC's order

PathCoefficients library(const reference::PathCoefficients &c) {
    return {c.one_link, c.naik, c.three_staple, c.five_staple, c.seven_staple, c.lepage};
}

double dot(const Reals &a, const Reals &b) {
    long double sum = 0;
    for (size_t k = 0; k < a.size(); ++k)
        sum += a[k] * b[k];
    return static_cast<double>(sum);
}

double difference(const Reals &a, const Reals &b) {
    long double d = 0, size = 0;
    for (size_t k = 0; k < b.size(); ++k)
        d += (a[k] - b[k]) * (a[k] - b[k]), size += b[k] * b[k];
    return static_cast<double>(std::sqrt(d / size));
}

Reals random_momenta(const reference::Lattice &lattice) {
    reference::Rng rng(3);
    Reals h(40 * size_t(lattice.volume()));
    for (size_t k = 0; k < h.size(); k += 10) {
        for (int j = 0; j < 8; ++j)
            h[k + j] = 0.5 * reference::gaussian(rng).real();
        h[k + 8] = -h[k + 6] - h[k + 7];
    }
    return h;
}

class Forces {
  public:
    explicit Forces(const Bench &bench)
        : device_(bench.device()), geometry_(bench.system.lattice.n), lattice_(bench.system.lattice),
          settings_(bench.settings), table_(bench.table), volume_(lattice_.volume()),
          gauge_(reference::links_to_milc<double>(lattice_, bench.system.gauge)) {
        direction_ = random_momenta(lattice_);
        for (int t = 0; t < std::max(settings_.hisq_terms, settings_.asqtad_terms); ++t)
            x_.push_back(reference::random_fermion(lattice_, 100 + t));
    }

    void run() {
        for (const Precision p : {Precision::double_, Precision::single}) {
            const LinkField u = up(gauge_, p);
            fermions(p, u);
            gauge_sector(p, u);
            flow(p, u);
        }
    }
    const Reals &result(const std::string &row) const { return results_.at(row); } // in double
    static Reals residues(int terms) {
        Reals r;
        for (int t = 0; t < terms; ++t)
            r.push_back(0.3 + 0.1 * t);
        return r;
    }

  private:
    LinkField field(Precision p, int reals = 18) { return {device_, p, reals, geometry_, "bench"}; }
    LinkField up(const Reals &reals, Precision p) {
        const int count = static_cast<int>(reals.size() / volume_ / 4);
        LinkField to = field(p, count);
        std::vector<float> floats;
        HostField host{const_cast<double *>(reals.data()), p, 4 * count * sizeof(double)};
        if (p == Precision::single) {
            floats.assign(reals.begin(), reals.end());
            host = {floats.data(), p, 4 * count * sizeof(float)};
        }
        links_to_device(device_, host, map_, geometry_, to);
        return to;
    }
    Reals down(const LinkField &from) {
        Reals host(size_t(volume_) * 4 * from.reals());
        links_to_host(device_, from, map_, geometry_,
                      {host.data(), Precision::double_, 4 * from.reals() * sizeof(double)});
        return host;
    }
    void clear(const LinkField &f) { device_.fill_zero(f.block(0, 0), f.bytes()); }

    // d value / d s along links exp(s direction) u at s = 0: central differences of fourth order.
    template <class Value> double slope(const Value &value) {
        const LinkField u = up(gauge_, Precision::double_), h = up(direction_, Precision::double_),
                        moved = field(Precision::double_);
        const double step = 1e-3;
        const auto at = [&](double s) {
            device_.copy_on_device(moved.block(0, 0), u.block(0, 0), u.bytes());
            update_links(device_, geometry_, moved, h, s, 16);
            return value(moved);
        };
        return (8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12 * step);
    }
    // Re sum tr(direction H) of momenta H.
    double along(const Reals &h) {
        long double sum = 0;
        for (size_t k = 0; k < h.size(); k += 10)
            for (int j = 0; j < 9; ++j)
                sum -= (j < 6 ? 2 : 1) * h[k + j] * direction_[k + j];
        return static_cast<double>(sum);
    }
    // A row. result: the timed field. In double the caller gives its error; in single it is compared with the result in
    // double of the same name.
    void row(const std::string &what, Precision p, double seconds, double flops, double bytes, const Reals &result,
             double error_in_double, double tolerance_in_double) {
        double error = error_in_double, tolerance = tolerance_in_double;
        if (p == Precision::double_)
            results_[what] = result;
        else
            error = difference(result, results_[what]), tolerance = times_measured * 5e-7;
        table_.row({"forces", what, name(p)}, {seconds, flops * volume_, bytes * volume_}, error, tolerance);
    }
    template <class Launch> double seconds(const Launch &launch) {
        return median_seconds(device_, 5, device_.on_gpu() ? 3 : 1, launch);
    }
    double slope_error(double got, double wanted) { return std::fabs(got / wanted - 1); }
    static constexpr double slope_tolerance = 1e-9; // for the differences; measured up to 3e-11 on 6^3 x 8

    struct Vectors {
        SpinorField even, odd;
    };
    Vectors vectors(Precision p, int terms) {
        Vectors v{{device_, p, geometry_, 0, "bench", terms}, {device_, p, geometry_, 1, "bench", terms}};
        SpinorReorder reorder(device_, map_, geometry_);
        for (int t = 0; t < terms; ++t) {
            auto host = reference::vector_to_milc<double>(lattice_, x_[t]);
            reorder.to_device({host.data(), Precision::double_, 48}, 0, v.even[t]);
            reorder.to_device({host.data(), Precision::double_, 48}, 1, v.odd[t]);
        }
        return v;
    }
    Reals reference_products(int terms, int hops) {
        return reference::links_to_milc<double>(
            lattice_, reference::outer_products(lattice_, {x_.begin(), x_.begin() + terms}, residues(terms), hops));
    }
    // The momenta from a derivative in an MD step of 1.
    Reals force(Precision p, const LinkField &u, const LinkField &by_u) {
        const LinkField h = momenta(device_, p, geometry_);
        clear(h);
        add_force(device_, geometry_, u, by_u, 2, h);
        return down(h);
    }

    // The value of a rational function with as many solutions as the force has terms, on even sites.
    void sum_of_vectors(Precision p, const SpinorField &x) {
        const Reals weights = residues(x.sources());
        const DeviceArray<double> on_device(device_, weights.size(), "bench");
        device_.copy_to_device(on_device.data(), weights.data(), on_device.bytes());
        const SpinorField sum(device_, p, geometry_, 0, "bench");
        const double t = median_seconds(device_, 5, device_.on_gpu() ? 20 : 1,
                                        [&] { weighted_sum(device_, x, on_device.data(), sum); });
        Reals got(6 * static_cast<size_t>(volume_)), wanted(got.size());
        SpinorReorder(device_, map_, geometry_).to_host(sum, 0, {got.data(), Precision::double_, 48});
        for (int k = 0; k < x.sources(); ++k) {
            const auto term = reference::vector_to_milc<double>(lattice_, x_[k]);
            for (size_t r = 0; r < wanted.size() / 2; ++r) // even sites come first
                wanted[r] += weights[k] * term[r];
        }
        row(format("sum of %d vectors", x.sources()), p, t, 6.0 * x.sources(),
            0.5 * (x.sources() + 1) * spinor_bytes(p), got, difference(got, wanted), times_measured * 2e-16);
    }
    void fermions(Precision p, const LinkField &u);
    void gauge_sector(Precision p, const LinkField &u);
    void flow(Precision p, const LinkField &u);

    Device &device_;
    Geometry geometry_;
    SiteMap map_;
    reference::Lattice lattice_;
    const BenchSettings &settings_;
    Table &table_;
    int volume_;
    Reals gauge_, direction_;
    std::vector<reference::Fermion> x_;
    std::map<std::string, Reals> results_;
};

void Forces::fermions(Precision p, const LinkField &u) {
    const bool check = p == Precision::double_;
    const int hisq_terms = settings_.hisq_terms, asqtad_terms = settings_.asqtad_terms;
    const double matrix = link_bytes(p, 18);
    const auto asqtad = library(reference::asqtad_coefficients(0.87)),
               level_1 = library(reference::hisq_fat7_coefficients()),
               level_2 = library(reference::hisq_asqtad_coefficients());
    const StapleSpace staples(device_, geometry_, Precision::double_);
    // 2 Re sum tr(q^dag V) for fat links of these coefficients.
    const auto fat_value = [&](const LinkField &links, const PathCoefficients &c, const Reals &q) {
        const LinkField fat = field(Precision::double_);
        fat_links(device_, geometry_, links, c, fat, staples);
        return 2 * dot(down(fat), q);
    };
    const auto long_value = [&](const LinkField &links, double naik, const Reals &q) {
        const LinkField lng = field(Precision::double_);
        long_links(device_, geometry_, links, naik, lng);
        return 2 * dot(down(lng), q);
    };
    const Reals q_fat = reference_products(hisq_terms, 1), q_long = reference_products(hisq_terms, 3);
    const Vectors v = vectors(p, std::max(hisq_terms, asqtad_terms));
    const ForceTerms terms{{v.even, v.odd}, residues(hisq_terms)};
    sum_of_vectors(p, v.even);
    const LinkField by_fat = field(p), by_long = field(p), by_u = field(p);
    double t = seconds(
        [&] { outer_products(device_, geometry_, terms.x, terms.residues, terms.residues, false, by_fat, &by_long); });
    const Reals products = down(by_fat);
    row(format("outer products of %d", hisq_terms), p, t, outer_products_flops(hisq_terms),
        outer_products_bytes(p, hisq_terms), products, difference(products, q_fat) + difference(down(by_long), q_long),
        times_measured * 1e-15);
    {
        const AdjointSpace space(device_, geometry_, p, true);
        for (const bool lepage : {true, false}) {
            const PathCoefficients &c = lepage ? asqtad : level_1;
            t = seconds([&] { fat_links_adjoint(device_, geometry_, u, c, by_fat, by_u, space); });
            clear(by_u);
            fat_links_adjoint(device_, geometry_, u, c, by_fat, by_u, space);
            const Reals h = force(p, u, by_u);
            const double error =
                check ? slope_error(along(h), slope([&](const LinkField &l) { return fat_value(l, c, q_fat); })) : 0;
            // Reads u once, writes q once, and reads and writes by_u.
            row(lepage ? "through asqtad fat links" : "through fat7 links", p, t, fat_links_adjoint_flops(lepage),
                16 * matrix, h, error, slope_tolerance);
        }
    }
    t = seconds([&] { long_links_adjoint(device_, geometry_, u, asqtad.naik, by_long, by_u); });
    clear(by_u);
    long_links_adjoint(device_, geometry_, u, asqtad.naik, by_long, by_u);
    const Reals h_long = force(p, u, by_u);
    row("through long links", p, t, long_links_adjoint_flops, 16 * matrix, h_long,
        check
            ? slope_error(along(h_long), slope([&](const LinkField &l) { return long_value(l, asqtad.naik, q_long); }))
            : 0,
        slope_tolerance);

    const ForceTerms few{{v.even, v.odd}, residues(asqtad_terms)};
    const LinkField h = momenta(device_, p, geometry_);
    const double compulsory = 8 * matrix + 8 * link_bytes(p, momentum_reals);
    AskedFields asked(device_);
    t = seconds(
        [&] { add_force(device_, geometry_, u, asqtad_derivative(device_, geometry_, u, asqtad, few, asked), 2, h); });
    clear(h);
    add_force(device_, geometry_, u, asqtad_derivative(device_, geometry_, u, asqtad, few, asked), 2, h);
    Reals result = down(h);
    const Reals few_fat = reference_products(asqtad_terms, 1), few_long = reference_products(asqtad_terms, 3);
    row(format("asqtad force of %d", asqtad_terms), p, t,
        asqtad_derivative_flops(asqtad, asqtad_terms) + add_force_flops, compulsory + asqtad_terms * spinor_bytes(p),
        result,
        check ? slope_error(along(result), slope([&](const LinkField &l) {
                                return fat_value(l, asqtad, few_fat) + long_value(l, asqtad.naik, few_long);
                            }))
              : 0,
        slope_tolerance);

    const HisqForceSpec hisq{level_1, level_2, {1.0 / 8, -1.0 / 24, 0, 0, 0, 0}, {{0, hisq_terms}}, {}, 5e-5};
    const LinkField level_v = field(p), w = field(p);
    fat_links(device_, geometry_, u, level_1, level_v, StapleSpace(device_, geometry_, p));
    unitarize(device_, geometry_, level_v, {}, nullptr, w);
    t = seconds([&] { unitarize_adjoint(device_, geometry_, level_v, {}, hisq.filter, by_fat); });
    const double unitarize_seconds = t;
    const auto made = [&] { return hisq_derivative(device_, geometry_, {u, level_v, w}, hisq, terms, asked).by_u; };
    t = seconds([&] { add_force(device_, geometry_, u, made(), 2, h); });
    clear(h);
    add_force(device_, geometry_, u, made(), 2, h);
    result = down(h);
    const double error =
        check ? slope_error(along(result), slope([&](const LinkField &l) {
                                const LinkField new_v = field(Precision::double_), new_w = field(Precision::double_);
                                fat_links(device_, geometry_, l, level_1, new_v, staples);
                                unitarize(device_, geometry_, new_v, {}, nullptr, new_w);
                                return fat_value(new_w, level_2, q_fat) + long_value(new_w, level_2.naik, q_long);
                            }))
              : 0;
    row(format("HISQ force of %d", hisq_terms), p, t, hisq_derivative_flops(hisq, hisq_terms) + add_force_flops,
        compulsory + 8 * matrix + hisq_terms * spinor_bytes(p), result, error, slope_tolerance);
    row("HISQ force: through the unitarization", p, unitarize_seconds, unitarize_adjoint_flops, 12 * matrix, result,
        error, slope_tolerance);
}

void Forces::gauge_sector(Precision p, const LinkField &u) {
    const bool check = p == Precision::double_;
    const LinkField h = momenta(device_, p, geometry_);
    for (const LoopCoefficients &c :
         {LoopCoefficients{1, -0.0418, 0.000515}, LoopCoefficients{1, -0.0418, 0}, LoopCoefficients{1, 0, 0}}) {
        const GaugeForceSpace space(device_, geometry_, p, c);
        const double t = seconds([&] { gauge_force(device_, geometry_, u, c, 1, h, space); });
        clear(h);
        gauge_force(device_, geometry_, u, c, 1, h, space);
        const Reals result = down(h);
        const char *loops = c.bent != 0        ? "gauge force"
                            : c.rectangle != 0 ? "gauge force of tree level"
                                               : "plaquette force";
        row(loops, p, t, gauge_force_flops(c), gauge_force_bytes(p, c), result,
            check ? slope_error(along(result),
                                slope([&](const LinkField &l) { return gauge_action(device_, geometry_, l, c); }))
                  : 0,
            slope_tolerance);
    }
    const LinkField moved = field(p), direction = up(direction_, p), by_u = up(gauge_, p);
    const auto copy = [&] { device_.copy_on_device(moved.block(0, 0), u.block(0, 0), u.bytes()); };
    for (const int order : {8, 6}) {
        copy();
        const double t = seconds([&] { update_links(device_, geometry_, moved, direction, 1e-3, order); });
        copy();
        update_links(device_, geometry_, moved, direction, 1e-3, order);
        const Reals there = down(moved);
        update_links(device_, geometry_, moved, direction, -1e-3, order);
        row(format("update of the links of order %d", order), p, t, update_links_flops(order), update_links_bytes(p),
            there, difference(down(moved), gauge_), times_measured * 1e-15);
    }
    double t = seconds([&] { add_force(device_, geometry_, u, by_u, 1e-3, h); });
    const Reals unit = force(p, u, by_u); // TA(U U^dag) = 0
    row("momenta from a derivative", p, t, add_force_flops, add_force_bytes(p), down(u),
        std::sqrt(dot(unit, unit) / unit.size()), times_measured * 1e-15);
    double value = 0;
    const DeviceArray<double> on_device(device_, 1, "bench");
    t = median_seconds(device_, 5, 20, [&] { momentum_action(device_, geometry_, direction, on_device.data()); });
    value = on_device.to_host()[0];
    const double wanted = -along(direction_) / 2 - 16.0 * volume_;
    row("momentum action", p, t, momentum_action_flops, momentum_action_bytes(p), {value}, slope_error(value, wanted),
        times_measured * 1e-13);
    const LoopCoefficients all{1, -0.0418, 0.000515};
    t = seconds([&] { value = gauge_action(device_, geometry_, u, all); });
    const double plaquettes_alone = gauge_action(device_, geometry_, u, {1, 0, 0});
    auto plain = reference::links_from_milc<double>(lattice_, gauge_);
    reference::apply_phases(lattice_, plain);
    const double mean = reference::plaquette(lattice_, plain);
    row("gauge action", p, t, gauge_action_flops(all), gauge_action_bytes(p), {value},
        slope_error(plaquettes_alone, 18.0 * volume_ * (1 - mean)), times_measured * 1e-12);
    PlaquetteMeans means{};
    t = seconds([&] { means = plaquettes(device_, geometry_, u); });
    row("plaquettes", p, t, plaquettes_flops, plaquettes_bytes(p), {means.space, means.time},
        slope_error(means.space + means.time, -6 * mean), times_measured * 1e-14);
    // The 16 bent loops of a site, in the order of a measurement's output.
    std::vector<LoopPath> bent;
    for (int left_out = 0; left_out < 4; ++left_out)
        for (const int backward : {0, 1, 2, 3}) {
            int mu[3], n = 0;
            for (int dir = 0; dir < 4; ++dir)
                if (dir != left_out)
                    mu[n++] = dir;
            LoopPath path{6, {}};
            for (int k = 0; k < 3; ++k) {
                const int step = 2 * mu[k] + (k > 0 ? backward >> (k - 1) & 1 : 0);
                path.steps[k] = static_cast<unsigned char>(step),
                path.steps[k + 3] = static_cast<unsigned char>(step ^ 1);
            }
            bent.push_back(path);
        }
    const auto traces = [&] {
        double sum = 0;
        for (const LoopPath &path : bent)
            sum += 3 - loop_trace(device_, geometry_, u, path, Signs::phases_in).re;
        return sum * volume_;
    };
    t = seconds([&] { value = traces(); });
    row("traces of 16 bent loops", p, t, 16 * (5 * 198 + 6), 16 * 3 * link_bytes(p, 18), {value},
        slope_error(value, gauge_action(device_, geometry_, u, {0, 0, 1})), times_measured * 1e-14);
    copy();
    t = seconds([&] { reunitarize(device_, geometry_, moved); });
    row("reunitarization", p, t, reunitarize_flops, reunitarize_bytes(p), down(moved), difference(down(moved), gauge_),
        times_measured * 1e-15);
}

void Forces::flow(Precision p, const LinkField &u) {
    const bool check = p == Precision::double_;
    const WideBox box(geometry_);
    const LinkField z = momenta(device_, p, geometry_), k = momenta(device_, p, geometry_), to = field(p);
    const Derivative wilson{box, u, Signs::phases_in, StapleWeights::flow(1)};
    const GaugeForceSpace space(device_, box, p, symanzik_loops);
    // Z is the gradient of the action, with a minus sign if the force is minus the gradient.
    const auto gradient_error = [&](const Reals &of, const LoopCoefficients &c) {
        return check ? slope_error(-along(of),
                                   slope([&](const LinkField &l) { return gauge_action(device_, geometry_, l, c); }))
                     : 0;
    };
    double t = seconds([&] { low_storage_stage(device_, wilson, -17.0 / 32, &k, &k, -0.01, 8, to); });
    low_storage_stage(device_, wilson, 0, nullptr, &k, -0.01, 8, to);
    Reals result = down(k);
    row("stage of Wilson's flow", p, t, low_storage_stage_flops(false, 8), low_storage_stage_bytes(p, false), result,
        gradient_error(result, {1, 0, 0}), slope_tolerance);
    Derivative symanzik = wilson;
    symanzik.known = &z;
    t = seconds([&] {
        symanzik_derivative(device_, box, u, Signs::phases_in, space, z);
        low_storage_stage(device_, symanzik, -17.0 / 32, &k, &k, -0.01, 8, to);
    });
    result = down(z);
    row("stage of Symanzik's flow", p, t, gauge_force_flops(symanzik_loops) + low_storage_stage_flops(true, 8),
        gauge_force_bytes(p, symanzik_loops) + low_storage_stage_bytes(p, true), result,
        gradient_error(result, symanzik_loops), slope_tolerance);
    const SumOfStages three{{&z, &z, &z}, {0.01, -0.03, 0.02}}; // the stages cancel
    t = seconds([&] { move_links(device_, geometry_, u, three, 0, 8, to); });
    result = down(to);
    row("links moved by 3 stages", p, t, sum_of_stages_flops(3) + exp_flops(8), sum_of_stages_bytes(p, 3), result,
        difference(result, gauge_), times_measured * 1e-15);
    FlowObservables o{};
    t = seconds([&] { o = flow_observables(device_, box, u, Signs::phases_in); });
    const PlaquetteMeans means = plaquettes(device_, box, u);
    row("observables of the flow", p, t, flow_observables_flops, flow_observables_bytes(p),
        {o.clover_t, o.clover_s, o.rectangle_t, o.rectangle_s, o.charge},
        slope_error(o.plaquette_t + o.plaquette_s, -(means.space + means.time)), times_measured * 1e-14);
}

// Calls of the C interface that change momenta or links.
class ForceCalls {
  public:
    // kernels: the kernels' results on the whole lattice; nullptr: a context of one rank computes them again.
    ForceCalls(const Bench &bench, const Forces *kernels) : bench_(bench), kernels_(kernels) {}
    void run() {
        const Job &ranks = bench_.ranks;
        const reference::Lattice &lattice = bench_.system.lattice;
        Fields whole;
        const int hisq_terms = bench_.settings.hisq_terms, asqtad_terms = bench_.settings.asqtad_terms;
        whole.x.resize(std::max(hisq_terms, asqtad_terms));
        ranks.on_first([&] {
            whole.links = reference::links_to_milc<double>(lattice, bench_.system.gauge);
            whole.direction = random_momenta(lattice);
            for (size_t t = 0; t < whole.x.size(); ++t)
                whole.x[t] = reference::vector_to_milc<double>(lattice, reference::random_fermion(lattice, 100 + t));
        });
        Fields box{ranks.deal(lattice, whole.links, 72), ranks.deal(lattice, whole.direction, 40), {}};
        for (const Reals &x : whole.x)
            box.x.push_back(ranks.deal(lattice, x, 6));
        for (const Call &call :
             {Call{What::hisq, hisq_terms, format("HISQ force of %d", hisq_terms), 40},
              Call{What::asqtad, asqtad_terms, format("asqtad force of %d", asqtad_terms), 40},
              Call{What::gauge, 0, "gauge force", 40}, Call{What::update, 0, "update of the links of order 8", 72}}) {
            Reals of_one;
            ranks.on_first(
                [&] { of_one = kernels_ != nullptr ? kernels_->result(call.name) : by_one_rank(whole, call); });
            const Reals wanted = ranks.deal(lattice, of_one, call.reals);
            for (const Precision p : {Precision::double_, Precision::single})
                time(call, p, box, wanted);
        }
    }

  private:
    enum class What { hisq, asqtad, gauge, update };
    struct Call {
        What what;
        int terms;
        std::string name; // name of the kernels' row
        size_t reals;     // reals per site of the changed field
    };
    struct Fields {
        Reals links, direction;
        std::vector<Reals> x;
    };
    // A gauge handle with its fields on the host.
    template <class Real> struct Handle {
        std::vector<Real> links, momenta;
        milcgpu_gauge *gauge = nullptr;
        Handle(milcgpu_context *context, const Fields &fields, bool at_rest)
            : links(fields.links.begin(), fields.links.end()), momenta(fields.direction.size()) {
            if (!at_rest)
                std::copy(fields.direction.begin(), fields.direction.end(), momenta.begin());
            must(milcgpu_gauge_create(context, sizeof(Real) == 4 ? MILCGPU_SINGLE : MILCGPU_DOUBLE, &gauge));
        }
        ~Handle() { milcgpu_gauge_destroy(gauge); }
        Handle(const Handle &) = delete;
    };
    static void must(milcgpu_status status) {
        if (status != MILCGPU_OK)
            throw std::runtime_error(milcgpu_last_error());
    }

    // `runs` calls from the same momenta and links, each between before() and after(report). Returns the last result.
    template <class Real, class Before, class After>
    static Reals results(milcgpu_context *context, const Fields &fields, const Call &call, int runs,
                         const Before &before, const After &after) {
        Handle<Real> handle(context, fields, call.what != What::update);
        milcgpu_fatlink_spec links;
        call.what == What::hisq ? milcgpu_hisq_defaults(&links, sizeof links)
                                : milcgpu_asqtad_defaults(0.87, &links, sizeof links);
        const Reals residues = Forces::residues(call.terms);
        milcgpu_force_spec spec;
        milcgpu_force_defaults(&spec, sizeof spec);
        spec.links = &links, spec.eps = 1, spec.n_terms = call.terms, spec.residues = residues.data();
        std::vector<Reals> x(fields.x.begin(), fields.x.begin() + call.terms);
        std::vector<milcgpu_field> x_fields;
        for (Reals &one : x)
            x_fields.push_back(field_of(one));
        const milcgpu_field u = field_of(handle.links), h = field_of(handle.momenta);
        const milcgpu_loops loops{1, -0.0418, 0.000515, 0};
        for (int run = 0; run < runs; ++run) {
            must(milcgpu_gauge_load(handle.gauge, &u, 0));
            must(milcgpu_momenta_load(handle.gauge, &h));
            milcgpu_force_report report{};
            report.struct_size = sizeof report;
            before();
            must(call.what == What::update ? milcgpu_gauge_update(handle.gauge, 1e-3, 8, &report)
                 : call.what == What::gauge
                     ? milcgpu_momenta_add_gauge_force(handle.gauge, &loops, 3, 1, &report)
                     : milcgpu_momenta_add_fermion_force(handle.gauge, &spec, x_fields.data(), &report));
            after(report);
        }
        must(call.what == What::update ? milcgpu_gauge_save(handle.gauge, &u) : milcgpu_momenta_save(handle.gauge, &h));
        const std::vector<Real> &made = call.what == What::update ? handle.links : handle.momenta;
        return {made.begin(), made.end()};
    }
    Reals by_one_rank(const Fields &whole, const Call &call) const {
        int backend = MILCGPU_HOST;
        must(milcgpu_context_backend(&bench_.context(), &backend));
        const milcgpu_layout layout = layout_on_grid(bench_.system.lattice.n, {1, 1, 1, 1}, 0);
        milcgpu_options options = options_for(backend);
        options.verbosity = 0;
        milcgpu_context *context = nullptr;
        must(milcgpu_context_create(&layout, &options, &context));
        const std::unique_ptr<milcgpu_context, void (*)(milcgpu_context *)> closed(context, milcgpu_context_destroy);
        return results<double>(
            context, whole, call, 1, [] {}, [](const milcgpu_force_report &) {});
    }
    void time(const Call &call, Precision p, const Fields &box, const Reals &wanted) const {
        const Job &ranks = bench_.ranks;
        std::vector<double> seconds;
        double flops = 0;
        const auto before = [&] { ranks.together(); };
        const auto after = [&](const milcgpu_force_report &report) {
            seconds.push_back(ranks.slowest(report.kernel_seconds));
            flops = ranks.sum(report.flops);
        };
        const int runs = bench_.on_gpu() ? 5 : 1;
        const Reals got = p == Precision::double_ ? results<double>(&bench_.context(), box, call, runs, before, after)
                                                  : results<float>(&bench_.context(), box, call, runs, before, after);
        std::sort(seconds.begin(), seconds.end());
        const double momenta = 8 * link_bytes(p, momentum_reals), links = 4 * link_bytes(p, 18),
                     bytes = call.what == What::update ? 2 * links + momenta / 2
                                                       : links + momenta + call.terms * spinor_bytes(p);
        bench_.table.row({"forces", call.name + " call", name(p)},
                         {seconds[seconds.size() / 2], flops, bytes * bench_.system.lattice.volume()},
                         difference(ranks, got, wanted, got.size()),
                         times_measured * (p == Precision::double_ ? 1e-15 : 5e-7));
    }

    const Bench &bench_;
    const Forces *kernels_;
};

} // namespace

void bench_forces(const Bench &bench) {
    std::optional<Forces> kernels;
    if (!bench.context().geometry.is_cut()) {
        kernels.emplace(bench);
        kernels->run();
    }
    ForceCalls(bench, kernels ? &*kernels : nullptr).run();
}

} // namespace examples
