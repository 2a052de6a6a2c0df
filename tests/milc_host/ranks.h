/* Ranks of this program as processes that fork() makes, with shared memory in place of MPI, for twin.c; and an
 * allocator that chooses which addresses are reused. By default one rank, and the C library's allocator. */
#pragma once
#include <stddef.h>

enum { most_ranks = 4 };
enum address_rule { as_libc, reuse_last, reuse_never };

/* Memory that the processes of a run share; mapped by their parent, zero at first. cut: ranks along each direction. */
typedef struct run_memory run_memory;
extern const size_t bytes_of_run_memory;
/* Makes the calling process a rank. Call it before make_lattice(). */
void become_rank(run_memory *shared, int rank, const int cut[4]);
void use_addresses(enum address_rule rule);

extern int this_node, ranks, box_origin[4], box_extent[4];

/* Each rank has filled its own records of a field in lexicographic order of the whole lattice; now all get all. */
void share_sites(void *field, size_t bytes_per_site);
void wait_for_all_ranks(void);
