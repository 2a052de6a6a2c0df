// Contexts on several ranks: boxes that fit and boxes that do not, settings that differ, and failures on one rank. All
// ranks get the same status and message.
#include "milc_glue/api/context.h"
#include "milc_glue/api/milcgpu_milc.h"
#include "tests/plugin_support.h"
#include "tests/ranks_support.h"
#include <algorithm>
#include <cstdlib>
#include <omp.h>

using namespace tests;
using namespace milcgpu;

namespace {

using Extents = std::array<int, 4>;

int ranks_of_grid(const Extents &grid) { return grid[0] * grid[1] * grid[2] * grid[3]; }

// The arguments of a rank, some of which a test spoils.
struct Given {
    int rank;
    milcgpu_layout layout;
    milcgpu_messages messages;
    milcgpu_options options;
    bool comes = true;
};

// Calls milcgpu_context_create on all ranks of a grid, and `look` with every context that was made.
std::vector<Ending> start(const Extents &whole, const Extents &grid, const std::function<void(Given &)> &spoil = {},
                          const std::function<void(int, milcgpu_context &)> &look = {}) {
    const int size = ranks_of_grid(grid);
    Mailroom room(size);
    return on_threads(size, [&](int rank, Ending &ending) {
        Given given{rank, layout_on_grid(whole, grid, rank), room.table(rank), {}};
        given.layout.messages = &given.messages;
        given.options.struct_size = sizeof given.options;
        given.options.backend = MILCGPU_HOST;
        if (spoil)
            spoil(given);
        if (!given.comes)
            return;
        milcgpu_context *context = nullptr;
        ending.status = milcgpu_context_create(&given.layout, &given.options, &context);
        ending.text = ending.status != MILCGPU_OK ? milcgpu_last_error() : "";
        given.messages = {}; // the context must have its own copy
        if (look && context != nullptr)
            look(rank, *context);
        if ((context != nullptr) != (ending.status == MILCGPU_OK))
            ending.text = "a status does not tell of the context", ending.status = -1;
        milcgpu_context_destroy(context);
    });
}

// As start(), if all ranks must be refused with this message.
void refused(const Extents &whole, const Extents &grid, const std::string &words,
             const std::function<void(Given &)> &spoil, Status status = Status::bad_argument) {
    CAPTURE(words);
    const auto endings = start(whole, grid, spoil);
    CHECK(all_ended(endings, status, words));
    for (const Ending &ending : endings)
        CHECK(ending.text == endings[0].text);
}

} // namespace

TEST_CASE("start on ranks: boxes that fit are accepted", "[ranks][smoke][sanitize]") {
    const struct {
        Extents whole, grid;
    } cases[] = {{{4, 4, 4, 8}, {1, 1, 1, 2}},  {{6, 4, 4, 4}, {2, 1, 1, 1}},  {{6, 6, 6, 6}, {2, 2, 2, 2}},
                 {{4, 6, 10, 4}, {1, 2, 2, 1}}, {{4, 4, 6, 12}, {1, 1, 2, 3}}, {{4, 4, 4, 4}, {1, 1, 1, 1}}};
    for (const auto &c : cases) {
        const int size = ranks_of_grid(c.grid);
        std::vector<int> right(size, 0), even_sites(size, 0);
        CHECK(all_well(start(c.whole, c.grid, {}, [&](int rank, milcgpu_context &context) {
            const milcgpu_layout layout = layout_on_grid(c.whole, c.grid, rank);
            const Geometry &geometry = context.geometry;
            bool is_right = context.ranks->rank() == rank && context.ranks->gathered("a test", rank).back() == size - 1;
            for (int mu = 0; mu < 4; ++mu)
                is_right = is_right && geometry.lattice().extent[mu] == layout.extent[mu] &&
                           geometry.origin()[mu] == layout.origin[mu] && geometry.global_extents()[mu] == c.whole[mu];
            right[rank] = is_right;
            even_sites[rank] = geometry.sites(0);
        })));
        CHECK(right == std::vector<int>(size, 1));
        int sum = 0;
        for (const int sites : even_sites)
            sum += sites;
        CHECK(2 * sum == c.whole[0] * c.whole[1] * c.whole[2] * c.whole[3]);
    }
    // Boxes of several sizes in a row.
    CHECK(all_well(start({4, 4, 4, 12}, {1, 1, 1, 3}, [](Given &g) {
        const int first[] = {0, 3, 8, 12};
        g.layout.origin[3] = first[g.rank];
        g.layout.extent[3] = first[g.rank + 1] - first[g.rank];
    })));
}

