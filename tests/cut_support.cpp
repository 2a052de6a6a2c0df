#include "tests/cut_support.h"

namespace tests {

std::vector<double> Fields::part(const std::vector<double> &field, const std::vector<size_t> &places, size_t reals) {
    std::vector<double> own;
    for (const size_t place : places)
        own.insert(own.end(), field.begin() + place * reals, field.begin() + (place + 1) * reals);
    return own;
}

void Fields::put(std::vector<double> &field, const std::vector<double> &own, const std::vector<size_t> &places,
                 size_t reals) {
    for (size_t k = 0; k < places.size(); ++k)
        std::copy_n(own.begin() + reals * k, reals, field.begin() + reals * places[k]);
}

std::vector<const char *> ways(milcgpu::Backend backend) {
    return backend == milcgpu::Backend::cuda ? std::vector<const char *>{"1", "host", "0"}
                                             : std::vector<const char *>{"1"};
}

std::string text_of(const Cut &cut) {
    return milcgpu::format("%d %d %d %d on %d x %d x %d x %d ranks, emulated %d, shift %d", cut.whole[0], cut.whole[1],
                           cut.whole[2], cut.whole[3], cut.grid[0], cut.grid[1], cut.grid[2], cut.grid[3], cut.emulate,
                           cut.shift);
}

void demand(milcgpu_status status) {
    if (status != MILCGPU_OK)
        throw milcgpu::Error(static_cast<milcgpu::Status>(status), milcgpu_last_error());
}

std::vector<Ending> on_cut(const Fields &fields, const Cut &cut, milcgpu::Backend backend,
                           const std::function<void(Here &, Ending &)> &work,
                           const std::function<void(Mailroom &)> &prepare, long *lost) {
    const Environment environment{{"MILCGPU_TEST", "share_gpu"}};
    Mailroom room(cut.ranks());
    if (prepare)
        prepare(room);
    const auto endings = on_threads(cut.ranks(), [&](int rank, Ending &ending) {
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
        try {
            demand(milcgpu_context_create(&layout, &options, &here.context));
            demand(milcgpu_links_create(here.context, &f, &l, &here.links));
        } catch (...) {
            room.end_all();
            throw;
        }
        work(here, ending);
    });
    if (lost != nullptr)
        *lost = room.lost();
    return endings;
}

Fields fields_on(const Extents &whole, bool rough) {
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

} // namespace tests
