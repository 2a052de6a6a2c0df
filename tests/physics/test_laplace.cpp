// The gauge Laplace operator: every row of its table, its even-odd form, its solves, and the C interface.
#include "gpu_kernels/algebra/blas.h"
#include "gpu_kernels/laplace/laplace_operator.h"
#include "gpu_kernels/solver/cg.h"
#include "milc_glue/api/milcgpu_laplace.h"
#include "milc_glue/measure/meson_links_handle.h"
#include "tests/bench.h"
#include "tests/cut_support.h"
#include "tests/mesons_support.h"
#include "tests/reference/laplace.h"

using namespace milcgpu;
using namespace tests;

namespace {

// Measured on the host backend, the largest over shapes, reals, directions, parities, epilogues and both ways of a
// launch: |error| / |result|, and the error of a sum relative to the sizes of its terms. By precision.
constexpr double row_error[] = {6.2e-16, 3.2e-7, 5.8e-5}; // with 8 reals
constexpr double sum_error[] = {2.3e-15, 7.8e-8, 8.8e-6};
// The even-odd operator with 12 reals, and <x, A x> relative to |x|^2.
constexpr double even_odd_error[] = {1.1e-16, 5.3e-8, 7.5e-6};
constexpr double form_error[] = {1.1e-15, 6e-9, 2.5e-7};

// A lattice on a device with links in every storage format.
struct LaplaceBench : Bench<reference::Vector> {
    Gauge u;
    LinkField plain;
    std::map<std::pair<Precision, int>, LinkField> packed_links;

    // Even sites come first. MILC's order has as many even as odd sites also if the last extent is odd.
    LaplaceBench(const std::array<int, 4> &n, Backend backend, unsigned long seed = 3)
        : Bench(n, backend), u(unitary_links(lattice, seed, 1, false)), plain(upload(u)) {}
    const LinkField &links(Precision precision, int in_reals) {
        LinkField &field = packed_links[{precision, in_reals}];
        if (field.bytes() == 0)
            field = packed(plain, precision, in_reals);
        return field;
    }
    LaplaceOperator op(Precision precision, int reals, int directions, double kappa, int parity) {
        return {geometry, parity, {precision, precision, reals}, links(precision, reals), directions, kappa};
    }
    // The largest error over all sources.
    double error_of(const SpinorField &got, const Fermion &wanted, int parity) {
        double worst = 0;
        for (int k = 0; k < got.sources(); ++k)
            worst = worse(worst, Bench::error_of(got, k, wanted, parity));
        return worst;
    }
    double norm2(const Fermion &field, int parity) const {
        double sum = 0;
        for (int s = 0; s < lattice.volume(); ++s)
            sum += lattice.parity(s) == parity ? reference::norm2(field[s]) : 0;
        return sum;
    }
};

double real_dot_on(const reference::Lattice &lattice, const Fermion &a, const Fermion &b, int parity) {
    double sum = 0;
    for (int s = 0; s < lattice.volume(); ++s)
        for (int c = 0; c < 3 && lattice.parity(s) == parity; ++c)
            sum += std::real(std::conj(a[s].c[c]) * b[s].c[c]);
    return sum;
}

struct Errors {
    double error = 0, sum = 0;
    void add(double e, double s = 0) { error = worse(error, e), sum = worse(sum, s); }
};

// Errors of one row on one parity, with every argument that its epilogue may take.
Errors run(LaplaceBench &bench, const LaplaceKernel &row, int parity) {
    const double kappa = 0.11, a = 0.37, alpha = 0.61, beta = 0.7;
    const int sources = row.most_sources == 1 ? 1 : 5;
    const reference::Lattice &lattice = bench.lattice;
    const Fermion in = random_fermion(lattice, 6), x = random_fermion(lattice, 7), z = random_fermion(lattice, 8);
    Fermion d = reference::laplace_sum(lattice, bench.u, row.directions, in);
    for (auto &v : d)
        v = kappa * v;
    Errors worst;
    LaplaceCall call{};
    call.lattice = bench.geometry.lattice();
    call.parity = parity;
    call.directions = row.directions;
    call.links = &bench.links(row.spinor, row.reals);
    call.kappa = kappa;
    const auto field = [&](const Fermion &f) { return bench.upload(f, parity, row.spinor, sources); };
    const SpinorField in_d = bench.upload(in, 1 - parity, row.spinor, sources), out = field(z), x_d = field(x),
                      s_d = field(z);
    // The residual and step epilogues write to z.
    call.in = in_d, call.out = out, call.x = x_d, call.z = out, call.s = s_d;
    call.a = a, call.alpha = alpha;
    CgState state{};
    state.start(1, 1);
    state.shift = a, state.alpha = alpha, state.carry = beta, state.sign = -1;
    state.iteration_limit = 10;
    const DeviceArray<CgState> cg(bench.device, sources, "test");
    const std::vector<CgState> states(sources, state);
    bench.device.copy_to_device(cg.data(), states.data(), cg.bytes());
    const DeviceArray<double> sum(bench.device, 1, "test");
    const bool in_cg = row.epilogue == Epilogue::step || (row.epilogue == Epilogue::plain && sources > 1);
    if (in_cg)
        call.cg = cg.data(), call.along_p = true, call.check_convergence = false;
    else if (sources == 1)
        call.sum = sum.data();
    laplace(bench.device, call, row.epilogue);
    Fermion wanted = d, image = d;
    for (int k = 0; k < lattice.volume(); ++k) {
        image[k] = a * x[k] - d[k]; // out is z, not x, so beta has no term
        if (row.epilogue == Epilogue::normal)
            wanted[k] = image[k];
        else if (row.epilogue != Epilogue::plain)
            wanted[k] = z[k] - alpha * image[k];
    }
    worst.add(bench.error_of(out, wanted, parity));
    const double size = bench.norm2(wanted, parity);
    if (row.epilogue == Epilogue::step)
        worst.add(bench.error_of(s_d, image, parity));
    if (in_cg) {
        const std::vector<CgState> after = cg.to_host();
        for (int k = 0; k < sources; ++k) {
            const double scale = (k + 1) * (k + 1) * size;
            if (row.epilogue == Epilogue::plain) // a - |B p|^2
                worst.add(0, std::fabs(after[k].curvature - (a - scale)) / scale);
            else
                worst.add(
                    0, worse(std::fabs(after[k].rr_new / scale - 1),
                             std::fabs(after[k].cross / scale - real_dot_on(lattice, wanted, image, parity) / size)));
        }
    } else if (sources == 1) {
        const double by_hand = row.epilogue == Epilogue::normal ? real_dot_on(lattice, x, wanted, parity) : size;
        worst.add(0, std::fabs(sum.to_host()[0] - by_hand) / size);
    }
    if (in_cg && row.epilogue == Epilogue::plain) { // without scalars a thread works on all sources together
        call.cg = nullptr;
        bench.device.fill_zero(out.data(), out.bytes());
        laplace(bench.device, call, row.epilogue);
        worst.add(bench.error_of(out, wanted, parity));
    }
    return worst;
}

} // namespace

