#include "examples/lib/system.h"
#include "examples/lib/heatbath.h"
#include "examples/lib/memory.h"
#include "gpu_kernels/machine/backend/host_threads.h"
#include "gpu_kernels/machine/backend/quoted.h"
#include "gpu_kernels/machine/error.h"
#include "milc_glue/api/milcgpu_file.h"
#include "milc_glue/api/settings.h"
#include "milc_glue/host/gauge_file.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace examples {

Action action_of(const std::string &name) { return name == "hisq" ? Action::hisq : Action::asqtad; }

LinkBox link_box(const Job &ranks, const reference::Lattice &lattice) {
    return LinkBox(ranks.layout(lattice),
                   [&ranks](const reference::Gauge &out, reference::Gauge &in, int to, int from) {
                       ranks.swap(out.data(), in.data(), out.size() * sizeof out[0], to, from);
                   });
}

reference::PlaquetteParts plaquettes(const Job &ranks, const reference::Lattice &lattice, const LinkBox &box) {
    const auto [space, time] = box.plaquette_sums();
    const double planes = 3.0 * lattice.volume();
    return {ranks.sum(space) / planes, ranks.sum(time) / planes};
}

void collect_gauge(const Job &ranks, System &system) {
    const std::vector<double> whole = ranks.collect(system.lattice, system.own, 72);
    ranks.on_first([&] { system.gauge = reference::links_from_milc<double>(system.lattice, whole); });
}

