// Sends the half spinors that D of a vector reads of the neighbours (half_spinor_halo.h), before the launch of D.
#include "gpu_kernels/halo/pieces.h"
#include "gpu_kernels/wilson/wilson_stencil.h"

namespace milcgpu {

namespace {

// The half spinors of a launch, from its `in`.
template <class Spinor, int reals> struct HalvesToSend {
    using Hops = WilsonHops<CutLattice, Spinor, reals, Reuse::keep>;
    using Half = HalfWilsonVector<typename Spinor::Real>;
    using Stored = typename GhostHalves<CutLattice, typename Spinor::Real>::Stored;
    static constexpr bool fits_slot = true, of_sources = false;
    static constexpr int vector_bytes = StoredSpinor<Stored>::bytes, bytes = 2 * vector_bytes;
    Hops hops;
    template <int power>
    MILCGPU_HD Half half(int mu, int side, int i) const { // side 0: for the rank ahead, which has it behind
        return side == 0 ? hops.template half_behind<power>(mu, hops.in, i, hops.load_link_of(1, mu, i))
                         : hops.template half_ahead<power>(mu, hops.in, i);
    }
    MILCGPU_HD void load(const Pieces::Piece &piece, int e, uint32_t *w) const {
        Site s;
        if (!hops.lattice.sent(1 - hops.parity, piece.mu, piece.side, 0, e, s))
            return;
        const Half h = gamma_power(piece.mu) == 1 ? half<1>(piece.mu, piece.side, s.index())
                                                  : half<0>(piece.mu, piece.side, s.index());
        Stored::encode(h.d[0], w);
        Stored::encode(h.d[1], w + vector_bytes / 4);
    }
    MILCGPU_HD void store(const Pieces::Piece &piece, int e, const uint32_t *w) const {
        const size_t places = hops.ghosts.places, at = hops.lattice.ghost[piece.mu][piece.side] + e - hops.ghosts.first;
        store_element<vector_bytes, Stored::word_bytes>(hops.ghosts.data, 2 * places, at, w);
        store_element<vector_bytes, Stored::word_bytes>(hops.ghosts.data, 2 * places, places + at,
                                                        w + vector_bytes / 4);
    }
};

template <class Spinor, int reals> void send_halves(const WilsonCall &call) {
    using Ends = HalvesToSend<Spinor, reals>;
    Ends ends{};
    ends.hops.fill(call);
    Pieces pieces;
    for (int mu = 0; mu < 4; ++mu)
        for (int side = 0; side < 2 && call.lattice.cut(mu); ++side)
            pieces.add(mu, side, 0, call.lattice.layer[mu]);
    call.halo->halo.template pass<Ends::bytes>("the halo of a Wilson vector", pieces, ends);
}

template <class Spinor> WilsonSend *sender(int reals) {
    return reals == 18 ? send_halves<Spinor, 18> : reals == 12 ? send_halves<Spinor, 12> : send_halves<Spinor, 8>;
}

} // namespace

WilsonSend *wilson_sender(Precision precision, int reals) {
    return precision == Precision::double_  ? sender<SpinorDouble>(reals)
           : precision == Precision::single ? sender<SpinorSingle>(reals)
                                            : sender<SpinorHalf>(reals);
}

} // namespace milcgpu
