// Sums over space with the factors of many momenta. A factor is a product of a factor in x, one in y and one in z. So
// the code sums over one direction after the other, and momenta that agree in the directions so far share these sums.
// Each thread adds its numbers in order, so results always have the same bits.
#pragma once
#include "gpu_kernels/fields/su3.h"
#include "gpu_kernels/machine/backend/device_array.h"
#include "gpu_kernels/machine/geometry/geometry.h"
#include <array>
#include <vector>

namespace milcgpu {

enum class MomentumParity { odd = 1, even = 2, both = 3 }; // MILC's numbers
// f(x) = product over x, y, z of cos th (even), i sin th (odd), e^(i th) (both), th = 2 pi p (x - origin) / extent.
struct Momentum {
    int p[3];
    MomentumParity parity[3];
};
// The factor of one direction of extent n, x from the origin.
Complex<double> momentum_factor(int p, MomentumParity parity, int x, int n);

class MomentumSums {
  public:
    // Sums over direction order[0] first, then order[1] and order[2]. The last sums have one output for each momentum.
    MomentumSums(Device &, const Geometry &, const std::vector<Momentum> &, const int *origin,
                 const std::array<int, 3> &order);
    struct Level { // the sums over one direction
        int direction = 0, outputs = 0;
        DeviceArray<Complex<double>> factors; // [output][coordinate]
        DeviceArray<int> from;                // the output of the previous level that each output sums
    };
    const Level &level(int k) const { return levels_[k]; }
    int momenta() const { return levels_[2].outputs; }

    // The sums of level k. numbers: [output of level k - 1][class][outer][coordinate in the direction of level
    // k][inner]. to: [output][parity of that coordinate][class][outer][inner]. Parities are those of global
    // coordinates; they are summed separately only if parities = 2. Flops: 8 a number and output.
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
