/* milcgpu: what the glue for MILC needs on MILC's side. It belongs to the glue and is compiled by MILC's build; other
 * programs must not use it.
 *
 * MILCGPU_HAS_MPI is defined if this MILC passes messages by MPI, or by QMP over MPI, and its compiler finds mpi.h. */
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

/* The box of the lattice that a rank has, with the members of milcgpu_layout: its extents, those of the whole lattice,
 * its first site, and in each direction the rank behind [0] and the rank ahead [1]. */
typedef struct {
    int extent[4], whole[4], origin[4], neighbour[4][2];
} milcgpu_milc_box;

/* Finds the box of `rank`, which has `sites` sites. place(x, rank, i) gives the coordinates of its site i in MILC's
 * order (MILC's get_coords), node_number those of the rank that has a site. Returns 1, or 0 if the sites do not fill a
 * box.
 *
 * MILC's get_logical_coordinate() is not called: it is wrong if QMP numbers its ranks in another order
 * (-qmp-logic-map). */
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
