// Decisions that all ranks of a job take together, with ranks as threads.
#include "milc_glue/api/context.h"
#include "milc_glue/residency/gauge_owner.h"
#include "milc_glue/residency/link_cache.h"
#include "milc_glue/residency/policy.h"
#include "milc_glue/routines/rank_start.h"
#include "tests/plugin_support.h"
#include "tests/ranks_support.h"
#include "tests/run_support.h"
#include "tests/source_text.h"
#include <algorithm>
#include <cmath>
#include <fstream>

namespace {

using namespace milcgpu;
using tests::Ending;

constexpr double long_limit = 60; // for waits that must not reach their end in these tests

// Runs `work` on every rank with its part of the agreement.
std::vector<Ending> agreeing(int size, const std::function<void(Collective &, Ending &)> &work,
                             double limit = long_limit) {
    tests::Mailroom room(size);
    return tests::on_threads(size, [&](int rank, Ending &ending) {
        const milcgpu_messages table = room.table(rank);
        Collective collective;
        collective.join(ranks_of(&table), limit);
        collective.begin_call();
        work(collective, ending);
    });
}

// The text of each rank.
std::vector<std::string> texts_of(const std::vector<Ending> &endings) {
    std::vector<std::string> texts;
    for (const Ending &ending : endings)
        texts.push_back(ending.text);
    return texts;
}

std::vector<std::string> all(int size, const std::string &text) { return std::vector<std::string>(size, text); }

} // namespace

TEST_CASE("agreement: one rank alone gets its own answer", "[ranks][plugin]") {
    Collective collective;
    CHECK(collective(-3) == -3);
    CHECK(collective(true));
    CHECK(collective(MILCGPU_CORRUPTED) == MILCGPU_CORRUPTED);
    CHECK(collective.on_all_ranks(0xA5) == 0xA5);
    CHECK(collective.words("no") == "no");
    CHECK(collective.of_rank_0("mine") == "mine");
    CHECK(std::isnan(collective.worst(NAN)));
    double sums[] = {1, 2};
    collective.add(sums, 2);
    CHECK((sums[0] == 1 && sums[1] == 2));
}

TEST_CASE("agreement: all ranks get the most careful answer", "[ranks][plugin]") {
    for (const int size : {2, 3, 5}) {
        const auto endings = agreeing(size, [](Collective &collective, Ending &ending) {
            const int rank = collective.rank(), last = collective.size() - 1;
            std::string &text = ending.text;
            text += format("%d ", collective(rank == last ? 7 : -rank));
            text += collective(rank == 1) ? "stale " : "fresh ";
            text += collective(false) ? "stale " : "fresh ";
            text += format("%llx ", static_cast<unsigned long long>(collective.on_all_ranks(rank == 0 ? 0x70 : 0x31)));
            text += format("%g ", collective.worst(rank));
            text += std::isnan(collective.worst(rank == last ? NAN : 1e300)) ? "nan " : "number ";
            double sums[] = {1.0, 10.0 * rank};
            collective.add(sums, 2);
            text += format("%g %g ", sums[0], sums[1]);
            text += collective.of_rank_0(rank == 0 ? "A=1\nB=2" : "C=a longer text") + " ";
            text += collective.of_rank_0(rank == 0 ? "" : "x") + "end";
        });
        CHECK(texts_of(endings) ==
              all(size, format("7 stale fresh 30 %d nan %d %d A=1\nB=2 end", size - 1, size, 5 * size * (size - 1))));
    }
}

TEST_CASE("agreement: ranks get the message of the lowest rank that has one, with its number", "[ranks][plugin]") {
    const auto of = [](const std::function<std::string(int)> &words) {
        return texts_of(agreeing(4, [&](Collective &collective, Ending &ending) {
            ending.text = collective.words(words(collective.rank()));
        }));
    };
    CHECK(of([](int) { return ""; }) == all(4, ""));
    CHECK(of([](int) { return "no"; }) == all(4, "no"));
    CHECK(of([](int rank) { return rank > 1 ? format("no %d", rank) : ""; }) == all(4, "rank 2 of 4: no 2"));
}

