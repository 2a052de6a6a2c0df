// The host's relay between GPUs that cannot access each other, and host memory that ranks share. The test does the work
// of the kernels.
#include "gpu_kernels/halo/relay.h"
#include "gpu_kernels/machine/backend/device.h"
#include "gpu_kernels/machine/backend/host_segment.h"
#include "tests/ranks_support.h"
#include <algorithm>
#include <atomic>
#include <cmath>
#include <fstream>
#include <sys/wait.h>
#include <unistd.h>

using namespace milcgpu;
using namespace tests;

namespace {

constexpr size_t ghosts_of_face = 7, ghosts = 2 * ghosts_of_face; // of both faces in t
constexpr int behind = 6, ahead = 7;

// A rank in a ring, with what a GPU would have.
struct RankOfRing {
    Ranks &ranks;
    Device device{Backend::host, 0};
    int before, after; // neighbouring ranks
    Relay relay;
    std::vector<unsigned char> memory[2]; // ghosts of a vector, by parity, as they arrive
    int broken = 0;
    unsigned announced = 0;
    unsigned long long sums = 0;

    explicit RankOfRing(Ranks &all)
        : ranks(all), before((all.rank() + all.size() - 1) % all.size()), after((all.rank() + 1) % all.size()),
          relay(device, all, faces(before, after), ghosts) {
        for (auto &one : memory)
            one.assign(ghosts * (most_ghost_bytes + check_bytes), 0);
        relay.deliver_to({memory[0].data(), memory[1].data()}, &broken);
    }
    static std::array<Relay::Face, Peers::faces> faces(int before, int after) {
        std::array<Relay::Face, Peers::faces> faces;
        faces.fill({-1, 0, 0});
        faces[behind] = {before, 0, ghosts_of_face};
        faces[ahead] = {after, ghosts_of_face, ghosts};
        return faces;
    }

    // Byte k of word `row` of ghost i of vector `number` that `rank` makes for the neighbour on `for_face`.
    static unsigned char made(int rank, int for_face, unsigned number, size_t row, size_t i, size_t k) {
        return static_cast<unsigned char>(31 * rank + 7 * for_face + 13 * number + 5 * row + 3 * i + k + 1);
    }
    template <class Function> static void for_bytes(int bytes, int word, const Function &function) {
        for (int row = 0; row <= bytes / word; ++row) { // the last row has the check words
            const bool last = row == bytes / word;
            const size_t first = last ? ghosts * most_ghost_bytes : row * ghosts * word,
                         width = last ? check_bytes : word;
            for (size_t i = 0; i < ghosts; ++i)
                for (size_t k = 0; k < width; ++k)
                    function(first + i * width + k, row, i, k);
        }
    }
    // Ghosts for the neighbour behind go where that neighbour has them: ahead.
    void make(int parity, unsigned number, int bytes, int word) {
        for_bytes(bytes, word, [&](size_t at, size_t row, size_t i, size_t k) {
            const int face = i < ghosts_of_face ? ahead : behind;
            relay.outgoing(parity)[at] = made(ranks.rank(), face, number, row, i % ghosts_of_face, k);
        });
    }
    bool came(int parity, unsigned number, int bytes, int word) const {
        bool all = true;
        for_bytes(bytes, word, [&](size_t at, size_t row, size_t i, size_t k) {
            const bool from_before = i < ghosts_of_face; // made by the neighbour behind
            all = all && memory[parity][at] == made(from_before ? before : after, from_before ? ahead : behind, number,
                                                    row, i % ghosts_of_face, k);
        });
        return all;
    }
    void announce(int parity, int bytes, int word) {
        const Announcement next{++announced, static_cast<unsigned>(parity), static_cast<unsigned>(bytes),
                                static_cast<unsigned>(word)};
        relay.box()->announced[announced % RelayBox::announcements] = next.packed();
    }
    void post(const std::vector<double> &numbers) {
        std::copy(numbers.begin(), numbers.end(), relay.box()->out.of[sums % 2][0]);
        relay.box()->sums_posted = ++sums << RelayBox::count_bits | numbers.size();
    }
    void pass_all() {
        while (!relay.poll())
            tests::pause();
    }
};

void demand(bool so, const char *what) {
    if (!so)
        throw Error(Status::corrupted, what);
}

} // namespace

TEST_CASE("the relay brings ghosts of every precision to the memory that the neighbours read, in order",
          "[ranks][relay][sanitize]") {
    for (const auto &[size, from_gpu] : {std::pair(1, false), {2, false}, {3, false}, {2, true}, {3, true}})
        CHECK(all_well(on_ranks(size, [&, from_gpu = from_gpu](Ranks &ranks) {
            RankOfRing rank(ranks);
            if (from_gpu)
                rank.relay.use_gpu_memory();
            demand(is_lasting_on_device(rank.relay.outgoing(1)) == from_gpu, "not the memory that was asked for");
            unsigned number = 0;
            for (const auto &[bytes, word] : {std::pair(48, 16), {24, 8}, {16, 16}})
                for (const int parity : {0, 1}) {
                    rank.make(parity, ++number, bytes, word);
                    rank.announce(0, 0, 0);
                    rank.announce(parity, bytes, word);
                    rank.pass_all();
                    demand(rank.came(parity, number, bytes, word), "other ghosts than those that were made");
                    demand(rank.relay.box()->told[behind] == number && rank.relay.box()->told[ahead] == number,
                           "the neighbours' words did not come");
                }
            // Two vectors of a parity before the host looks: one after the other, and the last one stays.
            rank.make(1, ++number, 24, 8);
            rank.announce(1, 24, 8);
            rank.announce(1, 24, 8);
            rank.pass_all();
            demand(rank.came(1, number, 24, 8), "not the last vector");
        })));
}

