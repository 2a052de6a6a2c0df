// Compare mode: which differences are beyond tolerance, and which ones MILC's own errors allow.
#include "tests/plugin_support.h"
#include "tests/reference/forces.h"
#include "tests/reference/gauge_force.h"
#include <algorithm>

using namespace tests;

TEST_CASE("compare mode: NaN is beyond tolerance, at any place", "[plugin][compared]") {
    for (const Backend backend : tests::backends()) {
        const Environment environment{{"MILCGPU_BACKEND", backend_name(backend)}, {"MILCGPU_COMPARE", "1"}};
        Milc milc;
        said_by([&] { REQUIRE((milc.start() == 1 && milc.solve() == 1)); });
        const milcgpu_plugin_solve_call call = milc.call();
        const std::vector<double> good = milc.x;
        std::vector<double> other = good;
        const auto beyond = [&](const char *what, const std::function<int()> &compare) {
            int answer = -1;
            const std::string text = said_by([&] { answer = compare(); });
            INFO(what << "\n" << text);
            CHECK(answer == 0);
            CHECK(has(text, "BEYOND TOLERANCE"));
        };
        const size_t end = milc.x.size(), sites[] = {0, end / 2 - 1, end / 2, end - 1}; // on both parities
        for (const size_t at : sites)
            for (std::vector<double> *field : {&milc.x, &other}) {
                INFO("real " << at << (field == &other ? " of MILC's" : ""));
                (*field)[at] = NAN;
                beyond("M x = b",
                       [&] { return milcgpu_plugin_compare_invert(&call, 1, 10, 1, Milc::field(other), 10, 1); });
                beyond("a quark field", [&] {
                    return milcgpu_plugin_compare_quarks(MILCGPU_GAUSS_SMEAR, milc.x.data(), other.data(), 1, 1);
                });
                if (at < end / 2)
                    beyond("a solve",
                           [&] { return milcgpu_plugin_compare_solve(&call, 1, 10, 1, Milc::field(other), 10, 1); });
                *field = good;
            }
        const double offsets[] = {0.64, 0.64}, tolerances[] = {1e-8, 1e-8}, relative[] = {0, 0};
        std::vector<double> bad = good;
        bad[3] = NAN;
        for (const int first : {0, 1}) {
            const milcgpu_field of_gpu[] = {Milc::field(first == 0 ? bad : milc.x),
                                            Milc::field(first == 0 ? milc.x : bad)},
                                of_cpu[] = {Milc::field(other), Milc::field(other)};
            const milcgpu_plugin_multi_mass_call masses = {
                MILCGPU_MIXED_AUTO, call.fat, call.lng, MILCGPU_EVEN, 2,     offsets, tolerances,
                relative,           100,      5,        call.source,  of_gpu};
            beyond("several masses", [&] { return milcgpu_plugin_compare_multi_mass(&masses, 10, 1, of_cpu, 10, 1); });
        }
        for (const size_t at : {size_t(0), milc.fat.size() - 1})
            for (int field = 0; field < 4; ++field) { // two of the GPU, two of MILC
                std::vector<double> bad = field % 2 == 0 ? milc.fat : milc.lng;
                bad[at] = NAN;
                void *links[] = {milc.fat.data(), milc.lng.data(), milc.fat.data(), milc.lng.data()};
                links[field] = bad.data();
                beyond("links",
                       [&] { return milcgpu_plugin_compare_links(MILCGPU_APE_SMEAR, 2, links, links + 2, 1, 1); });
            }
        for (const int at : {0, 3, 5}) {
            double numbers[6] = {1, 2, 3, 4, 5, 6}, theirs[6] = {1, 2, 3, 4, 5, 6};
            numbers[at] = NAN;
            beyond("correlators", [&] {
                const milcgpu_plugin_correlators of{
                    MILCGPU_MESON_CONT, 3, numbers, theirs, {milc.x.data(), milc.x.data()}, 6, 1, 1, 1, 1};
                return milcgpu_plugin_compare_correlators(&of);
            });
        }
    }
}