TEST_CASE("agreement: ranks get the worst status, with the message of the rank that has it", "[ranks][plugin]") {
    const auto of = [](const std::function<milcgpu_status(int)> &status) {
        return texts_of(agreeing(3, [&](Collective &collective, Ending &ending) {
            set_last_error("milcgpu_staggered_solve", format("words of %d", collective.rank()).c_str());
            const int worst = collective(status(collective.rank()));
            ending.text = format("%s, %s", milcgpu_status_name(worst), milcgpu_last_error());
        }));
    };
    const auto alike = of([](int) { return MILCGPU_NO_MEMORY; }); // each rank has logged it already
    for (int rank = 0; rank < 3; ++rank)
        CHECK(alike[rank] ==
              format("%s, milcgpu_staggered_solve: words of %d", milcgpu_status_name(MILCGPU_NO_MEMORY), rank));
    CHECK(of([](int rank) { return rank == 1 ? MILCGPU_DEVICE_LOST : MILCGPU_OK; }) ==
          all(3, format("%s, rank 1 of 3: milcgpu_staggered_solve: words of 1",
                        milcgpu_status_name(MILCGPU_DEVICE_LOST))));
}

TEST_CASE("agreement: if one rank gives up, all leave the call, and the next call works", "[ranks][plugin]") {
    const auto endings = agreeing(3, [](Collective &collective, Ending &ending) {
        try {
            collective(1);
            if (collective.rank() == 2)
                collective.give_up("the host's memory is exhausted");
            else
                collective(2);
        } catch (const Error &error) {
            ending.text = error.what();
            collective.give_up("it hears of itself"); // which the ranks must not log
        }
        ending.text += collective.broken() ? ", broken" : "";
        collective.begin_call();
        ending.text += format(", %d", collective(collective.rank()));
    });
    const std::string heard = "rank 2 of 3: the host's memory is exhausted, 2";
    CHECK(texts_of(endings) == std::vector<std::string>{heard, heard, ", 2"});
}

TEST_CASE("agreement: ranks in different calls get an error that says so, and every later call fails",
          "[ranks][plugin]") {
    const auto endings = agreeing(2, [](Collective &collective, Ending &ending) {
        if (collective.rank() == 1)
            collective.begin_call();
        try {
            collective(1);
        } catch (const Error &error) {
            ending.text = format("%s%s", error.what(), collective.broken() ? ", broken" : "");
        }
    });
    CHECK(texts_of(endings) == all(2, "the ranks are no longer in the same call. All must end, broken"));
}

TEST_CASE("agreement: a rank may be late at the start of a call, but not inside it", "[ranks][plugin]") {
    static constexpr double limit = 0.5, late = 1.5;
    const auto endings = agreeing(
        2,
        [](Collective &collective, Ending &ending) {
            const auto sleep = [&] {
                if (collective.rank() == 1)
                    std::this_thread::sleep_for(std::chrono::duration<double>(late));
            };
            sleep();
            ending.text = format("%d ", collective(collective.rank()));
            sleep();
            try {
                collective(0);
            } catch (const Error &error) {
                ending.text += error.status() == Status::timed_out && collective.broken() ? "timed out" : error.what();
            }
        },
        limit);
    CHECK(endings[0].text == "1 timed out");
    CHECK(endings[0].seconds < 2 * late);
    CHECK(Collective::patience * limit > 2 * late);
}

TEST_CASE("agreement: a rank that has failed waits until the others have waited for it, and its words are those of all",
          "[ranks][plugin]") {
    static constexpr double limit = 0.3;
    for (const int lost : {0, 1}) {
        const auto endings = agreeing(
            2,
            [&](Collective &collective, Ending &ending) {
                collective(0);
                const bool here = collective.rank() == lost;
                if (!here) // in its work
                    std::this_thread::sleep_for(std::chrono::duration<double>(2 * limit));
                set_last_error("", here ? "gone" : "waited for the other");
                ending.status = collective(here ? MILCGPU_DEVICE_LOST : MILCGPU_TIMED_OUT);
                ending.text = milcgpu_last_error();
            },
            limit);
        for (const Ending &ending : endings) {
            CHECK(ending.status == MILCGPU_TIMED_OUT);
            CHECK(tests::has(ending.text, format("rank %d of 2: ", lost)));
            CHECK(tests::has(ending.text, "gone"));
        }
    }
}

