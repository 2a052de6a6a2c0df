#include "tests/failing_new.h"
#include <cstdlib>
#include <new>

namespace tests {

std::atomic<long> news_left{-1};
std::atomic<bool> all_fail{false};
std::atomic<long> failed_news{0};

namespace {

bool fails_now() {
    long left = news_left;
    while (left >= 0 && !news_left.compare_exchange_weak(left, left == 0 && all_fail ? 0 : left - 1))
        continue;
    if (left == 0)
        ++failed_news;
    return left == 0;
}

} // namespace

} // namespace tests

void *operator new(std::size_t bytes) {
    if (void *memory = tests::fails_now() ? nullptr : std::malloc(bytes > 0 ? bytes : 1))
        return memory;
    throw std::bad_alloc();
}
// Catch makes its tests with this one; without it the sanitizer's own would be mixed with the delete below.
void *operator new(std::size_t bytes, const std::nothrow_t &) noexcept {
    return tests::fails_now() ? nullptr : std::malloc(bytes > 0 ? bytes : 1);
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, std::size_t) noexcept { std::free(memory); }
