// The gauge action by closed loops, each a list of steps in MILC's numbers: 0 to 3 along x, y, z, t and 7 - mu back
// along mu. Its force path by path, momenta, and the update of the links. All links are without phases.
#pragma once

#include <vector>

#include "tests/reference/lattice.h"
#include "tests/reference/su3.h"

namespace reference {

using Path = std::vector<int>;

struct Loops {
    double coefficient;
    std::vector<Path> paths; // each loop of a site once, in one of its two directions
};

std::vector<Path> plaquettes();      // 6
std::vector<Path> rectangles();      // 12, two links by one
std::vector<Path> bent_rectangles(); // 16, x y z -x -y -z and the like

// Product of the links along a path from `site`.
Matrix along_path(const Lattice &lattice, const Gauge &links, int site, const Path &path);

// sum over sites and loops of coefficient (3 - Re tr loop)
double gauge_action(const Lattice &lattice, const Gauge &links, const std::vector<Loops> &loops);

// The sum over all loops through a link, each run in the link's direction from that link on: coefficient times product.
// [4*site + dir]
Gauge loop_sums(const Lattice &lattice, const Gauge &links, const std::vector<Loops> &loops);

// (a - a^dagger) / 2 - trace / 3
Matrix traceless_antihermitian(const Matrix &a);

// TA(momenta - factor loop_sums)
Gauge add_gauge_force(const Lattice &lattice, const Gauge &links, const std::vector<Loops> &loops, double factor,
                      const Gauge &momenta);

// sum over links of |H|_F^2 / 2 - 4
double momentum_action(const Gauge &momenta);
// In MILC's order of sites, 10 reals each: the elements 01, 02, 12, the imaginary parts of the diagonal, and 0.
std::vector<double> momenta_to_milc(const Lattice &, const Gauge &momenta);

// exp(eps H) U by the series up to `order`.
Gauge update_links(const Gauge &links, const Gauge &momenta, double eps, int order);

// Traceless and anti-hermitian; each of the 8 generators has a Gaussian coefficient of variance 1 (the mean of |H|_F^2
// / 2 is 4).
Gauge random_momenta(const Lattice &lattice, unsigned long seed);

} // namespace reference
