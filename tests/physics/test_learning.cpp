// Solves that learn: when links get eigenvectors without a call for them, and when they do not.
#include "gpu_kernels/solver/lanczos.h"
#include "milc_glue/links/links_handle.h"
#include "milc_glue/solve/learning.h"
#include "tests/cut_support.h"
#include "tests/plugin_support.h"
#include "tests/quenched.h"

using namespace tests;
using milcgpu::Backend;
using milcgpu::Learns;

namespace {

// Fat and long links of quenched fields with low modes.
struct Links {
    std::vector<double> fat, lng;
};
Links hisq_links(const reference::Lattice &lattice, unsigned long seed) {
    Session<double> session(lattice, Backend::host);
    reference::Gauge u = quenched(lattice, seed);
    reference::apply_phases(lattice, u);
    auto gauge = reference::links_to_milc<double>(lattice, u);
    Links links{gauge, gauge};
    const milcgpu_field from = session.field(gauge), fat = session.field(links.fat), lng = session.field(links.lng);
    auto spec = filled(milcgpu_hisq_defaults);
    const milcgpu_fatlink_set set{0, &fat, &lng, nullptr};
    REQUIRE(milcgpu_links_make(session.context, &spec, &from, &set, 1, nullptr, nullptr) == MILCGPU_OK);
    return links;
}
const reference::Lattice small{{4, 4, 4, 8}};
constexpr int enough = 60; // solves after which eigenvectors pay
const Links &links_of(unsigned long seed) {
    static const Links all[] = {hisq_links(small, 3), hisq_links(small, 4)};
    return all[seed - 3];
}

struct Job : Session<double> {
    double tolerance = 1e-10, relative_tolerance = 0;
    explicit Job(Backend backend, Learns learns = Learns::soon, unsigned long seed = 3) : Session(small, backend) {
        context->learns = learns;
        CHECK(put(seed));
    }
    // Returns true if the content changed.
    bool put(unsigned long seed) {
        Links of = links_of(seed);
        const milcgpu_field f = field(of.fat), l = field(of.lng);
        int changed = 1;
        REQUIRE((links == nullptr ? milcgpu_links_create(context, &f, &l, &links)
                                  : milcgpu_links_update(links, &f, &l, &changed)) == MILCGPU_OK);
        return changed != 0;
    }
    // Solves for n sources, numbered from `number` on.
    std::vector<milcgpu_solve_report> solve(int number, double mass = 0.002, int n = 1, int parity = MILCGPU_EVEN,
                                            milcgpu_eigenvectors *with = nullptr) {
        auto spec = solve_spec(mass, tolerance, MILCGPU_DOUBLE, MILCGPU_SINGLE);
        spec.parity = parity, spec.eigenvectors = with, spec.relative_tolerance = relative_tolerance;
        std::vector<milcgpu_solve_report> reports(n, sized<milcgpu_solve_report>());
        std::vector<std::vector<double>> b(n);
        std::vector<milcgpu_field> from, to;
        solutions.assign(n, {});
        for (int k = 0; k < n; ++k) {
            b[k] = reference::vector_to_milc<double>(lattice, random_fermion(lattice, 40 + number + k));
            solutions[k].assign(b[k].size(), 0);
            from.push_back(field(b[k])), to.push_back(field(solutions[k]));
        }
        CAPTURE(milcgpu_last_error());
        CHECK(milcgpu_staggered_solve_sources(links, &spec, MILCGPU_TOGETHER_AUTO, n, from.data(), to.data(),
                                              reports.data()) == MILCGPU_OK);
        for (const milcgpu_solve_report &report : reports)
            CHECK((tolerance <= 0 || report.true_residual < tolerance));
        return reports;
    }
    // The number of the first of `solves` solves that was deflated; -1: none.
    int first_deflated(int solves, double mass = 0.002) {
        for (int k = 0; k < solves; ++k)
            if (solve(k, mass)[0].eigenvectors > 0)
                return k;
        return -1;
    }
    int lines(const std::string &words) const {
        return static_cast<int>(
            std::count_if(messages.begin(), messages.end(), [&](const auto &line) { return has(line, words); }));
    }
    std::vector<std::vector<double>> solutions;
};

const char *const made = "eigenvectors that pay: ", *const none = "solves go on without the eigenvectors";

} // namespace