TEST_CASE("compare mode allows what MILC's relative residual, its limit and nearly singular links imply",
          "[plugin][compared]") {
    for (const Backend backend : tests::backends()) {
        const Environment environment{{"MILCGPU_BACKEND", backend_name(backend)}, {"MILCGPU_COMPARE", "1"}};
        Milc milc;
        said_by([&] { REQUIRE(milc.start() == 1); });
        milcgpu_plugin_solve_call call = milc.call();
        const auto solved = [&](double tolerance, double relative, int limit) {
            std::vector<double> before(milc.x.size(), 0);
            milc.x.swap(before);
            call.tolerance = tolerance, call.relative_tolerance = relative, call.max_iterations = limit;
            call.max_restarts = 1;
            call.solution = Milc::field(milc.x);
            milcgpu_solve_report report;
            said_by([&] { REQUIRE(milcgpu_plugin_solve(&call, &report) == 1); });
            return report.iterations;
        };
        const auto judged = [&](int sources, int ours, std::vector<double> &theirs, int milcs) {
            int answer = -1;
            const std::string text = said_by(
                [&] { answer = milcgpu_plugin_compare_solve(&call, sources, ours, 1, Milc::field(theirs), milcs, 1); });
            UNSCOPED_INFO(text);
            return answer == 1;
        };
        // MILC's solution may be the better one: the tolerance of the call counts.
        solved(1e-12, 0, 1000);
        std::vector<double> better = milc.x;
        const int iterations = solved(0, 1e-5, 1000);
        CHECK(judged(1, iterations, better, iterations + 9));
        call.relative_tolerance = 1e-7; // looser than the solve
        CHECK_FALSE(judged(1, iterations, better, iterations + 9));
        // At the iteration limit one source has MILC's solution. Several may be closer to the solution than MILC, but
        // not farther.
        solved(1e-12, 0, 4);
        std::vector<double> less = milc.x;
        solved(1e-12, 0, 5);
        call.max_iterations = 5;
        CHECK_FALSE(judged(1, 6, less, 6));
        CHECK(judged(3, 6, less, 6));
        less.swap(milc.x);
        call.solution = Milc::field(milc.x);
        CHECK_FALSE(judged(3, 6, less, 6));
        // V = diag(1, 1, s): the analytic way multiplies the rounding of V by 1 / s^2, singular values by 1 / s alone.
        auto spec = filled(milcgpu_hisq_defaults);
        for (const auto &[s, only, allowed] :
             {std::tuple(1.0, 0, false), {2e-3, 0, true}, {2e-3, 1, false}, {1e-6, 1, true}, {0.0, 0, false}}) {
            std::vector<double> v(milc.fat.size(), 0), links = milc.fat;
            for (size_t k = 0; k < v.size(); k += 18)
                v[k] = v[k + 8] = 1, v[k + 16] = k == 180 ? s : 1;
            links[7] += 5e-11;
            spec.svd_only = only;
            void *ours[] = {links.data()}, *theirs[] = {milc.fat.data()};
            int answer = -1;
            const std::string text =
                said_by([&] { answer = milcgpu_plugin_compare_hisq_links(1, ours, theirs, v.data(), &spec, 1, 1); });
            INFO(s << " " << only << "\n" << text);
            CHECK(answer == allowed);
        }
        // If V is zero, any unitary matrix is its unitary factor; NaN is not.
        std::vector<double> none(milc.fat.size(), 0), unit = none, minus_unit = none;
        for (size_t k = 0; k < unit.size(); k += 18)
            for (const int diagonal : {0, 8, 16})
                unit[k + diagonal] = 1, minus_unit[k + diagonal] = -1;
        spec.svd_only = 0;
        const auto zeros_judged = [&](std::vector<double> &gpu) {
            void *ours[] = {gpu.data()}, *theirs[] = {minus_unit.data()};
            return milcgpu_plugin_compare_hisq_links(1, ours, theirs, none.data(), &spec, 1, 1);
        };
        CHECK(has(said_by([&] { CHECK(zeros_judged(unit) == 1); }), "V is zero"));
        unit[7] = NAN;
        said_by([&] { CHECK(zeros_judged(unit) == 0); });
    }
}

