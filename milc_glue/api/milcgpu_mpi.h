/* milcgpu: message passing by MPI, for milcgpu_layout::messages. C or C++.
 *
 * The library contains no MPI. A program on several ranks includes this header, compiles it with its own mpi.h, and
 * thereby gives the library its MPI:
 *
 *     MPI_Comm mine; // must not move until milcgpu_context_destroy: the table keeps its address
 *     int node_rank, node_size;
 *     milcgpu_mpi_own(MPI_COMM_WORLD, &mine);
 *     milcgpu_mpi_node(MPI_COMM_WORLD, &node_rank, &node_size);
 *     milcgpu_messages messages = milcgpu_mpi_messages(&mine, node_rank, node_size);
 *     layout.messages = &messages;
 *
 * The library calls MPI only inside its own functions, in the thread that calls them. MPI_Init is enough, or
 * MPI_Init_thread with MPI_THREAD_FUNNELED if that thread is the main one.
 */
#ifndef MILCGPU_MPI_H
#define MILCGPU_MPI_H

#ifdef __cplusplus
#define OMPI_SKIP_MPICXX 1 /* without MPI's former C++ bindings */
#define MPICH_SKIP_MPICXX 1
#endif
#include "milcgpu.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(OPEN_MPI) && defined(__has_include)
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif
#endif

/* The requests of one start, until they are done. */
typedef struct {
    int count;
    MPI_Request *requests; /* behind this struct, in the same allocation */
} milcgpu_mpi_pending;

/* milcgpu_messages::start: all receives, then all sends. Returns MPI's error code, 0 for none. */
static inline int milcgpu_mpi_start(void *user, int count, const milcgpu_message *messages, void **handle) {
    const MPI_Comm comm = *(MPI_Comm *)user;
    const milcgpu_message *m, *end = messages + count;
    int code = MPI_SUCCESS;
    milcgpu_mpi_pending *pending =
        (milcgpu_mpi_pending *)malloc(sizeof(milcgpu_mpi_pending) + 2 * (size_t)count * sizeof(MPI_Request));
    if (pending == NULL)
        return MPI_ERR_NO_MEM;
    pending->count = 0;
    pending->requests = (MPI_Request *)(pending + 1);
    /* Receives come first: what arrives then goes to its place at once, without a copy inside MPI. */
    for (m = messages; m < end && code == MPI_SUCCESS; m++)
        if (m->receive != NULL)
            code = MPI_Irecv(m->receive, (int)m->bytes, MPI_BYTE, m->peer, m->tag, comm,
                             &pending->requests[pending->count++]);
    for (m = messages; m < end && code == MPI_SUCCESS; m++)
        if (m->send != NULL)
            code = MPI_Isend(m->send, (int)m->bytes, MPI_BYTE, m->peer, m->tag, comm,
                             &pending->requests[pending->count++]);
    /* If one message could not be started, the others may still arrive. So their requests are not freed here; the
     * library does not use the table again. */
    *handle = pending;
    return code;
}

/* milcgpu_messages::test. Does not wait. One request after the other, each done for good: gcc takes MPICH's
 * MPI_STATUSES_IGNORE for an array of no elements, and warns of MPI_Testall. */
static inline int milcgpu_mpi_test(void *user, void *handle, int *done) {
    milcgpu_mpi_pending *pending = (milcgpu_mpi_pending *)handle;
    int k, code = MPI_SUCCESS;
    (void)user;
    for (k = 0, *done = 1; k < pending->count && *done && code == MPI_SUCCESS; k++)
        code = MPI_Test(&pending->requests[k], done, MPI_STATUS_IGNORE);
    if (code == MPI_SUCCESS && *done)
        free(pending);
    return code;
}

/* milcgpu_messages::abort: prints why, then ends all ranks. */
static inline void milcgpu_mpi_abort(void *user, const char *why) {
    double spoken;
    fprintf(stderr, "milcgpu: %s\n", why);
    fflush(NULL);
    for (spoken = MPI_Wtime(); MPI_Wtime() < spoken + 0.3;)
        ; /* mpirun drops what it has not yet forwarded when a rank aborts: give it time */
    MPI_Abort(*(MPI_Comm *)user, 1);
}

/* Numbers the ranks of `of` that run on one host: this rank is *rank of *size. The library chooses the GPU by it. Pass
 * MPI_COMM_WORLD even if the lattice uses a part of the ranks; otherwise two lattices on one host would share a GPU. A
 * call of all ranks of `of`. If MPI cannot tell, it is 0 of 1. */
static inline void milcgpu_mpi_node(MPI_Comm of, int *rank, int *size) {
    MPI_Comm node;
    *rank = 0, *size = 1;
    if (MPI_Comm_split_type(of, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node) != MPI_SUCCESS)
        return;
    MPI_Comm_rank(node, rank);
    MPI_Comm_size(node, size);
    MPI_Comm_free(&node);
}

/* Makes a communicator for milcgpu alone, so that its messages never mix with those of the program. Its errors are
 * returned as codes. Returns 1, or 0 if MPI gives no communicator. A call of all ranks of `of`, which are those that
 * share the lattice. Free it with MPI_Comm_free after milcgpu_context_destroy. */
static inline int milcgpu_mpi_own(MPI_Comm of, MPI_Comm *own) {
    return MPI_Comm_dup(of, own) == MPI_SUCCESS && MPI_Comm_set_errhandler(*own, MPI_ERRORS_RETURN) == MPI_SUCCESS;
}

/* Returns 1 if this MPI says that it accepts addresses in GPU memory, else 0: an MPI that does not accept one may
 * crash. *by: the function or variable that says so, for a line at the start; NULL: this MPI has neither. Open MPI and
 * MPICH have a function. Cray's MPI, an MPICH, uses the variable MPICH_GPU_SUPPORT_ENABLED. */
static inline int milcgpu_mpi_gpu_memory(const char **by) {
    int says = 0;
    *by = NULL;
#if defined(OMPI_HAVE_MPI_EXT_CUDA)
    *by = "MPIX_Query_cuda_support()";
    says = MPIX_Query_cuda_support() == 1;
#elif defined(MPICH_VERSION)
    {
        const char *set = getenv("MPICH_GPU_SUPPORT_ENABLED");
        if (set != NULL)
            *by = "MPICH_GPU_SUPPORT_ENABLED";
        says = set != NULL && strcmp(set, "1") == 0;
#if defined(MPIX_GPU_SUPPORT_CUDA)
        if (set == NULL || says) {
            *by = "MPIX_GPU_query_support()";
            says = MPIX_GPU_query_support(MPIX_GPU_SUPPORT_CUDA, &says) == MPI_SUCCESS && says;
        }
#endif
    }
#endif
    return says;
}

/* The table for milcgpu_layout::messages. *communicator: from milcgpu_mpi_own. It must stay at its address, and must
 * not be freed, until milcgpu_context_destroy. node_rank, node_size: from milcgpu_mpi_node. */
static inline milcgpu_messages milcgpu_mpi_messages(MPI_Comm *communicator, int node_rank, int node_size) {
    milcgpu_messages table = {
        sizeof table,      0, 1, node_rank, node_size, communicator, milcgpu_mpi_start, milcgpu_mpi_test,
        milcgpu_mpi_abort, 0, 0};
    table.gpu_memory = milcgpu_mpi_gpu_memory(&table.gpu_memory_by);
    MPI_Comm_rank(*communicator, &table.rank);
    MPI_Comm_size(*communicator, &table.size);
    return table;
}

#endif
