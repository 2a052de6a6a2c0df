// Refusals that the walks over single arguments (test_calls.cpp) cannot reach: values with a meaning, NaN in fields,
// counts that no array has, outputs that are inputs. Also calls that are legal although they do nothing.
#include "milc_glue/api/apart.h"
#include "tests/calls_whole.h"
#include <limits>
#include <random>

using namespace tests;

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

// Handles, their contents, and fields.
struct Filled : Whole {
    World &w = world;
    milcgpu_context *const context = w.context;
    milcgpu_links *const k = w.links();
    std::vector<double> colour = fields_of({4, 4, 4, 4}).colour[0], dirac = fields_of({4, 4, 4, 4}).dirac[0];
    const milcgpu_field b = session.field(colour), psi = session.field(dirac);
    explicit Filled(milcgpu::Backend backend) : Whole(backend) {}
};

} // namespace

TEST_CASE("no shifts are legal; masses, sources or solutions with NaN, plans in half, wrong counts and pitches are not",
          "[errors][null]") {
    for (const milcgpu::Backend backend : backends()) {
        Filled f(backend);
        milcgpu_context *const c = f.context;
        milcgpu_links *const k = f.k;
        std::vector<double> out = f.colour;
        const milcgpu_field x = f.session.field(out);

        auto none = sized<milcgpu_multi_mass_spec>();
        none.parity = MILCGPU_EVEN, none.max_iterations = 10, none.max_restarts = 1;
        none.shared.precision = MILCGPU_DOUBLE;
        auto of_none = sized<milcgpu_multi_mass_report>();
        of_none.status = -1;
        CHECK(milcgpu_staggered_multi_mass(k, &none, &f.b, nullptr, &of_none) == MILCGPU_OK);
        CHECK(of_none.status == MILCGPU_OK);
        CHECK(of_none.links_version == milcgpu_links_version(k));
        CHECK(milcgpu_staggered_multi_mass_vectors(k, &none, &f.b, f.w.vectors(), 0, nullptr) == MILCGPU_OK);
        size_t bytes = 0;
        CHECK(milcgpu_multi_mass_plan(c, MILCGPU_DOUBLE, &none, nullptr, 0, &bytes) == MILCGPU_OK);
        const auto no_sources = solve_spec(0.2, 1e-6, MILCGPU_DOUBLE, MILCGPU_DOUBLE);
        CHECK(milcgpu_sources_plan(c, MILCGPU_DOUBLE, &no_sources, MILCGPU_BLOCK, 0, nullptr, 0, &bytes) == MILCGPU_OK);

        // Scalars.
        double residual = -1;
        auto how = solve_spec(0.2, 1e-6, MILCGPU_DOUBLE, MILCGPU_DOUBLE);
        for (const double mass : {not_a_number, double(INFINITY), 1e200}) {
            CHECK(milcgpu_staggered_residual(k, MILCGPU_EVEN, mass, &f.b, &x, &residual) == MILCGPU_BAD_ARGUMENT);
            CHECK(last_error_says("mass is "));
            how.mass = mass;
            CHECK(milcgpu_staggered_solve(k, &how, &f.b, &x, nullptr) == MILCGPU_BAD_ARGUMENT);
            CHECK(last_error_says("mass is "));
        }
        how.mass = 0.2;
        CHECK(milcgpu_vectors_sum(f.w.vectors(), 0, 1, &not_a_number, MILCGPU_EVEN, &x) == MILCGPU_NAN_OR_INF);
        CHECK(last_error_says("weights[0] is nan"));
        auto hisq = filled(milcgpu_hisq_defaults);
        hisq.eps_naik = not_a_number;
        milcgpu_links *made = nullptr;
        const milcgpu_fatlink_set set{0.1, nullptr, nullptr, &made};
        CHECK(milcgpu_links_make(c, &hisq, &f.w.links_in, &set, 1, nullptr, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(made == nullptr);
        const double residue = 1;
        auto force = sized<milcgpu_force_spec>();
        force.links = &hisq, force.eps = 0.01, force.n_terms = 1, force.residues = &residue;
        CHECK(milcgpu_momenta_add_fermion_force(f.w.gauge(), &force, &f.b, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(last_error_says("spec.links.eps_naik is nan"));

        // NaN in fields: the message names the field, and nothing is written.
        std::vector<double> bad = f.colour;
        const size_t first_odd = 3 * size_t(f.session.lattice.volume());
        bad[0] = bad[first_odd] = not_a_number;
        const milcgpu_field nan = f.session.field(bad);
        CHECK(milcgpu_staggered_residual(k, MILCGPU_EVEN, 0.1, &f.b, &nan, &residual) == MILCGPU_NAN_OR_INF);
        CHECK(last_error_says("solution: the site x y z t = 0 0 0 0 holds"));
        CHECK(milcgpu_staggered_residual(k, MILCGPU_ODD, 0.1, &nan, &x, &residual) == MILCGPU_NAN_OR_INF);
        CHECK(last_error_says("source: the site x y z t = 1 0 0 0 holds"));
        CHECK(residual == -1);
        for (const int precision : {MILCGPU_DOUBLE, MILCGPU_SINGLE, MILCGPU_HALF}) {
            const milcgpu_storage what{precision, 18};
            CHECK(milcgpu_staggered_dslash(k, &what, MILCGPU_EVEN, &nan, &x) == MILCGPU_NAN_OR_INF);
            CHECK(last_error_says("source: the site x y z t = 1 0 0 0 holds"));
        }
        REQUIRE(milcgpu_vectors_load(f.w.vectors(), 3, MILCGPU_ODD, &nan) == MILCGPU_OK); // values are not tested
        CHECK(milcgpu_vectors_dslash(f.w.vectors(), 3, k, MILCGPU_EVEN) == MILCGPU_NAN_OR_INF);
        CHECK(milcgpu_vectors_save(f.w.vectors(), 3, MILCGPU_EVEN, &x) == MILCGPU_BAD_ARGUMENT); // empty
        const milcgpu_vector right{f.w.vectors(), 0}, wrong{f.w.vectors(), 3}, to{f.w.vectors(), 2};
        CHECK(milcgpu_vectors_minus_dslash(k, MILCGPU_EVEN, 1, 1, right, wrong, to) == MILCGPU_NAN_OR_INF);
        CHECK(milcgpu_vectors_minus_dslash(k, MILCGPU_ODD, 1, 1, wrong, right, to) == MILCGPU_NAN_OR_INF);
        CHECK(out == f.colour);

        // Plans of fields that a host cannot have.
        CHECK(milcgpu_memory_plan(c, MILCGPU_HALF, &how, nullptr, 0, &bytes) == MILCGPU_BAD_ARGUMENT);
        CHECK(last_error_says("host_precision is half"));
        CHECK(milcgpu_sources_plan(c, MILCGPU_HALF, &how, MILCGPU_BLOCK, 2, nullptr, 0, &bytes) ==
              MILCGPU_BAD_ARGUMENT);
        CHECK(milcgpu_sources_plan(c, MILCGPU_DOUBLE, &how, 4, 2, nullptr, 0, &bytes) == MILCGPU_BAD_ARGUMENT);
        CHECK(milcgpu_sources_plan(c, MILCGPU_DOUBLE, &how, MILCGPU_BLOCK, -1, nullptr, 0, &bytes) ==
              MILCGPU_BAD_ARGUMENT);
        CHECK(milcgpu_multi_mass_plan(c, MILCGPU_HALF, &none, nullptr, 0, &bytes) == MILCGPU_BAD_ARGUMENT);

        // Counts that no array has, and pitches whose product with the sites overflows.
        constexpr int many = 1 << 30;
        milcgpu_hisq_defaults(&hisq, sizeof hisq);
        force.n_terms = many;
        CHECK(milcgpu_momenta_add_fermion_force(f.w.gauge(), &force, &f.b, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(last_error_says("spec.n_terms is 1073741824"));
        CHECK(milcgpu_momenta_add_force_of_vectors(f.w.gauge(), &force, f.w.vectors(), nullptr) ==
              MILCGPU_BAD_ARGUMENT);
        force.n_terms = 1, force.n_sets = many;
        CHECK(milcgpu_momenta_add_fermion_force(f.w.gauge(), &force, &f.b, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(milcgpu_links_make(c, &hisq, &f.w.links_in, &set, many, nullptr, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(milcgpu_staggered_solve_sources(k, &how, MILCGPU_BLOCK, many, &f.b, &x, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(milcgpu_sources_plan(c, MILCGPU_DOUBLE, &how, MILCGPU_BLOCK, many, nullptr, 0, &bytes) ==
              MILCGPU_BAD_ARGUMENT);
        const milcgpu_wilson_spec wilson{sizeof wilson, 0.1, 0, 0, MILCGPU_WILSON_CG};
        const auto wilson_how = solve_spec(0, 1e-6, MILCGPU_DOUBLE, MILCGPU_DOUBLE);
        CHECK(milcgpu_wilson_solve_sources(f.w.wilson(), &wilson, &wilson_how, MILCGPU_BLOCK, many, &f.psi, &f.psi,
                                           nullptr) == MILCGPU_BAD_ARGUMENT);
        const milcgpu_momentum still{{0, 0, 0}, {MILCGPU_EVEN, MILCGPU_EVEN, MILCGPU_EVEN}};
        const milcgpu_quarks quarks{&f.b, nullptr, 0};
        double sums[2 * 16 * 4];
        for (int which = 0; which < 3; ++which) {
            auto mesons = sized<milcgpu_meson_spec>();
            auto dirac = sized<milcgpu_dirac_meson_spec>();
            mesons.momenta = dirac.momenta = &still;
            mesons.n_momenta = dirac.n_momenta = which == 0 ? many : 1;
            mesons.n_terms = dirac.n_terms = which == 1 ? many : 0;
            mesons.n_correlators = dirac.n_correlators = which == 2 ? many : 1;
            CHECK(milcgpu_quarks_contract(f.w.meson(), &mesons, nullptr, nullptr, 1, &quarks, &quarks, sums) ==
                  MILCGPU_BAD_ARGUMENT);
            CHECK(milcgpu_dirac_mesons(c, &dirac, 1, &f.psi, &f.psi, sums) == MILCGPU_BAD_ARGUMENT);
        }
        auto slices = sized<milcgpu_dirac_spec>();
        slices.n_momenta = many, slices.momenta = &still;
        CHECK(milcgpu_dirac_slices(c, &slices, &f.psi, &f.psi, sums) == MILCGPU_BAD_ARGUMENT);
        for (const size_t pitch : {size_t(1) << 63, size_t(1) << 60, size_t(1) << 40}) {
            milcgpu_field far = f.b;
            far.pitch_bytes = pitch;
            CHECK(milcgpu_staggered_solve(k, &how, &far, &x, nullptr) == MILCGPU_BAD_ARGUMENT);
            CHECK(last_error_says("source: pitch of"));
        }
        CHECK(out == f.colour);
        CHECK(milcgpu_staggered_solve(k, &how, &f.b, &x, nullptr) == MILCGPU_OK);
    }
}

TEST_CASE("outputs that share memory with another output or a source are refused", "[errors][null]") {
    for (const milcgpu::Backend backend : backends()) {
        Filled f(backend);
        milcgpu_links *const k = f.k;
        milcgpu_context *const c = f.context;
        const std::vector<double> colour = f.colour, dirac = f.dirac;
        std::vector<double> room(4 * 72 * f.w.sites, 0.5);
        const std::vector<double> before = room;
        const size_t sites = size_t(f.session.lattice.volume());
        const auto at = [&](size_t real, size_t pitch = 0) { // in `room`
            return milcgpu_field{room.data() + real, MILCGPU_DOUBLE, 8 * pitch};
        };
        const auto how = solve_spec(0.2, 1e-6, MILCGPU_DOUBLE, MILCGPU_DOUBLE);
        const milcgpu_wilson_spec wilson{sizeof wilson, 0.1, 0, 0, MILCGPU_WILSON_CG};
        const auto wilson_how = solve_spec(0, 1e-6, MILCGPU_DOUBLE, MILCGPU_DOUBLE);
        auto poisson = filled(milcgpu_laplace_solve_defaults);
        poisson.kappa = 0.1, poisson.tolerance = 1e-6;
        const milcgpu_laplace_spec laplace{sizeof laplace, 3, 0.1, {MILCGPU_DOUBLE, 0}};
        const milcgpu_pole poles[] = {{1, 1e-6, 0}, {2, 1e-6, 0}};
        auto masses = sized<milcgpu_multi_mass_spec>();
        masses.parity = MILCGPU_EVEN, masses.max_iterations = 500, masses.max_restarts = 1;
        masses.shared.precision = MILCGPU_DOUBLE, masses.n_shifts = 2, masses.shifts = poles;
        auto hisq = filled(milcgpu_hisq_defaults);

        // A call with two outputs, which is refused if they overlap.
        const auto apart = [&](const char *name, const char *other, size_t reals,
                               const std::function<milcgpu_status(const milcgpu_field *)> &call) {
            CAPTURE(name);
            const size_t size = reals * sites, far = 2 * size;
            const auto refused = [&](const milcgpu_field &a, const milcgpu_field &b, const char *first,
                                     const char *second) {
                const milcgpu_field two[] = {a, b};
                CHECK(call(two) == MILCGPU_BAD_ARGUMENT);
                CHECK(last_error_says(std::string(first) + " overlaps " + second));
                CHECK(room == before);
            };
            for (const size_t shift : {size_t(0), size_t(2), reals, size / 2 - reals})
                refused(at(far), at(far + shift), name, other), refused(at(far + shift), at(far), name, other);
            refused(at(0, 2 * reals), at(reals - 2, 2 * reals), name, other);
            refused(at(0, 3 * reals), at(3 * reals + 2, reals), name, other);      // inside
            const milcgpu_field good[] = {at(0, 2 * reals), at(reals, 2 * reals)}; // members of a site
            CHECK(call(good) == MILCGPU_OK);
            room = before;
        };
        const milcgpu_field of_both[] = {f.b, f.b}, of_psi[] = {f.psi, f.psi};
        const milcgpu_quarks sources{of_both, nullptr, 0};
        for (const int together : {MILCGPU_TOGETHER_AUTO, MILCGPU_BLOCK, MILCGPU_ONE_BY_ONE, MILCGPU_LOCK_STEP})
            apart("solutions[1]", "solutions[0]", 6, [&](const milcgpu_field *x) {
                return milcgpu_staggered_solve_sources(k, &how, together, 2, of_both, x, nullptr);
            });
        apart("solutions[1]", "solutions[0]", 24, [&](const milcgpu_field *x) {
            return milcgpu_wilson_solve_sources(f.w.wilson(), &wilson, &wilson_how, MILCGPU_BLOCK, 2, of_psi, x,
                                                nullptr);
        });
        apart("solutions[1]", "solutions[0]", 6, [&](const milcgpu_field *x) {
            const milcgpu_quarks to{x, nullptr, 0};
            return milcgpu_laplace_solve(f.w.meson(), &poisson, 2, &sources, &to, nullptr);
        });
        apart("solutions[1]", "solutions[0]", 6,
              [&](const milcgpu_field *x) { return milcgpu_staggered_multi_mass(k, &masses, &f.b, x, nullptr); });
        apart("solutions[1]", "solutions[0]", 24, [&](const milcgpu_field *x) {
            return milcgpu_wilson_multi_mass(f.w.wilson(), &wilson, &masses, &f.psi, x, nullptr);
        });
        apart("to[1]", "to[0]", 6, [&](const milcgpu_field *x) {
            const milcgpu_quarks to{x, nullptr, 0};
            return milcgpu_laplace_apply(f.w.meson(), &laplace, MILCGPU_LAPLACE_M, 3, 2, &sources, &to);
        });
        apart("to[1]", "to[0]", 6, [&](const milcgpu_field *x) {
            const milcgpu_quarks to{x, nullptr, 0};
            return milcgpu_quarks_shift(f.w.meson(), 0, MILCGPU_FORWARD, nullptr, 2, &sources, &to);
        });
        const int origin[4] = {};
        apart("to[1]", "to[0]", 6, [&](const milcgpu_field *x) {
            const milcgpu_quarks to{x, nullptr, 0};
            return milcgpu_quarks_spin_taste(f.w.meson(), nullptr, milcgpu_spin_taste_index("pion5"), origin, 2,
                                             &sources, &to);
        });
        apart("quarks[1]", "quarks[0]", 6, [&](const milcgpu_field *x) {
            const milcgpu_quarks both{x, nullptr, 0};
            return milcgpu_quarks_gauss_smear(f.w.meson(), 2, 1, 1, -1, 2, &both);
        });
        apart("quarks[1]", "quarks[0]", 6, [&](const milcgpu_field *x) {
            const milcgpu_quarks both{x, nullptr, 0};
            return milcgpu_quarks_laplacian(f.w.meson(), 2, -1, 2, &both);
        });
        apart("sets[0].lng", "sets[0].fat", 72, [&](const milcgpu_field *x) {
            const milcgpu_fatlink_set set{0, x, x + 1, nullptr};
            return milcgpu_links_make(c, &hisq, &f.w.links_in, &set, 1, nullptr, nullptr);
        });
        apart("hisq.w", "hisq.v", 72, [&](const milcgpu_field *x) {
            const milcgpu_hisq_links made{x, nullptr, x + 1};
            return milcgpu_links_make(c, &hisq, &f.w.links_in, nullptr, 0, &made, nullptr);
        });
        apart("hisq.y", "sets[0].fat", 72, [&](const milcgpu_field *x) {
            const milcgpu_fatlink_set set{0, x, nullptr, nullptr};
            const milcgpu_hisq_links made{nullptr, x + 1, nullptr};
            return milcgpu_gauge_make_links(f.w.gauge(), &hisq, &set, 1, &made, nullptr);
        });

        // A source is read while another solution is written.
        const milcgpu_field in[] = {at(0), at(6 * sites)}, out[] = {at(6 * sites + 6), at(24 * sites)};
        CHECK(milcgpu_staggered_solve_sources(k, &how, MILCGPU_ONE_BY_ONE, 2, in, out, nullptr) ==
              MILCGPU_BAD_ARGUMENT);
        CHECK(last_error_says("solutions[0] overlaps sources[1]"));
        CHECK(room == before);
        // The even halves of two fields may be neighbours, because odd sites are not touched.
        const milcgpu_field halves[] = {at(0), at(3 * sites)};
        CHECK(milcgpu_staggered_solve_sources(k, &how, MILCGPU_ONE_BY_ONE, 2, of_both, halves, nullptr) == MILCGPU_OK);
        CHECK(std::equal(room.begin() + 3 * sites, room.begin() + 6 * sites, room.begin()));
        CHECK((f.colour == colour && f.dirac == dirac));
        auto lowest = filled(milcgpu_eigen_defaults);
        lowest.count = 2, lowest.precision = MILCGPU_SINGLE;
        milcgpu_eigenvectors *made = nullptr;
        REQUIRE(milcgpu_eigenvectors_compute(k, &lowest, &made, nullptr) == MILCGPU_OK);
        double values[3] = {-1, -1, -1};
        CHECK(milcgpu_eigenvectors_values(made, values, values + 1) == MILCGPU_BAD_ARGUMENT);
        CHECK(last_error_says("residuals overlaps values"));
        CHECK((values[0] == -1 && values[1] == -1 && values[2] == -1));
        milcgpu_eigenvectors_destroy(made);
    }
}

TEST_CASE("fields overlap exactly where they share a byte", "[errors]") {
    std::mt19937 random(3);
    const auto below = [&](unsigned n) { return random() % n; };
    int together = 0;
    for (int trial = 0; trial < 4000; ++trial) {
        std::vector<milcgpu::Occupied> two;
        std::set<size_t> bytes[2];
        for (std::set<size_t> &of : bytes) {
            const size_t first = below(40), size = 1 + below(4), pitch = size + below(5), records = below(6);
            two.push_back({&of == bytes ? "a" : "b", true, first, size, pitch, records});
            for (size_t k = 0; k < records; ++k)
                for (size_t j = 0; j < size; ++j)
                    of.insert(first + k * pitch + j);
        }
        const bool share =
            std::any_of(bytes[0].begin(), bytes[0].end(), [&](size_t byte) { return bytes[1].count(byte) > 0; });
        together += share;
        CAPTURE(trial);
        const std::string said = thrown_by([&] { milcgpu::require_apart(two); });
        CHECK(said.substr(0, 13) == (share ? "b overlaps a:" : ""));
        two[1].written = false;
        CHECK(thrown_by([&] { milcgpu::require_apart(two); }).substr(0, 13) == (share ? "a overlaps b:" : ""));
        two[0].written = false;
        CHECK(thrown_by([&] { milcgpu::require_apart(two); }).empty());
    }
    CHECK((together > 1000 && together < 3000));
}

TEST_CASE("addresses between numbers; beta and verbosity out of range", "[errors][null]") {
    for (const milcgpu::Backend backend : backends()) {
        Filled f(backend);
        milcgpu_links *const k = f.k;
        const std::vector<double> colour = f.colour;
        std::vector<double> out = colour;
        const milcgpu_field x = f.session.field(out);
        const auto how = solve_spec(0.2, 1e-6, MILCGPU_DOUBLE, MILCGPU_DOUBLE);
        milcgpu_field between = x;
        between.data = static_cast<char *>(x.data) + 4;
        CHECK(milcgpu_staggered_solve(k, &how, &f.b, &between, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(last_error_says("multiple of 8"));
        for (const double beta : {0., -1., 1e-300})
            CHECK(milcgpu_gauge_heat_bath(f.w.bare(), beta, 1, nullptr, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(last_error_says("beta is 1e-300"));
        CHECK(out == colour);
        CHECK(f.colour == colour);
        const auto refused = [&](int milcgpu_options::*member, int value, const char *name) {
            auto options = sized<milcgpu_options>();
            options.*member = value;
            const milcgpu_layout layout = layout_of(f.session.lattice);
            milcgpu_context *made = nullptr;
            CHECK(milcgpu_context_create(&layout, &options, &made) == MILCGPU_BAD_ARGUMENT);
            CHECK(last_error_says(name));
            CHECK(made == nullptr);
        };
        for (const int verbosity : {-2, 3, 1000})
            refused(&milcgpu_options::verbosity, verbosity, "verbosity");
        for (const int value : {-5, 99}) {
            refused(&milcgpu_options::backend, value, "backend");
            refused(&milcgpu_options::block_size, value, "block_size");
        }
        // A time of 63 characters, and one that is too long.
        for (const size_t length : {63, 64}) {
            const std::string time(length, 'x');
            auto of_file = sized<milcgpu_gauge_file>();
            CHECK((milcgpu_gauge_file_write(f.context, f.w.file("time"), &f.w.bare_in, time.c_str(), &of_file) ==
                   MILCGPU_OK) == (length < 64));
            CHECK((length == 64 || of_file.time == time));
            CHECK((milcgpu_eigenvectors_write(f.w.eigen(), f.w.file("time"), MILCGPU_SINGLE, time.c_str()) ==
                   MILCGPU_OK) == (length < 64));
        }
        CHECK(last_error_says("time"));
    }
}