TEST_CASE("links that are solved on again and again get eigenvectors, and one line says so", "[eigen][learn]") {
    for (const Backend backend : backends()) {
        Job plain(backend, Learns::never), job(backend), again(backend);
        CHECK(plain.first_deflated(4) == -1);
        const int first = job.first_deflated(enough);
        CAPTURE(milcgpu::name(backend), first);
        CHECK(first >= 4);
        CHECK(job.lines(made) == 1);
        CHECK(job.lines(milcgpu::format("pay: %d solves with these links took ", first)) == 1);
        // A second run gets as many at the same solve, and the same bits.
        {
            const Environment set({{"MILCGPU_TEST", "progress"}});
            CHECK(again.first_deflated(enough) == first);
        }
        CHECK(job.lines(" Lanczos vectors") == 0);
        CHECK(again.lines("eigenvectors for further solves: ") > 0);
        CHECK(again.solutions == job.solutions);
        const auto with = job.solve(30)[0], without = plain.solve(30)[0];
        CAPTURE(with.steps, without.steps, with.eigenvectors);
        CHECK(with.steps < without.steps / 2);
        CHECK(with.deflations > 2);
        CHECK(without.eigenvectors == 0);
        double off = 0, size = 0;
        for (size_t i = 0; i < job.solutions[0].size(); ++i) {
            off += std::pow(job.solutions[0][i] - plain.solutions[0][i], 2);
            size += std::pow(plain.solutions[0][i], 2);
        }
        CHECK(std::sqrt(off / size) < 1e-6);
        // Several sources use them, too; a heavy mass gains nothing; the other parity counts its own solves.
        CHECK(job.solve(30, 0.002, 4)[3].eigenvectors == with.eigenvectors);
        CHECK(job.solve(30, 4.0)[0].eigenvectors == 0);
        CHECK(job.solve(30, 0.002, 1, MILCGPU_ODD)[0].eigenvectors == 0);
        // Loose solutions have the bits of a run without learning, and do not count.
        job.tolerance = plain.tolerance = again.tolerance = 1e-3;
        CHECK(job.solve(30)[0].eigenvectors == 0);
        plain.solve(30);
        CHECK(job.solutions == plain.solutions);
        again.put(4);
        CHECK(again.first_deflated(enough) == -1);
    }
}

TEST_CASE("learned eigenvectors do not deflate loose solves", "[eigen][learn][loose]") {
    for (const Backend backend : backends()) {
        Job job(backend);
        CHECK(job.first_deflated(enough) >= 0);
        for (const auto &[tolerance, relative] :
             {std::pair(1e-10, 0.0), {0, 1e-8}, {1e-3, 1e-8}, {1e-3, 0}, {0, 1e-3}, {1e-2, 1e-3}}) {
            job.tolerance = tolerance, job.relative_tolerance = relative;
            CAPTURE(milcgpu::name(backend), tolerance, relative);
            const bool tight = (tolerance > 0 && tolerance < 1e-5) || (relative > 0 && relative < 1e-5);
            CHECK((job.solve(20)[0].eigenvectors > 0) == tight);
        }
    }
}

TEST_CASE("each content of the links has its own eigenvectors, and few solves never make any", "[eigen][learn]") {
    LONG_TEST;
    for (const Backend backend : backends()) {
        Job job(backend);
        const int first = job.first_deflated(enough);
        CAPTURE(milcgpu::name(backend), first);
        REQUIRE(first >= 4);
        CHECK_FALSE(job.put(3)); // the content is the same
        CHECK(job.solve(0)[0].eigenvectors > 0);
        const size_t used = job.context->device->used_bytes();
        CHECK(job.put(4));
        CHECK(job.context->device->used_bytes() < used);
        CHECK(job.first_deflated(enough) >= 4);
        CHECK(job.lines(made) == 2);
        // As in molecular dynamics: new links after every second solve, with many more solves in all.
        Job rhmc(backend), plain(backend, Learns::never);
        for (int step = 0; step < 8; ++step) {
            for (int k = 0; k < 2; ++k) {
                CHECK(rhmc.solve(k)[0].eigenvectors == 0);
                plain.solve(k);
                CHECK(rhmc.solutions == plain.solutions);
            }
            rhmc.put(4 - step % 2), plain.put(4 - step % 2);
        }
        CHECK(rhmc.lines("eigenvectors") == 0);
    }
}

