/* What solve.c, invert.c, md.c and currents.c share for solves. */
#ifndef MILCGPU_GLUE_SOLVE_CALL_H
#define MILCGPU_GLUE_SOLVE_CALL_H

#include "glue.h"

/* What `qic` requests. Fields may be in the sites or in arrays. */
milcgpu_plugin_solve_call milcgpu_solve_call(milcgpu_routine routine, milcgpu_field source, milcgpu_field solution,
                                             const quark_invert_control *qic, Real mass, const imp_ferm_links_t *fn);

/* Does what MILC's routine does after a solve: fills qic, counts iterations, prints the line. */
void milcgpu_account(const milcgpu_solve_report *report, quark_invert_control *qic, double seconds);

/* The same for n sources of one request. qic gets the worst source's residuals. Returns the iterations of all. */
int milcgpu_account_block(int n, const milcgpu_solve_report *reports, quark_invert_control *qic, double seconds);

/* The same after the solves of one parity, with MILC's line for a zero source. */
int milcgpu_account_parity(int parity, int n, const milcgpu_solve_report *reports, quark_invert_control *qic);

/* Defers `copy`, a copy of a member of the sites. Solves with this source read the member; MILC's own solvers get the
 * copy filled first. This lasts until milcgpu_plugin_drop_deferred(MILCGPU_SOURCE, NULL). */
void milcgpu_defer_source(su3_vector *copy, const su3_vector *member);

/* Whether a solve has a tolerance, absolute or relative, as MILC defines them. */
int milcgpu_has_tolerance(double absolute, double relative);

/* milcgpu_copy_to_compare of a field of colour vectors. */
su3_vector *milcgpu_copy_of(const su3_vector *field);

#endif
