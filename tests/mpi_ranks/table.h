// Message passing by MPI, as a caller lends it to the library.
#pragma once
#define OMPI_SKIP_MPICXX 1 // not the C++ bindings of old
#define MPICH_SKIP_MPICXX 1
#include "milc_glue/milcgpu.h"
#include <memory>
#include <mpi.h>
#include <new>
#include <vector>

namespace mpi {

struct Handle {
    std::vector<MPI_Request> requests;
};

// Errors come back as codes: the communicator returns them. What needs memory comes before the first message.
inline int start(void *user, int count, const milcgpu_message *messages, void **handle) {
    const MPI_Comm communicator = *static_cast<MPI_Comm *>(user);
    std::unique_ptr<Handle> made;
    try {
        made = std::make_unique<Handle>();
        made->requests.assign(2 * static_cast<size_t>(count), MPI_REQUEST_NULL);
    } catch (const std::bad_alloc &) {
        return MPI_ERR_NO_MEM;
    }
    MPI_Request *request = made->requests.data();
    *handle = made.release();
    int code = MPI_SUCCESS;
    for (const milcgpu_message *m = messages; m != messages + count && code == MPI_SUCCESS; ++m) {
        const int bytes = static_cast<int>(m->bytes);
        if (m->receive != nullptr)
            code = MPI_Irecv(m->receive, bytes, MPI_BYTE, m->peer, m->tag, communicator, request++);
        if (m->send != nullptr && code == MPI_SUCCESS)
            code = MPI_Isend(m->send, bytes, MPI_BYTE, m->peer, m->tag, communicator, request++);
    }
    return code;
}

inline int test(void *, void *handle, int *done) {
    auto *made = static_cast<Handle *>(handle);
    const int code =
        MPI_Testall(static_cast<int>(made->requests.size()), made->requests.data(), done, MPI_STATUSES_IGNORE);
    if (code == MPI_SUCCESS && *done != 0)
        delete made;
    return code;
}

// communicator: of those that share the lattice; stays where it is.
inline milcgpu_messages table(MPI_Comm *communicator) {
    milcgpu_messages table{};
    table.struct_size = sizeof table;
    MPI_Comm_rank(*communicator, &table.rank);
    MPI_Comm_size(*communicator, &table.size);
    MPI_Comm node;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &table.node_rank);
    MPI_Comm_size(node, &table.node_size);
    MPI_Comm_free(&node);
    table.user = communicator;
    table.start = start;
    table.test = test;
    return table;
}

} // namespace mpi
