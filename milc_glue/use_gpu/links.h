/* Fermion links. make_links.c makes fields; deferred.c keeps links that are made only when MILC reads them; links.c and
 * hisq_links.c wrap MILC's routines. */
#ifndef MILCGPU_GLUE_LINKS_H
#define MILCGPU_GLUE_LINKS_H

#include "sites.h"

#define LINK_BYTES (4 * sites_on_node * sizeof(su3_matrix))

/* ---- make_links.c ------------------------------------------------------------------------------------------------ */

/* Makes links on the device; returns 0 if it did not. fat and lng: NULL if not wanted. device_only: as in
 * milcgpu_plugin_links. */
int milcgpu_make_links(milcgpu_routine routine, info_t *info, su3_matrix *fat, su3_matrix *lng,
                       const ks_component_paths *p, const su3_matrix *links, int device_only);
/* The first makes links by MILC's routine, the second on the device or, if that fails, by MILC's routine. */
void milcgpu_cpu_fn_links(info_t *info, fn_links_t *fn, ks_action_paths *ap, su3_matrix *links, int want_back);
void milcgpu_fill_asqtad(fn_links_t *fn, ks_action_paths *ap, su3_matrix *links);

/* Makes backward links in new fields. On several ranks they come from the neighbours, so MILC's routine makes them. */
void milcgpu_make_backlinks(fn_links_t *fn);

/* HISQ: the number of sets that MILC keeps, and whether MILC keeps the derivative by eps_naik. */
int milcgpu_n_sets(const ks_action_paths_hisq *ap);
int milcgpu_makes_deps(const ks_action_paths_hisq *ap, int want_deps);
/* Create links without filling the fields. */
fn_links_t *milcgpu_new_fn_links(void);
hisq_auxiliary_t *milcgpu_create_auxiliary(const ks_action_paths_hisq *ap);
void milcgpu_destroy_hisq(ks_action_paths_hisq *ap, hisq_auxiliary_t *aux, fn_links_t **fn, fn_links_t *deps);
/* fn: n_sets sets, and the derivative by eps_naik if `deps`. fill: fill the auxiliary links, too. */
int milcgpu_make_hisq(info_t *info, fn_links_t **fn, int deps, hisq_auxiliary_t *aux, const ks_action_paths_hisq *ap,
                      const su3_matrix *links, int device_only, int fill);
void milcgpu_cpu_hisq(info_t *info, fn_links_t **fn, fn_links_t **fn_deps, hisq_auxiliary_t **aux,
                      ks_action_paths_hisq *ap, su3_matrix *links, int want_deps, int want_back);

/* How to make fermion links that only the device has. MILC owns all of this except made_of. */
typedef struct {
    int n, want_back;
    fn_links_t *fn[MAX_NAIK + 1]; /* NULL: destroyed since. The last is the derivative by eps_naik, if MILC has it */
    ks_action_paths *asqtad;      /* one of these two is set */
    ks_action_paths_hisq *hisq;
    hisq_auxiliary_t *aux; /* NULL: not wanted */
    su3_matrix *made_of;   /* a copy of the gauge links; NULL: the gauge field of the sites */
} milcgpu_making_of_links;

/* Fills the fields of HISQ links, except the backward links. */
void milcgpu_fill_hisq(const milcgpu_making_of_links *making, su3_matrix *links);

/* ---- deferred.c -------------------------------------------------------------------------------------------------- */

/* Call it before MILC destroys HISQ links: it makes the sums of these links while both parts exist. */
void milcgpu_before_hisq_is_destroyed(const hisq_auxiliary_t *aux, const fn_links_t *zero,
                                      const fn_links_t *derivative);
/* Defers the fields of these links. They are filled when MILC reads one of them (get_fatlinks and similar routines,
 * get_hisq_auxiliary, one of MILC's own routines), before the gauge field that they are made of changes, and before
 * other links are made. */
void milcgpu_defer(const milcgpu_making_of_links *links);
/* Makes backward links, each in a field that MILC owns, now or when MILC requests them. */
void milcgpu_load_backlinks(fn_links_t *fn, int want_back);

/* ---- links.c ----------------------------------------------------------------------------------------------------- */

/* Whether there is room for n fields of links to compare with. MILC's routines allocate these fields, and end the run
 * if memory is short. */
int milcgpu_room_to_compare(int n);

#endif
