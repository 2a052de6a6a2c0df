/* milcgpu: molecular dynamics. A gauge field and its momenta that stay on the device, and the functions that move them.
 *
 * A step of a trajectory: milcgpu_momenta_add_gauge_force and milcgpu_momenta_add_force_of_vectors add to the momenta
 * H, then milcgpu_gauge_update moves the links U by dU/dt = H U. No field is copied to the host on the way.
 *
 * Conventions are those of milcgpu.h and of MILC. Links carry staggered phases and boundary sign, or neither (Phases,
 * below). Momenta are MILC's anti_hermitmat: 4 per site, 10 reals each. These are the elements 01, 02, 12 as complex
 * numbers, then the imaginary parts of the elements 00, 11, 22, then one real that is not used. Links and momenta have
 * the precision of the handle, and so has the arithmetic. Sums over sites are in double.
 *
 * Every function returns a status. milcgpu_last_error() then says what failed, where, and what to do. A function that
 * fails leaves links and momenta on the device as they were, with four exceptions. After DEVICE_LOST they are lost. A
 * load that fails after its arguments were accepted leaves its field empty, for example if links are not unitary. After
 * CORRUPTED the field that the message names is empty, and so is the field that the call was changing. And if the
 * memory of the host is exhausted, the field that the call was changing may be empty.
 *
 * Links and momenta have checksums. A load compares the caller's memory with what has arrived on the device, a save the
 * other way round. Each function that writes links or momenta on the device keeps the checksum of what it writes, and
 * each call compares it after it has read a field for the last time, before it returns anything. If they differ,
 * because a bit flipped or other code wrote there, the status is CORRUPTED. The field is empty then, and so are links
 * or momenta that the call was changing. MILCGPU_VERIFY=0 turns this off.
 *
 * Data that live only within one call, for milliseconds at most, are not checked: workspace for staples and for pieces
 * of loops, the vectors that milcgpu_momenta_add_fermion_force loads, derivatives in adaptive and RKMK flows, sums,
 * numbers that control a launch; on cut lattices, copies with a margin, what a force makes on them, and links between
 * the stages of a step of a flow. Derivatives by links, and HISQ's V and W, are checked within a force. If one of them
 * changed, momenta stay as they were, and the call can be repeated; if it was the derivative by the gauge field, which
 * is added to the momenta, they are empty.
 *
 * Phases. The caller says in each call whether the links carry staggered phases (milcgpu_signs). When links are loaded
 * their determinants are computed: 1 for an SU(3) link, and the phase for one that carries a phase. If those of the x,
 * y and z links contradict the caller, the call gives BAD_ARGUMENT before anything is done, on all ranks, with the
 * number of links and the first place. milcgpu_gauge_make_links and the forces of fermions take links with phases only.
 * milcgpu_momenta_add_gauge_force and milcgpu_gauge_action take loops->signs, milcgpu_gauge_loop_traces signs. Copies,
 * milcgpu_gauge_update, milcgpu_gauge_plaquettes and milcgpu_gauge_polyakov_loop take links of both kinds as they are.
 * milcgpu_gauge_reunitarize goes by the determinants. Fields that are of neither kind are taken for what the call says:
 * for example links with U(1) phases, phases relative to an odd origin, or links far from SU(3). An eighth of the links
 * may differ. Smearing, flow and updates keep what was found at the load. The boundary sign is tested in calls that
 * take it out or put it in: milcgpu_links_make with signs out, milcgpu_gauge_fix, milcgpu_gauge_ape_smear and
 * milcgpu_gauge_hyp_smear with signs in.
 *
 * On several ranks, every function that takes a milcgpu_gauge is a call of all ranks, and so are solves,
 * milcgpu_vectors_dslash, milcgpu_vectors_minus_dslash and milcgpu_vectors_sum. Each rank gives the fields of its box;
 * all other arguments must be the same on all ranks. What fails on one rank fails on all. Fields have the bits that one
 * rank would compute. Sums are over all ranks, and have the same bits on each. Flops, bytes and counts of links in a
 * report are those of this rank. The box may be as small as for a solve (milcgpu_layout).
 */
#ifndef MILCGPU_MD_H
#define MILCGPU_MD_H

#include "milcgpu.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct milcgpu_gauge milcgpu_gauge; /* a gauge field and its momenta on the device of a context */

