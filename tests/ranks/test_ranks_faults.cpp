// Faults on one rank alone during a collective call: every rank gets a message, none hangs, and the ranks go on if they
// can.
#include "milc_glue/links/links_handle.h"
#include "milc_glue/solve/kept_solver.h"
#include "tests/cut_support.h"
#include <algorithm>
#include <cmath>

using namespace milcgpu;
using namespace tests;

namespace {

const Cut two_ranks{{4, 4, 4, 8}, {1, 1, 1, 2}, 0};

struct Solve {
    milcgpu_solve_spec spec = sized<milcgpu_solve_spec>();
    milcgpu_solve_report report = sized<milcgpu_solve_report>();
    std::vector<double> source, x;
    explicit Solve(const Here &here) : source(here.source), x(here.source.size(), 0.0) {
        spec.parity = MILCGPU_EVEN;
        spec.mass = 0.1;
        spec.tolerance = 1e-8;
        spec.max_iterations = 500, spec.max_restarts = 5;
        spec.precise.precision = MILCGPU_DOUBLE;
    }
    milcgpu_status operator()(const Here &here) {
        const milcgpu_field b = field_of(source), to = field_of(x);
        return milcgpu_staggered_solve(here.links, &spec, &b, &to, &report);
    }
    bool untouched() const {
        return std::all_of(x.begin(), x.end(), [](double v) { return v == 0; });
    }
};

// `spoil` changes a solve or its surroundings on one rank. The solve must fail on both ranks, with the statuses in
// `endings`, and leave its outputs untouched. after: the status of the next, unspoiled solve on both ranks.
std::vector<Ending> spoiled(const std::function<void(Here &, Solve &)> &spoil, milcgpu_status after = MILCGPU_OK,
                            int on_rank = 1) {
    static const Fields fields = fields_on(two_ranks.whole, false);
    std::vector<milcgpu_status> next(2);
    std::vector<Ending> endings = on_cut(fields, two_ranks, Backend::host, [&](Here &here, Ending &ending) {
        Solve solve(here);
        if (here.rank() == on_rank)
            spoil(here, solve);
        ending.status = solve(here);
        ending.text = ending.status == MILCGPU_OK ? "" : milcgpu_last_error();
        if (ending.status != MILCGPU_OK && !solve.untouched())
            ending.text = "the solution was written";
        next[here.rank()] = Solve(here)(here);
    });
    CHECK(next[0] == after);
    CHECK(next[1] == after);
    return endings;
}

// Memory that is freed each time another allocation needs some.
struct Keeper : Evictable {
    DeviceArray<unsigned char> kept;
    explicit Keeper(milcgpu_context &context) : Evictable(context) { register_here(); }
    bool release_idle() override {
        const bool any = kept.bytes() > 0;
        kept = {};
        return any;
    }
};

} // namespace

TEST_CASE("ranks: if one rank fails, all fail with a message that names it, and the next solve works",
          "[ranks][faults][sanitize]") {
    CHECK(all_ended(spoiled([](Here &here, Solve &) { milcgpu_fault_inject(here.context, MILCGPU_FAULT_ALLOCATION); }),
                    Status::no_memory, "rank 1 of 2: "));
    CHECK(all_ended(spoiled([](Here &, Solve &solve) { solve.source[0] = NAN; }), Status::nan_or_inf,
                    "rank 1 of 2: source: the site x y z t = 0 0 0 4 holds"));
    CHECK(all_ended(spoiled([](Here &, Solve &solve) { solve.spec.max_restarts = 0; }), Status::bad_argument,
                    "rank 1 of 2: spec.max_restarts is 0"));
    // Also if it is rank 0.
    CHECK(all_ended(spoiled([](Here &here, Solve &) { milcgpu_fault_inject(here.context, MILCGPU_FAULT_ALLOCATION); },
                            MILCGPU_OK, 0),
                    Status::no_memory, "rank 0 of 2: "));
}

