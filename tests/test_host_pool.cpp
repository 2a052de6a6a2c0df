// The pool of large blocks for MILC's fields.
#include "milc_glue/host/host_pool.h"
#include "tests/support.h"
#include <algorithm>
#include <cstring>

using namespace milcgpu;

namespace {

constexpr size_t mib = size_t(1) << 20;

bool all_are(const void *block, size_t bytes, unsigned char value) {
    const auto *const p = static_cast<const unsigned char *>(block);
    return std::all_of(p, p + bytes, [&](unsigned char byte) { return byte == value; });
}

} // namespace

TEST_CASE("host pool: blocks are zero where asked for, and used again", "[host_fields][sanitize]") {
    HostPool pool(64 * mib);
    CHECK(pool.take(HostPool::least - 1, false) == nullptr);
    CHECK(pool.take(SIZE_MAX, true) == nullptr);
    void *const first = pool.take(9 * mib, true);
    REQUIRE(first != nullptr);
    CHECK(all_are(first, 9 * mib, 0));
    CHECK(pool.bytes_of(first) == 10 * mib); // whole large pages
    fill_bytes(first, 5, 9 * mib);
    CHECK(all_are(first, 9 * mib, 5));
    void *const second = pool.take(9 * mib, false);
    REQUIRE((second != nullptr && second != first));
    copy_bytes(second, first, 9 * mib);
    CHECK(all_are(second, 9 * mib, 5));

    int other = 0;
    CHECK(!pool.release(&other));
    CHECK(!pool.release(nullptr));
    CHECK(!pool.release(static_cast<unsigned char *>(first) + 2 * mib)); // not its beginning
    CHECK(pool.bytes_of(&other) == 0);
    REQUIRE(pool.release(first));
    CHECK(pool.take(20 * mib, false) != first);
    CHECK(pool.take(5 * mib, false) != first); // too small for so large a block
    CHECK(pool.take(8 * mib, true) == first);
    CHECK(all_are(first, 8 * mib, 0));
    CHECK(all_are(second, 9 * mib, 5));
}

TEST_CASE("host pool: of freed blocks no more stay than it may keep", "[host_fields][sanitize]") {
    HostPool pool(12 * mib);
    void *const a = pool.take(8 * mib, false), *const b = pool.take(8 * mib, false);
    REQUIRE((a != nullptr && b != nullptr));
    CHECK(pool.release(a));
    CHECK(pool.bytes_of(a) == 8 * mib);
    CHECK(pool.release(b)); // back to the system
    CHECK(pool.bytes_of(b) == 0);
    CHECK(pool.take(8 * mib, false) == a);
}
