/* Makes fields of fermion links on the device or by MILC: fat and long links, HISQ links with their auxiliary links,
 * backward links. The links include the phases, as MILC's links do. */
#include "links.h"

#include "../include/umethod.h"
#include <string.h>

#include "routines.h"

static double fat_flops(const ks_component_paths *p) {
    const asqtad_coeffs_t *c = &p->act_path_coeff;
    return (c->three_staple == 0 && c->lepage == 0 && c->five_staple == 0 ? 72.0 : 61632.0) * volume / numnodes();
}

static double long_flops(void) { return 1728.0 * volume / numnodes(); }

/* fat and lng: NULL if not wanted. device_only: as in milcgpu_plugin_links. */
int milcgpu_make_links(milcgpu_routine routine, info_t *info, su3_matrix *fat, su3_matrix *lng,
                       const ks_component_paths *p, const su3_matrix *links, int device_only) {
    milcgpu_fatlink_spec spec = milcgpu_spec_of(p);
    const double eps = 0;
    void *fats = fat, *lngs = lng;
    milcgpu_fatlink_report report;
    double seconds = -milcgpu_plugin_seconds();
    if (fat == NULL) { /* then there are no staples */
        const milcgpu_paths straight = {0, spec.paths.naik, 0, 0, 0, 0};
        spec.paths = straight;
    }
    const milcgpu_plugin_links_call call = {
        routine, &spec,      milcgpu_gauge_is_deferred(links) ? NULL : links, 1, &eps, &fats, &lngs, NULL, NULL,
        NULL,    device_only};
    if (!milcgpu_plugin_links(call, &report))
        return 0;
    info->final_sec = seconds + milcgpu_plugin_seconds();
    info->final_flop = (fat != NULL ? fat_flops(p) : 0) + (lng != NULL ? long_flops() : 0);
    return 1;
}

void milcgpu_cpu_fn_links(info_t *info, fn_links_t *fn, ks_action_paths *ap, su3_matrix *links, int want_back) {
    milcgpu_fill_gauge(links);
    milcgpu_by_milc(MILCGPU_LOAD_FN_LINKS, milcgpu_original(load_fn_links_cpu)(info, fn, ap, links, want_back));
}

void milcgpu_fill_asqtad(fn_links_t *fn, ks_action_paths *ap, su3_matrix *links) {
    info_t info;
    memset(&info, 0, sizeof info);
    if (!milcgpu_offloads() || !milcgpu_make_links(MILCGPU_LOAD_FN_LINKS, &info, fn->fat, fn->lng, &ap->p, links, 0))
        milcgpu_cpu_fn_links(&info, fn, ap, links, 0);
}

void milcgpu_make_backlinks(fn_links_t *fn) {
    if (numnodes() > 1 || !milcgpu_offloads()) {
        milcgpu_there(load_fn_backlinks)(fn);
        return;
    }
    fn->fatback = (su3_matrix *)milcgpu_room(LINK_BYTES, "backward fat links");
    fn->lngback = (su3_matrix *)milcgpu_room(LINK_BYTES, "backward long links");
    milcgpu_plugin_back_links(fn->fat, 1, fn->fatback);
    milcgpu_plugin_back_links(fn->lng, 3, fn->lngback);
}

/* ---- HISQ -------------------------------------------------------------------------------------------------------- */

/* What MILC keeps: a set of links for every eps_naik; since 2025 the set for eps_naik 0 and the derivative by eps_naik.
 */
#if MILCGPU_MILC >= 3
int milcgpu_n_sets(const ks_action_paths_hisq *ap) {
    (void)ap;
    return 1;
}
int milcgpu_makes_deps(const ks_action_paths_hisq *ap, int want_deps) { return want_deps || ap->n_naiks > 1; }
void milcgpu_destroy_hisq(ks_action_paths_hisq *ap, hisq_auxiliary_t *aux, fn_links_t **fn, fn_links_t *deps) {
    milcgpu_there(destroy_hisq_links_milc)(ap, aux, fn[0], deps);
}
#else
int milcgpu_n_sets(const ks_action_paths_hisq *ap) { return ap->n_naiks; }
int milcgpu_makes_deps(const ks_action_paths_hisq *ap, int want_deps) {
    (void)ap;
    return want_deps;
}
void milcgpu_destroy_hisq(ks_action_paths_hisq *ap, hisq_auxiliary_t *aux, fn_links_t **fn, fn_links_t *deps) {
    milcgpu_there(destroy_hisq_links_milc)(ap, aux, fn, deps);
}
#endif

/* create_fn_links without filling the fields with zeros. */
fn_links_t *milcgpu_new_fn_links(void) {
    fn_links_t *fn = (fn_links_t *)milcgpu_room(sizeof(fn_links_t), "fn links");
    init_ferm_links(fn);
#if MILCGPU_MILC >= 3
    fn->preserve = 0;
#endif
    fn->phase = create_link_phase_info();
    fn->fat = (su3_matrix *)milcgpu_room(LINK_BYTES, "fat links");
    fn->lng = (su3_matrix *)milcgpu_room(LINK_BYTES, "long links");
    return fn;
}

