// Numbers that pass between the blocks of a launch, and the end of every wait for one.
//
// A posted number is unknown (all bits set, a NaN that post never writes) until it is there. 8-byte accesses are
// indivisible, and nothing but the number itself passes, so no ordering is needed.
//
// A wait assumes that the block which posts is running or has ended. It is: the GPU starts blocks in the order of their
// index, and every wait here is for blocks of lower index (reduce.h) or for block 0 (the step length). Should that
// fail, or a number be lost, the wait gives up after some seconds: it notes which one it was, goes on with NaN, and the
// host reports it (Device::check_waits). A kernel never hangs.
#pragma once
#include "gpu_kernels/backend/portable.h"

namespace milcgpu {

using PostedBits = unsigned long long;
constexpr PostedBits unknown_bits = ~PostedBits(0);
MILCGPU_HD double unknown() { return bit_cast<double>(PostedBits(unknown_bits)); }

enum class Wait : int { none, warp_sums, group_sums, step_length };
constexpr const char *name(Wait wait) {
    return wait == Wait::warp_sums    ? "the sums of the warps of a launch"
           : wait == Wait::group_sums ? "the sums of the groups of a launch"
                                      : "the step length of conjugate gradient";
}

// In memory that the GPU and the host share, so that the host can read it at any time.
struct WaitReport {
    int given_up;        // Wait
    unsigned most_looks; // a look takes about a microsecond
};
constexpr unsigned default_most_looks = 1u << 23;

// One thread's waiting. report is read only now and then: it lies in the host's memory.
struct Patience {
    unsigned looks = 0;
    MILCGPU_HD bool ended(WaitReport *const &report, Wait wait) {
        constexpr unsigned looks_between_checks = 1u << 12;
        if (++looks % looks_between_checks != 0)
            return false;
        if (report == nullptr)
            return looks >= default_most_looks;
        volatile WaitReport *shared = report;
        if (shared->given_up == 0 && looks < shared->most_looks)
            return false;
        shared->given_up = static_cast<int>(wait);
        return true;
    }
};

// volatile: to and from L2, each time.
MILCGPU_HD void post(double &to, double value) {
#if MILCGPU_ON_DEVICE
    *reinterpret_cast<volatile PostedBits *>(&to) = value == value ? bit_cast<PostedBits>(value) : 0x7ff8000000000000;
#else
    to = value;
#endif
}

// Waits for it, on the GPU. NaN where the wait was given up.
MILCGPU_HD double await(const double &posted, WaitReport *const &report, Wait wait) {
#if MILCGPU_ON_DEVICE
    Patience patience;
    PostedBits seen;
    do
        seen = *reinterpret_cast<const volatile PostedBits *>(&posted);
    while (seen == unknown_bits && !patience.ended(report, wait));
    return bit_cast<double>(seen);
#else
    static_cast<void>(report), static_cast<void>(wait);
    return posted;
#endif
}

} // namespace milcgpu
