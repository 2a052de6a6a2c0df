// From a layout to a context: what the ranks compare before any of them continues.
#pragma once
#include "gpu_kernels/machine/comm/boxes.h"
#include "milc_glue/api/milcgpu.h"
#include <memory>

namespace milcgpu {

// Ranks gather this first, so that all later data have the same form on all ranks.
struct Version {
    char text[32];
};
void check_versions(const std::vector<Version> &versions); // throws Error(bad_argument) with rank and versions

// Settings that must be the same on all ranks, and the boxes, which must fit together.
struct RankSettings {
    Box box;
    int backend, verify, checks; // checks: MessageChecks
};
void require_alike_settings(
    const std::vector<RankSettings> &facts); // throws Error(bad_argument) with the rank and what differs

// Each of several ranks must have a GPU of its own. places: Device::place() of each; empty on the host backend. Throws
// Error(bad_argument) with two ranks that share one.
struct LocalRank {
    char text[128];
};
void require_a_gpu_each(const std::vector<LocalRank> &places);
// The number of a rank's GPU: milcgpu_options::device, or, if that is -1, from messages (nullptr: one rank) and the
// number of GPUs.
int gpu_of(int asked, const milcgpu_messages *messages, int gpus);
// The OpenMP threads of a rank that has `now` of them: at most its share of the host's cores, unless the user has set
// OMP_NUM_THREADS (nullptr: not set). Ranks that each use all cores wait for one another's threads. node_ranks: the
// ranks of this host.
int threads_of(const char *said, int node_ranks, int now, int cores);
// Gives OpenMP's loops the threads of this rank.
void use_threads_of_rank(int node_ranks);

// The value of MILCGPU_TIMEOUT; no value if the text is not allowed.
std::optional<double> seconds_of(const std::string &text);
// The same from the environment, for waits before the settings are read; the settings refuse a wrong value later.
double time_limit();

// A copy of the caller's table, which may be of an older header. Throws Error(bad_argument).
milcgpu_messages whole_table(const milcgpu_messages *given);

// Ranks that send messages by the caller's table, which is copied. nullptr: one rank. Throws Error(bad_argument) if the
// table cannot be used. most_bytes: longer messages are sent in pieces.
constexpr size_t most_message_bytes = size_t{1} << 30;
std::unique_ptr<Ranks> ranks_of(const milcgpu_messages *table, size_t most_bytes = most_message_bytes);

// From the layout and the environment; not checked.
Box box_of(const milcgpu_layout &layout, int rank);

// Fills the context; on failure all ranks throw the same Error. options may be nullptr.
void start_context(const milcgpu_layout &layout, const milcgpu_options *options, milcgpu_context &context);

} // namespace milcgpu
