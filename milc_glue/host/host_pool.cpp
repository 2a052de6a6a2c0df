#include "milc_glue/host/host_pool.h"
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <omp.h>
#include <sys/mman.h>
#include <unistd.h>

namespace milcgpu {

namespace {

constexpr size_t large_page = size_t(2) << 20, small_page = 4096;

bool may_be_block(const void *at) { return at != nullptr && reinterpret_cast<uintptr_t>(at) % large_page == 0; }

// `bytes` is a multiple of large_page. nullptr: none.
void *mapped(size_t bytes) {
    void *const whole =
        mmap(nullptr, bytes + large_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (whole == MAP_FAILED)
        return nullptr;
    auto *const from = static_cast<unsigned char *>(whole);
    const size_t before = (large_page - reinterpret_cast<uintptr_t>(from) % large_page) % large_page;
    if (before > 0)
        munmap(from, before);
    munmap(from + before + bytes, large_page - before);
    madvise(from + before, bytes, MADV_HUGEPAGE); // advice: nothing is lost where it is not taken
    return from + before;
}

// f(first byte, bytes) for the large pages of a block, by all threads.
template <class F> void each_page(void *block, size_t bytes, const F &f) {
    auto *const from = static_cast<unsigned char *>(block);
#pragma omp parallel for if (!omp_in_parallel())
    for (size_t page = 0; page < bytes; page += large_page)
        f(from + page, std::min(large_page, bytes - page));
}

} // namespace

HostPool::~HostPool() {
    for (const Block &block : blocks_)
        munmap(block.at, block.bytes);
}

HostPool::Block *HostPool::find(const void *at) {
    const auto found = std::find_if(blocks_.begin(), blocks_.end(), [&](const Block &b) { return b.at == at; });
    return found == blocks_.end() ? nullptr : &*found;
}

// The smallest idle block that is not much larger.
void *HostPool::reused(size_t bytes) {
    Block *best = nullptr;
    for (Block &block : blocks_)
        if (block.idle && block.bytes >= bytes && block.bytes <= bytes + bytes / 4 &&
            (best == nullptr || block.bytes < best->bytes))
            best = &block;
    if (best == nullptr)
        return nullptr;
    best->idle = false;
    idle_ -= best->bytes;
    return best->at;
}

void HostPool::drop_idle() {
    for (const Block &block : blocks_)
        if (block.idle)
            munmap(block.at, block.bytes);
    blocks_.erase(std::remove_if(blocks_.begin(), blocks_.end(), [](const Block &b) { return b.idle; }), blocks_.end());
    idle_ = 0;
}

void *HostPool::take(size_t bytes, bool zeros) {
    if (bytes < least || bytes > SIZE_MAX / 2)
        return nullptr;
    const size_t wanted = (bytes + large_page - 1) / large_page * large_page;
    void *block;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        block = reused(wanted);
        if (block == nullptr) {
            blocks_.reserve(blocks_.size() + 1);
            block = mapped(wanted);
            if (block == nullptr && idle_ > 0) {
                drop_idle();
                block = mapped(wanted);
            }
            if (block == nullptr)
                return nullptr;
            blocks_.push_back({block, wanted, false});
            zeros = false;
        } else if (!zeros) {
            return block;
        }
    }
    if (zeros)
        each_page(block, bytes, [](unsigned char *page, size_t n) { std::memset(page, 0, n); });
    else
        each_page(block, bytes, [](unsigned char *page, size_t n) {
            for (size_t k = 0; k < n; k += small_page)
                *const_cast<volatile unsigned char *>(page + k) = 0;
        });
    return block;
}

bool HostPool::release(void *at) {
    if (!may_be_block(at))
        return false;
    const std::lock_guard<std::mutex> lock(mutex_);
    Block *const block = find(at);
    if (block == nullptr)
        return false;
    if (idle_ + block->bytes > most_idle_) {
        munmap(block->at, block->bytes);
        *block = blocks_.back();
        blocks_.pop_back();
    } else {
        block->idle = true;
        idle_ += block->bytes;
    }
    return true;
}

size_t HostPool::bytes_of(const void *at) const {
    if (!may_be_block(at))
        return 0;
    const std::lock_guard<std::mutex> lock(mutex_);
    const Block *const block = const_cast<HostPool *>(this)->find(at);
    return block != nullptr ? block->bytes : 0;
}

void fill_bytes(void *to, int byte, size_t bytes) {
    each_page(to, bytes, [&](unsigned char *page, size_t n) { std::memset(page, byte, n); });
}

void copy_bytes(void *to, const void *from, size_t bytes) {
    auto *const first = static_cast<unsigned char *>(to);
    each_page(to, bytes, [&](unsigned char *page, size_t n) {
        std::memcpy(page, static_cast<const unsigned char *>(from) + (page - first), n);
    });
}

size_t idle_bytes_of_host() {
    constexpr size_t share = 32; // several programs may run on a host, one a GPU
    return static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE)) / share;
}

} // namespace milcgpu
