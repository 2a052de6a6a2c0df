#include "milc_glue/host/host_memory.h"
#include "gpu_kernels/machine/backend/large_pages.h"
#include <cstdint>
#include <cstdlib>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

namespace milcgpu {

void keep_freed_memory(int node_ranks) {
#if defined(M_MMAP_MAX) && defined(M_TRIM_THRESHOLD)
    if (mallopt(M_MMAP_MAX, 0) == 0 || mallopt(M_TRIM_THRESHOLD, -1) == 0) // another allocator returns 0
        return;
    // This advice holds for pages that the heap gets later. They take no memory until they are touched.
    const size_t ahead = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) / 4 / static_cast<size_t>(node_ranks) *
                         static_cast<size_t>(sysconf(_SC_PAGESIZE));
    void *const pages = std::malloc(ahead);
    if (pages == nullptr)
        return;
    const size_t before = large_page - reinterpret_cast<uintptr_t>(pages) % large_page;
    if (before < ahead)
        madvise(static_cast<unsigned char *>(pages) + before, ahead - before, MADV_HUGEPAGE);
    std::free(pages);
#endif
}

void touch_next_block(size_t bytes) {
    void *const block = std::malloc(bytes);
    if (block == nullptr)
        return;
    const auto small_page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    each_large_page(block, bytes, [&](unsigned char *page, size_t n) {
        for (size_t k = 0; k < n; k += small_page)
            *static_cast<volatile unsigned char *>(page + k) = 0;
        *static_cast<volatile unsigned char *>(page + n - 1) = 0;
    });
    std::free(block);
}

bool is_mapped(const void *block, size_t bytes) {
    const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)), first = reinterpret_cast<uintptr_t>(block),
               begin = first / page * page;
    return msync(reinterpret_cast<void *>(begin), first - begin + bytes, MS_ASYNC) == 0; // it writes nothing
}

} // namespace milcgpu
