// Walks along links. Step 2 mu goes forward along mu, step 2 mu + 1 back.
#pragma once
#include "gpu_kernels/fields/matrix_view.h"

namespace milcgpu {

constexpr int steps = 8;
MILCGPU_HD int opposite(int step) { return step ^ 1; }
MILCGPU_HD int axis(int step) { return step >> 1; }
MILCGPU_HD bool is_back(int step) { return (step & 1) != 0; }
MILCGPU_HD Site walk(const Lattice &lattice, const Site &x, int step) {
    return lattice.hop(x, axis(step), is_back(step) ? -1 : 1);
}

// The link along which a step from x of this parity goes, in the direction of the step.
template <Precision p>
MILCGPU_HD Matrix<typename LinkReal<p>::Real> link_along(const Lattice &lattice, const MatrixView<p> &u, const Site &x,
                                                         int parity, int step) {
    if (!is_back(step))
        return u.load(parity, axis(step), x.index());
    return adjoint(u.load(1 - parity, axis(step), walk(lattice, x, step).index()));
}

// The planes: xy, xz, yz, xt, yt, zt
constexpr int planes = 6;
struct Plane {
    int mu, nu; // mu < nu
};
MILCGPU_HD Plane plane(int k) { return k < 1 ? Plane{0, 1} : k < 3 ? Plane{k - 1, 2} : Plane{k - 3, 3}; }

} // namespace milcgpu
