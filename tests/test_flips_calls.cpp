// Bits that flip in device memory at any launch or copy of any call: what a call hands over as right is right, or the
// bit lay where the headers say that nothing is checked.
#include "milc_glue/api/context.h"
#include "milc_glue/api/milcgpu_dirac.h"
#include "milc_glue/api/milcgpu_flow.h"
#include "milc_glue/api/milcgpu_gauge.h"
#include "milc_glue/api/milcgpu_laplace.h"
#include "milc_glue/api/milcgpu_mesons.h"
#include "milc_glue/api/milcgpu_wilson.h"
#include "tests/support.h"
#include <cstdlib>
#include <map>

using namespace tests;

namespace {

using Reals = std::vector<double>;

constexpr double mass = 0.3, loosest = 1e-3;

// What a call works on, made anew for each bit, and what it hands over.
struct Calls {
    reference::Lattice lattice;
    Session<double> session;
    milcgpu_gauge *gauge = nullptr, *copy = nullptr;
    milcgpu_meson_links *meson_links = nullptr;
    milcgpu_wilson *wilson = nullptr;
    milcgpu_links *zero = nullptr, *derivative = nullptr; // by eps_naik
    const AsqtadLinks made;
    Reals u, bare, h, fat, lng;
    std::vector<Reals> x;
    milcgpu_fatlink_spec hisq{}, asqtad{};
    const milcgpu_loops loops{1, -0.04, 0.0005, 0};

