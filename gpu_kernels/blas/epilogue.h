// Half of a normal operator A = a + B^dag B or a - B^dag B and what is fused onto its end. A x is a x - D in: for
// staggered fermions B is D, which is anti-hermitian, and for the Laplace operator B = kappa D is hermitian.
//
//   epilogue   out                             sum (deterministic, in double)
//   plain      B in                            |out|^2
//   normal     A x                             Re <x, out>           in = B x
//   residual   z - alpha A x                   |out|^2               in = B x; z and out may be the same field
//   step       r_new = r - alpha s             |out|^2, <out, s>     in = B x; a step of conjugate gradient:
//
// step: z is the residual r, out the new one (they may be the same field). Where x is the direction p, s = A p. Where x
// is r itself, s = A r + beta s, which is A p for the direction p = r + beta p.
#pragma once
#include "gpu_kernels/blas/cg_state.h"
#include "gpu_kernels/su3/fields.h"

namespace milcgpu {

enum class Epilogue { plain, normal, residual, step };

// The one table of epilogues. spinors: read or written a site, `in` and `out` included. flops: a site, for the epilogue
// and its sums.
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
    SpinorBlock in, out;     // as many sources each
    SpinorBlock x{}, z{};    // normal: x; residual and step: x and z
    SpinorBlock s{};         // step
    double a = 0, alpha = 1; // normal and residual
    double *sum = nullptr;   // on the device, one source; nullptr: not wanted
    // In a conjugate gradient, plain or step: the scalars are those of `cg` (an array, one a source), a source whose
    // cg->active is 0 is left alone, and the sum goes to cg: plain gives alpha, step rr_new and cross; the iteration is
    // recorded and judged.
    // nullptr: of several sources nothing is summed, and they have one `a` and `alpha`.
    CgState *cg = nullptr;
    // Without cg and checksums: where this is 0 on the device, the launch does nothing.
    const int *gate = nullptr;
    bool along_p = false; // plain: in is p, else r
    bool judge = true;    // step; false where relative_residual (blas.h) does it
    // One source: that sum, deferred to the launch that follows (nullptr: finished in this one), and that of the launch
    // before, plain's to step and step's to plain. Slots: DeferredSums.
    double *defer = nullptr, *pending = nullptr;
    // Where the lattice is cut, one source: `in` was made by the launch before, which has sent the neighbours what they
    // need of it; and this launch sends what they need of `out`, because the next one takes it as its `in`.
    bool in_sent = false, send_out = false;
    // Residual of one source: checksums[k] (device) += the checksum of what NormalOperator::stands_on()[k] says, as
    // this launch reads it. nullptr: not wanted.
    uint64_t *checksums = nullptr;

    // The same for source k alone.
    void keep_source(int k) {
        for (SpinorBlock *block : {&in, &out, &x, &z, &s})
            *block = (*block)[k];
        cg = cg != nullptr ? cg + k : nullptr;
    }
};

// Of a row of a stencil's table, on the GPU: threads a block; how many blocks of 256 threads (of 64 where it takes
// several sources) must fit on a multiprocessor; sources a thread. Whether a site takes four threads is the device's
// (Device::parts_below).
struct LaunchShape {
    int block, min_blocks, sources;
};

} // namespace milcgpu
