#include "gpu_kernels/machine/backend/checksum.h"
#include "gpu_kernels/machine/backend/device.h"
#include "gpu_kernels/machine/backend/launch.h"
#include <algorithm>

namespace milcgpu {

namespace {

// On the GPU a thread takes every `threads`-th piece of each region, on the host consecutive pieces. A word costs 1.5
// multiply-adds, so the pass runs at the speed of memory.
struct Add {
    const unsigned char *data[most_regions];
    const uint64_t *kept[most_regions];
    size_t pieces[most_regions];
    uint64_t *sums;
    int count;
    size_t threads;
    MILCGPU_HD void operator()(int i) const {
        for (int k = 0; k < count; ++k) {
            uint64_t sum = kept[k] != nullptr && i < KeptSum::parts ? 0 - kept[k][i * KeptSum::apart] : 0;
#if MILCGPU_ON_DEVICE
#pragma unroll 4
            for (size_t at = i; at < pieces[k]; at += threads) {
                uint32_t words[4];
                load_word<16, Reuse::stream>(data[k] + 16 * at, words);
                sum += weigh<4>(words, static_cast<uint32_t>(at));
            }
#else
            const size_t each = (pieces[k] + threads - 1) / threads, end = std::min(pieces[k], (i + 1) * each);
            for (size_t at = i * each; at < end; ++at) {
                uint32_t words[4];
                memcpy(words, data[k] + 16 * at, 16);
                sum += weigh<4>(words, static_cast<uint32_t>(at));
            }
#endif
            atomic_add(&sums[k], sum);
        }
    }
};

struct ClearSums {
    uint64_t *data;
    uint64_t which; // bit mask of regions
    MILCGPU_HD void operator()(int i) const {
        if ((which >> i % KeptSum::apart & 1) != 0)
            data[i] = 0;
    }
};
static_assert(KeptSum::apart == 64, "a bit each");

struct CopySum {
    uint64_t *to;
    const uint64_t *from;
    MILCGPU_HD void operator()(int k) const { to[k * KeptSum::apart] = from[k * KeptSum::apart]; }
};

} // namespace

void join(std::vector<Region> &regions, const std::vector<Region> &more) {
    for (const Region &region : more)
        if (std::none_of(regions.begin(), regions.end(), [&](const Region &r) { return r.data == region.data; }))
            regions.push_back(region);
}

void take_checksums(Device &device, const Region *regions, int count, uint64_t *sums) {
    if (count > most_regions) {
        take_checksums(device, regions + most_regions, count - most_regions, sums + most_regions);
        count = most_regions;
    }
    Add body{};
    size_t most = 1;
    body.count = count;
    body.sums = sums;
    for (int k = 0; k < count; ++k) {
        body.data[k] = static_cast<const unsigned char *>(regions[k].data);
        body.kept[k] = regions[k].kept;
        body.pieces[k] = regions[k].bytes / 16;
        most = std::max(most, body.pieces[k]);
    }
    // 8 pieces a thread, but no more threads than fill a GPU, because each warp ends with an atomic addition. On the
    // host each call of the body ends with one; few_sites calls are enough for all threads.
    const size_t a_thread = device.on_gpu() ? 8 : 64, most_threads = device.on_gpu() ? 1 << 18 : few_sites;
    body.threads = std::min(most_threads, std::max<size_t>((most + a_thread - 1) / a_thread, KeptSum::parts));
    launch(device, static_cast<int>(body.threads), body, "take checksums", 256);
}

uint64_t KeptSum::read(Device &device) const {
    const Region nothing{nullptr, 0, 0, "", nullptr, sum};
    const std::shared_ptr<uint64_t> scratch = device.zero_sum();
    take_checksums(device, &nothing, 1, scratch.get());
    uint64_t minus;
    device.copy_to_host(&minus, scratch.get(), sizeof minus);
    return 0 - minus;
}

void KeptSum::copy(Device &device, const KeptSum &from) const {
    launch(device, parts, CopySum{sum, from.sum}, "copy a checksum");
}

std::shared_ptr<uint64_t> Device::zero_sum() {
    const auto take = [](SumPage &page) {
        size_t k = 0;
        while ((page.zero >> k & 1) == 0)
            ++k;
        page.zero &= ~(uint64_t(1) << k);
        return page.sums[k];
    };
    for (SumPage &page : sum_pages_)
        if (page.zero != 0)
            return take(page);
    for (SumPage &page : sum_pages_) {
        for (size_t k = 0; k < page.sums.size(); ++k)
            page.zero |= uint64_t(page.sums[k].use_count() == 1) << k;
        if (page.zero == 0)
            continue;
        launch(*this, KeptSum::parts * KeptSum::apart, ClearSums{page.data, page.zero}, "clear checksums");
        return take(page);
    }
    constexpr size_t bytes = KeptSum::parts * KeptSum::apart * sizeof(uint64_t);
    SumPage page{static_cast<uint64_t *>(allocate(bytes, "checksums")), {}, ~uint64_t(0)}; // freed with the device
    for (int k = 0; k < KeptSum::apart; ++k)
        page.sums.emplace_back(page.data + k, [](uint64_t *) {});
    fill_zero(page.data, bytes);
    sum_pages_.push_back(std::move(page));
    return take(sum_pages_.back());
}

uint64_t checksum(const DeviceArray<uint64_t> &scratch, const void *data, size_t bytes) {
    const Region region{data, bytes, 0, ""};
    scratch.device().fill_zero(scratch.data(), scratch.bytes());
    take_checksums(scratch.device(), &region, 1, scratch.data());
    uint64_t sum;
    scratch.device().copy_to_host(&sum, scratch.data(), sizeof sum);
    return sum;
}
uint64_t checksum(Device &device, const void *data, size_t bytes) {
    return checksum(DeviceArray<uint64_t>(device, 1, "checksums"), data, bytes);
}

} // namespace milcgpu
