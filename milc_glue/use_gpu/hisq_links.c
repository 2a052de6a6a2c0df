/* create_hisq_links_milc: U, V, Y, W and the links for every eps_naik. */
#include "links.h"
#include <string.h>

#include "routines.h"

/* MILC destroys the auxiliary links at once if the program has declared that it does not want them (measurements). Then
 * they are not filled, unless links exist that keep their own, because the program may remake those at any time. */
static struct { int is_wanted, was_ever_kept; } auxiliary = {1, 0};
void __wrap_fermion_links_want_aux(int request) {
    auxiliary.is_wanted = request;
    milcgpu_original(fermion_links_want_aux)(request);
}
static int fills_auxiliary(void) {
    auxiliary.was_ever_kept = auxiliary.was_ever_kept || auxiliary.is_wanted;
    return auxiliary.was_ever_kept || milcgpu_plugin_compare();
}

/* A call of create_hisq_links_milc, and MILC's links to compare with. */
typedef struct {
    info_t *info;
    fn_links_t **fn, **fn_deps;
    hisq_auxiliary_t **aux;
    ks_action_paths_hisq *ap;
    su3_matrix *links;
    int want_deps, want_back;
    fn_links_t *cpu_fn[MAX_NAIK], *cpu_deps;
    hisq_auxiliary_t *cpu_aux; /* NULL: no room */
} creation;

static void create_to_compare(creation *c) {
    const int sets = milcgpu_n_sets(c->ap) + (*c->fn_deps != NULL);
    info_t info = *c->info;
    if (milcgpu_room_to_compare(4 + (c->want_back ? 4 : 2) * sets))
        milcgpu_original(create_hisq_links_milc)(&info, c->cpu_fn, &c->cpu_deps, &c->cpu_aux, c->ap, c->links,
                                                 *c->fn_deps != NULL, c->want_back);
}
static int compare_hisq(const milcgpu_call *call) {
    const creation *const c = (const creation *)call->details;
    const hisq_auxiliary_t *const aux = *c->aux;
    const milcgpu_fatlink_spec spec = milcgpu_spec_of_hisq_links(c->ap);
    void *ours[4 * MAX_NAIK + 8], *theirs[4 * MAX_NAIK + 8];
    const int sets = milcgpu_n_sets(c->ap);
    int i, good, n = 0;
    if (c->cpu_aux == NULL)
        return 1;
    ours[n] = aux->U_link, theirs[n++] = c->cpu_aux->U_link;
    ours[n] = aux->V_link, theirs[n++] = c->cpu_aux->V_link;
    ours[n] = aux->Y_unitlink, theirs[n++] = c->cpu_aux->Y_unitlink;
    ours[n] = aux->W_unitlink, theirs[n++] = c->cpu_aux->W_unitlink;
    for (i = 0; i <= sets; i++) {
        const fn_links_t *a = i < sets ? c->fn[i] : *c->fn_deps, *b = i < sets ? c->cpu_fn[i] : c->cpu_deps;
        if (a == NULL || b == NULL)
            continue;
        ours[n] = a->fat, theirs[n++] = b->fat;
        ours[n] = a->lng, theirs[n++] = b->lng;
        ours[n] = a->fatback, theirs[n++] = b->fatback;
        ours[n] = a->lngback, theirs[n++] = b->lngback;
    }
    good =
        milcgpu_plugin_compare_hisq_links(n, ours, theirs, c->cpu_aux->V_link, &spec, call->seconds, call->cpu_seconds);
    milcgpu_destroy_hisq(c->ap, c->cpu_aux, (fn_links_t **)c->cpu_fn, c->cpu_deps);
    return good;
}

/* Returns a copy of the gauge links, from which HISQ links can be made later; NULL: fill them at once. Links are
 * deferred if fields may stay on the device and milcgpu knows all of MILC's reads of links. With auxiliary links that
 * holds in ks_imp_rhmc, where the device applies D; measurements do not read auxiliary links. All ranks defer or none:
 * they exchange messages to fill the links. */
