// Molecular dynamics by MILC's own GPU switches (milc_glue/quda_compat/forces.cpp), against tests/reference. Other
// tests run the tests marked "alone" in their own program.
#include "milc_glue/api/milcgpu.h"
#include "milc_glue/quda_compat/quda.h"
#include "milc_glue/routines/state.h"
#include "tests/quda_support.h"
#include "tests/reference/flow.h"
#include "tests/reference/forces.h"
#include "tests/reference/gauge_fix.h"
#include "tests/reference/gauge_force.h"
#include <algorithm>
#include <cstring>

using namespace tests;
using reference::Fermion;
using reference::Gauge;

namespace {

const reference::Lattice lattice{{4, 2, 4, 2}};
// Absolute: the sum is about 4 a link less 4 a link.
template <class Real> constexpr double action_error = sizeof(Real) == 8 ? 1e-11 : 1e-4;
constexpr double loop_coefficients[3] = {1, -0.06, -0.02};

std::vector<double> milc_momenta(const Gauge &h) { return reference::momenta_to_milc(lattice, h); }

// Terms in sets of eps_naik, and their force by the reference, level by level.
struct Force {
    double dt = 0.03;
    std::vector<double> residues = {0.7, -0.2, 1.3, 0.4}, eps = {0, -0.2, 0.1, 0.1};
    std::vector<Fermion> x;
    reference::PathCoefficients fat7 = reference::hisq_fat7_coefficients(),
                                level2 = reference::hisq_asqtad_coefficients();

