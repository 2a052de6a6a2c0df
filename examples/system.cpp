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

System make_system(const Job &ranks, const reference::Lattice &lattice, reference::Gauge gauge, Action action,
                   bool with_reference) {
    System system{lattice, action, 0, std::move(gauge), {}, {}};
    ranks.on_first([&] {
        system.u0 = std::pow(reference::plaquette(lattice, system.gauge), 0.25);
        reference::apply_phases(lattice, system.gauge);
        if (!with_reference)
            return;
        if (action == Action::hisq) {
            reference::HisqLinks links = reference::hisq_links(lattice, system.gauge, 0);
            system.fat = std::move(links.fat);
            system.lng = std::move(links.lng);
        } else {
            const auto coefficients = reference::asqtad_coefficients(system.u0);
            system.fat = reference::fat_links(lattice, system.gauge, coefficients);
            system.lng = reference::long_links(lattice, system.gauge, coefficients);
        }
    });
    system.u0 = ranks.of_first(system.u0);
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

reference::Gauge read_or_make_gauge(const Job &ranks, const std::string &file, reference::Lattice &lattice, double beta,
                                    unsigned long seed, int sweeps) {
    reference::Gauge gauge;
    ranks.on_first([&] {
        if (file.empty()) {
            std::printf("making a gauge field, beta %g, %d sweeps\n", beta, sweeps);
            gauge = thermalized(lattice, beta, seed, sweeps, 4);
            return;
        }
        GaugeFile read = read_gauge(file);
        lattice = read.lattice;
        gauge = std::move(read.links);
        for (auto &u : gauge)
            u = reference::reunitarize(u);
        std::printf("gauge field %s\n", file.c_str());
    });
    lattice = ranks.of_first(lattice);
    return gauge;
}

Connection::Connection(const Job &ranks, const System &system, int backend, int verbosity, int block_size) {
    const milcgpu_layout layout = ranks.layout(system.lattice);
    milcgpu_options options{};
    options.struct_size = sizeof options;
    options.backend = backend;
    options.device = -1;
    options.block_size = block_size;
    options.verbosity = verbosity;
    if (milcgpu_init(&layout, &options, &context_) != MILCGPU_OK)
        throw std::runtime_error(milcgpu_last_error());
    auto gauge = deal_links<double>(ranks, system.lattice, system.gauge);
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

milcgpu_field field_of(std::vector<double> &data) { return {data.data(), MILCGPU_DOUBLE, 0}; }
milcgpu_field field_of(std::vector<float> &data) { return {data.data(), MILCGPU_SINGLE, 0}; }

std::vector<int> backends_of(const Job &ranks, const std::string &choice) {
    bool gpu = false;
    ranks.on_first([&] {
        milcgpu_layout layout{};
        layout.struct_size = sizeof layout;
        std::fill(layout.extent, layout.extent + 4, 4); // also where cuts are emulated
        milcgpu_options options{};
        options.struct_size = sizeof options;
        options.backend = MILCGPU_CUDA;
        milcgpu_context *context = nullptr;
        gpu = milcgpu_init(&layout, &options, &context) == MILCGPU_OK;
        milcgpu_finalize(context);
        if (choice == "cuda" && !gpu)
            throw std::runtime_error(milcgpu_last_error());
    });
    gpu = ranks.of_first(gpu);
    if (choice == "cuda" || (choice == "auto" && gpu))
        return {MILCGPU_CUDA};
    if (choice == "host" || choice == "auto" || !gpu)
        return {MILCGPU_HOST};
    if (choice == "all")
        return {MILCGPU_HOST, MILCGPU_CUDA};
    throw std::runtime_error("backend '" + choice + "': must be all, auto, host or cuda");
}

void print_ranks(const Job &ranks, const reference::Lattice &lattice) {
    const milcgpu_layout box = ranks.layout(lattice);
    if (ranks.size() > 1)
        std::printf("%d ranks, grid %s, each with %d x %d x %d x %d sites\n", ranks.size(), ranks.grid().c_str(),
                    box.extent[0], box.extent[1], box.extent[2], box.extent[3]);
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

const PrecisionPair &pair_of(const std::string &name, const char *option) {
    std::string all;
    for (const PrecisionPair &pair : precision_pairs()) {
        if (name == pair.name)
            return pair;
        all += std::string(" ") + pair.name;
    }
    throw ArgumentError(std::string("--") + option + ": '" + name + "' is none of" + all);
}

} // namespace examples
