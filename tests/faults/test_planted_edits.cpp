// MILC negates one link in place without a notice: the next call with these links returns the result of the new links.
// The tests cover every entry that keeps links on the device, and hash a sample of the links first. Also a source whose
// reals have zero low words.
#include "gpu_kernels/measure/spin_taste.h"
#include "milc_glue/residency/link_watch.h"
#include "tests/plugin_support.h"
#include "tests/reference/gauge_force.h"
#include "tests/reference/wilson.h"

using namespace tests;

namespace {

struct Entry {
    const char *name;
    std::vector<double> *links;               // that it reads
    std::function<std::vector<double>()> run; // returns its result
};

double relative_difference(const std::vector<double> &a, const std::vector<double> &b) {
    double dd = 0, bb = 0;
    for (size_t k = 0; k < a.size(); ++k)
        dd += (a[k] - b[k]) * (a[k] - b[k]), bb += b[k] * b[k];
    return a.size() == b.size() ? std::sqrt(dd / bb) : INFINITY;
}

// Drops all fields on the device.
void forget_all() {
    Plugin &p = plugin();
    p.links->drop_all(), p.meson_links->drop_all(), p.wilson->drop(), p.eigenvectors->drop_all();
    p.vectors.drop_copies(), p.vectors.forget_solutions();
    milcgpu_plugin_host_wrote(MILCGPU_LINKS | MILCGPU_MOMENTA);
}

// More fields of MILC's than Milc has, and all entries on them.
struct Entries {
    Milc &milc;
    const size_t size = milc.source.size();
    std::vector<double> gauge, plain, momenta, // plain: without phases
        psi, other_source, out = milc.source;
    std::vector<Entry> all;

    explicit Entries(Milc &of) : milc(of) {
        const reference::Lattice &lattice = milc.lattice;
        reference::Gauge u = reference::near_unit_gauge(lattice, 0.3, 7);
        plain = reference::links_to_milc<double>(lattice, u);
        reference::apply_phases(lattice, u);
        gauge = reference::links_to_milc<double>(lattice, u);
        momenta = reference::momenta_to_milc(lattice, reference::random_momenta(lattice, 8));
        psi = reference::field_to_milc<double>(lattice, reference::random_wilson_field(lattice, 9), 1);
        other_source = reference::vector_to_milc<double>(lattice, random_fermion(lattice, 10));
        solves(), of_vectors(), of_measurements(), of_the_gauge_field();
    }

    void add(const char *name, std::vector<double> &links, const std::function<std::vector<double>()> &run) {
        all.push_back({name, &links, run});
    }
    // The entry reads fat and long links; the test edits one of each.
    void add_fermionic(const char *name, const std::function<std::vector<double>()> &run) {
        add(name, milc.fat, run), add(name, milc.lng, run);
    }
    milcgpu_plugin_solve_call call() const {
        milcgpu_plugin_solve_call c = milc.call();
        c.tolerance = 1e-10;
        return c;
    }

    void solves() {
        add_fermionic("solve", [this] {
            milc.x.assign(size, 0);
            const milcgpu_plugin_solve_call c = call();
            CHECK(milcgpu_plugin_solve(&c, &milc.report) == 1);
            return milc.x;
        });
        add_fermionic("two sources", [this] {
            milc.x.assign(size, 0), out.assign(size, 0);
            milcgpu_plugin_solve_call c[2] = {call(), call()};
            c[1].source = Milc::field(other_source), c[1].solution = Milc::field(out);
            milcgpu_solve_report reports[2] = {};
            CHECK(milcgpu_plugin_solve_sources(2, c, reports) == 1);
            return out;
        });
        add_fermionic("several masses", [this] {
            Masses masses(milc, {0.4, 0.6}, 1e-10);
            CHECK(masses.solve() == 1);
            return masses.x[1];
        });
        add_fermionic("M x = b", [this] {
            out.assign(size, 0);
            milcgpu_plugin_invert_call c{};
            c.solve = call();
            c.solve.routine = MILCGPU_MAT_INVERT;
            c.odd_from_even = c.n = 1;
            const milcgpu_field from = Milc::field(milc.source), to = Milc::field(out);
            c.sources = &from, c.solutions = &to;
            milcgpu_solve_report even, odd;
            CHECK(milcgpu_plugin_invert(&c, &even, &odd) == 1);
            return out;
        });
        add("clover", plain, [this] {
            std::vector<double> x(psi.size(), 0);
            milcgpu_plugin_clover_call c{};
            c.links = Milc::field(plain), c.kappa = 0.1, c.clover = 1, c.tolerance = 1e-10;
            c.max_iterations = 500, c.max_restarts = 5, c.source = Milc::field(psi), c.solution = Milc::field(x);
            CHECK(milcgpu_plugin_clover_solve(&c, &milc.report) == 1);
            return x;
        });
        add("eigenvalues", milc.lng, [this] {
            constexpr int n = 2;
            std::vector<double> fields(n * size), values(n), residuals(n);
            void *vectors[n];
            for (int k = 0; k < n; ++k)
                vectors[k] = &fields[k * size];
            const milcgpu_plugin_eigen_call c{milc.fat.data(), milc.lng.data(), MILCGPU_EVEN, n, vectors, 1e-10, 1};
            milcgpu_eigen_report report;
            CHECK(milcgpu_plugin_eigensolve(&c, values.data(), residuals.data(), &report) == 1);
            milcgpu_plugin_eigenvectors_drop();
            return values;
        });
    }

