// The Wilson operator on one parity, with the term that is diagonal in space and an epilogue (algebra/epilogue.h).
//
//   (D_s in)(x) = sum_mu [ (1 + s gamma_mu) U_mu(x) in(x+mu) + (1 - s gamma_mu) U_mu(x-mu)^dag in(x-mu) ],   s = +-1
//
// x runs over `parity`, `in` is on the other parity. s = +1 is MILC's PLUS; D_-s = D_s^dag = gamma_5 D_s gamma_5.
// Boundary signs are in the links as MILC passes them; there are no staggered phases. gamma.h has the basis. R. G.
// Wilson, Phys. Rev. D 10 (1974) 2445; half spinors: R. Gupta et al., Phys. Rev. D 44 (1991) 3272.
//
//   form     v                          result
//   hop      C D_s in                   D (C = 1), R^-1 D (C the inverse clover term)
//   matrix   C own - factor D_s in      M on a parity, M_e = R_e - kappa^2 D_eo (R_o^-1 D_oe)
//
// C is 1, the clover term of the sites, or its inverse. The epilogues use v as follows:
//
//   plain      out = v
//   normal     out = a x + v
//   residual   out = z - alpha (a x + v)
//   step       s = a x + v (+ beta s), out = z - alpha s
//   dot        out = v, with the sums Re and Im of <with, out>, and |out|^2
//
// The staggered epilogues have - D in instead of + v, because D is anti-hermitian there.
//
// Several sources, `source_bytes` apart: hop, and matrix with plain, normal, residual and step. In conjugate gradients
// (HalfCall::cg), plain and step sum for each source; otherwise there are no sums.
//
// Fields have four colour vectors a site (SpinorField's components), links 18, 12 or 8 reals in the precision of the
// vectors. Flops a site: 1320 for D, see wilson_flops(). Compulsory bytes: each link once, each spinor once, see
// wilson_bytes().
#pragma once
#include "gpu_kernels/stencil/kernel_table.h"
#include "gpu_kernels/wilson/clover_term.h"
#include "gpu_kernels/wilson/half_spinor_halo.h"

namespace milcgpu {

constexpr int wilson_components = 4; // spins

enum class WilsonForm { hop, matrix };
constexpr const char *name(WilsonForm form) { return form == WilsonForm::hop ? "hop" : "matrix"; }

struct WilsonCall : StencilCall { // the lattice, if it is cut, is that of `halo`
    WilsonHalo *halo;             // nullptr: the lattice is whole
    const LinkField *links;
    WilsonForm form;
    int sign = 1;      // s
    double factor = 0; // matrix
    // C: nullptr: 1; otherwise, in the precision of the vectors, R for matrix and R^-1 for hop.
    const CloverField *clover = nullptr;
    SpinorBlock own{};       // matrix
    bool after_step = false; // hop: `pending` is the sum of a step; false: of plain before it
    SpinorBlock with{};      // dot; empty: <with, out> is 0
    double *dots = nullptr;  // on the device, 3 sums: requests "dot", with Epilogue::plain
};

using WilsonSend = void(const WilsonCall &);
// Launches of one source with every form and epilogue; shape: WilsonShape in wilson_stencil.h.
struct WilsonKernel : StencilKernel<WilsonCall> {
    Launch *launch_several; // on whole lattices
    LaunchShape several;
    WilsonSend *send = nullptr; // on a cut lattice: fills the ghosts that the call reads
    void launch_one(Device &device, const WilsonCall &call, Epilogue end) const {
        if (call.halo != nullptr)
            send(call);
        launch(device, call, end);
    }
};

// The form and epilogue of a launch; every row has all of them.
struct WilsonEnd {
    WilsonForm form;
    Epilogue epilogue;
    bool dot;
};
constexpr WilsonEnd wilson_ends[] = {
    {WilsonForm::hop, Epilogue::plain, false},       {WilsonForm::matrix, Epilogue::plain, false},
    {WilsonForm::matrix, Epilogue::plain, true},     {WilsonForm::matrix, Epilogue::normal, false},
    {WilsonForm::matrix, Epilogue::residual, false}, {WilsonForm::matrix, Epilogue::step, false}};

// All combinations that are built; each has all wilson_ends.
const std::vector<WilsonKernel> &wilson_table();
// Throws Error(not_built) with a list of what is built.
const WilsonKernel &find_wilson(Precision spinor, Precision link, int reals);
// Finds the kernel by the fields of the call, checks and launches it. Throws Error(bad_argument) if the fields do not
// fit each other.
void wilson(Device &, const WilsonCall &, Epilogue);

// Compulsory traffic of a launch on one parity, with links and C once for all sources, and its work on one source.
// clover: C is a clover term.
size_t wilson_bytes(Precision spinor, Precision link, int reals, const WilsonEnd &, bool clover, size_t sites,
                    int sources = 1);
size_t wilson_flops(const WilsonEnd &, bool clover, size_t sites);

} // namespace milcgpu