    Calls(const reference::Lattice &on, milcgpu::Backend backend)
        : lattice(on), session(on, backend, 0, 0), made(asqtad_links(lattice, 13)) {
        reference::Gauge links = reference::near_unit_gauge(lattice, 0.3, 11);
        bare = reference::links_to_milc<double>(lattice, links);
        reference::apply_phases(lattice, links);
        u = reference::links_to_milc<double>(lattice, links);
        reference::Rng rng(12);
        h.resize(40 * size_t(lattice.volume()));
        for (size_t k = 0; k < h.size(); ++k)
            h[k] = k % 10 == 9 ? 0 : reference::uniform(rng) - 0.5;
        fat = reference::links_to_milc<double>(lattice, made.fat);
        lng = reference::links_to_milc<double>(lattice, made.lng);
        for (int k = 0; k < 6; ++k)
            x.push_back(reference::vector_to_milc<double>(lattice, random_fermion(lattice, 20 + k)));
        milcgpu_hisq_defaults(&hisq, sizeof hisq);
        milcgpu_asqtad_defaults(0.9, &asqtad, sizeof asqtad);
    }
    ~Calls() {
        milcgpu_gauge_destroy(gauge), milcgpu_gauge_destroy(copy);
        milcgpu_meson_links_destroy(meson_links);
        milcgpu_wilson_destroy(wilson);
        milcgpu_links_destroy(zero), milcgpu_links_destroy(derivative);
    }
    static milcgpu_field field(Reals &data) { return Session<double>::field(data); }
    void must(milcgpu_status status) const {
        CAPTURE(milcgpu_last_error());
        REQUIRE(status == MILCGPU_OK);
    }
    // Handles with content, before the call that is looked at.
    void with_gauge() {
        must(milcgpu_gauge_create(session.context, MILCGPU_DOUBLE, &gauge));
        must(load());
    }
    milcgpu_status load() {
        const milcgpu_field f = field(u), p = field(h);
        const milcgpu_status status = milcgpu_gauge_load(gauge, &f, 0);
        return status != MILCGPU_OK ? status : milcgpu_momenta_load(gauge, &p);
    }
    milcgpu_status load_links() {
        const milcgpu_field f = field(fat), l = field(lng);
        return milcgpu_links_create(session.context, &f, &l, &session.links);
    }
    milcgpu_status load_meson_links() {
        const milcgpu_field f = field(bare);
        const milcgpu_meson_links_spec spec{sizeof spec, 1, MILCGPU_SIGNS_OUT, {}};
        return milcgpu_meson_links_load(meson_links, &spec, &f);
    }
    void with_meson_links() {
        must(milcgpu_meson_links_create(session.context, MILCGPU_DOUBLE, &meson_links));
        must(load_meson_links());
    }
    milcgpu_status load_wilson() {
        const milcgpu_field f = field(bare);
        return milcgpu_wilson_load(wilson, &f);
    }
    void with_wilson() {
        must(milcgpu_wilson_create(session.context, &wilson));
        must(load_wilson());
    }
    // |b - A x| / |b| on even sites by the reference, of the first source.
    double residual(const Reals &solution) const {
        const auto b = reference::vector_from_milc<double>(lattice, x[0]);
        const auto ax = reference::normal_operator(lattice, made.fat, made.lng, mass, 0,
                                                   reference::vector_from_milc<double>(lattice, solution));
        double rr = 0, bb = 0;
        for (int s = 0; s < lattice.volume(); ++s)
            if (lattice.parity(s) == 0)
                rr += reference::norm2(b[s] - ax[s]), bb += reference::norm2(b[s]);
        return std::sqrt(rr / bb);
    }
    // What came out. It is read behind the call, with nothing planted.
    Reals links() {
        Reals out(u.size());
        const milcgpu_field to = field(out);
        return milcgpu_gauge_save(gauge, &to) == MILCGPU_OK ? out : Reals();
    }
    Reals momenta() {
        Reals out(h.size());
        const milcgpu_field to = field(out);
        return milcgpu_momenta_save(gauge, &to) == MILCGPU_OK ? out : Reals();
    }
    milcgpu_status force(const milcgpu_fatlink_spec &links) {
        const double residues[] = {0.7, -0.2};
        const milcgpu_force_set sets[] = {{0, 1}, {-0.2, 1}};
        auto spec = sized<milcgpu_force_spec>();
        spec.links = &links, spec.eps = 0.03, spec.n_terms = 2, spec.residues = residues;
        spec.n_sets = links.hisq ? 2 : 0, spec.sets = sets;
        const milcgpu_field from[] = {field(x[0]), field(x[1])};
        return milcgpu_momenta_add_fermion_force(gauge, &spec, from, nullptr);
    }
    milcgpu_status flow(int integrator, int action) {
        milcgpu_flow_spec spec;
        milcgpu_flow_defaults(&spec, sizeof spec);
        spec.integrator = integrator, spec.action = action, spec.step = 0.02, spec.stop = 0.04;
        return milcgpu_gauge_flow(gauge, &spec, nullptr, nullptr, nullptr);
    }
};

// before: what is there; call: while it runs a bit flips; result: empty where it is not there.
struct Family {
    const char *name;
    std::function<void(Calls &)> before;
    std::function<milcgpu_status(Calls &, Reals &result)> call;
    double rounding; // relative to the largest number of the result
};

milcgpu_status solved(Calls &c, Reals &x, int n, int precise, int sloppy, int together) {
    std::vector<milcgpu_field> from, to;
    std::vector<Reals> made(n, Reals(c.x[0].size(), 0.0));
    std::vector<milcgpu_solve_report> reports(n, sized<milcgpu_solve_report>());
    for (int k = 0; k < n; ++k)
        from.push_back(c.field(c.x[k])), to.push_back(c.field(made[k]));
    const milcgpu_solve_spec spec = solve_spec(mass, precise == MILCGPU_HALF ? loosest : 1e-10, precise, sloppy);
    const milcgpu_status status = n == 1
                                      ? milcgpu_staggered_solve(c.session.links, &spec, &from[0], &to[0], &reports[0])
                                      : milcgpu_staggered_solve_sources(c.session.links, &spec, together, n,
                                                                        from.data(), to.data(), reports.data());
    for (const Reals &one : made)
        x.insert(x.end(), one.begin(), one.end());
    return status;
}

milcgpu_status wilson_solved(Calls &c, Reals &x, milcgpu_wilson_method method, double clover) {
    Reals source(24 * size_t(c.lattice.volume()));
    reference::Rng rng(31);
    for (double &one : source)
        one = reference::uniform(rng) - 0.5;
    x.assign(source.size(), 0.0);
    const milcgpu_wilson_spec spec{sizeof(milcgpu_wilson_spec), 0.11, clover, 0, method};
    milcgpu_solve_spec how = solve_spec(0, 1e-10, MILCGPU_DOUBLE, MILCGPU_SINGLE);
    const milcgpu_field from = c.field(source), to = c.field(x);
    auto report = sized<milcgpu_solve_report>();
    return milcgpu_wilson_solve(c.wilson, &spec, &how, &from, &to, &report);
}

template <class Call> milcgpu_status of_quarks(Calls &c, Reals &out, const Call &call) {
    out = c.x[0];
    const milcgpu_field from = c.field(c.x[0]), to = c.field(out);
    const milcgpu_quarks read{&from, nullptr, 0}, made{&to, nullptr, 0};
    return call(read, made);
}

std::vector<Family> families() {
    const auto gauge = [](Calls &c) { c.with_gauge(); };
    const auto links_loaded = [](Calls &c) { c.must(c.load_links()); };
    const auto meson = [](Calls &c) { c.with_meson_links(); };
    const auto wilson = [](Calls &c) { c.with_wilson(); };
    const auto moved = [](auto call) {
        return [call](Calls &c, Reals &r) {
            const milcgpu_status status = call(c);
            if (status == MILCGPU_OK)
                r = c.links();
            return status;
        };
    };
    const auto pushed = [](auto call) {
        return [call](Calls &c, Reals &r) {
            const milcgpu_status status = call(c);
            if (status == MILCGPU_OK)
                r = c.momenta();
            return status;
        };
    };
    const auto made_links = [](Calls &c, Reals &r, const milcgpu_fatlink_spec &spec, bool resident) {
        r.assign(2 * c.u.size(), 0.0);
        const milcgpu_field from = c.field(c.u), fat{r.data(), MILCGPU_DOUBLE, 0},
                            lng{r.data() + c.u.size(), MILCGPU_DOUBLE, 0};
        milcgpu_fatlink_set set{};
        set.fat = &fat, set.lng = &lng;
        return resident ? milcgpu_gauge_make_links(c.gauge, &spec, &set, 1, nullptr, nullptr)
                        : milcgpu_links_make(c.session.context, &spec, &from, &set, 1, nullptr, nullptr);
    };
    std::vector<Family> all;
    const double exact = 1e-13, as_solved = 1e-8;
    all.push_back({"links loaded, solve", [](Calls &) {},
                   [](Calls &c, Reals &r) {
                       const milcgpu_status status = c.load_links();
                       return status != MILCGPU_OK ? status : solved(c, r, 1, MILCGPU_DOUBLE, MILCGPU_SINGLE, 0);
                   },
                   as_solved});
    all.push_back({"links made, solve", gauge,
                   [](Calls &c, Reals &r) {
                       milcgpu_fatlink_set set{};
                       set.links = &c.session.links;
                       const milcgpu_status status =
                           milcgpu_gauge_make_links(c.gauge, &c.hisq, &set, 1, nullptr, nullptr);
                       return status != MILCGPU_OK ? status : solved(c, r, 1, MILCGPU_DOUBLE, MILCGPU_DOUBLE, 0);
                   },
                   as_solved});
    all.push_back(
        {"links of an eps_naik summed, solve",
         [](Calls &c) {
             const milcgpu_field from = c.field(c.u);
             const milcgpu_fatlink_set sets[] = {{0, nullptr, nullptr, &c.zero}, {0, nullptr, nullptr, &c.derivative}};
             milcgpu_fatlink_spec spec = c.hisq;
             spec.derivative = 1;
             c.must(milcgpu_links_make(c.session.context, &spec, &from, sets, 2, nullptr, nullptr));
         },
         [](Calls &c, Reals &r) {
             const milcgpu_status status = milcgpu_links_add(c.zero, -0.3, c.derivative, &c.session.links);
             return status != MILCGPU_OK ? status : solved(c, r, 1, MILCGPU_DOUBLE, MILCGPU_DOUBLE, 0);
         },
         as_solved});
    all.push_back({"solve in double and half", links_loaded,
                   [](Calls &c, Reals &r) { return solved(c, r, 1, MILCGPU_DOUBLE, MILCGPU_HALF, 0); }, as_solved});
    all.push_back({"solve in half", links_loaded,
                   // Two right solutions of so loose a tolerance differ by more than 5e-3: its residual is looked at.
                   [](Calls &c, Reals &r) {
                       Reals x;
                       const milcgpu_status status = solved(c, x, 1, MILCGPU_HALF, MILCGPU_HALF, 0);
                       r = {std::max(1.0, c.residual(x) / loosest)};
                       return status;
                   },
                   1e-2});
    all.push_back(
        {"six sources in lock-step", links_loaded,
         [](Calls &c, Reals &r) { return solved(c, r, 6, MILCGPU_DOUBLE, MILCGPU_SINGLE, MILCGPU_LOCK_STEP); },
         as_solved});
    all.push_back(
        {"HISQ links", [](Calls &) {}, [=](Calls &c, Reals &r) { return made_links(c, r, c.hisq, false); }, exact});
    all.push_back({"links of three eps_naik, long ones of the first", [](Calls &) {},
                   [](Calls &c, Reals &r) {
                       r.assign(5 * c.u.size(), 0.0);
                       const milcgpu_field from = c.field(c.u);
                       milcgpu_field to[5];
                       for (int k = 0; k < 5; ++k)
                           to[k] = {r.data() + k * c.u.size(), MILCGPU_DOUBLE, 0};
                       const milcgpu_fatlink_set sets[] = {{0, nullptr, &to[0], nullptr},
                                                           {-0.1, &to[1], &to[2], nullptr},
                                                           {0.2, &to[3], &to[4], nullptr}};
                       return milcgpu_links_make(c.session.context, &c.hisq, &from, sets, 3, nullptr, nullptr);
                   },
                   exact});
    all.push_back({"asqtad links of a handle", gauge,
                   [=](Calls &c, Reals &r) { return made_links(c, r, c.asqtad, true); }, exact});
    all.push_back({"gauge field and momenta loaded and saved",
                   [](Calls &c) { c.must(milcgpu_gauge_create(c.session.context, MILCGPU_DOUBLE, &c.gauge)); },
                   [](Calls &c, Reals &r) {
                       milcgpu_status status = c.load();
                       Reals p(c.h.size());
                       r.assign(c.u.size(), 0.0);
                       const milcgpu_field to_u = c.field(r), to_h = c.field(p);
                       if (status == MILCGPU_OK)
                           status = milcgpu_gauge_save(c.gauge, &to_u);
                       if (status == MILCGPU_OK)
                           status = milcgpu_momenta_save(c.gauge, &to_h);
                       r.insert(r.end(), p.begin(), p.end());
                       return status;
                   },
                   exact});
    all.push_back({"HISQ force", gauge, pushed([](Calls &c) { return c.force(c.hisq); }), exact});
    all.push_back({"asqtad force", gauge, pushed([](Calls &c) { return c.force(c.asqtad); }), exact});
    all.push_back(
        {"gauge force", gauge,
         pushed([](Calls &c) { return milcgpu_momenta_add_gauge_force(c.gauge, &c.loops, 5, 0.01, nullptr); }), exact});
    all.push_back(
        {"update", gauge, moved([](Calls &c) { return milcgpu_gauge_update(c.gauge, 0.01, 8, nullptr); }), exact});
    all.push_back({"reunitarization", gauge, moved([](Calls &c) {
                       milcgpu_reunitarize_report report{sizeof report, 0, 0, 0, 0};
                       return milcgpu_gauge_reunitarize(c.gauge, 0, &report);
                   }),
                   exact});
    all.push_back({"actions and loops", gauge,
                   [](Calls &c, Reals &r) {
                       r.assign(8, 0.0);
                       milcgpu_status status = milcgpu_gauge_action(c.gauge, &c.loops, &r[0]);
                       if (status == MILCGPU_OK)
                           status = milcgpu_momenta_action(c.gauge, &r[1]);
                       if (status == MILCGPU_OK)
                           status = milcgpu_gauge_plaquettes(c.gauge, &r[2], &r[3]);
                       if (status == MILCGPU_OK)
                           status = milcgpu_gauge_polyakov_loop(c.gauge, &r[4], &r[5]);
                       const int length = 4, plaquette[4] = {0, 1, 7, 6};
                       if (status == MILCGPU_OK)
                           status = milcgpu_gauge_loop_traces(c.gauge, c.loops.signs, 1, &length, plaquette, &r[6]);
                       return status;
                   },
                   exact});
    all.push_back(
        {"flow", gauge, moved([](Calls &c) { return c.flow(MILCGPU_FLOW_LUSCHER, MILCGPU_FLOW_WILSON); }), exact});
    all.push_back({"Symanzik flow, adaptive", gauge,
                   moved([](Calls &c) { return c.flow(MILCGPU_FLOW_ADAPT_BS, MILCGPU_FLOW_SYMANZIK); }), exact});
    all.push_back({"measurement of the gauge field", gauge,
                   [](Calls &c, Reals &r) {
                       milcgpu_observables o{};
                       const milcgpu_status status = milcgpu_gauge_measure(c.gauge, 0, &o);
                       r = {o.clover_t,    o.clover_s,    o.plaquette_t, o.plaquette_s,
                            o.rectangle_t, o.rectangle_s, o.charge};
                       return status;
                   },
                   exact});
    all.push_back({"stout smearing", gauge, moved([](Calls &c) {
                       const milcgpu_stout_spec spec{sizeof spec, 0.1, 3, 4, 0};
                       return milcgpu_gauge_stout_smear(c.gauge, &spec, nullptr);
                   }),
                   exact});
    all.push_back({"APE smearing", gauge, moved([](Calls &c) {
                       auto spec = sized<milcgpu_ape_spec>();
                       spec.weight = 0.2, spec.times = 2;
                       return milcgpu_gauge_ape_smear(c.gauge, &spec, nullptr, nullptr);
                   }),
                   exact});
    all.push_back({"HYP smearing", gauge, moved([](Calls &c) {
                       const milcgpu_hyp_spec spec{sizeof spec, 0.75, 0.6, 0.3, 1, 4, 0, 0};
                       return milcgpu_gauge_hyp_smear(c.gauge, &spec, nullptr);
                   }),
                   exact});
    all.push_back({"gauge fixing", gauge, moved([](Calls &c) {
                       auto spec = sized<milcgpu_gauge_fix_spec>();
                       spec.direction = 3, spec.most_steps = 3, spec.tolerance = -1;
                       spec.reunitarize_every = 2;
                       return milcgpu_gauge_fix(c.gauge, &spec, nullptr);
                   }),
                   exact});
    all.push_back(
        {"links of a measurement loaded, smearing",
         [](Calls &c) { c.must(milcgpu_meson_links_create(c.session.context, MILCGPU_DOUBLE, &c.meson_links)); },
         [](Calls &c, Reals &r) {
             const milcgpu_status status = c.load_meson_links();
             r = c.x[0];
             const milcgpu_field field = c.field(r);
             const milcgpu_quarks quarks{&field, nullptr, 0};
             return status != MILCGPU_OK ? status
                                         : milcgpu_quarks_gauss_smear(c.meson_links, 2, 0.4, 3, -1, 1, &quarks);
         },
         exact});
    for (const auto &[name, operation] : {std::pair("spin-taste operators", "G5-G5X"), {"four-link operator", "G1-G5"}})
        all.push_back({name, meson,
                       [operation = operation](Calls &c, Reals &r) {
                           return of_quarks(c, r, [&](const milcgpu_quarks &from, const milcgpu_quarks &to) {
                               const int origin[4] = {0, 0, 0, 0};
                               return milcgpu_quarks_spin_taste(
                                   c.meson_links, nullptr, milcgpu_spin_taste_index(operation), origin, 1, &from, &to);
                           });
                       },
                       exact});
    all.push_back({"contraction of quark fields", meson,
                   [](Calls &c, Reals &r) {
                       r.assign(2 * 2 * c.lattice.n[3], 0.0);
                       const milcgpu_field first = c.field(c.x[0]), second = c.field(c.x[1]);
                       const milcgpu_quarks src1{&first, nullptr, 0}, src2{&second, nullptr, 0};
                       const milcgpu_momentum still{{0, 0, 0}, {MILCGPU_EVEN, MILCGPU_EVEN, MILCGPU_EVEN}};
                       const milcgpu_meson_term terms[] = {{milcgpu_spin_taste_index("G5-G5"), 0, 0, 1, 0},
                                                           {milcgpu_spin_taste_index("G5-G5X"), 0, 0, 1, 1}};
                       auto spec = sized<milcgpu_meson_spec>();
                       spec.n_momenta = 1, spec.n_terms = spec.n_correlators = 2;
                       spec.momenta = &still, spec.terms = terms;
                       return milcgpu_quarks_contract(c.meson_links, &spec, nullptr, nullptr, 1, &src1, &src2,
                                                      r.data());
                   },
                   1e-10});
    all.push_back({"contraction of Dirac fields", [](Calls &) {},
                   [](Calls &c, Reals &r) {
                       r.assign(2 * c.lattice.n[3], 0.0);
                       Reals quark(96 * size_t(c.lattice.volume()));
                       reference::Rng rng(32);
                       for (double &one : quark)
                           one = reference::uniform(rng) - 0.5;
                       const milcgpu_field field = c.field(quark);
                       const milcgpu_momentum still{{0, 0, 0}, {MILCGPU_EVEN, MILCGPU_EVEN, MILCGPU_EVEN}};
                       const milcgpu_dirac_term pion{3, 3, 0, 0, 1, 0};
                       auto spec = sized<milcgpu_dirac_meson_spec>();
                       spec.n_momenta = spec.n_terms = spec.n_correlators = 1;
                       spec.momenta = &still, spec.terms = &pion;
                       return milcgpu_dirac_mesons(c.session.context, &spec, 1, &field, &field, r.data());
                   },
                   1e-10});
    all.push_back({"three masses", links_loaded,
                   [](Calls &c, Reals &r) {
                       const size_t reals = c.x[0].size();
                       r.assign(3 * reals, 0.0);
                       const milcgpu_pole shifts[] = {{0.05, 1e-10, 0}, {0.3, 1e-10, 0}, {2, 1e-10, 0}};
                       const milcgpu_field from = c.field(c.x[0]);
                       milcgpu_field to[3];
                       for (int k = 0; k < 3; ++k)
                           to[k] = {r.data() + k * reals, MILCGPU_DOUBLE, 0};
                       milcgpu_multi_mass_spec spec;
                       milcgpu_multi_mass_defaults(&spec, sizeof spec);
                       spec.n_shifts = 3, spec.shifts = shifts;
                       return milcgpu_staggered_multi_mass(c.session.links, &spec, &from, to, nullptr);
                   },
                   as_solved});
    all.push_back({"Laplace solve", meson,
                   [](Calls &c, Reals &r) {
                       return of_quarks(c, r, [&](const milcgpu_quarks &from, const milcgpu_quarks &to) {
                           auto spec = sized<milcgpu_laplace_solve_spec>();
                           spec.directions = 3, spec.kappa = 0.12;
                           spec.tolerance = 1e-10, spec.max_iterations = 500, spec.max_restarts = 5;
                           spec.precise.precision = MILCGPU_DOUBLE, spec.sloppy.precision = MILCGPU_SINGLE;
                           auto report = sized<milcgpu_solve_report>();
                           return milcgpu_laplace_solve(c.meson_links, &spec, 1, &from, &to, &report);
                       });
                   },
                   as_solved});
    all.push_back({"Wilson links loaded, solve",
                   [](Calls &c) { c.must(milcgpu_wilson_create(c.session.context, &c.wilson)); },
                   [](Calls &c, Reals &r) {
                       const milcgpu_status status = c.load_wilson();
                       return status != MILCGPU_OK ? status : wilson_solved(c, r, MILCGPU_WILSON_CG, 0);
                   },
                   as_solved});
    all.push_back({"clover solve", wilson,
                   [](Calls &c, Reals &r) { return wilson_solved(c, r, MILCGPU_WILSON_BICGSTAB, 1.2); }, as_solved});
    return all;
}

// What the headers say is not checked: room within a call (staples, pieces of loops), vectors of forces, quark fields
// that are smeared in place, results of measurements, derivatives in the stages of an adaptive flow, which are momenta
// by their kind; a solution from its last true residual on, which is in the last tenth of a call; a source and a field
// that is contracted until its checksum is taken.
bool is_checked(const std::string &owner, const std::string &family, double part_of_call) {
    for (const char *one :
         {"staples", "derivatives of staples", "gauge force", "vectors of the force", "results of a measurement",
          "room for smearing", "raw copy of a host spinor", "partial sums", "sums over time slices", "contraction"})
        if (owner == one)
            return false;
    if (owner == "quark fields" && family.find("smearing") != std::string::npos)
        return false;
    if (part_of_call < 0.5 &&
        (owner == "Laplace sources" || owner == "Wilson source" || owner == "quark fields" || owner == "Dirac fields"))
        return false;
    if (part_of_call > 0.9 && (owner.find(" vectors") != std::string::npos || owner == "vectors of several sources"))
        return false;
    return owner != "momenta" || family.find("adaptive") == std::string::npos;
}

struct Run {
    milcgpu_status status;
    Reals result;
    int looks;             // launches and copies
    std::string owner, at; // where the bit was, and before what it flipped
};

// flip_at: before which launch or copy; -1: none.
Run run(const Family &family, const reference::Lattice &lattice, milcgpu::Backend backend, int flip_at, size_t bit) {
    Calls calls(lattice, backend);
    family.before(calls);
    Run r{MILCGPU_OK, {}, 0, "", ""};
    milcgpu::Device &device = *calls.session.context->device;
    device.set_observer([&](const char *what) {
        if (r.looks++ == flip_at)
            r.at = what, r.owner = device.flip_bit(bit);
    });
    r.status = family.call(calls, r.result);
    device.set_observer({});
    return r;
}

} // namespace

