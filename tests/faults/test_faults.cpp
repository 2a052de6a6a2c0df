// Faults planted at every place in turn: allocations on the device and on the host, waits for the device. Each gives
// its status and a message, leaves the outputs untouched, and the next call is right. And what the library does before
// it says NO_MEMORY.
#include "milc_glue/api/context.h"
#include "milc_glue/api/milcgpu_md.h"
#include "tests/failing_new.h"
#include "tests/measured_steps.h"
#include "tests/support.h"
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <omp.h>

using namespace tests;
using milcgpu::Backend;
using milcgpu::Fault;

namespace {

using Fields = std::vector<std::vector<double>>;

// Thousands of tiny calls: threads would only wait for each other.
struct OneThread {
    int before = omp_get_max_threads();
    OneThread() { omp_set_num_threads(1); }
    ~OneThread() { omp_set_num_threads(before); }
};

// A small system with all that the entries take.
struct System {
    reference::Lattice lattice{{2, 4, 2, 2}};
    reference::Gauge gauge;
    AsqtadLinks links;
    std::vector<double> gauge_milc, phased_milc, fat_milc, lng_milc, source, no_momenta;
    System() {
        reference::Rng rng(83);
        gauge.resize(4 * lattice.volume());
        for (auto &u : gauge)
            u = reference::random_near_unit_su3(rng, 0.35);
        links = asqtad_links(lattice, 81);
        fat_milc = reference::links_to_milc<double>(lattice, links.fat);
        lng_milc = reference::links_to_milc<double>(lattice, links.lng);
        gauge_milc = reference::links_to_milc<double>(lattice, gauge);
        reference::Gauge phased = gauge;
        reference::apply_phases(lattice, phased);
        phased_milc = reference::links_to_milc<double>(lattice, phased);
        source = reference::vector_to_milc<double>(lattice, random_fermion(lattice, 82));
        no_momenta.resize(40 * size_t(lattice.volume()));
    }
};
const System &the_system() {
    static const System system;
    return system;
}

milcgpu_field field_of(const std::vector<double> &data) {
    return {const_cast<double *>(data.data()), MILCGPU_DOUBLE, 0};
}

size_t vector_reals() { return the_system().source.size(); }
size_t link_reals() { return the_system().gauge_milc.size(); }

// An entry of the interface: fills `out`, fields of `reals` each.
struct Entry {
    const char *name;
    std::vector<size_t> reals;
    bool needs_links;
    std::function<milcgpu_status(Session<double> &, Fields &out)> run;
    int copies = 1; // in which each output is copied out: even and odd sites of a field, one after the other
    int waits = 1;  // for each copy: links are looked at before they are copied, too
    Fields untouched() const {
        Fields out;
        for (const size_t n : reals)
            out.emplace_back(n, 0.25);
        return out;
    }
};

milcgpu_status load(Session<double> &session, Fields &) {
    milcgpu_links_destroy(session.links);
    const milcgpu_field fat = field_of(the_system().fat_milc), lng = field_of(the_system().lng_milc);
    return milcgpu_links_create(session.context, &fat, &lng, &session.links);
}

milcgpu_status solve(Session<double> &session, std::vector<double> &x, double mass, int sloppy) {
    milcgpu_solve_spec spec = solve_spec(mass, 1e-10, MILCGPU_DOUBLE, sloppy);
    const milcgpu_field from = field_of(the_system().source), to = field_of(x);
    return milcgpu_staggered_solve(session.links, &spec, &from, &to, nullptr);
}

milcgpu_status solve_several(Session<double> &session, Fields &out) {
    auto spec = sized<milcgpu_multi_mass_spec>();
    spec.parity = MILCGPU_EVEN;
    const milcgpu_pole shifts[] = {{0.16, 1e-10, 0}, {1, 1e-10, 0}};
    spec.n_shifts = 2, spec.shifts = shifts;
    spec.max_iterations = 2000, spec.max_restarts = 5;
    spec.shared.precision = MILCGPU_DOUBLE, spec.sloppy.precision = MILCGPU_HALF;
    const milcgpu_field from = field_of(the_system().source);
    const milcgpu_field to[] = {field_of(out[0]), field_of(out[1])};
    return milcgpu_staggered_multi_mass(session.links, &spec, &from, to, nullptr);
}

// Sources in one Krylov space, as many as there are outputs; they differ.
constexpr int most_sources = 8;
milcgpu_status solve_together(Session<double> &session, Fields &out, double mass) {
    const milcgpu_solve_spec spec = solve_spec(mass, 1e-10, MILCGPU_DOUBLE, MILCGPU_SINGLE);
    static const Fields sources = [] {
        Fields all(most_sources, the_system().source);
        for (size_t k = 0; k < all.size(); ++k)
            std::rotate(all[k].begin(), all[k].begin() + 24 * k, all[k].end());
        return all;
    }();
    milcgpu_field from[most_sources], to[most_sources];
    for (size_t k = 0; k < out.size(); ++k)
        from[k] = field_of(sources[k]), to[k] = field_of(out[k]);
    return milcgpu_staggered_solve_sources(session.links, &spec, MILCGPU_BLOCK, int(out.size()), from, to, nullptr);
}

// HISQ with V, Y and W, two sets on the host and one more in a handle.
milcgpu_status make_links(Session<double> &session, Fields &out, milcgpu_links **handle) {
    milcgpu_fatlink_spec spec;
    milcgpu_hisq_defaults(&spec, sizeof spec);
    spec.signs = 1, spec.special_unitary = 1;
    const milcgpu_field gauge = field_of(the_system().gauge_milc);
    milcgpu_field to[7];
    for (int k = 0; k < 7; ++k)
        to[k] = field_of(out[k]);
    const milcgpu_fatlink_set sets[] = {
        {0, &to[0], &to[1], nullptr}, {-0.1, &to[2], nullptr, handle}, {0.2, &to[3], nullptr, nullptr}};
    const milcgpu_hisq_links hisq{&to[4], &to[5], &to[6]};
    return milcgpu_links_make(session.context, &spec, &gauge, sets, 3, &hisq, nullptr);
}

// Links and momenta loaded, a HISQ force on them, momenta saved.
milcgpu_status force(Session<double> &session, Fields &out) {
    milcgpu_gauge *handle = nullptr;
    const milcgpu_field links = field_of(the_system().phased_milc), start = field_of(the_system().no_momenta),
                        end = field_of(out[0]);
    const milcgpu_field x[] = {field_of(the_system().source), field_of(the_system().source)};
    milcgpu_fatlink_spec made;
    milcgpu_hisq_defaults(&made, sizeof made);
    const double residues[] = {0.7, 0.2};
    const milcgpu_force_set sets[] = {{0, 1}, {-0.1, 1}};
    const milcgpu_force_spec spec{sizeof spec, &made, 0.1, 2, residues, 2, sets, 0};
    milcgpu_status status = milcgpu_gauge_create(session.context, MILCGPU_DOUBLE, &handle);
    const auto then = [&](const auto &call) {
        if (status == MILCGPU_OK)
            status = call();
    };
    then([&] { return milcgpu_gauge_load(handle, &links, 0); });
    then([&] { return milcgpu_momenta_load(handle, &start); });
    then([&] { return milcgpu_momenta_add_fermion_force(handle, &spec, x, nullptr); });
    then([&] { return milcgpu_momenta_save(handle, &end); });
    milcgpu_gauge_destroy(handle);
    return status;
}

using measured_steps::OfQuarks;
template <OfQuarks what> milcgpu_status of_quarks(Session<double> &session, Fields &out) {
    return measured_steps::measure_quarks(what, session.context, the_system().gauge_milc, the_system().source, out[0]);
}

std::vector<Entry> entries() {
    const size_t vector = vector_reals(), link = link_reals();
    return {
        {"links_create", {}, false, load},
        {"dslash",
         {vector},
         true,
         [](Session<double> &s, Fields &out) {
             const milcgpu_storage what{MILCGPU_SINGLE, 13};
             const milcgpu_field from = field_of(the_system().source), to = field_of(out[0]);
             return milcgpu_staggered_dslash(s.links, &what, MILCGPU_EVEN, &from, &to);
         }},
        {"residual",
         {1},
         true,
         [](Session<double> &s, Fields &out) {
             const milcgpu_field b = field_of(the_system().source);
             return milcgpu_staggered_residual(s.links, MILCGPU_EVEN, 0.1, &b, &b, out[0].data());
         }},
        {"solve double/half",
         {vector},
         true,
         [](Session<double> &s, Fields &out) { return solve(s, out[0], 0.1, MILCGPU_HALF); }},
        {"solve double/single that descends",
         {vector},
         true,
         [](Session<double> &s, Fields &out) { return solve(s, out[0], 0.004, MILCGPU_SINGLE); }},
        {"multi_mass", {vector, vector}, true, solve_several},
        {"solve_sources",
         {vector, vector},
         true,
         [](Session<double> &s, Fields &out) { return solve_together(s, out, 0.1); }},
        {"solve_sources that descends", std::vector<size_t>(most_sources, vector), true,
         [](Session<double> &s, Fields &out) { return solve_together(s, out, 0.002); }},
        {"fat_links",
         {link, link, link, link, link, link, link},
         false,
         [](Session<double> &s, Fields &out) {
             milcgpu_links_destroy(s.links);
             s.links = nullptr;
             return make_links(s, out, &s.links);
         },
         1,
         3},
        {"fermion_force", {the_system().no_momenta.size()}, true, force},
        {"spin_taste", {vector}, true, of_quarks<OfQuarks::four_link_operator>, 2},
        {"gauss_smear", {vector}, true, of_quarks<OfQuarks::smearing>, 2},
        {"contract",
         {size_t(2 * measured_steps::correlators * the_system().lattice.n[3])},
         true,
         of_quarks<OfQuarks::contraction>},
        {"gauge fixing, smearing, flow",
         {link},
         true,
         [](Session<double> &s, Fields &out) {
             return measured_steps::smooth_links(s.context, the_system().gauge_milc, out[0]);
         }},
    };
}

// A session in which the entry can be called.
std::unique_ptr<Session<double>> session_for(const Entry &entry, Backend backend) {
    auto session = std::make_unique<Session<double>>(the_system().lattice, backend, 0, 0);
    Fields none;
    if (entry.needs_links)
        REQUIRE(load(*session, none) == MILCGPU_OK);
    return session;
}

bool right(const Fields &out, const Fields &expected) {
    for (size_t k = 0; k < out.size(); ++k) {
        double difference = 0, size = 0;
        for (size_t i = 0; i < out[k].size(); ++i) {
            difference += std::pow(out[k][i] - expected[k][i], 2);
            size += std::pow(expected[k][i], 2);
        }
        if (!(difference <= 1e-14 * size))
            return false;
    }
    return true;
}

Fields right_answer(const Entry &entry, Backend backend) {
    Fields out = entry.untouched();
    const auto session = session_for(entry, backend);
    REQUIRE(entry.run(*session, out) == MILCGPU_OK);
    return out;
}

// Runs the entry with fault n for n = 0, step, 2 step, ... until it is not reached any more; plant(session, n) plants
// it, ended() tells whether it has come and takes it back. Failures have `status`. Returns {faults, failures, outputs
// written}.
struct Counts {
    int faults = 0, failures = 0, written = 0;
};
Counts fail_everywhere(const Entry &entry, Backend backend, milcgpu_status status,
                       const std::function<void(Session<double> &, int)> &plant,
                       const std::function<bool(Session<double> &)> &ended, int step = 1) {
    const OneThread one_thread;
    const Fields expected = right_answer(entry, backend), untouched = entry.untouched();
    Counts counts;
    for (int n = 0;; n += step) {
        CAPTURE(entry.name, name(backend), n);
        const auto session = session_for(entry, backend);
        Fields out = untouched;
        plant(*session, n);
        const milcgpu_status got = entry.run(*session, out);
        const bool come = ended(*session);
        CHECK((session->links != nullptr) == (got == MILCGPU_OK || entry.needs_links));
        if (!come) {
            CHECK(got == MILCGPU_OK);
            return counts;
        }
        ++counts.faults;
        if (got == MILCGPU_OK) { // it went on without
            CHECK(right(out, expected));
            continue;
        }
        ++counts.failures;
        counts.written += out != untouched;
        CAPTURE(milcgpu_last_error());
        CHECK(got == status);
        CHECK(std::string(milcgpu_last_error()).size() > 10);
        out = untouched;
        const milcgpu_status next = entry.run(*session, out);
        if (status == MILCGPU_DEVICE_LOST) {
            CHECK(next == MILCGPU_DEVICE_LOST);
            CHECK(out == untouched);
        } else {
            CHECK(next == MILCGPU_OK);
            CHECK(right(out, expected));
        }
    }
}

} // namespace

