#include "examples/system.h"
#include "examples/heatbath.h"
#include "examples/lattice_file.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>

namespace examples {

Action action_of(const std::string &name) {
    if (name != "asqtad" && name != "hisq")
        throw std::runtime_error("action '" + name + "': must be asqtad or hisq");
    return name == "hisq" ? Action::hisq : Action::asqtad;
}

System make_system(const reference::Lattice &lattice, reference::Gauge gauge, Action action, bool with_reference) {
    System system{lattice, action, std::pow(reference::plaquette(lattice, gauge), 0.25), std::move(gauge), {}, {}};
    reference::apply_phases(lattice, system.gauge);
    if (!with_reference)
        return system;
    if (action == Action::hisq) {
        reference::HisqLinks links = reference::hisq_links(lattice, system.gauge, 0);
        system.fat = std::move(links.fat);
        system.lng = std::move(links.lng);
    } else {
        const auto coefficients = reference::asqtad_coefficients(system.u0);
        system.fat = reference::fat_links(lattice, system.gauge, coefficients);
        system.lng = reference::long_links(lattice, system.gauge, coefficients);
    }
    return system;
}

milcgpu_fatlink_spec link_spec(const System &system) {
    milcgpu_fatlink_spec spec;
    if (system.action == Action::hisq)
        milcgpu_hisq_spec(&spec);
    else
        milcgpu_asqtad_spec(system.u0, &spec);
    return spec;
}

reference::Gauge read_or_make_gauge(const std::string &file, reference::Lattice &lattice, double beta,
                                    unsigned long seed, int sweeps) {
    if (file.empty()) {
        std::printf("making a gauge field, beta %g, %d sweeps\n", beta, sweeps);
        return thermalized(lattice, beta, seed, sweeps, 4);
    }
    GaugeFile read = read_gauge(file);
    lattice = read.lattice;
    for (auto &u : read.links)
        u = reference::reunitarize(u);
    std::printf("gauge field %s\n", file.c_str());
    return std::move(read.links);
}

Connection::Connection(const System &system, int backend, int verbosity) {
    const milcgpu_layout layout = layout_of(system.lattice);
    milcgpu_options options{};
    options.struct_size = sizeof options;
    options.backend = backend;
    options.verbosity = verbosity;
    if (milcgpu_init(&layout, &options, &context_) != MILCGPU_OK)
        throw std::runtime_error(milcgpu_last_error());
    auto gauge = reference::links_to_milc<double>(system.lattice, system.gauge);
    const milcgpu_field from = field_of(gauge);
    const milcgpu_fatlink_spec spec = link_spec(system);
    const milcgpu_fatlink_set set{0, nullptr, nullptr, &links_};
    if (milcgpu_fat_links(context_, &spec, &from, &set, 1, nullptr, nullptr) != MILCGPU_OK) {
        milcgpu_finalize(context_);
        throw std::runtime_error(milcgpu_last_error());
    }
}

Connection::~Connection() {
    milcgpu_links_destroy(links_);
    milcgpu_finalize(context_);
}

milcgpu_layout layout_of(const reference::Lattice &lattice) {
    milcgpu_layout layout{};
    layout.struct_size = sizeof layout;
    std::copy(lattice.n.begin(), lattice.n.end(), layout.extent);
    return layout;
}

milcgpu_field field_of(std::vector<double> &data) { return {data.data(), MILCGPU_DOUBLE, 0}; }
milcgpu_field field_of(std::vector<float> &data) { return {data.data(), MILCGPU_SINGLE, 0}; }

std::vector<int> backends_of(const std::string &choice) {
    const milcgpu_layout layout = layout_of({{2, 2, 2, 2}});
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
