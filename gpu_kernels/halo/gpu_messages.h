// Tests whether messages may start and end in GPU memory (GPU-aware MPI). It asks the message-passing library, and
// neighbours send each other a pattern. On the host backend the same test uses host memory.
//
// A message-passing library that does not support GPU memory may crash if it gets such an address. So the test runs
// only if the library says that it supports GPU memory, or if the caller requests the test.
#pragma once
#include "gpu_kernels/machine/backend/launch_queue.h"
#include "gpu_kernels/machine/backend/peers.h"
#include "gpu_kernels/machine/comm/ranks.h"
#include <array>
#include <functional>

namespace milcgpu {

// MILCGPU_GPU_MPI: 0, auto, 1, step. in_steps: as tried, and also while kernels wait for the messages.
enum class GpuMessages { never, where_supported, tried, in_steps };

struct GpuMessagesFound {
    bool work;
    std::string why; // why messages use it or do not, in words
};

// Returns the same on all ranks, which call it together. asked: this rank's setting; the most careful setting of all
// ranks counts. Returns the reason why no test is needed, or an empty string if it is.
std::string why_no_gpu_messages(Ranks &ranks, GpuMessages asked);

constexpr double most_seconds_of_trial = 5;

// Work that runs while the messages of a test travel. end() is called in every case and tells whether the work ran
// until then.
struct DuringTrial {
    std::function<void()> begin;
    std::function<bool()> end;
};

// The test. neighbour[face]: the rank there, face = 2 mu + side; if it is -1 or this rank, that face has no messages.
// sent, received: `bytes` each (at least 4096), of the memory that messages will use. refused: the reason why this rank
// cannot; empty: it can. Takes at most a few seconds.
GpuMessagesFound try_gpu_messages(Device &device, Ranks &ranks, const std::array<int, Peers::faces> &neighbour,
                                  const std::shared_ptr<unsigned char> &sent,
                                  const std::shared_ptr<unsigned char> &received, size_t bytes,
                                  const std::string &refused, const DuringTrial &during = {});

} // namespace milcgpu
