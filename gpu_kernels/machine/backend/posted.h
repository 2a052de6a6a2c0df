// Numbers that one block of a launch passes to another, and the time limit of every wait for one.
//
// Until a number is posted, all its bits are set: that is a NaN which post() never writes, and means "unknown".
// Accesses of 8 bytes are indivisible, and nothing else is passed with the number, so no fence is needed.
//
// A wait assumes that the block which posts is running or has ended. The GPU starts blocks in the order of their index,
// and a block waits only for blocks of lower index (reduce.h); for example, the first blocks compute the step length.
// If that assumption fails, or a number is lost, the wait ends after some seconds. The kernel then records which wait
// it was and continues with NaN, and the host reports it (Device::check_waits). A kernel never hangs.
#pragma once
#include "gpu_kernels/machine/portable.h"

namespace milcgpu {

using PostedBits = unsigned long long;
constexpr PostedBits unknown_bits = ~PostedBits(0);
MILCGPU_HD double unknown() { return bit_cast<double>(PostedBits(unknown_bits)); }

enum class Wait : int { none, warp_sums, group_sums, step_length, ghosts, sum_of_rank };
constexpr const char *name(Wait wait) {
    return wait == Wait::warp_sums    ? "the sums of the warps of a launch"
           : wait == Wait::group_sums ? "the sums of the groups of a launch"
                                      : "the step length of conjugate gradient";
}

// In memory that the GPU and the host share, so that the host can read it at any time.
struct WaitReport {
    int given_up; // Wait
    int rank;     // the rank that was waited for (ghosts, sum_of_rank)
    int face;     // for ghosts: which face (peers.h)
};

// Number of polls before a wait ends; a poll takes about a microsecond. A wait for a block that itself waits for
// another rank polls much longer, so that the other wait ends first.
constexpr unsigned most_polls = 1u << 23, most_polls_with_ranks = 1u << 31;

MILCGPU_HD void note_given_up(WaitReport *report, Wait wait) {
    if (report != nullptr)
        *static_cast<volatile int *>(&report->given_up) = static_cast<int>(wait);
}

// volatile: each access goes to the L2 cache.
MILCGPU_HD void post(double &to, double value) {
#if MILCGPU_ON_DEVICE
    *reinterpret_cast<volatile PostedBits *>(&to) = value == value ? bit_cast<PostedBits>(value) : 0x7ff8000000000000;
#else
    to = value;
#endif
}

MILCGPU_HD bool is_unknown(double value) { return bit_cast<PostedBits>(value) == unknown_bits; }

// Returns the number; on the GPU waits until it is posted. If the wait reaches its limit, returns "unknown", and the
// code that uses the number reports it. (A report in this function, or a second exit of the loop, took registers and
// made a step in single precision 2 % slower.)
template <unsigned polls_allowed = most_polls> MILCGPU_HD double await(const double &posted) {
#if MILCGPU_ON_DEVICE
    PostedBits seen;
    unsigned polls = 0;
    do {
        seen = *reinterpret_cast<const volatile PostedBits *>(&posted);
        ++polls;
    } while ((seen == unknown_bits) & (polls < polls_allowed));
    return bit_cast<double>(seen);
#else
    return posted;
#endif
}

} // namespace milcgpu
