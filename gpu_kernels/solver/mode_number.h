// The mode number of A, how many eigenvalues lie below a value, from traces of Chebyshev polynomials of A with noise
// vectors (A. Weisse et al., Rev. Mod. Phys. 78 (2006) 275).
#pragma once
#include "gpu_kernels/solver/normal_operator.h"
#include <cmath>
#include <cstdint>
#include <vector>

namespace milcgpu {

class ModeNumber {
  public:
    // Resolves the lowest `modes` eigenvalues, or as many as most_applications of A to a vector allow.
    ModeNumber(Device &, const NormalOperator &A, int modes, uint64_t seed, double most_applications = INFINITY);
    bool ended_early() const { return ended_early_; } // because of most_applications
    double highest() const { return highest_; }       // above the largest eigenvalue
    double below(double value) const;                 // the mode number
    // The value with this mode number, but at least highest() times the square of the modes' fraction of all. Only a
    // lattice with zero modes reaches that bound; without it the value would be the resolution.
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
