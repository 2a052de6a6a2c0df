// What measurements do to quark fields besides solving: covariant shifts, spin-taste operators, smearing, contractions.
//
// On a lattice that is cut, sums over neighbours read links and vectors on the wide box (WideBox of margin 2), with as
// much of its margin filled as they reach, and what they make lies on the box. On a lattice that is whole, a Geometry
// does for the WideBox. Coordinates, slices and origins are those of the whole lattice.
//
// Links are without staggered phases and without boundary sign: kernels multiply signs in by coordinates, so that what
// is made of the links serves every origin. Vectors are on both parities, double or single; vectors and links are of
// one precision, in which sums over neighbours are formed.
//
//   operators:  Golterman, Smit, Nucl. Phys. B 245 (1984) 61; their signs and orders are MILC's (spin_taste.h)
//   smearing:   (1 + width^2 / (4 n) Laplacian)^n, Guesken et al., Phys. Lett. B 227 (1989) 266; staggered quarks hop
//               over two links
#pragma once
#include "gpu_kernels/algebra/momentum_sums.h"
#include "gpu_kernels/gauge/links/fermion_links.h"
#include "gpu_kernels/measure/spin_taste.h"
#include <functional>
#include <vector>

namespace milcgpu {

class Halo;

// Whether the coordinates in the bits of mask add up to an odd number.
MILCGPU_HD int odd_coordinates(const Site &x, unsigned mask) {
    int sum = 0;
    MILCGPU_UNROLL
    for (int mu = 0; mu < 4; ++mu)
        sum += x.x[mu] * static_cast<int>(mask >> mu & 1u);
    return sum & 1;
}

// links, on the box, of direction mu times sign[mu], and times -1 on the t links of time slice t_sign (-1: of none).
void turn_links(Device &, const Geometry &, const SignPattern (&sign)[4], int t_sign, const LinkField &links);

// Neighbours and how they are added. With W_s the matrices in slot first_slot + s of `links`, which go from x to
// x + steps[s]:
//   out(x) = sign(x) { self in(x) + neighbours sum_s [W_s(x) in(x + steps[s]) + W_s(x - steps[s])^dag in(x - steps[s])]
//   }
// `ahead` and `behind` are the first and the second term of each s. All steps lie on the same parity. A term whose path
// crosses from time slice t_sign to the next one, or back, is negative.
using Step = std::array<int, 4>; // components from -2 to 2
struct Neighbours {
    const LinkField *links = nullptr;
    int first_slot = 0;
    std::vector<Step> steps; // 0 to 8; none: out is in with signs
    bool ahead = true, behind = true;
    double self = 0, neighbours = 1;
    SignPattern sign;
    int t_sign = -1; // -1: no term is
    int slice = -1;  // the one time slice that is worked on, out keeps the others; -1: all
};
constexpr int neighbours_margin = 2; // layers, of the links

// What the sum reads of the margin of `in`.
MarginPart margin_of(const Neighbours &, const Geometry &box);

// Vectors with what lies around the box, for a sum over neighbours: where the lattice is cut, in fields of their own on
// the wide box. All ranks call together.
class AroundVectors {
  public:
    AroundVectors() = default;
    // Room for as many vectors.
    AroundVectors(Device &, const WideBox &, const FullVectors &like);
    const FullVectors &vectors() const { return vectors_; }
    // The vectors and the margin that is wanted. Themselves where no margin is, or the lattice is whole (halo nullptr).
    AroundVectors(Device &, Halo *halo, const WideBox &, const FullVectors &on_box, const MarginPart &);