TEST_CASE("every row of the Laplace table is the reference's, with one thread a site and with four",
          "[operators][laplace][sanitize]") {
    REQUIRE(laplace_table().size() == 3 * 3 * 2 * 4 * 2);
    for (const Backend backend : backends())
        for (const auto &n : sampled<std::array<int, 4>>({{2, 4, 4, 8}, {4, 6, 10, 4}, {4, 2, 6, 3}}, 2)) {
            LaplaceBench bench(n, backend);
            for (const LaplaceKernel &row : laplace_table()) {
                if (n[3] % 2 != 0 && row.directions == 4)
                    continue;
                for (const int parts_below : both_ways)
                    for (const int parity : {0, 1}) {
                        bench.device.set_parts_below(parts_below);
                        const Errors worst = run(bench, row, parity);
                        CAPTURE(name(backend), n[0], n[3], name(row.spinor), row.reals, row.directions,
                                name(row.epilogue), row.most_sources, parity, parts_below, worst.error, worst.sum);
                        CHECK(worst.error <= times_measured * row_error[static_cast<int>(row.spinor)]);
                        CHECK(worst.sum <= times_measured * sum_error[static_cast<int>(row.spinor)]);
                    }
            }
        }
}

namespace {

// Links of a measurement behind the C interface, and calls of the Laplace operator with them.
template <class Real> struct Laplace : Measurement<Real> {
    using Measurement<Real>::Measurement;
    using Measurement<Real>::lattice;
    milcgpu_laplace_spec spec(int directions, double kappa, int precision = MILCGPU_DOUBLE, int reals = 0) const {
        return {sizeof(milcgpu_laplace_spec), directions, kappa, {precision, reals}};
    }
    Fermion apply(const milcgpu_laplace_spec &spec, int matrix, const Fermion &field,
                  int parity = MILCGPU_EVEN + MILCGPU_ODD) {
        return Measurement<Real>::apply(field, [&](int n, const milcgpu_quarks *from, const milcgpu_quarks *to) {
            return milcgpu_laplace_apply(this->links, &spec, matrix, parity, n, from, to);
        });
    }
    Fermion matrix(int directions, double kappa, const Fermion &field) {
        return apply(spec(directions, kappa), MILCGPU_LAPLACE_M, field);
    }
    struct Solved {
        milcgpu_status status;
        std::vector<Fermion> x;
        std::vector<milcgpu_solve_report> reports;
        std::string error;
    };
    Solved solve(const milcgpu_laplace_solve_spec &spec, const std::vector<Fermion> &b,
                 const std::vector<Fermion> &guess = {}) {
        Solved s{};
        std::vector<std::vector<Real>> sources, solutions;
        std::vector<milcgpu_field> from, to;
        for (size_t k = 0; k < b.size(); ++k) {
            sources.push_back(reference::vector_to_milc<Real>(lattice(), b[k]));
            solutions.push_back(guess.empty() ? std::vector<Real>(sources[k].size())
                                              : reference::vector_to_milc<Real>(lattice(), guess[k]));
            s.reports.push_back(sized<milcgpu_solve_report>());
        }
        for (size_t k = 0; k < b.size(); ++k) {
            from.push_back(Session<Real>::field(sources[k]));
            to.push_back(Session<Real>::field(solutions[k]));
        }
        const milcgpu_quarks source{from.data(), nullptr, 0}, solution{to.data(), nullptr, 0};
        s.status = milcgpu_laplace_solve(this->links, &spec, int(b.size()), &source, &solution, s.reports.data());
        s.error = milcgpu_last_error();
        for (auto &x : solutions)
            s.x.push_back(reference::vector_from_milc<Real>(lattice(), x));
        return s;
    }
};

milcgpu_laplace_solve_spec laplace_solve(int directions, double kappa, double tolerance, int precise, int sloppy,
                                         int reals = 0) {
    auto spec = sized<milcgpu_laplace_solve_spec>();
    spec.directions = directions, spec.kappa = kappa;
    spec.tolerance = tolerance;
    spec.max_iterations = 2000, spec.max_restarts = 5;
    spec.precise.precision = precise;
    spec.sloppy = {sloppy, reals};
    return spec;
}

double kappa_of(int directions, double mass_squared) { return 1 / (2 * directions + mass_squared); }

Fermion scaled(double s, Fermion field) {
    for (auto &v : field)
        v = s * v;
    return field;
}

double residual_of(const reference::Lattice &lattice, const Gauge &u, int directions, double kappa, const Fermion &b,
                   const Fermion &x) {
    return reference::relative_difference(reference::laplace_matrix(lattice, u, directions, kappa, x), b);
}

} // namespace

TEST_CASE("Laplace on unit links gives 1 - 2 d kappa for constants and the closed form for plane waves",
          "[operators][laplace]") {
    const reference::Lattice lattice{{6, 10, 4, 6}};
    const std::array<int, 4> momenta[] = {{0, 0, 0, 0}, {1, 2, -1, 1}, {3, 5, 2, 3}, {0, 0, 0, 1}};
    for (const Backend backend : backends()) {
        // The Laplace operator ignores the boundary sign in t.
        Laplace<double> m(lattice, backend, reference::unit_gauge(lattice), true);
        for (const int d : {3, 4}) {
            const double kappa = kappa_of(d, 0.3);
            CHECK(std::fabs(reference::free_laplace_eigenvalue(lattice, d, kappa, momenta[0]) - (1 - 2 * d * kappa)) <
                  1e-15);
            for (const auto &p : momenta) {
                const Fermion wave = reference::plane_wave(lattice, p, {{{1, 0}, {0, 2}, {-3, 1}}});
                const double eigenvalue = reference::free_laplace_eigenvalue(lattice, d, kappa, p);
                CAPTURE(name(backend), d, p[0], p[3], eigenvalue);
                CHECK(reference::relative_difference(m.matrix(d, kappa, wave), scaled(eigenvalue, wave)) <=
                      times_measured * 1.4e-15);
            }
        }
    }
}

