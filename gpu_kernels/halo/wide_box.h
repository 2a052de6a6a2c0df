// A box with a margin: its sites and the nearest layers of its neighbours in the directions that are cut, corners
// included. Kernels that walk along links treat it as a whole lattice; their results are right at sites whose walks
// stay inside it. So each step of a calculation works on less of the margin than the step before, and the last step on
// the box alone.
//
// A whole lattice is a box without margin.
#pragma once
#include "gpu_kernels/machine/backend/device_array.h"
#include "gpu_kernels/machine/geometry/sites_and_parts.h"

namespace milcgpu {

// The box within the wide one, for kernels that loop over all sites of the wide one.
struct InnerBox {
    int first[4], extent[4], stride[4]; // stride: lexicographic, in the box
    // True if s, of the wide box, is a site of the box or of one of the nearest layers ahead of it.
    MILCGPU_HD bool has(const Site &s, int layers_ahead = 0) const {
        bool in = true;
        MILCGPU_UNROLL
        for (int mu = 0; mu < 4; ++mu)
            in = in && s.x[mu] >= first[mu] && s.x[mu] < first[mu] + extent[mu] + layers_ahead;
        return in;
    }
    // Bit mu: s is outside the box in mu.
    MILCGPU_HD unsigned outside(const Site &s) const {
        unsigned bits = 0;
        MILCGPU_UNROLL
        for (int mu = 0; mu < 4; ++mu)
            bits |= static_cast<unsigned>(s.x[mu] < first[mu] || s.x[mu] >= first[mu] + extent[mu]) << mu;
        return bits;
    }
    // Its index in the box, within its parity.
    MILCGPU_HD int index(const Site &s) const {
        int lexicographic = 0;
        MILCGPU_UNROLL
        for (int mu = 0; mu < 4; ++mu)
            lexicographic += (s.x[mu] - first[mu]) * stride[mu];
        return lexicographic >> 1;
    }
};

// How much of a margin is filled.
struct MarginPart {
    std::array<int, 4> layers; // the nearest ones, in the directions that are cut
    bool corners;              // including sites outside the box in more than one direction
    int slice = -1;            // only this time slice of the box; -1: all
};

class WideBox {
  public:
    WideBox(const Geometry &whole) : box_(whole), wide_(whole) {} // not explicit: without a margin both are the same
    WideBox(Device &device, const Geometry &box, int margin);

    const Geometry &box() const { return box_; }
    const Geometry &wide() const { return wide_; } // of fields whose neighbours are read
    int margin() const { return margin_; }
    // Work on the sites of the box and of the nearest `layers` around it.
    SitesAndParts work(int parts_a_site, int layers = 0) const {
        if (layers >= margin_)
            return {wide_, parts_a_site};
        const Window &window = windows_[layers];
        return {window.geometry, parts_a_site, window.places.data()};
    }
    InnerBox inner() const;

  private:
    struct Window {
        Geometry geometry;
        DeviceArray<int> places; // of its sites among those of the wide box: even ones, then odd ones
    };
    Geometry box_, wide_;
    int margin_ = 0;
    std::vector<Window> windows_; // with 0, 1, ... layers
};

} // namespace milcgpu
