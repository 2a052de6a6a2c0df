// A normal operator A = a + B^dag B or a - B^dag B is applied in two launches, its halves: first B, then B^dag with an
// epilogue, which does more with the result while it is in registers. Below, A x = a x - D in with in = B x. For
// staggered fermions B is D, which is anti-hermitian; for the Laplace operator B = kappa D is hermitian.
//
//   epilogue   out                             sum (deterministic, in double)
//   plain      B in                            |out|^2
//   normal     A x                             Re <x, out>           in = B x
//   residual   z - alpha A x                   |out|^2               in = B x; z and out may be the same field
//   step       r_new = r - alpha s             |out|^2, <out, s>     in = B x; a step of conjugate gradient:
//
// step: z is the residual r, out the new one (they may be the same field). If x is the direction p, s = A p. If x is r
// itself, s = A r + beta s, which is A p for the direction p = r + beta p.
#pragma once
#include "gpu_kernels/algebra/cg_state.h"
#include "gpu_kernels/fields/spinor_block.h"
#include <initializer_list>

namespace milcgpu {

enum class Epilogue { plain, normal, residual, step };

// The table of epilogues. spinors: how many are read or written for each site, with `in` and `out`. flops: of the
// epilogue and its sums, for each site.
struct EpilogueTraits {
    Epilogue epilogue;
    const char *name;
    int sums, spinors, flops;
};
constexpr EpilogueTraits epilogues[] = {{Epilogue::plain, "plain", 1, 2, 12},
                                        {Epilogue::normal, "normal", 1, 3, 12 + 18},
                                        {Epilogue::residual, "residual", 1, 4, 12 + 24},
                                        {Epilogue::step, "step", 2, 5, 12 + 48}};
constexpr const EpilogueTraits &traits(Epilogue e) { return epilogues[static_cast<int>(e)]; }
constexpr const char *name(Epilogue e) { return traits(e).name; }

// A launch of one half, on one source or on several.
struct HalfCall {
    SpinorBlock in, out;     // with the same number of sources
    SpinorBlock x{}, z{};    // normal: x; residual and step: x and z
    SpinorBlock s{};         // step
    double a = 0, alpha = 1; // normal and residual
    double *sum = nullptr;   // on the device, one source; nullptr: not wanted
    // Conjugate gradient, plain or step: the scalars are those of `cg` (on the device, one for each source). A source
    // whose cg->active is 0 is skipped. The sums go to cg: plain sets alpha; step sets rr_new and cross, then the
    // iteration is recorded and judged. nullptr: no conjugate gradient; `a` and `alpha` hold for all sources, and with
    // several sources nothing is summed.
    CgState *cg = nullptr;
    // Without cg and checksums: if this is 0 on the device, the launch does nothing.
    const int *gate = nullptr;
    bool along_p = false;          // plain: `in` is the direction p; false: the residual r
    bool check_convergence = true; // step: false if relative_residual (blas.h) judges
    // One source. defer: slots for the sum of this launch, which the next launch finishes (nullptr: this one does).
    // pending: slots of the sum that the previous launch deferred to this one. Slots: DeferredSums.
    double *defer = nullptr, *pending = nullptr;
    // One source on a cut lattice. in_sent: the previous launch made `in` and sent its ghosts to the neighbours.
    // send_out: this launch sends the ghosts of `out`, because the next launch reads it as its `in`.
    bool in_sent = false, send_out = false;
    // Residual of one source: checksums[k] (device) += checksum of the data NormalOperator::checked_regions()[k], as
    // this launch reads them. nullptr: not wanted.
    uint64_t *checksums = nullptr;

    // As above, for source k alone.
    void keep_source(int k) {
        for (SpinorBlock *block : {&in, &out, &x, &z, &s})
            *block = (*block)[k];
        cg = cg != nullptr ? cg + k : nullptr;
    }
};

// How the GPU launches a row of a stencil's table. block: threads per block. min_blocks: how many blocks of 256 threads
// (with several sources, of 64) must fit on a multiprocessor. sources: how many a thread does. Whether four threads
// share a site is decided by Device::parts_below.
struct LaunchShape {
    int block, min_blocks, sources;
};

} // namespace milcgpu
