// What the tests of the library share: backends of this machine, random fields, links that a reconstruction must hold.
#pragma once
#include "gpu_kernels/machine/backend/launch_queue.h"
#include "milc_glue/api/milcgpu.h"
#include "milc_glue/api/test_hooks.h"
#include "tests/catch.h"
#include "tests/reference/gauge.h"
#include "tests/reference/staggered.h"
#include "tests/sized.h"
#include <algorithm>
#include <omp.h>

namespace tests {

inline bool has(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }
inline bool last_error_says(const std::string &part) { return has(milcgpu_last_error(), part); }

std::vector<milcgpu::Backend> backends();

// The message of the exception that `work` throws; "" if it throws none.
template <class Work> std::string thrown_by(const Work &work) {
    try {
        work();
    } catch (const std::exception &error) {
        return error.what();
    }
    return "";
}

// The message of the Error that `work` throws, which must have this status; "" if it throws none.
template <class Work> std::string refusal_by(milcgpu::Status status, const Work &work) {
    try {
        work();
    } catch (const milcgpu::Error &error) {
        CHECK(error.status() == status);
        return error.what();
    }
    return "";
}

template <class Work> milcgpu::Status status_of(const Work &work) {
    try {
        work();
    } catch (const milcgpu::Error &error) {
        return error.status();
    }
    return milcgpu::Status::ok;
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
reference::Gauge random_links(const reference::Lattice &lattice, unsigned long seed);

// c * sign * SU(3) with random signs, or c * U(3) with random phases.
reference::Gauge unitary_links(const reference::Lattice &lattice, unsigned long seed, double c, bool any_phase);

// A gauge field with structure, cheap: SU(3) around 1, with asqtad fat and long links, phases in.
struct AsqtadLinks {
    reference::Gauge fat, lng;
};
AsqtadLinks asqtad_links(const reference::Lattice &lattice, unsigned long seed, double roughness = 0.35);

// |a - b| / |b| over the sites of one parity.
double parity_difference(const reference::Lattice &lattice, const reference::Fermion &a, const reference::Fermion &b,
                         int parity);

// One rank.
milcgpu_layout layout_of(const reference::Lattice &lattice, const int *site_map = nullptr);

// A context on a layout.
struct Context {
    milcgpu_context *context = nullptr;
    Context(const milcgpu_layout &layout, milcgpu::Backend backend);
    Context(const Context &) = delete;
    ~Context() { milcgpu_context_destroy(context); }
    operator milcgpu_context *() const { return context; }
};

// A context of the C interface that cleans up after itself; links and fields as MILC would hold them, in Real.
template <class Real> struct Session {
    reference::Lattice lattice;
    milcgpu_context *context = nullptr;
    milcgpu_links *links = nullptr;
    std::vector<Real> fat, lng;
    std::vector<std::string> messages;
    static constexpr int precision = sizeof(Real) == 8 ? MILCGPU_DOUBLE : MILCGPU_SINGLE;

    explicit Session(const reference::Lattice &on, milcgpu::Backend backend, int block = 0, int verbosity = 1);
    Session(const reference::Lattice &on, milcgpu::Backend backend, const AsqtadLinks &loaded, int block = 0,
            int verbosity = 1)
        : Session(on, backend, block, verbosity) {
        REQUIRE(load(loaded.fat, loaded.lng) == MILCGPU_OK);
    }
    Session(const Session &) = delete;
    ~Session();
    milcgpu_status load(const reference::Gauge &fat_links, const reference::Gauge &long_links);
    static milcgpu_field field(std::vector<Real> &data) { return {data.data(), precision, 0}; }
};

milcgpu_solve_spec solve_spec(double mass, double tolerance, int precise, int sloppy);

} // namespace tests