TEST_CASE("start on ranks: one rank needs no message table", "[ranks][sanitize]") {
    milcgpu_layout layout = layout_of({{4, 4, 4, 6}});
    auto options = sized<milcgpu_options>();
    options.backend = MILCGPU_HOST;
    options.verbosity = 0;
    const auto start_alone = [&] {
        milcgpu_context *context = nullptr;
        const milcgpu_status status = milcgpu_context_create(&layout, &options, &context);
        milcgpu_context_destroy(context);
        return status == MILCGPU_OK ? std::string() : std::string(milcgpu_last_error());
    };
    CHECK(start_alone().empty());
    auto alone = sized<milcgpu_messages>();
    alone.size = alone.node_size = 1;
    layout.messages = &alone; // no functions: one rank sends no messages
    CHECK(start_alone().empty());
    std::copy(layout.extent, layout.extent + 4, layout.whole);
    CHECK(start_alone().empty());
    layout.whole[3] = 12;
    CHECK(has(start_alone(), "layout.extent[T] is 6, cut from 12"));
}

TEST_CASE("start on ranks: an impossible box on one rank is named on all", "[ranks][smoke][sanitize]") {
    const Extents whole{4, 4, 4, 8}, grid{1, 1, 1, 2};
    const auto on_rank_1 = [](auto change) {
        return [change](Given &g) {
            if (g.rank == 1)
                change(g);
        };
    };
    const auto bad = [&](const std::string &words, auto change) {
        refused(whole, grid, "rank 1 of 2: " + words, on_rank_1(change));
    };
    bad("layout.extent[Y] is 0", [](Given &g) { g.layout.extent[1] = 0; });
    bad("layout.extent[T] is 9", [](Given &g) { g.layout.extent[3] = 9; });
    bad("layout.origin[T] is 5: a box of 4 sites", [](Given &g) { g.layout.origin[3] = 5; });
    bad("layout.origin[X] is -1", [](Given &g) { g.layout.origin[0] = -1; });
    bad("layout.whole[T] is 7", [](Given &g) { g.layout.whole[3] = 7; });
    bad("layout.extent[Z] is 5", [](Given &g) { g.layout.whole[2] = g.layout.extent[2] = 5; });
    bad("layout.neighbour[T][0] is 2", [](Given &g) { g.layout.neighbour[3][0] = 2; });
    bad("layout.neighbour[T][1] is 1", [](Given &g) { g.layout.neighbour[3][1] = 1; });
    bad("layout.emulate is 16", [](Given &g) { g.layout.emulate = 16; });
    bad("layout.emulate (or MILCGPU_TEST=cut=...) names T, which is cut", [](Given &g) { g.layout.emulate = 8; });
    bad("options.backend is 9", [](Given &g) { g.options.backend = 9; });
    bad("milcgpu_options.struct_size is 3", [](Given &g) { g.options.struct_size = 3; });
    // A failure after the boxes have been compared.
    bad("options.block_size is 100", [](Given &g) { g.options.block_size = 100; });
    static const std::vector<int> map(128, 3);
    bad("site map", [](Given &g) { g.layout.site_map = map.data(); });
    refused({4, 4, 4, 4}, {1, 1, 1, 2},
            "rank 0 of 2: layout.extent[T] is 2 and cut from 4: if the lattice is cut, a "
            "box needs at least 3 sites, the depth of the halo. Cut another direction, or "
            "use fewer ranks",
            {});
    for (const int mu : {0, 3}) // one rank, without messages
        refused({2, 4, 4, 2}, {1, 1, 1, 1},
                format("layout.extent[%c] is 2 and emulated as cut: if the lattice is cut, a box needs at least 3 "
                       "sites",
                       "XYZT"[mu]),
                [mu](Given &g) { g.layout.emulate = 1 << mu; });
}

