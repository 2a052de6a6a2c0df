/* What both doors for MILC ask of MILC's side; MILC's compiler is the one that finds its mpi.h. MILCGPU_HAS_MPI: this
 * MILC passes messages by MPI, or by QMP on top of it. */
#ifndef MILCGPU_MILC_H
#define MILCGPU_MILC_H

#if defined(MPI_COMMS) || (defined(QMP) && defined(QMP_MPI))
#ifdef __has_include
#if __has_include(<mpi.h>)
#define MILCGPU_HAS_MPI
#endif
#else
#define MILCGPU_HAS_MPI
#endif
#endif

#ifdef MILCGPU_HAS_MPI
#include "milcgpu_mpi.h"
#endif
#include <stddef.h>

/* What a rank has of the lattice, as in milcgpu_layout. */
typedef struct {
    int extent[4], whole[4], origin[4], neighbour[4][2];
} milcgpu_milc_box;

/* From the coordinates of this rank's sites (`place` gives those of site i, in MILC's order) and MILC's node_number():
 * not from get_logical_coordinate(), which is wrong where QMP numbers its ranks in another order (-qmp-logic-map). 0:
 * the sites are no box. */
static inline int milcgpu_find_box(const int whole[4], int rank, size_t sites,
                                   void (*place)(int x[4], int rank, size_t i),
                                   int (*node_number)(int x, int y, int z, int t), milcgpu_milc_box *box) {
    int most[4] = {0, 0, 0, 0}, x[4], mu, side;
    size_t i, in_box = 1;
    for (mu = 0; mu < 4; mu++)
        box->whole[mu] = box->origin[mu] = whole[mu];
    for (i = 0; i < sites; i++) {
        place(x, rank, i);
        for (mu = 0; mu < 4; mu++) {
            box->origin[mu] = x[mu] < box->origin[mu] ? x[mu] : box->origin[mu];
            most[mu] = x[mu] > most[mu] ? x[mu] : most[mu];
        }
    }
    for (mu = 0; mu < 4; mu++) {
        box->extent[mu] = most[mu] - box->origin[mu] + 1;
        if (box->origin[mu] < 0 || box->extent[mu] < 1)
            return 0;
        in_box *= (size_t)box->extent[mu];
    }
    for (mu = 0; mu < 4; mu++)
        for (side = 0; side < 2; side++) {
            int k;
            for (k = 0; k < 4; k++)
                x[k] = box->origin[k];
            x[mu] = (x[mu] + (side == 0 ? whole[mu] - 1 : box->extent[mu])) % whole[mu];
            box->neighbour[mu][side] = node_number(x[0], x[1], x[2], x[3]);
        }
    return in_box == sites;
}

#endif