TEST_CASE("if eigenvectors do not pay or are switched off, solves have the bits of a run without learning",
          "[eigen][learn]") {
    for (const Backend backend : backends()) {
        Job plain(backend, Learns::never), few(backend, Learns::where_it_pays), heavy(backend), own(backend);
        CAPTURE(milcgpu::name(backend));
        auto spec = filled(milcgpu_eigen_defaults);
        spec.count = 16;
        milcgpu_eigenvectors *given = nullptr;
        REQUIRE(milcgpu_eigenvectors_compute(own.links, &spec, &given, nullptr) == MILCGPU_OK);
        for (int k = 0; k < 8; ++k) {
            plain.solve(k), few.solve(k);
            CHECK(few.solutions == plain.solutions);
            plain.solve(k, 1.0), heavy.solve(k, 1.0);
            CHECK(heavy.solutions == plain.solutions);
            // The eigenvectors of the call itself.
            CHECK(own.solve(k, 0.002, 1, MILCGPU_EVEN, given)[0].eigenvectors == 16);
        }
        CHECK(own.context->learns == Learns::never);
        milcgpu_eigenvectors_destroy(given);
        for (const Job *job : {&plain, &few, &heavy, &own})
            CHECK(job->lines("links that are") == 0);
    }
}

TEST_CASE("if memory is short, links get fewer eigenvectors or none, or free them", "[eigen][learn]") {
    LONG_TEST;
    for (const Backend backend : backends()) {
        CAPTURE(milcgpu::name(backend));
        Job job(backend), fewer(backend), room(backend), fails(backend), plain(backend, Learns::never);
        const int first = job.first_deflated(enough);
        REQUIRE(first >= 4);
        const int all = job.solve(0)[0].eigenvectors;
        milcgpu::LanczosLimits limits;
        limits.count = all;
        const auto planned = [&] { return lanczos_plan(*fewer.context->device, fewer.context->geometry, limits); };
        for (limits.memory = planned().bytes; planned().count == all;)
            limits.memory -= limits.memory / 50;
        fewer.context->bytes_to_learn = double(limits.memory);
        CHECK(fewer.first_deflated(enough) >= 4);
        CHECK(fewer.solve(0)[0].eigenvectors < all);
        room.context->bytes_to_learn = 1000;
        CHECK(room.first_deflated(first + 2) == -1);
        CHECK(fails.first_deflated(first) == -1);
        REQUIRE(milcgpu_fault_inject(fails.context, MILCGPU_FAULT_ALLOCATION) == MILCGPU_OK);
        CHECK(fails.first_deflated(2) == -1);
        CHECK(fails.lines(none) == 1);
        // An allocation that needs their memory frees them.
        const size_t used = job.context->device->used_bytes();
        while (job.context->release_idle())
            continue;
        CHECK(job.context->device->used_bytes() < used);
        CHECK(job.solve(0)[0].eigenvectors == 0);
        plain.solve(0);
        CHECK(job.solutions == plain.solutions);
        CHECK(job.lines("would have paid: memory was short") == 1);
        CHECK(job.first_deflated(8) == -1);
    }
}

TEST_CASE("learned eigenvectors with flipped bits are dropped, and solutions hold", "[eigen][learn]") {
    for (const Backend backend : backends()) {
        Job job(backend);
        REQUIRE(job.first_deflated(enough) >= 4);
        const milcgpu::SpinorBlock bad = (*job.links->learning[0]->before(4e-6, 1e-10))[1];
        std::vector<unsigned char> bytes(16 * bad.sites);
        job.context->device->copy_to_host(bytes.data(), bad.data, bytes.size());
        for (unsigned char &byte : bytes)
            byte ^= 0xAA;
        job.context->device->copy_to_device(bad.data, bytes.data(), bytes.size());
        const auto report = job.solve(0)[0];
        CAPTURE(milcgpu::name(backend), report.message);
        CHECK(report.deflation_off == 1);
        CHECK(job.lines("would have paid: the eigenvectors are") == 1);
        CHECK(job.first_deflated(8) == -1);
    }
}