    Force() {
        for (size_t t = 0; t < residues.size(); ++t)
            x.push_back(random_fermion(lattice, 20 + t));
    }
    Gauge of(const Gauge &u) const {
        const Gauge v = reference::fat_links(lattice, u, fat7);
        Gauge w = v, by_v = v;
        for (auto &link : w)
            link = reference::unitary_part(link);
        const auto pulled = [&](const Gauge &links, auto paths, const reference::PathCoefficients &c, int hops,
                                const std::vector<double> &weights) {
            return reference::path_derivative(lattice, links, paths, c,
                                              reference::outer_products(lattice, x, weights, hops));
        };
        std::vector<double> with_eps;
        for (size_t t = 0; t < x.size(); ++t)
            with_eps.push_back(eps[t] * residues[t]);
        const reference::PathCoefficients one{1. / 8, 0, 0, 0, 0, 0}, naik{0, -1. / 24, 0, 0, 0, 0};
        const Gauge parts[4] = {
            pulled(w, reference::fat_paths, level2, 1, residues), pulled(w, reference::long_path, level2, 3, residues),
            pulled(w, reference::fat_paths, one, 1, with_eps), pulled(w, reference::long_path, naik, 3, with_eps)};
        for (size_t k = 0; k < v.size(); ++k)
            by_v[k] =
                reference::unitary_part_derivative(v[k], parts[0][k] + parts[1][k] + parts[2][k] + parts[3][k], 0);
        Gauge h = reference::path_derivative(lattice, u, reference::fat_paths, fat7, by_v);
        for (size_t k = 0; k < h.size(); ++k)
            h[k] = (2 * dt) * reference::traceless_antihermitian(u[k] * reference::adjoint(h[k]));
        return h;
    }
};

Gauge with_phases(Gauge u) {
    reference::apply_phases(lattice, u);
    return u;
}

Gauge sum(Gauge a, const Gauge &b) {
    for (size_t k = 0; k < a.size(); ++k)
        a[k] = a[k] + b[k];
    return a;
}

Gauge after_gauge_force(const Gauge &plain, const Gauge &h, double eb3) {
    const std::vector<reference::Loops> loops = {{loop_coefficients[0], reference::plaquettes()},
                                                 {loop_coefficients[1], reference::rectangles()},
                                                 {loop_coefficients[2], reference::bent_rectangles()}};
    return reference::add_gauge_force(lattice, plain, loops, eb3, h);
}

// A MILC with its sites.
template <class Real> struct Program {
    static constexpr int precision = sizeof(Real) / 4;
    Gauge u = reference::near_unit_gauge(lattice, 0.3, 11), h = reference::random_momenta(lattice, 12); // phases out
    std::vector<Site<Real>> sites{size_t(lattice.volume())};
    QudaMILCSiteArg_t arg = site_argument(sites.data());

    Program() {
        setenv("MILCGPU_VERBOSE", "0", 1);
        const int size[4] = {lattice.n[0], lattice.n[1], lattice.n[2], lattice.n[3]}, ranks[4] = {1, 1, 1, 1};
        std::memset(static_cast<void *>(sites.data()), 7, sites.size() * sizeof sites[0]);
        qudaInit({QUDA_SILENT, {size, ranks, 0}});
        put_links(with_phases(u));
        put_momenta(h);
    }
    void put_links(const Gauge &links) {
        const auto milc = reference::links_to_milc<Real>(lattice, links);
        for (size_t i = 0; i < sites.size(); ++i)
            std::memcpy(sites[i].link, &milc[72 * i], sizeof sites[i].link);
    }
    void put_momenta(const Gauge &momenta) {
        const auto milc = milc_momenta(momenta);
        for (size_t i = 0; i < sites.size(); ++i)
            std::copy_n(&milc[40 * i], 40, sites[i].mom[0]);
    }
    std::vector<Real> links() const {
        std::vector<Real> all;
        for (const auto &site : sites)
            all.insert(all.end(), site.link[0], site.link[0] + 72);
        return all;
    }
    std::vector<Real> momenta() const {
        std::vector<Real> all;
        for (const auto &site : sites)
            all.insert(all.end(), site.mom[0], site.mom[0] + 40);
        return all;
    }
    // The largest difference relative to the right values.
    static double off(const std::vector<Real> &a, const std::vector<double> &truth) {
        double dd = 0, tt = 0;
        for (size_t i = 0; i < truth.size(); ++i) {
            dd += std::pow(a[i] - truth[i], 2);
            tt += truth[i] * truth[i];
        }
        return std::sqrt(dd / tt);
    }
    double links_off(const Gauge &truth) const {
        return off(links(), reference::links_to_milc<double>(lattice, truth));
    }
    double momenta_off(const Gauge &truth) const { return off(momenta(), milc_momenta(truth)); }
    bool only(const std::vector<Site<Real>> &before, bool links_may, bool momenta_may) const {
        auto now = sites;
        for (size_t i = 0; i < sites.size(); ++i) {
            if (links_may)
                std::memcpy(now[i].link, before[i].link, sizeof now[i].link);
            if (momenta_may)
                std::memcpy(now[i].mom, before[i].mom, sizeof now[i].mom);
        }
        return std::memcmp(now.data(), before.data(), sites.size() * sizeof now[0]) == 0;
    }
    void gauge_force(double eb3, int phase_in = 1) {
        double c[3] = {loop_coefficients[0], loop_coefficients[1], loop_coefficients[2]};
        qudaGaugeForcePhased(precision, 3, c, eb3, &arg, phase_in);
    }
    // As MILC passes the arguments: rows of coefficients, packed links.
    std::vector<Real> fermion_force(const Force &f, double naik_row = 1) {
        std::vector<std::vector<double>> rows;
        std::vector<std::vector<Real>> fields;
        std::vector<double *> coeff;
        std::vector<void *> x;
        int naik_terms = 0;
        for (size_t t = 0; t < f.x.size(); ++t) {
            rows.push_back({Real(2 * f.residues[t]), Real(f.level2.naik * 2 * f.residues[t])});
            fields.push_back(reference::vector_to_milc<Real>(lattice, f.x[t]));
        }
        for (size_t t = 0; t < f.x.size(); ++t)
            if (f.eps[t] != 0) {
                rows.push_back(
                    {Real(f.eps[t] / 8 * 2 * f.residues[t]), Real(naik_row * -f.eps[t] / 24 * 2 * f.residues[t])});
                ++naik_terms;
            }
        for (auto &row : rows)
            coeff.push_back(row.data());
        for (auto &field : fields)
            x.push_back(field.data());
        const auto six = [](const reference::PathCoefficients &c) {
            return std::array<double, 6>{c.one_link, c.naik, c.three_staple, c.five_staple, c.seven_staple, c.lepage};
        };
        auto packed = links();
        std::vector<Real> momentum(40 * sites.size(), Real(-7));
        qudaHisqParamsInit({1, 0, 1e-8, 1e-8, 5e-5});
        qudaHisqForce(precision, int(f.x.size()), naik_terms, f.dt, coeff.data(), x.data(), six(f.level2).data(),
                      six(f.fat7).data(), nullptr, nullptr, packed.data(), momentum.data());
        return momentum;
    }
    bool all_nan(const std::vector<Real> &field) const {
        return std::all_of(field.begin(), field.end(), [](Real r) { return std::isnan(r); });
    }
};

// Bytes to the device so far, in units of 8 reals a site: links are 9, momenta 5; fractions are dropped.
template <class Real> uint64_t moved(milcgpu_routine routine) {
    return milcgpu::plugin().ledger[routine].to_device / (8 * sizeof(Real) * lattice.volume());
}

// force_tolerance is larger, because the derivative of the unitary part loses digits.
template <class Real> void without_residency(double tolerance, double force_tolerance) {
    Program<Real> p;
    const Force f;
    auto before = p.sites;

    p.gauge_force(0.02);
    const Gauge h1 = after_gauge_force(p.u, p.h, 0.02);
    CHECK(p.momenta_off(h1) <= tolerance);
    CHECK(p.only(before, false, true));

    before = p.sites;
    CHECK(Program<Real>::off(p.fermion_force(f), milc_momenta(f.of(with_phases(p.u)))) <= force_tolerance);
    CHECK(p.only(before, false, false));

    // The device has these links and momenta: only what MILC changed is copied.
    const uint64_t at_first = moved<Real>(MILCGPU_UPDATE_U);
    qudaUpdateUPhased(p.precision, 0.1, &p.arg, 1); // the force above had its own momenta
    const uint64_t of_momenta = moved<Real>(MILCGPU_UPDATE_U) - at_first;
    CHECK(of_momenta == 5);
    Gauge u = reference::update_links(p.u, h1, 0.1, 8);
    CHECK(p.links_off(with_phases(u)) <= tolerance);
    CHECK(p.only(before, true, false));
    qudaUpdateUPhasedPipeline(p.precision, -0.05, &p.arg, 1, 1);
    u = reference::update_links(u, h1, -0.05, 8);
    CHECK(p.links_off(with_phases(u)) <= tolerance);
    CHECK(moved<Real>(MILCGPU_UPDATE_U) == at_first + of_momenta);
    const double fat7[6] = {f.fat7.one_link,    f.fat7.naik,         f.fat7.three_staple,
                            f.fat7.five_staple, f.fat7.seven_staple, f.fat7.lepage};
    auto packed = p.links();
    std::vector<Real> v(packed.size()), w(packed.size());
    for (const double change : {1.0, 1.5}) { // one changed number makes other links
        packed[3] *= Real(change);
        const uint64_t links_moved = moved<Real>(MILCGPU_HISQ_LINKS);
        qudaLoadUnitarizedLink(p.precision, {1}, fat7, packed.data(), v.data(), w.data());
        CHECK((moved<Real>(MILCGPU_HISQ_LINKS) > links_moved) == (change != 1));
        const Gauge wanted = reference::fat_links(
            lattice, reference::links_from_milc<double>(lattice, {packed.begin(), packed.end()}), f.fat7);
        CHECK(Program<Real>::off(v, reference::links_to_milc<double>(lattice, wanted)) <= tolerance);
    }

    // MILC changes both.
    p.put_links(with_phases(p.u));
    p.put_momenta(p.h);
    qudaUpdateUPhased(p.precision, 0.1, &p.arg, 1);
    CHECK(p.links_off(with_phases(reference::update_links(p.u, p.h, 0.1, 8))) <= tolerance);
    CHECK(moved<Real>(MILCGPU_UPDATE_U) == at_first + of_momenta + 14);

    // Links without phases.
    p.put_links(p.u);
    p.gauge_force(0.02, 0);
    CHECK(p.momenta_off(h1) <= tolerance);
    CHECK(std::fabs(qudaMomAction(p.precision, &p.arg) - reference::momentum_action(h1)) < action_error<Real>);

    // For an action or rows that are not built, no output looks like a result.
    double c[4] = {1, 1, 1, 1};
    qudaGaugeForcePhased(p.precision, 4, c, 0.02, &p.arg, 1);
    CHECK(p.all_nan(p.momenta()));
    CHECK(p.all_nan(p.fermion_force(f, std::nan(""))));
    qudaMomSave(p.precision, &p.arg); // the library has none: the momenta in the sites stay
    CHECK(p.all_nan(p.momenta()));
}

template <class Real> void reunitarize(double tolerance) {
    Program<Real> p;
    auto bent = with_phases(p.u);
    for (auto &link : bent)
        for (int j = 0; j < 3; ++j) {
            link.e[0][j] *= 1 + 1e-5;
            link.e[1][j] *= 1 - 2e-5;
            link.e[2][j] *= 1 + 3e-5;
        }
    p.put_links(bent);
    const auto before = p.sites;
    qudaUnitarizeSU3Phased(p.precision, 1e-4, &p.arg, 1);
    CHECK(p.links_off(with_phases(p.u)) <= tolerance);
    CHECK(p.only(before, true, false));
    p.put_links(bent); // all farther from SU(3) than this limit
    qudaUnitarizeSU3Phased(p.precision, 1e-6, &p.arg, 1);
    CHECK(p.all_nan(p.links()));
    auto one_bad = with_phases(p.u);
    one_bad[5] = 1.1 * one_bad[5];
    p.put_links(one_bad);
    qudaUnitarizeSU3Phased(p.precision, 1e-4, &p.arg, 1);
    CHECK(p.links_off(one_bad) <= tolerance);
    qudaUnitarizeSU3Phased(p.precision, 1e-4, &p.arg, 0);
    CHECK(p.all_nan(p.links()));
}

template <class Real> void gauge_fixing(double tolerance) {
    Program<Real> p;
    p.put_links(p.u); // MILC removes the phases first
    const auto before = p.sites;
    for (const unsigned gauge : {3u, 4u}) {
        p.sites = before;
        Gauge wanted = p.u;
        for (int step = 0; step < 4; ++step)
            reference::gauge_fix_step(lattice, wanted, gauge == 3 ? 3 : 8, 1.8);
        for (auto &u : wanted)
            u = reference::reunitarize(u);
        qudaGaugeFixingOVR(p.precision, gauge, 4, 20, 1.8, 0, 20, 0, &p.arg);
        CHECK(p.links_off(wanted) <= tolerance);
        CHECK(p.only(before, true, false));
    }
    p.sites = before;
    qudaGaugeFixingOVR(p.precision, 5, 4, 20, 1.8, 0, 20, 0, &p.arg); // no such gauge
    qudaGaugeFixingOVR(p.precision, 3, 0, 20, 1.8, 0, 20, 0, &p.arg);
    qudaGaugeFixingOVR(p.precision, 3, 4, 20, 1.8, 0, 20, 0, nullptr);
    CHECK(p.only(before, false, false));
    qudaGaugeFixingOVR(p.precision, 3, 4, 20, 0.1, 0, 20, 0, &p.arg); // a boost below 1
    CHECK(p.all_nan(p.links()));
}

template <class Real> void flow(double tolerance) {
    Program<Real> p;
    const auto start = reference::links_to_milc<Real>(lattice, p.u);
    auto links = start;
    QudaGaugeParam of_links = newQudaGaugeParam();
    of_links.cpu_prec = p.precision == 1 ? QUDA_SINGLE_PRECISION : QUDA_DOUBLE_PRECISION;
    QudaGaugeSmearParam flow = newQudaGaugeSmearParam();
    flow.n_steps = 3, flow.epsilon = 0.05, flow.meas_interval = 2;
    std::vector<QudaGaugeObservableParam> seen(3, newQudaGaugeObservableParam());
    const auto refused = [&] {
        seen[0].qcharge = 7;
        performWFlowQuda(&flow, seen.data());
        return seen[0].qcharge == 7 && links == start;
    };
    flow.smear_type = QUDA_GAUGE_SMEAR_WILSON_FLOW;
    CHECK(refused()); // no links yet
    loadGaugeQuda(links.data(), &of_links);
    flow.smear_type = 0;
    CHECK(refused());
    flow.smear_type = QUDA_GAUGE_SMEAR_WILSON_FLOW, flow.epsilon = 0;
    CHECK(refused());
    flow.epsilon = 0.05, flow.meas_interval = 0;
    CHECK(refused());
    flow.meas_interval = 2, flow.n_steps = unsigned(-16); // MILC's automatic stop
    CHECK(refused());
    flow.n_steps = 3;
    performWFlowQuda(nullptr, seen.data()), performWFlowQuda(&flow, nullptr);
    CHECK(links == start);
    for (const bool wilson : {true, false}) {
        flow.smear_type = wilson ? QUDA_GAUGE_SMEAR_WILSON_FLOW : QUDA_GAUGE_SMEAR_SYMANZIK_FLOW;
        links = start;
        performWFlowQuda(&flow, seen.data());
        Gauge wanted = p.u;
        for (int step = 0;; ++step) {
            if (step != 1) {
                const reference::FlowObservables o = reference::flow_observables(lattice, wanted);
                const QudaGaugeObservableParam &of = seen[(step + 1) / 2];
                constexpr double error = sizeof(Real) == 8 ? 1e-12 : 1e-5;
                CHECK(std::fabs(of.plaquette[0] - (o.plaquette_s + o.plaquette_t) / 6) < error);
                CHECK(std::fabs(of.plaquette[1] - o.plaquette_s / 3) < error);
                CHECK(std::fabs(of.energy[2] - o.clover_t) < error * o.clover_t);
                CHECK(std::fabs(of.qcharge - o.charge) < error);
            }
            if (step == 3)
                break;
            wanted = reference::luescher_step(lattice, wanted,
                                              wilson ? reference::wilson_flow() : reference::symanzik_flow(), 0.05);
        }
        CHECK(p.off(links, reference::links_to_milc<double>(lattice, wanted)) <= tolerance);
        // The other integrator is closer to a flow with small steps.
        const auto coarse = links;
        Gauge fine = p.u;
        for (int step = 0; step < 12; ++step)
            fine = reference::luescher_step(lattice, fine,
                                            wilson ? reference::wilson_flow() : reference::symanzik_flow(), 0.0125);
        const auto truth = reference::links_to_milc<double>(lattice, fine);
        links = start;
        performWFlowFourthOrderQuda(&flow, seen.data());
        CHECK(p.off(links, truth) < 0.3 * p.off(coarse, truth));
    }
}

template <class Real> void with_residency(double tolerance) {
    Program<Real> p;
    const Force f;
    qudaMomLoad(p.precision, &p.arg);
    CHECK(std::fabs(qudaMomAction(p.precision, &p.arg) - reference::momentum_action(p.h)) < action_error<Real>);
    for (auto &site : p.sites)
        std::fill_n(site.mom[0], 40, Real(NAN)); // MILC may leave NaN in its buffer
    auto before = p.sites;
    p.gauge_force(0.02);
    const auto buffer = p.fermion_force(f);
    CHECK(std::all_of(buffer.begin(), buffer.end(), [](Real r) { return r == -7; }));
    CHECK(p.only(before, false, false));
    const Gauge h = sum(after_gauge_force(p.u, p.h, 0.02), f.of(with_phases(p.u)));
    const uint64_t at_first = moved<Real>(MILCGPU_UPDATE_U);
    qudaUpdateUPhased(p.precision, 0.1, &p.arg, 1);
    CHECK(moved<Real>(MILCGPU_UPDATE_U) == at_first);
    CHECK(p.links_off(with_phases(reference::update_links(p.u, h, 0.1, 8))) <= tolerance);
    CHECK(p.only(before, true, false));
    CHECK(std::fabs(qudaMomAction(p.precision, &p.arg) - reference::momentum_action(h)) < action_error<Real>);
    qudaMomSave(p.precision, &p.arg);
    CHECK(p.momenta_off(h) <= tolerance);
    CHECK(p.only(before, true, true));

    // The momenta lack a force that is not built, so nothing may be computed from them.
    double c[4] = {1, 1, 1, 1};
    qudaGaugeForcePhased(p.precision, 4, c, 0.02, &p.arg, 1);
    CHECK(std::isnan(qudaMomAction(p.precision, &p.arg)));
    qudaUpdateUPhased(p.precision, 0.1, &p.arg, 1);
    CHECK(p.all_nan(p.links()));
    qudaMomSave(p.precision, &p.arg);
    CHECK(p.all_nan(p.momenta()));

    p.put_momenta(p.h); // the next trajectory
    qudaMomLoad(p.precision, &p.arg);
    p.put_links(with_phases(p.u));
    qudaUpdateUPhased(p.precision, 0.1, &p.arg, 1);
    CHECK(p.links_off(with_phases(reference::update_links(p.u, p.h, 0.1, 8))) <= tolerance);
}

template <class Real> void loops(double tolerance) {
    Program<Real> p;
    // Closed loops, contractible or around the lattice, and one that goes back along its own link.
    std::vector<reference::Path> paths = {{0, 1, 7, 6}, {3, 2, 2, 4, 5, 5}, {0, 1, 3, 7, 6, 4}, {3, 3}, {1, 1}, {2, 5}};
    std::vector<int *> steps;
    std::vector<int> lengths;
    for (auto &path : paths) {
        steps.push_back(path.data());
        lengths.push_back(static_cast<int>(path.size()));
    }
    const int n = static_cast<int>(paths.size());
    std::vector<double> coefficients = {1, -0.5, 2, 1, 1, 1}, traces(2 * n);
    for (const int phase_in : {1, 0}) {
        p.put_links(phase_in != 0 ? with_phases(p.u) : p.u);
        double plaq[3], ploop[2], plaq_alone[3], ploop_alone[2];
        qudaGaugeMeasurementsPhased(p.precision, plaq, ploop, 3, traces.data(), steps.data(), lengths.data(),
                                    coefficients.data(), n, 6, 1.0 / lattice.volume(), &p.arg, phase_in);
        for (int k = 0; k < n; ++k) {
            reference::Complex wanted = 0;
            for (int site = 0; site < lattice.volume(); ++site) {
                const auto m = reference::along_path(lattice, p.u, site, paths[k]);
                wanted += (m.e[0][0] + m.e[1][1] + m.e[2][2]) * (coefficients[k] / lattice.volume());
            }
            CAPTURE(k, phase_in);
            CHECK(std::abs(reference::Complex(traces[2 * k], traces[2 * k + 1]) - wanted) <= tolerance);
        }
        qudaPlaquettePhased(p.precision, plaq_alone, &p.arg, phase_in);
        qudaPolyakovLoopPhased(p.precision, ploop_alone, 3, &p.arg, phase_in);
        CHECK(std::equal(plaq, plaq + 3, plaq_alone));
        CHECK(std::equal(ploop, ploop + 2, ploop_alone));
    }
    paths[1][0] = 8;
    qudaGaugeLoopTracePhased(p.precision, traces.data(), steps.data(), lengths.data(), coefficients.data(), n, 6, 1,
                             &p.arg, 1);
    CHECK(std::isnan(traces[0]));
}

// The device is lost in the middle of a trajectory.
struct Loss : Program<double> {
    Gauge wanted = after_gauge_force(u, after_gauge_force(u, h, 0.02), 0.03);
    explicit Loss(bool resident) {
        if (resident)
            qudaMomLoad(2, &arg);
        gauge_force(0.02);
        milcgpu_plugin_inject_fault(MILCGPU_FAULT_DEVICE_LOST);
        gauge_force(0.03);
    }
};

} // namespace

