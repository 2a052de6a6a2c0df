// Bits flip in device memory while a solve runs: no wrong solution may get the status OK.
#include "milc_glue/api/context.h"
#include "tests/support.h"
#include <algorithm>
#include <cstdlib>
#include <map>

using namespace tests;

namespace {

constexpr double mass = 0.1, tolerance = 1e-9;

// |b - A x| / |b| by the reference.
double residual(const reference::Lattice &lattice, const AsqtadLinks &links, const reference::Fermion &b,
                const reference::Fermion &x) {
    const auto ax = reference::normal_operator(lattice, links.fat, links.lng, mass, 0, x);
    double rr = 0, bb = 0;
    for (int s = 0; s < lattice.volume(); ++s)
        if (lattice.parity(s) == 0)
            rr += reference::norm2(b[s] - ax[s]), bb += reference::norm2(b[s]);
    return std::sqrt(rr / bb);
}

struct Outcomes {
    int harmless = 0, corrupted = 0, other = 0, wrong = 0;
};

// Flips one bit in the middle of a solve.
struct Flip {
    milcgpu_context *context;
    size_t bit;
    int at_step;
    std::string owner;
    static void progress(void *user, int step, double) {
        Flip &flip = *static_cast<Flip *>(user);
        if (flip.owner.empty() && step >= flip.at_step)
            flip.owner = flip.context->device->flip_bit(flip.bit);
    }
};

// Runs `flips` solves, of one source or of several in one Krylov space, and flips a random bit in each. After a lost
// device the next solve gets a new session.
std::map<std::string, Outcomes> flip_bits(milcgpu::Backend backend, const reference::Lattice &lattice, int flips,
                                          int sloppy, int sources) {
    const AsqtadLinks links = asqtad_links(lattice, 91);
    reference::Rng rng(93 + sloppy);
    std::map<std::string, Outcomes> table;
    std::unique_ptr<Session<double>> session;
    std::vector<reference::Fermion> b;
    std::vector<std::vector<double>> host;
    for (int k = 0; k < sources; ++k) {
        b.push_back(random_fermion(lattice, 92 + k));
        host.push_back(reference::vector_to_milc<double>(lattice, b[k]));
    }
    const std::vector<double> guess(host[0].size(), 0.25);
    for (int k = 0; k < flips; ++k) {
        if (!session) {
            session = std::make_unique<Session<double>>(lattice, backend, 0, 0);
            REQUIRE(session->load(links.fat, links.lng) == MILCGPU_OK);
        }
        std::vector<std::vector<double>> x(sources, guess);
        milcgpu_solve_spec spec = solve_spec(mass, tolerance, MILCGPU_DOUBLE, sloppy);
        Flip flip{session->context, rng(), 8 + static_cast<int>(rng() % 40), ""};
        spec.progress = Flip::progress;
        spec.user = &flip;
        std::vector<milcgpu_field> from, to;
        for (int k = 0; k < sources; ++k)
            from.push_back(session->field(host[k])), to.push_back(session->field(x[k]));
        std::vector<milcgpu_solve_report> reports(sources, sized<milcgpu_solve_report>());
        const milcgpu_status status =
            sources == 1 ? milcgpu_staggered_solve(session->links, &spec, &from[0], &to[0], &reports[0])
                         : milcgpu_staggered_solve_sources(session->links, &spec, MILCGPU_BLOCK, sources, from.data(),
                                                           to.data(), reports.data());
        Outcomes &outcomes = table[flip.owner];
        CAPTURE(k, flip.owner, flip.bit, flip.at_step, milcgpu_status_name(status), milcgpu_last_error());
        // Each source has its own status, and the call has the gravest, unless the call ended before the solve.
        const bool none = status != MILCGPU_OK && std::all_of(reports.begin(), reports.end(), [](const auto &report) {
                              return report.status == MILCGPU_OK;
                          });
        bool right = true;
        for (int k = 0; k < sources; ++k) {
            const int own = none ? status : reports[k].status;
            const bool is_right =
                residual(lattice, links, b[k], reference::vector_from_milc<double>(lattice, x[k])) < 1.001 * tolerance;
            right = right && (own != MILCGPU_OK || is_right);
            if (own != MILCGPU_OK && own != MILCGPU_NOT_CONVERGED && own != MILCGPU_PRECISION_FLOOR)
                CHECK(x[k] == guess); // untouched
        }
        CHECK(right);
        ++(!right                        ? outcomes.wrong
           : status == MILCGPU_OK        ? outcomes.harmless
           : status == MILCGPU_CORRUPTED ? outcomes.corrupted
                                         : outcomes.other);
        if (status == MILCGPU_DEVICE_LOST)
            session.reset();
        else // a reload also finds bits in packed links that did no harm
            REQUIRE(session->load(links.fat, links.lng) == MILCGPU_OK);
    }
    return table;
}

} // namespace

