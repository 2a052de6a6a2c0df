// If memory is short, idle objects are freed first. What handles hold after a failure; calls from another thread.
#include "milc_glue/api/context.h"
#include "milc_glue/api/milcgpu_wilson.h"
#include "milc_glue/solve/kept_solver.h"
#include "tests/reference/wilson.h"
#include "tests/support.h"
#include <cstdlib>
#include <thread>

using namespace tests;
using milcgpu::Backend;
using milcgpu::Precision;

namespace {

struct Prepared {
    reference::Lattice lattice{{4, 4, 4, 4}};
    Session<double> session;
    std::vector<double> source, x;
    milcgpu_solve_report report = sized<milcgpu_solve_report>();

    explicit Prepared(Backend backend) : session(lattice, backend, 0, 2) {
        const AsqtadLinks links = asqtad_links(lattice, 81);
        REQUIRE(session.load(links.fat, links.lng) == MILCGPU_OK);
        source = reference::vector_to_milc<double>(lattice, random_fermion(lattice, 82));
    }
    milcgpu::Device &device() { return *session.context->device; }
    milcgpu_status solve(double mass, int precise, int sloppy, int parity = MILCGPU_EVEN) {
        milcgpu_solve_spec spec = solve_spec(mass, precise == MILCGPU_DOUBLE ? 1e-10 : 1e-5, precise, sloppy);
        spec.parity = parity;
        x.assign(source.size(), 0);
        const milcgpu_field from = session.field(source), to = session.field(x);
        const milcgpu_status status = milcgpu_staggered_solve(session.links, &spec, &from, &to, &report);
        if (status == MILCGPU_OK) {
            double residual = 1;
            CHECK(milcgpu_staggered_residual(session.links, parity, mass, &from, &to, &residual) == MILCGPU_OK);
            CHECK(residual < spec.tolerance);
        }
        return status;
    }
    void fill_cache() {
        for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD})
            for (const int sloppy : {MILCGPU_DOUBLE, MILCGPU_SINGLE})
                REQUIRE(solve(0.1, MILCGPU_DOUBLE, sloppy, parity) == MILCGPU_OK);
        REQUIRE(milcgpu::kept_solvers(*session.context).all.size() == 4);
    }
    int freed() const { // idle objects
        int lines = 0;
        for (const std::string &line : session.messages)
            lines += line.find("memory is short: ") != std::string::npos;
        return lines;
    }
};

} // namespace

TEST_CASE("idle solvers are freed, the oldest first, before a call fails with NO_MEMORY", "[faults][sanitize]") {
    for (const Backend backend : backends()) {
        CAPTURE(name(backend));
        Prepared p(backend);
        p.fill_cache();
        p.device().set_memory_limit(p.device().used_bytes());
        CHECK(p.solve(0.1, MILCGPU_DOUBLE, MILCGPU_HALF) == MILCGPU_OK); // a fifth, and its links
        CHECK(p.freed() >= 1);
        CHECK(p.freed() <= 3);
        CHECK(milcgpu::kept_solvers(*p.session.context).all.size() == 5u - p.freed());
        CHECK(milcgpu::kept_solvers(*p.session.context).all.back().parity != 0); // the even ones were older
        // Memory does not suffice even without idle solvers.
        p.device().set_memory_limit(p.device().used_bytes() / 4);
        CHECK(p.solve(0.1, MILCGPU_DOUBLE, MILCGPU_SINGLE) == MILCGPU_NO_MEMORY);
        CHECK(p.x == std::vector<double>(p.source.size(), 0));
        CHECK(milcgpu::kept_solvers(*p.session.context).all.empty());
        p.device().set_memory_limit(0);
        CHECK(p.solve(0.1, MILCGPU_DOUBLE, MILCGPU_SINGLE) == MILCGPU_OK);
    }
}

