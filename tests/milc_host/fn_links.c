/* The fields of fermion links, in their own file as in MILC, because the linker replaces calls between files only. */
#include "../generic_ks/generic_ks_includes.h"
#include "../include/fermion_links.h"

hisq_auxiliary_t *get_hisq_auxiliary(fermion_links_t *fl) { return fl->aux; }
su3_matrix *get_fatlinks(fn_links_t *fn) { return fn->fat; }
su3_matrix *get_lnglinks(fn_links_t *fn) { return fn->lng; }
su3_matrix *get_fatbacklinks(fn_links_t *fn) { return fn->fatback; }
su3_matrix *get_lngbacklinks(fn_links_t *fn) { return fn->lngback; }

#ifdef MILC_HOST_NEWER
/* to = a + factor b. Missing fields are skipped. */
static void add_fields(const su3_matrix *a, Real factor, const su3_matrix *b, su3_matrix *to) {
    size_t k;
    if (b == NULL || to == NULL)
        return;
    for (k = 0; k < 4 * 18 * sites_on_node; k++)
        ((Real *)to)[k] = (a != NULL ? ((const Real *)a)[k] : 0) + factor * ((const Real *)b)[k];
}
void scalar_mult_fn(fn_links_t *from, Real factor, fn_links_t *to) {
    add_fields(NULL, factor, get_fatlinks(from), get_fatlinks(to));
    add_fields(NULL, factor, get_lnglinks(from), get_lnglinks(to));
    add_fields(NULL, factor, get_fatbacklinks(from), get_fatbacklinks(to));
    add_fields(NULL, factor, get_lngbacklinks(from), get_lngbacklinks(to));
}
void add_fn(fn_links_t *a, fn_links_t *b, fn_links_t *to) {
    add_fields(get_fatlinks(a), 1, get_fatlinks(b), get_fatlinks(to));
    add_fields(get_lnglinks(a), 1, get_lnglinks(b), get_lnglinks(to));
    add_fields(get_fatbacklinks(a), 1, get_fatbacklinks(b), get_fatbacklinks(to));
    add_fields(get_lngbacklinks(a), 1, get_lngbacklinks(b), get_lngbacklinks(to));
}
#endif
