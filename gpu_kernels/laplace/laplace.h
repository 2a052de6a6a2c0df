// The gauge Laplace operator's sum over neighbours on one parity, with an epilogue (blas/epilogue.h).
//
//   (D in)(x) = kappa sum_mu [ U_mu(x) in(x+mu) + U_mu(x-mu)^dag in(x-mu) ]
//
// x runs over the sites of `parity`, `in` lives on the other parity; mu is x, y, z (3 directions) or t as well (4). U
// are gauge links, without staggered phases, in 18, 12 or 8 reals (12 and 8: scale * (+-SU(3)), reconstruct.h). Colour
// vectors are those of staggered fields. D is hermitian, and M = 1 - D, with kappa = 1 / (2 d + m^2) in d directions,
// is kappa times the lattice's - Laplacian + m^2: Guesken et al., Phys. Lett. B 227 (1989) 266; Alexandrou et al.,
// Nucl. Phys. B 414 (1994) 815.
//
// Flops a site: 570 for D in 4 directions (8 matrix-vector products of 66, 7 sums of 6), 426 in 3; and the epilogue's.
// Compulsory bytes a site: each link once, each vector once. With `in` and `out` alone, p bytes a real: 4 directions p
// (8 reals + 12), 3 directions p (6 reals + 12): 1248 and 960 in double with 18 reals, 432 and 336 in single with 12.
#pragma once
#include "gpu_kernels/blas/epilogue.h"
#include <string>
#include <vector>

namespace milcgpu {

struct LaplaceCall : HalfCall {
    Lattice lattice;        // not cut; extents along the directions even
    int parity;             // of out: 0 even, 1 odd
    int directions;         // 3 or 4
    const LinkField *links; // precision of the vectors
    double kappa;
};

struct LaplaceKernel {
    Precision precision; // of vectors and links
    int reals, directions;
    Epilogue epilogue;
    int most_sources; // 1, or up to so many at once
    void (*launch)(Device &, const LaplaceCall &, Epilogue);
    const char *file;
    LaunchShape shape;
};

// Every combination that is built.
const std::vector<LaplaceKernel> &laplace_table();
// Throws Error(not_built) with a list of what is built. Any epilogue and number of sources is.
const LaplaceKernel &find_laplace(Precision, int reals, int directions, Epilogue, int sources = 1);
// Throws Error(bad_argument) when the fields of a call do not fit each other or the lattice.
void check_call(const LaplaceCall &, Epilogue);
// Looks the kernel up by the fields of the call, checks and launches it.
void laplace(Device &, const LaplaceCall &, Epilogue);

// Compulsory traffic and work of a launch on one parity.
size_t laplace_bytes(Precision, int reals, int directions, Epilogue, size_t sites);
size_t laplace_flops(int directions, Epilogue, size_t sites);

} // namespace milcgpu
