#include "examples/system.h"
#include <cmath>
#include <stdexcept>

namespace examples {

System asqtad_system(const reference::Lattice &lattice, reference::Gauge links) {
    System system{lattice, {}, {}, std::pow(reference::plaquette(lattice, links), 0.25), {}, {}};
    reference::apply_phases(lattice, links);
    const auto coefficients = reference::asqtad_coefficients(system.u0);
    system.fat = reference::fat_links(lattice, links, coefficients);
    system.lng = reference::long_links(lattice, links, coefficients);
    system.fat_milc = reference::links_to_milc<double>(lattice, system.fat);
    system.long_milc = reference::links_to_milc<double>(lattice, system.lng);
    return system;
}

Connection::Connection(const System &system, int backend, int verbosity) {
    const auto &n = system.lattice.n;
    milcgpu_layout layout{sizeof layout, {n[0], n[1], n[2], n[3]}, nullptr};
    milcgpu_options options{};
    options.struct_size = sizeof options;
    options.backend = backend;
    options.verbosity = verbosity;
    if (milcgpu_init(&layout, &options, &context_) != MILCGPU_OK)
        throw std::runtime_error(milcgpu_last_error());
    std::vector<double> fat = system.fat_milc, lng = system.long_milc;
    const milcgpu_field f = field_of(fat), l = field_of(lng);
    if (milcgpu_links_create(context_, &f, &l, &links_) != MILCGPU_OK) {
        milcgpu_finalize(context_);
        throw std::runtime_error(milcgpu_last_error());
    }
}

Connection::~Connection() {
    milcgpu_links_destroy(links_);
    milcgpu_finalize(context_);
}

milcgpu_field field_of(std::vector<double> &data) { return {data.data(), MILCGPU_DOUBLE, 0}; }

std::vector<int> backends_of(const std::string &choice) {
    milcgpu_layout layout{sizeof layout, {2, 2, 2, 2}, nullptr};
    milcgpu_options options{};
    options.struct_size = sizeof options;
    options.backend = MILCGPU_CUDA;
    milcgpu_context *context = nullptr;
    const bool gpu = milcgpu_init(&layout, &options, &context) == MILCGPU_OK;
    milcgpu_finalize(context);
    if (choice == "cuda" && !gpu)
        throw std::runtime_error(milcgpu_last_error());
    if (choice == "cuda" || (choice == "auto" && gpu))
        return {MILCGPU_CUDA};
    if (choice == "host" || choice == "auto" || !gpu)
        return {MILCGPU_HOST};
    if (choice == "all")
        return {MILCGPU_HOST, MILCGPU_CUDA};
    throw std::runtime_error("backend '" + choice + "': must be all, auto, host or cuda");
}

const char *backend_name(int backend) { return backend == MILCGPU_CUDA ? "cuda" : "host"; }

const std::vector<PrecisionPair> &precision_pairs() {
    static const std::vector<PrecisionPair> pairs = {{"double/double", MILCGPU_DOUBLE, MILCGPU_DOUBLE, 1e-13},
                                                     {"double/single", MILCGPU_DOUBLE, MILCGPU_SINGLE, 1e-13},
                                                     {"double/half", MILCGPU_DOUBLE, MILCGPU_HALF, 1e-13},
                                                     {"single/single", MILCGPU_SINGLE, MILCGPU_SINGLE, 1e-4},
                                                     {"single/half", MILCGPU_SINGLE, MILCGPU_HALF, 1e-4},
                                                     {"half/half", MILCGPU_HALF, MILCGPU_HALF, 2e-2}};
    return pairs;
}

} // namespace examples
