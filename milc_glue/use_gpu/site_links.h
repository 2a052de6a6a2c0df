/* The gauge field in the sites, as it is. */
#ifndef MILCGPU_SITE_LINKS_H
#define MILCGPU_SITE_LINKS_H

#include "glue.h"
#include <string.h>

static inline milcgpu_field links_of_sites(void) {
    milcgpu_field field = milcgpu_field_of(lattice[0].link);
    field.pitch_bytes = sizeof(site);
    return field;
}

/* NULL: there is no room, which has been said. */
static inline su3_matrix *copy_of_links(void) {
    su3_matrix *copy =
        (su3_matrix *)milcgpu_spare_room(4 * sites_on_node * sizeof(su3_matrix), "a comparison of links");
    if (copy != NULL)
        milcgpu_plugin_gather_links(lattice[0].link, sizeof(site), copy);
    return copy;
}

static inline void put_links(const su3_matrix *links) {
    size_t i;
    for (i = 0; i < sites_on_node; i++)
        memcpy(lattice[i].link, links + 4 * i, 4 * sizeof(su3_matrix));
}

/* MILC's routine works on the links as they were `before`, and its result is compared with ours, which stays. own:
 * calls it, and returns its seconds. seconds: ours. Without room nothing is compared. */
static inline void compare_with_own(int routine, const su3_matrix *before, double (*own)(void), double seconds) {
    su3_matrix *const ours = copy_of_links(), *theirs;
    double cpu_seconds;
    void *gpu[1], *cpu[1];
    if (ours == NULL)
        return;
    put_links(before);
    cpu_seconds = own();
    theirs = copy_of_links();
    put_links(ours);
    if (theirs != NULL) {
        gpu[0] = ours, cpu[0] = theirs;
        milcgpu_judge(milcgpu_plugin_compare_links(routine, 1, gpu, cpu, seconds, cpu_seconds));
    }
    free(ours), free(theirs);
}

#endif