TEST_CASE("a device knows what it held at its peak, and how often memory was short", "[faults][smoke]") {
    for (const Backend backend : backends()) {
        CAPTURE(name(backend));
        milcgpu::Device device(backend, 0);
        using Bytes = milcgpu::DeviceArray<unsigned char>;
        const size_t each = milcgpu::Device::allocated_bytes(1000), before = device.used_bytes();
        const auto held = [&](const char *owner) {
            const auto found = device.at_peak().find({owner, each});
            return found != device.at_peak().end() ? found->second : 0;
        };
        {
            Bytes first(device, 1000, "one"), second(device, 1000, "one");
            CHECK(held("one") == 2);
            { const Bytes third(device, 1000, "other"); }
            first = Bytes(); // below the peak, another array replaces it
            const Bytes later(device, 1000, "later");
            CHECK(device.peak_bytes() == before + 3 * each);
            CHECK((held("one") == 2 && held("other") == 1 && held("later") == 0));
        }
        CHECK(held("one") == 2);
        const Bytes all(device, 4 * each, "higher");
        CHECK(
            (held("one") == 0 && device.at_peak().count({"higher", milcgpu::Device::allocated_bytes(4 * each)}) == 1));
        CHECK(device.new_shortages() == 0);
        CHECK_FALSE(device.is_half_full());
        device.set_memory_limit(device.used_bytes());
        CHECK(device.is_half_full());
        bool once = false;
        device.set_reclaim([&] {
            device.set_memory_limit(0);
            return !std::exchange(once, true);
        });
        { const Bytes more(device, 1000, "more"); }
        device.set_memory_limit(device.used_bytes());
        once = true;
        device.set_reclaim({});
        CHECK_THROWS_AS(Bytes(device, 1000, "more"), milcgpu::Error);
        CHECK(device.new_shortages() == 2);
        CHECK(device.new_shortages() == 0);
    }
}

TEST_CASE("on a device that is more than half full, a solve of several masses frees idle solvers before it allocates",
          "[faults]") {
    for (const Backend backend : backends())
        for (const bool full : {false, true}) {
            CAPTURE(name(backend));
            Prepared p(backend);
            p.fill_cache();
            p.device().set_memory_limit(p.device().used_bytes() * (full ? 2 : 3) - 1);
            auto spec = sized<milcgpu_multi_mass_spec>();
            const milcgpu_pole shifts[] = {{0.04, 1e-10, 0}, {0.08, 1e-10, 0}};
            spec.parity = MILCGPU_EVEN;
            spec.n_shifts = 2;
            spec.shifts = shifts;
            spec.max_iterations = 1000, spec.max_restarts = 5;
            spec.shared.precision = MILCGPU_DOUBLE, spec.sloppy.precision = MILCGPU_SINGLE;
            std::vector<double> other(p.source.size());
            p.x = other;
            const milcgpu_field from = p.session.field(p.source),
                                to[2] = {p.session.field(p.x), p.session.field(other)};
            auto report = sized<milcgpu_multi_mass_report>();
            CHECK(milcgpu_staggered_multi_mass(p.session.links, &spec, &from, to, &report) == MILCGPU_OK);
            CHECK(milcgpu::kept_solvers(*p.session.context).all.size() == (full ? 1 : 4));
            CHECK(p.device().new_shortages() == 0);
        }
}