  private:
    SpinorField even_, odd_;
    FullVectors vectors_;
};

// All sources at once, the links loaded once for up to three of them. out must not overlap in, but where there are no
// steps: then `in` lies on the box. out_is_wide: it lies on the wide box. Throws Error(bad_argument).
void sum_neighbours(Device &, const WideBox &, const Neighbours &, const FullVectors &in, const FullVectors &out,
                    bool out_is_wide = false);

// numbers(x) = sum over sources of factor made(x)^dag other(x), where `made` is what sum_neighbours makes of `in`; or
// factor other^dag made (made_is_right). In double. add: to what numbers holds. numbers: V of them, of all even sites
// and then of all odd ones. `other` lies on the box.
struct Dot {
    bool made_is_right = false, add = false;
    double factor = 1;
};
void dot_neighbours(Device &, const WideBox &, const Neighbours &, const FullVectors &in, const FullVectors &other,
                    const Dot &, Complex<double> *numbers);

// Vector k of `to`, on each parity, has what `from`, one vector, has on the sites whose coordinates modulo `step` are
// the k-th of that parity, t counted fastest, and 0 elsewhere. step: even; step^4 / 2 vectors are made.
void thin_sources(Device &, const Geometry &box, const FullVectors &from, int step, const FullVectors &to);

// Bytes and flops a site, of a source. Each matrix is counted once, each vector once.
double neighbours_bytes(Precision, int steps, int sources); // links shared by the sources
constexpr double neighbours_flops(int steps, bool both_ways) { return steps * (both_ways ? 2 : 1) * 72.0 + 12; }

// Products of links, made when first asked for and kept. All ranks ask together.
class LinkProducts {
  public:
    // u: 18 reals, scale 1. Of a wide box: with all its margin filled; products are right on the box and one layer (two
    // links: two layers behind) around it. What is kept is forgotten by forget().
    // look: called with links, or products, before something is made of them; it may throw.
    using Look = std::function<void(const LinkField &)>;
    LinkProducts(
        Device &device, const Geometry &geometry, const LinkField &u, Look look = [](const LinkField &) {})
        : device_(device), geometry_(geometry), u_(u), look_(std::move(look)) {}
    // For the directions in the bits of `directions` (two or more): the product along a path to a corner of their
    // hypercube, averaged over the orders of the steps. Slot s belongs to corner_steps(directions)[s].
    const LinkField &corners(unsigned directions);
    // U_k(x) U_k(x+k) in slot k = x, y, z.
    const LinkField &two_links();
    bool forget(); // whether there was anything

  private:
    LinkField allocate(int slots) const;
    Device &device_;
    const Geometry &geometry_;
    const LinkField &u_;
    Look look_;
    LinkField corners_[16], two_links_;
};
// One of each pair of opposite corners, the one whose first step is forward: 2^(n-1) of them.
std::vector<Step> corner_steps(unsigned directions);

void two_link_products(Device &, const Geometry &, const LinkField &u, const LinkField &to);
constexpr double two_link_flops = 3 * 198; // a site; 6 matrices read and written

// U and what it takes to go from links of `hop` (1 or 2) of them to a neighbour in space: for smearing.
// out = a in + b sum_k [in(x + hop k) + in(x - hop k)], covariant, k = x, y, z, on `slice` or all (-1).
Neighbours in_space(LinkProducts &, const LinkField &u, int hop, double a, double b, int slice);

// steps times x <- (1 + width^2 / (4 steps hop^2) Laplacian) x. scratch: as x, where the lattice is whole. Returns
// whether the result lies in `room` (x and room change places with each step). On one slice both have all the other
// slices afterwards if they had them before. halo: nullptr where the lattice is whole; else all ranks call together.
bool smear(Device &, Halo *halo, const WideBox &, LinkProducts &, const LinkField &u, int hop, double width, int steps,
           int slice, const FullVectors &x, const FullVectors &scratch);

// ---- sums over a time slice

// Sums of f(x) d(x) over the sites of each time slice, for many momenta, kept apart by the parities of x, y and z: then
// a local operator is a combination of signs. One direction after the other, each by threads that add in order: the
// bits do not depend on the launch. Of a box that is cut: the sums over its own sites. Bytes a site: 16 for up to four
// factors in x that differ, little else.
class SliceSums {
  public:
    static constexpr int classes = 8; // (x & 1) + 2 (y & 1) + 4 (z & 1)
    SliceSums(Device &, const Geometry &, const std::vector<Momentum> &, const int *origin, int fields);
    // numbers: of dot_neighbours. They become field k.
    void sum(int field, const Complex<double> *numbers);
    // [((field n_momenta + momentum) classes + class) T + t], T slices of the box; it waits.
    std::vector<Complex<double>> to_host() const { return sums_.to_host(); }

  private:
    Device &device_;
    CutLattice box_;
    int odd_x_; // the parity of x of the box's first site
    MomentumSums momenta_;
    DeviceArray<Complex<double>> along_x_, along_y_, sums_;
};

} // namespace milcgpu