TEST_CASE("every allocation on the device that fails: NO_MEMORY or right, outputs untouched, the next call right",
          "[faults][sanitize]") {
    for (const Backend backend : backends())
        for (const Entry &entry : entries()) {
            CAPTURE(entry.name, name(backend));
            const Counts counts = fail_everywhere(
                entry, backend, MILCGPU_NO_MEMORY,
                [](Session<double> &s, int n) { s.context->device->inject(Fault::allocation, n); },
                [](Session<double> &s) {
                    const bool come = s.context->device->planted() == Fault::none;
                    s.context->device->inject(Fault::none);
                    return come;
                });
            CHECK(counts.failures >= 4);
            CHECK(counts.written == 0);
        }
}

TEST_CASE("every wait for the device that fails: DEVICE_LOST, outputs untouched but for those being copied out",
          "[faults][sanitize]") {
    for (const Backend backend : backends())
        for (const Entry &entry : entries()) {
            CAPTURE(entry.name, name(backend));
            const Counts counts = fail_everywhere(
                entry, backend, MILCGPU_DEVICE_LOST,
                [](Session<double> &s, int n) { s.context->device->inject(Fault::device_lost, n); },
                [](Session<double> &s) {
                    const bool come = s.context->device->planted() == Fault::none;
                    s.context->device->inject(Fault::none);
                    return come;
                });
            CHECK(counts.failures == counts.faults);
            CHECK(counts.failures >= 1);
            // The last wait before a result is copied out comes when those before it are out.
            const int copies = static_cast<int>(entry.reals.size()) * entry.copies;
            CHECK(counts.written == std::max(0, copies - 1) * entry.waits);
        }
}

