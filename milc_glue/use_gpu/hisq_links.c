/* create_hisq_links_milc: U, V, Y, W and the links for every eps_naik. */
#include "links.h"
#include <string.h>

#include "routines.h"

/* MILC destroys the auxiliary links at once where a program has said that it does not want them: measurements. They are
 * not filled then, unless links were made that keep theirs, which a program may make anew at any time. */
static int aux_wanted = 1, aux_ever_kept = 0;
void __wrap_fermion_links_want_aux(int request) {
    aux_wanted = request;
    milcgpu_original(fermion_links_want_aux)(request);
}
static int fills_auxiliary(void) {
    aux_ever_kept = aux_ever_kept || aux_wanted;
    return aux_ever_kept || milcgpu_plugin_compare();
}

static void compare_hisq(info_t *info, fn_links_t **fn, fn_links_t *fn_deps, const hisq_auxiliary_t *aux,
                         ks_action_paths_hisq *ap, su3_matrix *links, int want_back, double seconds) {
    fn_links_t *cpu_fn[MAX_NAIK], *cpu_deps;
    hisq_auxiliary_t *cpu_aux;
    void *ours[4 * MAX_NAIK + 8], *theirs[4 * MAX_NAIK + 8];
    const milcgpu_fatlink_spec spec = milcgpu_spec_of_hisq_links(ap);
    info_t cpu_info = *info;
    int i, n = 0;
    milcgpu_cpu_hisq(&cpu_info, cpu_fn, &cpu_deps, &cpu_aux, ap, links, fn_deps != NULL, want_back);
    ours[n] = aux->U_link, theirs[n++] = cpu_aux->U_link;
    ours[n] = aux->V_link, theirs[n++] = cpu_aux->V_link;
    ours[n] = aux->Y_unitlink, theirs[n++] = cpu_aux->Y_unitlink;
    ours[n] = aux->W_unitlink, theirs[n++] = cpu_aux->W_unitlink;
    for (i = 0; i <= milcgpu_n_sets(ap); i++) {
        const fn_links_t *a = i < milcgpu_n_sets(ap) ? fn[i] : fn_deps,
                         *b = i < milcgpu_n_sets(ap) ? cpu_fn[i] : cpu_deps;
        if (a == NULL || b == NULL)
            continue;
        ours[n] = a->fat, theirs[n++] = b->fat;
        ours[n] = a->lng, theirs[n++] = b->lng;
        ours[n] = a->fatback, theirs[n++] = b->fatback;
        ours[n] = a->lngback, theirs[n++] = b->lngback;
    }
    milcgpu_judge(
        milcgpu_plugin_compare_hisq_links(n, ours, theirs, cpu_aux->V_link, &spec, seconds, cpu_info.final_sec));
    milcgpu_destroy_hisq(ap, cpu_aux, cpu_fn, cpu_deps);
}

/* A copy of the gauge links, for links that can be made again later. NULL: these are filled at once. They are deferred
 * on one rank, where fields may stay on the device and where MILC's reads of links are known. With auxiliary links that
 * is in ks_imp_rhmc, where the device applies D: measurements read no links then. */
static su3_matrix *copy_to_defer(const su3_matrix *links, int with_aux) {
    su3_matrix *copy = NULL;
    if (with_aux && (!milcgpu_keeps_solutions() || !milcgpu_plugin_takes_dslash() || milcgpu_plugin_compare()))
        return NULL;
    if (numnodes() == 1 && milcgpu_plugin_resident() && milcgpu_reads_are_known())
        copy = (su3_matrix *)milcgpu_plugin_allocate(LINK_BYTES);
    if (copy == NULL)
        return NULL;
    if (milcgpu_gauge_to(copy, links))
        return copy;
    free(copy);
    return NULL;
}

void __wrap_create_hisq_links_milc(info_t *info, fn_links_t **fn, fn_links_t **fn_deps, hisq_auxiliary_t **aux,
                                   ks_action_paths_hisq *ap, su3_matrix *links, int want_deps, int want_back) {
    const int deps = milcgpu_makes_deps(ap, want_deps), n = milcgpu_n_sets(ap) + deps;
    milcgpu_making_of_links these = {n, want_back, {NULL}, NULL, ap, NULL, NULL};
    double seconds;
    int i, device_only, with_aux, done;
    milcgpu_fill_links(); /* new links take their place on the device */
    if (!milcgpu_offloads() ||
        !milcgpu_can_offload(MILCGPU_HISQ_LINKS, milcgpu_why_own_hisq(ap) == NULL, milcgpu_why_own_hisq(ap))) {
        milcgpu_fill_gauge(links);
        milcgpu_original(create_hisq_links_milc)(info, fn, fn_deps, aux, ap, links, want_deps, want_back);
        return;
    }
    seconds = -milcgpu_plugin_seconds();
    with_aux = fills_auxiliary();
    device_only = milcgpu_may_defer_links();
    if (!device_only)
        device_only = (these.made_of = copy_to_defer(links, with_aux)) != NULL;
    *aux = milcgpu_create_auxiliary(ap, with_aux && these.made_of == NULL);
    for (i = 0; i < n; i++)
        these.fn[i] = these.made_of != NULL ? milcgpu_new_fn_links_by(milcgpu_untouched_room) : milcgpu_new_fn_links();
    memcpy(fn, these.fn, milcgpu_n_sets(ap) * sizeof *fn);
    *fn_deps = deps ? these.fn[milcgpu_n_sets(ap)] : NULL;
    done = milcgpu_make_hisq(info, these.fn, deps, *aux, ap, links, device_only, with_aux && !device_only);
    if (!done) {
        free(these.made_of);
        milcgpu_destroy_hisq(ap, *aux, fn, *fn_deps);
        milcgpu_cpu_hisq(info, fn, fn_deps, aux, ap, links, want_deps, want_back);
        return;
    }
    if (device_only) {
        these.aux = with_aux ? *aux : NULL;
        milcgpu_defer(&these);
    }
    for (i = 0; i < n && !device_only; i++)
        milcgpu_load_backlinks(these.fn[i], want_back);
    seconds += milcgpu_plugin_seconds();
    info->final_sec = seconds;
    if (this_node == 0)
        printf("Combined fattening and long-link calculation time: %lf\n", seconds);
    if (milcgpu_plugin_compare() && milcgpu_room_to_compare(4 + (want_back ? 4 : 2) * n))
        compare_hisq(info, fn, *fn_deps, *aux, ap, links, want_back, seconds);
}

/* It frees the auxiliary links in its own file, where no call is replaced. */
#if MILCGPU_MILC >= 3
void __wrap_destroy_hisq_links_milc(ks_action_paths_hisq *ap, hisq_auxiliary_t *aux, fn_links_t *fn,
                                    fn_links_t *fn_deps) {
    milcgpu_before_hisq_is_destroyed(aux, fn, fn_deps);
    milcgpu_original(destroy_hisq_links_milc)(ap, aux, fn, fn_deps);
}
#else
void __wrap_destroy_hisq_links_milc(ks_action_paths_hisq *ap, hisq_auxiliary_t *aux, fn_links_t **fn,
                                    fn_links_t *fn_deps) {
    milcgpu_before_hisq_is_destroyed(aux, NULL, NULL); /* sums are of links that MILC has, too */
    milcgpu_original(destroy_hisq_links_milc)(ap, aux, fn, fn_deps);
}
#endif
