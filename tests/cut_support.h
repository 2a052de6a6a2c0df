// Contexts on lattices that are cut, over ranks as threads or emulated on one, and the parts of fields that ranks have.
#pragma once
#include "milc_glue/api/context.h"
#include "tests/plugin_support.h"
#include "tests/ranks_support.h"
#include <algorithm>
#include <cmath>
#include <functional>

namespace tests {

using Extents = std::array<int, 4>;

// A lattice and how it is divided.
struct Cut {
    Extents whole, grid;
    int emulate;
    int shift = 0; // of two boxes in t: so many sites more for the first, fewer for the second
    int ranks() const { return grid[0] * grid[1] * grid[2] * grid[3]; }
};

// Fields of the whole lattice as MILC has them, and the parts of them that a rank has: `reals` a site, at `places`.
struct Fields {
    reference::Lattice lattice;
    std::vector<double> fat, lng, source;

    static std::vector<double> part(const std::vector<double> &field, const std::vector<size_t> &places, size_t reals);
    static void put(std::vector<double> &field, const std::vector<double> &own, const std::vector<size_t> &places,
                    size_t reals = 6);
};

inline bool same_bits(const std::vector<double> &a, const std::vector<double> &b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

// Values of MILCGPU_DIRECT that make a difference: GPUs store into each other's memory, or into that of their host, or
// all goes as messages.
std::vector<const char *> ways(milcgpu::Backend backend);

std::string text_of(const Cut &cut);

// What one rank holds while `work` runs.
struct Here {
    milcgpu_context *context = nullptr;
    milcgpu_links *links = nullptr;
    Mailroom *room = nullptr;
    std::vector<double> fat, lng, source;
    std::vector<size_t> places;
    int rank() const { return context->ranks->rank(); }
};

void demand(milcgpu_status status);

inline milcgpu_field field_of(const std::vector<double> &data) {
    return {const_cast<double *>(data.data()), MILCGPU_DOUBLE, 0};
}

// On all ranks of a cut lattice. prepare: what their messages go by. lost: how many messages were.
std::vector<Ending> on_cut(const Fields &fields, const Cut &cut, milcgpu::Backend backend,
                           const std::function<void(Here &, Ending &)> &work,
                           const std::function<void(Mailroom &)> &prepare = {}, long *lost = nullptr);

Fields fields_on(const Extents &whole, bool rough);

// Two and three ranks in a row; odd extents; all directions.
inline const Cut over_ranks[] = {{{4, 4, 4, 12}, {1, 1, 1, 3}, 0},
                                 {{6, 10, 4, 4}, {2, 2, 1, 1}, 0},
                                 {{4, 4, 6, 8}, {1, 1, 2, 1}, 0},
                                 {{4, 4, 4, 8}, {1, 1, 1, 2}, 0, 1}};

// compare(what make finds on a cut lattice, and on a whole one), over ranks and emulated with every mask. Inputs are
// made for a lattice; where nothing was written there is -7.
template <class Inputs, class Make, class Compare> void on_all_cuts(const Make &make, const Compare &compare) {
    std::vector<std::vector<Cut>> groups(1); // of one lattice
    // Each direction alone, two pairs, all.
    for (const int mask : long_tests() ? std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
                                       : std::vector<int>{1, 2, 4, 8, 6, 9, 15})
        groups[0].push_back({{4, 6, 4, 4}, {1, 1, 1, 1}, mask});
    for (const Cut &cut : over_ranks)
        groups.push_back({cut});
    for (const milcgpu::Backend backend : backends())
        for (const std::vector<Cut> &cuts : groups) {
            const Inputs inputs(cuts[0].whole);
            bool well = false;
            const std::vector<double> expected = make(inputs, {cuts[0].whole, {1, 1, 1, 1}, 0}, backend, well);
            REQUIRE(well);
            CHECK(std::count(expected.begin(), expected.end(), -7.0) == 0);
            for (const Cut &cut : cuts)
                for (const char *direct : ways(backend)) {
                    const Environment way{{"MILCGPU_DIRECT", direct}};
                    CAPTURE(text_of(cut), name(backend), direct);
                    compare(make(inputs, cut, backend, well), expected, backend);
                    CHECK(well);
                }
        }
}

} // namespace tests
