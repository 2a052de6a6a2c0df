/* Tells the plugin what MILC this is and how its sites lie, when the first routine is called. */
#include "glue.h"
#include <string.h>

#ifndef MILC_CODE_VERSION
#define MILC_CODE_VERSION "7"
#endif

/* Aligned to large pages where that can be had; else as MILC itself would ask for it. */
static void *room(size_t bytes) {
    void *p = milcgpu_plugin_room(bytes);
    return p != NULL ? p : malloc(bytes);
}

void *milcgpu_spare_room(size_t bytes, const char *what) {
    void *p = room(bytes);
    if (p == NULL)
        fprintf(stderr, "milcgpu: no room in the host's memory for %s (%lu bytes)\n", what, (unsigned long)bytes);
    return p;
}

void *milcgpu_room(size_t bytes, const char *what) {
    void *p = room(bytes);
    if (p == NULL) {
        fprintf(stderr,
                "milcgpu: no room in the host's memory for %s (%lu bytes), which MILC needs, too: the run ends\n", what,
                (unsigned long)bytes);
        terminate(1);
    }
    return p;
}

void milcgpu_judge(int good) {
    if (good || milcgpu_plugin_compare() != 2)
        return;
    fprintf(stderr, "milcgpu: MILCGPU_COMPARE=strict ends the run at this difference\n");
    terminate(1);
}

void milcgpu_end_of_run(void) {
    fprintf(stderr, "milcgpu: MILC cannot go on: the run ends\n");
    terminate(1);
}

void milcgpu_need_vectors(void) {
    if (!milcgpu_plugin_vectors_need())
        milcgpu_end_of_run();
}

/* MILC's index of every site, even sites first, x fastest; NULL where MILC contradicts itself, has odd extents, or
 * there is no room: MILC then runs by itself. */
static int *site_map(void) {
    int x, y, z, t;
    int *map;
    if (numnodes() != 1 || (size_t)volume != sites_on_node || (nx | ny | nz | nt) % 2 != 0)
        return NULL;
    map = (int *)milcgpu_spare_room(sites_on_node * sizeof(int), "the site map");
    if (map == NULL)
        return NULL;
    for (t = 0; t < nt; t++)
        for (z = 0; z < nz; z++)
            for (y = 0; y < ny; y++)
                for (x = 0; x < nx; x++) {
                    const size_t k = ((size_t)x + nx * (y + (size_t)ny * (z + (size_t)nz * t))) / 2 +
                                     ((x + y + z + t) % 2 ? sites_on_node / 2 : 0);
                    const size_t i = node_index(x, y, z, t);
                    const int odd = i >= even_sites_on_node;
                    if (i >= sites_on_node || odd != (x + y + z + t) % 2 || lattice[i].x != x || lattice[i].y != y ||
                        lattice[i].z != z || lattice[i].t != t) {
                        free(map);
                        return NULL;
                    }
                    map[k] = (int)i;
                }
    return map;
}

static int start(void) {
    char text[256];
    milcgpu_milc milc;
    int *map = site_map();
    int taken;
    snprintf(text, sizeof text, "MILC %s, %s, sizeof(site) %lu, sizeof(quark_invert_control) %lu",
             *MILC_CODE_VERSION ? MILC_CODE_VERSION : "version 7", FERM_ACTION == HISQ ? "HISQ" : "FN (asqtad)",
             (unsigned long)sizeof(site), (unsigned long)sizeof(quark_invert_control));
    memset(&milc, 0, sizeof milc);
    milc.struct_size = sizeof milc;
    milc.header_version = MILCGPU_VERSION;
    milc.milc = text;
    milc.precision = MILC_PRECISION;
    milc.ranks = numnodes();
    milc.rank = mynode();
    milc.extent[0] = nx;
    milc.extent[1] = ny;
    milc.extent[2] = nz;
    milc.extent[3] = nt;
    milc.own_routines = 1;
    milc.site_map = map;
    milcgpu_solves_left(milc.left);
    milcgpu_links_left(milc.left);
    milcgpu_md_left(milc.left);
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
