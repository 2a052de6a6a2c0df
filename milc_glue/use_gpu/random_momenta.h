/* Random momenta in the sites, for programs with momenta there (md.c, pure_gauge.c). */
#ifndef MILCGPU_GLUE_RANDOM_MOMENTA_H
#define MILCGPU_GLUE_RANDOM_MOMENTA_H

#include "random.h"

static void own_momenta(void *unused) {
    (void)unused;
    milcgpu_original(ranmom)();
}
#ifdef MILCGPU_DRAWS
static int momenta_part(void *unused, size_t from, size_t to) {
    size_t i;
    int mu;
    (void)unused;
    for (i = from; i < to; i++)
        for (mu = XUP; mu <= TUP; mu++)
            milcgpu_there(random_anti_hermitian)(&lattice[i].mom[mu], &lattice[i].site_prn);
    return 0;
}
static void draw_momenta(void) {
    const milcgpu_drawing drawing = {MILCGPU_RANDOM_MOMENTA, "ranmom",    0,   sites_on_node,
                                     momenta_part,           own_momenta, NULL};
    const milcgpu_output momenta = {lattice[0].mom, 4 * sizeof(anti_hermitmat), sites_on_node, sizeof(site), NULL};
    milcgpu_draw(&drawing, momenta,
                 random_anti_hermitian != NULL ? NULL : "MILC's own: this program does not have random_anti_hermitian");
}
#else
static void draw_momenta(void) { own_momenta(NULL); }
#endif

#endif
