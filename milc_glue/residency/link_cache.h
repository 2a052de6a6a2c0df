// Sets of fat and long links on the device. Each set has a mirror (mirror.h) of MILC's links.
//
// An edit is seen before the call returns a result. A call looks at all links before its work. A solve on a GPU first
// looks at the sample, which shows a new field, a boundary or a direction, and at the rest while the GPU works
// (LinkWatch). If the rest has changed, the links are loaded again and the solve continues.
#pragma once
#include "milc_glue/api/plugin.h"
#include "milc_glue/residency/collective.h"
#include "milc_glue/residency/deferred.h"
#include "milc_glue/residency/mirror.h"
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace milcgpu {

constexpr size_t most_link_sets = MILCGPU_MOST_LINK_SETS;
// On smaller lattices a GPU's solve also looks at all links first: this costs less than its other work on the host.
constexpr int links_whole_below_sites = 16384;

struct LinkSet {
    Mirror mirror; // the device is the newest: MILC's fields are deferred
    milcgpu_links *handle;
    long used;
    std::shared_ptr<milcgpu_links> held{}; // owns the handle after LinkCache::hold
    // A hash of what the device has: the same for the same links, whether they were made there or loaded.
    uint64_t content() const;
};

class LinkCache {
  public:
    // real: of MILC's links. looks_at_all: every call looks at all links before its work. All ranks have the same sets
    // in the same order. They decide together which set a call uses and where new links go, because a boundary is
    // edited on some ranks only, and addresses differ between ranks. deferred: the table with a row for links that are
    // not filled.
    LinkCache(Collective &collective, milcgpu_context *context, int sites, int real, bool looks_at_all,
              DeferredValues &deferred)
        : collective_(collective), context_(context), sites_(sites), real_(real), looks_at_all_(looks_at_all),
          deferred_(deferred) {}
    ~LinkCache() { drop_all(); }
    LinkCache(const LinkCache &) = delete;
    LinkCache &operator=(const LinkCache &) = delete;

    // Bits of the sets of this rank that fit these addresses. Pass the AND over ranks of these bits to ready(); the
    // sets must not change in between. sample: the caller looks at the rest (LinkWatch) before it returns a result.
    uint64_t look(const void *fat, const void *lng, Mirror::Look = Mirror::Look::whole) const;
    // True if all ranks have a set with these links, without a second look.
    static bool found(uint64_t common) { return (common & (any_set | any_set << first_deferred)) != 0; }
    // The bits of `look` whose sets have this content; and whether a set is among these bits.
    uint64_t with_content(uint64_t look, uint64_t content) const;
    bool is_among(const LinkSet &set, uint64_t sets) const;

    // Finds or loads a set with the content that the host's links have now, as far as this call looks at them.
    milcgpu_status ready(const void *fat, const void *lng, LinkSet *&set, uint64_t common);
    milcgpu_status ready(const void *fat, const void *lng, LinkSet *&set) {
        return ready(fat, lng, set, collective_.on_all_ranks(look(fat, lng)));
    }
    bool looks_at_all() const { return looks_at_all_; }
    Mirror mirror_of(const void *fat, const void *lng) const;

    // Sets for new content of these addresses, at most most_link_sets: the sets that had the addresses, new sets, or
    // the oldest ones. All of them count as just used, so that none takes the place of another. nullptr for an address
    // that is nullptr.
    using Addresses = LinkAddresses;
    std::vector<LinkSet *> slots_for(const std::vector<Addresses> &wanted);
    // The set has the content of the host's links.
    void keep(LinkSet &set, const void *fat, const void *lng);
    // The set has the links of these addresses, which MILC's fields do not have: they are deferred from now on. Until
    // they are filled, nothing is read at these addresses. ready() fails if the set has been dropped.
    void keep_deferred(LinkSet &set, const void *fat, const void *lng);
    // The links of these addresses are deferred, and are a + factor b. ready() makes them of the sets of a and b, and
    // again if their set has been dropped. It fails if the content of a or b has changed since the first sum.
    void keep_sum(const Addresses &links, const Addresses &a, double factor, const Addresses &b);
    // Placeholder key for a derivative that MILC did not request.
    Addresses own_derivative() const { return {this, this}; }
    bool are_deferred(const void *fat, const void *lng) const { return deferred(fat, lng) != nullptr; }
    // Why the last sum could not be made, once; empty if memory was short.
    std::string why_no_sum() { return std::exchange(why_no_sum_, {}); }
    // The links of this set for as long as the caller holds them: new content goes into another handle.
    static std::shared_ptr<milcgpu_links> hold(LinkSet &set);
    void forget_copy(const milcgpu_links *handle); // a bit has flipped in it: the next ready() loads it again
    // Frees solvers and packed links, and sums of links if memory may be short. A force needs the memory and none of
    // these, and after it MILC changes the gauge field.
    void make_room_for_force();
    bool drop_oldest(const LinkSet *except);
    // Drops all sets whose links are not deferred. MILC is about to make new links, mostly of a changed gauge field.
    void drop_all_but_deferred();
    void drop_all();

    milcgpu_field field(const void *links) const { return {const_cast<void *>(links), real_, 0}; }
    HostRecords records(const void *links) const;

  private:
    // A bit for each set that has, on this rank, the content at these addresses. Compares the sample, with sets that
    // had these addresses before; all: compares all links, with every set.
    uint64_t matching(const void *fat, const void *lng, bool all) const;
    uint64_t with_addresses(const void *fat, const void *lng) const;
    LinkSet *current(const void *fat, const void *lng, uint64_t common);
    LinkSet &set_for(const void *fat, const void *lng, uint64_t had_them);
    // Bits of a look, three for each set: it has this content; it has these links, which are deferred; it had these
    // addresses.
    static constexpr int first_deferred = most_link_sets, first_addresses = 2 * most_link_sets;
    static constexpr uint64_t any_set = (uint64_t{1} << most_link_sets) - 1,
                              deferred_bit = uint64_t{1} << 3 * most_link_sets, // MILC's fields are not filled
        whole_bit = deferred_bit << 1,                                          // all of the links were looked at
        room_bit = whole_bit << 1;                                              // the device is not half full
    static void make_writable(LinkSet &set);
    void free_solvers_and_packed(const LinkSet &set);
    template <class Which> void drop_if(const Which &which);
    static void release(LinkSet &set);
    milcgpu_status load(LinkSet &set, const void *fat, const void *lng);
    const DeferredValues::Value *deferred(const void *fat, const void *lng) const;
    void defer(const Addresses &links, const std::optional<LinkSum> &sum);
    void hold_deferred(LinkSet &set, const void *fat, const void *lng);
    milcgpu_status make_sum(const Addresses &links, LinkSum sum, LinkSet *&set);

    Collective &collective_;
    milcgpu_context *context_;
    int sites_, real_;
    bool looks_at_all_;
    std::vector<std::unique_ptr<LinkSet>> sets_;
    DeferredValues &deferred_;
    std::string why_no_sum_;
    long clock_ = 0;
    bool memory_may_be_short_ = false; // on any rank, when links were last made
};

} // namespace milcgpu
