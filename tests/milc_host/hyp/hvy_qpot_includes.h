/* The types, globals and routines of MILC's program of HYP-smeared Wilson loops that the glue uses, with MILC's names.
 */
#ifndef HVY_QPOT_INCLUDES_H
#define HVY_QPOT_INCLUDES_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { XUP, YUP, ZUP, TUP, NODIR = -1 };

typedef double Real;
typedef struct {
    struct {
        Real real, imag;
    } e[3][3];
} su3_matrix;
typedef struct {
    short x, y, z, t;
    char parity;
    su3_matrix link[4];
} site;

extern site *lattice;
extern int nx, ny, nz, nt, this_node;
extern size_t volume, sites_on_node, even_sites_on_node;

int node_index(int x, int y, int z, int t);
int node_number(int x, int y, int z, int t);
int mynode(void), numnodes(void);
void initialize_machine(int *argc, char ***argv);
void normal_exit(int status);
void terminate(int status);

#endif