// The reference takes the derivative of W from the equation of the square root. Like MILC's, its error grows with the
// singular values of V: to 8e-10 of the force on this random field.
TEST_CASE("compare mode judges the force of HISQ quarks on a smooth and on a random field", "[plugin][compared][md]") {
    const reference::Lattice lattice{{4, 4, 4, 4}};
    const size_t volume = lattice.volume();
    for (const bool random : {false, true}) {
        reference::Gauge u =
            random ? reference::random_gauge(lattice, 3) : reference::near_unit_gauge(lattice, 0.02, 3);
        reference::apply_phases(lattice, u);
        const reference::Fermion x = tests::random_fermion(lattice, 5);
        auto links = filled(milcgpu_hisq_defaults);
        auto force = filled(milcgpu_force_defaults);
        const double residue = 1;
        force.links = &links;
        force.eps = 0.1;
        force.n_terms = 1;
        force.residues = &residue;
        force.filter = -1;
        // The derivatives by W, by V and by the gauge field.
        const reference::HisqLinks hisq = reference::hisq_links(lattice, u, 0);
        const auto second = reference::hisq_asqtad_coefficients();
        reference::Gauge q = reference::path_derivative(lattice, hisq.w, reference::fat_paths, second,
                                                        reference::outer_products(lattice, {x}, {residue}, 1));
        const reference::Gauge by_long = reference::path_derivative(
            lattice, hisq.w, reference::long_path, second, reference::outer_products(lattice, {x}, {residue}, 3));
        for (size_t k = 0; k < q.size(); ++k)
            q[k] = reference::unitary_part_derivative(hisq.v[k], q[k] + by_long[k], 0);
        q = reference::path_derivative(lattice, u, reference::fat_paths, reference::hisq_fat7_coefficients(), q);
        for (size_t k = 0; k < q.size(); ++k)
            q[k] = (2 * force.eps) * reference::traceless_antihermitian(u[k] * reference::adjoint(q[k]));
        const std::vector<double> theirs = reference::momenta_to_milc(lattice, q),
                                  v = reference::links_to_milc<double>(lattice, hisq.v);
        double size = 0;
        for (const reference::Matrix &m : q)
            size += reference::norm2(m);
        for (const Backend backend : tests::backends()) {
            const Environment environment{{"MILCGPU_BACKEND", backend_name(backend)}, {"MILCGPU_COMPARE", "1"}};
            Milc milc(lattice);
            said_by([&] { REQUIRE(milc.start() == 1); });
            std::vector<double> site_u = reference::links_to_milc<double>(lattice, u), site_h(40 * volume),
                                site_x = reference::vector_to_milc<double>(lattice, x);
            const milcgpu_plugin_lattice sites{Milc::field(site_u), Milc::field(site_h)};
            const milcgpu_field source = Milc::field(site_x);
            for (const double error : {0.0, random ? 1e-7 : 1e-12}) // of one number of MILC
                for (const bool knows_v : {true, false}) {
                    site_h.assign(site_h.size(), 0);
                    milcgpu_plugin_host_wrote(MILCGPU_LINKS | MILCGPU_MOMENTA);
                    auto report = sized<milcgpu_force_report>();
                    REQUIRE(milcgpu_plugin_fermion_force(&sites, &force, &source, &report) == 1);
                    std::copy(theirs.begin(), theirs.end(), site_h.begin());
                    site_h[13] += error * std::sqrt(size);
                    int answer = -1;
                    const std::string text = said_by([&] {
                        answer = milcgpu_plugin_compare_gauge(MILCGPU_FERMION_FORCE, MILCGPU_MOMENTA, nullptr,
                                                              knows_v ? v.data() : nullptr, force.filter, 1, 1);
                    });
                    INFO((random ? "random " : "smooth ") << error << (knows_v ? " with V\n" : "\n") << text);
                    CHECK(answer == (error == 0 && (knows_v || !random)));
                }
        }
    }
}

namespace {

// MILC's project_su3 in its precision; hits end when three of them gain less than 1e-5 of the trace. Returns their
// number.
template <class Real> int project_by_hits(std::complex<Real> (&w)[3][3], const std::complex<Real> (&q)[3][3]) {
    const auto trace = [&] {
        Real sum = 0;
        for (int k = 0; k < 9; ++k)
            sum += w[k / 3][k % 3].real() * q[k / 3][k % 3].real() + w[k / 3][k % 3].imag() * q[k / 3][k % 3].imag();
        return sum / 3;
    };
    Real before = trace(), gain = 1;
    int hits = 0;
    for (; hits < 10 && gain > Real(1e-5); ++hits) {
        const int a = hits % 3 == 1 ? 1 : 0, b = hits % 3 == 0 ? 1 : 2;
        std::complex<Real> of[2][2];
        for (int i = 0; i < 2; ++i)
            for (int j = 0; j < 2; ++j)
                for (int k = 0; k < 3; ++k)
                    of[i][j] += w[i == 0 ? a : b][k] * std::conj(q[j == 0 ? a : b][k]);
        const std::complex<Real> one = std::conj(of[0][0]) + of[1][1], two = std::conj(of[1][0]) - of[0][1];
        const Real size = std::sqrt(std::norm(one) + std::norm(two));
        for (int k = 0; k < 3; ++k) {
            const std::complex<Real> x = w[a][k], y = w[b][k];
            w[a][k] = (one * x + two * y) / size;
            w[b][k] = (std::conj(one) * y - std::conj(two) * x) / size;
        }
        if (hits % 3 == 2)
            gain = (trace() - before) / before, before = trace();
    }
    return hits;
}

} // namespace