TEST_CASE("Laplace M and D are the reference's, on one parity or both, in every precision and reconstruction",
          "[operators][laplace][sanitize]") {
    const auto check = [](Backend backend, const reference::Lattice &lattice, auto real) {
        using Real = decltype(real);
        Laplace<Real> m(lattice, backend, links_for(lattice, 12));
        const Fermion psi = m.rounded(random_fermion(lattice, 13));
        const double kappa = 0.1, rounding = sizeof(Real) == 8 ? 0 : 6e-8; // of the host's field
        for (const int d : {3, 4})
            for (const int precision : {MILCGPU_DOUBLE, MILCGPU_SINGLE, MILCGPU_HALF})
                for (const int reals : {18, 12, 8}) {
                    if (sizeof(Real) == 4 && reals < 18 && precision == MILCGPU_DOUBLE)
                        // Links rounded to single do not fit and fall back to 18 reals, which another test checks.
                        continue;
                    const Fermion sum = reference::laplace_sum(lattice, m.u, d, psi),
                                  whole = reference::laplace_matrix(lattice, m.u, d, kappa, psi);
                    const auto spec = m.spec(d, kappa, precision, reals);
                    const double error = times_measured * std::max(row_error[precision - 1], rounding);
                    CAPTURE(name(backend), lattice.n[0], sizeof(Real), d, precision, reals);
                    CHECK(reference::relative_difference(m.apply(spec, MILCGPU_LAPLACE_D, psi), sum) <= error);
                    CHECK(reference::relative_difference(m.apply(spec, MILCGPU_LAPLACE_M, psi), whole) <= error);
                    for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD}) {
                        const Fermion one = m.apply(spec, MILCGPU_LAPLACE_M, psi, parity);
                        const int on = parity == MILCGPU_EVEN ? 0 : 1;
                        CHECK(parity_difference(lattice, one, whole, on) <= error);
                        for (int s = 0; s < lattice.volume(); ++s)
                            if (lattice.parity(s) != on)
                                REQUIRE(one[s].c[1] == reference::Complex(-7, -7)); // untouched
                    }
                }
    };
    for (const Backend backend : backends())
        for (const reference::Lattice &lattice :
             {reference::Lattice{{4, 6, 10, 4}}, reference::Lattice{{2, 4, 4, 8}}}) {
            check(backend, lattice, 0.0);
            check(backend, lattice, 0.0f);
        }
}

TEST_CASE("Laplace M is hermitian and gauge covariant; smearing and milcgpu_quarks_laplacian are made of D",
          "[operators][laplace]") {
    const reference::Lattice lattice{{4, 6, 2, 6}};
    const auto g = reference::random_transformation(lattice, 20);
    const Gauge u = links_for(lattice, 21);
    const Fermion a = random_fermion(lattice, 22), b = random_fermion(lattice, 23),
                  g_a = reference::transform_fermion(g, a);
    for (const Backend backend : backends()) {
        Laplace<double> m(lattice, backend, u), moved(lattice, backend, reference::transform_links(lattice, g, u, 1));
        for (const int d : {3, 4}) {
            CAPTURE(name(backend), d);
            const double kappa = kappa_of(d, 0.2);
            const auto left = reference::dot(a, m.matrix(d, kappa, b)),
                       right = reference::dot(m.matrix(d, kappa, a), b);
            CHECK(std::abs(left - right) <= times_measured * 3e-17 * std::abs(reference::dot(a, a)));
            CHECK(reference::relative_difference(moved.matrix(d, kappa, g_a),
                                                 reference::transform_fermion(g, m.matrix(d, kappa, a))) <=
                  times_measured * 2.1e-16);
        }
        const auto in_space = m.spec(3, 0);
        const Fermion sum = m.apply(in_space, MILCGPU_LAPLACE_D, a), minus_laplacian = m.laplacian(1, -1, a);
        Fermion wanted = scaled(6, a);
        for (size_t s = 0; s < wanted.size(); ++s)
            wanted[s] = wanted[s] - sum[s];
        CHECK(reference::relative_difference(minus_laplacian, wanted) <= times_measured * 8e-17);
        const int steps = 5;
        const double width = 1.4, weight = width * width / (4 * steps);
        Fermion smeared = a;
        for (int k = 0; k < steps; ++k) {
            const Fermion more = m.apply(in_space, MILCGPU_LAPLACE_D, smeared);
            for (size_t s = 0; s < smeared.size(); ++s)
                smeared[s] = (1 - 6 * weight) * smeared[s] + weight * more[s];
        }
        CHECK(reference::relative_difference(m.smear(1, width, steps, -1, a), smeared) <= times_measured * 1.5e-16);
    }
}

