// Refusals that no walk over single arguments (test_calls.cpp) makes: values with a meaning, NaN in fields, counts that
// no array has, outputs that are inputs, and what is legal although it is nothing.
#include "tests/calls_whole.h"
#include <limits>

using namespace tests;

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

// Handles with what they need, and fields.
struct Filled : Whole {
    World &w = world;
    milcgpu_context *const context = w.context;
    milcgpu_links *const k = w.links();
    std::vector<double> colour = fields_of({4, 4, 4, 4}).colour[0], dirac = fields_of({4, 4, 4, 4}).dirac[0];
    const milcgpu_field b = session.field(colour), psi = session.field(dirac);
    explicit Filled(milcgpu::Backend backend) : Whole(backend) {}
};

} // namespace

TEST_CASE("no shifts: nothing to do; a mass, a source or a solution that is no number; plans in half; counts, pitches",
          "[errors][null]") {
    for (const milcgpu::Backend backend : backends()) {
        Filled f(backend);
        milcgpu_context *const c = f.context;
        milcgpu_links *const k = f.k;
        const auto says = [](const char *part) {
            return std::string(milcgpu_last_error()).find(part) != std::string::npos;
        };
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

        // Scalars.
        double residual = -1;
        auto how = solve_spec(0.2, 1e-6, MILCGPU_DOUBLE, MILCGPU_DOUBLE);
        for (const double mass : {not_a_number, double(INFINITY), 1e200}) {
            CHECK(milcgpu_staggered_residual(k, MILCGPU_EVEN, mass, &f.b, &x, &residual) == MILCGPU_BAD_ARGUMENT);
            CHECK(says("4 m^2 must be finite"));
            how.mass = mass;
            CHECK(milcgpu_staggered_solve(k, &how, &f.b, &x, nullptr) == MILCGPU_BAD_ARGUMENT);
            CHECK(says("4 m^2 must be finite"));
        }
        how.mass = 0.2;
        CHECK(milcgpu_vectors_sum(f.w.vectors(), 0, 1, &not_a_number, MILCGPU_EVEN, &x) == MILCGPU_NAN_OR_INF);
        CHECK(says("weights[0] is nan"));
        milcgpu_fatlink_spec hisq;
        milcgpu_hisq_defaults(&hisq, sizeof hisq);
        hisq.eps_naik = not_a_number;
        milcgpu_links *made = nullptr;
        const milcgpu_fatlink_set set{0.1, nullptr, nullptr, &made};
        CHECK(milcgpu_links_make(c, &hisq, &f.w.links_in, &set, 1, nullptr, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(made == nullptr);
        const double residue = 1;
        auto force = sized<milcgpu_force_spec>();
        force.links = &hisq, force.eps = 0.01, force.n_terms = 1, force.residues = &residue;
        CHECK(milcgpu_momenta_add_fermion_force(f.w.gauge(), &force, &f.b, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(says("spec.links.eps_naik is nan"));

        // NaN in fields: what is named, and nothing is written.
        std::vector<double> bad = f.colour;
        const size_t first_odd = 3 * size_t(f.session.lattice.volume());
        bad[0] = bad[first_odd] = not_a_number;
        const milcgpu_field nan = f.session.field(bad);
        CHECK(milcgpu_staggered_residual(k, MILCGPU_EVEN, 0.1, &f.b, &nan, &residual) == MILCGPU_NAN_OR_INF);
        CHECK(says("solution: site 0 of the even sites"));
        CHECK(milcgpu_staggered_residual(k, MILCGPU_ODD, 0.1, &nan, &x, &residual) == MILCGPU_NAN_OR_INF);
        CHECK(says("source: site 0 of the odd sites"));
        CHECK(residual == -1);
        for (const int precision : {MILCGPU_DOUBLE, MILCGPU_SINGLE, MILCGPU_HALF}) {
            const milcgpu_storage what{precision, 18};
            CHECK(milcgpu_staggered_dslash(k, &what, MILCGPU_EVEN, &nan, &x) == MILCGPU_NAN_OR_INF);
            CHECK(says("source: site 0 of the odd sites"));
        }
        REQUIRE(milcgpu_vectors_load(f.w.vectors(), 3, MILCGPU_ODD, &nan) == MILCGPU_OK); // values are not tested
        CHECK(milcgpu_vectors_dslash(f.w.vectors(), 3, k, MILCGPU_EVEN) == MILCGPU_NAN_OR_INF);
        CHECK(milcgpu_vectors_save(f.w.vectors(), 3, MILCGPU_EVEN, &x) == MILCGPU_BAD_ARGUMENT); // empty
        const milcgpu_vector right{f.w.vectors(), 0}, wrong{f.w.vectors(), 3}, to{f.w.vectors(), 2};
        CHECK(milcgpu_vectors_minus_dslash(k, MILCGPU_EVEN, 1, 1, right, wrong, to) == MILCGPU_NAN_OR_INF);
        CHECK(milcgpu_vectors_minus_dslash(k, MILCGPU_ODD, 1, 1, wrong, right, to) == MILCGPU_NAN_OR_INF);
        CHECK(out == f.colour);

        // Plans of fields that no host has.
        CHECK(milcgpu_memory_plan(c, MILCGPU_HALF, &how, nullptr, 0, &bytes) == MILCGPU_BAD_ARGUMENT);
        CHECK(says("host_precision is half"));
        CHECK(milcgpu_sources_plan(c, MILCGPU_HALF, &how, MILCGPU_BLOCK, 2, nullptr, 0, &bytes) ==
              MILCGPU_BAD_ARGUMENT);
        CHECK(milcgpu_multi_mass_plan(c, MILCGPU_HALF, &none, nullptr, 0, &bytes) == MILCGPU_BAD_ARGUMENT);

        // Counts that no array has, and pitches whose product with the sites is no address.
        constexpr int many = 1 << 30;
        milcgpu_hisq_defaults(&hisq, sizeof hisq);
        force.n_terms = many;
        CHECK(milcgpu_momenta_add_fermion_force(f.w.gauge(), &force, &f.b, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(says("spec.n_terms is 1073741824"));
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
            CHECK(says("source: pitch of"));
        }
        CHECK(out == f.colour);
        CHECK(milcgpu_staggered_solve(k, &how, &f.b, &x, nullptr) == MILCGPU_OK);
    }
}

TEST_CASE("a solution that is another one, or a source; addresses between numbers; beta and verbosity out of range",
          "[errors][null]") {
    for (const milcgpu::Backend backend : backends()) {
        Filled f(backend);
        milcgpu_links *const k = f.k;
        const auto says = [](const char *part) { return has(milcgpu_last_error(), part); };
        const std::vector<double> colour = f.colour, dirac = f.dirac;
        std::vector<double> out = colour, spare = dirac;
        const milcgpu_field x = f.session.field(out), psi = f.session.field(spare);
        const auto how = solve_spec(0.2, 1e-6, MILCGPU_DOUBLE, MILCGPU_DOUBLE);

        const milcgpu_field twice[] = {x, x}, of_both[] = {f.b, f.b};
        const milcgpu_field psi_twice[] = {psi, psi}, of_psi[] = {f.psi, f.psi};
        const auto two_words = "that vector is another solution, too, or a source";
        for (const int together : {MILCGPU_TOGETHER_AUTO, MILCGPU_BLOCK, MILCGPU_ONE_BY_ONE, MILCGPU_LOCK_STEP})
            for (const auto *solutions : {twice, of_both}) {
                CHECK(milcgpu_staggered_solve_sources(k, &how, together, 2, of_both, solutions, nullptr) ==
                      MILCGPU_BAD_ARGUMENT);
                CHECK(says(two_words));
            }
        const milcgpu_wilson_spec wilson{sizeof wilson, 0.1, 0, 0, MILCGPU_WILSON_CG};
        const auto wilson_how = solve_spec(0, 1e-6, MILCGPU_DOUBLE, MILCGPU_DOUBLE);
        for (const auto *solutions : {psi_twice, of_psi}) {
            CHECK(milcgpu_wilson_solve_sources(f.w.wilson(), &wilson, &wilson_how, MILCGPU_BLOCK, 2, of_psi, solutions,
                                               nullptr) == MILCGPU_BAD_ARGUMENT);
            CHECK(says(two_words));
        }
        milcgpu_laplace_solve_spec laplace;
        milcgpu_laplace_solve_defaults(&laplace, sizeof laplace);
        laplace.kappa = 0.1, laplace.tolerance = 1e-6;
        const milcgpu_quarks sources{of_both, nullptr, 0};
        for (const auto *solutions : {twice, of_both}) {
            const milcgpu_quarks to{solutions, nullptr, 0};
            CHECK(milcgpu_laplace_solve(f.w.meson(), &laplace, 2, &sources, &to, nullptr) == MILCGPU_BAD_ARGUMENT);
        }
        const milcgpu_pole poles[] = {{1, 1e-6, 0}, {2, 1e-6, 0}};
        auto masses = sized<milcgpu_multi_mass_spec>();
        masses.parity = MILCGPU_EVEN, masses.max_iterations = 10, masses.max_restarts = 1;
        masses.shared.precision = MILCGPU_DOUBLE, masses.n_shifts = 2, masses.shifts = poles;
        CHECK(milcgpu_staggered_multi_mass(k, &masses, &f.b, twice, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(says(two_words));
        CHECK(milcgpu_wilson_multi_mass(f.w.wilson(), &wilson, &masses, &f.psi, psi_twice, nullptr) ==
              MILCGPU_BAD_ARGUMENT);
        CHECK(says(two_words));

        milcgpu_field between = x;
        between.data = static_cast<char *>(x.data) + 4;
        CHECK(milcgpu_staggered_solve(k, &how, &f.b, &between, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(says("the address must be a multiple of 8"));
        for (const double beta : {0., -1., 1e-300})
            CHECK(milcgpu_gauge_heat_bath(f.w.bare(), beta, 1, nullptr, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(says("beta is 1e-300"));
        CHECK(out == colour);
        CHECK(spare == dirac);
        CHECK(f.colour == colour);
        CHECK(f.dirac == dirac);
        const auto refused = [&](int milcgpu_options::*member, int value, const char *name) {
            auto options = sized<milcgpu_options>();
            options.*member = value;
            const milcgpu_layout layout = layout_of(f.session.lattice);
            milcgpu_context *made = nullptr;
            CHECK(milcgpu_context_create(&layout, &options, &made) == MILCGPU_BAD_ARGUMENT);
            CHECK(says(name));
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
        CHECK(says("time"));
    }
}
