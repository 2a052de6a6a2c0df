#include "gpu_kernels/machine/comm/boxes.h"

namespace milcgpu {

namespace {

[[noreturn]] void refuse(const std::string &what) { throw Error(Status::bad_argument, what); }

std::string text_of(const std::array<int, 4> &extent) {
    return format("%d x %d x %d x %d", extent[0], extent[1], extent[2], extent[3]);
}

void check_extent(const Box &box, int mu) {
    const char name = "XYZT"[mu];
    const int extent = box.extent[mu], whole = box.whole[mu], origin = box.origin[mu];
    if (whole < 2 || whole % 2 != 0)
        refuse(format("layout.%s[%c] is %d: extents of the whole lattice must be even and at least 2",
                      box.cut(mu) ? "whole" : "extent", name, whole));
    if (extent < 1 || extent > whole)
        refuse(format("layout.extent[%c] is %d: must be at least 1, and at most layout.whole[%c], %d", name, extent,
                      name, whole));
    if (origin < 0 || origin > whole - extent)
        refuse(format("layout.origin[%c] is %d: a box of %d sites must lie inside the whole lattice of %d", name,
                      origin, extent, whole));
    if (box.has_halo(mu) && extent < halo_depth)
        refuse(format("layout.extent[%c] is %d and %s: if the lattice is cut, a box needs at least %d sites, the depth "
                      "of the halo. %s",
                      name, extent, box.cut(mu) ? format("cut from %d", whole).c_str() : "emulated as cut", halo_depth,
                      box.cut(mu) ? "Cut another direction, or use fewer ranks" : "Leave that direction out"));
    if (box.emulates(mu) && box.cut(mu))
        refuse(format("layout.emulate (or MILCGPU_TEST=cut=...) names %c, which is cut: it is only for directions that "
                      "one rank has whole",
                      name));
}

} // namespace

std::string Box::text() const {
    return text_of(extent) + format(" at %d %d %d %d", origin[0], origin[1], origin[2], origin[3]);
}

void check_box(const Box &box, int rank, int size) {
    for (int mu = 0; mu < 4; ++mu)
        check_extent(box, mu);
    for (int mu = 0; mu < 4; ++mu)
        for (int side = 0; side < 2 && box.cut(mu); ++side) {
            const int neighbour = box.neighbour[mu][side];
            if (size == 1)
                refuse(format("layout.extent[%c] is %d, cut from %d, but there is one rank: layout.messages is NULL or "
                              "has size 1",
                              "XYZT"[mu], box.extent[mu], box.whole[mu]));
            if (neighbour < 0 || neighbour >= size || neighbour == rank)
                refuse(format("layout.neighbour[%c][%d] is %d: must be another of the %d ranks", "XYZT"[mu], side,
                              neighbour, size));
        }
    constexpr double most_sites = 5e8; // the largest number that an index can count
    if (box.sites() > most_sites)
        refuse(format("%.0f sites on one device: at most %.0f can be indexed", box.sites(), most_sites));
}

namespace {

// True if the box `ahead` begins where `box` ends in mu and has the same range in all other directions.
bool is_ahead(const Box &ahead, const Box &box, int mu) {
    for (int nu = 0; nu < 4; ++nu)
        if (nu != mu && (ahead.origin[nu] != box.origin[nu] || ahead.extent[nu] != box.extent[nu]))
            return false;
    return ahead.origin[mu] == (box.origin[mu] + box.extent[mu]) % box.whole[mu];
}

bool overlap(const Box &a, const Box &b) {
    for (int mu = 0; mu < 4; ++mu)
        if (a.origin[mu] >= b.origin[mu] + b.extent[mu] || b.origin[mu] >= a.origin[mu] + a.extent[mu])
            return false;
    return true;
}

} // namespace

void check_boxes(const std::vector<Box> &boxes) {
    const int size = static_cast<int>(boxes.size());
    double sites = 0;
    for (int rank = 0; rank < size; ++rank) {
        const Box &box = boxes[rank];
        sites += box.sites();
        const auto differs = [&](const char *what, const std::string &here, const std::string &there) {
            refuse(format("%s on rank %d of %d is %s, and %s on rank 0: all ranks must have the same", what, rank, size,
                          here.c_str(), there.c_str()));
        };
        if (box.whole != boxes[0].whole)
            differs("the whole lattice", text_of(box.whole), text_of(boxes[0].whole));
        if (box.emulated != boxes[0].emulated)
            differs("layout.emulate (or MILCGPU_TEST=cut=...)", std::to_string(box.emulated),
                    std::to_string(boxes[0].emulated));
        for (int other = 0; other < rank; ++other)
            if (overlap(box, boxes[other]))
                refuse(format("the box of rank %d of %d, %s, overlaps the box of rank %d, %s: boxes must not overlap",
                              rank, size, box.text().c_str(), other, boxes[other].text().c_str()));
    }
    if (sites != boxes[0].whole_sites())
        refuse(format("the boxes of %d ranks have %.0f sites in total, the whole lattice of %s has %.0f: rank 0 has %s",
                      size, sites, text_of(boxes[0].whole).c_str(), boxes[0].whole_sites(), boxes[0].text().c_str()));
    for (int rank = 0; rank < size; ++rank)
        for (int mu = 0; mu < 4; ++mu)
            for (int side = 0; side < 2 && boxes[rank].cut(mu); ++side) {
                const int other = boxes[rank].neighbour[mu][side];
                const Box &behind = boxes[side == 0 ? other : rank], &ahead = boxes[side == 0 ? rank : other];
                if (!is_ahead(ahead, behind, mu))
                    refuse(format("layout.neighbour[%c][%d] of rank %d of %d is rank %d, whose box (%s) is not %s that "
                                  "of rank %d (%s) in %c, face to face",
                                  "XYZT"[mu], side, rank, size, other, boxes[other].text().c_str(),
                                  side == 0 ? "behind" : "ahead of", rank, boxes[rank].text().c_str(), "XYZT"[mu]));
            }
}

} // namespace milcgpu
