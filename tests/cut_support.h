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

    static std::vector<double> part(const std::vector<double> &field, const std::vector<size_t> &places, size_t reals) {
        std::vector<double> own;
        for (const size_t place : places)
            own.insert(own.end(), field.begin() + place * reals, field.begin() + (place + 1) * reals);
        return own;
    }
    static void put(std::vector<double> &field, const std::vector<double> &own, const std::vector<size_t> &places,
                    size_t reals = 6) {
        for (size_t k = 0; k < places.size(); ++k)
            std::copy_n(own.begin() + reals * k, reals, field.begin() + reals * places[k]);
    }
};

inline bool same_bits(const std::vector<double> &a, const std::vector<double> &b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

// Values of MILCGPU_DIRECT that make a difference: GPUs store into each other's memory, or into that of their host, or
// all goes as messages.
inline std::vector<const char *> ways(milcgpu::Backend backend) {
    return backend == milcgpu::Backend::cuda ? std::vector<const char *>{"1", "host", "0"}
                                             : std::vector<const char *>{"1"};
}

inline std::string text_of(const Cut &cut) {
    return milcgpu::format("%d %d %d %d on %d x %d x %d x %d ranks, emulated %d, shift %d", cut.whole[0], cut.whole[1],
                           cut.whole[2], cut.whole[3], cut.grid[0], cut.grid[1], cut.grid[2], cut.grid[3], cut.emulate,
                           cut.shift);
}

// What one rank holds while `work` runs.
struct Here {
    milcgpu_context *context = nullptr;
    milcgpu_links *links = nullptr;
    Mailroom *room = nullptr;
    std::vector<double> fat, lng, source;
    std::vector<size_t> places;
    int rank() const { return context->ranks->rank(); }
};

inline void demand(milcgpu_status status) {
    if (status != MILCGPU_OK)
        throw milcgpu::Error(static_cast<milcgpu::Status>(status), milcgpu_last_error());
}

inline milcgpu_field field_of(const std::vector<double> &data) {
    return {const_cast<double *>(data.data()), MILCGPU_DOUBLE, 0};
}

// On all ranks of a cut lattice. prepare: what their messages go by.
inline std::vector<Ending> on_cut(const Fields &fields, const Cut &cut, milcgpu::Backend backend,
                                  const std::function<void(Here &, Ending &)> &work,
                                  const std::function<void(Mailroom &)> &prepare = {}) {
    const Environment environment{{"MILCGPU_TEST", "share_gpu"}};
    Mailroom room(cut.ranks());
    if (prepare)
        prepare(room);
    return on_threads(cut.ranks(), [&](int rank, Ending &ending) {
        const milcgpu_messages table = room.table(rank);
        milcgpu_layout layout = layout_on_grid(cut.whole, cut.grid, rank);
        layout.messages = cut.ranks() > 1 ? &table : nullptr;
        layout.emulate = cut.emulate;
        if (cut.shift != 0) {
            const bool first = layout.origin[3] == 0;
            layout.extent[3] += first ? cut.shift : -cut.shift;
            layout.origin[3] += first ? 0 : cut.shift;
        }
        auto options = sized<milcgpu_options>();
        options.backend = backend == milcgpu::Backend::cuda ? MILCGPU_CUDA : MILCGPU_HOST;
        options.device = -1; // as many GPUs as there are
        Here here;
        here.places = examples::places_of(layout);
        here.source = Fields::part(fields.source, here.places, 6);
        here.fat = Fields::part(fields.fat, here.places, 72);
        here.lng = Fields::part(fields.lng, here.places, 72);
        here.room = &room;
        const milcgpu_field f = field_of(here.fat), l = field_of(here.lng);
        struct Close {
            Here &here;
            ~Close() {
                milcgpu_links_destroy(here.links);
                milcgpu_context_destroy(here.context);
            }
        } close{here};
        demand(milcgpu_context_create(&layout, &options, &here.context));
        demand(milcgpu_links_create(here.context, &f, &l, &here.links));
        work(here, ending);
    });
}

inline Fields fields_on(const Extents &whole, bool rough) {
    const reference::Lattice lattice{whole};
    Fields fields{lattice, {}, {}, {}};
    // Rough: long links c * +-SU(3), which every reconstruction holds.
    const AsqtadLinks links =
        rough ? AsqtadLinks{random_links(lattice, 3), unitary_links(lattice, 4, 0.2, false)} : asqtad_links(lattice, 5);
    fields.fat = reference::links_to_milc<double>(lattice, links.fat);
    fields.lng = reference::links_to_milc<double>(lattice, links.lng);
    fields.source = reference::vector_to_milc<double>(lattice, random_fermion(lattice, 6));
    return fields;
}

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