TEST_CASE("ranks: if memory is short on one rank in a solve of a very light mass, all fail or all do without it",
          "[ranks][faults]") {
    const Fields fields = fields_on(two_ranks.whole, false);
    std::vector<std::string> did(2);
    std::vector<int> without(2); // solves that went on without the vectors to start in double
    const auto endings = on_cut(fields, two_ranks, Backend::host, [&](Here &here, Ending &) {
        bool came = true;
        for (int after = 0; came; ++after)
            for (const bool first : {true, false}) { // the second solve of the same solver has memory
                Solve solve(here);
                solve.spec.mass = 1e-3, solve.spec.max_iterations = 24, solve.spec.max_restarts = 1;
                solve.spec.sloppy.precision = MILCGPU_SINGLE;
                if (first)
                    kept_solvers(*here.context).all.clear();
                if (here.rank() == 1)
                    here.context->device->inject(first ? Fault::allocation : Fault::none, after);
                const milcgpu_status status = solve(here);
                if (first)
                    came = here.context->ranks->gathered("test", here.context->device->planted())[1] == Fault::none;
                did[here.rank()] += format("%d ", status);
                without[here.rank()] += first && came && status != MILCGPU_NO_MEMORY;
            }
    });
    CHECK(all_well(endings));
    CHECK(did[0] == did[1]);
    CHECK(without[0] == without[1]);
    CHECK(without[0] > 0);
}

TEST_CASE("ranks: if memory is short on one rank, all free what is idle, and allocate it again", "[ranks][faults]") {
    const Fields fields = fields_on(two_ranks.whole, false);
    std::vector<std::vector<double>> before(2), after(2);
    std::vector<size_t> kept(2);
    const auto endings = on_cut(fields, two_ranks, Backend::host, [&](Here &here, Ending &) {
        const milcgpu_storage half{MILCGPU_HALF, 13};
        const milcgpu_field from = field_of(here.source);
        const auto all = [&](std::vector<double> &results) {
            for (const int sloppy : {MILCGPU_SINGLE, MILCGPU_DOUBLE}) {
                Solve solve(here);
                solve.spec.sloppy.precision = sloppy;
                demand(solve(here));
                results.insert(results.end(), solve.x.begin(), solve.x.end());
            }
            std::vector<double> d(here.source.size());
            const milcgpu_field to = field_of(d);
            demand(milcgpu_staggered_dslash(here.links, &half, MILCGPU_EVEN, &from, &to)); // which needs its own links
            results.insert(results.end(), d.begin(), d.end());
        };
        all(before[here.rank()]);
        Device &device = *here.context->device;
        if (here.rank() == 1)
            device.set_memory_limit(device.used_bytes());
        Solve more(here);
        more.spec.parity = MILCGPU_ODD;
        demand(more(here));
        kept[here.rank()] = kept_solvers(*here.context).all.size();
        device.set_memory_limit(0);
        all(after[here.rank()]);
    });
    CHECK(all_well(endings));
    CHECK(kept[0] == kept[1]);
    CHECK(kept[0] < 3);
    for (const int rank : {0, 1})
        CHECK(same_bits(before[rank], after[rank]));
}

TEST_CASE("ranks: if one rank is half full, no rank packs links for several sites, and the solution is the same",
          "[ranks][faults][lanes]") {
    const Fields fields = fields_on(two_ranks.whole, false);
    std::vector<int> packed(2);
    const auto endings = on_cut(fields, two_ranks, Backend::host, [&](Here &here, Ending &) {
        Device &device = *here.context->device;
        if (here.rank() == 1)
            device.set_memory_limit(2 * device.used_bytes() - 1);
        Solve without(here), with(here);
        with.spec.sloppy.precision = without.spec.sloppy.precision = MILCGPU_DOUBLE;
        demand(without(here));
        packed[here.rank()] += here.links->links->has_lanes(Precision::double_);
        device.set_memory_limit(0);
        kept_solvers(*here.context).all.clear();
        demand(with(here));
        packed[here.rank()] += 2 * here.links->links->has_lanes(Precision::double_);
        if (!same_bits(with.x, without.x))
            packed[here.rank()] = -1;
    });
    CHECK(all_well(endings));
    CHECK(packed == std::vector<int>(2, MILCGPU_LANES ? 2 : 0));
}

