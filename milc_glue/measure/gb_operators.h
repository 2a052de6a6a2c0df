// Golterman-Bailey operators: which corners the three quarks have at the source and at the sink, with which weights
// (Golterman, Smit, Nucl. Phys. B 255 (1985) 328; Bailey, hep-lat/0611023; MILC's generic_ks/gb_baryon_snk.c).
#pragma once
#include <array>
#include <string>
#include <vector>

namespace milcgpu {

struct WeightedCorners {
    double weight;
    std::array<int, 3> corners;
};

// Throw Error(bad_argument).
int gb_operator_index(const std::string &label);
std::string gb_operator_label(int index);
void require_gb_operator(int index, const std::string &argument);

std::vector<WeightedCorners> gb_source(int index, bool has_current);
// flip: XORed to the corners: 0, or 7 for complemented ones. whole: symmetrised (S) and projected (M1/2).
std::vector<WeightedCorners> gb_sink(int index, int flip, bool whole);
bool is_mixed(int index);

// What a current does: moves one end by a displacement, with a sign for each corner of the cube.
struct GbCurrent {
    int displacement = 0, signs = 0; // corners
    double sign(int corner) const {
        const int both = signs & corner;
        return ((both ^ both >> 1 ^ both >> 2) & 1) != 0 ? -1 : 1;
    }
};
// For the number of SPIN-TASTE. Throws Error(bad_argument).
GbCurrent gb_current(int spin_taste);

} // namespace milcgpu