/* Makes a handle. Links and momenta are empty at first. precision: MILCGPU_DOUBLE or MILCGPU_SINGLE. On failure *gauge
 * is NULL. */
milcgpu_status milcgpu_gauge_create(milcgpu_context *context, int precision, milcgpu_gauge **gauge);
void milcgpu_gauge_destroy(milcgpu_gauge *gauge); /* before its context; NULL is legal */

/* Copies the links to the device: 4 per site, in the handle's precision. NaN and infinity give NAN_OR_INF. A link whose
 * U U^dag - 1 has an element above `unitarity` gives BAD_ARGUMENT (0: 1e-4; negative: not tested). Both messages name
 * the place, and the links of the handle are then empty. Links may come with phases or without: the calls that use them
 * say which. */
milcgpu_status milcgpu_gauge_load(milcgpu_gauge *gauge, const milcgpu_field *links, double unitarity);
milcgpu_status milcgpu_gauge_save(milcgpu_gauge *gauge, const milcgpu_field *links); /* copies them back */
/* The same for momenta: 4 per site, 40 reals, in the handle's precision. NaN, infinity, and momenta so large that their
 * action overflows give NAN_OR_INF, and the momenta of the handle are then empty. The tenth real comes back as it was
 * loaded, or as 0. */
milcgpu_status milcgpu_momenta_load(milcgpu_gauge *gauge, const milcgpu_field *momenta);
milcgpu_status milcgpu_momenta_save(milcgpu_gauge *gauge, const milcgpu_field *momenta);
/* Version numbers. Each call that changes the field makes its number larger. 0: the field is empty. */
uint64_t milcgpu_gauge_version(const milcgpu_gauge *gauge);
uint64_t milcgpu_momenta_version(const milcgpu_gauge *gauge);

/* milcgpu_links_make from the links of the handle, in its precision. No gauge field is copied. spec: its reconstruct
 * must be 0 or 18, its precision 0 or that of the handle, its signs 0. Its unitarity is not used: links were
 * tested when they were loaded. HISQ: if the handle has momenta, V stays on the device, 4 matrices a site, until a
 * force uses it or the links change. If memory is short, V is freed. */
milcgpu_status milcgpu_gauge_make_links(milcgpu_gauge *gauge, const milcgpu_fatlink_spec *spec,
                                        const milcgpu_fatlink_set *sets, int n_sets, const milcgpu_hisq_links *hisq,
                                        milcgpu_fatlink_report *report);

/* HISQ: terms of the fermion force that share a correction eps_naik of the Naik term. Example: a charm quark with 5
 * terms behind light and strange quarks with 9 terms has the two sets {0, 9} and {eps_naik of charm, 5}. */
typedef struct {
    double eps_naik;
    int n_terms; /* may be 0 */
} milcgpu_force_set;

typedef struct {
    size_t struct_size;
    const milcgpu_fatlink_spec *links; /* how the links of D are made from the gauge field: milcgpu_asqtad_defaults or
                                          milcgpu_hisq_defaults. Its precision, reconstruct and unitarity are not used.
                                          special_unitary 1 gives NOT_BUILT, signs 1 BAD_ARGUMENT */
    double eps;                        /* MD step */
    int n_terms;                       /* terms of the rational function; 0: the force is zero */
    const double *residues;            /* n_terms of them */
    int n_sets;                        /* HISQ: sets, in the order of the terms; their n_terms add up to the n_terms
                                          above. 0: one set with eps_naik 0. For asqtad: 0 */
    const milcgpu_force_set *sets;
    double filter; /* HISQ: if the smallest eigenvalue of V^dag V is below this, it is added to all three eigenvalues
                      before the derivative is taken (MILC's HISQ_FORCE_FILTER). 0: 5e-5; negative: never */
} milcgpu_force_spec;
void milcgpu_force_defaults(milcgpu_force_spec *spec, size_t size); /* all 0 */

typedef struct {
    size_t struct_size;
    int status;
    double seconds;        /* the whole call */
    double kernel_seconds; /* kernels alone, by device events; copies of fields are not in it */
    double flops, gflops;  /* floating-point operations; 1e9 of them per kernel second */
    uint64_t bytes_to_device, bytes_to_host;
    uint64_t svd_links; /* HISQ: links that needed singular values. A link counts twice if both its unitarization and
                           the derivative of its unitarization needed them */
    uint64_t filtered_links; /* HISQ: links that the filter changed */
    char message[400];       /* of a failure; empty when all is well */
} milcgpu_force_report;

