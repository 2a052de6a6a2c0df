// Measures which SMs lie on which side of the L2 cache: an atomic takes as long as the way to the half that the byte
// belongs to.
#include "gpu_kernels/backend/device.h"
#include "gpu_kernels/backend/l2_sides.h"
#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <vector>

namespace milcgpu {

#if defined(MILCGPU_WITH_CUDA)
namespace {

constexpr int most_sms = 256, most_queues = 64;
constexpr int lines = 64, line_words = 32 * 32; // a line of each 4 KB
constexpr int rounds = 4;
constexpr int one_block_an_sm = 120 * 1024; // bytes of shared memory

__device__ unsigned char side_of_sm[most_sms];
__device__ TileClaims claims_of_queue[most_queues][2]; // for launches in turn

__device__ __forceinline__ unsigned cycle() {
    unsigned now;
    asm volatile("mov.u32 %0, %%clock;" : "=r"(now)::"memory");
    return now;
}

// One thread an SM: the least cycles that an atomic took, for each line.
__global__ void time_atomics(unsigned *data, unsigned *cycles) {
    extern __shared__ volatile unsigned sink[];
    unsigned sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    if (sm >= most_sms)
        return;
    for (int round = 0; round < rounds; ++round)
        for (unsigned k = 0; k < lines; ++k) {
            const unsigned line = (k + 61 * sm) % lines, start = cycle();
            sink[0] = atomicAdd(data + line * line_words, 0u);
            const unsigned took = cycle() - start;
            unsigned &least = cycles[sm * lines + line];
            least = round == 0 || took < least ? took : least;
        }
}

// The sides from the cycles of each SM: false where they are not clear. What an SM and a line have on the average is
// taken away; what is left is + where they are on different sides and - where they are on one.
bool split(const std::vector<unsigned> &cycles, int sms, std::vector<unsigned char> &side, int (&count)[2]) {
    std::vector<double> of_sm(sms), of_line(lines);
    double mean = 0;
    for (int s = 0; s < sms; ++s)
        for (int l = 0; l < lines; ++l) {
            const double c = cycles[s * lines + l];
            if (c == 0) // an SM that did not run
                return false;
            of_sm[s] += c / lines, of_line[l] += c / sms, mean += c / sms / lines;
        }
    const auto left = [&](int s, int l) { return cycles[s * lines + l] - of_sm[s] - of_line[l] + mean; };
    std::vector<double> line(lines), score(sms);
    for (int l = 0; l < lines; ++l)
        line[l] = left(0, l) > 0 ? 1 : -1;
    for (int turn = 0; turn < 4; ++turn) {
        for (int s = 0; s < sms; ++s) {
            score[s] = 0;
            for (int l = 0; l < lines; ++l)
                score[s] += left(s, l) * line[l] / lines;
        }
        for (int l = 0; l < lines; ++l) {
            double sum = 0;
            for (int s = 0; s < sms; ++s)
                sum += left(s, l) * score[s];
            line[l] = sum > 0 ? 1 : -1;
        }
    }
    double least = std::abs(score[0]), average = 0;
    count[0] = count[1] = 0;
    for (int s = 0; s < sms; ++s) {
        side[s] = score[s] < 0;
        ++count[side[s]];
        least = std::min(least, std::abs(score[s])), average += std::abs(score[s]) / sms;
    }
    // On an H200 sides differ by 97 cycles either way, and the least score is 0.99 of the average.
    return average > 30 && least > 0.8 * average && std::min(count[0], count[1]) >= sms / 4;
}

L2Sides measure() {
    L2Sides found;
    int ordinal = 0, sms = 0;
    unsigned *data = nullptr, *cycles = nullptr;
    const size_t data_bytes = sizeof(unsigned) * lines * line_words, cycle_bytes = sizeof(unsigned) * most_sms * lines;
    std::vector<unsigned> host(most_sms * lines);
    std::vector<unsigned char> side(most_sms);
    void *table = nullptr, *claims = nullptr;
    cudaStream_t queue = nullptr;
    const bool measured =
        cudaGetDevice(&ordinal) == cudaSuccess &&
        cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, ordinal) == cudaSuccess && sms <= most_sms &&
        cudaStreamCreateWithFlags(&queue, cudaStreamNonBlocking) == cudaSuccess &&
        cudaMalloc(reinterpret_cast<void **>(&data), data_bytes) == cudaSuccess &&
        cudaMalloc(reinterpret_cast<void **>(&cycles), cycle_bytes) == cudaSuccess &&
        cudaMemsetAsync(data, 0, data_bytes, queue) == cudaSuccess &&
        cudaMemsetAsync(cycles, 0, cycle_bytes, queue) == cudaSuccess &&
        cudaFuncSetAttribute(time_atomics, cudaFuncAttributeMaxDynamicSharedMemorySize, one_block_an_sm) ==
            cudaSuccess &&
        (time_atomics<<<sms, 1, one_block_an_sm, queue>>>(data, cycles), cudaGetLastError() == cudaSuccess) &&
        cudaMemcpyAsync(host.data(), cycles, cycle_bytes, cudaMemcpyDeviceToHost, queue) == cudaSuccess &&
        cudaStreamSynchronize(queue) == cudaSuccess;
    if (measured && split(host, sms, side, found.sms) &&
        cudaMemcpyToSymbolAsync(side_of_sm, side.data(), most_sms, 0, cudaMemcpyHostToDevice, queue) == cudaSuccess &&
        cudaStreamSynchronize(queue) == cudaSuccess && cudaGetSymbolAddress(&table, side_of_sm) == cudaSuccess &&
        cudaGetSymbolAddress(&claims, claims_of_queue) == cudaSuccess) {
        found.side = static_cast<const unsigned char *>(table);
        found.claims = static_cast<TileClaims *>(claims);
    }
    cudaFree(data), cudaFree(cycles);
    if (queue != nullptr)
        cudaStreamDestroy(queue);
    cudaGetLastError(); // without the sides nothing is wrong
    return found;
}

} // namespace

L2Sides l2_sides(const Device &device) {
    static std::mutex mutex;
    static std::map<int, L2Sides> of_gpu;
    struct Queue {
        int number, launches;
    };
    static std::map<const Device *, Queue> queues; // one that has ended leaves its claims at rest for the next
    const std::lock_guard<std::mutex> lock(mutex);
    int ordinal = 0;
    if (!device.starts_early() || cudaGetDevice(&ordinal) != cudaSuccess)
        return {};
    const auto gpu = of_gpu.find(ordinal);
    L2Sides sides = gpu != of_gpu.end() ? gpu->second : (of_gpu[ordinal] = measure());
    Queue &queue = queues.emplace(&device, Queue{static_cast<int>(queues.size()), 0}).first->second;
    if (sides.side == nullptr || queue.number >= most_queues)
        return {};
    queue.launches ^= 1;
    sides.claims += 2 * queue.number + queue.launches;
    return sides;
}
#endif

} // namespace milcgpu
