/* The types, globals and routines of MILC's gradient flow program that the glue uses, with MILC's names. */
#ifndef WILSON_FLOW_INCLUDES_H
#define WILSON_FLOW_INCLUDES_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define AUTO_STOPTIME -1
enum { WILSON, SYMANZIK, ZEUTHEN };
#define INTEGRATOR_LUSCHER 0
#define INTEGRATOR_CF3 3
#define INTEGRATOR_ADAPT_LUSCHER 20
#define INTEGRATOR_ADAPT_BS 21
#define INTEGRATOR_ADAPT_CF3 22

typedef double Real;
typedef struct {
    struct {
        Real real, imag;
    } e[3][3];
} su3_matrix;
typedef struct {
    short x, y, z, t;
    char parity;
    su3_matrix link[4], staple[4];
    char other[40];
} site;

extern site *lattice;
extern int nx, ny, nz, nt, this_node, total_steps, exp_order, stapleflag, steps_rejected;
extern size_t volume, sites_on_node, even_sites_on_node;
extern Real stepsize, stoptime, local_tol, dist;

#define node0_printf                                                                                                   \
    if (this_node == 0)                                                                                                \
    printf /* as in MILC: an else behind it may be its own */

int node_index(int x, int y, int z, int t);
int node_number(int x, int y, int z, int t);
int mynode(void), numnodes(void);
void initialize_machine(int *argc, char ***argv);
void normal_exit(int status);
void terminate(int status);
void run_gradient_flow(void);

#endif
