// Numbers for several sites at once on a CPU: a register of the compiler's vector extension has a lane for each site.
// Kernel bodies use such a register in place of a real number.
#pragma once
#include "gpu_kernels/machine/portable.h"
#include <type_traits>

// Without AVX2 the compiler would emulate registers of 32 bytes. A library for GPUs has its fast code on the GPU.
#if defined(__AVX2__) && !MILCGPU_STRIPES && !defined(MILCGPU_WITH_CUDA)
#define MILCGPU_LANES 1
#else
#define MILCGPU_LANES 0
#endif

// A register of the numbers with these indices in registers a and b.
#if defined(__clang__)
#define MILCGPU_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define MILCGPU_SHUFFLE(a, b, ...) __builtin_shuffle(a, b, decltype((a) < (b)){__VA_ARGS__}) // an integer for a number
#endif

namespace milcgpu {

constexpr int lane_bytes = 32; // of a register

// Consecutive sites from `first` on, one for each lane.
struct SitesAtOnce {
    int first;
};

// What a body with reals of this type sums: One is the type of a number, Sites<N> has N of them.
template <class Real> struct SumsOf; // reduce.h

#if MILCGPU_LANES // nvcc accepts no vectors in code for the device

template <class T> struct Lanes {
    using Number = T;
    static constexpr int count = lane_bytes / static_cast<int>(sizeof(T));
    typedef T Register __attribute__((vector_size(lane_bytes)));
    Register v;

    Lanes() = default;
    template <class S, std::enable_if_t<std::is_arithmetic<S>::value, int> = 0>
    MILCGPU_HD Lanes(S s) : v(static_cast<T>(s) - Register{}) {} // minus, because -0 + 0 is 0
    MILCGPU_HD explicit Lanes(const Register &r) : v(r) {}
    static MILCGPU_HD Lanes load(const void *from) {
        Lanes x;
        memcpy(&x.v, from, lane_bytes);
        return x;
    }
    friend MILCGPU_HD Lanes operator+(const Lanes &a, const Lanes &b) { return Lanes(a.v + b.v); }
    friend MILCGPU_HD Lanes operator-(const Lanes &a, const Lanes &b) { return Lanes(a.v - b.v); }
    friend MILCGPU_HD Lanes operator*(const Lanes &a, const Lanes &b) { return Lanes(a.v * b.v); }
    friend MILCGPU_HD Lanes operator-(const Lanes &a) { return Lanes(-a.v); }
    MILCGPU_HD Lanes &operator+=(const Lanes &b) { return *this = *this + b; }
    MILCGPU_HD Lanes &operator-=(const Lanes &b) { return *this = *this - b; }
};

// N numbers for each of several sites.
template <class T, int N> struct LaneSums { Lanes<T> v[N]; };

template <class T> struct SumsOf<Lanes<T>> {
    using One = Lanes<T>;
    template <int N> using Sites = LaneSums<T, N>;
};

#endif

} // namespace milcgpu