namespace {

// Each rank has its own context and two sets of links in its own memory. The ranks decide together only which set they
// use.
struct RankLinks {
    reference::Lattice lattice{{4, 4, 4, 4}};
    tests::Session<double> session{lattice, Backend::host, 0, 0};
    Collective collective;
    std::vector<double> fat[2], lng[2];
    DeferredValues deferred;
    LinkCache cache;

    explicit RankLinks(bool looks_at_all)
        : cache(collective, session.context, lattice.volume(), MILCGPU_DOUBLE, looks_at_all, deferred) {
        for (int s = 0; s < 2; ++s) {
            reference::Rng rng{9}; // one seed: both sets have the same content
            for (auto *links : {&fat[s], &lng[s]}) {
                links->resize(72 * static_cast<size_t>(lattice.volume()));
                for (double &x : *links)
                    x = reference::uniform(rng) - 0.5;
            }
        }
    }
    // The number of the set that is used, in the order of first use; "failed" if there is none.
    std::string ready(int s) {
        LinkSet *set = nullptr;
        collective.begin_call();
        const uint64_t common = collective.on_all_ranks(cache.look(fat[s].data(), lng[s].data(), Mirror::Look::sample));
        if (cache.ready(fat[s].data(), lng[s].data(), set, common) != MILCGPU_OK)
            return "failed ";
        const auto found = std::find(seen.begin(), seen.end(), set);
        const long number = found - seen.begin();
        if (found == seen.end())
            seen.push_back(set);
        const bool is_new = set->mirror.has(cache.mirror_of(fat[s].data(), lng[s].data()).tag_now());
        return format("%ld%s ", number, is_new ? "" : " old");
    }
    std::vector<const LinkSet *> seen;
};

std::vector<std::string> with_links(int size, bool looks_at_all,
                                    const std::function<void(RankLinks &, std::string &)> &work) {
    tests::Mailroom room(size);
    std::vector<std::unique_ptr<RankLinks>> links;
    for (int rank = 0; rank < size; ++rank) {
        links.push_back(std::make_unique<RankLinks>(looks_at_all));
        const milcgpu_messages table = room.table(rank);
        links.back()->collective.join(ranks_of(&table), long_limit);
    }
    return texts_of(tests::on_threads(size, [&](int rank, Ending &ending) { work(*links[rank], ending.text); }));
}

} // namespace

TEST_CASE("links on ranks: all ranks use the same set, also if only some ranks have other links",
          "[ranks][link_cache]") {
    for (const bool looks_at_all : {false, true}) {
        // The second set differs on rank 1 alone, as a twisted boundary does: rank 0 must not use the first set for it.
        const auto twisted = with_links(3, looks_at_all, [](RankLinks &links, std::string &text) {
            if (links.collective.rank() == 1)
                for (double &x : links.fat[1])
                    x += 0.25;
            for (const int s : {0, 1, 0, 1, 1, 0})
                text += links.ready(s);
        });
        CHECK(twisted == all(3, "0 1 0 1 1 0 "));
        // Without that difference both have one content and share one set.
        const auto same = with_links(2, looks_at_all, [](RankLinks &links, std::string &text) {
            for (const int s : {0, 1, 0})
                text += links.ready(s);
        });
        CHECK(same == all(2, "0 0 0 "));
    }
}

TEST_CASE("links on ranks: an edit on one rank loads links on all", "[ranks][link_cache]") {
    const auto edited = with_links(3, true, [](RankLinks &links, std::string &text) {
        text += links.ready(0);
        const LinkSet &set = *links.seen[0];
        const long before = set.used;
        if (links.collective.rank() == 2)
            links.lng[0][5] += 1;
        text += links.ready(0);
        text += set.used > before + 1 ? "loaded" : "not loaded"; // the call took a slot and kept it
    });
    CHECK(edited == all(3, "0 0 loaded"));
}

TEST_CASE("links on ranks: new links at old addresses of one rank get one set on all ranks", "[ranks][link_cache]") {
    const auto reused = with_links(2, false, [](RankLinks &links, std::string &text) {
        text += links.ready(0);
        const bool reuses = links.collective.rank() == 0; // the allocator of rank 0 reuses addresses
        for (double &x : links.fat[reuses ? 0 : 1])
            x *= 2;
        text += links.ready(reuses ? 0 : 1);
        text += links.ready(reuses ? 0 : 1);
    });
    CHECK(reused == all(2, "0 1 1 "));
}