TEST_CASE("Laplace's even-odd operator is the reference's and agrees with M on all sites", "[operators][laplace]") {
    for (const Backend backend : backends())
        for (const auto &n : {std::array<int, 4>{4, 6, 4, 8}, std::array<int, 4>{6, 2, 4, 5}}) {
            LaplaceBench bench(n, backend);
            const Fermion x = random_fermion(bench.lattice, 30);
            for (const int d : {3, 4})
                for (const Precision precision : {Precision::double_, Precision::single, Precision::half})
                    for (const int parity : {0, 1}) {
                        if (d == 4 && n[3] % 2 != 0)
                            continue;
                        const double kappa = kappa_of(d, 0.1);
                        const LaplaceOperator A = bench.op(precision, 12, d, kappa, parity);
                        CHECK(A.sign() == -1);
                        CHECK(std::fabs(A.lowest(1) - (1 - 4 * d * d * kappa * kappa)) < 3e-16);
                        const SpinorField in = bench.upload(x, parity, precision),
                                          out = A.vectors(bench.device, "test"),
                                          between = A.between(bench.device, "test");
                        const DeviceArray<double> sum(bench.device, 1, "test");
                        HalfCall half;
                        half.in = in, half.out = between;
                        half.sum = sum.data();
                        A.apply_half(bench.device, half, Epilogue::plain);
                        const double bb = sum.to_host()[0];
                        half.in = between, half.out = out, half.x = in, half.a = LaplaceOperator::shift;
                        A.apply_half(bench.device, half, Epilogue::normal);
                        const Fermion wanted = reference::laplace_even_odd(bench.lattice, bench.u, d, kappa, parity, x);
                        CAPTURE(name(backend), n[0], d, name(precision), parity);
                        const int p = static_cast<int>(precision);
                        CHECK(parity_difference(bench.lattice, bench.download(out, parity), wanted, parity) <=
                              times_measured * even_odd_error[p]);
                        // <x, A x> = |x|^2 - |B x|^2
                        const double xx = bench.norm2(x, parity);
                        CHECK(std::fabs(sum.to_host()[0] - (xx - bb)) <= times_measured * form_error[p] * xx);
                        CHECK(sum.to_host()[0] > A.lowest(1) * xx);
                    }
            // The even-odd solution solves the system on all sites, also for odd T: M x gives x_e and x_o = b_o + kappa
            // D x_e.
            const LaplaceOperator A = bench.op(Precision::double_, 18, 3, 0.12, 0);
            const SpinorField b[2] = {bench.upload(x, 0, Precision::double_), bench.upload(x, 1, Precision::double_)};
            CgSolver solver(bench.device, {std::make_shared<LaplaceOperator>(A), std::make_shared<LaplaceOperator>(A),
                                           std::make_shared<LaplaceOperator>(A), nullptr});
            A.add_neighbours(bench.device, 0, 0, {b[0], b[0], b[1], solver.source()});
            bench.device.fill_zero(solver.solution().data(), solver.solution().bytes());
            CgLimits limits{};
            limits.shift = LaplaceOperator::shift, limits.tolerance = 1e-13;
            CHECK(solver.solve(limits, {}).status == Status::ok);
            const SpinorField odd = bench.upload(x, 1, Precision::double_);
            A.add_neighbours(bench.device, 1, 0, {b[1], b[1], solver.solution(), odd});
            Fermion solution = bench.download(solver.solution(), 0);
            const Fermion on_odd = bench.download(odd, 1);
            for (int s = 0; s < bench.lattice.volume(); ++s)
                if (bench.lattice.parity(s) == 1)
                    solution[s] = on_odd[s];
            CHECK(residual_of(bench.lattice, bench.u, 3, 0.12, x, solution) < 1e-13);
        }
}

TEST_CASE("Laplace solves reach their tolerance with every precision pair, in the steps of double",
          "[operators][laplace]") {
    const reference::Lattice lattice{{8, 6, 4, 8}};
    const Gauge u = reference::near_unit_gauge(lattice, 0.25, 41);
    const Fermion b = random_fermion(lattice, 42);
    struct Pair {
        int precise, sloppy;
        double tolerance;
    };
    const Pair pairs[] = {{MILCGPU_DOUBLE, MILCGPU_DOUBLE, 1e-10}, {MILCGPU_DOUBLE, MILCGPU_SINGLE, 1e-10},
                          {MILCGPU_DOUBLE, MILCGPU_HALF, 1e-10},   {MILCGPU_SINGLE, MILCGPU_SINGLE, 1e-6},
                          {MILCGPU_SINGLE, MILCGPU_HALF, 1e-6},    {MILCGPU_HALF, MILCGPU_HALF, 1e-4}};
    for (const Backend backend : backends()) {
        Laplace<double> m(lattice, backend, u);
        for (const int d : {3, 4})
            for (const double mass_squared : {0.5, 0.01}) {
                const double kappa = kappa_of(d, mass_squared);
                int pure_steps[4] = {}; // for each precise precision
                for (const Pair &pair : pairs)
                    for (const int reals : {18, 12, 8}) {
                        const auto spec = laplace_solve(d, kappa, pair.tolerance, pair.precise, pair.sloppy, reals);
                        const auto s = m.solve(spec, {b});
                        const auto &report = s.reports[0];
                        CAPTURE(name(backend), d, mass_squared, pair.precise, pair.sloppy, reals, report.steps,
                                report.reliable_updates, report.true_residual, s.error);
                        CHECK(s.status == MILCGPU_OK);
                        CHECK(report.sloppy_reconstruct == reals);
                        CHECK(report.true_residual < pair.tolerance);
                        const double by_hand = residual_of(lattice, u, d, kappa, b, s.x[0]);
                        CHECK(std::fabs(by_hand - report.true_residual) <= times_measured * 2e-17);
                        if (pair.precise == pair.sloppy && reals == 18)
                            pure_steps[pair.precise] = report.steps;
                        CHECK(report.steps <= 1.15 * pure_steps[pair.precise]);
                    }
            }
    }
}

TEST_CASE("Laplace solve of a point source on unit links gives the sum over momenta", "[operators][laplace]") {
    const reference::Lattice lattice{{4, 6, 4, 4}};
    const int source = lattice.site({1, 2, 0, 3}); // even
    Fermion b(lattice.volume());
    b[source].c[1] = reference::Complex(0, 1);
    for (const Backend backend : backends()) {
        Laplace<double> m(lattice, backend, reference::unit_gauge(lattice));
        for (const int d : {3, 4})
            for (const int shifted : {0, 1}) { // then from an odd site
                const int from = lattice.neighbour(source, 0, shifted);
                Fermion point(lattice.volume()), wanted(lattice.volume());
                point[from].c[1] = reference::Complex(0, 1);
                const double kappa = kappa_of(d, 0.4);
                const auto propagator = reference::free_laplace_propagator(lattice, d, kappa, from);
                for (int s = 0; s < lattice.volume(); ++s)
                    wanted[s].c[1] = reference::Complex(0, propagator[s]);
                const auto s = m.solve(laplace_solve(d, kappa, 1e-13, MILCGPU_DOUBLE, MILCGPU_SINGLE), {point});
                CAPTURE(name(backend), d, shifted, s.error);
                REQUIRE(s.status == MILCGPU_OK);
                CHECK(reference::relative_difference(s.x[0], wanted) < 3e-13);
                // In 3 directions time slices do not couple.
                const auto x = lattice.coordinates(from);
                const int other = lattice.site({x[0], x[1], x[2], x[3] + 1});
                CHECK((std::abs(s.x[0][other].c[1]) > 0) == (d == 4));
            }
    }
}

