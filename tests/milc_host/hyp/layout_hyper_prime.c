/* What MILC has in files of its own, so that the linker can replace calls of it. Its own smearing copies the links, and
 * says that it was there. */
#include "hvy_qpot_includes.h"

#include "../include/hyp_coeff.h"
#include <string.h>

site *lattice;
int nx, ny, nz, nt, this_node;
size_t volume, sites_on_node, even_sites_on_node;

int node_index(int x, int y, int z, int t) {
    const int k = x + nx * (y + ny * (z + nz * t));
    return (x + y + z + t) % 2 ? (k + (int)volume) / 2 : k / 2;
}
int node_number(int x, int y, int z, int t) { return 0 * (x + y + z + t); }
int mynode(void) { return 0; }
int numnodes(void) { return 1; }
void initialize_machine(int *argc, char ***argv) { (void)argc, (void)argv; }
void normal_exit(int status) { exit(status); }
void terminate(int status) { exit(status); }
#ifndef MILC_HOST_WITHOUT
void load_hyp_links(su3_matrix *U_link, su3_matrix *hyp_link, int dir_exclude, hyp_coeffs_t *hc) {
    printf("MILC's own smearing: without %d, alpha2 %g\n", dir_exclude, hc->alpha2);
    memcpy(hyp_link, U_link, 4 * volume * sizeof(su3_matrix));
}
#endif
