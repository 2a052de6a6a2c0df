/* Random momenta in the sites, for programs that have them (md.c, pure_gauge.c). */
#ifndef MILCGPU_GLUE_RANDOM_MOMENTA_H
#define MILCGPU_GLUE_RANDOM_MOMENTA_H

#include "random.h"

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
static void own_momenta(void *unused) {
    (void)unused;
    milcgpu_original(ranmom)();
}
static int draws_momenta(void) {
    return random_anti_hermitian != NULL &&
           milcgpu_draws(MILCGPU_RANDOM_MOMENTA, 0, sites_on_node, momenta_part, own_momenta, NULL, lattice[0].mom,
                         sizeof(site), 4 * sizeof(anti_hermitmat));
}
#else
static int draws_momenta(void) { return 0; }
#endif

#endif
