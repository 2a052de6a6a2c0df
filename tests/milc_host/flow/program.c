/* program FILE nx ny nz nt action exp_order stepsize stoptime local_tol: runs the flow twice on the links of a file,
 * and writes the links of the first run back. */
#include "wilson_flow_includes.h"

#ifdef ORIGINALS /* MILC's own flow leaves the links alone and says that it ran */
#include "layout.c"

int total_steps, exp_order, stapleflag, steps_rejected;
Real stepsize, stoptime, local_tol, dist;

void run_gradient_flow(void) { printf("MILC's own flow: step %g stop %g\n", stepsize, stoptime); }

#else
int main(int argc, char **argv) {
    const Real step = atof(argv[8]);
    initialize_machine(&argc, &argv);
    make_lattice(argv + 2);
    links_file(argv[1], "rb", lattice->link, sizeof(site));
    stapleflag = atoi(argv[6]), exp_order = atoi(argv[7]), stepsize = step, stoptime = atof(argv[9]);
    local_tol = atof(argv[10]);
    run_gradient_flow();
    links_file(argv[1], "wb", lattice->link, sizeof(site));
    printf("globals: %d steps, %d rejected, last step %g\n", total_steps, steps_rejected, stepsize);
    stepsize = step, stoptime = 0; /* the links as they are now */
    run_gradient_flow();
    normal_exit(0);
    return 0;
}
#endif