static su3_matrix *copy_to_defer(const su3_matrix *links, int with_aux) {
    su3_matrix *copy;
    if (with_aux && (!milcgpu_keeps_solutions() || !milcgpu_plugin_takes_dslash() || milcgpu_plugin_compare()))
        return NULL;
    if (!milcgpu_plugin_resident() || !milcgpu_reads_are_known())
        return NULL;
    copy = (su3_matrix *)milcgpu_plugin_allocate(LINK_BYTES);
    if (!milcgpu_plugin_agreed(copy == NULL) && milcgpu_gauge_to(copy, links))
        return copy;
    free(copy);
    return NULL;
}

static int create_by_device(const milcgpu_call *call, creation *c) {
    const int deps = milcgpu_makes_deps(c->ap, c->want_deps), sets = milcgpu_n_sets(c->ap), n = sets + deps;
    const int with_aux = fills_auxiliary();
    milcgpu_making_of_links these = {n, c->want_back, {NULL}, NULL, c->ap, NULL, NULL};
    int i, device_only = milcgpu_may_defer_links();
    if (!device_only)
        device_only = (these.made_of = copy_to_defer(c->links, with_aux)) != NULL;
    *c->aux = milcgpu_create_auxiliary(c->ap);
    for (i = 0; i < n; i++)
        these.fn[i] = milcgpu_new_fn_links();
    memcpy(c->fn, these.fn, sets * sizeof *c->fn);
    *c->fn_deps = deps ? these.fn[sets] : NULL;
    if (!milcgpu_make_hisq(c->info, these.fn, deps, *c->aux, c->ap, c->links, device_only, with_aux && !device_only)) {
        free(these.made_of);
        milcgpu_destroy_hisq(c->ap, *c->aux, c->fn, *c->fn_deps);
        return 0;
    }
    if (device_only) {
        these.aux = with_aux ? *c->aux : NULL;
        milcgpu_defer(&these);
    }
    for (i = 0; i < n && !device_only; i++)
        milcgpu_load_backlinks(these.fn[i], c->want_back);
    c->info->final_sec = milcgpu_seconds_so_far(call);
    if (this_node == 0)
        printf("Combined fattening and long-link calculation time: %lf\n", c->info->final_sec);
    return 1;
}

/* New links take the place of other links on the device, so MILC's fields of the old links are filled first. */
void __wrap_create_hisq_links_milc(info_t *info, fn_links_t **fn, fn_links_t **fn_deps, hisq_auxiliary_t **aux,
                                   ks_action_paths_hisq *ap, su3_matrix *links, int want_deps, int want_back) {
    creation c = {info, fn, fn_deps, aux, ap, links, want_deps, want_back, {NULL}, NULL, NULL};
    milcgpu_call call =
        MILCGPU_MEMBERS(.row = MILCGPU_HISQ_LINKS, .name = "create_hisq_links_milc", .needs = MILCGPU_FERMION_LINKS,
                        .why_own = milcgpu_why_own_hisq(ap), .reads = MILCGPU_GAUGE_COPY, .compare = compare_hisq,
                        .details = &c, .only_compared = 1);
    if (!milcgpu_offload(&call, create_by_device(&call, &c), create_to_compare(&c)))
        milcgpu_by_original(
            &call, milcgpu_original(create_hisq_links_milc)(info, fn, fn_deps, aux, ap, links, want_deps, want_back));
}

/* It frees the auxiliary links in its own file, where the linker replaces no call. */
#if MILCGPU_MILC >= 3
void __wrap_destroy_hisq_links_milc(ks_action_paths_hisq *ap, hisq_auxiliary_t *aux, fn_links_t *fn,
                                    fn_links_t *fn_deps) {
    milcgpu_before_hisq_is_destroyed(aux, fn, fn_deps);
    milcgpu_original(destroy_hisq_links_milc)(ap, aux, fn, fn_deps);
}
#else
void __wrap_destroy_hisq_links_milc(ks_action_paths_hisq *ap, hisq_auxiliary_t *aux, fn_links_t **fn,
                                    fn_links_t *fn_deps) {
    milcgpu_before_hisq_is_destroyed(aux, NULL, NULL); /* sums are made of links that MILC has, too */
    milcgpu_original(destroy_hisq_links_milc)(ap, aux, fn, fn_deps);
}
#endif
