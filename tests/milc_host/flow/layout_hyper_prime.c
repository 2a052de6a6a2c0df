/* Routines that MILC has in their own files, so that the linker can replace calls of them. MILC's own flow leaves
 * the links alone and says that it ran. */
#include "wilson_flow_includes.h"

#include "layout.c"

int total_steps, exp_order, stapleflag, steps_rejected;
Real stepsize, stoptime, local_tol, dist;

void run_gradient_flow(void) { printf("MILC's own flow: step %g stop %g\n", stepsize, stoptime); }
