/* MILC's own step of the flow leaves the links alone and says that it ran. */
#include "../generic/generic_includes.h"

int exp_order, stapleflag;
Real stepsize;

void stout_step_rk(void) { printf("MILC's own step\n"); }
