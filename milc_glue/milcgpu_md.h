/* milcgpu: molecular dynamics. A gauge field and its momenta that stay on the device, and what moves them.
 *
 * Conventions are those of milcgpu.h and of MILC: links carry staggered phases and boundary sign; momenta are
 * anti_hermitmat, 4 a site, 10 reals each (01, 02, 12 as complex numbers, the imaginary parts of the diagonal, one
 * that is not used); dU/dt = H U. Fields are of one precision, that of the handle, which is also that of the
 * arithmetic.
 *
 * Every function returns a status and says in milcgpu_last_error() what failed, where, and what to do. What fails
 * leaves links and momenta on the device as they were, but for DEVICE_LOST, and for a load that had begun: what it was
 * to fill is empty then.
 *
 * Links and momenta have checksums, taken when a call has changed them and again before the next one uses them. Where
 * they do not agree (a bit flipped) the status is CORRUPTED, nothing was done with the field, and it is empty.
 * MILCGPU_VERIFY=0 turns that off.
 *
 * On several ranks all of them call every function that has a milcgpu_gauge, D of milcgpu_vectors and solves, together
 * and with the same numbers; each hands in its box. Fields get the bits that one rank would give them; sums are those
 * of all ranks, the same on each. What fails on one rank fails on all. Of a report, flops, bytes and counts of links
 * are this rank's. The box may be as small as that of a solve.
 */
#ifndef MILCGPU_MD_H
#define MILCGPU_MD_H

#include "milcgpu.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct milcgpu_gauge milcgpu_gauge; /* links and momenta on the device of a context */

/* Both empty. precision: MILCGPU_DOUBLE or MILCGPU_SINGLE. On failure *gauge is NULL. */
milcgpu_status milcgpu_gauge_create(milcgpu_context *context, int precision, milcgpu_gauge **gauge);
void milcgpu_gauge_destroy(milcgpu_gauge *gauge); /* before its context; NULL is legal */

/* 4 links a site, in the handle's precision. NaN and infinity are refused with the place, and links with an element of
 * |U U^dag - 1| above `unitarity` (0: 1e-4; negative: not tested). */
milcgpu_status milcgpu_gauge_load(milcgpu_gauge *gauge, const milcgpu_field *links, double unitarity);
milcgpu_status milcgpu_gauge_save(milcgpu_gauge *gauge, const milcgpu_field *links);
/* 4 momenta a site, pitch_bytes 0: 40 reals. NaN and infinity are refused. The real that is not used comes back as it
 * was loaded, or as 0. */
milcgpu_status milcgpu_momenta_load(milcgpu_gauge *gauge, const milcgpu_field *momenta);
milcgpu_status milcgpu_momenta_save(milcgpu_gauge *gauge, const milcgpu_field *momenta);
/* Grow with every change; 0: none loaded. */
uint64_t milcgpu_gauge_version(const milcgpu_gauge *gauge);
uint64_t milcgpu_momenta_version(const milcgpu_gauge *gauge);

/* milcgpu_fat_links from the links of the handle, in its precision: no gauge field moves over the bus. spec's precision
 * and reconstruct are 0, phases_out too; unitarity is not tested again. */
milcgpu_status milcgpu_gauge_links(milcgpu_gauge *gauge, const milcgpu_fatlink_spec *spec,
                                   const milcgpu_fatlink_set *sets, int n_sets, const milcgpu_hisq_links *hisq,
                                   milcgpu_fatlink_report *report);

/* Terms of one eps_naik, in the order of the terms. */
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
    int n_sets; /* HISQ: sets of eps_naik, whose terms add up to n_terms. 0: one set, eps_naik 0 */
    const milcgpu_force_set *sets;
    double filter; /* HISQ: eigenvalues of V^dag V grow by this where the smallest is below it (MILC's
                      HISQ_FORCE_FILTER). 0: 5e-5; negative: none */
} milcgpu_force_spec;

typedef struct {
    size_t struct_size;
    int status;
    double seconds;        /* the whole call */
    double kernel_seconds; /* of it, without copies: device events */
    double flops, gflops;  /* done; per kernel second */
    uint64_t bytes_to_device, bytes_to_host;
    uint64_t svd_links, filtered_links; /* links that took singular values in the unitarization or its derivative, and
                                           those that the filter changed */
    char message[400];
} milcgpu_force_report;

/* Colour vectors that stay on the device, numbered from 0, on both parities. Each parity of each is empty until
 * something is put there; what is empty is refused. What was loaded, made by milcgpu_vector_minus_dslash or solved for
 * by milcgpu_solve_vectors has a checksum, which is looked at before it is used: CORRUPTED means that a bit flipped
 * there, and that it is empty now. Solutions of several masses and D of them have none. */
typedef struct milcgpu_vectors milcgpu_vectors;

/* One of them. */
typedef struct {
    milcgpu_vectors *of;
    int index;
} milcgpu_vector;