hisq_auxiliary_t *milcgpu_create_auxiliary(const ks_action_paths_hisq *ap) {
    hisq_auxiliary_t *aux = (hisq_auxiliary_t *)milcgpu_room(sizeof(hisq_auxiliary_t), "HISQ auxiliary links");
    memset(aux, 0, sizeof *aux);
    aux->phases_in = 1;
    aux->WeqY = ap->ugroup == UNITARIZE_U3;
    aux->U_link = (su3_matrix *)milcgpu_room(LINK_BYTES, "U links");
    aux->V_link = (su3_matrix *)milcgpu_room(LINK_BYTES, "V links");
    aux->Y_unitlink = (su3_matrix *)milcgpu_room(LINK_BYTES, "Y links");
    aux->W_unitlink = aux->WeqY ? aux->Y_unitlink : (su3_matrix *)milcgpu_room(LINK_BYTES, "W links");
    return aux;
}

/* fn: n_sets sets, and the derivative by eps_naik if `deps`. fill: fill the auxiliary links, too. */
int milcgpu_make_hisq(info_t *info, fn_links_t **fn, int deps, hisq_auxiliary_t *aux, const ks_action_paths_hisq *ap,
                      const su3_matrix *links, int device_only, int fill) {
    milcgpu_fatlink_spec spec = milcgpu_spec_of_hisq_links(ap);
    milcgpu_fatlink_report report;
    void *fat[MAX_NAIK + 1], *lng[MAX_NAIK + 1];
    double eps[MAX_NAIK + 1];
    int i;
    spec.derivative = deps;
    for (i = 0; i < milcgpu_n_sets(ap) + deps; i++) {
        fat[i] = fn[i]->fat;
        lng[i] = fn[i]->lng;
        eps[i] = i == 0 || i == milcgpu_n_sets(ap) ? 0 : ap->eps_naik[i];
        fn[i]->eps_naik = eps[i];
    }
    if (fill && !milcgpu_gauge_to(aux->U_link, links))
        return 0;
    const milcgpu_plugin_links_call call = {MILCGPU_HISQ_LINKS,
                                            &spec,
                                            milcgpu_gauge_is_deferred(links) ? NULL : links,
                                            milcgpu_n_sets(ap) + deps,
                                            eps,
                                            fat,
                                            lng,
                                            fill ? aux->V_link : NULL,
                                            fill ? aux->Y_unitlink : NULL,
                                            fill && !aux->WeqY ? aux->W_unitlink : NULL,
                                            device_only};
    if (!milcgpu_plugin_links(call, &report))
        return 0;
    INFO_HISQ_SVD_COUNTER(info) += (int)report.svd_links;
    info->final_flop = fat_flops(&ap->p1) + fat_flops(&ap->p2) + long_flops();
    if (ap->n_naiks > 1 || deps)
        info->final_flop +=
            fat_flops(&ap->p3) + long_flops() + 2 * 18.0 * (milcgpu_n_sets(ap) - 1) * volume / numnodes();
    return 1;
}

void milcgpu_cpu_hisq(info_t *info, fn_links_t **fn, fn_links_t **fn_deps, hisq_auxiliary_t **aux,
                      ks_action_paths_hisq *ap, su3_matrix *links, int want_deps, int want_back) {
    milcgpu_fill_gauge(links);
    milcgpu_by_milc(MILCGPU_HISQ_LINKS,
                    milcgpu_original(create_hisq_links_milc)(info, fn, fn_deps, aux, ap, links, want_deps, want_back));
}

/* By MILC's routine, which allocates its own fields. aux: NULL if not wanted. */
static void fill_by_cpu(fn_links_t **to, int deps_too, hisq_auxiliary_t *aux, ks_action_paths_hisq *ap,
                        su3_matrix *links) {
    info_t info;
    fn_links_t *fn[MAX_NAIK], *deps = NULL;
    hisq_auxiliary_t *made;
    int i;
    memset(&info, 0, sizeof info);
    milcgpu_cpu_hisq(&info, fn, &deps, &made, ap, links, deps_too, 0);
    for (i = 0; i < milcgpu_n_sets(ap) + deps_too; i++) {
        const fn_links_t *from = i < milcgpu_n_sets(ap) ? fn[i] : deps;
        memcpy(to[i]->fat, from->fat, LINK_BYTES);
        memcpy(to[i]->lng, from->lng, LINK_BYTES);
    }
    if (aux != NULL) {
        memcpy(aux->U_link, made->U_link, LINK_BYTES);
        memcpy(aux->V_link, made->V_link, LINK_BYTES);
        memcpy(aux->Y_unitlink, made->Y_unitlink, LINK_BYTES);
        memcpy(aux->W_unitlink, made->W_unitlink, LINK_BYTES);
    }
    milcgpu_destroy_hisq(ap, made, fn, deps);
}

void milcgpu_fill_hisq(const milcgpu_making_of_links *making, su3_matrix *links) {
    const int deps = making->n - milcgpu_n_sets(making->hisq);
    fn_links_t *fn[MAX_NAIK + 1];
    info_t info;
    int i;
    memset(&info, 0, sizeof info);
    for (i = 0; i < making->n; i++)
        fn[i] = making->fn[i] != NULL ? making->fn[i] : milcgpu_new_fn_links();
    if (!milcgpu_offloads() ||
        !milcgpu_make_hisq(&info, fn, deps, making->aux, making->hisq, links, 0, making->aux != NULL))
        fill_by_cpu(fn, deps, making->aux, making->hisq, links);
    for (i = 0; i < making->n; i++)
        if (making->fn[i] == NULL)
            milcgpu_original(destroy_fn_links)(fn[i]); /* no other code has their addresses */
}
