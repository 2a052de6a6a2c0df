/* The fields of fermion links: in a file of its own, as in MILC, because the linker replaces calls between files only.
 */
#include "../generic_ks/generic_ks_includes.h"
#include "../include/fermion_links.h"

hisq_auxiliary_t *get_hisq_auxiliary(fermion_links_t *fl) { return fl->aux; }
su3_matrix *get_fatlinks(fn_links_t *fn) { return fn->fat; }
su3_matrix *get_lnglinks(fn_links_t *fn) { return fn->lng; }
su3_matrix *get_fatbacklinks(fn_links_t *fn) { return fn->fatback; }
su3_matrix *get_lngbacklinks(fn_links_t *fn) { return fn->lngback; }
