// Sums over space with the factors of many momenta. A factor is a product of one in x, one in y and one in z, so the
// sums go one direction after the other, each for the factors that differ. Threads add in order: no tree, the same
// bits always.
#pragma once
#include "gpu_kernels/backend/device.h"
#include "gpu_kernels/geometry/geometry.h"
#include "gpu_kernels/su3/su3.h"
#include <array>
#include <vector>

namespace milcgpu {

enum class MomentumParity { odd = 1, even = 2, both = 3 }; // MILC's numbers
// f(x) = product over x, y, z of cos th (even), i sin th (odd), e^(i th) (both), th = 2 pi p (x - origin) / extent.
struct Momentum {
    int p[3];
    MomentumParity parity[3];
};

class MomentumSums {
  public:
    // Sums go along order[0] first, then along order[1] and order[2]; the outputs of the last one are the momenta.
    MomentumSums(Device &, const Geometry &, const std::vector<Momentum> &, const int *origin,
                 const std::array<int, 3> &order);
    struct Level { // sums along a direction
        int direction = 0, outputs = 0;
        DeviceArray<Complex<double>> factors; // [output][coordinate]
        DeviceArray<int> from;                // which output of the level before
    };
    const Level &level(int k) const { return levels_[k]; }
    int momenta() const { return levels_[2].outputs; }

    // numbers: [level k - 1's output][class][outer][coordinate along level k's direction][inner]. to: [output][parity
    // of that coordinate][class][outer][inner]; the parities of global coordinates are kept apart only where parities
    // = 2. Flops: 8 a number and output.
    struct Shape {
        int classes, outer, inner, parities;
    };
    void add(int k, const Shape &, const Complex<double> *numbers, Complex<double> *to) const;

  private:
    Device &device_;
    int extent_[3], odd_[3]; // of the box; the parity of its first site's x, y and z
    Level levels_[3];
};

} // namespace milcgpu
