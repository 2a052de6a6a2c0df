/* The types, globals and routines of MILC's gradient flow program that the glue uses, with MILC's names. */
#ifndef WILSON_FLOW_INCLUDES_H
#define WILSON_FLOW_INCLUDES_H

#include "types.h"

#define AUTO_STOPTIME -1
enum { WILSON, SYMANZIK, ZEUTHEN };
#define INTEGRATOR_LUSCHER 0
#define INTEGRATOR_CF3 3
#define INTEGRATOR_ADAPT_LUSCHER 20
#define INTEGRATOR_ADAPT_BS 21
#define INTEGRATOR_ADAPT_CF3 22

typedef struct {
    short x, y, z, t;
    char parity;
    su3_matrix link[4], staple[4];
    char other[40];
} site;

#include "layout.h"

extern int total_steps, exp_order, stapleflag, steps_rejected;
extern Real stepsize, stoptime, local_tol, dist;

void run_gradient_flow(void);

#endif