TEST_CASE("links on ranks: a sum uses the current links of its parts, also if old links had their address on one rank",
          "[ranks][link_cache]") {
    const auto sums = with_links(2, true, [](RankLinks &links, std::string &text) {
        text += links.ready(0); // stays in the cache with the addresses of rank 0
        const auto done = [&](milcgpu_status status) { text += status == MILCGPU_OK ? "" : milcgpu_last_error(); };
        links.collective.begin_call();
        const int here = links.collective.rank();
        const LinkCache::Addresses part{links.fat[here].data(), links.lng[here].data()}, sum{&text, &links};
        std::vector<double> fat = links.fat[0], other_fat = fat;
        for (size_t i = 0; i < fat.size(); ++i)
            fat[i] *= 2, other_fat[i] *= 3;
        // New links, made on the device, at the old address of rank 0.
        LinkSet *made = links.cache.slots_for({part})[0], *of_sum = nullptr;
        const milcgpu_field new_fat = links.session.field(fat), lng = links.session.field(links.lng[0]);
        done(milcgpu_links_create(links.session.context, &new_fat, &lng, &made->handle));
        links.cache.keep_deferred(*made, part.first, part.second);
        links.cache.keep_sum(sum, part, 0.5, {other_fat.data(), links.lng[0].data()});
        done(links.cache.ready(sum.first, sum.second, of_sum));
        milcgpu_links *wanted = nullptr, *other = nullptr;
        const milcgpu_field third = links.session.field(other_fat);
        done(milcgpu_links_create(links.session.context, &third, &lng, &other));
        done(milcgpu_links_add(made->handle, 0.5, other, &wanted));
        std::vector<double> b(6 * 256, 1.0), x[2] = {b, b};
        const milcgpu_storage what{MILCGPU_DOUBLE, 0};
        for (const int k : {0, 1}) {
            const milcgpu_field from = links.session.field(b), to = links.session.field(x[k]);
            done(milcgpu_staggered_dslash(k == 0 ? wanted : of_sum->handle, &what, MILCGPU_EVEN, &from, &to));
        }
        milcgpu_links_destroy(wanted), milcgpu_links_destroy(other);
        text += x[0] == x[1] && x[0] != b ? "right" : "of other links";
    });
    CHECK(sums == all(2, "0 right"));
}

TEST_CASE("links on ranks: if memory is short on one rank, all ranks drop a set", "[ranks][link_cache]") {
    const auto short_of = with_links(3, false, [](RankLinks &links, std::string &text) {
        for (double &x : links.fat[1])
            x += 0.5;
        text += links.ready(0);
        if (links.collective.rank() == 1)
            milcgpu_fault_inject(links.session.context, MILCGPU_FAULT_ALLOCATION);
        text += !tests::has(links.ready(1), "old") ? "new " : "old ";
        LinkSet *first = nullptr;
        const LinkSet *kept = links.seen.back();
        links.collective.begin_call();
        text += links.cache.ready(links.fat[0].data(), links.lng[0].data(), first) == MILCGPU_OK && first != kept
                    ? "loaded again"
                    : "wrong";
    });
    CHECK(short_of == all(3, "0 new loaded again"));
}

namespace {

// Each rank has its own gauge field and momenta, as members of MILC's sites.
struct RankGauge {
    tests::Session<double> session{reference::Lattice{{4, 4, 4, 4}}, Backend::host, 0, 0};
    Collective collective;
    std::vector<double> links = std::vector<double>(72 * 256, 0.5), momenta = std::vector<double>(40 * 256, 0.25);
    GaugeOwner owner{collective, session.context, MILCGPU_DOUBLE, 256};
    std::string on_device() {
        uint64_t moved = 0;
        collective.begin_call();
        const milcgpu_plugin_lattice sites{{links.data(), MILCGPU_DOUBLE, 0}, {momenta.data(), MILCGPU_DOUBLE, 0}};
        const milcgpu_status status = owner.on_device(sites, MILCGPU_LINKS | MILCGPU_MOMENTA, moved);
        return status != MILCGPU_OK ? "failed " : format("%zu ", moved / (256 * sizeof(double)));
    }
};

std::vector<std::string> with_gauge(int size, const std::function<void(RankGauge &, std::string &)> &work) {
    tests::Mailroom room(size);
    std::vector<std::unique_ptr<RankGauge>> gauges; // created on this thread, because a session makes assertions
    for (int rank = 0; rank < size; ++rank) {
        gauges.push_back(std::make_unique<RankGauge>());
        const milcgpu_messages table = room.table(rank);
        gauges.back()->collective.join(ranks_of(&table), long_limit);
    }
    return texts_of(tests::on_threads(size, [&](int rank, Ending &ending) { work(*gauges[rank], ending.text); }));
}

} // namespace