TEST_CASE("quda_compat: forces, updates and momenta in the sites are right", "[quda][sanitize][quda_sites]") {
    in_each_precision("'[quda_sites]'", [](auto real) {
        without_residency<decltype(real)>(times_measured * (sizeof real == 8 ? 3e-16 : 8e-8),
                                          times_measured * (sizeof real == 8 ? 2.5e-14 : 3e-7));
    });
}

TEST_CASE("quda_compat: reunitarization brings links back to SU(3)", "[quda][sanitize][quda_unitarize]") {
    in_each_precision("'[quda_unitarize]'", [](auto real) {
        reunitarize<decltype(real)>(times_measured * (sizeof real == 8 ? 2e-16 : 3e-8));
    });
}

TEST_CASE("quda_compat: momenta stay with the library after qudaMomLoad", "[quda][sanitize][quda_resident]") {
    in_each_precision("'[quda_resident]'", [](auto real) {
        with_residency<decltype(real)>(times_measured * (sizeof real == 8 ? 4e-15 : 6e-8));
    });
}

TEST_CASE("quda_compat: gauge fixing is right", "[quda][measurements][quda_gauge]") {
    in_each_precision("'[quda_gauge]'", [](auto real) {
        gauge_fixing<decltype(real)>(times_measured * (sizeof real == 8 ? 5e-16 : 3e-7));
    });
}