TEST_CASE("Laplace solves several sources together, one by one, on the device and with guesses",
          "[operators][laplace]") {
    const reference::Lattice lattice{{4, 4, 6, 4}};
    const Gauge u = reference::near_unit_gauge(lattice, 0.3, 51);
    constexpr int n = 5;
    std::vector<Fermion> b, zero(n, Fermion(lattice.volume()));
    for (int k = 0; k < n; ++k)
        b.push_back(scaled(std::pow(10, k), random_fermion(lattice, 52 + k)));
    b[3] = zero[0]; // the solution is zero for any guess
    for (const Backend backend : backends()) {
        Laplace<double> m(lattice, backend, u);
        for (const int d : {3, 4})
            for (const int together : {MILCGPU_TOGETHER_AUTO, MILCGPU_BLOCK, MILCGPU_LOCK_STEP, MILCGPU_ONE_BY_ONE})
                for (const int sloppy : {MILCGPU_DOUBLE, MILCGPU_SINGLE, MILCGPU_HALF}) {
                    auto spec = laplace_solve(d, kappa_of(d, 0.05), 1e-11, MILCGPU_DOUBLE, sloppy);
                    spec.together = together;
                    const auto s = m.solve(spec, b, together == MILCGPU_ONE_BY_ONE ? b : zero);
                    CAPTURE(name(backend), d, together, sloppy, s.error);
                    CHECK(s.status == MILCGPU_OK);
                    for (int k = 0; k < n; ++k) {
                        CAPTURE(k, s.reports[k].steps, s.reports[k].true_residual);
                        CHECK(s.reports[k].status == MILCGPU_OK);
                        if (k == 3) {
                            CHECK(s.reports[k].steps == 0);
                            CHECK(reference::dot(s.x[k], s.x[k]).real() == 0);
                            continue;
                        }
                        CHECK(s.reports[k].steps > 0);
                        CHECK(residual_of(lattice, u, d, spec.kappa, b[k], s.x[k]) < 1e-11);
                        CHECK(std::fabs(s.reports[k].source_norm / std::sqrt(reference::dot(b[k], b[k]).real()) - 1) <
                              1e-14);
                    }
                    if (together != MILCGPU_ONE_BY_ONE)
                        continue;
                    // If the guess is the solution, the solve takes no step and leaves even sites as they are.
                    const auto again = m.solve(spec, {b[1]}, {s.x[1]});
                    CHECK(again.reports[0].steps == 0);
                    CHECK(parity_difference(lattice, again.x[0], s.x[1], 0) == 0);
                }
        // Vectors on the device have the bits of host fields.
        auto spec = laplace_solve(4, kappa_of(4, 0.05), 1e-11, MILCGPU_DOUBLE, MILCGPU_SINGLE);
        spec.together = MILCGPU_LOCK_STEP;
        const auto on_host = m.solve(spec, {b[0], b[1]});
        Resident resident(m.session.context, 5);
        const auto load = [&](int index, const Fermion &field) {
            resident.load(index, reference::vector_to_milc<double>(lattice, field));
        };
        load(0, b[0]), load(1, b[1]), load(2, zero[0]), load(3, zero[0]);
        const milcgpu_quarks sources = resident.from(0), solutions = resident.from(2), over = resident.from(1);
        m.must(milcgpu_laplace_solve(m.links, &spec, 2, &sources, &solutions, nullptr));
        const size_t reals = 6 * size_t(lattice.volume());
        for (int k = 0; k < 2; ++k)
            CHECK(same_bits(resident.saved(2 + k, reals), reference::vector_to_milc<double>(lattice, on_host.x[k])));
        CHECK(milcgpu_laplace_solve(m.links, &spec, 2, &sources, &over, nullptr) == MILCGPU_BAD_ARGUMENT);
        const auto what = m.spec(4, spec.kappa);
        // M x is b, also in place.
        m.must(milcgpu_laplace_apply(m.links, &what, MILCGPU_LAPLACE_M, 3, 2, &solutions, &solutions));
        const auto back = reference::vector_from_milc<double>(lattice, resident.saved(3, reals));
        CHECK(reference::relative_difference(back, b[1]) < 1e-11);
        // The call reads all inputs before it writes.
        m.must(milcgpu_laplace_apply(m.links, &what, MILCGPU_LAPLACE_M, 3, 2, &sources, &over));
        for (int k = 0; k < 2; ++k)
            CHECK(reference::relative_difference(
                      reference::vector_from_milc<double>(lattice, resident.saved(1 + k, reals)),
                      reference::laplace_matrix(lattice, u, 4, spec.kappa, b[k])) <= times_measured * row_error[0]);
        const milcgpu_quarks empty = resident.from(4);
        CHECK(milcgpu_laplace_apply(m.links, &what, MILCGPU_LAPLACE_M, 3, 1, &empty, &empty) == MILCGPU_BAD_ARGUMENT);
    }
}

