/* Starts the plugin at the first offloaded routine: describes this MILC and the layout of its sites. Also what every
 * wrapper does around MILC's original routine. */
#include "glue.h"
#include <string.h>

#ifndef MILC_CODE_VERSION
#define MILC_CODE_VERSION "7"
#endif

typedef struct {
    const int *extent, *origin;
    int *map;
} map_work;

/* 1: MILC's layout contradicts itself */
static int map_part(void *what, size_t from, size_t to) {
    const map_work *w = (const map_work *)what;
    size_t l;
    for (l = from; l < to; l++) {
        const size_t row = l / w->extent[0], plane = row / w->extent[1];
        const int x = w->origin[0] + l % w->extent[0], y = w->origin[1] + row % w->extent[1];
        const int z = w->origin[2] + plane % w->extent[2], t = w->origin[3] + plane / w->extent[2];
        const int odd = (x + y + z + t) % 2;
        const size_t i = node_index(x, y, z, t);
        if (i >= sites_on_node || (i >= even_sites_on_node) != odd || lattice[i].x != x || lattice[i].y != y ||
            lattice[i].z != z || lattice[i].t != t || node_number(x, y, z, t) != mynode())
            return 1;
        w->map[odd ? (l + sites_on_node) / 2 : l / 2] = (int)i;
    }
    return 0;
}

int *milcgpu_site_map(milcgpu_milc *milc) {
    map_work work = {milc->extent, milc->origin, NULL};
    int contradicts;
    if ((nx | ny | nz | nt) % 2 != 0 || !milcgpu_describe_box(milc))
        return NULL;
    work.map = (int *)milcgpu_try_room(sites_on_node * sizeof(int), "the site map");
    if (work.map == NULL)
        return NULL;
    contradicts = milcgpu_plugin_by_all_threads(sites_on_node, map_part, &work);
    if (contradicts < 0)
        contradicts = map_part(&work, 0, sites_on_node);
    if (contradicts == 0)
        return work.map;
    free(work.map);
    return NULL;
}

static void describe(char *text, size_t size) {
#ifdef MILCGPU_SERVES
    snprintf(text, size, "MILC %s, %s, sizeof(site) %lu, sizeof(quark_invert_control) %lu",
             *MILC_CODE_VERSION ? MILC_CODE_VERSION : "version 7", FERM_ACTION == HISQ ? "HISQ" : "FN (asqtad)",
             (unsigned long)sizeof(site), (unsigned long)sizeof(quark_invert_control));
#else
#if defined(MILCGPU_SERVES_FLOW)
    const char *const program = "wilson_flow";
#elif defined(MILCGPU_SERVES_HYP)
    const char *const program = "hvy_qpot";
#else
    const char *const program = "without fermions";
#endif
    snprintf(text, size, "MILC %s, %s, sizeof(site) %lu", *MILC_CODE_VERSION ? MILC_CODE_VERSION : "version 7", program,
             (unsigned long)sizeof(site));
#endif
}

static int start(void) {
    char text[256];
    milcgpu_milc milc;
    int *map;
    int taken;
    describe(text, sizeof text);
    memset(&milc, 0, sizeof milc);
    milc.struct_size = sizeof milc;
    milc.header_version = MILCGPU_VERSION;
    milc.milc = text;
    milc.precision = MILC_PRECISION;
    milc.own_routines = 1;
    milc.report_sizes = milcgpu_sizes_of_reports();
    milcgpu_describe_ranks(&milc);
    milc.site_map = map = milcgpu_site_map(&milc);
    milcgpu_find_not_offloaded(milc.not_offloaded);
    milc.keeps_solutions = milcgpu_keeps_solutions();
    taken = milcgpu_plugin_start(&milc);
    free(map);
    return taken;
}

int milcgpu_offloads(void) {
    static int started = 0;
    if (!started) {
        started = 1;
        start();
    }
    return milcgpu_plugin_active();
}

milcgpu_running_originals milcgpu_originals;

static double *start_at(int depth) {
    return &milcgpu_originals.since[depth % (int)(sizeof milcgpu_originals.since / sizeof *milcgpu_originals.since)];
}

void milcgpu_enter_original(milcgpu_routine routine) {
    milcgpu_plugin_original(routine, 1);
    *start_at(milcgpu_originals.depth++) = milcgpu_plugin_seconds();
}
double milcgpu_leave_original(milcgpu_routine routine) {
    const double seconds = milcgpu_plugin_seconds() - *start_at(--milcgpu_originals.depth);
    milcgpu_plugin_original(routine, 0);
    return seconds;
}
