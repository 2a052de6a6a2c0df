/* A solve on two ranks: mpirun -n 2 ./two_ranks. Each rank has half of the time slices of a lattice file. Rank 0 writes
 * the file, and solves alone, too: both solutions are the same. */
#include "cookbook.h"
#include <milcgpu/milcgpu_mpi.h>

static const char *const path = "two_ranks.nersc";

/* Solves for a point source at the origin of the whole lattice. Returns the |x|^2 of this rank's box. */
static double solve(const milcgpu_layout *box, int *iterations) {
    const int *extent = box->extent, *origin = box->origin;
    const size_t volume = (size_t)extent[0] * extent[1] * extent[2] * extent[3];
    milcgpu_context *context;
    ok(milcgpu_context_create(box, NULL, &context));
    double *gauge = malloc(72 * volume * sizeof *gauge), *b = calloc(6 * volume, sizeof *b),
           *x = calloc(6 * volume, sizeof *x), norm = 0;
    const milcgpu_field u = {gauge, MILCGPU_DOUBLE, 0}, source = {b, MILCGPU_DOUBLE, 0},
                        solution = {x, MILCGPU_DOUBLE, 0};
    ok(milcgpu_gauge_file_read(context, path, &u, NULL)); /* each rank its box */
    milcgpu_links *links = NULL;
    milcgpu_fatlink_spec hisq;
    milcgpu_hisq_defaults(&hisq, sizeof hisq);
    hisq.signs = MILCGPU_SIGNS_OUT;
    const milcgpu_fatlink_set set = {.links = &links};
    ok(milcgpu_links_make(context, &hisq, &u, &set, 1, NULL, NULL));
    if (origin[0] + origin[1] + origin[2] + origin[3] == 0)
        b[0] = 1; /* the first site of the box is the origin */
    milcgpu_solve_spec spec;
    milcgpu_solve_defaults(&spec, sizeof spec);
    spec.mass = 0.05;
    spec.tolerance = 1e-11;
    milcgpu_solve_report report = {.struct_size = sizeof report};
    ok(milcgpu_staggered_solve(links, &spec, &source, &solution, &report)); /* reports are equal on all ranks */
    *iterations = report.iterations;
    for (size_t k = 0; k < 6 * volume; ++k)
        norm += x[k] * x[k];
    milcgpu_links_destroy(links);
    milcgpu_context_destroy(context); /* before MPI_Finalize */
    free(gauge), free(b), free(x);
    return norm;
}

int main(int argc, char **argv) {
    int rank, size, iterations, iterations_alone = 0, good = 1;
    double own, norm;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2) {
        if (rank == 0)
            printf("run it on two ranks: mpirun -n 2 %s\n", argv[0]);
        MPI_Finalize();
        return 2;
    }
    if (rank == 0)
        write_plain_file(path);
    MPI_Barrier(MPI_COMM_WORLD);

    MPI_Comm mine; /* must not move until milcgpu_context_destroy */
    int node_rank, node_size;
    if (!milcgpu_mpi_own(MPI_COMM_WORLD, &mine))
        MPI_Abort(MPI_COMM_WORLD, 1);
    milcgpu_mpi_node(MPI_COMM_WORLD, &node_rank, &node_size);
    const milcgpu_messages messages = milcgpu_mpi_messages(&mine, node_rank, node_size);
    const milcgpu_layout box = {.struct_size = sizeof box,
                                .extent = {nx, ny, nz, nt / 2},
                                .whole = {nx, ny, nz, nt},
                                .origin = {0, 0, 0, rank * nt / 2},
                                .neighbour = {[3] = {1 - rank, 1 - rank}}, /* behind and ahead, in t */
                                .messages = &messages};
    own = solve(&box, &iterations);
    MPI_Allreduce(&own, &norm, 1, MPI_DOUBLE, MPI_SUM, mine);
    MPI_Comm_free(&mine);
    if (rank == 0) {
        const milcgpu_layout whole = {.struct_size = sizeof whole, .extent = {nx, ny, nz, nt}};
        const double difference = norm / solve(&whole, &iterations_alone) - 1;
        printf("%d iterations on two ranks, %d on one\n", iterations, iterations_alone);
        good = small("|x|^2 of two ranks / |x|^2 of one - 1", difference < 0 ? -difference : difference, 1e-12) &&
               iterations == iterations_alone;
    }
    MPI_Bcast(&good, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Finalize();
    return good ? 0 : 1;
}