TEST_CASE("every function that allocates first frees idle solvers and unused links", "[faults]") {
    for (const Backend backend : backends()) {
        CAPTURE(name(backend));
        Prepared p(backend);
        const milcgpu_field from = p.session.field(p.source), fat = p.session.field(p.session.fat),
                            lng = p.session.field(p.session.lng);
        const auto tight = [&](auto call, size_t room = 0) {
            p.device().set_memory_limit(0);
            p.session.messages.clear();
            p.fill_cache();
            p.device().set_memory_limit(p.device().used_bytes() + room);
            CHECK(call() == MILCGPU_OK);
            CHECK(p.freed() >= 1);
        };
        tight([&] { // links of half precision, then more of them than solvers hold
            const milcgpu_storage half{MILCGPU_HALF, 13}, single{MILCGPU_SINGLE, 9};
            const milcgpu_field to = p.session.field(p.x);
            const milcgpu_status status = milcgpu_staggered_dslash(p.session.links, &half, MILCGPU_EVEN, &from, &to);
            while (p.session.context->release_idle()) // no solver reads those links now
                continue;
            const size_t left = p.device().used_bytes();
            p.device().set_memory_limit(0);
            CHECK(milcgpu_staggered_dslash(p.session.links, &single, MILCGPU_EVEN, &from, &to) == MILCGPU_OK);
            CHECK(p.device().used_bytes() > left);
            CHECK(p.session.context->release_idle());
            CHECK(p.device().used_bytes() == left);
            CHECK_FALSE(p.session.context->release_idle());
            return status;
        });
        tight([&] {
            double residual = 1;
            return milcgpu_staggered_residual(p.session.links, MILCGPU_EVEN, 0.1, &from, &from, &residual);
        });
        tight(
            [&] {
                milcgpu_links *more = nullptr;
                const milcgpu_status status = milcgpu_links_create(p.session.context, &fat, &lng, &more);
                milcgpu_links_destroy(more);
                return status;
            },
            2 * p.session.fat.size() * sizeof(double)); // solvers of this lattice are smaller than its links
        tight([&] { return milcgpu_links_update(p.session.links, &fat, &lng, nullptr); });
        tight(
            [&] {
                auto spec = filled(milcgpu_asqtad_defaults, 0.9);
                spec.unitarity = -1;
                std::vector<double> out(p.session.fat.size());
                const milcgpu_field to = p.session.field(out);
                const milcgpu_fatlink_set set{0, &to, nullptr, nullptr};
                return milcgpu_links_make(p.session.context, &spec, &fat, &set, 1, nullptr, nullptr);
            },
            4 * p.session.fat.size() * sizeof(double));
        tight([&] {
            auto spec = sized<milcgpu_multi_mass_spec>();
            spec.parity = MILCGPU_EVEN;
            const milcgpu_pole shift{0.04, 1e-10, 0};
            spec.n_shifts = 1, spec.shifts = &shift;
            spec.max_iterations = 2000, spec.max_restarts = 5;
            spec.shared.precision = MILCGPU_DOUBLE, spec.sloppy.precision = MILCGPU_HALF;
            const milcgpu_field to = p.session.field(p.x);
            return milcgpu_staggered_multi_mass(p.session.links, &spec, &from, &to, nullptr);
        });
    }
}

TEST_CASE("a descent frees idle solvers, and a solve works without a descent if there are none", "[faults][sanitize]") {
    constexpr double heavy = 0.007, light = 0.004; // both read links in single, on the host, too
    for (const Backend backend : backends()) {
        CAPTURE(name(backend));
        Prepared free(backend);
        REQUIRE(free.solve(heavy, MILCGPU_DOUBLE, MILCGPU_SINGLE) == MILCGPU_OK);
        const size_t before = free.device().used_bytes();
        REQUIRE(free.solve(light, MILCGPU_DOUBLE, MILCGPU_SINGLE) == MILCGPU_OK);
        REQUIRE(free.device().used_bytes() > before); // it descends
        const auto descended = free.x;

        Prepared idle(backend);
        REQUIRE(idle.solve(heavy, MILCGPU_DOUBLE, MILCGPU_DOUBLE, MILCGPU_ODD) == MILCGPU_OK);
        REQUIRE(idle.solve(heavy, MILCGPU_DOUBLE, MILCGPU_SINGLE) == MILCGPU_OK);
        idle.device().set_memory_limit(idle.device().used_bytes());
        CHECK(idle.solve(light, MILCGPU_DOUBLE, MILCGPU_SINGLE) == MILCGPU_OK);
        CHECK(idle.freed() == 1);
        CHECK(idle.x == descended);

        Prepared none(backend);
        REQUIRE(none.solve(heavy, MILCGPU_DOUBLE, MILCGPU_SINGLE) == MILCGPU_OK);
        none.device().set_memory_limit(none.device().used_bytes());
        CHECK(none.solve(light, MILCGPU_DOUBLE, MILCGPU_SINGLE) == MILCGPU_OK); // solve() looks at the residual
        CHECK(none.x != descended);
    }
}