TEST_CASE("start on ranks: boxes that do not fit together are named on all", "[ranks][smoke][sanitize]") {
    const auto bad = [&](const Extents &whole, const Extents &grid, const std::string &words, int rank, auto change) {
        refused(whole, grid, words, [&](Given &g) {
            if (g.rank == rank)
                change(g);
        });
    };
    const Extents whole{4, 8, 4, 12}, grid{1, 2, 1, 3};
    bad(whole, grid, "the whole lattice on rank 4 of 6 is 4 x 8 x 4 x 14, and 4 x 8 x 4 x 12 on rank 0", 4,
        [](Given &g) { g.layout.whole[3] = 14; });
    bad(whole, grid, "layout.emulate (or MILCGPU_TEST=cut=...) on rank 3 of 6 is 5, and 0 on rank 0", 3,
        [](Given &g) { g.layout.emulate = 5; });
    bad(whole, grid,
        "the box of rank 3 of 6, 4 x 4 x 4 x 4 at 0 0 0 4, overlaps the box of rank 2, 4 x 4 x 4 x 4 at 0 0 0 4", 3,
        [](Given &g) { g.layout.origin[1] = 0; });
    bad(whole, grid, "the boxes of 6 ranks have 1472 sites in total, the whole lattice of 4 x 8 x 4 x 12 has 1536", 5,
        [](Given &g) { g.layout.extent[3] = 3; });
    bad(whole, grid,
        "layout.neighbour[T][1] of rank 2 of 6 is rank 0, whose box (4 x 4 x 4 x 4 at 0 0 0 0) is not ahead of that of "
        "rank 2 (4 x 4 x 4 x 4 at 0 0 0 4) in T",
        2, [](Given &g) { g.layout.neighbour[3][1] = 0; });
    bad(whole, grid, "layout.neighbour[T][0] of rank 0 of 6 is rank 5", 0,
        [](Given &g) { g.layout.neighbour[3][0] = 5; });
    bad(whole, grid, "layout.neighbour[Y][0] of rank 1 of 6 is rank 2", 1,
        [](Given &g) { g.layout.neighbour[1][0] = 2; });
    refused({4, 4, 4, 8}, {1, 1, 1, 2}, "the box of rank 1 of 2, 4 x 4 x 4 x 8 at 0 0 0 0, overlaps", [](Given &g) {
        std::fill(g.layout.whole, g.layout.whole + 4, 0); // each rank has the whole lattice
        std::fill(g.layout.origin, g.layout.origin + 4, 0);
        g.layout.extent[3] = 8;
    });
}

TEST_CASE("start on ranks: versions, backends and settings must agree", "[ranks][sanitize]") {
    const auto text_of = [](const auto &check) { return refusal_by(Status::bad_argument, check); };
    CHECK(text_of([] { check_versions({{"0.2.0"}, {"0.2.0"}}); }).empty());
    RankSettings one{};
    one.box = box_of(layout_on_grid({4, 4, 4, 8}, {1, 1, 1, 2}, 0), 0);
    RankSettings two = one;
    two.box = box_of(layout_on_grid({4, 4, 4, 8}, {1, 1, 1, 2}, 1), 1);
    CHECK(text_of([&] { require_alike_settings({one, two}); }).empty());
    two.verify = 1;
    CHECK(text_of([&] {
              require_alike_settings({one, two});
          }) == "MILCGPU_VERIFY is 1 on rank 1 of 2, and 0 on rank 0: set the same value on all ranks");
    two.backend = static_cast<int>(Backend::cuda);
    CHECK(has(text_of([&] { require_alike_settings({one, two}); }), "rank 1 of 2 would run on the cuda backend"));
    // One of three ranks has another version of the library.
    constexpr int size = 3;
    Mailroom room(size);
    const auto endings = on_threads(size, [&](int rank, Ending &ending) {
        milcgpu_messages table = room.table(rank);
        if (rank == 1) {
            ranks_of(&table)->gathered("the start", Version{"0.1.9"});
            return;
        }
        milcgpu_layout layout = layout_on_grid({4, 4, 4, 12}, {1, 1, 1, size}, rank);
        layout.messages = &table;
        milcgpu_context *context = nullptr;
        ending.status = milcgpu_context_create(&layout, nullptr, &context);
        ending.text = milcgpu_last_error();
    });
    for (const int rank : {0, 2}) {
        CHECK(endings[rank].status == MILCGPU_BAD_ARGUMENT);
        CHECK(has(endings[rank].text,
                  "rank 1 of 3 has milcgpu 0.1.9, rank 0 has " MILCGPU_VERSION ": load the same library on all hosts"));
    }
}

