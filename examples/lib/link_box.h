// A gauge field that ranks share: the links of one rank's box, without phases. In cut directions one layer of the
// neighbours' sites surrounds the box, including corners. If no direction is cut, the box is the whole lattice.
#pragma once
#include "examples/lib/boxes.h"
#include "tests/reference/gauge.h"
#include <functional>

namespace examples {

class LinkBox {
  public:
    // Sends links to one rank and receives as many from another. All ranks must call it at the same time.
    using Swap = std::function<void(const reference::Gauge &out, reference::Gauge &in, int to, int from)>;
    // Unit links. Throws std::invalid_argument if an extent of the whole lattice is odd.
    explicit LinkBox(const milcgpu_layout &box, Swap swap = {});

    // The box's own links in MILC's order, 72 reals per site. All ranks must call load().
    void load(const std::vector<double> &own);
    std::vector<double> own() const;
    void fill(int dir); // fills the layer with links in one direction; all ranks must call it

    // Sums of Re tr U_P / 3 over the plaquettes of the box's own sites: in space, and in space and time.
    std::array<double, 2> plaquette_sums() const;

    reference::Gauge links;                    // [4 * site + dir], sites with the layer, x fastest
    std::array<std::vector<int>, 2> own_sites; // by parity in the whole lattice
    std::vector<std::size_t> number;           // of each site in the whole lattice, x fastest
    std::vector<int> ahead, behind;            // [4 * site + dir]

  private:
    struct Face { // sites to send to a rank, and sites of the layer to receive from another rank
        std::vector<std::size_t> out, in;
        int to, from;
    };
    // Direction by direction: a face includes the layers of earlier directions, which carry the corners.
    std::vector<Face> faces_;
    Swap swap_;
};

} // namespace examples