TEST_CASE("handles of Wilson fermions free idle objects, and allocate them again", "[faults][sanitize]") {
    for (const Backend backend : backends()) {
        CAPTURE(name(backend));
        Prepared p(backend);
        const auto gauge = reference::links_to_milc<double>(p.lattice, reference::near_unit_gauge(p.lattice, 0.25, 83));
        const milcgpu_field links{const_cast<double *>(gauge.data()), MILCGPU_DOUBLE, 0};
        struct Handle {
            milcgpu_wilson *wilson = nullptr;
            ~Handle() { milcgpu_wilson_destroy(wilson); }
        } first, second;
        for (Handle *handle : {&first, &second}) {
            REQUIRE(milcgpu_wilson_create(p.session.context, &handle->wilson) == MILCGPU_OK);
            REQUIRE(milcgpu_wilson_load(handle->wilson, &links) == MILCGPU_OK);
        }
        auto b = reference::field_to_milc<double>(p.lattice, reference::random_wilson_field(p.lattice, 84), 1);
        std::vector<double> y;
        const auto solve = [&](const Handle &handle, int method = MILCGPU_WILSON_BICGSTAB) {
            const milcgpu_wilson_spec spec{sizeof spec, 0.12, 1.5, 0, method};
            const milcgpu_solve_spec how = solve_spec(0, 1e-10, MILCGPU_DOUBLE, MILCGPU_SINGLE);
            y.assign(b.size(), 0);
            const milcgpu_field from = p.session.field(b), to = p.session.field(y);
            return milcgpu_wilson_solve(handle.wilson, &spec, &how, &from, &to, nullptr);
        };
        const size_t loaded = p.device().used_bytes();
        REQUIRE(solve(first) == MILCGPU_OK);
        const auto expected = y;
        const size_t kept = p.device().used_bytes();
        REQUIRE(solve(first) == MILCGPU_OK); // with the kept solver, a solve allocates nothing
        CHECK(y == expected);
        CHECK(p.device().used_bytes() == kept);
        // The second handle gets the memory that the first frees, and the memory of a sum.
        p.device().set_memory_limit(p.device().peak_bytes());
        p.session.messages.clear();
        CHECK(solve(second) == MILCGPU_OK);
        CHECK(y == expected);
        CHECK(p.freed() >= 2); // the solver, then packed links and clover terms
        CHECK(p.device().used_bytes() == kept);
        CHECK(solve(first) == MILCGPU_OK);
        CHECK(y == expected);
        // The handle frees its solver for a solver of another method.
        CHECK(solve(first, MILCGPU_WILSON_CG) != MILCGPU_BAD_ARGUMENT);
        p.device().set_memory_limit(0);
        REQUIRE(solve(first) == MILCGPU_OK);
        while (p.session.context->release_idle())
            continue;
        CHECK(p.device().used_bytes() == loaded);
        // No allocation that fails frees an object that the call uses.
        int failures = 0;
        for (int n = 0;; ++n) {
            p.device().inject(milcgpu::Fault::allocation, n);
            const milcgpu_status status = solve(first);
            const bool come = p.device().planted() == milcgpu::Fault::none;
            p.device().inject(milcgpu::Fault::none);
            CAPTURE(n, milcgpu_last_error());
            CHECK((status == MILCGPU_OK ? y == expected : status == MILCGPU_NO_MEMORY));
            failures += status == MILCGPU_NO_MEMORY;
            if (!come)
                break;
            while (p.session.context->release_idle())
                continue;
        }
        CHECK(failures >= 8);
    }
}