TEST_CASE("ranks: a failed allocation on one rank before an inner step fails or retries on all", "[ranks][faults]") {
    const Fields fields = fields_on(two_ranks.whole, false);
    struct Seen {
        std::vector<int> begun, ended;
        bool operator==(const Seen &o) const { return begun == o.begun && ended == o.ended; }
    };
    std::vector<Seen> seen(2);
    const auto endings = on_cut(fields, two_ranks, Backend::host, [&](Here &here, Ending &) {
        Device &device = *here.context->device;
        Keeper keeper(*here.context);
        const auto attempt = [&](size_t bytes, bool keeps) {
            int begun = 0, ended = MILCGPU_OK;
            try {
                device.collective("a step", [&] {
                    ++begun;
                    if (keeps)
                        keeper.kept = {device, 1024, "test"};
                    const DeviceArray<unsigned char> own(device, bytes, "test");
                    device.collective("a step within", [] {});
                });
            } catch (const Error &error) {
                ended = static_cast<int>(error.status());
            }
            seen[here.rank()].begun.push_back(begun), seen[here.rank()].ended.push_back(ended);
        };
        const bool is_short = here.rank() == 1;
        keeper.kept = {device, 4096, "test"};
        device.set_memory_limit(is_short ? device.used_bytes() : 0);
        attempt(4096, false); // fits once idle memory is freed
        keeper.kept = {device, 4096, "test"};
        device.inject(is_short ? Fault::allocation : Fault::none, 0);
        attempt(4096, false);   // does not fit even then
        attempt(1 << 20, true); // memory that the attempt itself makes idle does not help
        device.set_memory_limit(0);
        attempt(1 << 20, true);
    });
    CHECK(all_well(endings));
    CHECK(seen[0] == seen[1]);
    CHECK(seen[0].begun == std::vector<int>{2, 1, 2, 1});
    CHECK(seen[0].ended == std::vector<int>{MILCGPU_OK, MILCGPU_NO_MEMORY, MILCGPU_NO_MEMORY, MILCGPU_OK});
}

TEST_CASE("ranks: links that change on the device of one rank end the solve on all", "[ranks][faults][sanitize]") {
    // The links are empty on that rank until all ranks update them.
    CHECK(all_ended(spoiled([](Here &here, Solve &) { milcgpu_fault_inject(here.context, MILCGPU_FAULT_FLIP_LINKS); },
                            MILCGPU_BAD_ARGUMENT),
                    Status::corrupted, "rank 1 of 2: "));
}

TEST_CASE("ranks: a lost device on one rank, or a missing rank, ends the call on the others", "[ranks][faults]") {
    const Environment environment{{"MILCGPU_TIMEOUT", "0.5"}};
    const Fields fields = fields_on(two_ranks.whole, false);
    for (const bool lost : {true, false}) {
        CAPTURE(lost);
        std::vector<milcgpu_status> next(2);
        const auto endings = on_cut(fields, two_ranks, Backend::host, [&](Here &here, Ending &ending) {
            Solve solve(here);
            if (here.rank() == 1 && lost)
                here.context->device->inject(Fault::device_lost, 3); // three waits for the device succeed before
            if (here.rank() == 0 || lost)
                ending.status = solve(here);
            ending.text = ending.status == MILCGPU_OK ? "" : milcgpu_last_error();
            const double begin = wall_seconds();
            if (here.rank() == 0) { // fails at once with the same message
                next[0] = Solve(here)(here);
                if (wall_seconds() - begin > 0.25)
                    ending.text = "the next call waited";
            }
        });
        CHECK(endings[0].status == MILCGPU_TIMED_OUT);
        CHECK(has(endings[0].text, "rank 1"));
        CHECK(next[0] == MILCGPU_TIMED_OUT);
        CHECK(endings[1].status == (lost ? MILCGPU_DEVICE_LOST : MILCGPU_OK));
        CHECK(endings[0].seconds < 20);
    }
}

