// Fields filled and copied by all threads.
#include "gpu_kernels/machine/backend/large_pages.h"
#include "milc_glue/host/host_memory.h"
#include "tests/support.h"
#include <algorithm>
#include <numeric>
#include <sys/mman.h>

using namespace milcgpu;

TEST_CASE("fields are filled and copied to the last byte and no further", "[host_fields][sanitize]") {
    for (const size_t bytes : {size_t(0), size_t(1), large_page - 1, large_page, 3 * large_page + 17}) {
        std::vector<unsigned char> from(bytes + 1), to(bytes + 1, 9);
        std::iota(from.begin(), from.end(), 0);
        copy_bytes(to.data(), from.data(), bytes);
        CHECK(std::equal(from.begin(), from.end() - 1, to.begin()));
        CHECK(to[bytes] == 9);
        fill_bytes(to.data(), 5, bytes);
        CHECK(std::count(to.begin(), to.end() - 1, 5) == long(bytes));
        CHECK(to[bytes] == 9);
    }
}

TEST_CASE("memory that the system has taken back is not mapped", "[host_fields][sanitize]") {
    constexpr size_t bytes = 40000;
    void *const block = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(block != MAP_FAILED);
    const auto *const odd = static_cast<const unsigned char *>(block) + 5;
    CHECK(is_mapped(odd, bytes - 5));
    munmap(block, bytes);
    CHECK_FALSE(is_mapped(odd, bytes - 5));
    const std::vector<double> on_heap(100);
    CHECK(is_mapped(on_heap.data(), 800));
}
