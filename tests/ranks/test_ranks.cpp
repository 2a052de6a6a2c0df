// Ranks and their messages: gathers, sums, exchanges, collective decisions, and the end of every wait.
#include "gpu_kernels/machine/comm/clock.h"
#include "tests/ranks_support.h"
#include <atomic>
#include <numeric>

using namespace tests;
using namespace milcgpu;

TEST_CASE("ranks: a gather gives every rank the blocks of all, in order", "[ranks][smoke][sanitize]") {
    for (const int size : {1, 2, 3, 4, 7, 16, 17, 33}) { // more than 16 take turns
        std::vector<std::vector<std::array<int, 3>>> found(size);
        const auto endings = on_ranks(size, [&](Ranks &ranks) {
            const int r = ranks.rank();
            found[r] = ranks.gathered("a test", std::array<int, 3>{r, 10 * r, -r});
        });
        CHECK(all_well(endings));
        for (int rank = 0; rank < size; ++rank) {
            REQUIRE(found[rank].size() == static_cast<size_t>(size));
            for (int r = 0; r < size; ++r)
                CHECK(found[rank][r] == std::array<int, 3>{r, 10 * r, -r});
        }
    }
}

TEST_CASE("ranks: several gathers may be under way at once and finish in any order", "[ranks][sanitize]") {
    constexpr int size = 20;
    std::vector<std::vector<int>> first(size), second(size);
    const auto endings = on_ranks(size, [&](Ranks &ranks) {
        const int mine = ranks.rank(), other = 100 + mine;
        Gather a(ranks, "one", &mine, sizeof mine), b(ranks, "the other", &other, sizeof other);
        first[mine].resize(size), second[mine].resize(size);
        if (mine % 2 == 0) {
            a.finish(first[mine].data());
            b.finish(second[mine].data());
        } else {
            while (!b.done() | !a.done()) // each side advances only when it is looked at
                pause();
            b.finish(second[mine].data());
            a.finish(first[mine].data());
        }
    });
    CHECK(all_well(endings));
    std::vector<int> expected(size);
    std::iota(expected.begin(), expected.end(), 0);
    for (int rank = 0; rank < size; ++rank) {
        CHECK(first[rank] == expected);
        for (int r = 0; r < size; ++r)
            CHECK(second[rank][r] == 100 + r);
    }
}

TEST_CASE("ranks: sums are added in the order of ranks, with the same bits on all", "[ranks][sanitize]") {
    for (const int size : {1, 2, 5, 18}) {
        const auto value = [](int rank, int k) { // the sum depends on the order
            return (k == 0 ? 1.0 : std::pow(-1.0, rank) * 1e16) + 1.0 / (3 + rank);
        };
        std::vector<std::array<double, 2>> found(size);
        const auto endings = on_ranks(size, [&](Ranks &ranks) {
            double values[2] = {value(ranks.rank(), 0), value(ranks.rank(), 1)};
            ranks.add_in_rank_order("a test", values, 2);
            found[ranks.rank()] = {values[0], values[1]};
        });
        CHECK(all_well(endings));
        for (int k = 0; k < 2; ++k) {
            double expected = value(0, k);
            for (int rank = 1; rank < size; ++rank)
                expected += value(rank, k);
            for (int rank = 0; rank < size; ++rank)
                CHECK(found[rank][k] == expected);
        }
    }
}

namespace {

// What neighbours in a ring send each other, and what a rank sends itself. Two messages have one tag.
struct Ring {
    std::vector<double> sent, received;
    std::vector<Message> messages;
    Ring(const Ranks &ranks, size_t count) : sent(6 * count), received(6 * count, -1) {
        const int size = ranks.size(), rank = ranks.rank(), ahead = (rank + 1) % size,
                  behind = (rank + size - 1) % size;
        for (size_t k = 0; k < sent.size(); ++k)
            sent[k] = 1000.0 * rank + static_cast<double>(k);
        const auto add = [&](int peer, int part, bool sends, int tag, const char *direction) {
            messages.push_back({peer, sends ? sent.data() + part * count : nullptr,
                                sends ? nullptr : received.data() + part * count, count * sizeof(double), tag,
                                direction});
        };
        add(ahead, 0, true, 3, "ahead in t");
        add(behind, 0, false, 3, "behind in t");
        add(ahead, 1, true, 3, "ahead in t");
        add(behind, 1, false, 3, "behind in t");
        add(behind, 2, true, 4, "behind in t");
        add(ahead, 2, false, 4, "ahead in t");
        add(rank, 3, true, 3, "ahead in x");
        add(rank, 4, true, 0, "behind in x");
        add(rank, 3, false, 3, "behind in x");
        add(rank, 4, false, 0, "ahead in x");
        messages.push_back(
            {rank, sent.data() + 5 * count, received.data() + 5 * count, count * sizeof(double), 7, "self"});
    }
    bool right(const Ranks &ranks) const {
        const int size = ranks.size(), rank = ranks.rank(), ahead = (rank + 1) % size,
                  behind = (rank + size - 1) % size;
        const int from[] = {behind, behind, ahead, rank, rank, rank};
        const size_t count = sent.size() / 6;
        for (size_t k = 0; k < sent.size(); ++k)
            if (received[k] != 1000.0 * from[k / count] + static_cast<double>(k))
                return false;
        return true;
    }
};

} // namespace

