/* What the files of fermion links share: links.c (asqtad, and what both actions need), hisq_links.c. */
#ifndef MILCGPU_GLUE_LINKS_H
#define MILCGPU_GLUE_LINKS_H

#include "glue.h"

#define LINK_BYTES (4 * sites_on_node * sizeof(su3_matrix))

milcgpu_paths milcgpu_paths_of(const ks_component_paths *p);
milcgpu_fatlink_spec milcgpu_spec_of(const ks_component_paths *p);
/* Actions given by general paths, without these coefficients, are MILC's. */
int milcgpu_has_coefficients(const ks_component_paths *p);
/* Whether the plugin can do this; said once where it cannot. */
int milcgpu_serves_routine(milcgpu_routine routine, int can, const char *why);
const char *milcgpu_hisq_left(void); /* why this program's HISQ links are MILC's */

/* As MILC counts them, of this rank. */
double milcgpu_fat_flops(const ks_component_paths *p);
double milcgpu_long_flops(void);

/* fat and lng: NULL where not wanted. alone: for the device, as milcgpu_plugin_links has it. */
int milcgpu_make_links(milcgpu_routine routine, info_t *info, su3_matrix *fat, su3_matrix *lng,
                       const ks_component_paths *p, const su3_matrix *links, int alone);

/* Back links as MILC has them, each in a field of MILC's own making, now or when MILC asks for them. */
void milcgpu_load_backlinks(fn_links_t *fn, int want_back);

/* Whether there is room for n fields of links to compare with. MILC's routines make them, and end the run where there
 * is none. */
int milcgpu_room_to_compare(int n);

/* Fermion links that MILC has made last and that are on the device alone. They are filled when somebody reads one of
 * their fields (get_fatlinks and the like, get_hisq_auxiliary, a routine of MILC's own), before the gauge field changes
 * that they are made of, and before others are made. All of it is MILC's, but for the copy. */
typedef struct {
    int n, want_back;         /* n 0: none */
    fn_links_t *fn[MAX_NAIK + 1]; /* NULL: destroyed since. Last the derivative by eps_naik, where MILC has it */
    ks_action_paths *asqtad;  /* one of these two */
    ks_action_paths_hisq *hisq;
    hisq_auxiliary_t *aux;    /* NULL: nobody wants them */
    su3_matrix *made_of;      /* a copy of the gauge links; NULL: the gauge field of the sites, */
    unsigned long of_version; /* which has been the same since (milcgpu_plugin_links_version) */
} milcgpu_deferred_links;
void milcgpu_defer(const milcgpu_deferred_links *links);
void milcgpu_forget_auxiliary(const hisq_auxiliary_t *aux); /* MILC destroys them */
int milcgpu_reads_are_known(void);                          /* whether MILC asks for fields in this program */

/* Fills the fields of HISQ links, but for the backward links. */
void milcgpu_fill_hisq(const milcgpu_deferred_links *deferred, su3_matrix *links);

#endif