    void of_vectors() {
        add_fermionic("D", [this] {
            out.assign(size, 0);
            for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD})
                CHECK(milcgpu_plugin_dslash(milc.fat.data(), milc.lng.data(), parity, Milc::field(milc.source),
                                            Milc::field(out)) == 1);
            return out;
        });
        add_fermionic("M^dag", [this] {
            out = milc.source;
            CHECK(milcgpu_plugin_adjoint(milc.fat.data(), milc.lng.data(), 0.4, Milc::field(out)) == 1);
            return out;
        });
        add("D of Wilson fermions", plain, [this] {
            std::vector<double> d(psi.size(), 0);
            CHECK(milcgpu_plugin_wilson_dslash(Milc::field(plain), 1, MILCGPU_EVEN_AND_ODD, Milc::field(psi),
                                               Milc::field(d)) == 1);
            return d;
        });
    }

    void of_measurements() {
        static const int origin[4] = {};
        add("operator of one link", gauge, [this] {
            CHECK(milcgpu_plugin_spin_taste(gauge.data(), 1, nullptr, nullptr, 128 + 15, origin,
                                            Milc::field(milc.source), Milc::field(out)) == 1);
            std::vector<double> sum = out; // all directions
            for (int dir = 0; dir < 4; ++dir) {
                CHECK(milcgpu_plugin_shift(gauge.data(), dir, MILCGPU_SYMMETRIC, Milc::field(milc.source),
                                           Milc::field(out)) == 1);
                sum.insert(sum.end(), out.begin(), out.end());
            }
            return sum;
        });
        add("smearing", gauge, [this] {
            std::vector<double> sum;
            for (const bool laplacian : {false, true}) {
                out = milc.source;
                CHECK((laplacian ? milcgpu_plugin_laplacian(gauge.data(), -1, Milc::field(out))
                                 : milcgpu_plugin_gauss_smear(gauge.data(), 1.5, 3, -1, Milc::field(out))) == 1);
                sum.insert(sum.end(), out.begin(), out.end());
            }
            return sum;
        });
        int fat_operator = 0;
        while (fat_operator < 1000 && milcgpu_plugin_links_of_operator(fat_operator) != 2)
            ++fat_operator;
        REQUIRE(fat_operator < 1000);
        const auto correlators = [this](int index, const void *links, const void *fat, const void *lng) {
            const milcgpu_momentum momentum = {{0, 0, 0}, {2, 2, 2}};
            const milcgpu_meson_term term = {index, 0, 0, 1, 0};
            auto spec = sized<milcgpu_meson_spec>();
            spec.n_momenta = spec.n_terms = spec.n_correlators = 1;
            spec.momenta = &momentum, spec.terms = &term;
            const void *const fats[2] = {fat, fat}, *const lngs[2] = {lng, lng};
            std::vector<double> sums(2 * static_cast<size_t>(milc.lattice.n[3]), 0);
            CHECK(milcgpu_plugin_contract(links, 1, fats, lngs, &spec, Milc::field(milc.source),
                                          Milc::field(other_source), sums.data()) == 1);
            return sums;
        };
        add("contraction", gauge, [=] { return correlators(128 + 15, gauge.data(), nullptr, nullptr); });
        add("contraction with fat links", milc.fat,
            [=] { return correlators(fat_operator, gauge.data(), milc.fat.data(), milc.lng.data()); });
    }

    void of_the_gauge_field() {
        add("fat and long links", gauge, [this] {
            auto spec = filled(milcgpu_asqtad_defaults, 0.9);
            spec.unitarity = -1;
            std::vector<double> fat(gauge.size()), lng(gauge.size());
            const double eps = 0;
            void *const fats = fat.data(), *const lngs = lng.data();
            milcgpu_fatlink_report report{};
            CHECK(milcgpu_plugin_links(
                      {MILCGPU_LOAD_FN_LINKS, &spec, gauge.data(), 1, &eps, &fats, &lngs, nullptr, nullptr, nullptr, 0},
                      &report) == 1);
            return fat;
        });
        const auto moved = [this](const std::function<int(const milcgpu_plugin_lattice &)> &force) {
            std::vector<double> h = momenta;
            const milcgpu_plugin_lattice sites{Milc::field(gauge), Milc::field(h)};
            CHECK(force(sites) == 1);
            CHECK(milcgpu_plugin_host_needs(MILCGPU_MOMENTA, "a test") == 1);
            milcgpu_plugin_host_wrote(MILCGPU_MOMENTA); // h is freed
            return h;
        };
        add("gauge force", gauge, [=] {
            milcgpu_loops loops{};
            loops.plaquette = 1;
            return moved([&](const auto &sites) { return milcgpu_plugin_gauge_force(&sites, &loops, 1.5, 0.05); });
        });
        add("fermion force", gauge, [=] {
            auto how = filled(milcgpu_asqtad_defaults, 0.9);
            const double residue = 0.7;
            milcgpu_force_spec spec{};
            spec.struct_size = sizeof spec, spec.links = &how, spec.eps = 0.03;
            spec.n_terms = 1, spec.residues = &residue;
            const milcgpu_field x = Milc::field(milc.source);
            milcgpu_force_report report{};
            return moved([&](const auto &sites) { return milcgpu_plugin_fermion_force(&sites, &spec, &x, &report); });
        });
        add("plaquettes", gauge, [this] {
            const milcgpu_plugin_lattice sites{Milc::field(gauge), Milc::field(momenta)};
            std::vector<double> sums(2);
            CHECK(milcgpu_plugin_plaquettes(&sites, &sums[0], &sums[1]) == 1);
            return sums;
        });
    }
};

