// Messages that are lost, or replaced by old ones, although message passing reports success.
#include "tests/calls_whole.h"
#include "tests/cut_support.h"
#include <map>

using namespace milcgpu;
using namespace tests;

namespace {

const Cut two_ranks{{4, 4, 4, 8}, {1, 1, 1, 2}, 0};
constexpr const char *words = "although message passing reported success";

// A solve of one source and one of three, with links and context of their own, on ranks that lose messages.
struct Solved {
    std::vector<Ending> endings;
    std::vector<std::vector<double>> x; // of each rank
    long lost = 0;
    bool well() const {
        return std::all_of(endings.begin(), endings.end(), [](const Ending &e) { return e.status == MILCGPU_OK; });
    }
    bool status_of_loss() const {
        return std::all_of(endings.begin(), endings.end(),
                           [](const Ending &e) { return e.status == MILCGPU_OK || e.status == MILCGPU_COMM; });
    }
    bool noticed() const {
        return std::any_of(endings.begin(), endings.end(), [](const Ending &e) { return has(e.text, words); });
    }
};

Solved solved(const Cut &cut, uint64_t one_in, uint64_t seed, bool on_gpu, const char *words_of_test = "share_gpu") {
    const Environment environment{{"MILCGPU_TEST", words_of_test}};
    static std::map<Extents, Fields> fields;
    if (fields.count(cut.whole) == 0)
        fields.emplace(cut.whole, fields_on(cut.whole, false));
    Solved run;
    run.x.resize(cut.ranks());
    run.endings = on_cut(
        fields.at(cut.whole), cut, Backend::host,
        [&](Here &here, Ending &ending) {
            const size_t reals = here.source.size();
            std::vector<double> &x = run.x[here.rank()];
            x.assign(4 * reals, 0);
            milcgpu_solve_spec spec = solve_spec(0.1, 1e-8, MILCGPU_DOUBLE, MILCGPU_SINGLE);
            const milcgpu_field b = field_of(here.source);
            const milcgpu_field sources[] = {b, b, b};
            milcgpu_field to[4];
            for (size_t k = 0; k < 4; ++k)
                to[k] = {x.data() + k * reals, MILCGPU_DOUBLE, 0};
            ending.status = milcgpu_staggered_solve(here.links, &spec, &b, &to[0], nullptr);
            if (ending.status == MILCGPU_OK)
                ending.status = milcgpu_staggered_solve_sources(here.links, &spec, 3, MILCGPU_TOGETHER_AUTO, sources,
                                                                to + 1, nullptr);
            if (ending.status != MILCGPU_OK) {
                ending.text = milcgpu_last_error();
                here.room->end_all();
            }
        },
        [&](Mailroom &room) {
            room.lose_one_in(one_in, seed);
            if (seed % 3 == 0)
                room.lose_parts(4096);
            for (int rank = 0; rank < cut.ranks() && on_gpu; ++rank)
                room.say_gpu_memory(rank, true);
        },
        &run.lost);
    return run;
}

} // namespace

TEST_CASE(
    "ranks: if one message in a thousand is lost, or 4 KiB of it arrive wrong, each is noticed, and no result is wrong",
    "[ranks][faults][sanitize]") {
    const uint64_t seeds = long_tests() ? 400 : 24;
    for (const Cut &cut : {two_ranks, Cut{{6, 6, 4, 4}, {2, 2, 1, 1}, 0}}) {
        const Solved right = solved(cut, 0, 0, false);
        REQUIRE(all_well(right.endings));
        long with_losses = 0, without = 0;
        for (uint64_t seed = 1; seed <= seeds; ++seed) {
            const Solved run = solved(cut, 1000, seed, seed % 2 == 0);
            CAPTURE(text_of(cut), seed, run.lost);
            (run.lost > 0 ? with_losses : without) += 1;
            CHECK(run.noticed() == (run.lost > 0));
            CHECK((run.lost == 0 || run.status_of_loss()));
            CHECK(run.well() == (run.lost == 0));
            for (size_t rank = 0; rank < run.endings.size(); ++rank)
                if (run.endings[rank].status == MILCGPU_OK)
                    CHECK(same_bits(run.x[rank], right.x[rank]));
        }
        CHECK(with_losses > 0);
    }
}

TEST_CASE("ranks: without check words lost messages of ghosts go unnoticed", "[ranks][faults]") {
    long unnoticed = 0;
    for (uint64_t seed = 1; seed <= 12; ++seed) {
        const Solved run = solved(two_ranks, 1000, seed, false, "no_check_words");
        unnoticed += run.lost > 0 && run.well(); // messages of gathers have words all the same
    }
    CHECK(unnoticed > 0);
}

TEST_CASE("ranks: a message that is lost in any call of the interface ends the call, and no rank has wrong numbers",
          "[ranks][faults][calls]") {
    std::vector<Call> all;
    for (const Call &call : calls())
        if (!(call.traits & Call::alone) && (long_tests() || (&call - calls().data()) % 5 == 0))
            all.push_back(call);
    const WholeFields &whole = fields_of(two_ranks.whole);
    const Fields fields = fields_on(two_ranks.whole, false);
    struct Clean {
        long arrived = 0; // messages at rank 1
        State outputs;
    };
    std::vector<std::array<Clean, 2>> clean(all.size());
    const auto endings = on_cut(fields, two_ranks, Backend::host, [&](Here &here, Ending &) {
        for (size_t k = 0; k < all.size(); ++k) {
            World w(here.context, whole, here.places);
            const BoundCall with = all[k].with(w);
            const long before = here.room->arrived(here.rank());
            demand(with.run());
            clean[k][here.rank()] = {here.room->arrived(here.rank()) - before, w.outputs()};
        }
    });
    REQUIRE(all_well(endings));
    reference::Rng rng(29);
    int calls_with_messages = 0;
    for (size_t k = 0; k < all.size(); ++k) {
        if (clean[k][1].arrived == 0)
            continue;
        ++calls_with_messages;
        const long which = rng() % clean[k][1].arrived;
        std::array<State, 2> before, after;
        long lost = 0;
        const auto ended = on_cut(
            fields, two_ranks, Backend::host,
            [&](Here &here, Ending &ending) {
                World w(here.context, whole, here.places);
                const BoundCall with = all[k].with(w);
                before[here.rank()] = w.outputs();
                if (here.rank() == 1)
                    here.room->lose_later(1, which);
                ending.status = with.run();
                after[here.rank()] = w.outputs();
                if (ending.status != MILCGPU_OK) {
                    ending.text = milcgpu_last_error();
                    here.room->end_all();
                }
            },
            {}, &lost);
        CAPTURE(all[k].name(), which, clean[k][1].arrived, ended[0].text, ended[1].text);
        CHECK(lost == 1);
        CHECK(ended[1].status == MILCGPU_COMM);
        CHECK(has(ended[0].text + ended[1].text, words)); // rank 0 may learn it first, and end all
        // If it was the last message, the outputs are written.
        CHECK((same_state(after[1], before[1]) || same_state(after[1], clean[k][1].outputs)));
        if (ended[0].status == MILCGPU_OK)
            CHECK(same_state(after[0], clean[k][0].outputs));
    }
    CHECK(calls_with_messages > 10);
}
