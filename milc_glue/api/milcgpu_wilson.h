/* milcgpu: Wilson fermions, with the conventions of MILC's clover programs (clover_invert2, generic_wilson).
 *
 *   (D_s psi)(x) = sum_mu [ (1 + s gamma_mu) U_mu(x) psi(x+mu) + (1 - s gamma_mu) U_mu(x-mu)^dag psi(x-mu) ]
 *   M = R - kappa D_+,   M^dag = R - kappa D_-,   R = 1 + kappa clover i sum_(mu<nu) sigma_mu,nu f_mu,nu
 *
 * R is the clover term, f_mu,nu an eighth of the antihermitian part of the four plaquettes around a site that turn from
 * mu to nu (Sheikholeslami, Wohlert, Nucl. Phys. B 259 (1985) 572; MILC's compute_clov).
 *
 * s = +1 is MILC's PLUS. Gamma matrices are MILC's (libraries/mb_gamma.c), gamma_5 = diag(1, 1, -1, -1). Links are
 * without staggered phases. If they carry a boundary sign, it is used as it is.
 *
 * Vectors are MILC's wilson_vector, 24 reals per site: spin 0 to 3, colour 0 to 2, real and imaginary part. Their
 * fields are on all sites, in MILC's order or by the site map of the context. Arithmetic is in the precision of the
 * call; the host's fields may be single or double.
 *
 * Every function returns a status and says in milcgpu_last_error() what failed, where, and what to do. Host outputs are
 * untouched on failure. NaN and infinity in a source or guess are NAN_OR_INF, with the place. Links have checksums from
 * the caller's memory on, clover terms and packed links from their making on; they are compared before results are
 * returned. CORRUPTED means that a bit flipped there, and that the handle is empty now. Sources of solves are checked
 * as milcgpu.h says. The leaves of a clover term while it is made, and sums, are not checked. MILCGPU_VERIFY=0 turns
 * this off.
 *
 * On several ranks these are calls of all ranks. Each rank gives the fields of its box; all other arguments must be the
 * same on all. D agrees with that of one rank to rounding. Solves take as many iterations as on one rank. Their reports
 * are alike on all ranks, except seconds, bytes and rates.
 *
 * A handle keeps the links, packed versions of them, the last clover term with its inverse, and the vectors of its last
 * solver: on V sites, in bytes, 576 V for links in double, 1152 V for the clover term and its inverse in double, for a
 * solver in double and single about 1500 V, and about 1300 V more for each source that it solves at a time. If memory
 * is short, all ranks free all but the loaded links between two calls, and make the rest again when it is needed.
 */
#ifndef MILCGPU_WILSON_H
#define MILCGPU_WILSON_H

#include "milcgpu_mesons.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct milcgpu_wilson milcgpu_wilson;

/* Empty. On failure *wilson is NULL. */
milcgpu_status milcgpu_wilson_create(milcgpu_context *context, milcgpu_wilson **wilson);
void milcgpu_wilson_destroy(milcgpu_wilson *wilson); /* before its context; NULL is legal */

/* 4 links per site, single or double. They need not be unitary. NaN and infinity are refused with the place. Links that
 * clearly carry staggered phases give BAD_ARGUMENT with the place (milcgpu_md.h, Phases). The handle is empty then. */
milcgpu_status milcgpu_wilson_load(milcgpu_wilson *wilson, const milcgpu_field *links);
/* The same from the links of a gauge handle of the same context, on the device. signs: MILCGPU_SIGNS_IN: they carry
 * staggered phases, which are removed here. MILCGPU_SIGNS_OUT: they do not. A wrong value is refused. A boundary sign
 * stays as it is. The links are a copy: later changes of the gauge handle do not reach this one. CORRUPTED: the links
 * of `gauge` have changed on the device, and both handles are empty. */
milcgpu_status milcgpu_wilson_load_gauge(milcgpu_wilson *wilson, int signs, milcgpu_gauge *gauge);

/* How a solve iterates. Both methods apply M twice an iteration. The steps of BiCGstab depend on the condition number
 * of M, those of conjugate gradient on M^dag M on its square; but conjugate gradient cannot break down. */
typedef enum { MILCGPU_WILSON_BICGSTAB = 0, MILCGPU_WILSON_CG = 1 } milcgpu_wilson_method;

typedef struct {
    size_t struct_size;
    double kappa;  /* above 0 and below 1; critical at 1/8 on unit links */
    double clover; /* MILC's Clov_c / u0^3, at most 1e6; 0: Wilson fermions */
    int even_odd;  /* of solves. 0: tolerances and residuals are those of b - M x on all sites. 1: as in MILC, those of
                      the system on the sites p = how->parity, M_p x_p = b_p + kappa D_pq R_q^-1 b_q, relative to its
                      right-hand side */
    int method;    /* milcgpu_wilson_method, of milcgpu_wilson_solve */
} milcgpu_wilson_spec;
/* All 0: Wilson fermions, BiCGstab. Still to be set: kappa. */
void milcgpu_wilson_defaults(milcgpu_wilson_spec *spec, size_t size);

