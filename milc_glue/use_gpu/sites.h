/* The gauge field and the momenta in MILC's sites, and on the device: who has the newest, and MILC's own routines that
 * work on them. Of programs without momenta in their sites (md.c) the host has the newest always. */
#ifndef MILCGPU_GLUE_SITES_H
#define MILCGPU_GLUE_SITES_H

#include "glue.h"

/* The host's copies of `fields`, MILCGPU_LINKS and MILCGPU_MOMENTA, are the newest when this returns; ends the run
 * where they are lost. Most callers want milcgpu_need(). */
void milcgpu_need_sites(int fields, const char *who);

/* A copy of the gauge links, for free(). While MILC makes its fermion links of it, and the device has the gauge field,
 * it is deferred: left as it is, until milcgpu_fill_gauge() makes it for a routine of MILC's after all. */
su3_matrix *milcgpu_copy_gauge(void);
int milcgpu_gauge_is_deferred(const su3_matrix *links);
void milcgpu_fill_gauge(su3_matrix *links);
/* What it is a copy of, to another field; 0: the device could not give it. */
int milcgpu_gauge_to(su3_matrix *to, const su3_matrix *links);

/* Around what makes fermion links of the gauge field in the sites. */
void milcgpu_begin_fermion_links(void);
void milcgpu_end_fermion_links(void);
/* Whether fermion links that are made now may be deferred until the gauge field changes; and that gauge field, with
 * phases in, for them to be made again. */
int milcgpu_may_defer_links(void);
su3_matrix *milcgpu_begin_links_again(void);
void milcgpu_end_links_again(su3_matrix *links);

/* ---- of programs with momenta in their sites -------------------------------------------------------------------- */

#define MILCGPU_BOTH (MILCGPU_LINKS | MILCGPU_MOMENTA)

milcgpu_plugin_lattice milcgpu_in_sites(void);

/* Whether every reader of the sites is known; in other programs the host's copy is made new after every routine. */
int milcgpu_sites_stay(void);
/* Around update() of ks_imp_rhmc, and around routines that call rephase and read the sites by offloaded ones alone. */
extern int milcgpu_in_trajectory, milcgpu_only_offloaded_read;

/* Links with phases in for the device to read, where it has not the newest: 1 where they were out. */
int milcgpu_put_phases_in(void);
void milcgpu_put_phases_back(int were_out);

#endif