TEST_CASE("bits that flip in device memory never give a wrong solution the status OK", "[faults][flips]") {
    const char *asked = std::getenv("MILCGPU_FLIPS"); // on a GPU: 1000
    for (const milcgpu::Backend backend : backends()) {
        const bool gpu = backend == milcgpu::Backend::cuda;
        const int flips = asked != nullptr && gpu ? std::atoi(asked) : gpu ? 100 : long_tests() ? 24 : 12;
        int corrupted = 0;
        for (const int sloppy : {MILCGPU_DOUBLE, MILCGPU_HALF, MILCGPU_SINGLE}) {
            const int third = (flips + 2) / 3, sources = sloppy == MILCGPU_SINGLE ? 3 : 1;
            const auto table =
                flip_bits(backend, {gpu ? std::array<int, 4>{8, 8, 8, 8} : std::array<int, 4>{4, 4, 4, 6}}, third,
                          sloppy, sources);
            std::printf("%s, double/%s, %d source(s): %d bits flipped while solves ran\n%-28s %9s %9s %9s %9s\n",
                        milcgpu::name(backend), milcgpu::name(static_cast<milcgpu::Precision>(sloppy - 1)), sources,
                        third, "in", "harmless", "corrupted", "other", "wrong");
            Outcomes all;
            for (const auto &[owner, o] : table) {
                std::printf("%-28s %9d %9d %9d %9d\n", owner.c_str(), o.harmless, o.corrupted, o.other, o.wrong);
                all.harmless += o.harmless, all.corrupted += o.corrupted, all.other += o.other, all.wrong += o.wrong;
            }
            std::printf("%-28s %9d %9d %9d %9d\n", "all", all.harmless, all.corrupted, all.other, all.wrong);
            CHECK(all.wrong == 0);
            corrupted += all.corrupted;
        }
        CHECK(corrupted > 0);
    }
}

TEST_CASE("if links change on the device, the solve names them and empties the handle, and an update restores it",
          "[faults][smoke]") {
    const reference::Lattice lattice{{4, 4, 4, 6}};
    const AsqtadLinks links = asqtad_links(lattice, 94);
    const auto b = random_fermion(lattice, 95);
    for (const milcgpu::Backend backend : backends()) {
        Session<double> session(lattice, backend, links, 0, 0);
        auto source = reference::vector_to_milc<double>(lattice, b);
        std::vector<double> x(source.size(), 0.5);
        const milcgpu_field from = session.field(source), to = session.field(x);
        const milcgpu_solve_spec spec = solve_spec(mass, tolerance, MILCGPU_DOUBLE, MILCGPU_DOUBLE);
        const auto solve = [&] { return milcgpu_staggered_solve(session.links, &spec, &from, &to, nullptr); };
        const auto flip = [&] { milcgpu_fault_inject(session.context, MILCGPU_FAULT_FLIP_LINKS); };
        flip();
        const std::vector<double> before = x;
        CHECK(solve() == MILCGPU_CORRUPTED);
        CHECK(last_error_says("fat links"));
        CHECK(x == before);
        CHECK(solve() == MILCGPU_BAD_ARGUMENT); // empty
        REQUIRE(session.load(links.fat, links.lng) == MILCGPU_OK);
        CHECK(solve() == MILCGPU_OK);
        CHECK(residual(lattice, links, b, reference::vector_from_milc<double>(lattice, x)) < tolerance);
        // With MILCGPU_VERIFY=0 the solve does not see the flip, here of links that no solve has packed.
        reference::Gauge other = links.fat;
        other[0].e[0][0] *= 1.01;
        REQUIRE(session.load(other, links.lng) == MILCGPU_OK);
        flip();
        session.context->verify = false;
        CHECK(solve() == MILCGPU_OK);
        CHECK(residual(lattice, links, b, reference::vector_from_milc<double>(lattice, x)) > 1e-6);
    }
}
