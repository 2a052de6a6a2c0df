// Numbers that pass between the blocks of a launch, and the end of every wait for one.
//
// A posted number is unknown (all bits set, a NaN that post never writes) until it is there. 8-byte accesses are
// indivisible, and nothing but the number itself passes, so no ordering is needed.
//
// A wait assumes that the block which posts is running or has ended. It is: the GPU starts blocks in the order of their
// index, and every wait here is for blocks of lower index (reduce.h): the first ones make the step length. Should that
// fail, or a number be lost, the wait gives up after some seconds: it notes which one it was, goes on with NaN, and the
// host reports it (Device::check_waits). A kernel never hangs.
#pragma once
#include "gpu_kernels/backend/portable.h"

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
    int rank;     // waited for: ghosts, sum_of_rank
    int face;     // ghosts: which (peers.h)
};

// Looks before a wait is given up; a look takes about a microsecond. Who waits for a block that waits for another rank
// lets that one give up.
constexpr unsigned most_looks = 1u << 23, most_looks_with_ranks = 1u << 31;

MILCGPU_HD void note_given_up(WaitReport *report, Wait wait) {
    if (report != nullptr)
        *static_cast<volatile int *>(&report->given_up) = static_cast<int>(wait);
}

// volatile: to and from L2, each time.
MILCGPU_HD void post(double &to, double value) {
#if MILCGPU_ON_DEVICE
    *reinterpret_cast<volatile PostedBits *>(&to) = value == value ? bit_cast<PostedBits>(value) : 0x7ff8000000000000;
#else
    to = value;
#endif
}

MILCGPU_HD bool is_unknown(double value) { return bit_cast<PostedBits>(value) == unknown_bits; }

// Waits for it, on the GPU. Unknown where the wait was given up: whoever finishes with that number notes it. (Noted
// here, or with two ways out of the loop, it cost registers, and a step in single precision was 2 % slower.)
template <unsigned looks_allowed = most_looks> MILCGPU_HD double await(const double &posted) {
#if MILCGPU_ON_DEVICE
    PostedBits seen;
    unsigned looks = 0;
    do {
        seen = *reinterpret_cast<const volatile PostedBits *>(&posted);
        ++looks;
    } while ((seen == unknown_bits) & (looks < looks_allowed));
    return bit_cast<double>(seen);
#else
    return posted;
#endif
}

} // namespace milcgpu
