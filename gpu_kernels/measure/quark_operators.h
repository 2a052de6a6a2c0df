// The operations of measurements on quark fields, other than solving: covariant shifts, spin-taste operators, smearing,
// contractions.
//
// On a cut lattice, sums over neighbours read links and vectors on the wide box (WideBox of margin 2), with as much of
// its margin filled as they reach, and their results are on the box. On a whole lattice, a Geometry can be passed as
// WideBox. Coordinates, slices and origins are those of the whole lattice.
//
// Links have no staggered phases and no boundary sign: kernels multiply by signs that depend on coordinates, so that
// products of the links serve every origin. Vectors are on both parities, double or single; vectors and links are of
// one precision, in which sums over neighbours are computed.
//
//   operators:  Golterman, Smit, Nucl. Phys. B 245 (1984) 61; their signs and orders are MILC's (spin_taste.h)
//   smearing:   (1 + width^2 / (4 n) Laplacian)^n, Guesken et al., Phys. Lett. B 227 (1989) 266; staggered quarks hop
//               over two links
#pragma once
#include "gpu_kernels/algebra/momentum_sums.h"
#include "gpu_kernels/fields/spinor_block.h"
#include "gpu_kernels/fields/spinor_field.h"
#include "gpu_kernels/gauge/links/fermion_links.h"
#include "gpu_kernels/measure/spin_taste.h"
#include <functional>
#include <vector>

namespace milcgpu {

class Halo;

// 1 if the sum of the coordinates in the bits of mask is odd.
MILCGPU_HD int odd_coordinates(const Site &x, unsigned mask) {
    int sum = 0;
    MILCGPU_UNROLL
    for (int mu = 0; mu < 4; ++mu)
        sum += x.x[mu] * static_cast<int>(mask >> mu & 1u);
    return sum & 1;
}

// Multiplies links, on the box, of direction mu by sign[mu], and the t links of time slice t_sign by -1 (t_sign -1: no
// slice).
void turn_links(Device &, const Geometry &, const SignPattern (&sign)[4], int t_sign, const LinkField &links);

// Neighbours and their sum. With W_s the matrices in slot first_slot + s of `links`, which go from x to x + steps[s]:
//   out(x) = sign(x) { self in(x) + neighbours sum_s [W_s(x) in(x + steps[s]) + W_s(x - steps[s])^dag in(x - steps[s])]
//   }
// `ahead` and `behind` select the first and the second term of each s. All steps lead to the same parity. A term whose
// path crosses from time slice t_sign to the next one, or back, is negative.
using Step = std::array<int, 4>; // components from -2 to 2
struct Neighbours {
    const LinkField *links = nullptr;
    int first_slot = 0;
    std::vector<Step> steps; // 0 to 8; none: out is in with signs
    bool ahead = true, behind = true;
    double self = 0, neighbours = 1;
    SignPattern sign;
    int t_sign = -1; // -1: no term is negative
    int slice = -1;  // the only time slice that is computed, out keeps the others; -1: all
};
constexpr int neighbours_margin = 2; // layers, of the links

// The part of the margin of `in` that the sum reads.
MarginPart margin_of(const Neighbours &, const Geometry &box);

// Vectors with their surroundings, for a sum over neighbours: if the lattice is cut, in separate fields on the wide
// box. All ranks call together.
class AroundVectors {
  public:
    AroundVectors() = default;
    // Memory for as many vectors.
    AroundVectors(Device &, const WideBox &, const FullVectors &like);
    const FullVectors &vectors() const { return vectors_; }
    // The vectors with the margin that is needed. The vectors themselves if no margin is needed, or if the lattice is
    // whole (halo nullptr).
    AroundVectors(Device &, Halo *halo, const WideBox &, const FullVectors &on_box, const MarginPart &);

