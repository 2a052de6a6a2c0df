// MILC's fields in the host's memory. MILC allocates and frees whole fields all the time.
#pragma once
#include <cstddef>

namespace milcgpu {

// From here on malloc() keeps freed memory in the process for later fields, and the heap grows in large pages if the
// system has them. glibc would return each freed field to the system, and the system would clear its pages again.
// Nothing happens under another allocator. node_ranks: the ranks of this host, at least 1. Each takes its share of a
// quarter of the host's memory as large pages.
void keep_freed_memory(int node_ranks);

// All threads touch the pages of the next block that malloc() returns, if freed memory is kept: the system clears a
// page when it is touched first.
void touch_next_block(size_t bytes);

// False if a page of the block has been returned to the system, where a read would end the process. A freed field may
// have been.
bool is_mapped(const void *block, size_t bytes);

} // namespace milcgpu
