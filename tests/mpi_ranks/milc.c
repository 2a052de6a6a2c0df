/* What milc_glue/use_gpu/ranks.c needs of MILC, on ranks of a real MPI. */
#include "generic_ks/generic_ks_includes.h"
#include <mpi.h>

site *lattice;
int nx, ny, nz, nt, this_node;
size_t volume, sites_on_node, even_sites_on_node;

static MPI_Comm job = MPI_COMM_NULL;

int mynode(void) { return this_node; }
int numnodes(void) {
    int n;
    MPI_Comm_size(job, &n);
    return n;
}
void *mycomm(void) { return &job; }
int node_number(int x, int y, int z, int t) { return 0 * (x + y + z + t); /* not called */ }

void initialize_machine(int *argc, char ***argv) {
    (void)argc, (void)argv;
    job = MPI_COMM_WORLD;
    MPI_Comm_rank(job, &this_node);
}
void normal_exit(int status) { exit(status); }
/* As in MILC, it waits for all ranks. */
void terminate(int status) {
    printf("termination: node %d, status = %d\n", this_node, status);
    fflush(stdout);
    MPI_Finalize();
    exit(status);
}
