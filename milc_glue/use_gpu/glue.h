/* What the files of the glue share. They are compiled by MILC's make with MILC's headers and flags, since the sizes of
 * its structures differ between versions and precisions. Each __wrap_X takes the place of MILC's X at link time
 * (ld --wrap=X), and __real_X is MILC's own: routines.def has the table, routines.h the declarations.
 * Programs have only some of these routines, so every __real_X is weak, and called through milcgpu_original alone.
 */
#ifndef MILCGPU_GLUE_H
#define MILCGPU_GLUE_H

#ifdef GF_INTEGRATOR
#include "wilson_flow_includes.h"
#elif defined(HYP_3D_SMEARING)
#include "hvy_qpot_includes.h"
#else
#include "../generic_ks/generic_ks_includes.h"
#include "../include/fermion_links.h"
#endif
#include "plugin.h"
#include "serves.h"

#if !defined(MILCGPU_SERVES) && !defined(MILCGPU_SERVES_FLOW) && !defined(MILCGPU_SERVES_HYP)
#error "milcgpu serves the improved staggered actions with fat and long links: asqtad and HISQ"
#endif
#if defined(HAVE_QUDA) || defined(HAVE_GRID) || defined(HAVE_QOP) || defined(USE_CG_GPU) || defined(USE_FL_GPU)
#error "milcgpu takes over MILC's CPU routines: build with WANTQUDA=false, WANTGRID=false, WANTQOP=false"
#endif

/* A weak routine that the program does not have is at address 0. These say whether it is there, and call it: where it
 * is not there, the run ends in words. milcgpu_there is for routines that MILC has beside an original, and that are
 * weak for the same reason. A test (milc_build) looks for other calls of weak routines. */
#define milcgpu_has(original) (__real_##original != NULL)
#define milcgpu_original(original) (milcgpu_has(original) ? (void)0 : milcgpu_end_without(#original), __real_##original)
#define milcgpu_there(routine) ((routine) != NULL ? (void)0 : milcgpu_end_without(#routine), routine)
void milcgpu_end_without(const char *routine);

/* Whether to take over this call; starts the plugin at the first. */
int milcgpu_takes_over(void);

/* Memory for what MILC's own routine allocates, too. Where there is none, the run ends, as MILC's routine ends it. */
void *milcgpu_room(size_t bytes, const char *what);
/* The same of fields that will probably not be written: their pages come as somebody does. */
void *milcgpu_untouched_room(size_t bytes, const char *what);

/* Memory for what MILC's own routine does without. All ranks call it; NULL on all of them where there is none on one,
 * after one line that says what is left out: "no room in the host's memory for `what`". */
void *milcgpu_spare_room(size_t bytes, const char *what);

/* Fills milcgpu_milc's `left`: what this program does not have, or MILC's own must do. */
void milcgpu_solves_left(const char **left);
void milcgpu_links_left(const char **left);
void milcgpu_md_left(const char **left);
void milcgpu_mesons_left(const char **left);
void milcgpu_gauge_left(const char **left);
void milcgpu_flow_left(const char **left);
void milcgpu_clover_left(const char **left);
void milcgpu_dirac_mesons_left(const char **left);
void milcgpu_hyp_left(const char **left);
#define MILCGPU_ABSENT "not in this program"
#ifdef ASQ_OPTIMIZED_FATTENING
#define MILCGPU_NO_COEFFICIENTS "MILC's own: this action's links are not made of the six coefficients"
#else
#define MILCGPU_NO_COEFFICIENTS "MILC's own: path by path, as quark_action.h is without ASQ_OPTIMIZED_FATTENING"
#endif

#ifdef MILCGPU_SERVES
/* Whether solutions are on the device in a trajectory of this program. */
int milcgpu_keeps_solutions(void);

/* A field of colour vectors, and a member of the sites. */
static inline milcgpu_field milcgpu_vector_field(const su3_vector *f) {
    milcgpu_field field = {(void *)f, MILC_PRECISION == 1 ? MILCGPU_SINGLE : MILCGPU_DOUBLE, 0};
    return field;
}

/* How links are made, for the library. 0: the device cannot make them. */
int milcgpu_spec_of_asqtad(const ks_component_paths *p, milcgpu_fatlink_spec *spec);
/* Returns why they are MILC's; NULL: the device makes them. */
const char *milcgpu_spec_of_hisq(const ks_action_paths_hisq *ap, milcgpu_fatlink_spec *spec);

/* Why this program's links are MILC's; NULL: they are not. Of HISQ links: for this way to unitary ones (umethod.h); the
 * force is asked for after the links. */
const char *milcgpu_own_links(void);
const char *milcgpu_own_hisq_links(int umethod, int ugroup);
const char *milcgpu_own_hisq_force(int umethod, int ugroup);

/* Fields of MILC's that may be old, or not filled, because the device has them: links and momenta of the sites
 * (MILCGPU_LINKS, MILCGPU_MOMENTA), and these. */
enum { MILCGPU_SOLUTIONS = 4, MILCGPU_FERMION_LINKS = 8 };

/* MILC's copies of `fields` are the newest when this returns; ends the run where they are lost. who: what reads them.
 * Whatever is to change the gauge field needs MILCGPU_FERMION_LINKS first: those that MILC still has, and that are not
 * filled, are made of it as it is. */
void milcgpu_need(int fields, const char *who);
void milcgpu_need_sites(int fields, const char *who); /* of these, links and momenta */

/* Fills the fermion links that are deferred (links.h). 1: there were some. */
int milcgpu_fill_links(void);

/* While MILC makes its fermion links from the sites, the gauge links need no copy on the host, because the device has
 * them: milcgpu_md_lends(room) says so of a field that is left as it is, milcgpu_md_lent(links) recognises it, and
 * milcgpu_md_fill(links) fills it for a routine of MILC's after all. */
int milcgpu_md_lends(su3_matrix *scratch);
int milcgpu_md_lent(const su3_matrix *links);
void milcgpu_md_fill(su3_matrix *links);

/* Whether links that are made now may be deferred until the gauge field changes; and that gauge field, with phases in,
 * for them to be made again: a field to be freed. */
int milcgpu_md_defers(void);
su3_matrix *milcgpu_md_gauge_again(void);
void milcgpu_md_gauge_done(su3_matrix *links);
#endif

/* Says that MILC cannot go on, and ends the run. As milcgpu_judge, called by all ranks. */
void milcgpu_end_of_run(void);

/* MILCGPU_COMPARE=strict: ends the run unless `good`. */
void milcgpu_judge(int good);

#endif
