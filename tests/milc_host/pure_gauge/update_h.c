/* As update_u.c: the routines that read or make momenta. */
#include "../generic/generic_includes.h"

#include "../include/generic_pg.h"

void update_h(Real eps) { printf("MILC's own update_h, %g\n", eps); }
double d_action(void) {
    printf("MILC's own d_action\n");
    return 0;
}
void ranmom(void) {
    size_t i;
    int mu;
    for (i = 0; i < volume; i++)
        for (mu = XUP; mu <= TUP; mu++)
            random_anti_hermitian(&lattice[i].mom[mu], &lattice[i].site_prn);
}
