// A gauge field that ranks share: the links of one rank's box, without phases, and around them, in the directions that
// are cut, one layer of the neighbours' sites, corners too. Uncut, the box is the whole lattice.
#pragma once
#include "examples/boxes.h"
#include "tests/reference/gauge.h"
#include <functional>

namespace examples {

class LinkBox {
  public:
    // Links go to one rank, and as many come from another; called by all ranks at once.
    using Swap = std::function<void(const reference::Gauge &out, reference::Gauge &in, int to, int from)>;
    // Unit links. Throws std::invalid_argument where an extent of the whole lattice is odd.
    explicit LinkBox(const milcgpu_layout &box, Swap swap = {});

    // The box's own links in MILC's order, 72 reals a site. load() is a call of all ranks.
    void load(const std::vector<double> &own);
    std::vector<double> own() const;
    void fill(int dir); // the layer, of the links in one direction; a call of all ranks

    // Of Re tr U_P / 3, over the planes of the box's own sites: in space, and in space and time.
    std::array<double, 2> plaquette_sums() const;

    reference::Gauge links;                    // [4 * site + dir], sites with the layer, x fastest
    std::array<std::vector<int>, 2> own_sites; // by their parity in the whole lattice
    std::vector<std::size_t> number;           // of each site in the whole lattice, x fastest
    std::vector<int> ahead, behind;            // [4 * site + dir]

  private:
    struct Face { // of sites that go to a rank, and of the layer that comes from another
        std::vector<std::size_t> out, in;
        int to, from;
    };
    // Direction by direction: the layers of those before travel, too, which are the corners.
    std::vector<Face> faces_;
    Swap swap_;
};

} // namespace examples
