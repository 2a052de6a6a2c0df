/* The gauge field in the sites, without change of phases. */
#ifndef MILCGPU_SITE_LINKS_H
#define MILCGPU_SITE_LINKS_H

#include "glue.h"
#include <string.h>

static inline milcgpu_field links_of_sites(void) {
    milcgpu_field field = milcgpu_field_of(lattice[0].link);
    field.pitch_bytes = sizeof(site);
    return field;
}

/* The outputs of a routine that changes them. */
static inline milcgpu_output output_of_links(void) {
    const milcgpu_output output = {lattice[0].link, 4 * sizeof(su3_matrix), sites_on_node, sizeof(site), NULL};
    return output;
}

/* NULL if a rank has no room, after a line in the log. */
static inline su3_matrix *copy_of_links(void) {
    su3_matrix *const copy =
        (su3_matrix *)milcgpu_spare_room(4 * sites_on_node * sizeof(su3_matrix), "a comparison of links");
    size_t i;
    for (i = 0; copy != NULL && i < sites_on_node; i++)
        memcpy(copy + 4 * i, lattice[i].link, 4 * sizeof(su3_matrix));
    return copy;
}

/* compare() for a call whose first output is these links. */
static inline int compare_site_links(const milcgpu_call *call) {
    void *ours[1] = {copy_of_links()}, *theirs[1] = {call->outputs[0].theirs};
    const int good =
        ours[0] == NULL || milcgpu_plugin_compare_links(call->row, 1, ours, theirs, call->seconds, call->cpu_seconds);
    free(ours[0]);
    return good;
}

#endif
