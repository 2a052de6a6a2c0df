// From a layout to a context: what the ranks compare before any of them goes on.
#pragma once
#include "gpu_kernels/machine/comm/boxes.h"
#include "milc_glue/api/milcgpu.h"
#include <memory>

namespace milcgpu {

// The first thing that ranks gather, so that all that follows has the same form on all of them.
struct Version {
    char text[32];
};
void check_versions(const std::vector<Version> &versions); // throws Error(bad_argument) with rank and versions

// What must be the same on all ranks, and the boxes, which must fit.
struct RankSettings {
    Box box;
    int backend, verify, check_halo;
};
void require_alike_settings(
    const std::vector<RankSettings> &facts); // throws Error(bad_argument) with the rank and what differs

// Of several ranks each has a GPU of its own. places: Device::place() of each; nothing on the host backend. Throws
// Error(bad_argument) with two ranks that share one.
struct LocalRank {
    char text[128];
};
void require_a_gpu_each(const std::vector<LocalRank> &places);
// The GPU of a rank: milcgpu_options::device, or, where that is -1, by messages (nullptr: one rank), of so many.
int gpu_of(int asked, const milcgpu_messages *messages, int gpus);
// OpenMP threads of a rank that would take `now` of them: no more than its share of the host's cores, unless the user
// has said how many (OMP_NUM_THREADS; nullptr: not set). Ranks that take all cores each wait for one another's threads.
int threads_of(const char *said, const milcgpu_messages *messages, int now, int cores);

// What MILCGPU_TIMEOUT says; nothing where the text is none of its values.
std::optional<double> seconds_of(const std::string &text);
// The same of the environment, for waits of before the settings are read: where it says none of its values, they refuse
// it.
double time_limit();

// A table as this library knows it, of one that may be older. Throws Error(bad_argument).
milcgpu_messages whole_table(const milcgpu_messages *given);

// Ranks that pass their messages by the caller's table, which is copied. nullptr: one rank. Throws Error(bad_argument)
// where the table cannot be used. most_bytes: longer messages go in pieces.
constexpr size_t most_message_bytes = size_t{1} << 30;
std::unique_ptr<Ranks> ranks_of(const milcgpu_messages *table, size_t most_bytes = most_message_bytes);

// Of layout and environment; not checked.
Box box_of(const milcgpu_layout &layout, int rank);

// Fills the context; on failure all ranks throw the same Error. options may be nullptr.
void start_context(const milcgpu_layout &layout, const milcgpu_options *options, milcgpu_context &context);

} // namespace milcgpu