TEST_CASE("compare mode in single precision allows the end of an APE projection, and no more", "[plugin][compared]") {
    const Environment environment{{"MILCGPU_BACKEND", "host"}};
    Milc milc;
    milcgpu_milc described = milc.described();
    described.precision = 1;
    said_by([&] { REQUIRE(milcgpu_plugin_start(&described) == 1); });
    const size_t links = milc.fat.size() / 18;
    std::vector<float> in_single, in_double;
    reference::Rng rng(5);
    double others = 0, same = 0; // the largest difference if the numbers of hits differ, and if they agree
    for (size_t k = 0; k < 10 * links; ++k) {
        const auto start = reference::random_su3(rng), noise = reference::random_matrix(rng);
        std::complex<double> w[3][3], q[3][3];
        std::complex<float> ws[3][3], qs[3][3];
        for (int i = 0; i < 9; ++i) {
            w[i / 3][i % 3] = start.e[i / 3][i % 3];
            q[i / 3][i % 3] = start.e[i / 3][i % 3] + 0.1 * noise.e[i / 3][i % 3];
            ws[i / 3][i % 3] = std::complex<float>(w[i / 3][i % 3]),
                          qs[i / 3][i % 3] = std::complex<float>(q[i / 3][i % 3]);
        }
        const bool elsewhere = project_by_hits(w, q) != project_by_hits(ws, qs);
        double d = 0;
        for (int i = 0; i < 9; ++i)
            d += std::norm(w[i / 3][i % 3] - std::complex<double>(ws[i / 3][i % 3])) / 3;
        (elsewhere ? others : same) = std::max(elsewhere ? others : same, std::sqrt(d));
        if (in_single.size() < 18 * links && (elsewhere || k >= 9 * links))
            for (int i = 0; i < 9; ++i)
                for (const int part : {0, 1}) {
                    const std::complex<double> &of_double = w[i / 3][i % 3];
                    in_double.push_back(static_cast<float>(part == 0 ? of_double.real() : of_double.imag()));
                    in_single.push_back(part == 0 ? ws[i / 3][i % 3].real() : ws[i / 3][i % 3].imag());
                }
    }
    REQUIRE(in_single.size() == 18 * links);
    CHECK(others > 1e-4);
    CHECK(same < 2e-5);
    const auto judged = [&](milcgpu_routine routine) {
        void *ours[] = {in_double.data()}, *theirs[] = {in_single.data()};
        int answer = -1;
        said_by([&] { answer = milcgpu_plugin_compare_links(routine, 1, ours, theirs, 1, 1); });
        return answer;
    };
    CHECK(judged(MILCGPU_APE_SMEAR) == 1);
    CHECK(judged(MILCGPU_LOAD_FN_LINKS) == 0);
    in_double[0] += 0.01f;
    CHECK(judged(MILCGPU_APE_SMEAR) == 0);
}

TEST_CASE("compare mode allows for smearing that amplifies rounding", "[plugin][compared]") {
    const Environment environment{{"MILCGPU_BACKEND", "host"}, {"MILCGPU_COMPARE", "1"}};
    Milc milc;
    said_by([&] { REQUIRE(milc.start() == 1); });
    const auto judged = [&](double moves, double differs) {
        std::vector<double> moved = milc.fat, theirs = milc.fat;
        moved[100] += moves, theirs[100] += differs;
        int answer = -1;
        const std::string text = said_by([&] {
            answer = milcgpu_plugin_compare_smeared_links(MILCGPU_APE_SMEAR, milc.fat.data(), theirs.data(),
                                                          moved.data(), 1, 1);
        });
        CHECK(has(text, "rounding") == (moves > 1e-11));
        return answer;
    };
    CHECK(judged(0, 1e-13) == 1);
    CHECK(judged(0, 1e-10) == 0);
    CHECK(judged(1e-10, 5e-10) == 1);
    CHECK(judged(1e-10, 5e-9) == 0);
    CHECK(judged(NAN, 1e-10) == 0);
    CHECK(judged(1e-10, NAN) == 0);
}
