// Every call of the table (calls_support.h) on lattices that are cut, over ranks and emulated, compared with the call
// on the whole lattice.
#include "milc_glue/api/context.h"
#include "tests/calls_whole.h"
#include "tests/cut_support.h"

using namespace tests;
using milcgpu::Backend;

namespace {

// Solves of all kinds, which take far more messages than other calls.
bool iterates(const Call &call) {
    return has(call.function, "_solve") || has(call.function, "multi_mass") || has(call.function, "_compute");
}

// A call on a lattice that is cut: fields of the whole lattice, numbers of rank 0, and counts over all ranks.
struct CutRun {
    State state;
    std::vector<uint64_t> counts;
    std::string wrong;
};

std::vector<CutRun> run_on_cut(const std::vector<Call> &all, const Fields &fields, const WholeFields &whole,
                               const Cut &cut, Backend backend, bool iterate, bool &well) {
    std::vector<CutRun> made(all.size());
    std::vector<std::vector<State>> states(cut.ranks(), std::vector<State>(all.size()));
    std::vector<std::vector<size_t>> places(cut.ranks());
    std::vector<std::vector<std::vector<uint64_t>>> counts(cut.ranks());
    const auto endings = on_cut(fields, cut, backend, [&](Here &here, Ending &) {
        World w(here.context, whole, here.places);
        places[here.rank()] = here.places;
        for (size_t k = 0; k < all.size(); ++k) {
            if (!iterate && iterates(all[k])) {
                counts[here.rank()].emplace_back();
                continue;
            }
            w.start_again(); // so that state() reads no handle that the call does not take
            const BoundCall with = all[k].with(w);
            const milcgpu_status status = with.run();
            if (status != MILCGPU_OK)
                throw milcgpu::Error(static_cast<milcgpu::Status>(status), milcgpu_last_error());
            states[here.rank()][k] = w.state();
            counts[here.rank()].push_back(w.counts());
        }
    });
    well = all_well(endings);
    for (size_t k = 0; well && k < all.size(); ++k) {
        made[k].state = states[0][k];
        made[k].counts.resize(counts[0][k].size());
        for (int rank = 0; rank < cut.ranks(); ++rank)
            for (size_t i = 0; i < counts[rank][k].size(); ++i)
                made[k].counts[i] += counts[rank][k][i];
        for (size_t p = 0; p < made[k].state.size(); ++p) {
            Part &part = made[k].state[p];
            if (part.reals > 0)
                part.numbers.assign(part.reals * whole.lattice.volume(), -7);
            for (int rank = 0; rank < cut.ranks(); ++rank) {
                const Reals &own = states[rank][k][p].numbers;
                if (part.reals > 0 && own.size() == part.reals * places[rank].size())
                    Fields::put(part.numbers, own, places[rank], part.reals);
                else if (!same_bits(own, part.numbers))
                    made[k].wrong += part.name + " of rank " + std::to_string(rank) + "; ";
            }
        }
    }
    return made;
}

} // namespace