TEST_CASE("ranks: links edited on one rank are new links on all", "[ranks][sanitize]") {
    const Fields fields = fields_on(two_ranks.whole, false);
    std::vector<std::array<int, 4>> changed(2);
    std::vector<std::array<uint64_t, 4>> versions(2);
    const auto endings = on_cut(fields, two_ranks, Backend::host, [&](Here &here, Ending &) {
        const auto update = [&](int k) {
            const milcgpu_field f = field_of(here.fat), l = field_of(here.lng);
            demand(milcgpu_links_update(here.links, &f, &l, &changed[here.rank()][k]));
            versions[here.rank()][k] = milcgpu_links_version(here.links);
        };
        update(0);
        if (here.rank() == 1)
            here.fat[7] += 0.125;
        update(1);
        std::fill(here.fat.begin(), here.fat.end(), 0.5);
        update(2);
        for (size_t k = 0; k < 18; ++k) // equal links on both ranks
            here.fat[k] = -here.fat[k];
        update(3);
    });
    CHECK(all_well(endings));
    for (int rank = 0; rank < 2; ++rank) {
        CHECK(changed[rank] == std::array<int, 4>{0, 1, 1, 1});
        CHECK(versions[rank] == versions[0]);
        for (int k = 1; k < 4; ++k)
            CHECK(versions[rank][k] > versions[rank][k - 1]);
    }
}

TEST_CASE("ranks: a source may be zero on all ranks but one, and on all", "[ranks][sanitize]") {
    const Fields fields = fields_on(two_ranks.whole, false);
    for (const bool none : {false, true}) {
        std::vector<double> norms(2), residuals(2), sizes(2);
        const auto endings = on_cut(fields, two_ranks, Backend::host, [&](Here &here, Ending &) {
            Solve solve(here);
            std::fill(solve.source.begin(), solve.source.end(), 0);
            if (here.rank() == 0 && !none)
                solve.source[0] = 1;
            demand(solve(here));
            norms[here.rank()] = solve.report.source_norm, residuals[here.rank()] = solve.report.true_residual;
            for (const double v : solve.x)
                sizes[here.rank()] += v * v;
        });
        CAPTURE(none);
        CHECK(all_well(endings));
        for (int rank = 0; rank < 2; ++rank) {
            CHECK(norms[rank] == (none ? 0 : 1));
            CHECK(residuals[rank] < 1e-8);
            CHECK(residuals[rank] == residuals[0]);
            CHECK((sizes[rank] > 0) == !none);
        }
    }
}

TEST_CASE("ranks: with MILCGPU_TEST=check_halo a message that changes on the way ends the call on all",
          "[ranks][faults][sanitize]") {
    const Environment environment{{"MILCGPU_TEST", "check_halo"}};
    // A face of vectors in double: 3 layers of 32 places of 48 bytes.
    const auto endings = spoiled([](Here &here, Solve &) { here.room->corrupt(1, 3 * 32 * 48); });
    CHECK(all_ended(endings, Status::comm, "rank 1 of 2: the halo of a vector: 4624 bytes from rank 0 of 2 ("));
    CHECK(all_ended(endings, Status::comm, "MILCGPU_TEST=check_halo"));
    // Without a fault nothing is found.
    for (const Ending &ending : spoiled([](Here &, Solve &) {}))
        CHECK(ending.status == MILCGPU_OK);
}
