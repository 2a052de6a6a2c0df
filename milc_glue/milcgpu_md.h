/* milcgpu: molecular dynamics. A gauge field and its momenta that stay on the device, and what moves them.
 *
 * Conventions are those of milcgpu.h and of MILC: links carry staggered phases and boundary sign. Momenta are MILC's
 * anti_hermitmat, 4 per site, 10 reals each: elements 01, 02, 12 as complex numbers, the three imaginary parts of the
 * diagonal, and one real that is not used. dU/dt = H U. Fields have the precision of the handle, which is also that of
 * the arithmetic.
 *
 * Every function returns a status and says in milcgpu_last_error() what failed, where, and what to do. A
 * function that fails leaves links and momenta on the device as they were. Exceptions: DEVICE_LOST, and a load that had
 * started, whose field is empty then.
 *
 * Links and momenta have checksums, taken when a call has changed them, and compared before the next one uses them. If
 * they differ (a bit flipped) the status is CORRUPTED; nothing was done with the field, and it is empty.
 * MILCGPU_VERIFY=0 turns this off.
 *
 * On several ranks every function with a milcgpu_gauge, D of milcgpu_vectors, and solves are calls of all ranks, with
 * the same numbers, each rank with its box. Fields get the bits that one rank would compute. Sums are those of all
 * ranks, the same on each. What fails on one rank fails on all. Flops, bytes and counts of links in a report are those
 * of this rank. The box may be as small as for a solve.
 */
#ifndef MILCGPU_MD_H
#define MILCGPU_MD_H

#include "milcgpu.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct milcgpu_gauge milcgpu_gauge; /* links and momenta on the device of a context */

/* Links and momenta are empty at first. precision: MILCGPU_DOUBLE or MILCGPU_SINGLE. On failure *gauge is NULL. */
milcgpu_status milcgpu_gauge_create(milcgpu_context *context, int precision, milcgpu_gauge **gauge);
void milcgpu_gauge_destroy(milcgpu_gauge *gauge); /* before its context; NULL is legal */

/* 4 links per site, in the handle's precision. Refused, with the place: NaN, infinity, and links with an element
 * of |U U^dag - 1| above `unitarity` (0: 1e-4; negative: not tested). */
milcgpu_status milcgpu_gauge_load(milcgpu_gauge *gauge, const milcgpu_field *links, double unitarity);
milcgpu_status milcgpu_gauge_save(milcgpu_gauge *gauge, const milcgpu_field *links);
/* 4 momenta per site, pitch_bytes 0: 40 reals. NaN and infinity are refused. The real that is not used comes back as
 * loaded, or as 0. */
milcgpu_status milcgpu_momenta_load(milcgpu_gauge *gauge, const milcgpu_field *momenta);
milcgpu_status milcgpu_momenta_save(milcgpu_gauge *gauge, const milcgpu_field *momenta);
/* Grow with every change; 0: none loaded. */
uint64_t milcgpu_gauge_version(const milcgpu_gauge *gauge);
uint64_t milcgpu_momenta_version(const milcgpu_gauge *gauge);

/* milcgpu_fat_links from the links of the handle, in its precision: no gauge field is copied. precision, reconstruct
 * and phases_out of spec must be 0. Unitarity is not tested again. */
milcgpu_status milcgpu_gauge_links(milcgpu_gauge *gauge, const milcgpu_fatlink_spec *spec,
                                   const milcgpu_fatlink_set *sets, int n_sets, const milcgpu_hisq_links *hisq,
                                   milcgpu_fatlink_report *report);

/* The terms of one eps_naik. Sets are in the order of the terms. */
typedef struct {
    double eps_naik;
    int n_terms; /* may be 0 */
} milcgpu_force_set;