TEST_CASE("programs that ask for it learn, and MILC learns unless MILCGPU_AUTO forbids it", "[eigen][learn]") {
    const auto learns = [](int asked, const char *automatic, const char *test) {
        const Environment environment{{"MILCGPU_AUTO", automatic}, {"MILCGPU_TEST", test}};
        const milcgpu_layout layout = layout_of(small);
        auto options = sized<milcgpu_options>();
        options.backend = MILCGPU_HOST, options.learn = asked;
        milcgpu_context *context = nullptr;
        REQUIRE(milcgpu_context_create(&layout, &options, &context) == MILCGPU_OK);
        const Learns seen = context->learns;
        milcgpu_context_destroy(context);
        return seen;
    };
    CHECK(learns(0, "1", "learn") == Learns::never);
    CHECK(learns(1, "", "") == Learns::where_it_pays);
    CHECK(learns(1, "1", "learn") == Learns::soon);
    CHECK(learns(1, "no_eigenvectors", "learn") == Learns::never);
    CHECK(learns(1, "0", "learn") == Learns::never);
}

TEST_CASE("a measurement of many sources learns, and its correlators agree to the tolerance",
          "[eigen][learn][plugin]") {
    for (const Backend backend : backends()) {
        std::vector<double> correlators[2];
        std::string said[2];
        int solves = enough;
        for (const int learns : {1, 0}) {
            const Environment environment{{"MILCGPU_BACKEND", backend_name(backend)},
                                          {"MILCGPU_AUTO", learns ? "1" : "no_eigenvectors"},
                                          {"MILCGPU_TEST", "learn"}};
            Milc milc(small);
            milc.fat = links_of(3).fat, milc.lng = links_of(3).lng;
            said[learns] = said_by([&] {
                REQUIRE(milc.start() == 1);
                for (int k = 0; k < solves; ++k) {
                    milc.source = reference::vector_to_milc<double>(small, random_fermion(small, 40 + k));
                    milc.x.assign(milc.x.size(), 0);
                    auto call = milc.call();
                    call.mass = 0.002, call.tolerance = 1e-10;
                    REQUIRE(milcgpu_plugin_solve(&call, &milc.report) == 1);
                    CHECK(milc.report.true_residual < 1e-10);
                    if (milc.report.eigenvectors > 0)
                        solves = k + 1;
                }
                CHECK((milc.report.eigenvectors > 0) == (learns == 1));
            });
            const auto x = reference::vector_from_milc<double>(small, milc.x);
            correlators[learns].assign(small.n[3], 0); // of the last source
            for (int s = 0; s < small.volume(); ++s)
                correlators[learns][small.coordinates(s)[3]] += reference::norm2(x[s]);
        }
        CAPTURE(milcgpu::name(backend), said[1]);
        for (int t = 0; t < small.n[3]; ++t)
            CHECK(correlators[1][t] == Approx(correlators[0][t]).epsilon(1e-6));
        CHECK(has(said[1], made));
        CHECK(!has(said[0], made));
    }
}

TEST_CASE("ranks learn together", "[eigen][learn]") {
    Fields fields = fields_on({4, 4, 4, 8}, false);
    fields.fat = links_of(3).fat, fields.lng = links_of(3).lng;
    for (const Backend backend : backends()) {
        int first[2] = {-1, -1}, after[2] = {-1, -1};
        const auto endings = on_cut(fields, {{4, 4, 4, 8}, {1, 1, 1, 2}, 0}, backend, [&](Here &here, Ending &) {
            here.context->learns = Learns::soon;
            const auto solve = [&] {
                const milcgpu_field b = field_of(here.source);
                std::vector<double> solution(here.source.size());
                const milcgpu_field x = field_of(solution);
                auto spec = solve_spec(0.002, 1e-10, MILCGPU_DOUBLE, MILCGPU_SINGLE);
                auto report = sized<milcgpu_solve_report>();
                demand(milcgpu_staggered_solve(here.links, &spec, &b, &x, &report));
                return report.eigenvectors;
            };
            for (int k = 0; k < enough && first[here.rank()] < 0; ++k)
                if (solve() > 0)
                    first[here.rank()] = k;
            // One of the ranks must free memory.
            if (here.rank() == 1 && !here.links->learning[0]->release_idle())
                throw milcgpu::Error(milcgpu::Status::bad_argument, "nothing was given back");
            after[here.rank()] = solve();
        });
        CAPTURE(milcgpu::name(backend));
        CHECK(all_well(endings));
        CHECK(first[0] >= 4);
        CHECK(first[1] == first[0]);
        CHECK((after[0] == 0 && after[1] == 0));
    }
}