TEST_CASE("start on ranks: tables that cannot be used are refused", "[ranks][sanitize]") {
    const auto refusal = [](auto change) {
        Mailroom room(2);
        milcgpu_messages table = room.table(0);
        change(table);
        return refusal_by(Status::bad_argument, [&] { ranks_of(&table); });
    };
    using Table = milcgpu_messages &;
    CHECK(refusal([](Table) {}).empty());
    CHECK(has(refusal([](Table t) { t.struct_size = 8; }), "milcgpu_messages.struct_size is 8"));
    CHECK(has(refusal([](Table t) { t.rank = 2; }), "rank 2 of 2"));
    CHECK(has(refusal([](Table t) { t.rank = -1; }), "rank -1 of 2"));
    CHECK(has(refusal([](Table t) { t.size = 0; }), "rank 0 of 0"));
    CHECK(has(refusal([](Table t) { t.node_size = 0; }), "node_rank 0 of node_size 0"));
    CHECK(has(refusal([](Table t) { t.node_rank = 2; }), "node_rank 2 of node_size 2"));
    CHECK(has(refusal([](Table t) { t.start = nullptr; }), "start is NULL"));
    CHECK(has(refusal([](Table t) { t.test = nullptr; }), "test is NULL"));
    CHECK(ranks_of(nullptr)->size() == 1);
}

TEST_CASE("start on ranks: a table that fails gives COMM, and the others miss its rank", "[ranks][sanitize]") {
    const Environment limit{{"MILCGPU_TIMEOUT", "0.3"}};
    const auto endings = start({4, 4, 4, 8}, {1, 1, 1, 2}, [](Given &g) {
        if (g.rank == 1)
            g.messages.start = [](void *, int, const milcgpu_message *, void **) { return 5; };
    });
    CHECK(endings[1].status == MILCGPU_COMM);
    CHECK(has(endings[1].text,
              "the start, rank 1 of 2: the caller's message passing could not start messages with rank 0 "
              "(gather): code 5"));
    CHECK(endings[0].status == MILCGPU_TIMED_OUT);
}

TEST_CASE("start on ranks: the others name a missing rank", "[ranks][smoke][sanitize]") {
    const Environment limit{{"MILCGPU_TIMEOUT", "0.3"}};
    const auto endings = start({4, 4, 4, 12}, {1, 1, 1, 3}, [](Given &g) { g.comes = g.rank != 2; });
    for (const int rank : {0, 1}) {
        INFO(endings[rank].text);
        CHECK(endings[rank].status == MILCGPU_TIMED_OUT);
        CHECK(has(endings[rank].text, format("the start, rank %d of 3: waited 0.3 s", rank)));
        CHECK(has(endings[rank].text, " rank 2 "));
        CHECK(endings[rank].seconds < 5);
    }
}

TEST_CASE("a context whose ranks have lost each other reports it in every call", "[ranks][sanitize]") {
    const Environment limit{{"MILCGPU_TIMEOUT", "0.3"}};
    std::array<int, 2> status{-1, -1};
    std::array<std::string, 2> lost, text;
    CHECK(all_well(start({4, 4, 4, 8}, {1, 1, 1, 2}, {}, [&](int rank, milcgpu_context &context) {
        if (rank == 0)
            return;
        lost[rank] = thrown_by([&] { context.ranks->gathered("a sum of a test", 1); });
        double number = 0;
        status[rank] = milcgpu_memory_pin(&context, &number, sizeof number);
        text[rank] = milcgpu_last_error();
    })));
    CHECK(status[1] == MILCGPU_TIMED_OUT);
    CHECK(has(lost[1], "a sum of a test, rank 1 of 2: waited 0.3 s"));
    CHECK(has(lost[1], "rank 0"));
    CHECK(text[1] == "milcgpu_memory_pin: " + lost[1]);
}

