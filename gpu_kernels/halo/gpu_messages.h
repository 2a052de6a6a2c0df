// Whether messages may leave from a GPU's memory and arrive in it (GPU-aware MPI): what the message passing says of
// itself, and a pattern that neighbours send to each other. On the host backend the memory that stands for the GPU's is
// taken, so all of this is the same there.
//
// A message passing that does not know such memory may crash with its address. So it is tried only where it says that
// it does, or where the caller asks for it.
#pragma once
#include "gpu_kernels/machine/backend/launch_queue.h"
#include "gpu_kernels/machine/backend/peers.h"
#include "gpu_kernels/machine/comm/ranks.h"
#include <array>
#include <functional>

namespace milcgpu {

// MILCGPU_GPU_MPI: 0, auto, 1, step. in_steps: as tried, and also while kernels wait for the messages.
enum class GpuMessages { never, where_said, tried, in_steps };

struct GpuMessagesFound {
    bool work;
    std::string why; // they do, or do not, in words
};

// The same on all ranks, which call together. asked: of this rank; the most careful one counts. Words without a test:
// why there is none; empty: it is to be made.
std::string why_no_gpu_messages(Ranks &ranks, GpuMessages asked);

constexpr double most_seconds_of_trial = 5;

// What goes on while the messages of a test travel. end(): whether it went on until then; called in any case.
struct DuringTrial {
    std::function<void()> begin;
    std::function<bool()> end;
};

// The test. neighbour[face]: the rank there, face = 2 mu + side; -1, or this rank: no messages go there. sent,
// received: `bytes` each (at least 4096), of the memory that messages are to lie in. refused: why this rank cannot;
// empty: it can. Not longer than a few seconds.
GpuMessagesFound try_gpu_messages(Device &device, Ranks &ranks, const std::array<int, Peers::faces> &neighbour,
                                  const std::shared_ptr<unsigned char> &sent,
                                  const std::shared_ptr<unsigned char> &received, size_t bytes,
                                  const std::string &refused, const DuringTrial &during = {});

} // namespace milcgpu
