// How many eigenvalues of A lie below a number, by traces of Chebyshev polynomials of A with noise vectors (A. Weisse
// et al., Rev. Mod. Phys. 78 (2006) 275).
#pragma once
#include "gpu_kernels/solver/normal_operator.h"
#include <cmath>
#include <cstdint>
#include <vector>

namespace milcgpu {

// How many eigenvalues of A lie below each of some numbers. A's largest one is below `highest`.
class ModeNumber {
  public:
    // Resolves the lowest `modes`, or as many as that many applications of A to a vector allow.
    ModeNumber(Device &, const NormalOperator &A, int modes, uint64_t seed, double most_applications = INFINITY);
    bool ended_early() const { return ended_early_; } // for want of applications
    double highest() const { return highest_; }
    double below(double value) const;
    // Below this are so many. At least highest() times the square of their part of all, which is less by far on any
    // lattice but those with zero modes: their value would be the resolution alone.
    double value_of(double modes) const;
    long long applications() const { return applications_; }

  private:
    double below_angle(double phi) const;
    double highest_ = 0, dimension_ = 0;
    std::vector<double> moments_;
    long long applications_ = 0;
    bool ended_early_ = false;
};

} // namespace milcgpu