TEST_CASE("gauge field on ranks: what MILC writes on one rank is loaded on all", "[ranks][plugin][md]") {
    const auto moved = with_gauge(3, [](RankGauge &gauge, std::string &text) {
        text += gauge.on_device();
        text += gauge.on_device();
        if (gauge.collective.rank() == 1)
            gauge.momenta[7] = 1;
        text += gauge.on_device();
    });
    CHECK(moved == all(3, "112 0 40 "));
}

TEST_CASE("gauge field on ranks: an old copy that was written or cannot be copied on one rank is lost on all",
          "[ranks][plugin][md]") {
    const auto lost = with_gauge(2, [](RankGauge &gauge, std::string &text) {
        const auto to_host = [&] {
            try {
                gauge.collective.begin_call();
                gauge.owner.to_host(MILCGPU_LINKS, "a test");
                return std::string("copied");
            } catch (const Error &error) {
                return std::string(error.what());
            }
        };
        gauge.on_device();
        gauge.owner.device_wrote(MILCGPU_LINKS, false);
        if (gauge.collective.rank() == 1)
            gauge.links[5] = 1;
        text += to_host().substr(0, 70);
        gauge.links[5] = 0.5;
        if (gauge.collective.rank() == 0)
            milcgpu_fault_inject(gauge.session.context, MILCGPU_FAULT_ALLOCATION);
        text += tests::has(to_host(), "could not be copied: rank 0 of 2: milcgpu_gauge_save: ") ? ", not copied, "
                                                                                                : ", wrong, ";
        text += to_host();
    });
    CHECK(lost == all(2, "the host wrote the gauge field while the device had the newest: a test, not copied, copied"));
}

TEST_CASE("precision on ranks: all use the highest that one of them needs", "[ranks][plugin]") {
    const auto endings = agreeing(2, [](Collective &collective, Ending &ending) {
        Ladder ladder(collective, policy_named("double-half"), true);
        // On rank 1 single moves less memory than double, on rank 0 more.
        const auto bytes = [&](const Policy &policy) {
            return size_t{100} + (policy.sloppy == MILCGPU_HALF     ? 50
                                  : policy.sloppy == MILCGPU_SINGLE ? (collective.rank() == 1 ? -10 : 10)
                                                                    : 0);
        };
        ending.text = ladder.next(MILCGPU_NO_MEMORY, bytes) ? ladder.policy().name : "none";
    });
    CHECK(texts_of(endings) == all(2, "double"));
}

TEST_CASE("the cut gives each box the sites that the stencil needs, with the smallest faces, X last",
          "[ranks][plugin]") {
    using Cut = std::array<int, 4>;
    const int cube[] = {24, 24, 24, 32}, long_in_t[] = {32, 32, 32, 96}, small[] = {4, 4, 4, 4}, six[] = {6, 6, 6, 6},
              flat[] = {12, 4, 4, 4};
    CHECK(best_cut(cube, 1, 3) == Cut{1, 1, 1, 1});
    CHECK(best_cut(cube, 2, 3) == Cut{1, 1, 1, 2});
    CHECK(best_cut(cube, 4, 3) == Cut{1, 1, 1, 4});
    CHECK(best_cut(long_in_t, 6, 3) == Cut{1, 1, 1, 6});
    CHECK(best_cut(six, 2, 3) == Cut{1, 1, 1, 2});
    CHECK(best_cut(six, 4, 3) == Cut{1, 1, 2, 2});
    CHECK(best_cut(six, 16, 3) == Cut{2, 2, 2, 2});
    CHECK(best_cut(flat, 4, 3) == Cut{4, 1, 1, 1});
    CHECK(best_cut(small, 2, 3) == Cut{0, 0, 0, 0});
    CHECK(best_cut(six, 3, 3) == Cut{0, 0, 0, 0});

    milcgpu_milc milc{};
    milc.ranks = 4;
    const std::array<int, 4> extent{6, 6, 6, 2};
    std::copy(extent.begin(), extent.end(), milc.extent);
    std::copy(six, six + 4, milc.whole);
    milc.whole[3] = 8;
    CHECK(refusal_of_cut(milc) ==
          "a rank has 6 x 6 x 6 x 2 sites: a direction that is cut needs 3 of them, the reach of "
          "the long links. -geom 1 1 2 2 (-qmp-geom with QMP) fits");
    milc.extent[3] = 4, milc.extent[2] = 3;
    CHECK(refusal_of_cut(milc).empty());
    milc.ranks = 1;
    milc.extent[3] = milc.whole[3] = 2; // not cut
    CHECK(refusal_of_cut(milc).empty());
}