TEST_CASE("Laplace solves one by one write each solution before the next source starts; together all at the end",
          "[operators][laplace]") {
    using Fields = std::vector<std::vector<double>>;
    constexpr int n = 3;
    struct Seen {
        Fields solutions{n};
        std::vector<Fields> when_written{n}; // all solutions at the first step with k of them written
        bool in_order = true;
        static void look(void *user, int, double) {
            Seen &seen = *static_cast<Seen *>(user);
            const auto is_written = [](const std::vector<double> &x) {
                return std::any_of(x.begin(), x.end(), [](double real) { return real != 0; });
            };
            const auto written = size_t(std::count_if(seen.solutions.begin(), seen.solutions.end(), is_written));
            seen.in_order = seen.in_order && written < n &&
                            std::all_of(seen.solutions.begin(), seen.solutions.begin() + long(written), is_written);
            if (seen.in_order && seen.when_written[written].empty())
                seen.when_written[written] = seen.solutions;
        }
    };
    const reference::Lattice lattice{{4, 4, 4, 4}};
    const Gauge u = reference::near_unit_gauge(lattice, 0.3, 51);
    for (const Backend backend : backends()) {
        Laplace<double> m(lattice, backend, u);
        for (const int together : {MILCGPU_ONE_BY_ONE, MILCGPU_BLOCK, MILCGPU_LOCK_STEP}) {
            CAPTURE(name(backend), together);
            Seen seen;
            Fields sources(n);
            milcgpu_field from[n], to[n];
            for (int k = 0; k < n; ++k) {
                sources[k] = reference::vector_to_milc<double>(lattice, random_fermion(lattice, 52 + k));
                seen.solutions[k].assign(sources[k].size(), 0);
                from[k] = Session<double>::field(sources[k]), to[k] = Session<double>::field(seen.solutions[k]);
            }
            auto spec = laplace_solve(4, kappa_of(4, 0.05), 1e-11, MILCGPU_DOUBLE, MILCGPU_SINGLE);
            spec.together = together, spec.progress = Seen::look, spec.user = &seen;
            const milcgpu_quarks source{from, nullptr, 0}, solution{to, nullptr, 0};
            m.must(milcgpu_laplace_solve(m.links, &spec, n, &source, &solution, nullptr));
            CHECK(seen.in_order);
            CHECK_FALSE(seen.when_written[0].empty());
            for (size_t k = 1; k < n; ++k) {
                const Fields &then = seen.when_written[k];
                REQUIRE(then.empty() == (together != MILCGPU_ONE_BY_ONE));
                for (size_t j = 0; j < k && !then.empty(); ++j)
                    CHECK(then[j] == seen.solutions[j]);
            }
        }
    }
}

TEST_CASE("Laplace solves reach double's residual with links in single and with links that are not unitary",
          "[operators][laplace]") {
    const reference::Lattice lattice{{4, 4, 4, 6}};
    for (const Backend backend : backends()) {
        Laplace<float> m(lattice, backend, links_for(lattice, 61));
        const Fermion b = m.rounded(random_fermion(lattice, 62));
        const auto s = m.solve(laplace_solve(4, 0.11, 1e-10, MILCGPU_DOUBLE, MILCGPU_HALF, 12), {b});
        CAPTURE(name(backend), s.error);
        CHECK(s.status == MILCGPU_OK);
        CHECK(s.reports[0].true_residual < 1e-10);
        CHECK(residual_of(lattice, m.u, 4, 0.11, b, s.x[0]) < times_measured * 3.4e-8); // x is rounded to single
        const auto in_double = m.solve(laplace_solve(4, 0.11, 1e-10, MILCGPU_DOUBLE, MILCGPU_DOUBLE, 8), {b});
        CHECK(in_double.status == MILCGPU_OK);
        CHECK(in_double.reports[0].sloppy_reconstruct == 18); // rounded links do not fit 8 reals of double
        Laplace<double> rough(lattice, backend, random_links(lattice, 63));
        const auto granted = rough.solve(laplace_solve(3, 0.01, 1e-10, MILCGPU_DOUBLE, MILCGPU_SINGLE, 12), {b});
        CHECK(granted.status == MILCGPU_OK);
        CHECK(granted.reports[0].sloppy_reconstruct == 18);
        CHECK(residual_of(lattice, rough.u, 3, 0.01, b, granted.x[0]) < 1e-10);
        // Links of norm 3: M has negative eigenvalues, so the solve writes nothing.
        Gauge large = links_for(lattice, 61);
        for (auto &link : large)
            link = 3.0 * link;
        m.must(m.load(large, false));
        for (const int together : {MILCGPU_BLOCK, MILCGPU_LOCK_STEP, MILCGPU_ONE_BY_ONE}) {
            auto spec = laplace_solve(4, 0.11, 1e-10, MILCGPU_DOUBLE, MILCGPU_SINGLE);
            spec.together = together;
            const auto indefinite = m.solve(spec, {b, b}, {b, b});
            CAPTURE(together, indefinite.error);
            CHECK(indefinite.status == MILCGPU_NOT_POSITIVE);
            CHECK(has(indefinite.error, "not positive"));
            CHECK(reference::relative_difference(indefinite.x[1], b) == 0);
        }
        // New links replace the old ones entirely.
        m.must(m.load(links_for(lattice, 64), false));
        const auto after = m.solve(laplace_solve(4, 0.11, 1e-10, MILCGPU_DOUBLE, MILCGPU_HALF, 12), {b});
        CHECK(after.status == MILCGPU_OK);
        CHECK(residual_of(lattice, m.u, 4, 0.11, b, after.x[0]) < times_measured * 3.4e-8);
    }
}

