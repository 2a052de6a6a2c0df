// What the tests of the library share: backends of this machine, random fields, links that a reconstruction must hold.
#pragma once
#include "gpu_kernels/backend/device.h"
#include "milc_glue/api/milcgpu.h"
#include "milc_glue/api/test_hooks.h"
#include "reorder/resident_links.h"
#include "tests/catch.h"
#include "tests/reference/gauge.h"
#include "tests/reference/staggered.h"
#include "tests/sized.h"
#include <algorithm>
#include <omp.h>

namespace tests {

inline bool has(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

inline std::vector<milcgpu::Backend> backends() {
    if (milcgpu::Device::gpu_count() > 0)
        return {milcgpu::Backend::host, milcgpu::Backend::cuda};
    return {milcgpu::Backend::host};
}

// What `work` says where it throws; "" where it does not.
template <class Work> std::string thrown_by(const Work &work) {
    try {
        work();
    } catch (const std::exception &error) {
        return error.what();
    }
    return "";
}

using reference::random_fermion;

// The larger of two errors; NaN is larger than any number. (std::max and std::fmax drop it.)
inline double worse(double a, double b) { return a != a || b <= a ? a : b; }

// The largest |a - b| relative to the largest |b|, of all numbers or of `count` from `first` on; NaN where the arrays
// are not of one size.
template <class Number>
double largest_difference(const std::vector<Number> &a, const std::vector<Number> &b, size_t first = 0,
                          size_t count = size_t(-1)) {
    double off = a.size() == b.size() ? 0 : NAN, largest = 0;
    for (size_t k = first; a.size() == b.size() && k < b.size() && k - first < count; ++k)
        off = worse(off, std::abs(a[k] - b[k])), largest = std::fmax(largest, std::abs(b[k]));
    return off / largest;
}

// Tolerances are this many times what was measured on the host backend. On the GPU, reciprocals and roots in single
// precision are off by two units in the last place, and sums are contracted in other places.
constexpr double times_measured = 3;

// `Device::set_parts_below` for one thread a site, and for four.
constexpr int both_ways[] = {0, 1 << 30};

// What results must not depend on: threads a block on the GPU, OpenMP threads on the host. Holds while it lives.
struct Threads {
    int block = 0; // for milcgpu_options or Device::set_block
    Threads(milcgpu::Backend backend, int choice) : before_(omp_get_max_threads()) {
        constexpr int blocks[] = {0, 64, 128, 256}, threads[] = {1, 3};
        if (backend == milcgpu::Backend::cuda)
            block = blocks[choice];
        else
            omp_set_num_threads(threads[choice]);
    }
    Threads(const Threads &) = delete;
    ~Threads() { omp_set_num_threads(before_); }

  private:
    int before_;
};
inline int thread_choices(milcgpu::Backend backend) { return backend == milcgpu::Backend::cuda ? 4 : 2; }

// Any matrices.
inline reference::Gauge random_links(const reference::Lattice &lattice, unsigned long seed) {
    reference::Rng rng(seed);
    reference::Gauge links(4 * lattice.volume());
    for (auto &u : links)
        u = 0.3 * reference::random_matrix(rng);
    return links;
}

// c * sign * SU(3) with random signs, or c * U(3) with random phases.
inline reference::Gauge unitary_links(const reference::Lattice &lattice, unsigned long seed, double c, bool any_phase) {
    reference::Rng rng(seed);
    reference::Gauge links(4 * lattice.volume());
    for (auto &u : links) {
        const double angle = 2 * M_PI * reference::uniform(rng);
        const reference::Complex phase = any_phase ? std::polar(1.0, angle) : angle > M_PI ? -1.0 : 1.0;
        u = (c * phase) * reference::random_su3(rng);
    }
    return links;
}

// A gauge field with structure, cheap: SU(3) around 1, with asqtad fat and long links, phases in.
struct AsqtadLinks {
    reference::Gauge fat, lng;
};
inline AsqtadLinks asqtad_links(const reference::Lattice &lattice, unsigned long seed, double roughness = 0.35) {
    reference::Rng rng(seed);
    reference::Gauge links(4 * lattice.volume());
    for (auto &u : links)
        u = reference::random_near_unit_su3(rng, roughness);
    const double u0 = std::pow(reference::plaquette(lattice, links), 0.25);
    reference::apply_phases(lattice, links);
    const auto coefficients = reference::asqtad_coefficients(u0);
    return {reference::fat_links(lattice, links, coefficients), reference::long_links(lattice, links, coefficients)};
}

// |a - b| / |b| over the sites of one parity.
inline double parity_difference(const reference::Lattice &lattice, const reference::Fermion &a,
                                const reference::Fermion &b, int parity) {
    double difference = 0, size = 0;
    for (int s = 0; s < lattice.volume(); ++s)
        if (lattice.parity(s) == parity) {
            difference += reference::norm2(a[s] - b[s]);
            size += reference::norm2(b[s]);
        }
    return std::sqrt(difference / size);
}

// One rank.
inline milcgpu_layout layout_of(const reference::Lattice &lattice, const int *site_map = nullptr) {
    auto layout = sized<milcgpu_layout>();
    std::copy(lattice.n.begin(), lattice.n.end(), layout.extent);
    layout.site_map = site_map;
    return layout;
}

// A context of the C interface that cleans up after itself; links and fields as MILC would hold them, in Real.
template <class Real> struct Session {
    reference::Lattice lattice;
    milcgpu_context *context = nullptr;
    milcgpu_links *links = nullptr;
    std::vector<Real> fat, lng;
    std::vector<std::string> messages;
    static constexpr int precision = sizeof(Real) == 8 ? MILCGPU_DOUBLE : MILCGPU_SINGLE;

    explicit Session(const reference::Lattice &on, milcgpu::Backend backend, int block = 0, int verbosity = 1)
        : lattice(on) {
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
    Session(const Session &) = delete;
    ~Session() {
        milcgpu_links_destroy(links);
        milcgpu_context_destroy(context);
    }
    milcgpu_status load(const reference::Gauge &fat_links, const reference::Gauge &long_links) {
        fat = reference::links_to_milc<Real>(lattice, fat_links);
        lng = reference::links_to_milc<Real>(lattice, long_links);
        const milcgpu_field f = field(fat), l = field(lng);
        return links == nullptr ? milcgpu_links_create(context, &f, &l, &links)
                                : milcgpu_links_update(links, &f, &l, nullptr);
    }
    static milcgpu_field field(std::vector<Real> &data) { return {data.data(), precision, 0}; }
};

inline milcgpu_solve_spec solve_spec(double mass, double tolerance, int precise, int sloppy) {
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

} // namespace tests