TEST_CASE("links that a solver reads stay while idle links are freed", "[faults][sanitize]") {
    for (const Backend backend : backends()) {
        CAPTURE(name(backend));
        Prepared p(backend);
        REQUIRE(p.solve(0.004, MILCGPU_DOUBLE, MILCGPU_HALF) == MILCGPU_OK); // half gives way: links in single, too
        const auto expected = p.x;
        REQUIRE(p.solve(0.1, MILCGPU_DOUBLE, MILCGPU_SINGLE, MILCGPU_ODD) == MILCGPU_OK);
        p.device().inject(milcgpu::Fault::allocation); // frees all idle objects
        const milcgpu_field fat = p.session.field(p.session.fat), lng = p.session.field(p.session.lng);
        milcgpu_links *more = nullptr;
        CHECK(milcgpu_links_create(p.session.context, &fat, &lng, &more) == MILCGPU_NO_MEMORY);
        CHECK(milcgpu::kept_solvers(*p.session.context).all.empty());
        CHECK(p.solve(0.004, MILCGPU_DOUBLE, MILCGPU_HALF) == MILCGPU_OK);
        CHECK(p.x == expected);
        p.device().set_memory_limit(p.device().used_bytes()); // the solver in use needs nothing more
        CHECK(p.solve(0.004, MILCGPU_DOUBLE, MILCGPU_HALF) == MILCGPU_OK);
        CHECK(p.x == expected);
    }
}