  private:
    SpinorField even_, odd_;
    FullVectors vectors_;
};

// All sources at once, with the links loaded once for up to three of them. out must not overlap in, except without
// steps: then `in` is on the box. out_is_wide: out is on the wide box. Throws Error(bad_argument).
void sum_neighbours(Device &, const WideBox &, const Neighbours &, const FullVectors &in, const FullVectors &out,
                    bool out_is_wide = false);

// numbers(x) = sum over sources of factor made(x)^dag other(x), where `made` is the result of sum_neighbours for `in`;
// or factor other^dag made (made_is_right). In double. add: adds to the content of numbers. numbers: V of them, for all
// even sites and then for all odd ones. `other` is on the box.
struct Dot {
    bool made_is_right = false, add = false;
    double factor = 1;
};
void dot_neighbours(Device &, const WideBox &, const Neighbours &, const FullVectors &in, const FullVectors &other,
                    const Dot &, Complex<double> *numbers);

// Vector k of `to`, on each parity, equals `from`, one vector, on the sites whose coordinates modulo `step` are the
// k-th of that parity, with t fastest, and is 0 elsewhere. step: even; step^4 / 2 vectors.
void thin_sources(Device &, const Geometry &box, const FullVectors &from, int step, const FullVectors &to);

// Bytes and flops a site, for one source. Each matrix is counted once, each vector once.
double neighbours_bytes(Precision, int steps, int sources); // links shared by the sources
constexpr double neighbours_flops(int steps, bool both_ways) { return steps * (both_ways ? 2 : 1) * 72.0 + 12; }

// Products of links, computed at the first request and kept. All ranks request together.
class LinkProducts {
  public:
    // u: 18 reals, scale 1. On a wide box, with all its margin filled; products are right on the box and one layer (two
    // links: two layers behind) around it. forget() drops what is kept. check: called with links, or products, before
    // they are used; it may throw.
    using Check = std::function<void(const LinkField &)>;
    LinkProducts(
        Device &device, const Geometry &geometry, const LinkField &u, Check check = [](const LinkField &) {})
        : device_(device), geometry_(geometry), u_(u), check_(std::move(check)) {}
    // For the directions in the bits of `directions` (two or more): the product along a path to a corner of their
    // hypercube, averaged over the orders of the steps. Slot s belongs to corner_steps(directions)[s].
    const LinkField &corners(unsigned directions);
    // U_k(x) U_k(x+k) in slot k = x, y, z.
    const LinkField &two_links();
    bool forget(); // true if it dropped anything

  private:
    LinkField allocate(int slots) const;
    Device &device_;
    const Geometry &geometry_;
    const LinkField &u_;
    Check check_;
    LinkField corners_[16], two_links_;
};
// One of each pair of opposite corners: the one whose first step is forward, 2^(n-1) of them.
std::vector<Step> corner_steps(unsigned directions);

void two_link_products(Device &, const Geometry &, const LinkField &u, const LinkField &to);
constexpr double two_link_flops = 3 * 198; // a site; 6 matrices read and written

// U and the sum that smears: out = a in + b sum_k [in(x + hop k) + in(x - hop k)], covariant, k = x, y, z, hop 1 or 2
// links, on `slice` or on all slices (-1).
Neighbours in_space(LinkProducts &, const LinkField &u, int hop, double a, double b, int slice);

// Applies x <- (1 + width^2 / (4 steps hop^2) Laplacian) x `steps` times. scratch: as x, if the lattice is whole.
// Returns true if the result is in `scratch` (x and scratch change places with each step). With one slice, both keep
// all the other slices if they had them before. halo: nullptr if the lattice is whole; otherwise all ranks call
// together.
struct Smearing {
    int hop;
    double width;
    int steps, slice;
};
bool smear(Device &, Halo *halo, const WideBox &, LinkProducts &, const LinkField &u, const Smearing &,
           const FullVectors &x, const FullVectors &scratch);

// ---- sums over a time slice

// Sums of f(x) d(x) over the sites of each time slice, for many momenta, separately for the parities of x, y and z: so
// a local operator is a combination of signs. Sums over one direction after the other; each is added in order by one
// thread, so the bits do not depend on the launch. On a cut box: the sums over its own sites. Bytes a site: 16 for up
// to four factors in x that differ, and little more.
class SliceSums {
  public:
    static constexpr int classes = 8; // (x & 1) + 2 (y & 1) + 4 (z & 1)
    SliceSums(Device &, const Geometry &, const std::vector<Momentum> &, const int *origin, int fields);
    // numbers: from dot_neighbours. They become field k.
    void sum(int field, const Complex<double> *numbers);
    // [((field n_momenta + momentum) classes + class) T + t], T slices of the box; waits.
    std::vector<Complex<double>> to_host() const { return sums_.to_host(); }

  private:
    Device &device_;
    CutLattice box_;
    int odd_x_; // the parity of x of the box's first site
    MomentumSums momenta_;
    DeviceArray<Complex<double>> along_x_, along_y_, sums_;
};

} // namespace milcgpu