TEST_CASE("ranks: neighbours exchange messages, and a rank with itself", "[ranks][smoke][sanitize]") {
    for (const int size : {1, 2, 3, 6})
        for (const size_t count : {0, 1, 5000}) {
            std::vector<int> right(size, 0);
            const auto endings = on_ranks(size, [&](Ranks &ranks) {
                for (int turn = 0; turn < 3; ++turn) {
                    const auto ring = std::make_shared<Ring>(ranks, count);
                    Exchange exchange(ranks, "a test", ring->messages, ring);
                    if (turn == 1)
                        while (!exchange.done())
                            pause();
                    exchange.finish();
                    exchange.finish(); // no effect
                    right[ranks.rank()] += ring->right(ranks) && exchange.done();
                }
            });
            CHECK(all_well(endings));
            CHECK(right == std::vector<int>(size, 3));
        }
}

TEST_CASE("ranks: long messages go in pieces", "[ranks][sanitize]") {
    constexpr int size = 3;
    Mailroom room(size);
    std::vector<int> right(size, 0);
    const auto endings = on_threads(size, [&](int rank, Ending &) {
        const milcgpu_messages table = room.table(rank);
        const std::unique_ptr<Ranks> ranks = ranks_of(&table, 100); // the last piece is shorter
        const auto ring = std::make_shared<Ring>(*ranks, 1001);
        Exchange(*ranks, "a test", ring->messages, ring).finish();
        right[rank] = ring->right(*ranks);
    });
    CHECK(all_well(endings));
    CHECK(right == std::vector<int>(size, 1));
    CHECK(room.largest() == 100);
}

TEST_CASE("ranks: impossible messages are refused", "[ranks][sanitize]") {
    int word = 0, other = 0;
    const auto refusal = [&](const std::vector<Message> &messages) {
        Ranks one;
        return refusal_by(Status::bad_argument, [&] { Exchange(one, "a test", messages, nullptr); });
    };
    CHECK(refusal({{0, &word, &other, sizeof word, 5, "self"}}).empty());
    for (const int peer : {-1, 1})
        CHECK(has(refusal({{peer, &word, nullptr, sizeof word, 5, "ahead in z"}}),
                  format("for rank %d (ahead in z)", peer)));
    for (const int tag : {-1, int(Ranks::tags)})
        CHECK(has(refusal({{0, &word, &other, sizeof word, tag, "self"}}), format("tag %d", tag)));
    const Message sent{0, &word, nullptr, sizeof word, 5, "self"};
    Message received{0, nullptr, &other, sizeof word, 6, "self"};
    CHECK_FALSE(refusal({sent}).empty());
    CHECK_FALSE(refusal({sent, received}).empty());
    received.tag = 5;
    CHECK(refusal({sent, received}).empty());
    received.bytes = 1;
    CHECK_FALSE(refusal({sent, received}).empty());
    CHECK_THROWS_AS(Ranks(2, 2, nullptr), Error);
    CHECK_THROWS_AS(Ranks(-1, 2, nullptr), Error);
    CHECK_THROWS_AS(Ranks(0, 0, nullptr), Error);
    CHECK_THROWS_AS(Ranks(0, 2, nullptr), Error);
}