TEST_CASE("start on ranks: MILCGPU_TIMEOUT and MILCGPU_TEST=cut are obeyed", "[ranks][errors][smoke][sanitize]") {
    const Extents whole{4, 4, 4, 8}, grid{1, 1, 1, 2}, alone{1, 1, 1, 1};
    for (const char *bad : {"0", "-1", "abc", "1x", "nan", "inf", " "}) {
        const Environment environment{{"MILCGPU_TIMEOUT", bad}};
        refused(whole, grid, std::string("rank 0 of 2: MILCGPU_TIMEOUT=") + bad + " is none of the numbers above 0",
                {});
        refused(whole, alone, std::string("MILCGPU_TIMEOUT=") + bad, {});
    }
    for (const char *good : {"0.5", "60", "1e3", ""}) {
        const Environment environment{{"MILCGPU_TIMEOUT", good}};
        CHECK(all_well(start(whole, grid)));
    }
    for (const char *bad : {"X", "xx", "xyzts", "x y", "1"}) {
        const Environment environment{{"MILCGPU_TEST", std::string("cut=") + bad}};
        refused(whole, alone, std::string("MILCGPU_TEST=cut=") + bad + " is none of ", {});
    }
    const auto emulated = [&](const char *value, int asked) {
        const Environment environment{{"MILCGPU_TEST", value}};
        milcgpu_layout layout = layout_of({{4, 4, 4, 8}});
        layout.emulate = asked;
        return box_of(layout, 0).emulated;
    };
    CHECK(emulated("", 0) == 0);
    CHECK(emulated("0", 0) == 0);
    CHECK(emulated("cut=xyzt", 0) == 15);
    CHECK(emulated("keep,cut=tx", 0) == 9);
    CHECK(emulated("cut=x", 12) == 12); // the layout takes precedence
    const Environment environment{{"MILCGPU_TEST", "cut=yt"}};
    CHECK(all_well(start(whole, alone)));
    const Box box = box_of(layout_of({{4, 4, 4, 8}}), 0);
    for (int mu = 0; mu < 4; ++mu) {
        CHECK(box.has_halo(mu) == (mu % 2 == 1));
        CHECK_FALSE(box.cut(mu));
        CHECK((box.neighbour[mu][0] == 0 && box.neighbour[mu][1] == 0));
    }
}

TEST_CASE("start on ranks: rank 0 alone writes lines", "[ranks][sanitize]") {
    std::array<std::vector<std::string>, 2> lines;
    CHECK(all_well(start({4, 4, 4, 8}, {1, 1, 1, 2}, [&](Given &g) {
        g.options.verbosity = 2;
        g.options.user = &lines[g.rank];
        g.options.message = [](void *user, const char *line) {
            static_cast<std::vector<std::string> *>(user)->push_back(line);
        };
    })));
    REQUIRE(lines[0].size() == 1);
    CHECK(has(lines[0][0],
              "lattice 4 x 4 x 4 x 8 on 2 ranks, of which rank 0 has 4 x 4 x 4 x 4 at 0 0 0 0, host backend"));
    CHECK(lines[1].empty());
}

