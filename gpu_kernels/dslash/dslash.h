// The improved staggered operator on one parity, with what conjugate gradient needs fused onto its end.
//
//   (D in)_i = sum_mu [ F_mu(i) in(i+mu) - F_mu(i-mu)^dag in(i-mu) + L_mu(i) in(i+3mu) - L_mu(i-3mu)^dag in(i-3mu) ]
//
// i runs over `parity`, `in` lives on the other parity. F fat links (18 reals), L long links (18, 13, 12, 9 or 8
// reals); staggered phases, boundary sign, coefficients and (1 + eps_naik) are in the links as MILC hands them over.
//
//   epilogue   out                                   sum (deterministic, in double)
//   plain      D in                                  |out|^2
//   normal     a x - D in                            Re <x, out>      with in = D x: out = (a - D D) x
//   residual   z - alpha (a x - D in)                |out|^2          z and out may be the same field
//   step       z - alpha s, a step of conjugate gradient: see below   |out|^2, <out, s>     z and out may be the same
//
// step: in = D x, so A x = a x - D in; z is the residual r. x is the direction p and s = A p, or x is r, too, and
// s = A r + beta s, which is A p for the direction p = r + beta p.
//
// Flops a site: 1146 for D (16 matrix-vector products of 66, 15 sums of 6); +18 normal, +24 residual, +48 step; +12 for
// the sum.
// Compulsory bytes a site: each link once, each spinor once: see bytes().
#pragma once
#include "gpu_kernels/blas/shifts.h"
#include "gpu_kernels/halo/neighbours.h"
#include "gpu_kernels/su3/fields.h"
#include <string>
#include <vector>

namespace milcgpu {

enum class Epilogue { plain, normal, residual, step };
const char *name(Epilogue);

struct DslashCall {
    Lattice lattice;
    int parity;                 // of out: 0 even, 1 odd
    const LinkField *fat, *lng; // same precision
    const SpinorField *in, *out;
    const SpinorField *x = nullptr, *z = nullptr; // epilogue normal: x; residual and step: x and z
    const SpinorField *s = nullptr;               // step
    double a = 0, alpha = 1;
    double *sum = nullptr; // on the device; nullptr: not wanted
    // In a conjugate gradient, plain or step: the scalars are those of `cg`, the launch does nothing when cg->active is
    // 0, and the sum goes to cg: plain -> alpha, step -> rr_new and cross; the iteration is recorded and judged.
    CgState *cg = nullptr;
    bool along_p = false; // plain: in is p, else r
    bool judge = true;    // step; false where relative_residual (blas.h) does it
    // That sum, deferred to the launch that follows (nullptr: finished in this one), and that of the launch before,
    // plain's to step and step's to plain: slots_of_sum (device.h) of that launch's sites, twice for step. A plain that
    // finds the solve at its end has worked in vain.
    double *defer = nullptr, *pending = nullptr;
};

// D on several fields at once with the same links, plain or step, each in a conjugate gradient of its own.
struct DslashBatchCall {
    Lattice lattice;
    int parity;
    const LinkField *fat, *lng;
    int count;                                                  // of fields, at most max_shifts
    const SpinorField *in, *out;                                // arrays of count
    const SpinorField *x = nullptr, *z = nullptr, *s = nullptr; // step
    bool along_p = false;
    CgState *cg; // array of count; those that are not active are left alone
};

struct DslashBatchKernel {
    Precision spinor, link;
    int reals;
    void (*launch)(Device &, const DslashBatchCall &, Epilogue);
    const char *file;
};
const std::vector<DslashBatchKernel> &dslash_batch_table();
void dslash_batch(Device &, const DslashBatchCall &, Epilogue); // throws Error(not_built)

struct DslashKernel {
    Precision spinor, link;
    int reals; // of a long link
    Epilogue epilogue;
    void (*launch)(Device &, const DslashCall &, Epilogue);
    const char *file;
};

// Every combination that is built.
const std::vector<DslashKernel> &dslash_table();
// Throws Error(not_built) with a list of what is built.
const DslashKernel &find_dslash(Precision spinor, Precision link, int reals, Epilogue);
// Looks the kernel up by the fields of the call and launches it. Throws Error(bad_argument) when fields do not fit.
void dslash(Device &, const DslashCall &, Epilogue);

// Compulsory traffic and work of a launch on one parity.
size_t dslash_bytes(Precision spinor, Precision link, int reals, Epilogue, size_t sites);
size_t dslash_flops(Epilogue, size_t sites);

} // namespace milcgpu
