// A periodic four-dimensional lattice with lexicographic sites, x fastest. The reference counts sites in no other way;
// milc_order() maps to MILC's order (even sites first) for comparisons.
#pragma once

#include <array>
#include <vector>

namespace reference {

struct Lattice {
    std::array<int, 4> n; // extents in x, y, z, t

    int volume() const { return n[0] * n[1] * n[2] * n[3]; }

    // x + nx*(y + ny*(z + nz*t)); coordinates of any sign are reduced modulo the extents.
    int site(std::array<int, 4> x) const {
        int index = 0;
        for (int dir = 3; dir >= 0; dir--)
            index = index * n[dir] + ((x[dir] % n[dir]) + n[dir]) % n[dir];
        return index;
    }

    std::array<int, 4> coordinates(int site) const {
        std::array<int, 4> x{};
        for (int dir = 0; dir < 4; dir++) {
            x[dir] = site % n[dir];
            site /= n[dir];
        }
        return x;
    }

    // 0 for an even site, 1 for an odd one.
    int parity(int site) const {
        const auto x = coordinates(site);
        return (x[0] + x[1] + x[2] + x[3]) % 2;
    }

    // The site `hops` steps along `dir`; negative: backwards. x: the coordinate of `site`.
    int neighbour(int site, int dir, int hops) const { return neighbour(site, dir, hops, site / step(dir) % n[dir]); }
    int neighbour(int site, int dir, int hops, int x) const {
        int there = x + hops; // comparisons, because divisions would take most of the time of an operator
        while (there < 0)
            there += n[dir];
        while (there >= n[dir])
            there -= n[dir];
        return site + (there - x) * step(dir);
    }

  private:
    int step(int dir) const {
        int sites = 1;
        for (int d = 0; d < dir; d++)
            sites *= n[d];
        return sites;
    }
};

// map[k] is the lexicographic site of MILC's k-th site: all even sites, then all odd ones, each in lexicographic order.
inline std::vector<int> milc_order(const Lattice &lattice) {
    std::vector<int> map;
    map.reserve(lattice.volume());
    for (int parity = 0; parity < 2; parity++)
        for (int site = 0; site < lattice.volume(); site++)
            if (lattice.parity(site) == parity)
                map.push_back(site);
    return map;
}

} // namespace reference
