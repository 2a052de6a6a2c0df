// The stencil for launches.h, and its launch that computes checksums. staggered_rows.h has the shapes.
#pragma once
#include "gpu_kernels/staggered/cut_stencil.h"
#include "gpu_kernels/stencil/launches.h"

namespace milcgpu {

constexpr int one_source_block = 128; // threads; 64 and 256 were no faster

template <class Where_, class Spinor_, Precision link, int reals> struct OfStaggered {
    using Call = DslashCall;
    using Where = Where_;
    using Spinor = Spinor_;
    static constexpr const char *name = "launch dslash", *name_of_several = "launch dslash on several sources",
                                *name_without_sums = "launch dslash on several sources, no sums";
    template <class End>
    using OneSource =
        std::conditional_t<std::is_same<Where, OnThisBackend>::value, Stencil<Where, Spinor, link, reals, End>,
                           CutStencil<Spinor, link, reals, End>>;
    template <class End> using EachSource = Stencil<Where, Spinor, link, reals, End, L2Policy::all>;
    using Together = SourcesHops<Where, Spinor, link, reals>;
    static constexpr KernelKey key = {Spinor::precision, link, reals};
};

// The epilogue residual that also computes the checksums of the links. One launch reads every link of both parities
// once (extents are even): forward links of its own sites, backward links of the other parity.
//
// It finds a change that happens before this launch reads the link, even if the first half still read the old value. A
// change after that does not affect the residual.
template <class Where, Precision link, int min_blocks>
void launch_checked_stencil(Device &device, const DslashCall &call, Epilogue epilogue) {
    Stencil<Where, SpinorDouble, link, 18, Ending<SpinorDouble>, L2Policy::none, CheckedLinks> body{};
    body.fill(device, call);
    body.checksums = call.checksums;
    body.fat_pieces = static_cast<uint32_t>(body.fat_block / 16);
    body.long_pieces = static_cast<uint32_t>(body.long_block / 16);
    for (const int other : {0, 1}) {
        const uint32_t blocks = (call.parity + other) % 2 * 4;
        body.fat_piece[other] = blocks * body.fat_pieces;
        body.long_piece[other] = blocks * body.long_pieces;
    }
    body.end = {epilogue, call.x.data, call.z.data, call.out.data, call.a, call.alpha};
    launch_sum<1, min_blocks>(device, call.lattice.sites(call.parity), body, SumFinish{call.sum, nullptr, false},
                              {"launch dslash", nullptr, one_source_block});
}

} // namespace milcgpu
