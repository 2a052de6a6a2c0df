// The lowest eigenvectors of an operator A at shift 0, by block Lanczos with a Chebyshev filter (Y. Zhou, Y. Saad et
// al., J. Comput. Phys. 219 (2006) 172): a Krylov space of T = T_d((hi + a - 2 A) / (hi - a)), in which eigenvalues
// below a stand out and those from a to hi do not.
//
//   bounds   hi: block power iteration. a: from the density of eigenvalues, which follows from traces of Chebyshev
//            polynomials of A with noise vectors (A. Weisse et al., Rev. Mod. Phys. 78 (2006) 275).
//   basis    blocks of 16 vectors: T of the last block, orthogonalized twice against all others. A is applied in
//            single precision, or in double for vectors in double. The basis has the precision of the vectors that are
//            kept, and uses their memory. In half precision vectors differ by rounding only, 1e-6 hi in their
//            residuals.
//   the end  Rayleigh-Ritz with A itself, not with T: G = V^dag A V. Vectors are ordered by |B v|^2, in which a part of
//            a high mode weighs most, and the lowest N are kept. V^dag A V of the kept vectors is diagonal, as
//            deflation assumes, even if they have not converged. They replace the basis, some sites at a time.
//   restart  If vectors are missing, the basis begins again with the good vectors, then the others, filtered once
//            more, then T of the last block. (A thick restart, in which Ritz vectors of A continue a Krylov space of T,
//            was measured to stall.) If the last value is not below a, a rises: the density is smeared, and on free
//            links its a is below all eigenvalues.
//   levels   A Krylov space of a block has at most 16 vectors of one eigenvalue, except for rounding. If as many values
//            agree, and on free links, random vectors are filtered until a missing mode would show.
//
// Vectors that have not converged deflate nearly as well as exact ones. Vectors with a large part of high modes are
// left out. Work: applications(N) = m (d + 1) of A, m = 1.13 N .. 1.5 N as memory allows, d = c sqrt(hi / l_N); 60 m^2
// flops a site for the basis.
#pragma once
#include "gpu_kernels/solver/eigenvectors.h"
#include "gpu_kernels/solver/mode_number.h"
#include <functional>

namespace milcgpu {

struct LanczosLimits {
    int count;                          // of vectors wanted
    double tolerance = 0;               // of |A v - l v| / hi for all vectors; 0: what deflation needs, l to a tenth
    Precision stored = Precision::half; // or any other
    uint64_t seed = 1;
    // Vectors that the basis begins with, in whole blocks: of fewer modes, or of similar links. Vectors that are not
    // good enough are filtered first. nullptr: none.
    const Eigenvectors *start = nullptr;
    size_t memory = SIZE_MAX; // bytes to use at most; if they do not suffice, a smaller basis, then fewer vectors
};

// The precision that A is applied in.
inline Precision precision_of_lanczos(Precision stored) {
    return stored == Precision::double_ ? stored : Precision::single;
}

// Vectors, the basis that they are computed from, and the bytes on the device: the basis, a block of its precision, 3
// blocks in the precision of A, and little more.
struct LanczosPlan {
    int count, basis;
    int looks_at; // number of vectors whose residuals are computed at once
    size_t bytes;
};
LanczosPlan lanczos_plan(const Device &, const Geometry &, const LanczosLimits &);

// Vectors of the basis so far, and at the end.
using LanczosProgress = std::function<void(int done, int of)>;

struct LanczosReport {
    int found = 0, left_out = 0; // wanted: found + left_out
    int basis = 0, degree = 0;   // m, d
    int restarts = 0;
    long long applications = 0;   // of A, to one vector
    double highest = 0, edge = 0; // hi, a
    double seconds = 0, flops = 0;
    std::string message; // why vectors are left out; empty if all were found
};

// full: in double. A: the same in precision_of_lanczos(limits.stored). Throws Error: nan_or_inf, no_memory,
// bad_argument.
std::unique_ptr<Eigenvectors> lowest_eigenvectors(Device &, const NormalOperator &full, const NormalOperator &A,
                                                  const LanczosLimits &, const LanczosProgress &, LanczosReport &);

// Work of lowest_eigenvectors for `count` vectors in half precision with enough memory, estimated from the density of
// eigenvalues. A: in single.
struct LanczosWork {
    double bytes, flops, host_flops; // of the device; of the host's dense matrix
};
LanczosWork lanczos_work(const ModeNumber &, const NormalOperator &A, int count);
LanczosWork work_of_application(const NormalOperator &A); // of A to one vector of a block

} // namespace milcgpu