/* Colour vectors that stay on the device, numbered from 0. Each has an even and an odd part. A part is empty until
 * something is written to it, and reading an empty part gives BAD_ARGUMENT. Host fields may be double or single; they
 * are converted to the precision of the vectors.
 *
 * A part has a checksum, which is compared before each use, unless milcgpu_staggered_multi_mass_vectors or
 * milcgpu_vectors_dslash wrote it. CORRUPTED means that a bit flipped in this part, and that it is empty now. */
typedef struct milcgpu_vectors milcgpu_vectors;

/* One vector of a set. */
typedef struct {
    milcgpu_vectors *of;
    int index;
} milcgpu_vector;

/* precision: MILCGPU_DOUBLE or MILCGPU_SINGLE; count: 1 to 1000. On failure *vectors is NULL. */
milcgpu_status milcgpu_vectors_create(milcgpu_context *context, int precision, int count, milcgpu_vectors **vectors);
void milcgpu_vectors_destroy(milcgpu_vectors *vectors); /* before its context; NULL is legal */
/* Copies one part to the device: the sites of `parity`, MILCGPU_EVEN or MILCGPU_ODD. Values are not tested; a function
 * that uses them finds NaN. A load that fails after its arguments were accepted leaves this part empty. */
milcgpu_status milcgpu_vectors_load(milcgpu_vectors *vectors, int index, int parity, const milcgpu_field *from);
/* Copies one part back, or both (MILCGPU_EVEN + MILCGPU_ODD). If one of the two cannot be read, nothing is written. */
milcgpu_status milcgpu_vectors_save(milcgpu_vectors *vectors, int index, int parity, const milcgpu_field *to);
/* One part of a vector from its other part: vector `index` on `parity` = D of the same vector on the other parity.
 * Example: after a solve on even sites, MILCGPU_ODD gives the D X that the fermion force needs. Links are used in the
 * precision of the vectors, with 18 reals; their checksums are not compared: the next solve does that. NAN_OR_INF: in
 * the vector, with the place, or in the result. On failure this part of the vector may be empty. If solutions of
 * milcgpu_staggered_multi_mass_vectors follow this vector, a call computes D of up to four of them at once, if there is
 * memory for it; the calls for the others then take little time. */
milcgpu_status milcgpu_vectors_dslash(milcgpu_vectors *vectors, int index, milcgpu_links *links, int parity);
/* to = scale (a x - D y) on the sites of `parity`. Example: x = y, a = 2 m, scale 1 gives M^dag y. `to` must not be x,
 * and may be y. x, y and `to` belong to one context and have one precision. On failure this part of `to` may be empty.
 * Links and NAN_OR_INF as for milcgpu_vectors_dslash. */
milcgpu_status milcgpu_vectors_minus_dslash(milcgpu_links *links, int parity, double scale, double a, milcgpu_vector x,
                                            milcgpu_vector y, milcgpu_vector to);
/* to = sum over k < count of weights[k] times vector first + k, on `parity`, added in double. With the residues as
 * weights this is a rational function without its constant term. Sites of the other parity keep their content, and on
 * failure, for example NAN_OR_INF, all sites do. */
milcgpu_status milcgpu_vectors_sum(milcgpu_vectors *vectors, int first, int count, const double *weights, int parity,
                                   const milcgpu_field *to);
/* milcgpu_staggered_multi_mass, but the solutions stay on the device: shift i goes to vector first + i. If
 * milcgpu_staggered_multi_mass would leave a field untouched, this function leaves the vector untouched. */
milcgpu_status milcgpu_staggered_multi_mass_vectors(milcgpu_links *links, const milcgpu_multi_mass_spec *spec,
                                                    const milcgpu_field *source, milcgpu_vectors *to, int first,
                                                    milcgpu_multi_mass_report *report);