TEST_CASE("ranks: a failure on one rank fails on all, with the rank's message", "[ranks][smoke][sanitize]") {
    const auto agreed = [](int size, const std::function<void(int)> &work) {
        std::atomic<int> went_on{0};
        auto endings = on_ranks(size, [&](Ranks &ranks) {
            const int rank = ranks.rank();
            std::unique_ptr<Error> caught;
            try {
                ranks.collective("a test", [&] { work(rank); });
            } catch (const Error &error) {
                caught = std::make_unique<Error>(error);
            }
            ranks.collective("the next call", [] {}); // the ranks still work
            ++went_on;
            if (caught)
                throw *caught;
        });
        CHECK(went_on == size);
        return endings;
    };
    CHECK(all_well(agreed(4, [](int) {})));
    const auto throws = [](Status status, const char *what) { throw Error(status, what); };
    CHECK(all_ended(agreed(4, [&](int r) { r == 2 ? throws(Status::not_built, "none such") : void(); }),
                    Status::not_built, "rank 2 of 4: none such"));
    CHECK(all_ended(agreed(4, [&](int r) { r >= 1 ? throws(Status::nan_or_inf, "here") : void(); }), Status::nan_or_inf,
                    "rank 1 of 4: here"));
    CHECK(all_ended(agreed(5,
                           [&](int r) {
                               if (r == 3)
                                   throws(Status::device_lost, "gone");
                               if (r == 1 || r == 4)
                                   throws(Status::no_memory, "full");
                           }),
                    Status::device_lost, "rank 3 of 5: gone"));
    CHECK(all_ended(agreed(2, [](int r) { r == 1 ? throw std::bad_alloc() : void(); }), Status::no_memory,
                    "rank 1 of 2: host memory"));
    CHECK(all_ended(agreed(2, [](int r) { r == 0 ? throw std::runtime_error("odd") : void(); }), Status::bad_argument,
                    "rank 0 of 2: odd"));
    const std::string longer(5000, 'x'); // the others get as much of it as fits
    CHECK(all_ended(agreed(2, [&](int r) { r == 1 ? throws(Status::comm, longer.c_str()) : void(); }), Status::comm,
                    "rank 1 of 2: " + longer.substr(0, 1000)));
    CHECK(all_ended(on_ranks(3,
                             [&](Ranks &ranks) {
                                 ranks.collective("around", [&] {
                                     ranks.collective("inside", [&] {
                                         if (ranks.rank() == 1)
                                             throws(Status::not_positive, "zero mode");
                                     });
                                 });
                             }),
                    Status::not_positive, "rank 1 of 3: zero mode"));
    Ranks one; // not interrupted
    CHECK_THROWS_AS(one.collective("a test", [] { throw std::bad_alloc(); }), std::bad_alloc);
}

TEST_CASE("ranks: a missing rank is named, and nothing hangs", "[ranks][smoke][sanitize]") {
    for (const bool looks_only : {false, true}) {
        constexpr int size = 4, lazy = 2;
        Mailroom room(size);
        std::vector<std::string> again(size);
        std::vector<long> calls_after(size, 0);
        const auto endings = on_ranks(
            room, size,
            [&](Ranks &ranks) {
                const int rank = ranks.rank();
                if (rank == lazy)
                    return;
                try {
                    const auto ring = std::make_shared<Ring>(ranks, 10);
                    Exchange exchange(ranks, "the halo of a test", ring->messages, ring);
                    if (looks_only)
                        while (!exchange.done())
                            pause();
                    exchange.finish();
                    ranks.gathered("the sum of a test", rank);
                } catch (const Error &first) {
                    const long calls = room.calls(rank);
                    const double before = wall_seconds();
                    const auto says_the_same = [&](const std::function<void()> &call) {
                        try {
                            call();
                        } catch (const Error &error) {
                            return error.status() == first.status() && std::string(error.what()) == first.what();
                        }
                        return false;
                    };
                    double number = 1;
                    const auto ring = std::make_shared<Ring>(ranks, 10);
                    bool same = says_the_same([&] { ranks.gathered("later", 1); });
                    same = same && says_the_same([&] { ranks.add_in_rank_order("later", &number, 1); });
                    same = same && says_the_same([&] { Exchange(ranks, "later", ring->messages, ring).finish(); });
                    bool worked = false;
                    same = same && says_the_same([&] { ranks.collective("later", [&] { worked = true; }); });
                    if (same && !worked && number == 1 && wall_seconds() - before < 0.2)
                        again[rank] = "at once";
                    calls_after[rank] = room.calls(rank) - calls;
                    throw;
                }
            },
            0.3);
        CHECK(endings[lazy].status == 0);
        for (int rank = 0; rank < size; ++rank) {
            if (rank == lazy)
                continue;
            CAPTURE(endings[rank].text);
            CHECK(endings[rank].status == static_cast<int>(Status::timed_out));
            CHECK(endings[rank].seconds > 0.3);
            CHECK(endings[rank].seconds < 5);
            CHECK(again[rank] == "at once");
            CHECK(calls_after[rank] == 0);
            const bool beside = rank != 0; // these wait for the late rank; rank 0 waits for them
            CHECK((endings[rank].text.find(beside ? "the halo of a test" : "the sum of a test") == 0));
            CHECK(has(endings[rank].text, format("rank %d of 4: waited 0.3 s", rank)));
            CHECK(has(endings[rank].text, "rank 2"));
            CHECK(has(endings[rank].text, "MILCGPU_TIMEOUT"));
        }
        CHECK(has(endings[1].text, "rank 2 (ahead in t)"));
        CHECK(has(endings[3].text, "rank 2 (behind in t)"));
    }
}

