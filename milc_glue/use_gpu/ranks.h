/* The ranks of MILC's job, for the plugin. */
#ifndef MILCGPU_GLUE_RANKS_H
#define MILCGPU_GLUE_RANKS_H

#include "glue.h"

/* Fills ranks, rank, messages and decisions. All ranks call it. The tables are NULL where this MILC has no mpi.h, and
 * where no memory or communicator was to be had, which is said. */
void milcgpu_describe_ranks(milcgpu_milc *milc);

/* Ends all ranks: MILC's terminate() would wait for the others for ever if one rank alone called it. */
void milcgpu_stop_all_ranks(void);

/* This rank's box from the sites' own coordinates, its neighbours from node_number(). 0: the sites are no box. */
int milcgpu_describe_box(milcgpu_milc *milc);

#endif
