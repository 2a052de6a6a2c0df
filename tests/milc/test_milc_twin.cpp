// The library beside a twin that keeps nothing (tests/milc_host/twin.c): random sequences of calls by the library, on
// ranks and under allocators that reuse old addresses or never do, and by MILC's originals alone. MILCGPU_TWIN=20000
// runs so many sequences. A failure prints how to run its few steps again.
#include "tests/milc_host_support.h"
#include <algorithm>

using namespace tests::milc_host;

namespace {

struct Start {
    const char *program, *ranks, *addresses, *words, *more; // words of MILCGPU_TEST
    int share;                                              // of all sequences, in twentieths
};
// Ranks share the processors, so they run fewer sequences.
constexpr Start starts[] = {
    {"hisq-newer-P2", "1", "again", "keep", "", 4},
    {"hisq-newer-P2", "1", "never", "nan", "", 3},
    {"hisq-P2", "1", "again", "nan", "", 2},
    {"hisq-P2", "1", "again", "cut=t", "", 2},
    {"asqtad-P1", "1", "again", "nan", "", 2},
    {"hisq-newer-P2", "1", "again", "keep", " MILC_TWIN_MEASURES=1", 2},
    {"hisq-newer-P2", "2", "odd", "share_gpu", "", 2},
    {"hisq-P2", "2", "again", "share_gpu", "", 1},
    {"hisq-newer-P2", "4", "odd", "share_gpu", "", 1},
    {"hisq-newer-P2", "2", "again", "share_gpu,keep,nan,dslash", "", 1},
};

long asked() {
    const char *const number = std::getenv("MILCGPU_TWIN");
    return number != nullptr ? std::atol(number) : long_tests() ? 2000 : 60;
}

} // namespace

TEST_CASE("milc_twin: what the library keeps and defers never changes a number", "[milc_host][twin]") {
    for (const std::string &backend : backend_settings()) {
        long first = 1;
        for (const Start &start : starts) {
            const long n = std::max(asked() * start.share / 20, 1L);
            const std::string setting = backend + " MILCGPU_TEST=" + start.words + " MILC_TWIN_RANKS=" + start.ranks +
                                        " MILC_TWIN_ADDRESSES=" + start.addresses + start.more;
            const Run &r = run(start.program, setting, milcgpu::format("twin %ld %ld", n, first));
            CHECK(r.status == 0);
            CHECK(r.says(milcgpu::format("%ld sequences, 0 differ", n)));
            first += n;
        }
    }
}

TEST_CASE("milc_twin: these steps, which once gave wrong numbers or ended the run, do not differ",
          "[milc_host][twin]") {
    struct Replay {
        const char *rule, *steps, *more = "";
    };
    const Replay replay = GENERATE(
        Replay{"if memory is short for the parts of a sum of links, other sets of links make room",
               "read_momenta:4fdc4b49df75a0f1 rational:4dea6c0cecd60f03 begin:a8a9b007b0be0a62"
               " read_links:9a6a6c48500a0bda begin:6996c31df6396cc5 invert:5993bfc9677aff81"
               " invert:35bef11703491df6 short_of_memory:ef83cbf6d1ad32e3 invert:5993bfc9677aff81"
               " short_of_memory:ef83cbf6d1ad32e3 spin_taste:2d84e09e92c7e4a0 spin_taste:7dd3a0f3daf0b6c2"
               " write_links:c796da943125d4fa write_gauge:6f9da866cffeab make_links:5663da7282847836"
               " invert:35bef11703491df6"},
        Replay{"links at the address of freed eigenvectors are not overwritten with the vectors",
               "begin:37a169e1d62fff15 both_forces:aeab2130fd0f1052 both_forces:aeab2130fd0f1052"
               " odd_part:cfcfa2dc07fc86ea force_of_sites:afad6e83ea69b47a free_vectors:f440f1df467fe0e4"
               " force_of_sites:73d6d71f99561389 apply_d:c68a2ac948fab2d4"},
        Replay{"if memory is short to copy eigenvectors, they stay deferred and other data makes room",
               "begin:1 odd_part:1 short_of_memory:1 read_vectors:1"},
        Replay{"if memory is short to copy the gauge field, other data makes room",
               "begin:dda8ba897521d2 update_u:1607365209b8c1a4 short_of_memory:706bb1e41455f401"
               " write_copy:e729f28caa8a0402"},
        Replay{"D of solutions that was computed ahead of its call is not used for later solutions",
               "begin:40 enter_trajectory:40 force:40 read_momenta:40"},
        Replay{"if one rank alone lacks memory for solutions, no rank keeps them on the device",
               "begin:1 invert:1 short_of_memory:1 invert_masses:1", " MILC_TWIN_RANKS=2"},
        Replay{
            "a warm start, whose links all threads draw, is MILC's own on each rank",
            "begin:1 warm_start:1 read_gauge:1 plaquette:1 warm_start:1 read_links:1 solve:1 update_u:1 read_gauge:1",
            " MILC_TWIN_RANKS=2"},
        Replay{"quarks that MILC has cached are tied up as they were then",
               "begin:c28ffa03924d1ee5 cache_octet:7d1c3674cdc03f87 cache_octet:f4f96d7bc6f8f89a"
               " write_quark:19a0c52bedcd16e0 cache_octet:7d8b1405a32e0cd4 tie_octets:786772b3c611638"},
        Replay{"cached quarks that left the device stay as they were, whatever MILC writes later",
               "begin:322bb67cff4d0960 cache_octet:6b1d510ed6330200 short_of_memory:9e5e30b05a4dab0c"
               " nucleon_and_delta:3d356d856eee3357 cache_octet:c71003e499664b8a write_quark:ccb7b5d4d34aa4aa"
               " cache_octet:e67c5a5fd5d9b495 tie_octets:8bf339333745094e",
               " MILC_TWIN_MEASURES=1"});
    const Run r =
        run("hisq-newer-P2",
            std::string("MILCGPU_BACKEND=host MILCGPU_TEST=keep,share_gpu MILC_TWIN_ADDRESSES=again") + replay.more,
            std::string("twin steps ") + replay.steps);
    INFO(replay.rule);
    CHECK(r.status == 0);
    CHECK(r.says("no difference"));
}

TEST_CASE("milc_twin: a planted difference is found and reduced to its steps", "[milc_host][twin]") {
    const Run r = run("hisq-newer-P2", "MILCGPU_BACKEND=host MILC_TWIN_FAULT=1", "twin 25");
    CHECK(r.status != 0);
    CHECK((r.says("\n3 steps are enough") || r.says("\n4 steps are enough")));
    CHECK(r.says("again by: program twin steps begin:"));
}