TEST_CASE("a bit that flips at any launch or copy of any call gives no wrong result that is called right",
          "[faults][flips]") {
    const char *asked = std::getenv("MILCGPU_FLIPS");
    const std::vector<Family> all = families();
    static int all_noticed = 0;
    for (const milcgpu::Backend backend : backends()) {
        const bool gpu = backend == milcgpu::Backend::cuda;
        const reference::Lattice lattice{gpu ? std::array<int, 4>{8, 8, 8, 8} : std::array<int, 4>{4, 4, 4, 4}};
        const int flips = asked != nullptr ? std::atoi(asked)
                          : gpu            ? 270
                                           : 4 * static_cast<int>(all.size()),
                  of_each = (flips + static_cast<int>(all.size()) - 1) / static_cast<int>(all.size());
        for (const Family &family : all)
            DYNAMIC_SECTION(milcgpu::name(backend) << ", " << family.name) {
                const Run clean = run(family, lattice, backend, -1, 0);
                CAPTURE(milcgpu_last_error());
                REQUIRE(clean.status == MILCGPU_OK);
                REQUIRE(clean.looks > 0);
                reference::Rng rng(7 + (&family - all.data()));
                enum { harmless, noticed, not_checked, silent };
                int counts[4] = {0, 0, 0, 0};
                for (int k = 0; k < of_each; ++k) {
                    const size_t bit = rng() ^ rng() << 32;
                    const int at = static_cast<int>(rng() % clean.looks);
                    const Run r = run(family, lattice, backend, at, bit);
                    const double d = r.status == MILCGPU_OK ? largest_difference(r.result, clean.result) : 0;
                    const bool given = r.status == MILCGPU_OK && !r.result.empty(),
                               wrong = given && !(d <= family.rounding);
                    const bool checked = is_checked(r.owner, family.name, double(at) / clean.looks);
                    ++counts[!given ? noticed : !wrong ? harmless : checked ? silent : not_checked];
                    CAPTURE(r.owner, r.at, at, clean.looks, bit, d);
                    CHECK(!(wrong && checked));
                }
                std::printf("%s, %-42s %4d harmless %4d noticed %4d wrong, not checked %4d silent\n",
                            milcgpu::name(backend), family.name, counts[harmless], counts[noticed], counts[not_checked],
                            counts[silent]);
                all_noticed += counts[noticed];
                if (&family == &all.back())
                    CHECK(all_noticed > 0);
            }
    }
}
