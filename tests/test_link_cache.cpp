// How soon the plugin sees that MILC's links are no longer those on the device.
#include "milc_glue/links/links_handle.h"
#include "milc_glue/plugin/link_watch.h"
#include "milc_glue/links/verify.h"
#include "tests/support.h"
#include <chrono>

using namespace milcgpu;
using tests::Session;

namespace {

// Two sets of links, as for two eps_naik, and a cache that does not look at all of them in a call.
struct Prepared {
    reference::Lattice lattice{{8, 8, 8, 8}};
    Session<double> session;
    std::vector<double> fat[2], lng[2];
    Collective one_rank;
    LinkCache cache;
    reference::Rng rng{9};

    explicit Prepared(Backend backend, int whole_below = 0)
        : session(lattice, backend, 0, 0),
          cache(one_rank, session.context, lattice.volume(), MILCGPU_DOUBLE, whole_below) {
        for (int s = 0; s < 2; ++s)
            for (auto *links : {&fat[s], &lng[s]}) {
                links->resize(72 * static_cast<size_t>(lattice.volume()));
                for (double &x : *links)
                    x = reference::uniform(rng) - 0.5;
            }
    }
    LinkSet &ready(int s) {
        LinkSet *set = nullptr;
        REQUIRE(cache.ready(fat[s].data(), lng[s].data(), set) == MILCGPU_OK);
        return *set;
    }
    // One real of one link, anywhere.
    void edit(int s) {
        std::vector<double> &links = rng() % 2 == 0 ? fat[s] : lng[s];
        links[rng() % links.size()] += 0.25;
    }
    static uint64_t version(const LinkSet &set) { return milcgpu_links_version(set.handle); }
};

// An edit is on the device when the handle's content has changed: the library counts that by a checksum of all bits.
int calls_until_seen(Prepared &p, int s, uint64_t version) {
    for (int calls = 1; calls <= 3 * hash_parts; ++calls) {
        if (Prepared::version(p.ready(s)) != version)
            return calls;
        p.ready(1 - s); // the other set is used in between
    }
    return 1000;
}

} // namespace

TEST_CASE("an edit of one link is seen in the 8th call at the latest, with two sets in turn", "[link_cache]") {
    for (const Backend backend : tests::backends()) {
        Prepared p(backend);
        p.ready(0), p.ready(1);
        int latest = 0;
        for (int k = 0; k < 40; ++k) {
            const int s = k % 2;
            const uint64_t before = Prepared::version(p.ready(s)), other = Prepared::version(p.ready(1 - s));
            p.edit(s);
            latest = std::max(latest, calls_until_seen(p, s, before));
            CHECK(Prepared::version(p.ready(1 - s)) == other); // and nothing else was loaded again
        }
        CHECK(latest <= hash_parts);
        CHECK(latest > 1); // or the test would not see a look at everything
    }
}

TEST_CASE("edits that MILC makes are seen at once; a small lattice is looked at whole", "[link_cache]") {
    Prepared p(Backend::host);
    const size_t site = 72, sites = p.lattice.volume();
    const auto seen = [&](const auto &edit) {
        const uint64_t before = Prepared::version(p.ready(0));
        edit();
        return Prepared::version(p.ready(0)) != before;
    };
    for (int k = 0; k < hash_parts; ++k) { // whatever part is next
        CHECK(seen([&] {                   // a direction, a boundary in x (every fourth site of a parity), one in t
            for (size_t i = 0; i < sites; ++i)
                p.fat[0][site * i + 18] += 1;
        }));
        CHECK(seen([&] {
            for (size_t i = 3; i < sites; i += 4)
                p.lng[0][site * i] += 1;
        }));
        CHECK(seen([&] {
            for (size_t i = sites / 2 - 256; i < sites / 2; ++i)
                p.fat[0][site * i + 54] += 1;
        }));
        p.ready(0);
    }
    Prepared whole(Backend::host, 8 * 8 * 8 * 8 + 1);
    for (int k = 0; k < 20; ++k) {
        const uint64_t before = Prepared::version(whole.ready(0));
        whole.edit(0);
        CHECK(Prepared::version(whole.ready(0)) != before);
    }
}