TEST_CASE("calls on lattices that are cut, over ranks and emulated: fields and numbers of the whole lattice",
          "[ranks][cut][calls]") {
    std::vector<Cut> cuts = {{{4, 4, 4, 8}, {1, 1, 1, 2}, 0},
                             {{4, 6, 4, 4}, {1, 1, 1, 1}, 15},
                             {{4, 6, 4, 4}, {1, 1, 1, 1}, 10},
                             {{10, 6, 4, 2}, {2, 2, 1, 1}, 4}}; // 5 and 3 sites, and a cut that is emulated
    constexpr int with_iterations = 2;                          // of them in a short run, and on a GPU
    if (long_tests())
        cuts.insert(cuts.end(), {{{4, 4, 4, 12}, {1, 1, 1, 3}, 0},
                                 {{6, 6, 6, 6}, {2, 2, 2, 2}, 0}, // odd in all directions
                                 {{4, 6, 4, 4}, {1, 1, 1, 1}, 5},
                                 {{4, 6, 4, 4}, {1, 1, 1, 1}, 4}});
    std::vector<Call> all;
    for (const Call &call : calls())
        if (!(call.traits & Call::alone))
            all.push_back(call);
    for (const Backend backend : backends()) {
        Extents extents{};
        std::vector<CutRun> one; // on the whole lattice
        for (const Cut &cut : cuts) {
            const WholeFields &whole = fields_of(cut.whole, 2); // rough: some links go by singular values
            const Fields fields = fields_on(cut.whole, false);
            bool well = true;
            const bool iterate = (long_tests() && backend == Backend::host) || &cut - cuts.data() < with_iterations;
            if (std::exchange(extents, cut.whole) != cut.whole)
                one = run_on_cut(all, fields, whole, {cut.whole, {1, 1, 1, 1}, 0}, backend, iterate, well);
            REQUIRE(well);
            const auto many = run_on_cut(all, fields, whole, cut, backend, iterate, well);
            CAPTURE(text_of(cut), name(backend));
            CHECK(well);
            std::vector<uint64_t> counted(one[0].counts.size());
            for (size_t k = 0; well && k < all.size(); ++k) {
                CAPTURE(all[k].name());
                if (many[k].state.empty())
                    continue;
                CHECK(many[k].wrong.empty());
                CHECK(many[k].counts == one[k].counts);
                for (size_t i = 0; i < counted.size(); ++i)
                    counted[i] += one[k].counts[i];
                REQUIRE(many[k].state.size() == one[k].state.size());
                for (size_t p = 0; p < one[k].state.size(); ++p) {
                    const Part &a = many[k].state[p], &b = one[k].state[p];
                    if (b.name == "residual") // of rounding size
                        continue;
                    const bool rounded =
                        b.reals == 0 || has(b.name, "dirac") || has(b.name, "Wilson") || has(all[k].name(), "laplace");
                    const double allowed = !is_of_a_solve(all[k], b)                         ? (rounded ? 1e-14 : 0)
                                           : all[k].traits & Call::loose && b.name == "x[0]" ? 5e-2
                                                                                             : 1e-7;
                    const double off = same_bits(a.numbers, b.numbers) ? 0 : largest_difference(a.numbers, b.numbers);
                    CAPTURE(b.name, off);
                    CHECK(off <= allowed);
                }
            }
            for (const uint64_t count : counted)
                CHECK(count > 0);
        }
    }
}

TEST_CASE("if one allocation of a call fails on one rank alone, the call ends with one status on all ranks",
          "[ranks][cut][calls][faults]") {
    const Cut cut{{4, 4, 4, 8}, {1, 1, 1, 2}, 0};
    const WholeFields &whole = fields_of(cut.whole);
    std::vector<std::string> ends(2);
    const auto work = [&](Here &here, Ending &) {
        World w(here.context, whole, here.places);
        milcgpu::Device &device = *here.context->device;
        for (const Call &call : calls())
            // Each time a later allocation fails, until all succeed. The later ones of many are sampled.
            for (int after = 0; !(call.traits & Call::alone); after += long_tests() ? 1 : 1 + after / 2) {
                w.start_again();
                const BoundCall with = call.with(w);
                device.inject(here.rank() == 1 ? milcgpu::Fault::allocation : milcgpu::Fault::none, after);
                const milcgpu_status status = with.run();
                ends[here.rank()] += milcgpu::format("%s %d: %d\n", call.name().c_str(), after, status);
                const milcgpu::Fault left = here.context->ranks->gathered("test", device.planted())[1];
                device.inject(milcgpu::Fault::none);
                w.drop_made();
                if (left == milcgpu::Fault::none)
                    continue;
                if (status != MILCGPU_OK)
                    throw milcgpu::Error(static_cast<milcgpu::Status>(status), milcgpu_last_error());
                break;
            }
    };
    CHECK(all_well(on_cut(fields_on(cut.whole, false), cut, Backend::host, work)));
    CHECK(ends[0] == ends[1]);
}
