// The gauge Laplace operator's sum over neighbours on one parity, with an epilogue (algebra/epilogue.h).
//
//   (D in)(x) = kappa sum_mu [ U_mu(x) in(x+mu) + U_mu(x-mu)^dag in(x-mu) ]
//
// x runs over the sites of `parity`, `in` is on the other parity; mu is x, y, z (3 directions) or also t (4). U are
// gauge links, without staggered phases, in 18, 12 or 8 reals (12 and 8: scale * (+-SU(3)), reconstruct.h). Colour
// vectors are stored like those of staggered fields. D is hermitian, and M = 1 - D, with kappa = 1 / (2 d + m^2) in d
// directions, is kappa times the lattice's - Laplacian + m^2: Guesken et al., Phys. Lett. B 227 (1989) 266; Alexandrou
// et al., Nucl. Phys. B 414 (1994) 815.
//
// Flops a site: 570 for D in 4 directions (8 matrix-vector products of 66, 7 sums of 6), 426 in 3; plus those of the
// epilogue. Compulsory bytes a site: each link once, each vector once. With `in` and `out` alone, p bytes a real: 4
// directions p (8 reals + 12), 3 directions p (6 reals + 12): 1248 and 960 in double with 18 reals, 432 and 336 in
// single with 12.
#pragma once
#include "gpu_kernels/stencil/kernel_table.h"

namespace milcgpu {

class Halo;

struct LaplaceCall : StencilCall { // extents of the lattice along the directions even, if it is not cut
    Halo *halo;             // if it is cut: laplace() fills the ghosts of `in`; those of links must be there (halo.h)
    int directions;         // 3 or 4
    const LinkField *links; // precision of the vectors
    double kappa;
};
using LaplaceKernel = StencilKernel<LaplaceCall>;

// All combinations that are built.
const std::vector<LaplaceKernel> &laplace_table();
// Throws Error(not_built) with a list of what is built. Every epilogue and number of sources is built.
const LaplaceKernel &find_laplace(Precision, int reals, int directions, Epilogue, int sources = 1);
// Finds the kernel by the fields of the call, checks and launches it. If the lattice is cut, all ranks call together,
// and first send, in each of the call's directions that is cut, both outermost layers of `in`: spinor_bytes(precision)
// a site and source. Several sources then take one launch each, which keeps the library small. Throws
// Error(bad_argument) if the fields of the call do not fit each other or the lattice.
void laplace(Device &, const LaplaceCall &, Epilogue);

// Compulsory traffic and work of a launch on one parity.
size_t laplace_bytes(Precision, int reals, int directions, Epilogue, size_t sites);
size_t laplace_flops(int directions, Epilogue, size_t sites);

} // namespace milcgpu
