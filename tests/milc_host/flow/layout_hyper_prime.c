/* What MILC has in files of its own, so that the linker can replace calls of it. Its own flow leaves the links alone,
 * and says that it was there. */
#include "wilson_flow_includes.h"

site *lattice;
int nx, ny, nz, nt, this_node, total_steps, exp_order, stapleflag, steps_rejected;
size_t volume, sites_on_node, even_sites_on_node;
Real stepsize, stoptime, local_tol, dist;

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
void run_gradient_flow(void) { printf("MILC's own flow: step %g stop %g\n", stepsize, stoptime); }
