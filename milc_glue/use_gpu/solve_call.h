/* What the files of solves share: solve.c, invert.c, md.c, currents.c. */
#ifndef MILCGPU_GLUE_SOLVE_CALL_H
#define MILCGPU_GLUE_SOLVE_CALL_H

#include "glue.h"

/* What `qic` asks for. Fields of the sites or arrays: the solver does not mind. */
milcgpu_plugin_solve_call milcgpu_solve_call(milcgpu_routine routine, milcgpu_field source, milcgpu_field solution,
                                             const quark_invert_control *qic, Real mass, const imp_ferm_links_t *fn);

/* What MILC's routine leaves behind of a solve: qic, the counter and the line. */
void milcgpu_account(const milcgpu_solve_report *report, quark_invert_control *qic, double seconds);

/* The same of n sources that were asked for alike: of qic, the worst one's. Returns the iterations of all. */
int milcgpu_account_block(int n, const milcgpu_solve_report *reports, quark_invert_control *qic, double seconds);

/* The same after the solves of one parity, with MILC's words of a zero source. */
int milcgpu_account_parity(int parity, int n, const milcgpu_solve_report *reports, quark_invert_control *qic);

/* `copy` of a member of the sites is deferred: solves with this source read the member, and a solver of MILC's has the
 * copy filled first; until milcgpu_plugin_drop_deferred(MILCGPU_SOURCE, NULL). */
void milcgpu_defer_source(su3_vector *copy, const su3_vector *member);

/* Whether a solve has a tolerance, as MILC has it: absolute or relative. */
int milcgpu_has_tolerance(double absolute, double relative);

/* milcgpu_copy_to_compare of a field of colour vectors. */
su3_vector *milcgpu_copy_of(const su3_vector *field);

#endif