TEST_CASE("the table at exit sums over all ranks and has the slowest rank of each routine", "[ranks][plugin]") {
    std::vector<Ledger> ranks(3);
    for (int rank = 0; rank < 3; ++rank) {
        RoutineAccount &a = ranks[rank][MILCGPU_KS_CONGRAD];
        a.calls = 4;
        a.seconds = rank == 1 ? 2 : 1;
        a.flops = 1e9;
        a.to_device = 1000000;
        a.cpu_seconds = 0.5 * rank;
    }
    const std::string one = table_of({ranks[1]}, 10), several = table_of(ranks, 10);
    CHECK(tests::has(one, "ks_congrad_parity              4       0      2.000  20.0%       0.5       1.0"));
    CHECK_FALSE(tests::has(one, "rank"));
    CHECK(tests::has(several, "of 3 ranks"));
    CHECK(tests::has(several, "ks_congrad_parity              4       0      2.000  20.0%       1.5       3.0"));
    CHECK(tests::has(several, "1.000            1\n"));
    CHECK(tests::has(several, "all of these 2.000 s of a run of 10.000 s"));
    // A column is explained if it has numbers.
    const auto explained = [&](long RoutineAccount::*column, const char *legend) {
        CHECK_FALSE(tests::has(several, legend));
        std::vector<Ledger> with = ranks;
        with[0][MILCGPU_UPDATE_U].*column = 1;
        with[0][MILCGPU_UPDATE_U].calls = 1;
        CHECK(tests::has(table_of(with, 10), legend));
    };
    explained(&RoutineAccount::known, "\nknown: calls whose result milcgpu had from an earlier call\n");
    explained(&RoutineAccount::safer, "\nsafer: tries in a safer precision after an error\n");

    Certificate run;
    run.device = "a \"GPU\", 80 GB";
    run.date = "2026-11-26";
    const auto file_of = [&](TableKind kind) { return run.file(kind, ranks, 10); };
    const std::string heading =
        "routine,calls,known,seconds,flops,bytes_to,bytes_from,safer,cpu_calls,cpu_seconds,compared,"
        "beyond,slowest_rank,ranks,device,date,solutions,missed,residual,asked,failed,reloaded\n";
    CHECK(file_of(TableKind::csv) ==
          heading + "\"ks_congrad_parity\",4,0,2.000000,3000000000,3000000,0,0,0,1.000000,0,0,1,3,\"a 'GPU', 80 GB\","
                    "\"2026-11-26\",0,0,0,0,0,0\n\"outside of milcgpu\",0,0,8.000000,0,0,0,0,0,0.000000,0,0,0,3,\"a "
                    "'GPU', 80 GB\","
                    "\"2026-11-26\",0,0,0,0,0,0\n");
    // The script of the benchmarks reads both formats of seconds.
    const tests::Folder folder;
    const std::string csv = folder.path / "csv", log = folder.path / "log";
    std::ofstream(csv) << file_of(TableKind::csv);
    std::ofstream(log) << tests::replaced(several, "(^|\n)(?=.)", "$1milcgpu: ");
    for (const std::string &table : {csv, log})
        CHECK(tests::run("", "", "awk -v row=run -f examples/benchmarks/parts.awk " + table).output ==
              "run,2.000,0.000,0.000,0.000,0.000,0.000,8.000\n");
    CHECK(tests::has(
        file_of(TableKind::json),
        ",\n\"routines\":[{\"routine\":\"ks_congrad_parity\",\"calls\":4,\"known\":0,\"seconds\":2.000000,"));
}
