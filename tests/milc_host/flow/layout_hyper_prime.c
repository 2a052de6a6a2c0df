/* What MILC has in files of its own, so that the linker can replace calls of it. Its own flow leaves the links alone,
 * and says that it was there. */
#include "wilson_flow_includes.h"

#include "layout.c"

int total_steps, exp_order, stapleflag, steps_rejected;
Real stepsize, stoptime, local_tol, dist;

void run_gradient_flow(void) { printf("MILC's own flow: step %g stop %g\n", stepsize, stoptime); }