/* milcgpu_staggered_solve_sources, but sources, guesses and solutions are vectors on the device. solutions[k] holds the
 * guess on entry, so it must not be empty: load zeros if there is no guess. If milcgpu_staggered_solve_sources would
 * leave a field untouched, this function leaves the vector untouched. All solutions must be different vectors, and none
 * may be a source. */
milcgpu_status milcgpu_staggered_solve_vectors(milcgpu_links *links, const milcgpu_solve_spec *spec, int together,
                                               int n, const milcgpu_vector *sources, const milcgpu_vector *solutions,
                                               milcgpu_solve_report *reports);

/* Adds the force of the fermions: H <- H + 2 eps TA(U q^dag), with TA(A) = (A - A^dag) / 2 - trace / 3. q is the
 * derivative by the links of
 *
 *     S = 2 Re sum_t residue_t <X_t on even sites, D X_t on odd sites>,   dS = 2 Re sum over links of tr(q^dag dU).
 *
 * x: n_terms fields of the host on all sites, double or single. On even sites field t is the solution for pole t, on
 * odd sites D of it. Momenta are written only when the whole force is known and finite. NAN_OR_INF leaves them
 * untouched. report may be NULL.
 *
 * asqtad: Orginos, Toussaint, Sugar, hep-lat/9903032. HISQ: Follana et al., hep-lat/0610092; Bazavov et al.,
 * arXiv:1004.0342. RHMC: Clark, Kennedy, hep-lat/0409134. */
milcgpu_status milcgpu_momenta_add_fermion_force(milcgpu_gauge *gauge, const milcgpu_force_spec *spec,
                                                 const milcgpu_field *x, milcgpu_force_report *report);

/* The same from the vectors 0 to n_terms - 1 on the device. They must have the handle's precision. */
milcgpu_status milcgpu_momenta_add_force_of_vectors(milcgpu_gauge *gauge, const milcgpu_force_spec *spec,
                                                    const milcgpu_vectors *vectors, milcgpu_force_report *report);

/* Coefficients of the gauge action
 *     S = beta / 3 sum over sites and loops of coefficient (3 - Re tr loop).
 * A site has 6 plaquettes, 12 rectangles of two links by one, and 16 bent loops (for example x y z -x -y -z).
 * Coefficients are for links without phases, as MILC's get_loop_coeff() gives them. Luescher, Weisz, Commun. Math.
 * Phys. 97 (1985) 59; Alford et al., hep-lat/9507010; with HISQ quarks Hart et al., arXiv:0812.0503. */
typedef struct {
    double plaquette, rectangle, bent;
    int signs; /* milcgpu_signs of the links */
} milcgpu_loops;

/* Adds the force of the gauge action: H <- H - eps (beta / 3) TA(U P). P is the sum over the paths that close a loop
 * with the link U, each times its coefficient. The result is not tested for overflow; milcgpu_momenta_action finds it.
 * report may be NULL. */
milcgpu_status milcgpu_momenta_add_gauge_force(milcgpu_gauge *gauge, const milcgpu_loops *loops, double beta,
                                               double eps, milcgpu_force_report *report);

/* U <- exp(eps H) U, with the series of the exponential up to `order`, 1 to 16. MILC takes 8 in ks_imp_rhmc and 6 in
 * ks_imp_dyn. The result is not tested: momenta that are far too large make links that overflow, and the next action or
 * fermion force gives NAN_OR_INF. report may be NULL. */
milcgpu_status milcgpu_gauge_update(milcgpu_gauge *gauge, double eps, int order, milcgpu_force_report *report);

/* Wilson's action, S = -beta/3 sum over plaquettes of Re tr U, without momenta: sweeps over all links, as relax and
 * monte of MILC's pure gauge program do them, on three SU(2) subgroups of each link. Links are without phases. These
 * functions run on one rank; several give NOT_BUILT. Over-relaxation keeps the action and needs no random numbers.
 * Brown, Woch, Phys. Rev. Lett. 58 (1987) 2394; heat bath: Cabibbo, Marinari, Phys. Lett. B 119 (1982) 387, Kennedy,
 * Pendleton, Phys. Lett. B 156 (1985) 393. A subgroup on which the action does not depend is left as it is. Rounding
 * errors accumulate: call milcgpu_gauge_reunitarize from time to time. A failure after the first sweep has begun leaves
 * the links empty. beta: 1e-6 to 1e6. */