#if defined(__SANITIZE_ADDRESS__)
const int every_new = 5; // all of them take minutes under the sanitizers
#else
const int every_new = long_tests() ? 1 : 3;
#endif

TEST_CASE("host memory that runs out anywhere: a status, never an exception; the next call right",
          "[faults][sanitize]") {
    for (const Backend backend : backends())
        for (const Entry &entry : entries()) {
            CAPTURE(entry.name, name(backend));
            const Counts counts = fail_everywhere(
                entry, backend, MILCGPU_NO_MEMORY, [](Session<double> &, int n) { news_left = n; },
                [](Session<double> &) {
                    const bool come = news_left < 0;
                    news_left = -1;
                    return come;
                },
                every_new);
            CHECK(counts.failures >= 2);
            CHECK(counts.written == 0);
        }
}

TEST_CASE("every call of the CUDA runtime that fails in turn", "[faults]") {
#if defined(MILCGPU_CUDA_FAULTS)
    if (milcgpu::Device::gpu_count() == 0)
        SKIP_TEST("no GPU");
    CHECK(std::system(MILCGPU_CUDA_FAULTS " --list | xargs -n 1 -P 6 " MILCGPU_CUDA_FAULTS) == 0);
    // Out of memory from calls that do not allocate, while results are copied out.
    CHECK(std::system("echo dslash gauss_smear fat_links | xargs -n 1 -P 3 " MILCGPU_CUDA_FAULTS " --code=2") == 0);
#else
    SKIP_TEST("a build without nvcc");
#endif
}
