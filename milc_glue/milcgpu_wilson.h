/* milcgpu: Wilson fermions, with the conventions of MILC's clover programs (clover_invert2, generic_wilson).
 *
 *   (D_s psi)(x) = sum_mu [ (1 + s gamma_mu) U_mu(x) psi(x+mu) + (1 - s gamma_mu) U_mu(x-mu)^dag psi(x-mu) ]
 *   M = R - kappa D_+,   M^dag = R - kappa D_-
 *
 * R = 1, or with a clover term R = 1 + clover i sum_(mu<nu) sigma_mu,nu f_mu,nu, f_mu,nu = (4 leaves - h.c.) / 8, as
 * MILC's compute_clov has it (generic_clover/make_clov2.c). It is made on the device from the links that are loaded.
 *
 * s = +1 is MILC's PLUS. Gamma matrices are MILC's (libraries/mb_gamma.c), gamma_5 = diag(1, 1, -1, -1). Links come
 * without staggered phases; what they have of boundary signs is taken as it is.
 *
 * Vectors are MILC's wilson_vector, 24 reals a site: spin 0 to 3, colour 0 to 2, real and imaginary part. Their fields
 * are on all sites, in MILC's order or by the site map of the context. Arithmetic is in the precision that a call asks
 * for; the host's fields may be single or double.
 *
 * Every function returns a status and says in milcgpu_last_error() what failed, where, and what to do. Host outputs are
 * untouched on failure. NaN and infinity in a source or guess are NAN_OR_INF, with the place. Links have checksums,
 * looked at before results are handed over: CORRUPTED means that a bit flipped there, and that the handle is empty now.
 * MILCGPU_VERIFY=0 turns that off. Lattices that are cut over ranks are refused.
 *
 * A handle keeps the links, packed versions of them, and the vectors of its last solver: on V sites, in bytes, 576 V
 * for links in double, and for a solver in double and single some 1000 V. With a clover term 576 V in double once, and
 * per precision and parity that is solved for 576 V (288 V in single, 152 V in half).
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

/* 4 links a site, single or double. They need not be unitary. NaN and infinity are refused with the place, and the
 * handle is empty then. */
milcgpu_status milcgpu_wilson_load(milcgpu_wilson *wilson, const milcgpu_field *links);

typedef struct {
    size_t struct_size;
    double kappa;  /* above 0 and below 1; critical at 1/8 on unit links */
    double clover; /* MILC's CKU0 = kappa Clov_c / u0^3, finite; 0: Wilson fermions */
} milcgpu_wilson_spec;

/* destination = D_sign source on the sites of `parity` (MILCGPU_EVEN, MILCGPU_ODD or MILCGPU_EVEN_AND_ODD); the other
 * sites keep their content. what: precision of vectors and links (link_precision 0 or the same), reconstruct 18, 12 or
 * 8 reals a link, the latter for links c * (+-SU(3)); links that do not fit are kept in 18, with a warning. sign: 1 or
 * -1. source and destination may be one field. */
milcgpu_status milcgpu_wilson_dslash(milcgpu_wilson *wilson, const milcgpu_operator *what, int sign, int parity,
                                     const milcgpu_field *source, const milcgpu_field *destination);

/* The same for M (sign 1) and M^dag (sign -1). */
milcgpu_status milcgpu_wilson_matrix(milcgpu_wilson *wilson, const milcgpu_wilson_spec *spec,
                                     const milcgpu_operator *what, int sign, int parity, const milcgpu_field *source,
                                     const milcgpu_field *destination);

/* Solves M x = b on all sites: conjugate gradient on M_p^dag M_p x_p = M_p^dag (b_p + kappa D_pq R_q^-1 b_q),
 * with M_p = R_p - kappa^2 D_pq R_q^-1 D_qp on the sites p of how->parity, then x_q = R_q^-1 (b_q + kappa D_qp x_p).
 * Blocks of R_q that have no inverse are BAD_ARGUMENT, with their number.
 *
 * how: as milcgpu_solve takes it, but for mass, relative_tolerance and links_version, which must be 0. tolerance is of
 * |b - M x| / |b| on all sites: the normal equations are solved again, more exactly, until it holds. solution: guess on
 * entry (of the sites p), always honoured; x on return when the status is OK, NOT_CONVERGED or PRECISION_FLOOR,
 * untouched otherwise. A zero source gives x = 0.
 *
 * report may be NULL. source_norm is |b|; true_residual is |b - M x| / |b| on all sites in double from the links as
 * handed over; recursion_residual is that of the normal equations; relative_residual is 1; links_version is 0. */
milcgpu_status milcgpu_wilson_solve(milcgpu_wilson *wilson, const milcgpu_wilson_spec *spec,
                                    const milcgpu_solve_spec *how, const milcgpu_field *source,
                                    const milcgpu_field *solution, milcgpu_solve_report *report);

/* The same by BiCGstab on M_p x_p = b_p + kappa D_pq R_q^-1 b_q, as MILC's bicgilu_cl_field: a step applies M_p twice,
 * as one of conjugate gradient, and far fewer are needed. how->precise must be double with 18 reals; how->sloppy
 * iterates. Where it breaks down (NOT_CONVERGED, with a message that says so), conjugate gradient does not. */
milcgpu_status milcgpu_wilson_bicgstab(milcgpu_wilson *wilson, const milcgpu_wilson_spec *spec,
                                       const milcgpu_solve_spec *how, const milcgpu_field *source,
                                       const milcgpu_field *solution, milcgpu_solve_report *report);

/* (offset_k + M_p^dag M_p) x_k = b for all offsets at once, on the sites p of how->parity: the other sites are neither
 * used nor changed. how: as milcgpu_multi_mass takes it, but for relative tolerances and links_version, which must be
 * 0. solutions: how->n_shifts fields, guesses are not read. All that milcgpu_multi_mass says of statuses and reports
 * holds; true residuals are of these systems, in double. report may be NULL. */
milcgpu_status milcgpu_wilson_multi_mass(milcgpu_wilson *wilson, const milcgpu_wilson_spec *spec,
                                         const milcgpu_multi_mass_spec *how, const milcgpu_field *source,
                                         const milcgpu_field *solutions, milcgpu_multi_mass_report *report);

#ifdef __cplusplus
}
#endif
#endif