/* precision: MILCGPU_DOUBLE or MILCGPU_SINGLE; count: 1 to 1000. On failure *vectors is NULL. */
milcgpu_status milcgpu_vectors_create(milcgpu_context *context, int precision, int count, milcgpu_vectors **vectors);
void milcgpu_vectors_destroy(milcgpu_vectors *vectors); /* before its context; NULL is legal */
milcgpu_status milcgpu_vectors_load(milcgpu_vectors *vectors, int index, int parity, const milcgpu_field *from);
/* parity: MILCGPU_EVEN + MILCGPU_ODD for both, which are looked at before the first is written. */
milcgpu_status milcgpu_vectors_save(milcgpu_vectors *vectors, int index, int parity, const milcgpu_field *to);
/* Vector `index` on `parity` = D of the same vector on the other one. */
milcgpu_status milcgpu_vectors_dslash(milcgpu_vectors *vectors, int index, milcgpu_links *links, int parity);
/* On the sites of `parity`: to = scale (a x - D y). M^dag y with x = y, a = 2 m, scale 1. `to` is another vector than
 * x, and may be y; on failure it may be empty there. All of one context and precision. */
milcgpu_status milcgpu_vector_minus_dslash(milcgpu_links *links, int parity, double scale, double a, milcgpu_vector x,
                                           milcgpu_vector y, milcgpu_vector to);
/* to = sum of weights[k] times vector first + k over k < count, on `parity`, added in double: a rational function but
 * for its constant. The other sites of `to` keep their content, and all of them on failure. */
milcgpu_status milcgpu_vectors_sum(milcgpu_vectors *vectors, int first, int count, const double *weights, int parity,
                                   const milcgpu_field *to);
/* milcgpu_multi_mass with the solutions in the vectors first, first + 1, ...; where that would leave its fields as they
 * were, these vectors are left as they were. */
milcgpu_status milcgpu_multi_mass_to(milcgpu_context *context, milcgpu_links *links,
                                     const milcgpu_multi_mass_spec *spec, const milcgpu_field *source,
                                     milcgpu_vectors *to, int first, milcgpu_multi_mass_report *report);

/* milcgpu_solve_sources of vectors: sources[k] and the guess solutions[k] are on the device, and solutions stay there.
 * Where solve_sources would leave its fields as they were, these vectors are left as they were. A solution is no other
 * one's, and no source. */
milcgpu_status milcgpu_solve_vectors(milcgpu_context *context, milcgpu_links *links, const milcgpu_solve_spec *spec,
                                     int together, int n, const milcgpu_vector *sources,
                                     const milcgpu_vector *solutions, milcgpu_solve_report *reports);

/* The force of the fermions. x: n_terms fields, on both parities: the solution on even sites, D of it on odd ones.
 * Momenta are written when the whole force is known and finite: NAN_OR_INF leaves them untouched. report may be NULL.
 */
milcgpu_status milcgpu_fermion_force(milcgpu_gauge *gauge, const milcgpu_force_spec *spec, const milcgpu_field *x,
                                     milcgpu_force_report *report);

/* The same of the vectors 0 to n_terms - 1, in the handle's precision. */
milcgpu_status milcgpu_force_of_vectors(milcgpu_gauge *gauge, const milcgpu_force_spec *spec,
                                        const milcgpu_vectors *vectors, milcgpu_force_report *report);

/* The gauge action: beta / 3 times the sum over sites and loops of coefficient (3 - Re tr loop): 6 plaquettes, 12
 * rectangles of two links by one, 16 bent loops (x y z -x -y -z) a site. Coefficients are those for links without
 * phases, MILC's get_loop_coeff(). */
typedef struct {
    double plaquette, rectangle, bent;
} milcgpu_loops;

/* H += eps times the force of the gauge action. report may be NULL. */
milcgpu_status milcgpu_gauge_force(milcgpu_gauge *gauge, const milcgpu_loops *loops, double beta, double eps,
                                   milcgpu_force_report *report);

/* U <- exp(eps H) U to the given order, 1 to 16; MILC has 8 in ks_imp_rhmc, 6 in ks_imp_dyn. report may
 * be NULL. */
milcgpu_status milcgpu_update_links(milcgpu_gauge *gauge, double eps, int order, milcgpu_force_report *report);

typedef struct {
    size_t struct_size;
    uint64_t failed;                                 /* links that are too far from SU(3); left as they are */
    long long first_failed;                          /* 4 i + direction, i in the order of milcgpu.h; -1: none. Of
                                                        several ranks: this one's */
    double largest_deviation, mean_square_deviation; /* of MILC's four tests a link */
} milcgpu_reunitarize_report;

/* Links back to SU(3), as MILC does it: Gram-Schmidt of rows 0 and 1, row 2 from them. tolerance 0: MILC's 1e-4. OK
 * also where links failed: the caller decides; report must not be NULL. */
milcgpu_status milcgpu_reunitarize(milcgpu_gauge *gauge, double tolerance, milcgpu_reunitarize_report *report);

/* Sum over sites and loops of coefficient (3 - Re tr loop), not times beta / 3. NAN_OR_INF where that is not finite:
 * *action is untouched on failure, in the next ones too. */
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
