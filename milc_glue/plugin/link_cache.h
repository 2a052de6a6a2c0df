// Sets of fat and long links on the device, a mirror (mirror.h) of MILC's links each.
//
// An edit is seen before the call returns a result. A call looks at all of the links before its work. A solve on a GPU
// looks at the sample then, which shows a new field, a boundary or a direction, and at the rest while the GPU works
// (LinkWatch); where the rest has changed, the links are loaded again and the solve continues.
#pragma once
#include "milc_glue/api/plugin.h"
#include "milc_glue/plugin/collective.h"
#include "milc_glue/plugin/mirror.h"
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace milcgpu {

constexpr size_t most_link_sets = MILCGPU_MOST_LINK_SETS;
// Below, a GPU's solve looks at all before its work, too: there that costs less than the solve's other work on the
// host.
constexpr int links_whole_below_sites = 16384;

struct LinkSet {
    Mirror mirror; // the device has the newest: MILC's fields are not filled (deferred links)
    milcgpu_links *handle;
    long used;
    std::shared_ptr<milcgpu_links> held{}; // owns the handle once somebody else has held it (LinkCache::hold)
    // A number for what the device has: the same for the same links, whether they were made there or loaded.
    uint64_t content() const;
};

class LinkCache {
  public:
    // real: of MILC's links. looks_at_all: every call does, before its work. All ranks have the same sets in the same
    // order: which of them a call finds, and where new ones go, they decide together, because a boundary is edited on
    // some ranks only, and addresses are each rank's own.
    LinkCache(Collective &collective, milcgpu_context *context, int sites, int real, bool looks_at_all)
        : collective_(collective), context_(context), sites_(sites), real_(real), looks_at_all_(looks_at_all) {}
    ~LinkCache() { drop_all(); }
    LinkCache(const LinkCache &) = delete;
    LinkCache &operator=(const LinkCache &) = delete;

    // What this rank has of these addresses. Pass the AND over ranks of these bits (Collective::on_all_ranks) to ready()
    // and the others below; the sets must not change in between. sample: the caller looks at the rest (LinkWatch) before
    // it returns a result.
    uint64_t look(const void *fat, const void *lng, Mirror::Look = Mirror::Look::whole) const;
    // Whether all ranks have a set with these, without a second look.
    static bool found(uint64_t common) { return (common & (any_set | any_set << first_deferred)) != 0; }
    // Of the sets that a look of this rank has found, those with this content; and whether one is among the common
    // ones.
    uint64_t with_content(uint64_t look, uint64_t content) const;
    bool is_among(const LinkSet &set, uint64_t sets) const;

    // The device's set with the content that the host's links have now, as far as this call looks at them; loaded where
    // there is none.
    milcgpu_status ready(const void *fat, const void *lng, LinkSet *&set, uint64_t common);
    milcgpu_status ready(const void *fat, const void *lng, LinkSet *&set) {
        return ready(fat, lng, set, collective_.on_all_ranks(look(fat, lng)));
    }
    bool looks_at_all() const { return looks_at_all_; }
    Mirror mirror_of(const void *fat, const void *lng) const;

    // Where new content of these addresses goes, of up to most_link_sets: sets that had them, unused ones, or in place
    // of the oldest. They are the newest then, so that a slot for other addresses does not take their place. nullptr
    // where an address is.
    using Addresses = std::pair<const void *, const void *>; // fat, long
    std::vector<LinkSet *> slots_for(const std::vector<Addresses> &wanted);
    // The set holds what the host's links hold now.
    void keep(LinkSet &set, const void *fat, const void *lng);
    // The set holds the links of these addresses, which are not filled: nothing is read there, also where the set has
    // gone since (ready() fails then), until forget_deferred().
    void keep_deferred(LinkSet &set, const void *fat, const void *lng);
    // The links of these addresses are a + factor b, and are not filled: ready() makes them of the sets of a and b,
    // also where the set has gone since, until forget_deferred().
    // made_now: with a or b, by one making of links.
    void keep_sum(const Addresses &links, const Addresses &a, double factor, const Addresses &b, bool made_now = false);
    // Addresses that no links of MILC's have, for a derivative that it does not ask for.
    Addresses own_derivative() const { return {this, this}; }
    // made_now: links and sums of one making, which lasts until the next one; others are sums that MILC asked for
    // later.
    void forget_deferred(bool made_now_alone = false);
    bool are_deferred(const void *fat, const void *lng) const;
    // Why the last sum could not be made, if it is not for memory; once.
    std::string why_no_sum() { return std::exchange(why_no_sum_, {}); }
    // The links of this set for as long as the caller holds them: what comes after them goes into another handle.
    static std::shared_ptr<milcgpu_links> hold(LinkSet &set);
    void forget_copy(const milcgpu_links *handle); // a bit has flipped there: it is loaded again
    bool drop_oldest(const LinkSet *except);
    void drop_all();

    milcgpu_field field(const void *links) const { return {const_cast<void *>(links), real_, 0}; }
    HostRecords records(const void *links) const;

  private:
    // A bit for each set that has, on this rank, what these addresses have: of those that had them before, by a part of
    // the links (all: of any set, by all of them).
    uint64_t matching(const void *fat, const void *lng, bool all) const;
    uint64_t with_addresses(const void *fat, const void *lng) const;
    LinkSet *current(const void *fat, const void *lng, uint64_t common);
    LinkSet &set_for(const void *fat, const void *lng, uint64_t had_them);
    // Bits of a look: a set each that matches; of those that hold deferred links; of those that had these addresses.
    static constexpr int first_deferred = most_link_sets, first_addresses = 2 * most_link_sets;
    static constexpr uint64_t any_set = (uint64_t{1} << most_link_sets) - 1,
                              deferred_bit = uint64_t{1} << 3 * most_link_sets, // MILC's fields are not filled
        whole_bit = deferred_bit << 1;                                          // all of the links were looked at
    static void make_writable(LinkSet &set);
    static void release(LinkSet &set);
    milcgpu_status load(LinkSet &set, const void *fat, const void *lng);
    // What MILC's fields do not have. A sum: a.first is not nullptr.
    struct Deferred {
        Addresses links, a, b;
        double factor;
        bool made_now; // else a sum that MILC has asked for later
    };
    const Deferred *deferred(const void *fat, const void *lng) const;
    void hold_deferred(LinkSet &set, const void *fat, const void *lng);
    milcgpu_status make_sum(const Deferred &sum, LinkSet *&set, uint64_t had_them);

    Collective &collective_;
    milcgpu_context *context_;
    int sites_, real_;
    bool looks_at_all_;
    std::vector<std::unique_ptr<LinkSet>> sets_;
    std::vector<Deferred> deferred_;
    std::string why_no_sum_;
    long clock_ = 0;
};

} // namespace milcgpu
