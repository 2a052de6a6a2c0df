// The tables of the structs of the C interface: a row for each member, in their order. The compiler counts them.
// docs/headers.md has these tables; tests/interface/test_calls.cpp compares them.
#pragma once
#include "milc_glue/api/arguments.h"

namespace milcgpu {

constexpr May none_or_more = from_to(0, most_entries), one_or_more = from_to(1, most_entries);
constexpr May in_or_out = from_to(MILCGPU_SIGNS_IN, MILCGPU_SIGNS_OUT, "0 or 1");
constexpr May a_tolerance = at_least(1e-150), // so its square has full precision
    no_or_a_tolerance = from_to(1e-150, DBL_MAX, "0, or at least 1e-150").or_also(0);
constexpr May a_mass{-6.7e153, 6.7e153, "finite, with a finite 4 m^2 (zero is legal)"};
constexpr May three_or_four = from_to(3, 4, "4, or 3 for space").from(4);

// clang-format off
#define TABLE(Struct, ...)                                                                                             \
    template <> struct Members<Struct> {                                                                               \
        using S = Struct;                                                                                              \
        static constexpr const char *name = #Struct;                                                                   \
        static constexpr Member list[] = {__VA_ARGS__};                                                                \
        static constexpr size_t first = list[0].kind == Member::size ? list[0].bytes : sizeof(Struct);                 \
    };                                                                                                                 \
    static_assert(is_whole<Struct>(), "a row of every member, in their order");                                        \
    static_assert(has_finite_reals<Struct>(), "a real number is finite");                                              \
    static_assert(has_legal_defaults<Struct>(), "what stands in place of 0, and what defaults begin with, is legal")
// first: sizeof the struct in the oldest header that is accepted.
#define SIZE(first) {Member::size, "struct_size", offsetof(S, struct_size), {}, 1, first}
#define NUMBERS(member, ...) numbers_at<decltype(S::member)>(#member, offsetof(S, member), __VA_ARGS__)
// start: the default of its first member.
#define INSIDE(member, ...)                                                                                            \
    table_at<decltype(S::member)>(Member::inside, #member, offsetof(S, member), 0, May{}.from(__VA_ARGS__))
#define OWN(member) {Member::own, #member, offsetof(S, member)}
#define ALIKE(member) {Member::alike, #member, offsetof(S, member)}
#define WHETHER_GIVEN(member) {Member::given, #member, offsetof(S, member)}
#define ENTRIES(member, n) table_at<decltype(S::member)>(Member::entries, #member, offsetof(S, member), offsetof(S, n))
#define SOME(member, n) table_at<decltype(S::member)>(Member::some, #member, offsetof(S, member), offsetof(S, n))

template <> struct Members<double> { // an entry
    static constexpr const char *name = "double";
    static constexpr Member list[] = {numbers_at<double>(nullptr, 0, any_finite)};
};

// ---- milcgpu.h, milcgpu_md.h

TABLE(milcgpu_storage,
    NUMBERS(precision, unchecked), NUMBERS(reconstruct, unchecked));

constexpr May one_parity = from_to(MILCGPU_ODD, MILCGPU_EVEN,
                                   "MILCGPU_EVEN (2) or MILCGPU_ODD (1), one at a time"),
              below_one = from_to(0, 1 - DBL_EPSILON / 2, "in (0, 1), or 0 for the default"),
              iterations = from_to(1, 2000000000);

TABLE(milcgpu_solve_spec, SIZE(128),
    NUMBERS(parity, one_parity.from(MILCGPU_EVEN)),
    NUMBERS(mass, a_mass),
    NUMBERS(tolerance, no_or_a_tolerance), NUMBERS(relative_tolerance, no_or_a_tolerance),
    NUMBERS(max_iterations, iterations.from(1000)), NUMBERS(max_restarts, iterations.from(5)),
    INSIDE(precise, MILCGPU_DOUBLE), INSIDE(sloppy),
    NUMBERS(reliable_delta, below_one),
    NUMBERS(jump_limit, at_least(0)),
    OWN(links_version), OWN(progress), OWN(user), OWN(source_tolerances), OWN(source_max_iterations),
    ALIKE(eigenvectors));

TABLE(milcgpu_pole,
    NUMBERS(offset, positive), NUMBERS(tolerance, no_or_a_tolerance), NUMBERS(relative_tolerance, no_or_a_tolerance));

TABLE(milcgpu_multi_mass_spec, SIZE(104),
    NUMBERS(parity, one_parity.from(MILCGPU_EVEN)),
    NUMBERS(n_shifts, from_to(0, 32)), ENTRIES(shifts, n_shifts), SOME(residues, n_shifts),
    NUMBERS(max_iterations, iterations.from(1000)), NUMBERS(max_restarts, from_to(0, 2000000000).from(5)),
    INSIDE(shared, MILCGPU_DOUBLE), INSIDE(sloppy), INSIDE(precise),
    NUMBERS(leave_tolerance, at_least(0)),
    NUMBERS(shared_tolerance, below_one),
    OWN(links_version), OWN(progress), OWN(user));

TABLE(milcgpu_paths,
    NUMBERS(one_link, any_finite), NUMBERS(naik, any_finite), NUMBERS(three_staple, any_finite), NUMBERS(five_staple, any_finite),
    NUMBERS(seven_staple, any_finite), NUMBERS(lepage, any_finite));

TABLE(milcgpu_fatlink_spec, SIZE(184),
    NUMBERS(precision, unchecked),
    NUMBERS(reconstruct, unchecked),
    NUMBERS(signs, in_or_out),
    NUMBERS(unitarity, any_finite),
    INSIDE(paths),
    NUMBERS(eps_one_link, any_finite), NUMBERS(eps_naik, any_finite),
    NUMBERS(hisq, flag),
    INSIDE(fat7),
    NUMBERS(special_unitary, flag),
    NUMBERS(svd_relative, at_least(0).or_0_for(1e-8)),
    NUMBERS(svd_absolute, at_least(0).or_0_for(1e-8)),
    NUMBERS(svd_only, flag),
    NUMBERS(derivative, flag));

TABLE(milcgpu_fatlink_set, NUMBERS(eps, any_finite), OWN(fat), OWN(lng), ALIKE(links));

TABLE(milcgpu_hisq_links, ALIKE(v), ALIKE(y), ALIKE(w));

TABLE(milcgpu_force_set, NUMBERS(eps_naik, any_finite), NUMBERS(n_terms, none_or_more));

TABLE(milcgpu_force_spec, SIZE(64),
    WHETHER_GIVEN(links),
    NUMBERS(eps, any_finite),
    NUMBERS(n_terms, none_or_more), ENTRIES(residues, n_terms),
    NUMBERS(n_sets, none_or_more), ENTRIES(sets, n_sets),
    NUMBERS(filter, any_finite.or_0_for(5e-5)));

TABLE(milcgpu_vector, OWN(of), NUMBERS(index, unchecked));

TABLE(milcgpu_loops,
    NUMBERS(plaquette, any_finite), NUMBERS(rectangle, any_finite), NUMBERS(bent, any_finite),
    NUMBERS(signs, in_or_out));

// ---- milcgpu_eigen.h

TABLE(milcgpu_eigen_spec, SIZE(56),
    NUMBERS(parity, one_parity.from(MILCGPU_EVEN)),
    NUMBERS(count, one_or_more.from(256)),
    NUMBERS(tolerance, from_to(0, 1)),
    NUMBERS(precision, unchecked),
    NUMBERS(most_bytes, at_least(0)),
    OWN(progress), OWN(user), ALIKE(start));

// ---- milcgpu_file.h

TABLE(milcgpu_nersc_spec, SIZE(40),
    NUMBERS(precision, from_to(MILCGPU_DOUBLE, MILCGPU_SINGLE, "MILCGPU_DOUBLE or MILCGPU_SINGLE").from(MILCGPU_SINGLE)),
    NUMBERS(rows, from_to(2, 3).or_0_for(3)),
    NUMBERS(sequence_number, at_least(0)),
    OWN(ensemble_id), OWN(ensemble_label));

// ---- milcgpu_gauge.h, milcgpu_flow.h

TABLE(milcgpu_gauge_fix_spec, SIZE(64),
    NUMBERS(direction, from_to(0, 3, "0 to 3 (Coulomb gauge; 3 is time) or MILCGPU_LANDAU (8)").or_also(MILCGPU_LANDAU).from(3)),
    NUMBERS(boost, from_to(1, 1e6).or_0_for(1.8)),
    NUMBERS(most_steps, at_least(1).or_0_for(500)),
    NUMBERS(tolerance, any_finite.or_0_for(2e-6)),
    NUMBERS(reunitarize_every, at_least(1).or_0_for(20)),
    NUMBERS(signs, in_or_out),
    OWN(progress), OWN(user));

TABLE(milcgpu_ape_spec, SIZE(48),
    NUMBERS(weight, from_to(0, 1e100)),
    NUMBERS(times, at_least(0)),
    NUMBERS(space_only, flag),
    NUMBERS(most_hits, from_to(-DBL_MAX, 10000, "at most 10000").or_0_for(10)),
    NUMBERS(tolerance, any_finite.or_0_for(1e-5)),
    NUMBERS(signs, in_or_out));

TABLE(milcgpu_hyp_spec, SIZE(48),
    NUMBERS(alpha1, from_to(0, 1).from(0.75)), NUMBERS(alpha2, from_to(0, 1).from(0.6)),
    NUMBERS(alpha3, from_to(0, 1).from(0.3)),
    NUMBERS(times, at_least(0)),
    NUMBERS(directions, three_or_four),
    NUMBERS(hits, from_to(1, 10000).or_0_for(9)),
    NUMBERS(signs, in_or_out));

TABLE(milcgpu_flow_spec, SIZE(72),
    NUMBERS(action, from_to(0, 1, "MILCGPU_FLOW_WILSON (0) or MILCGPU_FLOW_SYMANZIK (1)")),
    NUMBERS(integrator, unchecked),
    NUMBERS(exp_order, from_to(0, 16, "1 to 16, or 0 for the whole series").from(8)),
    NUMBERS(step, positive.from(0.0625)),
    NUMBERS(stop, from_to(0, DBL_MAX, "at least 0, or MILCGPU_FLOW_AUTO_STOP (-1)")
        .or_also(MILCGPU_FLOW_AUTO_STOP).from(MILCGPU_FLOW_AUTO_STOP)),
    NUMBERS(tolerance, any_finite.from(1e-4)),
    NUMBERS(anisotropy, positive.or_0_for(1)),
    NUMBERS(every, at_least(1).or_0_for(1)),
    NUMBERS(most_steps, at_least(1).or_0_for(100000)),
    NUMBERS(signs, in_or_out),
    NUMBERS(as_milc, flag));

TABLE(milcgpu_stout_spec, SIZE(32),
    NUMBERS(rho, at_least(0)),
    NUMBERS(times, at_least(0)),
    NUMBERS(directions, three_or_four),
    NUMBERS(signs, in_or_out));

// ---- milcgpu_mesons.h

TABLE(milcgpu_meson_links_spec, SIZE(32),
    NUMBERS(antiperiodic, flag),
    NUMBERS(signs, from_to(MILCGPU_SIGNS_IN, MILCGPU_SIGNS_AS_THEY_ARE).from(MILCGPU_SIGNS_OUT)),
    NUMBERS(origin, unchecked));

TABLE(milcgpu_quarks, ALIKE(host), ALIKE(device), NUMBERS(first, unchecked));

TABLE(milcgpu_momentum,
    NUMBERS(p, unchecked),
    NUMBERS(parity, from_to(MILCGPU_ODD, MILCGPU_EVEN_AND_ODD,
                            "MILCGPU_ODD (1), MILCGPU_EVEN (2) or MILCGPU_EVEN_AND_ODD (3)")
                        .from(MILCGPU_EVEN_AND_ODD)));

TABLE(milcgpu_meson_term,
    NUMBERS(spin_taste, unchecked),
    NUMBERS(momentum, none_or_more),
    NUMBERS(phase, from_to(0, 3)),
    NUMBERS(factor, any_finite),
    NUMBERS(correlator, none_or_more));

TABLE(milcgpu_meson_spec, SIZE(56),
    NUMBERS(origin, unchecked),
    NUMBERS(n_momenta, one_or_more), NUMBERS(n_terms, none_or_more), NUMBERS(n_correlators, one_or_more),
    ENTRIES(momenta, n_momenta), ENTRIES(terms, n_terms));

// ---- milcgpu_baryons.h

constexpr May a_corner = from_to(0, 7);

TABLE(milcgpu_tie_up, NUMBERS(source, a_corner), NUMBERS(sink, a_corner));

TABLE(milcgpu_tie_up_spec, SIZE(72),
    NUMBERS(corner, a_corner),
    NUMBERS(wall, flag), NUMBERS(one_sided, flag),
    NUMBERS(origin, unchecked),
    INSIDE(momentum),
    NUMBERS(n_list, from_to(1, 262144)), ENTRIES(list, n_list));

TABLE(milcgpu_gb_term,
    NUMBERS(source, unchecked), NUMBERS(sink, unchecked),
    NUMBERS(flip, flag), NUMBERS(wall, flag), NUMBERS(cube, flag),
    NUMBERS(phase, from_to(0, 3)),
    NUMBERS(factor, any_finite),
    NUMBERS(correlator, none_or_more));

TABLE(milcgpu_gb_spec, SIZE(80),
    NUMBERS(current, unchecked.from(MILCGPU_TWO_POINT)),
    NUMBERS(whole_sinks, flag), NUMBERS(one_sided, flag),
    NUMBERS(origin, unchecked),
    INSIDE(momentum),
    NUMBERS(n_terms, one_or_more), NUMBERS(n_correlators, one_or_more), ENTRIES(terms, n_terms));

// ---- milcgpu_dirac.h

constexpr May gamma_basis = from_to(0, 1, "MILCGPU_GAMMAS_MILC (0) or MILCGPU_GAMMAS_DEGRAND_ROSSI (1)");

TABLE(milcgpu_dirac_spec, SIZE(40),
    NUMBERS(basis, gamma_basis),
    NUMBERS(origin, unchecked),
    NUMBERS(n_momenta, one_or_more), ENTRIES(momenta, n_momenta));

TABLE(milcgpu_dirac_term,
    NUMBERS(in, unchecked), NUMBERS(out, unchecked),
    NUMBERS(momentum, none_or_more),
    NUMBERS(phase, from_to(0, 3)),
    NUMBERS(factor, any_finite),
    NUMBERS(correlator, none_or_more));

TABLE(milcgpu_dirac_meson_spec, SIZE(56),
    NUMBERS(basis, gamma_basis),
    NUMBERS(origin, unchecked),
    NUMBERS(n_momenta, one_or_more), NUMBERS(n_terms, none_or_more), NUMBERS(n_correlators, one_or_more),
    ENTRIES(momenta, n_momenta), ENTRIES(terms, n_terms));

// ---- milcgpu_laplace.h, milcgpu_wilson.h

TABLE(milcgpu_laplace_spec, SIZE(32),
    NUMBERS(directions, from_to(3, 4).from(3)),
    NUMBERS(kappa, any_finite),
    INSIDE(what, MILCGPU_DOUBLE));

TABLE(milcgpu_laplace_solve_spec, SIZE(96),
    NUMBERS(directions, from_to(3, 4).from(3)),
    NUMBERS(kappa, any_finite),
    NUMBERS(tolerance, a_tolerance),
    NUMBERS(max_iterations, iterations.from(1000)), NUMBERS(max_restarts, iterations.from(5)),
    INSIDE(precise, MILCGPU_DOUBLE), INSIDE(sloppy),
    NUMBERS(reliable_delta, below_one),
    NUMBERS(jump_limit, at_least(0)),
    NUMBERS(together, from_to(MILCGPU_TOGETHER_AUTO, MILCGPU_ONE_BY_ONE)),
    OWN(progress), OWN(user));

TABLE(milcgpu_wilson_spec, SIZE(32),
    NUMBERS(kappa, from_to(DBL_TRUE_MIN, 1 - DBL_EPSILON / 2, "above 0 and below 1")),
    NUMBERS(clover, from_to(-1e6, 1e6, "-1e6 to 1e6 (0: Wilson fermions)")),
    NUMBERS(even_odd, flag),
    NUMBERS(method, from_to(0, 1, "MILCGPU_WILSON_BICGSTAB (0) or MILCGPU_WILSON_CG (1)")));
// clang-format on

} // namespace milcgpu