typedef struct {
    size_t struct_size;
    const milcgpu_fatlink_spec *links; /* how D's links are made of the gauge field: milcgpu_asqtad_spec,
                                          milcgpu_hisq_spec. Its precision, reconstruct and unitarity are not used;
                                          special_unitary is NOT_BUILT */
    double eps; /* MD step: H += 2 eps TA(U F), F the derivative of sum_t residue_t <X_t even, D X_t odd>, real part */
    int n_terms;
    const double *residues;
    int n_sets; /* HISQ: sets of eps_naik; their terms add up to n_terms. 0: one set, eps_naik 0 */
    const milcgpu_force_set *sets;
    double filter; /* HISQ: if the smallest eigenvalue of V^dag V is below this, all are increased by it (MILC's
                      HISQ_FORCE_FILTER). 0: 5e-5; negative: none */
} milcgpu_force_spec;

typedef struct {
    size_t struct_size;
    int status;
    double seconds;        /* the whole call */
    double kernel_seconds; /* of it, without copies: device events */
    double flops, gflops;  /* done; per kernel second */
    uint64_t bytes_to_device, bytes_to_host;
    uint64_t svd_links, filtered_links; /* links that needed singular values in the unitarization or its derivative;
                                           links that the filter changed */
    char message[400];
} milcgpu_force_report;

/* Colour vectors that stay on the device, numbered from 0, on both parities. Each parity of each vector is empty until
 * something is put there; an empty one is refused. Vectors that were loaded, made by milcgpu_vector_minus_dslash or
 * solved for by milcgpu_solve_vectors have a checksum, which is compared before they are used. CORRUPTED means that a
 * bit flipped there, and that the vector is empty now. Solutions of several masses, and D of them, have none. */
typedef struct milcgpu_vectors milcgpu_vectors;

/* One vector of a set. */
typedef struct {
    milcgpu_vectors *of;
    int index;
} milcgpu_vector;

/* precision: MILCGPU_DOUBLE or MILCGPU_SINGLE; count: 1 to 1000. On failure *vectors is NULL. */
milcgpu_status milcgpu_vectors_create(milcgpu_context *context, int precision, int count, milcgpu_vectors **vectors);
void milcgpu_vectors_destroy(milcgpu_vectors *vectors); /* before its context; NULL is legal */
milcgpu_status milcgpu_vectors_load(milcgpu_vectors *vectors, int index, int parity, const milcgpu_field *from);
/* parity: MILCGPU_EVEN + MILCGPU_ODD for both; both are checked before the first is written. */
milcgpu_status milcgpu_vectors_save(milcgpu_vectors *vectors, int index, int parity, const milcgpu_field *to);
/* Vector `index` on `parity` = D of the same vector on the other one. */
milcgpu_status milcgpu_vectors_dslash(milcgpu_vectors *vectors, int index, milcgpu_links *links, int parity);
/* On the sites of `parity`: to = scale (a x - D y). M^dag y with x = y, a = 2 m, scale 1. `to` must not
 * be x, and may be y; on failure it may be empty on these sites. All have one context and precision. */
milcgpu_status milcgpu_vector_minus_dslash(milcgpu_links *links, int parity, double scale, double a, milcgpu_vector x,
                                           milcgpu_vector y, milcgpu_vector to);
/* to = sum over k < count of weights[k] times vector first + k, on `parity`, added in double: a rational function
 * without its constant. The other sites of `to` keep their content; on failure all do. */
milcgpu_status milcgpu_vectors_sum(milcgpu_vectors *vectors, int first, int count, const double *weights, int parity,
                                   const milcgpu_field *to);
/* milcgpu_multi_mass with the solutions in the vectors first, first + 1, ... Where milcgpu_multi_mass leaves its fields
 * untouched, these vectors are untouched. */
milcgpu_status milcgpu_multi_mass_to(milcgpu_context *context, milcgpu_links *links,
                                     const milcgpu_multi_mass_spec *spec, const milcgpu_field *source,
                                     milcgpu_vectors *to, int first, milcgpu_multi_mass_report *report);

