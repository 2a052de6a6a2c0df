/* MILC's own routines that change links and momenta: except for random momenta they only say that they ran. */
#include "../generic/generic_includes.h"

#include "../include/generic_pg.h"
#include <string.h>

void update_u(Real eps) { printf("MILC's own update_u, %g\n", eps); }
void gauge_field_copy(field_offset src, field_offset dest) {
    size_t i;
    for (i = 0; i < volume; i++)
        memcpy(F_PT(&lattice[i], dest), F_PT(&lattice[i], src), 4 * sizeof(su3_matrix));
}
void random_anti_hermitian(anti_hermitmat *h, double_prn *prn) {
    memset(h, 0, sizeof *h);
    h->m00im = 0.1 * ++prn->drawn;
    h->m11im = -h->m00im;
}
