// The stencil on a cut box. Ghosts are behind the field that is read, or in memory that peers store into
// (machine/backend/peers.h).
#pragma once
#include "gpu_kernels/staggered/hops.h"
#include <climits>
#if defined(__CUDACC__)
#include "gpu_kernels/halo/send_site.h"
#endif

namespace milcgpu {

template <class Spinor, Precision link, int reals, class End> struct CutStencil;
#if defined(__CUDACC__)
template <class Spinor, Precision link, int reals, class End>
struct CutStencil : Stencil<CutLattice, Spinor, link, reals, End> {
    using Base = Stencil<CutLattice, Spinor, link, reals, End>;
    using typename Base::Part;
    static constexpr int bytes = StoredSpinor<Spinor>::bytes, word = Spinor::word_bytes;
    PeerLaunch exchange;

    void fill(const Device &device, const DslashCall &call) {
        Base::fill(device, call);
        exchange = call.exchange;
    }
    struct OfPeers : cuda::Ghosts<bytes, word> {
        int first; // index of a ghost, if peers store it
        __device__ __forceinline__ explicit OfPeers(const CutStencil &s)
            : cuda::Ghosts<bytes, word>(s.exchange.map, 1 - s.parity),
              first(s.exchange.map.peers != nullptr ? s.lattice.first_ghost : INT_MAX) {}
        template <class Hops>
        __device__ __forceinline__ Vector<typename Spinor::Real> neighbour(const Hops &hops, int at) {
            StoredSpinor<Spinor> there;
            this->load(hops.in, hops.stride, at < first ? at : ~(at - first), there.w);
            return Spinor::decode(there.w);
        }
    };

    // Makes the compiler finish the arithmetic of a part here. Otherwise it would keep the operands in registers until
    // later.
    static __device__ __forceinline__ void use(float &x) { asm volatile("" : "+f"(x)); }
    static __device__ __forceinline__ void use(double &x) { asm volatile("" : "+d"(x)); }
    static __device__ __forceinline__ void use(Part &part) {
        MILCGPU_UNROLL
        for (int c = 0; c < 3; ++c)
            use(part.fat.c[c].re), use(part.fat.c[c].im), use(part.lng.c[c].re), use(part.lng.c[c].im);
    }

    // Reads as if all ghosts had arrived. If one had not, waits for the ghosts of directions mu to end - 1, and reads
    // again.
    template <class Read> __device__ __forceinline__ Part with_ghosts(int i, int mu, int end, const Read &read) const {
        OfPeers ghosts(*this);
        for (;;) {
            Part part = read(ghosts);
            use(part);
            if (ghosts.whole() || mu == end)
                return part;
            const Site site = this->lattice.site(this->parity, i);
            MILCGPU_ROLLED
            for (; mu < end; ++mu)
                MILCGPU_ROLLED
            for (int hops = 1; hops <= 3 && this->lattice.cut(mu); hops += 2) {
                const int behind = this->lattice.backward(site, mu, hops),
                          ahead = this->lattice.forward(site, mu, hops);
                if (behind >= ghosts.first)
                    ghosts.wait(behind - ghosts.first, 2 * mu);
                if (ahead >= ghosts.first)
                    ghosts.wait(ahead - ghosts.first, 2 * mu + 1);
            }
        }
    }
    // On the host, ghosts are behind `in`.
    MILCGPU_HD Part part(int i, int mu) const {
#if MILCGPU_ON_DEVICE
        return with_ghosts(i, mu, mu + 1, [&](OfPeers &ghosts) { return Base::part(i, mu, ghosts); });
#else
        return Base::part(i, mu);
#endif
    }
    MILCGPU_HD Sums<End::sums> operator()(int i) const {
#if MILCGPU_ON_DEVICE
        return complete(
            i, with_ghosts(i, 0, 4, [&](OfPeers &ghosts) { return this->template all<CutLattice>(i, ghosts); }));
#else
        return Base::operator()(i);
#endif
    }
    MILCGPU_HD Sums<End::sums> complete(int i, const Part &part) const {
        StoredSpinor<Spinor> made;
        const Sums<End::sums> sums = Base::complete(i, part, made);
#if MILCGPU_ON_DEVICE
        if (exchange.send)
            cuda::send_site<bytes, word>(exchange.map, this->lattice, this->parity, i, made.w);
#endif
        return sums;
    }
    // For a site that reads no ghosts and is not sent.
    __device__ __forceinline__ Sums<End::sums> inner(int i) const {
        return Base::complete(i, this->template all<Lattice>(i));
    }
};
#endif

} // namespace milcgpu
