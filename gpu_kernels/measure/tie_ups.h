// Tie-ups of three staggered quarks, of which baryon correlators consist. A quark is a propagator Q from one source: a
// vector for each source colour c, with sink colours a. A corner k of the unit cube is a number x + 2 y + 4 z.
//
//   T_k Q(x)       mean of Q over the 2^|k| sites x +- each direction of k; one-sided: Q(x + the directions of k)
//   E(p, q, r)     eps_{c0 c1 c2} eps_{a0 a1 a2} p[c0][a0] q[c1][a1] r[c2][a2]
//   tie-up[t]      sum of f(x) E(T_k0 Q0, T_k1 Q1, T_k2 Q2)(x) over the sites of slice t whose x, y, z have given
//                  parities (a corner of the lattice)
//
//   operators: Golterman, Smit, Nucl. Phys. B 255 (1985) 328; Bailey, hep-lat/0611023
//
// There are two passes. The first stores T_k Q for all k at the sites of the corner, in [site][quark][c][a][k]: threads
// with neighbouring k store whole sectors and read whole lines. The second forms E, with one thread for a tie-up and 64
// sites. Tie-ups are taken in tiles whose threads read the same fields. Sums are added in a fixed order. E and T have
// the precision of the quarks, sums of E are in double.
//
// The first pass stores T for a part of the time slices at a time, so that its fields fit. Bytes for each site of the
// corner and quark, with p bytes a real: 27 x 18 p read (mostly from a cache), 144 p written. Flops: 360 for each site
// and tie-up.
#pragma once
#include "gpu_kernels/algebra/momentum_sums.h"
#include "gpu_kernels/fields/spinor_block.h"
#include "gpu_kernels/fields/su3.h"
#include "gpu_kernels/halo/wide_box.h"
#include <optional>
#include <vector>

namespace milcgpu {

class Halo;

struct TiedQuark {
    FullVectors colour[3]; // a vector for each source colour, on the box; an empty vector counts as 0
};

struct TieUp {
    int quark[3], shift[3]; // places in the list of quarks; corners
};

struct SliceCorner {
    int corner = 0; // of global coordinates
    bool one_sided = false;
    std::optional<Momentum> momentum;
    int origin[4] = {};
};

constexpr int cube_corners = 8;
constexpr int numbers_a_quark = 9 * cube_corners; // of a site: [c][a][k]

// Sums over the sites of the box, which wait for the device: [tie-up][t of the box]. halo: nullptr if the lattice is
// whole; otherwise all ranks call together, and box has a margin of one layer or more.
std::vector<Complex<double>> tie_up(Device &, Halo *, const WideBox &box, const std::vector<TiedQuark> &,
                                    const SliceCorner &, const std::vector<TieUp> &);
// The bytes of the arrays on the device that are there at once in tie_up(), with a momentum and with the WideBox,
// beside the quarks. Messages are not counted.
std::vector<size_t> tie_up_arrays(const Geometry &box, bool is_cut, Precision, int quarks, int tie_ups);
// Sums of T_k Q itself: [((quark 3 + c) 3 + a) 8 + k][t of the box].
std::vector<Complex<double>> sum_quarks(Device &, Halo *, const WideBox &box, const std::vector<TiedQuark> &,
                                        const SliceCorner &);

// E, with rows of source colours: by nine minors of p and q.
template <class Real>
MILCGPU_HD Complex<Real> tie(const Matrix<Real> &p, const Matrix<Real> &q, const Matrix<Real> &r) {
    Complex<Real> sum = {};
    MILCGPU_UNROLL
    for (int c = 0; c < 3; ++c) {
        const int c1 = (c + 1) % 3, c2 = (c + 2) % 3;
        MILCGPU_UNROLL
        for (int a = 0; a < 3; ++a) {
            const int a1 = (a + 1) % 3, a2 = (a + 2) % 3;
            Complex<Real> minor = p.e[c][a] * q.e[c1][a1];
            minor = minus(minor, p.e[c][a1], q.e[c1][a]);
            minor = minus(minor, p.e[c1][a], q.e[c][a1]);
            minor = plus(minor, p.e[c1][a1], q.e[c][a]);
            sum = plus(sum, minor, r.e[c2][a2]);
        }
    }
    return sum;
}

} // namespace milcgpu