TEST_CASE("start on ranks: each rank gets a GPU by its number on its host", "[ranks][smoke]") {
    milcgpu_messages messages{};
    messages.node_rank = 5;
    CHECK(gpu_of(3, &messages, 4) == 3);
    CHECK(gpu_of(-1, &messages, 4) == 1);
    CHECK(gpu_of(-1, &messages, 0) == 0);
    CHECK(gpu_of(-1, nullptr, 4) == 0);
    messages.node_size = 4;
    CHECK(threads_of(nullptr, 4, 32, 32) == 8);
    CHECK(threads_of(nullptr, 4, 6, 32) == 6); // already bound to fewer
    CHECK(threads_of(nullptr, 4, 2, 2) == 1);
    CHECK(threads_of("32", 4, 32, 32) == 32);
    CHECK(threads_of(nullptr, 1, 32, 32) == 32);
    const auto said = [](const std::vector<LocalRank> &places) {
        return thrown_by([&] { require_a_gpu_each(places); });
    };
    CHECK(said({{"GPU a of host h"}, {"GPU b of host h"}, {"GPU a of host i"}}).empty());
    CHECK(said({{""}, {""}}).empty()); // on the host backend, or with MILCGPU_TEST=share_gpu
    CHECK(has(said({{"GPU a of host h"}, {"GPU b of host h"}, {"GPU a of host h"}}),
              "ranks 0 and 2 of 3 are both on GPU a of host h"));
}

TEST_CASE("start on ranks: the name of the host backend has the threads that a rank gets", "[ranks][smoke]") {
    const char *const said = std::getenv("OMP_NUM_THREADS");
    const std::string kept = said != nullptr ? said : "";
    unsetenv("OMP_NUM_THREADS");
    std::array<std::string, 2> names;
    const auto endings = start(
        {4, 4, 4, 8}, {1, 1, 1, 2},
        [](Given &given) {
            omp_set_num_threads(2);
            given.messages.node_size = 1000; // more than cores
        },
        [&](int rank, milcgpu_context &context) { names[rank] = milcgpu_context_device_name(&context); });
    if (said != nullptr)
        setenv("OMP_NUM_THREADS", kept.c_str(), 1);
    CHECK(all_well(endings));
    CHECK(names[0] == "host, 1 OpenMP thread");
    CHECK(names[1] == "host, 1 OpenMP thread");
}

TEST_CASE("milcgpu_context_backend returns the backend of a context", "[api][smoke]") {
    for (const Backend backend : backends()) {
        const Session<double> session(reference::Lattice{{4, 4, 4, 4}}, backend);
        int said = -1;
        CHECK(milcgpu_context_backend(session.context, &said) == MILCGPU_OK);
        CHECK(said == (backend == Backend::cuda ? MILCGPU_CUDA : MILCGPU_HOST));
    }
}

// 12 ranks of 4 x 2 x 4 x 4 sites each, in reversed order.
TEST_CASE("milcgpu_find_box gives the box of a rank by its sites, and the ranks beside it", "[ranks][smoke]") {
    constexpr int whole[4] = {8, 6, 4, 8}, extent[4] = {4, 2, 4, 4}, sites = 128;
    const auto node = [](int x, int y, int, int t) { return x / 4 + 2 * (y / 2 + 3 * (t / 4)); };
    const auto place = [](int x[4], int rank, size_t i) {
        const int origin[4] = {rank % 2 * 4, rank / 2 % 3 * 2, 0, rank / 6 * 4}, own[4] = {4, 2, 4, 4};
        int left = sites - 1 - static_cast<int>(i);
        for (int mu = 0; mu < 4; left /= own[mu++])
            x[mu] = origin[mu] + left % own[mu];
    };
    for (int rank = 0; rank < 12; ++rank) {
        CAPTURE(rank);
        milcgpu_milc_box box;
        REQUIRE(milcgpu_find_box(whole, rank, sites, place, node, &box) == 1);
        int first[4];
        place(first, rank, sites - 1);
        for (int mu = 0; mu < 4; ++mu) {
            CHECK(box.whole[mu] == whole[mu]);
            CHECK(box.extent[mu] == extent[mu]);
            CHECK(box.origin[mu] == first[mu]);
            for (const int side : {0, 1}) {
                Extents x{first[0], first[1], first[2], first[3]};
                x[mu] = (x[mu] + whole[mu] + (side == 0 ? -extent[mu] : extent[mu])) % whole[mu];
                CHECK(box.neighbour[mu][side] == node(x[0], x[1], x[2], x[3]));
            }
        }
        CHECK(milcgpu_find_box(whole, rank, sites - 1, place, node, &box) == 0); // the sites fill no box
        CHECK(milcgpu_find_box(whole, rank, 0, place, node, &box) == 0);
    }
}