TEST_CASE("sets of links: the content decides, not the address, and the oldest goes", "[link_cache]") {
    Prepared p(Backend::host);
    LinkSet *const first = &p.ready(0);
    const auto fat = p.fat[0], lng = p.lng[0];
    LinkSet *moved = nullptr;
    REQUIRE(p.cache.ready(fat.data(), lng.data(), moved) == MILCGPU_OK);
    CHECK(moved == first);
    CHECK(p.cache.drop_oldest(nullptr));
    CHECK_FALSE(p.cache.drop_oldest(nullptr));
    LinkSet *const again = &p.ready(0);
    p.ready(1);
    CHECK(p.cache.drop_oldest(again)); // the other, though this one is older
    CHECK_FALSE(p.cache.drop_oldest(again));
    p.fat[1][7] = NAN; // refused, and no set stays behind with it
    LinkSet *refused = nullptr;
    CHECK(p.cache.ready(p.fat[1].data(), p.lng[1].data(), refused) == MILCGPU_NAN_OR_INF);
    CHECK_FALSE(p.cache.drop_oldest(again));
}

TEST_CASE("a sum of links that changed on the device fails once, with words, and then they are loaded again",
          "[link_cache][faults]") {
    for (const Backend backend : tests::backends()) {
        Prepared p(backend);
        const double sum_fat = 0, sum_lng = 0; // their addresses
        p.cache.keep_sum({&sum_fat, &sum_lng}, {p.fat[0].data(), p.lng[0].data()}, 0.5,
                         {p.fat[1].data(), p.lng[1].data()});
        for (const int changed : {0, 1}) {
            milcgpu_links &links = *p.ready(changed).handle;
            links.context->flip_links = true;
            flip_if_planted(links);
            LinkSet *sum = nullptr;
            CHECK(p.cache.ready(&sum_fat, &sum_lng, sum) == MILCGPU_CORRUPTED);
            CHECK(sum == nullptr);
            CHECK(p.cache.why_no_sum().find(changed == 0 ? "a: fat links" : "b: fat links") != std::string::npos);
            CHECK(p.cache.why_no_sum().empty());
            CHECK(p.cache.ready(&sum_fat, &sum_lng, sum) == MILCGPU_OK);
            sum->mirror.forget_copy();
        }
    }
}

TEST_CASE("threads that look during a solve see every edit, and stop when it is over", "[link_cache][sanitize]") {
    Prepared p(Backend::host);
    p.ready(0);
    const auto wait = [] { std::this_thread::sleep_for(std::chrono::milliseconds(300)); };
    for (const int threads : {1, 3})
        for (int k = 0; k < 10; ++k) {
            p.edit(0);
            const uint64_t before = Prepared::version(p.ready(0));
            LinkSet &set = p.ready(0);
            const bool unseen_before = set.mirror.unseen() > 0;
            LinkWatch watch(p.cache, set, p.fat[0].data(), p.lng[0].data(), threads);
            watch.begin();
            if (k < 2)
                wait(); // long enough for 4 MB
            const bool same = watch.end();
            if (k < 2)
                CHECK(set.mirror.unseen() == 0);
            if (!same) {
                CHECK(unseen_before);
                set.mirror.forget_copy();
                CHECK(Prepared::version(p.ready(0)) != before);
            }
            for (int call = 0; call < hash_parts; ++call) // what it did not come to, later calls see
                p.ready(0);
            std::vector<double> now = p.fat[0];
            LinkSet *copy = nullptr;
            REQUIRE(p.cache.ready(now.data(), p.lng[0].data(), copy) == MILCGPU_OK);
            CHECK(copy == &p.ready(0)); // the same content: what is on the device is what the host has
        }
    LinkWatch none(p.cache, p.ready(0), p.fat[0].data(), p.lng[0].data(), 0);
    none.begin();
    CHECK(none.end());
}
