#include "milc_glue/residency/link_cache.h"
#include "milc_glue/links/links_handle.h"
#include <algorithm>
#include <utility>

namespace milcgpu {

HostRecords LinkCache::records(const void *links) const {
    const size_t bytes = 72 * (real_ == MILCGPU_DOUBLE ? sizeof(double) : sizeof(float));
    return {links, static_cast<size_t>(sites_), bytes, bytes};
}

Mirror LinkCache::mirror_of(const void *fat, const void *lng) const {
    return {records(fat), looks_at_all() ? Mirror::Look::whole : Mirror::Look::sample, records(lng)};
}

namespace {

size_t first_bit(uint64_t bits) {
    size_t k = 0;
    while ((bits >> k & 1) == 0)
        ++k;
    return k;
}

} // namespace

uint64_t LinkSet::content() const { return handle != nullptr && handle->links ? handle->links->content() : 0; }

std::shared_ptr<milcgpu_links> LinkCache::hold(LinkSet &set) {
    if (set.held == nullptr)
        set.held = {set.handle, milcgpu_links_destroy};
    return set.held;
}

void LinkCache::make_writable(LinkSet &set) {
    if (set.held.use_count() > 1)
        release(set);
}

void LinkCache::release(LinkSet &set) {
    milcgpu_links *const handle = std::exchange(set.handle, nullptr);
    if (set.held != nullptr)
        set.held.reset();
    else
        milcgpu_links_destroy(handle);
}

void LinkCache::forget_copy(const milcgpu_links *handle) {
    for (const auto &set : sets_)
        if (set->handle == handle)
            set->mirror.forget_copy();
}

uint64_t LinkCache::with_addresses(const void *fat, const void *lng) const {
    uint64_t bits = 0;
    for (size_t k = 0; k < sets_.size(); ++k)
        bits |= static_cast<uint64_t>(sets_[k]->mirror.is_at(fat, lng)) << k;
    return bits;
}

// had_them: sets that had these addresses on all ranks.
LinkSet &LinkCache::set_for(const void *fat, const void *lng, uint64_t had_them) {
    if (had_them != 0) {
        LinkSet &set = *sets_[first_bit(had_them)];
        set.used = ++clock_;
        return set;
    }
    if (sets_.size() >= most_link_sets)
        drop_oldest(nullptr);
    sets_.push_back(std::make_unique<LinkSet>(LinkSet{mirror_of(fat, lng), nullptr, ++clock_}));
    return *sets_.back();
}

// Sets that had the addresses are taken first, before any set moves; then they are too new to be dropped for others.
std::vector<LinkSet *> LinkCache::slots_for(const std::vector<Addresses> &wanted) {
    const auto is_wanted = [&](size_t k) { return wanted[k].first != nullptr && wanted[k].second != nullptr; };
    const auto had_on_all_ranks = [&] {
        Collective::Words bits{};
        for (size_t k = 0; k < wanted.size(); ++k)
            bits[k] = is_wanted(k) ? with_addresses(wanted[k].first, wanted[k].second) : 0;
        bits[0] |= context_->device->is_half_full() ? 0 : room_bit;
        bits = collective_.on_all_ranks(bits);
        memory_may_be_short_ = (bits[0] & room_bit) == 0;
        bits[0] &= ~room_bit;
        return bits;
    };
    Collective::Words had_them = had_on_all_ranks();
    if (memory_may_be_short_) {
        drop_all_but_deferred();
        had_them = had_on_all_ranks();
    }
    std::vector<LinkSet *> slots(wanted.size(), nullptr);
    for (const bool are_new : {false, true})
        for (size_t k = 0; k < wanted.size(); ++k)
            if (is_wanted(k) && (had_them[k] == 0) == are_new)
                slots[k] = &set_for(wanted[k].first, wanted[k].second, had_them[k]), make_writable(*slots[k]);
    for (LinkSet *slot : slots)
        if (slot != nullptr)
            free_solvers_and_packed(*slot); // of the content before
    return slots;
}

void LinkCache::keep(LinkSet &set, const void *fat, const void *lng) {
    set.mirror = mirror_of(fat, lng);
    set.mirror.both_have();
    set.used = ++clock_;
}

void LinkCache::hold_deferred(LinkSet &set, const void *fat, const void *lng) {
    set.mirror = mirror_of(fat, lng);
    set.mirror.device_wrote();
    set.used = ++clock_;
}

// No set has the new content yet.
void LinkCache::defer(const Addresses &links, const std::optional<LinkSum> &sum) {
    std::vector<DeferredValues::Input> inputs;
    if (sum)
        for (const void *input : {sum->a.first, sum->a.second, sum->b.first, sum->b.second})
            inputs.push_back({input, 0});
    deferred_.add({MILCGPU_FERMION_LINKS, {links.first, links.second}, inputs, sum});
    for (const auto &set : sets_)
        if (set->mirror.is_at(links.first, links.second))
            set->mirror.forget_copy();
}

void LinkCache::keep_deferred(LinkSet &set, const void *fat, const void *lng) {
    defer({fat, lng}, {});
    hold_deferred(set, fat, lng);
}

void LinkCache::keep_sum(const Addresses &links, const Addresses &a, double factor, const Addresses &b) {
    const DeferredValues::Value *const known = deferred(links.first, links.second);
    if (known == nullptr || !known->sum || known->sum->a != a || known->sum->b != b || known->sum->factor != factor)
        defer(links, LinkSum{a, b, factor, {0, 0}});
}

const DeferredValues::Value *LinkCache::deferred(const void *fat, const void *lng) const {
    const DeferredValues::Value *const found = deferred_.find(MILCGPU_FERMION_LINKS, fat);
    return found != nullptr && found->fields == std::vector<const void *>{fat, lng} ? found : nullptr;
}

bool LinkCache::drop_oldest(const LinkSet *except) {
    const auto oldest = std::min_element(sets_.begin(), sets_.end(), [&](const auto &a, const auto &b) {
        return (a.get() == except) != (b.get() == except) ? b.get() == except : a->used < b->used;
    });
    if (oldest == sets_.end() || oldest->get() == except)
        return false;
    release(**oldest);
    sets_.erase(oldest);
    return true;
}

void LinkCache::free_solvers_and_packed(const LinkSet &set) {
    if (set.handle == nullptr)
        return;
    context_->forget(set.handle);
    set.handle->release_idle();
}

void LinkCache::make_room_for_force() {
    for (const auto &set : sets_)
        free_solvers_and_packed(*set);
    if (memory_may_be_short_)
        drop_if([](const DeferredValues::Value *of) { return of != nullptr && of->sum; });
}

void LinkCache::drop_all_but_deferred() {
    if (!sets_.empty())
        drop_if([](const DeferredValues::Value *of) { return of == nullptr; });
}

// which(value): of the deferred value of a set; nullptr: there is none.
template <class Which> void LinkCache::drop_if(const Which &which) {
    uint64_t dropped = 0;
    for (size_t k = 0; k < sets_.size(); ++k) {
        const auto [fat, lng] = sets_[k]->mirror.addresses();
        dropped |= static_cast<uint64_t>(which(deferred(fat, lng))) << k;
    }
    dropped = collective_.on_all_ranks(dropped);
    for (size_t k = sets_.size(); k-- > 0;)
        if ((dropped >> k & 1) != 0) {
            release(*sets_[k]);
            sets_.erase(sets_.begin() + static_cast<std::ptrdiff_t>(k));
        }
}

void LinkCache::drop_all() {
    while (drop_oldest(nullptr))
        continue;
}

uint64_t LinkCache::matching(const void *fat, const void *lng, bool all) const {
    const Mirror::Tag whole = all ? mirror_of(fat, lng).tag_now() : Mirror::Tag{};
    uint64_t bits = 0;
    for (size_t k = 0; k < sets_.size(); ++k) {
        const Mirror &mirror = sets_[k]->mirror;
        const bool same = all ? mirror.has(whole) : mirror.is_at(fat, lng) && mirror.is_same();
        bits |= static_cast<uint64_t>(same) << k;
    }
    return bits;
}

uint64_t LinkCache::look(const void *fat, const void *lng, Mirror::Look look) const {
    const uint64_t had_them = with_addresses(fat, lng) << first_addresses;
    const bool all = looks_at_all() || look == Mirror::Look::whole;
    if (!are_deferred(fat, lng))
        return had_them | matching(fat, lng, all) | (all ? whole_bit : 0);
    uint64_t bits = had_them | deferred_bit;
    for (size_t k = 0; k < sets_.size(); ++k) {
        const Mirror &mirror = sets_[k]->mirror;
        bits |= static_cast<uint64_t>(mirror.is(Mirror::Newest::device) && mirror.is_at(fat, lng))
                << first_deferred << k;
    }
    return bits;
}

uint64_t LinkCache::with_content(uint64_t look, uint64_t content) const {
    const uint64_t found = (look | look >> first_deferred) & any_set;
    uint64_t bits = 0;
    for (size_t k = 0; k < sets_.size(); ++k)
        bits |= static_cast<uint64_t>((found >> k & 1) != 0 && sets_[k]->content() == content) << k;
    return bits;
}

bool LinkCache::is_among(const LinkSet &set, uint64_t sets) const {
    size_t k = 0;
    while (sets_[k].get() != &set)
        ++k;
    return (sets >> k & 1) != 0;
}

// The set with this content, as far as one call looks; nullptr: no set has it on all ranks.
LinkSet *LinkCache::current(const void *fat, const void *lng, uint64_t common) {
    const bool deferred = (common & deferred_bit) != 0;
    uint64_t bits = (deferred ? common >> first_deferred : common) & any_set;
    bool all = (common & whole_bit) != 0;
    if (bits == 0 && !deferred && !all && !sets_.empty()) {
        all = true;
        bits = collective_.on_all_ranks(matching(fat, lng, true));
    }
    if (bits == 0)
        return nullptr;
    LinkSet &set = *sets_[first_bit(bits)];
    if (!deferred)
        set.mirror.looked(all);
    return &set;
}

milcgpu_status LinkCache::ready(const void *fat, const void *lng, LinkSet *&set, uint64_t common) {
    set = current(fat, lng, common);
    if (set != nullptr) {
        set->used = ++clock_;
        return MILCGPU_OK;
    }
    if ((common & deferred_bit) != 0) {
        const std::optional<LinkSum> sum = deferred(fat, lng)->sum;
        return sum ? make_sum({fat, lng}, *sum, set) : MILCGPU_CORRUPTED;
    }
    LinkSet &slot = set_for(fat, lng, common >> first_addresses & any_set);
    const milcgpu_status status = load(slot, fat, lng);
    if (status == MILCGPU_OK) {
        keep(slot, fat, lng);
        set = &slot;
    } else {
        set = nullptr;
        slot.used = 0; // the oldest, to be dropped
        drop_oldest(nullptr);
    }
    return status;
}

// Another set may have the addresses of a or b, too, if one rank's allocator has given them to new links. So the sum is
// made of the sets that ready() has found. a, b and the sum are the newest sets, so none is dropped for another one,
// except a, if memory is short for b.
milcgpu_status LinkCache::make_sum(const Addresses &links, LinkSum sum, LinkSet *&set) {
    constexpr size_t of_sum = 3;
    LinkSet *one = nullptr, *other = nullptr;
    milcgpu_status status = ready(sum.a.first, sum.a.second, one);
    if (status == MILCGPU_OK)
        status = ready(sum.b.first, sum.b.second, other);
    if (status != MILCGPU_OK)
        return status;
    // To make room for b, ready() may have dropped the set of a, or loaded b into it.
    const bool holds = std::any_of(sets_.begin(), sets_.end(), [&](const auto &there) {
        return there.get() == one && one->mirror.is_at(sum.a.first, sum.a.second);
    });
    const uint64_t contents[2] = {holds ? one->content() : 0, other->content()};
    const bool first = sum.contents[0] == 0;
    const bool changed = !first && holds && (contents[0] != sum.contents[0] || contents[1] != sum.contents[1]);
    status = collective_(!holds ? MILCGPU_NO_MEMORY : changed ? MILCGPU_CORRUPTED : MILCGPU_OK);
    if (status == MILCGPU_CORRUPTED)
        why_no_sum_ = "links of one eps_naik are a sum, and its parts have been written since it was made";
    if (status != MILCGPU_OK)
        return status;
    // Only now, because ready() of a and b may have moved sets.
    const uint64_t had_them = collective_.on_all_ranks(with_addresses(links.first, links.second));
    LinkSet &slot = set_for(links.first, links.second, had_them);
    slot.mirror.forget_copy();
    make_writable(slot);
    for (;;) {
        status = collective_(milcgpu_links_add(one->handle, sum.factor, other->handle, &slot.handle));
        if (status != MILCGPU_NO_MEMORY || sets_.size() <= of_sum || !drop_oldest(&slot))
            break;
    }
    if (status == MILCGPU_OK) {
        hold_deferred(slot, links.first, links.second);
        std::copy(contents, contents + 2, deferred_.find(MILCGPU_FERMION_LINKS, links.first)->sum->contents);
        set = &slot;
    } else if (status != MILCGPU_NO_MEMORY) { // a bit may have flipped in one of them
        one->mirror.forget_copy(), other->mirror.forget_copy();
        why_no_sum_ = milcgpu_last_error();
    }
    return status;
}

milcgpu_status LinkCache::load(LinkSet &set, const void *fat, const void *lng) {
    set.mirror.forget_copy();
    make_writable(set);
    const milcgpu_field fat_field = field(fat), lng_field = field(lng);
    for (;;) {
        const milcgpu_status status =
            collective_(set.handle == nullptr ? milcgpu_links_create(context_, &fat_field, &lng_field, &set.handle)
                                              : milcgpu_links_update(set.handle, &fat_field, &lng_field, nullptr));
        if (status != MILCGPU_NO_MEMORY || !drop_oldest(&set))
            return status;
    }
}

} // namespace milcgpu