TEST_CASE("after a failure, handles are unchanged or empty", "[faults][sanitize]") {
    for (const Backend backend : backends()) {
        CAPTURE(name(backend));
        Prepared p(backend);
        milcgpu_links *old = p.session.links, *second = nullptr, *other = nullptr;
        const milcgpu_field fat = p.session.field(p.session.fat), lng = p.session.field(p.session.lng);
        REQUIRE(milcgpu_links_create(p.session.context, &fat, &lng, &other) == MILCGPU_OK);
        auto spec = filled(milcgpu_asqtad_defaults, 0.9);
        spec.unitarity = -1;
        const auto make = [&](milcgpu_links **a, milcgpu_links **b) {
            const milcgpu_fatlink_set sets[] = {{0, nullptr, nullptr, a}, {0, nullptr, nullptr, b}};
            return milcgpu_links_make(p.session.context, &spec, &fat, sets, 2, nullptr, nullptr);
        };
        CHECK(make(&old, &old) == MILCGPU_BAD_ARGUMENT); // refused before anything is done
        CHECK(milcgpu_links_version(old) == 1);
        spec.unitarity = 0;
        CHECK(make(&old, &second) == MILCGPU_BAD_ARGUMENT); // the gauge field had to be read
        CHECK(milcgpu_links_version(old) == 0);
        CHECK(second == nullptr);
        spec.unitarity = -1;
        REQUIRE(milcgpu_links_update(old, &fat, &lng, nullptr) == MILCGPU_OK);
        int failures = 0;
        for (int n = 0;; ++n) {
            p.device().inject(milcgpu::Fault::allocation, n);
            const milcgpu_status status = make(&old, &second);
            const bool come = p.device().planted() == milcgpu::Fault::none;
            p.device().inject(milcgpu::Fault::none);
            CAPTURE(n);
            CHECK((second != nullptr) == (status == MILCGPU_OK));
            if (!come)
                break;
            milcgpu_links_destroy(second);
            second = nullptr;
            if (status == MILCGPU_OK) // by a way that needs less memory
                continue;
            ++failures;
            CHECK(milcgpu_links_version(old) == 0); // also if only the second set failed
            CHECK(p.solve(0.1, MILCGPU_DOUBLE, MILCGPU_DOUBLE) == MILCGPU_BAD_ARGUMENT);
            REQUIRE(milcgpu_links_update(old, &fat, &lng, nullptr) == MILCGPU_OK);
        }
        CHECK(failures >= 6);
        CHECK(second != nullptr);
        CHECK(milcgpu_links_version(other) == 1); // the call did not name it
        const milcgpu_field bad{nullptr, MILCGPU_DOUBLE, 0};
        const uint64_t version = milcgpu_links_version(old);
        CHECK(milcgpu_links_update(old, &fat, &bad, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(milcgpu_links_version(old) == version);
        milcgpu_links_destroy(second);
        milcgpu_links_destroy(other);
    }
}

TEST_CASE("a handle's version grows when the precision of its links changes", "[faults][sanitize]") {
    for (const Backend backend : backends()) {
        Prepared p(backend);
        std::vector<float> fat(p.session.fat.begin(), p.session.fat.end()),
            lng(p.session.lng.begin(), p.session.lng.end());
        const milcgpu_field f{fat.data(), MILCGPU_SINGLE, 0}, l{lng.data(), MILCGPU_SINGLE, 0};
        int changed = 0;
        CHECK(milcgpu_links_version(p.session.links) == 1);
        CHECK(milcgpu_links_update(p.session.links, &f, &l, &changed) == MILCGPU_OK);
        CHECK(changed == 1);
        CHECK(milcgpu_links_version(p.session.links) == 2);
    }
}

TEST_CASE("MILCGPU_VERBOSE must be 0, 1 or 2", "[faults][errors][smoke]") {
    const milcgpu_layout layout = layout_of({{4, 4, 4, 4}});
    auto options = sized<milcgpu_options>();
    options.backend = MILCGPU_HOST;
    options.verbosity = -1;
    const char *const before = std::getenv("MILCGPU_VERBOSE");
    const std::string kept = before != nullptr ? before : "";
    milcgpu_context *context = nullptr;
    for (const char *bad : {"two", "quiet", "3", "-1", "1 ", "99999999999"}) {
        setenv("MILCGPU_VERBOSE", bad, 1);
        CAPTURE(bad);
        CHECK(milcgpu_context_create(&layout, &options, &context) == MILCGPU_BAD_ARGUMENT);
        CHECK(context == nullptr);
        CHECK(std::string(milcgpu_last_error()).find(std::string("MILCGPU_VERBOSE=") + bad) != std::string::npos);
    }
    setenv("MILCGPU_VERBOSE", "0", 1);
    CHECK(milcgpu_context_create(&layout, &options, &context) == MILCGPU_OK);
    milcgpu_context_destroy(context);
    if (before != nullptr)
        setenv("MILCGPU_VERBOSE", kept.c_str(), 1);
    else
        unsetenv("MILCGPU_VERBOSE");
}

TEST_CASE("a context works in another thread than the thread that created it", "[faults][smoke][sanitize]") {
    for (const Backend backend : backends()) {
        CAPTURE(name(backend));
        Prepared p(backend);
        REQUIRE(p.solve(0.1, MILCGPU_DOUBLE, MILCGPU_HALF) == MILCGPU_OK);
        const auto expected = p.x;
        milcgpu_solve_spec spec = solve_spec(0.1, 1e-10, MILCGPU_DOUBLE, MILCGPU_HALF);
        p.x.assign(p.source.size(), 0);
        const milcgpu_field from = p.session.field(p.source), to = p.session.field(p.x);
        milcgpu_status status = MILCGPU_COMM, ended = MILCGPU_COMM;
        std::string message;
        std::thread([&] {
            status = milcgpu_staggered_solve(p.session.links, &spec, &from, &to, nullptr);
            ended = milcgpu_staggered_solve(nullptr, &spec, &from, &to, nullptr);
            message = milcgpu_last_error(); // of that thread
            milcgpu_links_destroy(p.session.links);
            milcgpu_context_destroy(p.session.context);
        }).join();
        p.session.links = nullptr;
        p.session.context = nullptr;
        CHECK(status == MILCGPU_OK);
        CHECK(p.x == expected);
        CHECK(ended == MILCGPU_BAD_ARGUMENT);
        CHECK(has(message, "links"));
        CHECK(std::string(milcgpu_last_error()) != message);
    }
}

TEST_CASE("the list of kernels without a function for its lines is refused, without a crash", "[faults][smoke]") {
    milcgpu_kernels_list(nullptr, nullptr);
    CHECK(last_error_says("milcgpu_kernels_list: line "));
}
