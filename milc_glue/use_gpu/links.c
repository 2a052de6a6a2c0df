/* load_fn_links (asqtad: fat and long links together), load_fatlinks and load_lnglinks alone, create_G_from_site. */
#include "links.h"

#include "routines.h"

/* Whether there is room for n fields of links to compare with. MILC's routines allocate these fields, and end the run
 * if memory is short. */
int milcgpu_room_to_compare(int n) {
    void *room = milcgpu_spare_room(n * LINK_BYTES, "links to compare with");
    free(room);
    return room != NULL;
}

typedef struct {
    info_t *info;
    fn_links_t *fn, *cpu; /* MILC's links, to compare with; NULL: no room */
    ks_action_paths *ap;
    su3_matrix *links;
    int want_back;
} loading;

static int load_by_device(const milcgpu_call *call, loading *l) {
    const int device_only = milcgpu_may_defer_links();
    if (!milcgpu_make_links(MILCGPU_LOAD_FN_LINKS, l->info, l->fn->fat, l->fn->lng, &l->ap->p, l->links, device_only))
        return 0;
    if (device_only) {
        const milcgpu_making_of_links these = {1, l->want_back, {l->fn}, l->ap, NULL, NULL, NULL};
        milcgpu_defer(&these);
    } else
        milcgpu_load_backlinks(l->fn, l->want_back);
    l->info->final_sec = milcgpu_seconds_so_far(call);
    return 1;
}
/* MILC's links get fields of their own, because the routine frees and allocates backward links. */
static void load_to_compare(loading *l) {
    info_t info = *l->info;
    if (!milcgpu_room_to_compare(l->want_back ? 4 : 2))
        return;
    l->cpu = create_fn_links();
    milcgpu_original(load_fn_links_cpu)(&info, l->cpu, l->ap, l->links, l->want_back);
}
static int compare_loaded(const milcgpu_call *call) {
    const loading *const l = (const loading *)call->details;
    int good;
    if (l->cpu == NULL)
        return 1;
    void *const ours[4] = {l->fn->fat, l->fn->lng, l->fn->fatback, l->fn->lngback};
    void *const theirs[4] = {l->cpu->fat, l->cpu->lng, l->cpu->fatback, l->cpu->lngback};
    good = milcgpu_plugin_compare_links(call->row, 4, ours, theirs, call->seconds, call->cpu_seconds);
    milcgpu_there(destroy_fn_links)(l->cpu);
    return good;
}
static const char *why_own_links(const ks_component_paths *p) {
    return milcgpu_has_coefficients(p) ? NULL : MILCGPU_NO_COEFFICIENTS;
}

/* New links take the place of other links on the device, so MILC's fields of the old links are filled first. */
void __wrap_load_fn_links_cpu(info_t *info, fn_links_t *fn, ks_action_paths *ap, su3_matrix *links, int want_back) {
    loading l = {info, fn, NULL, ap, links, want_back};
    milcgpu_call call =
        MILCGPU_MEMBERS(.row = MILCGPU_LOAD_FN_LINKS, .name = "load_fn_links", .needs = MILCGPU_FERMION_LINKS,
                        .why_own = why_own_links(&ap->p), .reads = MILCGPU_GAUGE_COPY, .compare = compare_loaded,
                        .details = &l, .only_compared = 1);
    if (!milcgpu_offload(&call, load_by_device(&call, &l), load_to_compare(&l)))
        milcgpu_by_original(&call, milcgpu_original(load_fn_links_cpu)(info, fn, ap, links, want_back));
}

/* Fat links alone or long links alone. */
static milcgpu_call call_of(milcgpu_routine row, const char *name, const ks_component_paths *p, milcgpu_output *links) {
    const milcgpu_call call = MILCGPU_MEMBERS(.row = row, .name = name, .needs = MILCGPU_FERMION_LINKS,
                                              .why_own = why_own_links(p), .reads = MILCGPU_GAUGE_COPY,
                                              .outputs = links, .n_outputs = 2, .compare = milcgpu_compare_as_links);
    return call;
}
void __wrap_load_fatlinks_cpu(info_t *info, su3_matrix *fat, ks_component_paths *p, su3_matrix *links) {
    milcgpu_output outputs[] = {MILCGPU_MEMORY(fat, LINK_BYTES), MILCGPU_MEMORY(info, sizeof *info)};
    milcgpu_call call = call_of(MILCGPU_LOAD_FATLINKS, "load_fatlinks", p, outputs);
    milcgpu_offload(&call, milcgpu_make_links(MILCGPU_LOAD_FATLINKS, info, fat, NULL, p, links, 0),
                    milcgpu_original(load_fatlinks_cpu)(info, fat, p, links));
}
void __wrap_load_lnglinks(info_t *info, su3_matrix *lng, ks_component_paths *p, su3_matrix *links) {
    milcgpu_output outputs[] = {MILCGPU_MEMORY(lng, LINK_BYTES), MILCGPU_MEMORY(info, sizeof *info)};
    milcgpu_call call = call_of(MILCGPU_LOAD_LNGLINKS, "load_lnglinks", p, outputs);
    milcgpu_offload(&call, milcgpu_make_links(MILCGPU_LOAD_LNGLINKS, info, NULL, lng, p, links, 0),
                    milcgpu_original(load_lnglinks)(info, lng, p, links));
}

/* ---- gauge links out of the sites ------------------------------------------------------------------------------- */

su3_matrix *__wrap_create_G_from_site(void) {
    if (!milcgpu_offloads()) { /* also after the device was lost */
        milcgpu_need_sites(MILCGPU_LINKS, "create_G_from_site");
        return milcgpu_original(create_G_from_site)();
    }
    return milcgpu_copy_gauge();
}
