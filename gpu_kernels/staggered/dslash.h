// The improved staggered operator on one parity, with an epilogue (algebra/epilogue.h).
//
//   (D in)_i = sum_mu [ F_mu(i) in(i+mu) - F_mu(i-mu)^dag in(i-mu) + L_mu(i) in(i+3mu) - L_mu(i-3mu)^dag in(i-3mu) ]
//
// i runs over `parity`, `in` is on the other parity. F fat links (18 reals), L long links (18, 13, 12, 9 or 8 reals);
// staggered phases, boundary sign, coefficients and (1 + eps_naik) are in the links as MILC passes them. D is
// anti-hermitian, so that D^dag D = -D D.
//
// Flops a site: 1146 for D (16 matrix-vector products of 66, 15 sums of 6), plus those of the epilogue. Compulsory
// bytes a site: each link once, each spinor once: see dslash_bytes().
#pragma once
#include "gpu_kernels/stencil/kernel_table.h"

namespace milcgpu {

// If the lattice is cut, the ghosts of `in` and those of the links behind must have arrived (halo.h).
struct DslashCall : StencilCall {
    const LinkField *fat, *lng;       // same precision
    const LaneLinks *lanes = nullptr; // of the same links, for several sites at once; nullptr: none
    PeerLaunch exchange{};            // from Halo::before_dslash, if the lattice is cut
};
using DslashKernel = StencilKernel<DslashCall>;

// All combinations that are built.
const std::vector<DslashKernel> &dslash_table();
// nullptr: not built.
const DslashKernel *look_for_dslash(const KernelKey &);
// Throws Error(not_built) with a list of what is built.
const DslashKernel &find_dslash(Precision spinor, Precision link, int reals, Epilogue, int sources = 1);
// Throws Error(bad_argument) if the fields of a call do not fit each other.
void check_call(const DslashCall &, Epilogue);
// Finds the kernel by the fields of the call, checks and launches it.
void dslash(Device &, const DslashCall &, Epilogue);

// Compulsory bytes and flops of a launch on one parity.
size_t dslash_bytes(Precision spinor, Precision link, int reals, Epilogue, size_t sites);
size_t dslash_flops(Epilogue, size_t sites);

} // namespace milcgpu