/* milcgpu_solve_sources for vectors: sources[k] and the guess solutions[k] are on the device, and solutions stay there.
 * Where milcgpu_solve_sources leaves its fields untouched, these vectors are untouched. All solutions must be different
 * vectors, and none may be a source. */
milcgpu_status milcgpu_solve_vectors(milcgpu_context *context, milcgpu_links *links, const milcgpu_solve_spec *spec,
                                     int together, int n, const milcgpu_vector *sources,
                                     const milcgpu_vector *solutions, milcgpu_solve_report *reports);

/* The force of the fermions. x: n_terms fields on both parities: the solution on even sites, D of it on odd ones.
 * Momenta are written when the whole force is known and finite; NAN_OR_INF leaves them untouched. report may be NULL.
 */
milcgpu_status milcgpu_fermion_force(milcgpu_gauge *gauge, const milcgpu_force_spec *spec, const milcgpu_field *x,
                                     milcgpu_force_report *report);

/* The same from the vectors 0 to n_terms - 1, which must have the handle's precision. */
milcgpu_status milcgpu_force_of_vectors(milcgpu_gauge *gauge, const milcgpu_force_spec *spec,
                                        const milcgpu_vectors *vectors, milcgpu_force_report *report);

/* Coefficients of the gauge action: beta / 3 times the sum over sites and loops of coefficient (3 - Re tr loop). A site
 * has 6 plaquettes, 12 rectangles of two links by one, and 16 bent loops (x y z -x -y -z). Coefficients are those for
 * links without phases: MILC's get_loop_coeff(). */
typedef struct {
    double plaquette, rectangle, bent;
} milcgpu_loops;

/* H += eps times the force of the gauge action. report may be NULL. */
milcgpu_status milcgpu_gauge_force(milcgpu_gauge *gauge, const milcgpu_loops *loops, double beta, double eps,
                                   milcgpu_force_report *report);

/* U <- exp(eps H) U, the exponential to the given order, 1 to 16. MILC uses 8 in ks_imp_rhmc and 6 in ks_imp_dyn.
 * report may be NULL. */
milcgpu_status milcgpu_update_links(milcgpu_gauge *gauge, double eps, int order, milcgpu_force_report *report);

typedef struct {
    size_t struct_size;
    uint64_t failed;                                 /* links that are too far from SU(3); they are left as they are */
    long long first_failed;                          /* 4 i + direction, site i in the order of milcgpu.h; -1: none.
                                                        On several ranks: of this rank */
    double largest_deviation, mean_square_deviation; /* of MILC's four tests per link */
} milcgpu_reunitarize_report;

/* Brings the links back to SU(3) as MILC does: Gram-Schmidt of rows 0 and 1, row 2 from them. tolerance 0: MILC's 1e-4.
 * The status is OK even if links failed; the caller decides by the report, which must not be NULL. */
milcgpu_status milcgpu_reunitarize(milcgpu_gauge *gauge, double tolerance, milcgpu_reunitarize_report *report);

/* Sum over sites and loops of coefficient (3 - Re tr loop), without beta / 3. NAN_OR_INF if it is not finite. On
 * failure *action is untouched, here and in the functions below. */
milcgpu_status milcgpu_gauge_action(milcgpu_gauge *gauge, const milcgpu_loops *loops, double *action);
/* Sum over links of |H|^2 / 2 - 4. */
milcgpu_status milcgpu_momentum_action(milcgpu_gauge *gauge, double *action);
/* Means of Re tr of the plaquettes in space and of those with time: MILC's d_plaquette, -3 on unit links with phases.
 */
milcgpu_status milcgpu_plaquettes(milcgpu_gauge *gauge, double *space, double *time);
/* Real and imaginary part of the mean trace of the lines in time: MILC's ploop, -3 on unit links with phases. */
milcgpu_status milcgpu_polyakov_loop(milcgpu_gauge *gauge, double *real, double *imaginary);

#ifdef __cplusplus
}
#endif
#endif