TEST_CASE("the plan of a Laplace solve is the memory that it takes", "[operators][laplace][api]") {
    const reference::Lattice lattice{{4, 4, 6, 8}};
    const Gauge u = links_for(lattice, 65);
    const Fermion b = random_fermion(lattice, 66);
    const auto check = [&](auto real, Backend backend, const char *cut, int sloppy, int together, int n) {
        const Environment environment{{"MILCGPU_TEST", cut}};
        Laplace<decltype(real)> m(lattice, backend, u);
        // Links in single do not fit 12 reals of double.
        auto spec = laplace_solve(3, 0.15, 1e-4, MILCGPU_DOUBLE, sloppy,
                                  sizeof real == 4 && sloppy == MILCGPU_DOUBLE ? 18 : 12);
        spec.together = together;
        char text[2000] = "";
        size_t planned = 0;
        REQUIRE(milcgpu_laplace_plan(m.links, &spec, n, text, sizeof text, &planned) == MILCGPU_OK);
        CHECK(has(text, "packed links"));
        CHECK(has(text, "links as") == (std::string(cut) != "0"));
        CHECK(has(text, "precision") == (sloppy != MILCGPU_DOUBLE));
        const size_t loading = m.session.context->device->peak_bytes();
        REQUIRE(m.solve(spec, std::vector<Fermion>(n, b)).status == MILCGPU_OK);
        const size_t taken = m.session.context->device->peak_bytes();
        CAPTURE(name(backend), sizeof real, cut, sloppy, together, n, planned, loading, taken);
        CHECK(taken <= std::max(loading, planned + 16384)); // sums and scalars
        CHECK(planned <= taken);
    };
    for (const Backend backend : backends())
        for (const int sloppy : {MILCGPU_DOUBLE, MILCGPU_SINGLE, MILCGPU_HALF})
            for (const int n : {1, 5}) {
                check(double(), backend, "0", sloppy, MILCGPU_LOCK_STEP, n);
                check(float(), backend, "0", sloppy, MILCGPU_ONE_BY_ONE, n);
                check(float(), backend, "cut=xt", sloppy, MILCGPU_BLOCK, n);
            }
    Laplace<double> m(lattice, Backend::host, u);
    auto spec = laplace_solve(3, 0.15, 1e-4, MILCGPU_DOUBLE, MILCGPU_SINGLE);
    size_t bytes = 0;
    for (const int n : {0, 1001})
        CHECK(milcgpu_laplace_plan(m.links, &spec, n, nullptr, 0, &bytes) == MILCGPU_BAD_ARGUMENT);
    spec.directions = 5;
    CHECK(milcgpu_laplace_plan(m.links, &spec, 1, nullptr, 0, &bytes) == MILCGPU_BAD_ARGUMENT);
    CHECK(bytes == 0);
}

TEST_CASE("Laplace solves have the same bits for any number of threads", "[operators][laplace][determinism]") {
    const reference::Lattice lattice{{8, 8, 8, 16}};
    const Gauge u = reference::near_unit_gauge(lattice, 0.3, 71);
    const std::vector<Fermion> b = {random_fermion(lattice, 72), random_fermion(lattice, 73)};
    for (const Backend backend : backends())
        for (const int together : {MILCGPU_LOCK_STEP, MILCGPU_ONE_BY_ONE}) {
            std::vector<double> first;
            for (int choice = 0; choice < thread_choices(backend); ++choice) {
                const Threads threads(backend, choice);
                Laplace<double> m(lattice, backend, u, false, threads.block);
                auto spec = laplace_solve(4, 0.12, 1e-8, MILCGPU_DOUBLE, MILCGPU_SINGLE, 12);
                spec.together = together;
                const auto s = m.solve(spec, b);
                CHECK(s.status == MILCGPU_OK);
                const auto x = reference::vector_to_milc<double>(lattice, s.x[1]);
                if (first.empty())
                    first = x;
                CAPTURE(name(backend), together, choice);
                CHECK(same_bits(x, first));
            }
        }
}

