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

/* Links that MILC has made last, where they are on the device alone and their fields are not filled. All of it is
 * MILC's, and there until MILC makes links anew. */
typedef struct {
    int n, want_back; /* n 0: none */
    fn_links_t *fn[MAX_NAIK];
    ks_action_paths *asqtad;
    ks_action_paths_hisq *hisq;
    hisq_auxiliary_t *aux;
} milcgpu_unfilled_links;
extern milcgpu_unfilled_links milcgpu_unfilled;
void milcgpu_leave_unfilled(su3_matrix *field);
void milcgpu_leave_links_unfilled(fn_links_t *fn, int want_back);
void milcgpu_fill_hisq(su3_matrix *links); /* but for the backward links */

/* HISQ links of a program that measures: on the device alone until MILC asks for one of their fields (get_fatlinks and
 * the like), which nearly none does. */
void milcgpu_fill_waiting_of(const fn_links_t *fn);
void milcgpu_forget_waiting(const fn_links_t *fn); /* MILC destroys them */
int milcgpu_reads_are_known(void);                 /* whether it asks in this program */

#endif
