/* Fermion links: make_links.c makes fields, deferred.c keeps those that are made when somebody reads them, links.c and
 * hisq_links.c have MILC's routines. */
#ifndef MILCGPU_GLUE_LINKS_H
#define MILCGPU_GLUE_LINKS_H

#include "sites.h"

#define LINK_BYTES (4 * sites_on_node * sizeof(su3_matrix))

/* ---- make_links.c ------------------------------------------------------------------------------------------------ */

/* By the device; 0: not done. fat and lng: NULL where not wanted. device_only: as milcgpu_plugin_links has it. */
int milcgpu_make_links(milcgpu_routine routine, info_t *info, su3_matrix *fat, su3_matrix *lng,
                       const ks_component_paths *p, const su3_matrix *links, int device_only);
/* By MILC; and by the device, or else by MILC. */
void milcgpu_cpu_fn_links(info_t *info, fn_links_t *fn, ks_action_paths *ap, su3_matrix *links, int want_back);
void milcgpu_fill_asqtad(fn_links_t *fn, ks_action_paths *ap, su3_matrix *links);

/* Backward links, in new fields. On several ranks they come from the neighbours: then MILC's routine makes them. */
void milcgpu_make_backlinks(fn_links_t *fn);

/* HISQ: how many sets MILC keeps, and whether the derivative by eps_naik. */
int milcgpu_n_sets(const ks_action_paths_hisq *ap);
int milcgpu_makes_deps(const ks_action_paths_hisq *ap, int want_deps);
/* Fields that are not filled. used: whether they will be. */
fn_links_t *milcgpu_new_fn_links(void);
hisq_auxiliary_t *milcgpu_create_auxiliary(const ks_action_paths_hisq *ap);
void milcgpu_destroy_hisq(ks_action_paths_hisq *ap, hisq_auxiliary_t *aux, fn_links_t **fn, fn_links_t *deps);
/* fn: n_sets, and the derivative by eps_naik if `deps`. fill: the auxiliary links, too. */
int milcgpu_make_hisq(info_t *info, fn_links_t **fn, int deps, hisq_auxiliary_t *aux, const ks_action_paths_hisq *ap,
                      const su3_matrix *links, int device_only, int fill);
void milcgpu_cpu_hisq(info_t *info, fn_links_t **fn, fn_links_t **fn_deps, hisq_auxiliary_t **aux,
                      ks_action_paths_hisq *ap, su3_matrix *links, int want_deps, int want_back);

/* How fermion links are made that are on the device alone. All of it is MILC's, but for the copy. */
typedef struct {
    int n, want_back;
    fn_links_t *fn[MAX_NAIK + 1]; /* NULL: destroyed since. Last the derivative by eps_naik, where MILC has it */
    ks_action_paths *asqtad;      /* one of these two */
    ks_action_paths_hisq *hisq;
    hisq_auxiliary_t *aux; /* NULL: nobody wants them */
    su3_matrix *made_of;   /* a copy of the gauge links; NULL: the gauge field of the sites */
} milcgpu_making_of_links;

/* Fills the fields of HISQ links, but for the backward links. */
void milcgpu_fill_hisq(const milcgpu_making_of_links *making, su3_matrix *links);

/* ---- deferred.c -------------------------------------------------------------------------------------------------- */

/* MILC destroys HISQ links: a sum of them is made first, while both parts are there. */
void milcgpu_before_hisq_is_destroyed(const hisq_auxiliary_t *aux, const fn_links_t *zero,
                                      const fn_links_t *derivative);
/* They are filled when MILC reads one of their fields (get_fatlinks and the like, get_hisq_auxiliary, a routine of
 * MILC's own), before the gauge field changes that they are made of, and before others are made. */
void milcgpu_defer(const milcgpu_making_of_links *links);
/* Back links as MILC has them, each in a field of MILC's own making, now or when MILC asks for them. */
void milcgpu_load_backlinks(fn_links_t *fn, int want_back);

/* ---- links.c ----------------------------------------------------------------------------------------------------- */

/* Whether there is room for n fields of links to compare with. MILC's routines make them, and end the run where there
 * is none. */
int milcgpu_room_to_compare(int n);

#endif