System make_system(const Job &ranks, const reference::Lattice &lattice, std::vector<double> own, Action action,
                   bool with_reference) {
    System system{lattice, action, 0, std::move(own), {}, {}, {}};
    {
        LinkBox box = link_box(ranks, lattice);
        box.load(system.own);
        const reference::PlaquetteParts parts = plaquettes(ranks, lattice, box);
        system.u0 = std::pow((parts.space_space + parts.space_time) / 2, 0.25);
    }
    double *link = system.own.data();
    for_sites(ranks.layout(lattice), [&](const std::array<int, 4> &x) {
        const int exponents[4] = {x[3], x[3] + x[0], x[3] + x[0] + x[1], x[3] == lattice.n[3] - 1};
        for (int dir = 0; dir < 4; ++dir, link += 18)
            if (exponents[dir] % 2 != 0)
                std::transform(link, link + 18, link, [](double real) { return -real; });
    });
    if (!with_reference)
        return system;
    collect_gauge(ranks, system);
    ranks.on_first([&] {
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
    return system;
}

milcgpu_fatlink_spec link_spec(const System &system) {
    milcgpu_fatlink_spec spec;
    if (system.action == Action::hisq)
        milcgpu_hisq_defaults(&spec, sizeof spec);
    else
        milcgpu_asqtad_defaults(system.u0, &spec, sizeof spec);
    return spec;
}

reference::Lattice lattice_of(const Job &ranks, const std::string &file) {
    std::array<int, 4> extents{};
    ranks.on_first([&] { extents = milcgpu::head_of(file).extents; });
    return {ranks.of_first(extents)};
}

void must(milcgpu_status status) {
    if (status != MILCGPU_OK)
        throw std::runtime_error(milcgpu_last_error());
}

HostContext::HostContext(const Job &ranks, const reference::Lattice &lattice) {
    const milcgpu_layout layout = ranks.layout(lattice);
    milcgpu_options options = options_for(MILCGPU_HOST);
    options.verbosity = 0;
    must(milcgpu_context_create(&layout, &options, &context_));
}

std::vector<double> read_box(const Job &ranks, const reference::Lattice &lattice, const std::string &file) {
    const milcgpu_layout box = ranks.layout(lattice);
    const auto *n = box.extent;
    std::vector<double> links(72 * std::size_t(n[0]) * n[1] * n[2] * n[3]);
    const milcgpu_field to = field_of(links);
    must(milcgpu_gauge_file_read(HostContext(ranks, lattice), file.c_str(), &to, nullptr));
    UnitaryLinks unitary;
    double *at = links.data();
    for_sites(box, [&](const std::array<int, 4> &x) {
        for (int dir = 0; dir < 4; ++dir, at += 18) {
            reference::Matrix u;
            std::memcpy(static_cast<void *>(&u), at, sizeof u);
            unitary.add(u, x, dir);
            u = reference::reunitarize(u);
            std::memcpy(at, &u, sizeof u);
        }
    });
    unitary.check(file);
    return links;
}

void write_box(const Job &ranks, const reference::Lattice &lattice, std::vector<double> own, const std::string &file,
               const std::string &format) {
    const milcgpu_field from = field_of(own);
    const HostContext context(ranks, lattice);
    milcgpu_nersc_spec nersc;
    milcgpu_nersc_defaults(&nersc, sizeof nersc);
    must(format == "nersc" ? milcgpu_gauge_file_write_nersc(context, file.c_str(), &from, &nersc, nullptr)
                           : milcgpu_gauge_file_write(context, file.c_str(), &from, nullptr, nullptr));
}

void check_lattice(const Job &ranks, const reference::Lattice &lattice, double bytes_a_site) {
    const auto &n = lattice.n;
    char name[80];
    std::snprintf(name, sizeof name, "a lattice of %d x %d x %d x %d sites", n[0], n[1], n[2], n[3]);
    for (const int extent : n)
        if (extent % 2 != 0)
            throw std::runtime_error(std::string(name) + ": all extents must be even");
    ranks.layout(lattice);
    ranks.on_first([&] { need_memory(name, bytes_a_site * lattice.volume()); });
}

std::vector<double> read_or_make_gauge(const Job &ranks, const std::string &file, reference::Lattice &lattice,
                                       double beta, unsigned long seed, int sweeps, double bytes_a_site) {
    if (!file.empty())
        lattice = lattice_of(ranks, file);
    check_lattice(ranks, lattice, bytes_a_site / ranks.size());
    if (!file.empty()) {
        std::printf("gauge field %s\n", milcgpu::quoted_name(file).c_str());
        return read_box(ranks, lattice, file);
    }
    milcgpu::wait_passively();
    std::printf("making a gauge field, beta %g, %d sweeps\n", beta, sweeps);
    LinkBox box = link_box(ranks, lattice);
    thermalize(box, beta, seed, sweeps, 4);
    return box.own();
}

std::vector<double> random_vector(const Job &ranks, const reference::Lattice &lattice, unsigned long seed) {
    reference::Rng rng(seed);
    return drawn(
        ranks, lattice, 6, std::size_t(lattice.volume()), [&](const auto &x) { return std::size_t(lattice.site(x)); },
        [&](double *to) {
            const reference::Vector vector = reference::random_vector(rng);
            std::memcpy(to, &vector, sizeof vector);
        });
}

milcgpu_options options_for(int backend) {
    milcgpu_options options{};
    options.struct_size = sizeof options;
    options.backend = backend;
    options.device = -1;
    options.verbosity = -1;
    return options;
}

Connection::Connection(const Job &ranks, const System &system, int backend, int block_size, bool learn) {
    const milcgpu_layout layout = ranks.layout(system.lattice);
    milcgpu_options options = options_for(backend);
    options.block_size = block_size;
    options.learn = learn;
    if (milcgpu_context_create(&layout, &options, &context_) != MILCGPU_OK)
        throw std::runtime_error(milcgpu_last_error());
    auto gauge = system.own;
    const milcgpu_field from = field_of(gauge);
    const milcgpu_fatlink_spec spec = link_spec(system);
    const milcgpu_fatlink_set set{0, nullptr, nullptr, &links_};
    if (milcgpu_links_make(context_, &spec, &from, &set, 1, nullptr, nullptr) != MILCGPU_OK) {
        milcgpu_context_destroy(context_);
        throw std::runtime_error(milcgpu_last_error());
    }
}

Connection::~Connection() {
    milcgpu_links_destroy(links_);
    milcgpu_context_destroy(context_);
}

milcgpu_field field_of(std::vector<double> &data) { return {data.data(), MILCGPU_DOUBLE, 0}; }
milcgpu_field field_of(std::vector<float> &data) { return {data.data(), MILCGPU_SINGLE, 0}; }

void add_backend(Arguments &arguments, std::string &choice, bool all) {
    if (const char *set = std::getenv("MILCGPU_BACKEND"); set != nullptr && *set != '\0')
        choice = set;
    std::vector<std::string> names = {"auto", "host", "cuda"};
    if (all)
        names.push_back("all");
    arguments.add("backend", "NAME", choice, "where to compute", one_of(names));
}

namespace {

// Tries to make a silent context with four sites in each direction, which suffices if cuts are emulated. Returns
// whether this works; if not, milcgpu_last_error() says why.
bool opens(int backend) {
    milcgpu_layout layout{};
    layout.struct_size = sizeof layout;
    std::fill(layout.extent, layout.extent + 4, 4);
    milcgpu_options options = options_for(backend);
    options.verbosity = 0;
    milcgpu_context *context = nullptr;
    const bool well = milcgpu_context_create(&layout, &options, &context) == MILCGPU_OK;
    milcgpu_context_destroy(context);
    return well;
}

} // namespace

std::vector<int> backends_of(const Job &ranks, const std::string &choice) {
    bool host = false, gpu = false;
    ranks.on_first([&] {
        try {
            milcgpu::setting("MILCGPU_VERBOSE");
            const char *const said = std::getenv("MILCGPU_BACKEND");
            if (said != nullptr && choice == said) // from the environment; options were checked before
                milcgpu::setting("MILCGPU_BACKEND");
        } catch (const milcgpu::Error &error) {
            throw ArgumentError(error.what());
        }
        gpu = choice != "host" && opens(MILCGPU_CUDA);
        host = choice == "host" || choice == "all" || (choice == "auto" && !gpu);
        if (choice == "cuda" ? !gpu : host && !opens(MILCGPU_HOST))
            throw std::runtime_error(milcgpu_last_error());
    });
    std::vector<int> backends;
    if (ranks.of_first(host))
        backends.push_back(MILCGPU_HOST);
    if (ranks.of_first(gpu))
        backends.push_back(MILCGPU_CUDA);
    return backends;
}

void print_ranks(const Job &ranks, const reference::Lattice &lattice) {
    const milcgpu_layout box = ranks.layout(lattice);
    if (ranks.size() > 1)
        std::printf("%d ranks, grid %s, each with %d x %d x %d x %d sites\n", ranks.size(), ranks.grid().c_str(),
                    box.extent[0], box.extent[1], box.extent[2], box.extent[3]);
}

std::string shown(double number, int digits, bool known) {
    char text[40];
    std::snprintf(text, sizeof text, "%.*e", digits, number);
    return known ? text : "-";
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

const PrecisionPair &pair_of(const std::string &name) {
    const auto &pairs = precision_pairs();
    return *std::find_if(pairs.begin(), pairs.end(), [&](const PrecisionPair &pair) { return name == pair.name; });
}

Check pair_name(bool or_all) {
    std::vector<std::string> names;
    if (or_all)
        names.push_back("all");
    for (const PrecisionPair &pair : precision_pairs())
        names.push_back(pair.name);
    return one_of(names);
}

} // namespace examples
