#include "gpu_kernels/backend/checksum.h"
#include "gpu_kernels/backend/launch.h"
#include <algorithm>

namespace milcgpu {

namespace {

// A thread takes every `threads`-th piece of every region. That is 1.5 multiply-adds for each word, so the pass runs at
// the speed of memory.
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
#endif
            for (size_t at = i; at < pieces[k]; at += threads) {
                uint32_t words[4];
#if MILCGPU_ON_DEVICE
                load_word<16, Reuse::stream>(data[k] + 16 * at, words);
#else
                memcpy(words, data[k] + 16 * at, 16);
#endif
                sum += weigh<4>(words, static_cast<uint32_t>(at));
            }
            atomic_add(&sums[k], sum);
        }
    }
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
    // 8 pieces a thread, and no more threads than fill a GPU: each warp ends with an atomic addition.
    constexpr size_t most_threads = 1 << 18;
    body.threads = std::min(most_threads, std::max<size_t>((most + 7) / 8, KeptSum::parts));
    launch(device, static_cast<int>(body.threads), body, "take checksums", 256);
}

uint64_t KeptSum::read(Device &device) const {
    const Region nothing{nullptr, 0, 0, "", nullptr, sum};
    uint64_t *const room = sum + 1, minus; // between the parts
    device.fill_zero(room, sizeof *room);
    take_checksums(device, &nothing, 1, room);
    device.copy_to_host(&minus, room, sizeof minus);
    return 0 - minus;
}

uint64_t checksum(const DeviceArray<uint64_t> &room, const void *data, size_t bytes) {
    const Region region{data, bytes, 0, ""};
    room.device().fill_zero(room.data(), room.bytes());
    take_checksums(room.device(), &region, 1, room.data());
    return room.to_host()[0];
}
uint64_t checksum(Device &device, const void *data, size_t bytes) {
    return checksum(DeviceArray<uint64_t>(device, 1, "checksums"), data, bytes);
}

} // namespace milcgpu
