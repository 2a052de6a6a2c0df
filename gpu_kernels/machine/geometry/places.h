// Sites and links in messages, by their coordinates on the whole lattice.
#pragma once
#include "gpu_kernels/machine/error.h"
#include "gpu_kernels/machine/geometry/geometry.h"
#include <string>

namespace milcgpu {

// "x y z t = 0 0 0 1", of site i of a parity
inline std::string place_of_site(const Geometry &geometry, int parity, long long i) {
    const Site site = geometry.lattice().site(parity, static_cast<int>(i));
    int x[4];
    for (int mu = 0; mu < 4; ++mu) {
        const int whole = geometry.global_extents()[mu];
        x[mu] = (site.x[mu] + geometry.origin()[mu] + whole) % whole; // a box with a margin may begin below 0
    }
    return format("x y z t = %d %d %d %d", x[0], x[1], x[2], x[3]);
}

// The same for site k in device order: even sites, then odd ones.
inline std::string place_of_site(const Geometry &geometry, long long k) {
    const int even = geometry.sites(0);
    return k < even ? place_of_site(geometry, 0, k) : place_of_site(geometry, 1, k - even);
}

// "x y z t = 0 0 0 1, direction Z", of link 4 k + mu
inline std::string place_of_link(const Geometry &geometry, long long link) {
    return place_of_site(geometry, link / 4) + format(", direction %c", "XYZT"[link % 4]);
}

} // namespace milcgpu
