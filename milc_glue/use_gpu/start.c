/* Tells the plugin what MILC this is and how its sites lie, when the first routine is called. */
#include "ranks.h"
#include <string.h>

#ifndef MILC_CODE_VERSION
#define MILC_CODE_VERSION "7"
#endif

/* Aligned to large pages where that can be had; else as MILC itself would ask for it. */
static void *room(size_t bytes) {
    void *p = milcgpu_plugin_allocate(bytes);
    return p != NULL ? p : malloc(bytes);
}

static void say_no_room(size_t bytes, const char *what, const char *then) {
    char who[40] = "";
    if (numnodes() > 1)
        snprintf(who, sizeof who, "rank %d of %d: ", mynode(), numnodes());
    fprintf(stderr, "milcgpu: %sno room in the host's memory for %s (%lu bytes)%s\n", who, what, (unsigned long)bytes,
            then);
}

/* What one rank goes without, all go without: MILC's own routines need all of them. */
void *milcgpu_spare_room(size_t bytes, const char *what) {
    void *p = room(bytes);
    if (p == NULL)
        say_no_room(bytes, what, "");
    if (milcgpu_plugin_agreed(p == NULL)) {
        free(p);
        return NULL;
    }
    return p;
}

static void *or_end(void *p, size_t bytes, const char *what) {
    if (p == NULL) {
        say_no_room(bytes, what, ", which MILC needs, too: the run ends");
        milcgpu_stop_all_ranks();
    }
    return p;
}
void *milcgpu_room(size_t bytes, const char *what) { return or_end(room(bytes), bytes, what); }
void *milcgpu_untouched_room(size_t bytes, const char *what) {
    return or_end(milcgpu_plugin_allocate_untouched(bytes), bytes, what);
}

void milcgpu_judge(int good) {
    if (good || milcgpu_plugin_compare() != 2)
        return;
    if (this_node == 0)
        fprintf(stderr, "milcgpu: MILCGPU_COMPARE=strict ends the run at this difference\n");
    milcgpu_stop_all_ranks();
}

void milcgpu_end_of_run(void) {
    if (this_node == 0)
        fprintf(stderr, "milcgpu: MILC cannot go on: the run ends\n");
    milcgpu_stop_all_ranks();
}

void milcgpu_end_without(const char *routine) {
    if (this_node == 0)
        fprintf(stderr,
                "milcgpu: MILC's own %s is to be called, but is not in this program: the run ends. Add the object that "
                "has it to the make target of this program\n",
                routine);
    milcgpu_stop_all_ranks();
}

typedef struct {
    const int *extent, *origin;
    int *map;
} map_work;

/* 1: MILC contradicts itself. */
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

/* MILC's index of every site of the box, even sites of the whole lattice first, x fastest; NULL where MILC contradicts
 * itself, has odd extents, or there is no room: MILC then runs by itself. */
static int *site_map(milcgpu_milc *milc) {
    map_work work = {milc->extent, milc->origin, NULL};
    int contradicts;
    if ((nx | ny | nz | nt) % 2 != 0 || !milcgpu_describe_box(milc))
        return NULL;
    work.map = (int *)room(sites_on_node * sizeof(int));
    if (work.map == NULL) {
        say_no_room(sites_on_node * sizeof(int), "the site map", "");
        return NULL;
    }
    contradicts = milcgpu_plugin_by_all_threads(sites_on_node, map_part, &work);
    if (contradicts < 0)
        contradicts = map_part(&work, 0, sites_on_node);
    if (contradicts == 0)
        return work.map;
    free(work.map);
    return NULL;
}

#ifndef MILCGPU_SERVES
#ifdef MILCGPU_SERVES_FLOW
#define MILCGPU_PROGRAM "wilson_flow"
#define milcgpu_program_left milcgpu_flow_left
#else
#define MILCGPU_PROGRAM "hvy_qpot"
#define milcgpu_program_left milcgpu_hyp_left
#endif
static void describe(char *text, size_t size) {
    snprintf(text, size, "MILC %s, " MILCGPU_PROGRAM ", sizeof(site) %lu",
             *MILC_CODE_VERSION ? MILC_CODE_VERSION : "version 7", (unsigned long)sizeof(site));
}
static void find_left(const char **left) {
    int r;
    for (r = 0; r < MILCGPU_ROUTINES; r++)
        left[r] = MILCGPU_ABSENT;
    milcgpu_program_left(left);
}
static int milcgpu_keeps_solutions(void) { return 0; }
#else
static void describe(char *text, size_t size) {
    snprintf(text, size, "MILC %s, %s, sizeof(site) %lu, sizeof(quark_invert_control) %lu",
             *MILC_CODE_VERSION ? MILC_CODE_VERSION : "version 7", FERM_ACTION == HISQ ? "HISQ" : "FN (asqtad)",
             (unsigned long)sizeof(site), (unsigned long)sizeof(quark_invert_control));
}
static void find_left(const char **left) {
    milcgpu_solves_left(left);
    milcgpu_links_left(left);
    milcgpu_md_left(left);
    milcgpu_mesons_left(left);
    milcgpu_gauge_left(left);
    milcgpu_clover_left(left);
    milcgpu_dirac_mesons_left(left);
    left[MILCGPU_GRADIENT_FLOW] = left[MILCGPU_HYP_SMEAR] = MILCGPU_ABSENT;
}
#endif

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
    milcgpu_describe_ranks(&milc);
    milc.site_map = map = site_map(&milc);
    find_left(milc.left);
    milc.keeps_solutions = milcgpu_keeps_solutions();
    taken = milcgpu_plugin_start(&milc);
    free(map);
    return taken;
}

int milcgpu_takes_over(void) {
    static int started = 0;
    if (!started) {
        started = 1;
        start();
    }
    return milcgpu_plugin_active();
}