/* destination = D_sign source on the sites of `parity` (MILCGPU_EVEN, MILCGPU_ODD or MILCGPU_EVEN_AND_ODD); the other
 * sites keep their content. what: precision of vectors and links, reconstruct 18, 12 or
 * 8 reals per link, the latter for links c * (+-SU(3)); links that do not fit are kept in 18, with a warning. sign: 1
 * or -1. source and destination may be one field. */
milcgpu_status milcgpu_wilson_dslash(milcgpu_wilson *wilson, const milcgpu_storage *what, int sign, int parity,
                                     const milcgpu_field *source, const milcgpu_field *destination);

/* The same for M (sign 1) and M^dag (sign -1). */
milcgpu_status milcgpu_wilson_matrix(milcgpu_wilson *wilson, const milcgpu_wilson_spec *spec,
                                     const milcgpu_storage *what, int sign, int parity, const milcgpu_field *source,
                                     const milcgpu_field *destination);

/* Solves M x = b on all sites: by spec->method M_p x_p = b_p + kappa D_pq R_q^-1 b_q, with
 * M_p = R_p - kappa^2 D_pq R_q^-1 D_qp on the sites p of how->parity, then x_q = R_q^-1 (b_q + kappa D_qp x_p). Blocks
 * of R_q that have no inverse are BAD_ARGUMENT, with their number. BiCGstab: H. A. van der Vorst, SIAM J. Sci. Stat.
 * Comput. 13 (1992) 631.
 *
 * how: as milcgpu_staggered_solve takes it, but for mass and links_version, which must be 0. tolerance limits
 * |b - M x| / |b|, see spec->even_odd. relative_tolerance limits sqrt(2 / V sum over the sites y in p of |r(y)|^2 /
 * |x(y)|^2), with r = b - M x and V the number of all sites; a site with x(y) = 0 adds 1. The system is solved again,
 * more exactly, until both hold. solution: guess on entry (of the sites p), always honoured; x on return when the
 * status is OK, NOT_CONVERGED or PRECISION_FLOOR, untouched otherwise. A zero source gives x = 0, and report->message
 * says so.
 *
 * report may be NULL. true_residual and relative_residual are what the two tolerances limit, and source_norm is the
 * norm of that right-hand side, all in double from the links as loaded, and from x before it is rounded to the
 * precision of the caller's field. recursion_residual is the iteration's own, which with CG solves the normal
 * equations. links_version is 0. */
milcgpu_status milcgpu_wilson_solve(milcgpu_wilson *wilson, const milcgpu_wilson_spec *spec,
                                    const milcgpu_solve_spec *how, const milcgpu_field *source,
                                    const milcgpu_field *solution, milcgpu_solve_report *report);

/* milcgpu_wilson_solve for n sources, with links and clover terms loaded once for up to 16 of them. how: tolerances and
 * limits may be of each source. together: a milcgpu_together. Conjugate gradient takes sources together; BiCGstab takes
 * one at a time, so it refuses MILCGPU_BLOCK and MILCGPU_LOCK_STEP. Each source has its own guess, status and
 * residuals. A source that is done is left out of the steps of the others. A source that cannot be solved (NaN in it or
 * in its guess) does not affect them. Sources are solved 16 at a time, or fewer if memory is short; their solutions are
 * copied out before the next sources start. So solutions must not share memory with each other or with a source. If
 * how->sloppy is half, sources together are iterated in single.
 *
 * reports: n of them, or NULL. Seconds, bytes and rates of sources that were solved together are divided among them.
 * The status is the status of the first source without a solution, else of the first source that is not OK. If the call
 * as a whole fails (BAD_ARGUMENT, NO_MEMORY, CORRUPTED, ..), reports stay as they were. */
milcgpu_status milcgpu_wilson_solve_sources(milcgpu_wilson *wilson, const milcgpu_wilson_spec *spec,
                                            const milcgpu_solve_spec *how, int together, int n,
                                            const milcgpu_field *sources, const milcgpu_field *solutions,
                                            milcgpu_solve_report *reports);

/* *residual = |b - M x| / |b|, see spec->even_odd (parity: p), in double. With even_odd only the sites p of x are read.
 */
milcgpu_status milcgpu_wilson_residual(milcgpu_wilson *wilson, const milcgpu_wilson_spec *spec, int parity,
                                       const milcgpu_field *source, const milcgpu_field *solution, double *residual);

/* (offset_k + M_p^dag M_p) x_k = b for all offsets at once, on the sites p of how->parity: the other sites are neither
 * used nor changed. how: as milcgpu_staggered_multi_mass takes it, but for relative tolerances and links_version, which
 * must be 0. solutions: how->n_shifts fields, guesses are not read. Statuses and reports are as for
 * milcgpu_staggered_multi_mass; true residuals are of these systems, in double. report may be NULL. */
milcgpu_status milcgpu_wilson_multi_mass(milcgpu_wilson *wilson, const milcgpu_wilson_spec *spec,
                                         const milcgpu_multi_mass_spec *how, const milcgpu_field *source,
                                         const milcgpu_field *solutions, milcgpu_multi_mass_report *report);

#ifdef __cplusplus
}
#endif
#endif
