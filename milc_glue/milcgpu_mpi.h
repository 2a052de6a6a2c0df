/* Message passing by MPI for milcgpu_layout::messages. The library contains no MPI. A program includes this file, is
 * compiled with its own mpi.h, and so lends its MPI to the library. C or C++.
 *
 *     MPI_Comm mine; // stays where it is until milcgpu_finalize
 *     int node_rank, node_size;
 *     milcgpu_mpi_own(MPI_COMM_WORLD, &mine);
 *     milcgpu_mpi_node(MPI_COMM_WORLD, &node_rank, &node_size);
 *     milcgpu_messages messages = milcgpu_mpi_messages(&mine, node_rank, node_size);
 */
#ifndef MILCGPU_MPI_H
#define MILCGPU_MPI_H

#ifdef __cplusplus
#define OMPI_SKIP_MPICXX 1 /* not the C++ bindings of old */
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

typedef struct {
    int count;
    MPI_Request *requests; /* in the same piece of memory */
} milcgpu_mpi_pending;

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
    for (m = messages; m < end && code == MPI_SUCCESS;
         m++) /* first, so that nothing arrives before its place is known */
        if (m->receive != NULL)
            code = MPI_Irecv(m->receive, (int)m->bytes, MPI_BYTE, m->peer, m->tag, comm,
                             &pending->requests[pending->count++]);
    for (m = messages; m < end && code == MPI_SUCCESS; m++)
        if (m->send != NULL)
            code = MPI_Isend(m->send, (int)m->bytes, MPI_BYTE, m->peer, m->tag, comm,
                             &pending->requests[pending->count++]);
    /* If one could not start, the others may still arrive. So nothing is freed; all ranks end. */
    *handle = pending;
    return code;
}

static inline int milcgpu_mpi_test(void *user, void *handle, int *done) {
    milcgpu_mpi_pending *pending = (milcgpu_mpi_pending *)handle;
    const int code = MPI_Testall(pending->count, pending->requests, done, MPI_STATUSES_IGNORE);
    (void)user;
    if (code == MPI_SUCCESS && *done)
        free(pending);
    return code;
}

static inline void milcgpu_mpi_abort(void *user, const char *why) {
    double spoken;
    fprintf(stderr, "milcgpu: %s\n", why);
    fflush(NULL);
    for (spoken = MPI_Wtime(); MPI_Wtime() < spoken + 0.3;)
        ; /* launchers drop what they have not yet forwarded when a rank aborts */
    MPI_Abort(*(MPI_Comm *)user, 1);
}

/* The number of this rank among those ranks of a communicator that are on this host. Give MPI_COMM_WORLD, so that two
 * jobs of one program do not take the same GPU. A call of all ranks of the communicator. If MPI cannot tell: 0 of 1. */
static inline void milcgpu_mpi_node(MPI_Comm of, int *rank, int *size) {
    MPI_Comm node;
    *rank = 0, *size = 1;
    if (MPI_Comm_split_type(of, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node) != MPI_SUCCESS)
        return;
    MPI_Comm_rank(node, rank);
    MPI_Comm_size(node, size);
    MPI_Comm_free(&node);
}

/* Makes a communicator of milcgpu's own, apart from the caller's messages, which returns errors. Returns 0 if MPI gives
 * none. A call of all ranks of `of`. */
static inline int milcgpu_mpi_own(MPI_Comm of, MPI_Comm *own) {
    return MPI_Comm_dup(of, own) == MPI_SUCCESS && MPI_Comm_set_errhandler(*own, MPI_ERRORS_RETURN) == MPI_SUCCESS;
}

/* Whether this MPI takes addresses in GPU memory, as it says of itself: an MPI that does not may crash with one. by:
 * what says so; NULL: nothing does. Cray's MPI is an MPICH that goes by a variable, too. */
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
