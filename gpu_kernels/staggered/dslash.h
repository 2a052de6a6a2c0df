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
#include "gpu_kernels/algebra/epilogue.h"
#include "gpu_kernels/fields/link_field.h"
#include "gpu_kernels/machine/backend/launch_types.h"
#include <string>
#include <vector>

namespace milcgpu {

struct DslashCall : HalfCall {
    CutLattice lattice; // if it is cut, the ghosts of `in` and those of the links behind must have arrived (halo.h)
    int parity;         // of out: 0 even, 1 odd
    const LinkField *fat, *lng; // same precision
    PeerLaunch exchange{};      // from Halo::before_dslash, if the lattice is cut
    Tiles tiles{};              // not all tiles: only on a GPU, with several sources without sums (Halo::tiles)
};

struct DslashKernel {
    Precision spinor, link;
    int reals; // of a long link
    Epilogue epilogue;
    int most_sources; // 1, or up to so many at once
    bool checks;      // computes the checksums of the links it reads (HalfCall::checksums)
    void (*whole)(Device &, const DslashCall &, Epilogue); // launches it on a whole lattice
    LaunchShape shape;
    void (*cut)(Device &, const DslashCall &, Epilogue) = nullptr; // and on a cut one; nullptr: not built
    // On the host, one of them serves all lattices, because compilers may round two instances of the same source
    // differently.
    void launch(Device &device, const DslashCall &call, Epilogue end) const {
        const bool as_cut = call.lattice.is_cut() || (cut != nullptr && !queue_of(device).on_gpu());
        (as_cut ? cut : whole)(device, call, end);
    }
};

// All combinations that are built.
const std::vector<DslashKernel> &dslash_table();
// The row for so many sources; nullptr: not built.
const DslashKernel *look_for_dslash(Precision spinor, Precision link, int reals, Epilogue, int sources);
// As above, but throws Error(not_built) with a list of what is built.
const DslashKernel &find_dslash(Precision spinor, Precision link, int reals, Epilogue, int sources = 1);
// The row that computes checksums; nullptr: not built.
const DslashKernel *find_checked_dslash(Precision spinor, Precision link, int reals, Epilogue);
// Throws Error(bad_argument) if the fields of a call do not fit each other.
void check_call(const DslashCall &, Epilogue);
// Finds the kernel by the fields of the call, checks and launches it.
void dslash(Device &, const DslashCall &, Epilogue);

// Compulsory bytes and flops of a launch on one parity.
size_t dslash_bytes(Precision spinor, Precision link, int reals, Epilogue, size_t sites);
size_t dslash_flops(Epilogue, size_t sites);

} // namespace milcgpu
