// How soon the plugin sees that MILC's links differ from the links on the device.
#include "milc_glue/links/links_handle.h"
#include "milc_glue/links/verify.h"
#include "milc_glue/residency/link_watch.h"
#include "tests/support.h"
#include <chrono>

using namespace milcgpu;
using tests::Session;

namespace {

// Two sets of links, as for two eps_naik, and a cache that looks at a sample or at all links.
struct Prepared {
    reference::Lattice lattice{{8, 8, 8, 8}};
    Session<double> session;
    std::vector<double> fat[2], lng[2];
    Collective one_rank;
    DeferredValues deferred;
    LinkCache cache;
    reference::Rng rng{9};

    explicit Prepared(Backend backend, bool looks_at_all = false)
        : session(lattice, backend, 0, 0),
          cache(one_rank, session.context, lattice.volume(), MILCGPU_DOUBLE, looks_at_all, deferred) {
        for (int s = 0; s < 2; ++s)
            for (auto *links : {&fat[s], &lng[s]}) {
                links->resize(72 * static_cast<size_t>(lattice.volume()));
                for (double &x : *links)
                    x = reference::uniform(rng) - 0.5;
            }
    }
    LinkSet &ready(int s, Mirror::Look look = Mirror::Look::whole) {
        LinkSet *set = nullptr;
        REQUIRE(cache.ready(fat[s].data(), lng[s].data(), set, cache.look(fat[s].data(), lng[s].data(), look)) ==
                MILCGPU_OK);
        return *set;
    }
    // Negates one link at a random place.
    void edit(int s) {
        std::vector<double> &links = rng() % 2 == 0 ? fat[s] : lng[s];
        const size_t link = 18 * (rng() % (links.size() / 18));
        for (size_t k = link; k < link + 18; ++k)
            links[k] = -links[k];
    }
    static uint64_t version(const LinkSet &set) { return milcgpu_links_version(set.handle); }
};

} // namespace

// An edit has reached the device if the handle's content changed, which the library counts by a hash of all bits.
TEST_CASE("an edit of one link is seen in the next call, with two sets in turn", "[link_cache]") {
    for (const Backend backend : tests::backends())
        for (const bool looks_at_all : {false, true}) {
            Prepared p(backend, looks_at_all);
            p.ready(0), p.ready(1);
            for (int k = 0; k < 20; ++k) {
                const int s = k % 2;
                const uint64_t before = Prepared::version(p.ready(s)), other = Prepared::version(p.ready(1 - s));
                p.edit(s);
                CHECK(Prepared::version(p.ready(s, looks_at_all ? Mirror::Look::sample : Mirror::Look::whole)) !=
                      before);
                CHECK(Prepared::version(p.ready(1 - s)) == other); // and nothing else was loaded
            }
        }
}

TEST_CASE("the sample shows edits that MILC makes", "[link_cache]") {
    Prepared p(Backend::host);
    const size_t site = 72, sites = p.lattice.volume();
    const auto seen = [&](const auto &edit) {
        const uint64_t before = Prepared::version(p.ready(0));
        edit();
        return Prepared::version(p.ready(0, Mirror::Look::sample)) != before;
    };
    CHECK(seen([&] { // a direction; a boundary in x, every fourth site of a parity; a boundary in t
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
}

TEST_CASE("sets of links are found by content, not by address, and the oldest is dropped", "[link_cache]") {
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
    CHECK(p.cache.drop_oldest(again)); // drops the other set, although this one is older
    CHECK_FALSE(p.cache.drop_oldest(again));
    p.fat[1][7] = NAN; // refused, and no set with it stays
    LinkSet *refused = nullptr;
    CHECK(p.cache.ready(p.fat[1].data(), p.lng[1].data(), refused) == MILCGPU_NAN_OR_INF);
    CHECK_FALSE(p.cache.drop_oldest(again));
}

TEST_CASE("a sum of links that changed on the device fails once with a message, then the links are loaded again",
          "[link_cache][faults]") {
    for (const Backend backend : tests::backends()) {
        Prepared p(backend);
        const double sum_fat = 0, sum_lng = 0; // stand for the addresses of the sum
        p.cache.keep_sum({&sum_fat, &sum_lng}, {p.fat[0].data(), p.lng[0].data()}, 0.5,
                         {p.fat[1].data(), p.lng[1].data()});
        for (const int changed : {0, 1}) {
            milcgpu_links &links = *p.ready(changed).handle;
            links.context->flip_links = true;
            flip_if_planted(links);
            LinkSet *sum = nullptr;
            CHECK(p.cache.ready(&sum_fat, &sum_lng, sum) == MILCGPU_CORRUPTED);
            CHECK(sum == nullptr);
            CHECK(tests::has(p.cache.why_no_sum(), changed == 0 ? "a: fat links" : "b: fat links"));
            CHECK(p.cache.why_no_sum().empty());
            CHECK(p.cache.ready(&sum_fat, &sum_lng, sum) == MILCGPU_OK);
            sum->mirror.forget_copy();
        }
    }
}

TEST_CASE("links in use stay when a new sum takes their place", "[link_cache]") {
    for (const Backend backend : tests::backends()) {
        Prepared p(backend);
        const double sum_fat = 0, sum_lng = 0; // stand for the addresses of the sum
        const auto sum = [&](double factor) -> LinkSet & {
            LinkSet *set = nullptr;
            p.cache.keep_sum({&sum_fat, &sum_lng}, {p.fat[0].data(), p.lng[0].data()}, factor,
                             {p.fat[1].data(), p.lng[1].data()});
            CHECK(p.cache.ready(&sum_fat, &sum_lng, set) == MILCGPU_OK);
            return *set;
        };
        const std::shared_ptr<milcgpu_links> held = LinkCache::hold(sum(0.5));
        const uint64_t content = held->links->content();
        CHECK(sum(0.25).content() != content);
        CHECK(held->links->content() == content);
    }
}

TEST_CASE("an edit outside the sample is seen by threads that look during a solve, or at its end",
          "[link_cache][sanitize]") {
    Prepared p(Backend::host);
    p.ready(0);
    int at_the_end = 0;
    for (const int threads : {0, 1, 3})
        for (const int milliseconds : {0, 1, 20}) // from long before the look ends to long after
            for (int k = 0; k < 6; ++k) {
                const uint64_t before = Prepared::version(p.ready(0));
                p.edit(0);
                LinkSet &set = p.ready(0, Mirror::Look::sample);
                const bool at_head = Prepared::version(set) != before;
                CHECK(set.mirror.rest_is_unseen() == !at_head);
                LinkWatch watch(p.cache, set, p.fat[0].data(), p.lng[0].data(), threads);
                watch.begin();
                std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
                CHECK(watch.end() == at_head);
                CHECK(watch.end()); // and no other edit
                at_the_end += !at_head;
                if (!at_head) {
                    set.mirror.forget_copy();
                    CHECK(Prepared::version(p.ready(0)) != before);
                }
            }
    CHECK(at_the_end > 20);
    for (const int threads : {0, 2}) { // no edit, and a call with another result
        LinkSet &set = p.ready(0, Mirror::Look::sample);
        LinkWatch watch(p.cache, set, p.fat[0].data(), p.lng[0].data(), threads);
        watch.begin();
        CHECK(watch.end());
        LinkWatch left(p.cache, p.ready(0, Mirror::Look::sample), p.fat[0].data(), p.lng[0].data(), threads);
        left.begin();
    }
}