// Negates link `number`.
void negate(std::vector<double> &links, size_t number) {
    for (size_t k = 18 * number; k < 18 * (number + 1); ++k)
        links[k] = -links[k];
}

} // namespace

TEST_CASE("after MILC negates any one link, each entry returns the result of the new links", "[plugin][edits]") {
    for (const Backend backend : backends()) {
        const Environment environment{{"MILCGPU_BACKEND", backend_name(backend)}, {"MILCGPU_TEST", "keep"}};
        Milc milc;
        said_by([&] {
            REQUIRE(milc.start() == 1);
            Plugin &p = plugin(); // as on a large lattice of a GPU
            p.links = std::make_unique<LinkCache>(p.collective, p.context, p.sites, p.real(), false, p.deferred);
            p.watch_threads = 2;
            Entries entries(milc);
            reference::Rng rng(17);
            for (const Entry &entry : entries.all) {
                int different = 0; // some entries read one direction only
                for (int dir = 0; dir < 4; ++dir) {
                    forget_all();
                    const std::vector<double> before = entry.run();
                    negate(*entry.links, 4 * (rng() % milc.lattice.volume()) + dir);
                    const std::vector<double> resident = entry.run();
                    forget_all();
                    const std::vector<double> anew = entry.run();
                    INFO(entry.name << ", edit of direction " << dir);
                    CHECK(relative_difference(resident, anew) < 1e-7);
                    different += relative_difference(before, anew) > 1e-6;
                }
                INFO(entry.name);
                CHECK(different > 0);
            }
        });
    }
}

TEST_CASE("after MILC negates one link of a rank's 16384 sites, the next solve is right", "[plugin][edits]") {
    for (const Backend backend : backends()) {
        const Environment environment{{"MILCGPU_BACKEND", backend_name(backend)}, {"MILCGPU_VERBOSE", "0"}};
        Milc milc(reference::Lattice{{8, 8, 16, 16}});
        REQUIRE(milc.start() == 1);
        milcgpu_plugin_solve_call call = milc.call();
        call.mass = 2;
        call.tolerance = 1e-9;
        reference::Rng rng(18);
        for (int k = 0; k < 4; ++k) {
            CHECK(milcgpu_plugin_solve(&call, &milc.report) == 1);
            negate(k % 2 == 0 ? milc.fat : milc.lng, rng() % (milc.fat.size() / 18));
        }
        said_by([&] { CHECK(milcgpu_plugin_solve(&call, &milc.report) == 1); });
        CHECK(milc.residual(milc.x, call.mass) < 1.01e-9);
    }
}

TEST_CASE("after two sites of a Z2 source are exchanged, a solve returns the solution of the new source",
          "[plugin][edits]") {
    for (const Backend backend : backends()) {
        const Environment environment{
            {"MILCGPU_BACKEND", backend_name(backend)}, {"MILCGPU_VERBOSE", "0"}, {"MILCGPU_TEST", "keep"}};
        Milc milc;
        REQUIRE(milc.start() == 1);
        std::mt19937_64 random(1); // a hash by products of 32 bits does not see an exchange of sites 4 and 20
        for (double &x : milc.source)
            x = (random() & 1) != 0 ? 1 : -1;
        Masses masses(milc, {0.3, 0.6}, 1e-9);
        REQUIRE(masses.solve() == 1);
        std::swap_ranges(&milc.source[6 * 4], &milc.source[6 * 5], &milc.source[6 * 20]);
        milcgpu_plugin_solve_call call = milc.call();
        call.mass = 0.3, call.tolerance = 1e-8;
        call.solution = Milc::field(masses.x[0]);
        const long known = plugin().ledger[MILCGPU_KS_CONGRAD].known;
        CHECK(milcgpu_plugin_solve(&call, &milc.report) == 1);
        milc.b = reference::vector_from_milc<double>(milc.lattice, milc.source);
        CHECK(milc.residual(masses.x[0], call.mass) < 1.01e-8);
        CHECK(plugin().ledger[MILCGPU_KS_CONGRAD].known == known);
    }
}