TEST_CASE("ranks: a failure of the message passing is an error with a message, and final", "[ranks][sanitize]") {
    for (const bool in_start : {true, false}) {
        Mailroom room(3);
        in_start ? room.fail_start(1, 42) : room.fail_test(1, 42);
        std::vector<long> later(3, -1);
        const auto endings = on_ranks(
            room, 3,
            [&](Ranks &ranks) {
                const auto ring = std::make_shared<Ring>(ranks, 3);
                try {
                    Exchange(ranks, "the halo of a test", ring->messages, ring).finish();
                } catch (const Error &) {
                    const long calls = room.calls(ranks.rank());
                    try {
                        ranks.gathered("later", 1);
                    } catch (const Error &) {
                        later[ranks.rank()] = room.calls(ranks.rank()) - calls;
                    }
                    throw;
                }
            },
            0.3);
        CAPTURE(endings[1].text);
        CHECK(endings[1].status == static_cast<int>(Status::comm));
        CHECK(endings[1].text.find("the halo of a test, rank 1 of 3") == 0);
        CHECK(has(endings[1].text, "code 42"));
        CHECK(has(endings[1].text, "rank 0 (behind in t)"));
        CHECK(later == std::vector<long>(3, 0));
        for (const int rank : {0, 2})
            CHECK(endings[rank].status == static_cast<int>(Status::timed_out));
    }
}

TEST_CASE("ranks: abandoned messages keep their memory until they arrive", "[ranks][sanitize]") {
    Mailroom room(2);
    const auto of_0 = room.table(0), of_1 = room.table(1);
    std::weak_ptr<int> sent_by_0, kept;
    {
        const auto rank_0 = ranks_of(&of_0), rank_1 = ranks_of(&of_1);
        const auto give_up = [](Ranks &ranks, std::shared_ptr<int> word) {
            const std::weak_ptr<int> seen = word;
            Exchange(ranks, "a test", {{1 - ranks.rank(), word.get(), nullptr, sizeof(int), 1, "ahead in t"}}, word);
            return seen;
        };
        sent_by_0 = give_up(*rank_0, std::make_shared<int>(17));
        CHECK_FALSE(sent_by_0.expired());
        const auto arrived = std::make_shared<int>(0);
        Exchange(*rank_1, "a test", {{0, nullptr, arrived.get(), sizeof(int), 1, "behind in t"}}, arrived).finish();
        CHECK(*arrived == 17);
        CHECK_FALSE(sent_by_0.expired());
        Gather(*rank_0, "later", arrived.get(), sizeof(int)); // looks at the remaining messages; abandoned, too
        CHECK(sent_by_0.expired());
        kept = give_up(*rank_0, std::make_shared<int>(18));
    }
    CHECK_FALSE(kept.expired()); // not yet received: it may still be read
}

TEST_CASE("ranks: the time limit counts from the first look, and missed messages keep their memory",
          "[ranks][sanitize]") {
    Mailroom room(2);
    std::weak_ptr<int> missed;
    int received = 0;
    const auto endings = on_ranks(
        room, 2,
        [&](Ranks &ranks) {
            const auto word = std::make_shared<int>(17 + ranks.rank());
            const auto seconds = [](double s) { std::this_thread::sleep_for(std::chrono::duration<double>(s)); };
            if (ranks.rank() == 1) {
                seconds(0.9);
                Exchange(ranks, "first", {{0, word.get(), nullptr, sizeof(int), 1, "behind in t"}}, word).finish();
                return;
            }
            missed = word;
            Exchange first(ranks, "first", {{1, nullptr, word.get(), sizeof(int), 1, "ahead in t"}}, word);
            seconds(0.8); // longer than the limit, busy elsewhere
            first.finish();
            received = *word;
            {
                Exchange given_up(ranks, "another", {{1, nullptr, word.get(), sizeof(int), 2, "ahead in t"}}, word);
                given_up.done();
                seconds(0.7); // no error if no wait is left
            }
            ranks.throw_if_broken();
            Exchange(ranks, "second", {{1, nullptr, word.get(), sizeof(int), 2, "ahead in t"}}, word).finish();
        },
        0.6);
    CHECK(received == 18);
    CHECK(endings[1].status == 0);
    CHECK(endings[0].status == static_cast<int>(Status::timed_out));
    CHECK(endings[0].text.find("second, rank 0 of 2: waited 0.6 s for messages with rank 1 (ahead in t)") == 0);
    CHECK_FALSE(missed.expired()); // rank 1 may still write to it
}
