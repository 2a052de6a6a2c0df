/* load_fn_links (asqtad: fat and long links together), load_fatlinks and load_lnglinks alone, create_G_from_site. */
#include "links.h"

#include "routines.h"

/* Whether there is room for n fields of links to compare with. MILC's routines make them, and end the run where there
 * is none. */
int milcgpu_room_to_compare(int n) {
    void *room = milcgpu_spare_room(n * LINK_BYTES, "links to compare with");
    free(room);
    return room != NULL;
}

void __wrap_load_fn_links_cpu(info_t *info, fn_links_t *fn, ks_action_paths *ap, su3_matrix *links, int want_back) {
    const int device_only = milcgpu_may_defer_links();
    double seconds;
    milcgpu_fill_links();
    if (!milcgpu_offloads() ||
        !milcgpu_can_offload(MILCGPU_LOAD_FN_LINKS, milcgpu_has_coefficients(&ap->p), MILCGPU_NO_COEFFICIENTS)) {
        milcgpu_fill_gauge(links);
        milcgpu_original(load_fn_links_cpu)(info, fn, ap, links, want_back);
        return;
    }
    seconds = -milcgpu_plugin_seconds();
    if (!milcgpu_make_links(MILCGPU_LOAD_FN_LINKS, info, fn->fat, fn->lng, &ap->p, links, device_only)) {
        milcgpu_cpu_fn_links(info, fn, ap, links, want_back);
        return;
    }
    if (device_only) {
        const milcgpu_making_of_links these = {1, want_back, {fn}, ap, NULL, NULL, NULL};
        milcgpu_defer(&these);
    } else
        milcgpu_load_backlinks(fn, want_back);
    seconds += milcgpu_plugin_seconds();
    info->final_sec = seconds;
    if (milcgpu_plugin_compare() && milcgpu_room_to_compare(want_back ? 4 : 2)) {
        fn_links_t *cpu = create_fn_links();
        info_t cpu_info = *info;
        milcgpu_cpu_fn_links(&cpu_info, cpu, ap, links, want_back);
        void *const ours[4] = {fn->fat, fn->lng, fn->fatback, fn->lngback};
        void *const theirs[4] = {cpu->fat, cpu->lng, cpu->fatback, cpu->lngback};
        milcgpu_judge(
            milcgpu_plugin_compare_links(MILCGPU_LOAD_FN_LINKS, 4, ours, theirs, seconds, cpu_info.final_sec));
        milcgpu_there(destroy_fn_links)(cpu);
    }
}

typedef void (*load_one)(info_t *, su3_matrix *, ks_component_paths *, su3_matrix *);

/* Fat links alone or long links alone. */
static void load_alone(milcgpu_routine routine, load_one original, info_t *info, su3_matrix *out, ks_component_paths *p,
                       su3_matrix *links) {
    const int fat = routine == MILCGPU_LOAD_FATLINKS;
    double seconds = -milcgpu_plugin_seconds();
    void *cpu = NULL;
    milcgpu_fill_links(); /* new links take their place on the device */
    if (milcgpu_make_links(routine, info, fat ? out : NULL, fat ? NULL : out, p, links, 0)) {
        void *const ours = out;
        seconds += milcgpu_plugin_seconds();
        if (milcgpu_plugin_compare())
            cpu = milcgpu_spare_room(LINK_BYTES, "links to compare with");
        if (cpu == NULL)
            return;
        info_t cpu_info = *info;
        const double cpu_seconds = milcgpu_by_milc(routine, original(&cpu_info, (su3_matrix *)cpu, p, links));
        milcgpu_judge(milcgpu_plugin_compare_links(routine, 1, &ours, &cpu, seconds, cpu_seconds));
        free(cpu);
        return;
    }
    milcgpu_fill_gauge(links);
    milcgpu_by_milc(routine, original(info, out, p, links));
}

void __wrap_load_fatlinks_cpu(info_t *info, su3_matrix *fat, ks_component_paths *p, su3_matrix *links) {
    if (!milcgpu_offloads() ||
        !milcgpu_can_offload(MILCGPU_LOAD_FATLINKS, milcgpu_has_coefficients(p), MILCGPU_NO_COEFFICIENTS))
        milcgpu_fill_gauge(links), milcgpu_original(load_fatlinks_cpu)(info, fat, p, links);
    else
        load_alone(MILCGPU_LOAD_FATLINKS, milcgpu_original(load_fatlinks_cpu), info, fat, p, links);
}

void __wrap_load_lnglinks(info_t *info, su3_matrix *lng, ks_component_paths *p, su3_matrix *links) {
    if (!milcgpu_offloads() ||
        !milcgpu_can_offload(MILCGPU_LOAD_LNGLINKS, milcgpu_has_coefficients(p), MILCGPU_NO_COEFFICIENTS))
        milcgpu_fill_gauge(links), milcgpu_original(load_lnglinks)(info, lng, p, links);
    else
        load_alone(MILCGPU_LOAD_LNGLINKS, milcgpu_original(load_lnglinks), info, lng, p, links);
}

/* ---- gauge links out of the sites ------------------------------------------------------------------------------- */

su3_matrix *__wrap_create_G_from_site(void) {
    if (!milcgpu_offloads()) { /* also after the device was lost */
        milcgpu_need_sites(MILCGPU_LINKS, "create_G_from_site");
        return milcgpu_original(create_G_from_site)();
    }
    return milcgpu_copy_gauge();
}