TEST_CASE("the relay adds sums in the order of ranks, with the same bits on all", "[ranks][relay][sanitize]") {
    constexpr int size = 3;
    std::vector<std::vector<double>> totals(size);
    CHECK(all_well(on_ranks(size, [&](Ranks &ranks) {
        RankOfRing rank(ranks);
        for (const size_t count : {size_t(1), size_t(3), size_t(most_sums)}) {
            std::vector<double> mine(count);
            for (size_t k = 0; k < count; ++k)
                mine[k] = std::pow(10, 8 * ((ranks.rank() + k) % 3)) / 3 * (k % 2 == 0 ? 1 : -1);
            const int turn = rank.sums % 2;
            rank.post(mine);
            rank.pass_all();
            const double *const total = rank.relay.box()->in.of[turn][0];
            totals[ranks.rank()].insert(totals[ranks.rank()].end(), total, total + count);
            std::vector<double> wanted = mine;
            ranks.add_in_rank_order("a test", wanted.data(), static_cast<int>(count));
            demand(std::memcmp(wanted.data(), total, count * sizeof(double)) == 0, "not the sum in rank order");
        }
    })));
    CHECK(totals[1] == totals[0]);
    CHECK(totals[2] == totals[0]);
}

TEST_CASE("announcements go round the box, and an overwritten one is noticed", "[ranks][relay][faults]") {
    CHECK(all_well(on_ranks(1, [&](Ranks &ranks) {
        RankOfRing rank(ranks);
        for (unsigned k = 1; k <= RelayBox::announcements + 10; ++k) {
            rank.make(k % 2, k, 16, 16);
            rank.announce(k % 2, 16, 16);
            rank.pass_all();
            demand(rank.came(k % 2, k, 16, 16), "not what was announced");
        }
    })));
    const std::vector<Ending> endings = on_ranks(1, [&](Ranks &ranks) {
        RankOfRing rank(ranks);
        for (int k = 0; k < RelayBox::announcements + 1; ++k)
            rank.announce(0, 16, 16);
        rank.pass_all();
    });
    CHECK(all_ended(endings, Status::comm, "exchanges were queued"));
}

TEST_CASE("a missing rank ends the relay of the others by name, and kernels stop waiting", "[ranks][relay][faults]") {
    Mailroom room(2);
    std::atomic<bool> was_told{false};
    const std::vector<Ending> endings = on_ranks(
        room, 2,
        [&](Ranks &ranks) {
            RankOfRing rank(ranks);
            if (ranks.rank() == 1)
                return; // it sends no ghosts
            rank.make(0, 1, 48, 16);
            rank.announce(0, 48, 16);
            try {
                rank.pass_all();
            } catch (const Error &) {
                was_told = rank.broken != 0;
                throw;
            }
        },
        0.3);
    CHECK(endings[0].status == static_cast<int>(Status::timed_out));
    for (const char *part : {"the ghosts of a vector, rank 0 of 2: waited 0.3 s", "rank 1 (behind in t, ahead in t)"})
        CHECK(has(endings[0].text, part));
    CHECK(was_told);
}

TEST_CASE("the relay notices a lost count of exchanges, and a lost part of a sum", "[ranks][relay][faults]") {
    for (const bool sum : {false, true}) {
        CAPTURE(sum);
        Mailroom room(2);
        const std::vector<Ending> endings = on_ranks(room, 2, [&](Ranks &ranks) {
            RankOfRing rank(ranks);
            if (ranks.rank() == 1)
                room.lose_later(1, 0);
            sum ? rank.post({1.5}) : rank.announce(0, 0, 0);
            rank.pass_all();
            ranks.gathered("a test", 1);
        });
        CHECK(all_ended(endings, Status::comm, "rank 1 of 2: a message from rank 0 was lost"));
    }
}

TEST_CASE("a segment of host memory is shared with another process, loses its name, and is refused if it is missing",
          "[ranks][relay][faults]") {
    constexpr size_t bytes = 10000;
    HostSegment mine(bytes);
    CHECK(std::all_of(mine.data(), mine.data() + bytes, [](unsigned char byte) { return byte == 0; }));
    mine.data()[0] = 17;
    const pid_t other = fork();
    if (other == 0) {
        const HostSegment there(mine.name(), bytes);
        there.data()[bytes - 1] = there.data()[0] + 1;
        _exit(0);
    }
    int ended = 1;
    REQUIRE(waitpid(other, &ended, 0) == other);
    CHECK(ended == 0);
    CHECK(mine.data()[bytes - 1] == 18);
    CHECK(std::ifstream(mine.name()).good());
    mine.remove_name();
    CHECK(!std::ifstream(mine.name()).good());
    CHECK_THROWS_AS(HostSegment(mine.name(), bytes), Error);
    CHECK_THROWS_AS(HostSegment(size_t(1) << 50), Error);
}