TEST_CASE("quda_compat: gradient flow is right", "[quda][measurements][quda_flow]") {
    in_each_precision("'[quda_flow]'",
                      [](auto real) { flow<decltype(real)>(times_measured * (sizeof real == 8 ? 5e-16 : 3e-7)); });
}

TEST_CASE("quda_compat: traces of loops are right", "[quda][sanitize][quda_loops]") {
    in_each_precision("'[quda_loops]'",
                      [](auto real) { loops<decltype(real)>(times_measured * (sizeof real == 8 ? 2e-15 : 5e-8)); });
}

TEST_CASE("quda_compat: a lost device takes momenta that only it had, and no others", "[quda][faults]") {
    CHECK(alone("'[quda_lost_sites]'") == 0);
    CHECK(alone("'[quda_lost_resident]'") == 0);
    setenv("MILCGPU_TEST", "copy_back", 1); // copies the momenta after every force
    CHECK(alone("'[quda_lost_copied]'") == 0);
    unsetenv("MILCGPU_TEST");
}
TEST_CASE("quda_compat alone: device lost, momenta in the sites", "[.][quda_lost_sites]") {
    Loss p(false);
    CHECK(p.momenta_off(p.wanted) <= times_measured * 1e-16);
}
TEST_CASE("quda_compat alone: device lost, momenta copied after every force", "[.][quda_lost_copied]") {
    Loss p(true);
    qudaMomSave(2, &p.arg);
    CHECK(p.momenta_off(p.wanted) <= times_measured * 1e-16);
}
TEST_CASE("quda_compat alone: device lost, momenta on it", "[.][quda_lost_resident]") {
    Loss p(true);
    CHECK(std::isnan(qudaMomAction(2, &p.arg)));
    qudaUpdateUPhased(2, 0.1, &p.arg, 1);
    CHECK(p.all_nan(p.links()));
    qudaMomSave(2, &p.arg);
    CHECK(p.all_nan(p.momenta()));
}
