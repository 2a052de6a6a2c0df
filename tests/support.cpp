#include "tests/support.h"
#include "gpu_kernels/machine/backend/device.h"

namespace tests {

std::vector<milcgpu::Backend> backends() {
    if (milcgpu::Device::gpu_count() > 0)
        return {milcgpu::Backend::host, milcgpu::Backend::cuda};
    return {milcgpu::Backend::host};
}

reference::Gauge random_links(const reference::Lattice &lattice, unsigned long seed) {
    reference::Rng rng(seed);
    reference::Gauge links(4 * lattice.volume());
    for (auto &u : links)
        u = 0.3 * reference::random_matrix(rng);
    return links;
}

reference::Gauge unitary_links(const reference::Lattice &lattice, unsigned long seed, double c, bool any_phase) {
    reference::Rng rng(seed);
    reference::Gauge links(4 * lattice.volume());
    for (auto &u : links) {
        const double angle = 2 * M_PI * reference::uniform(rng);
        const reference::Complex phase = any_phase ? std::polar(1.0, angle) : angle > M_PI ? -1.0 : 1.0;
        u = (c * phase) * reference::random_su3(rng);
    }
    return links;
}

AsqtadLinks asqtad_links(const reference::Lattice &lattice, unsigned long seed, double roughness) {
    reference::Rng rng(seed);
    reference::Gauge links(4 * lattice.volume());
    for (auto &u : links)
        u = reference::random_near_unit_su3(rng, roughness);
    const double u0 = std::pow(reference::plaquette(lattice, links), 0.25);
    reference::apply_phases(lattice, links);
    const auto coefficients = reference::asqtad_coefficients(u0);
    return {reference::fat_links(lattice, links, coefficients), reference::long_links(lattice, links, coefficients)};
}

double parity_difference(const reference::Lattice &lattice, const reference::Fermion &a, const reference::Fermion &b,
                         int parity) {
    double difference = 0, size = 0;
    for (int s = 0; s < lattice.volume(); ++s)
        if (lattice.parity(s) == parity) {
            difference += reference::norm2(a[s] - b[s]);
            size += reference::norm2(b[s]);
        }
    return std::sqrt(difference / size);
}

milcgpu_layout layout_of(const reference::Lattice &lattice, const int *site_map) {
    auto layout = sized<milcgpu_layout>();
    std::copy(lattice.n.begin(), lattice.n.end(), layout.extent);
    layout.site_map = site_map;
    return layout;
}

milcgpu_solve_spec solve_spec(double mass, double tolerance, int precise, int sloppy) {
    auto spec = sized<milcgpu_solve_spec>();
    spec.parity = MILCGPU_EVEN;
    spec.mass = mass;
    spec.tolerance = tolerance;
    spec.max_iterations = 2000;
    spec.max_restarts = 5;
    spec.precise.precision = precise;
    spec.sloppy.precision = sloppy;
    return spec;
}

Context::Context(const milcgpu_layout &layout, milcgpu::Backend backend) {
    auto options = sized<milcgpu_options>();
    options.backend = backend == milcgpu::Backend::cuda ? MILCGPU_CUDA : MILCGPU_HOST;
    options.verbosity = 0;
    CAPTURE(milcgpu_last_error());
    REQUIRE(milcgpu_context_create(&layout, &options, &context) == MILCGPU_OK);
}

template <class Real>
Session<Real>::Session(const reference::Lattice &on, milcgpu::Backend backend, int block, int verbosity) : lattice(on) {
    const milcgpu_layout layout = layout_of(on);
    auto options = sized<milcgpu_options>();
    options.backend = backend == milcgpu::Backend::cuda ? MILCGPU_CUDA : MILCGPU_HOST;
    options.block_size = block;
    options.verbosity = verbosity;
    options.user = this;
    options.message = [](void *user, const char *line) { static_cast<Session *>(user)->messages.push_back(line); };
    CAPTURE(milcgpu_last_error());
    REQUIRE(milcgpu_context_create(&layout, &options, &context) == MILCGPU_OK);
}

template <class Real> Session<Real>::~Session() {
    milcgpu_links_destroy(links);
    milcgpu_context_destroy(context);
}

template <class Real>
milcgpu_status Session<Real>::load(const reference::Gauge &fat_links, const reference::Gauge &long_links) {
    fat = reference::links_to_milc<Real>(lattice, fat_links);
    lng = reference::links_to_milc<Real>(lattice, long_links);
    const milcgpu_field f = field(fat), l = field(lng);
    return links == nullptr ? milcgpu_links_create(context, &f, &l, &links)
                            : milcgpu_links_update(links, &f, &l, nullptr);
}

template struct Session<float>;
template struct Session<double>;

} // namespace tests