milcgpu_status milcgpu_gauge_overrelax(milcgpu_gauge *gauge, int sweeps);
/* Random numbers are those of MILC's generators, one a site, drawn in MILC's order. generators: 15 words a site, in the
 * order of the caller's sites. Words 0 to 6: the shift register, r0 to r6. 7 to 12: multiplier, addend and state of the
 * linear congruential generator, 64 bits each, the low word first. 13: the float that a number is multiplied by, above
 * 0 and at most 2^-24. 14: the lowest bit of the state that goes into a number (40, or 8; at most 40). drawn[site]: how
 * many numbers were taken; the caller advances its generators by as many. It is untouched on failure. One sweep agrees
 * with MILC's to rounding (logarithm and cosine of a GPU may differ in the last bit). Each sweep of over-relaxation
 * makes a difference three times as large, so after about 40 sweeps the field is another one of the same
 * distribution. */
milcgpu_status milcgpu_gauge_heat_bath(milcgpu_gauge *gauge, double beta, int sweeps, const uint32_t *generators,
                                       uint32_t *drawn);

typedef struct {
    size_t struct_size;
    uint64_t failed;              /* links too far from SU(3); they stay as they are */
    long long first_failed;       /* the first of them on this rank: 4 i + direction, site i in the order of milcgpu.h;
                                     -1: none. The other members are the same on all ranks */
    double largest_deviation;     /* the largest of MILC's four tests of a link, over all links; NaN if a link has it */
    double mean_square_deviation; /* mean of their squares, over all tests of all links */
} milcgpu_reunitarize_report;

/* Brings links that rounding has moved away back to SU(3), as MILC does. Row 0 is normalized, row 1 made orthogonal to
 * it and normalized, row 2 is the conjugate of their cross product; signs from phases stay. A link that fails one of
 * four tests by more than the tolerance (0: MILC's 1e-4) stays as it is. The tests, with rows r0, r1, r2 as they were:
 * | |r0|^2 - 1 |, |<r0, r1>|^2, | |r1|^2 - 1 |, |r2 - new r2|^2. The status is OK even if links fail: read the report,
 * which must not be NULL. */
milcgpu_status milcgpu_gauge_reunitarize(milcgpu_gauge *gauge, double tolerance, milcgpu_reunitarize_report *report);

/* Sum over sites and loops of coefficient (3 - Re tr loop). The caller multiplies by beta / 3. A result that is not
 * finite gives NAN_OR_INF. On failure *action is untouched; the same holds for the results of the functions below. */
milcgpu_status milcgpu_gauge_action(milcgpu_gauge *gauge, const milcgpu_loops *loops, double *action);
/* Sum over links of |H|^2 / 2 - 4, |H|^2 = sum of all |H_ab|^2. This is MILC's: 4 is the mean of the first term for
 * momenta drawn with weight exp(-|H|^2 / 2). */
milcgpu_status milcgpu_momenta_action(milcgpu_gauge *gauge, double *action);
/* Mean of Re tr of the plaquettes in the three planes of space, and in the three planes with time: MILC's d_plaquette.
 * Phases are not removed, so unit links with phases give -3. */
milcgpu_status milcgpu_gauge_plaquettes(milcgpu_gauge *gauge, double *space, double *time);
/* Mean over space of the trace of the product of the time links: MILC's ploop. The boundary sign is not removed, so
 * unit links with it give -3. */
milcgpu_status milcgpu_gauge_polyakov_loop(milcgpu_gauge *gauge, double *real, double *imaginary);
/* Means over all sites of the traces of n closed loops: 2 n numbers, real and imaginary parts in turn, 3 and 0 on unit
 * links. steps: the steps of all loops, one loop behind the other, 0 to 3 forward along x, y, z, t, and 7 - mu back
 * along mu, as MILC has them; lengths: how many steps each loop has, 1 to 128. A loop may wind around the lattice.
 * signs: milcgpu_signs of the links. Phases and boundary sign are removed. On several ranks a loop may reach at most
 * two sites away from its start in a direction that is cut; else the call gives NOT_BUILT. */
milcgpu_status milcgpu_gauge_loop_traces(milcgpu_gauge *gauge, int signs, int n, const int *lengths, const int *steps,
                                         double *traces);

#ifdef __cplusplus
}
#endif
#endif