TEST_CASE("Laplace calls refuse bad input with a message and write nothing", "[operators][laplace][errors]") {
    const reference::Lattice lattice{{4, 4, 2, 4}};
    for (const Backend backend : backends()) {
        Laplace<double> m(lattice, backend, links_for(lattice, 81));
        const std::vector<Fermion> b = {random_fermion(lattice, 82)}, guess = {random_fermion(lattice, 83)};
        const auto good = laplace_solve(4, 0.1, 1e-8, MILCGPU_DOUBLE, MILCGPU_SINGLE);
        const auto refused = [&](const milcgpu_laplace_solve_spec &spec, const char *words,
                                 milcgpu_status status = MILCGPU_BAD_ARGUMENT) {
            const auto s = m.solve(spec, b, guess);
            CAPTURE(name(backend), words, s.error);
            CHECK(s.status == status);
            CHECK(has(s.error, words));
            CHECK(reference::relative_difference(s.x[0], guess[0]) == 0);
        };
        const auto with = [&](const auto &change) {
            auto spec = good;
            change(spec);
            return spec;
        };
        for (const double kappa : {0.0, -0.1, 0.125, 1.0, double(NAN), double(INFINITY)})
            refused(with([&](auto &s) { s.kappa = kappa; }), "kappa is");
        refused(with([](auto &s) { s.directions = 3, s.kappa = 1.0 / 6; }), "below 1 / 6");
        for (const int directions : {0, 2, 5, -1})
            refused(with([&](auto &s) { s.directions = directions; }), "directions");
        for (const double tolerance : {0.0, -1e-8, 1e-160, double(NAN), double(INFINITY)})
            refused(with([&](auto &s) { s.tolerance = tolerance; }), "tolerance");
        // A source whose norm overflows or underflows when squared does not affect the others.
        for (const double size : {1e160, 1e-170})
            for (const int together : {MILCGPU_ONE_BY_ONE, MILCGPU_BLOCK}) {
                const auto spec = with([&](auto &s) { s.together = together; });
                const auto s = m.solve(spec, {scaled(size, b[0]), b[0]}, {guess[0], guess[0]});
                CAPTURE(size, together, s.error);
                CHECK(s.status == MILCGPU_NAN_OR_INF);
                CHECK(has(s.error, "source 0: source: its norm"));
                CHECK(!has(s.error, "nan"));
                CHECK(reference::relative_difference(s.x[0], guess[0]) == 0);
                CHECK((s.reports[1].status == MILCGPU_OK && s.reports[1].true_residual < 1e-8));
            }
        refused(with([](auto &s) { s.max_iterations = 0; }), "max_iterations");
        refused(with([](auto &s) { s.max_restarts = -2; }), "max_restarts");
        refused(with([](auto &s) { s.reliable_delta = 1; }), "reliable_delta");
        refused(with([](auto &s) { s.jump_limit = NAN; }), "jump_limit");
        refused(with([](auto &s) { s.together = 4; }), "together");
        refused(with([](auto &s) { s.precise.precision = 7; }), "spec.precise.precision");
        refused(with([](auto &s) { s.struct_size -= 8; }), "struct_size");
        refused(with([](auto &s) { s.sloppy.reconstruct = 13; }), "single/12/4", MILCGPU_NOT_BUILT);
        refused(with([](auto &s) { s.precise.precision = MILCGPU_HALF; }), "finer", MILCGPU_NOT_BUILT);
        // Too few iterations: the call returns the iterate and its residual.
        const auto part =
            m.solve(with([](auto &s) { s.max_iterations = 3, s.max_restarts = 1, s.tolerance = 1e-12; }), b);
        CHECK(part.status == MILCGPU_NOT_CONVERGED);
        CHECK(part.reports[0].true_residual > 1e-12);
        CHECK(std::fabs(residual_of(lattice, m.u, 4, 0.1, b[0], part.x[0]) / part.reports[0].true_residual - 1) <
              1e-14);
        // A tolerance below what double reaches.
        const auto floor = m.solve(with([](auto &s) { s.tolerance = 1e-18; }), b);
        CHECK(floor.status == MILCGPU_PRECISION_FLOOR);
        CHECK(floor.reports[0].true_residual < 1e-15);
        // NaN in a source or a guess, at an odd site or at an even one, does not affect the other sources.
        for (const int together : {MILCGPU_BLOCK, MILCGPU_LOCK_STEP, MILCGPU_ONE_BY_ONE}) {
            std::vector<Fermion> bad(4, b[0]), guesses(4, guess[0]);
            bad[0][0].c[2] = NAN, bad[2][1].c[0] = INFINITY, guesses[3][0].c[0] = NAN;
            const auto s = m.solve(with([&](auto &s) { s.together = together; }), bad, guesses);
            CAPTURE(name(backend), together, s.error);
            CHECK(s.status == MILCGPU_NAN_OR_INF);
            CHECK(has(s.error, "sources[0]"));
            for (const int k : {0, 2, 3}) {
                CHECK(s.reports[k].status == MILCGPU_NAN_OR_INF);
                CHECK(parity_difference(lattice, s.x[k], guess[0], 1) == 0);
            }
            CHECK(has(s.reports[3].message, "guess solutions[3]"));
            CHECK(s.reports[1].status == MILCGPU_OK);
            CHECK(residual_of(lattice, m.u, 4, 0.1, b[0], s.x[1]) < 1e-8);
        }
        // Applications.
        auto in = reference::vector_to_milc<double>(lattice, b[0]), out = in;
        const milcgpu_field from = Session<double>::field(in), to = Session<double>::field(out);
        const milcgpu_quarks source{&from, nullptr, 0}, made{&to, nullptr, 0}, neither{nullptr, nullptr, 0};
        const auto apply = [&](milcgpu_laplace_spec spec, int matrix, int parity, int n, const milcgpu_quarks *f,
                               const milcgpu_quarks *t) {
            return milcgpu_laplace_apply(m.links, &spec, matrix, parity, n, f, t);
        };
        CHECK(apply(m.spec(4, 0.2), MILCGPU_LAPLACE_M, 3, 1, &source, &made) == MILCGPU_BAD_ARGUMENT);
        CHECK(apply(m.spec(6, 0.01), MILCGPU_LAPLACE_D, 3, 1, &source, &made) == MILCGPU_BAD_ARGUMENT);
        CHECK(apply(m.spec(4, 0.1), 2, 3, 1, &source, &made) == MILCGPU_BAD_ARGUMENT);
        CHECK(apply(m.spec(4, 0.1), MILCGPU_LAPLACE_M, 4, 1, &source, &made) == MILCGPU_BAD_ARGUMENT);
        CHECK(apply(m.spec(4, 0.1), MILCGPU_LAPLACE_M, 3, 0, &source, &made) == MILCGPU_BAD_ARGUMENT);
        CHECK(apply(m.spec(4, 0.1), MILCGPU_LAPLACE_M, 3, 1, &neither, &made) == MILCGPU_BAD_ARGUMENT);
        CHECK(apply(m.spec(4, 0.1), MILCGPU_LAPLACE_M, 3, 1, nullptr, &made) == MILCGPU_BAD_ARGUMENT);
        CHECK(apply(m.spec(4, 0.1, MILCGPU_DOUBLE, 9), MILCGPU_LAPLACE_M, 3, 1, &source, &made) == MILCGPU_NOT_BUILT);
        CHECK(out == in);
        in[0] = NAN;
        CHECK(apply(m.spec(4, 0.1), MILCGPU_LAPLACE_M, 3, 1, &source, &made) == MILCGPU_NAN_OR_INF);
        CHECK(out[0] == reference::vector_to_milc<double>(lattice, b[0])[0]);
        // A flipped bit of the links: the call returns CORRUPTED and the handle is empty.
        unsigned char byte;
        milcgpu::Device &device = *m.session.context->device;
        device.copy_to_host(&byte, m.links->u.block(1, 2) + 40, 1);
        byte ^= 4;
        device.copy_to_device(m.links->u.block(1, 2) + 40, &byte, 1);
        refused(good, "changed", MILCGPU_CORRUPTED);
        refused(good, "no links");
        // Without memory nothing is kept, and the next call works.
        m.must(m.load(links_for(lattice, 81), false));
        device.inject(milcgpu::Fault::allocation, 3);
        refused(good, "do not fit", MILCGPU_NO_MEMORY);
        device.inject(milcgpu::Fault::none);
        CHECK(m.solve(good, b).status == MILCGPU_OK);
    }
}

TEST_CASE("Laplace refuses odd extents along a direction, and a cut lattice without a halo",
          "[operators][laplace][errors]") {
    LaplaceBench bench({4, 4, 2, 5}, Backend::host);
    const LaplaceOperator A = bench.op(Precision::double_, 18, 4, 0.1, 0);
    const SpinorField in = A.vectors(bench.device, "test"), between = A.between(bench.device, "test");
    HalfCall half;
    half.in = in, half.out = between;
    CHECK(has(thrown_by([&] { A.apply_half(bench.device, half, Epilogue::plain); }), "extent in T is 5"));
    const Geometry cut({4, 4, 2, 6}, {0, 0, 0, 0}, {4, 4, 2, 6}, halo_depth, 8);
    const LinkField u(bench.device, Precision::double_, 18, cut, "test");
    const LaplaceOperator alone(cut, 0, {Precision::double_, Precision::double_, 18}, u, 4, 0.1);
    const SpinorField on_cut = alone.vectors(bench.device, "test"), other = alone.between(bench.device, "test");
    half.in = on_cut, half.out = other;
    CHECK(has(thrown_by([&] { alone.apply_half(bench.device, half, Epilogue::plain); }), "halo"));
}
