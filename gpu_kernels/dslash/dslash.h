// The improved staggered operator on one parity, with an epilogue (blas/epilogue.h).
//
//   (D in)_i = sum_mu [ F_mu(i) in(i+mu) - F_mu(i-mu)^dag in(i-mu) + L_mu(i) in(i+3mu) - L_mu(i-3mu)^dag in(i-3mu) ]
//
// i runs over `parity`, `in` lives on the other parity. F fat links (18 reals), L long links (18, 13, 12, 9 or 8
// reals); staggered phases, boundary sign, coefficients and (1 + eps_naik) are in the links as MILC hands them over. D
// is anti-hermitian, so that D^dag D = -D D.
//
// Flops a site: 1146 for D (16 matrix-vector products of 66, 15 sums of 6), and the epilogue's.
// Compulsory bytes a site: each link once, each spinor once: see dslash_bytes().
#pragma once
#include "gpu_kernels/blas/epilogue.h"
#include <string>
#include <vector>

namespace milcgpu {

struct DslashCall : HalfCall {
    CutLattice lattice;         // where it is cut, ghosts of `in` are there (halo.h), and those of links behind
    int parity;                 // of out: 0 even, 1 odd
    const LinkField *fat, *lng; // same precision
    PeerLaunch exchange{};      // of Halo::before_dslash, where it is cut
};

// Of a row, on the GPU: threads a block; how many blocks of 256 threads (of 64 where it takes several sources) must fit
// on a multiprocessor; sources a thread. Whether a site takes four threads is the device's (Device::parts_below).
struct LaunchShape {
    int block, min_blocks, sources;
};

struct DslashKernel {
    Precision spinor, link;
    int reals; // of a long link
    Epilogue epilogue;
    int most_sources; // 1, or up to so many at once
    bool checks;      // takes the checksums of the links on the way (HalfCall::checksums)
    void (*whole)(Device &, const DslashCall &, Epilogue); // launches it on a lattice that is not cut
    const char *file;
    LaunchShape shape;
    void (*cut)(Device &, const DslashCall &, Epilogue) = nullptr; // and on one that is; nullptr: not built
    // On the host one of them serves all lattices: a compiler rounds the same source as it likes.
    void launch(Device &device, const DslashCall &call, Epilogue end) const {
        const bool as_cut = call.lattice.is_cut() || (cut != nullptr && !device.on_gpu());
        (as_cut ? cut : whole)(device, call, end);
    }
};

// Every combination that is built.
const std::vector<DslashKernel> &dslash_table();
// The row for so many sources; nullptr: none is built.
const DslashKernel *look_for_dslash(Precision spinor, Precision link, int reals, Epilogue, int sources);
// The same. Throws Error(not_built) with a list of what is built.
const DslashKernel &find_dslash(Precision spinor, Precision link, int reals, Epilogue, int sources = 1);
// The row that takes checksums; nullptr: none is built.
const DslashKernel *find_checked_dslash(Precision spinor, Precision link, int reals, Epilogue);
// Throws Error(bad_argument) when the fields of a call do not fit each other.
void check_call(const DslashCall &, Epilogue);
// Looks the kernel up by the fields of the call, checks and launches it.
void dslash(Device &, const DslashCall &, Epilogue);

// Compulsory traffic and work of a launch on one parity.
size_t dslash_bytes(Precision spinor, Precision link, int reals, Epilogue, size_t sites);
size_t dslash_flops(Epilogue, size_t sites);

} // namespace milcgpu
