// D on more sources than a thread can take: two warps of a block have the same 32 sites and half of the sources each.
// Links are copied to shared memory three hops ahead; each warp copies every other word, and both read them from there.
// So links are loaded from L2 once for all sources, and no warp waits for them.
#pragma once
#include "gpu_kernels/fields/reconstruct.h"
#include "gpu_kernels/fields/spinor_storage.h"
#include "gpu_kernels/machine/backend/reduce.h"

#if defined(MILCGPU_WITH_CUDA)
#include "gpu_kernels/machine/backend/copy_ahead_cuda.h"

namespace milcgpu::cuda {

// The links of 32 sites for four hops. Words of 16 bytes; the last one may be filled partly.
template <Precision link, int reals> struct LinkRing {
    static constexpr int stages = 4, warps = 2;
    static constexpr int words = (RawLink<link, 18>::bytes + 15) / 16;
    uint4 word[stages][words][32];

    // Copies a warp's share of a link; `member` is the warp's number.
    template <int reals_of>
    __device__ __forceinline__ void copy(int stage, int member, const unsigned char *block, uint32_t stride, int at) {
        constexpr int bytes = RawLink<link, reals_of>::bytes, whole = bytes / 16, rest = bytes % 16;
        static_assert(rest == 0 || rest == 4 || rest == 8);
        const int lane = threadIdx.x % 32;
        MILCGPU_UNROLL
        for (int w = 0; w < whole; ++w)
            if (w % warps == member)
                copy_word_ahead<16>(&word[stage][w][lane], place<16, true>(block, w * 16, stride, at));
        if constexpr (rest > 0)
            if (whole % warps == member)
                copy_word_ahead<rest>(&word[stage][whole][lane], place<rest, true>(block, whole * 16, stride, at));
    }
    template <int reals_of> __device__ __forceinline__ Link<link, reals_of> take(int stage) const {
        using Raw = RawLink<link, reals_of>;
        constexpr int whole = Raw::bytes / 16, rest = Raw::bytes % 16;
        const int lane = threadIdx.x % 32;
        Raw raw;
        MILCGPU_UNROLL
        for (int w = 0; w < whole; ++w) {
            const uint4 v = word[stage][w][lane];
            raw.w[4 * w] = v.x, raw.w[4 * w + 1] = v.y, raw.w[4 * w + 2] = v.z, raw.w[4 * w + 3] = v.w;
        }
        if constexpr (rest == 8) {
            const uint2 v = *reinterpret_cast<const uint2 *>(&word[stage][whole][lane]);
            raw.w[4 * whole] = v.x, raw.w[4 * whole + 1] = v.y;
        } else if constexpr (rest == 4) {
            raw.w[4 * whole] = *reinterpret_cast<const uint32_t *>(&word[stage][whole][lane]);
        }
        return Link<link, reals_of>(raw);
    }
};

// SourcesHops::all with links from the ring. All threads of the block call it together.
template <class Hops, class Ring, int count, class Part>
__device__ __forceinline__ void all_sharing_links(const Hops &hops, int i, const Sources<count> &own, Ring &ring,
                                                  Part (&sum)[count]) {
    using Vec = typename Hops::Vec;
    constexpr int reals = Hops::long_reals;
    const int member = threadIdx.x / 32;
    const auto &lattice = hops.lattice;
    const unsigned char *const first = own.first_of(hops.in, hops.source_bytes);
    const size_t to_second = own.to_second(hops.source_bytes);
    const auto load = [&](int at, Vec(&x)[count]) {
        const unsigned char *next = first;
        MILCGPU_UNROLL
        for (int r = 0; r < count; ++r) {
            x[r] = load_spinor<typename Hops::Format>(next, hops.stride, at);
            next += r == 0 ? to_second : hops.source_bytes;
        }
    };
    const uint32_t stride = opaque(static_cast<uint32_t>(hops.link_stride));
    // Hop k of a direction: fat links ahead and behind, long links ahead and behind.
    const auto copy = [&](auto hop, int mu, const auto &site) {
        constexpr int k = decltype(hop)::value;
        const int at = k == 1   ? lattice.backward(site, mu, 1)
                       : k == 3 ? lattice.backward(site, mu, lattice.third_hop[mu])
                                : opaque(i);
        if constexpr (k < 2)
            ring.template copy<18>(k, member, opaque(hops.fat[k] + mu * hops.fat_block), stride, at);
        else
            ring.template copy<reals>(k, member, opaque(hops.lng[k - 2] + mu * hops.long_block), stride, at);
    };
    const std::integral_constant<int, 0> fat_ahead;
    const std::integral_constant<int, 1> fat_behind;
    const std::integral_constant<int, 2> long_ahead;
    const std::integral_constant<int, 3> long_behind;
    // The links of this hop have arrived, and both warps have read those of the previous hop.
    const auto wait = [] {
        wait_for_stage<Ring::stages - 2>();
        __syncthreads();
    };
    auto site = lattice.in_turn(lattice.site(hops.parity, i));
    lattice.turn_to(site, 0);
    copy(fat_ahead, 0, site), end_of_stage();
    copy(fat_behind, 0, site), end_of_stage();
    copy(long_ahead, 0, site), end_of_stage();
    MILCGPU_ROLLED
    for (int mu = 0; mu < 4; ++mu) {
        const int third = lattice.third_hop[mu];
        auto next = site;
        if (mu < 3)
            lattice.turn_to(next, mu + 1);
        Vec x[count];
        const auto each = [&](const auto &add) {
            MILCGPU_UNROLL
            for (int r = 0; r < count; ++r)
                add(sum[r], x[r]);
        };
        load(lattice.forward(site, mu, 1), x);
        wait();
        copy(long_behind, mu, site), end_of_stage();
        {
            const auto link = ring.template take<18>(0);
            each([&](Part &part, const Vec &v) { link.add_forward(part.of_fat(), v); });
        }
        load(lattice.backward(site, mu, 1), x);
        wait();
        if (mu < 3)
            copy(fat_ahead, mu + 1, next);
        end_of_stage();
        {
            const auto link = ring.template take<18>(1);
            each([&](Part &part, const Vec &v) { link.subtract_backward(part.of_fat(), v); });
        }
        load(lattice.forward(site, mu, third), x);
        wait();
        if (mu < 3)
            copy(fat_behind, mu + 1, next);
        end_of_stage();
        {
            const auto link = hops.in_units(ring.template take<reals>(2));
            each([&](Part &part, const Vec &v) { link.add_forward(part.of_long(), hops.beside_long_link(v)); });
        }
        load(lattice.backward(site, mu, third), x);
        wait();
        if (mu < 3)
            copy(long_ahead, mu + 1, next);
        end_of_stage();
        {
            const auto link = hops.in_units(ring.template take<reals>(3));
            each([&](Part &part, const Vec &v) { link.subtract_backward(part.of_long(), hops.beside_long_link(v)); });
        }
        site = next;
    }
}

} // namespace milcgpu::cuda
#endif
