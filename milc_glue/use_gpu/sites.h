/* The gauge field and the momenta in MILC's sites and on the device: which copy is the newest, and MILC's own routines
 * that work on them. In programs without momenta in their sites (md.c) the host always has the newest. */
#ifndef MILCGPU_GLUE_SITES_H
#define MILCGPU_GLUE_SITES_H

#include "glue.h"

/* Makes the host's copies of `fields` (MILCGPU_LINKS, MILCGPU_MOMENTA) the newest; ends the run if the data are lost.
 * Most callers want milcgpu_need(). */
void milcgpu_need_sites(int fields, const char *who);

/* Allocates a copy of the gauge links; the caller frees it. If MILC is making fermion links from it and the device has
 * the gauge field, the copy is deferred: it stays unfilled until milcgpu_fill_gauge() fills it for one of MILC's own
 * routines. */
su3_matrix *milcgpu_copy_gauge(void);
int milcgpu_gauge_is_deferred(const su3_matrix *links);
void milcgpu_fill_gauge(su3_matrix *links);
/* Copies the links that a deferred copy stands for to another field. 0: the device could not deliver them. */
int milcgpu_gauge_to(su3_matrix *to, const su3_matrix *links);

/* Call these before and after making fermion links of the gauge field in the sites. */
void milcgpu_begin_fermion_links(void);
void milcgpu_end_fermion_links(void);
/* Whether fermion links that are made now may be deferred until the gauge field changes. The other two return and
 * release that gauge field, with phases in, to make the links again. */
int milcgpu_may_defer_links(void);
su3_matrix *milcgpu_begin_links_again(void);
void milcgpu_end_links_again(su3_matrix *links);

/* ---- for programs with momenta in their sites ------------------------------------------------------------------- */

#define MILCGPU_BOTH (MILCGPU_LINKS | MILCGPU_MOMENTA)

milcgpu_plugin_lattice milcgpu_in_sites(void);

/* Whether every reader of the sites is known. In other programs the host's copy is updated after every routine. */
int milcgpu_sites_stay(void);
/* Running calls of ks_imp_rhmc's update(), of ks_ratinv, and of routines that call rephase and in which only offloaded
 * routines read the sites. */
typedef struct {
    int trajectory, ratinv, only_offloaded_read;
} milcgpu_running_calls;
extern milcgpu_running_calls milcgpu_running;

/* Puts phases into the host's links so that the device can read them, unless the device has the newest. Returns 1 if
 * the phases were out. */
int milcgpu_put_phases_in(void);
void milcgpu_put_phases_back(int were_out);

#endif
