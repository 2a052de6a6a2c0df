// The one table of what is still to be made: every field of MILC's that does not hold what MILC would have there.
//
// MILC asks for a value, and it is made later, or never. A field without a row here is right as the host has it. A row
// lists the inputs that its value is made of. Whoever changes an input calls before_change() first, which makes the
// values that depend on it. Whoever gives a field to MILC, to read or to write, calls hand_out(). A change that nobody
// announces shows in the input's version (Mirror::version, LinkSum::contents): the value is then refused, in words.
//
//   kind            fields                     inputs                          made by
//   fermion links   fat and long links         the gauge field, or none:       use_gpu/deferred.c, of a copy or of the
//                                              then the maker has a copy       gauge field of the sites
//   a sum of them   links of one eps_naik      two sets of links               link_cache.h; for MILC: deferred.c
//   backward links  an fn_links_t              none: a twist changes its       use_gpu/deferred.c
//                                              forward links alike
//   a gauge copy    MILC's copy of the sites   the gauge field                 use_gpu/sites.c
//   a source        MILC's copy of a member    none: lasts one ks_ratinv       use_gpu/solve.c
//   zeros           MILC's fresh eigenvectors  none                            use_gpu/eigen.c
//   solutions       MILC's fields              none: the device has them       vector_store.h
//   eigenvectors    MILC's fields              links, which the row holds      eigen_store.h
//
// The gauge field and the momenta of the sites are no rows: their mirrors (gauge_owner.h) say who has the newest.
#pragma once
#include "milc_glue/api/plugin.h"
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace milcgpu {

using LinkAddresses = std::pair<const void *, const void *>; // fat, long

// Links that are a + factor b.
struct LinkSum {
    LinkAddresses a, b;
    double factor;
    uint64_t contents[2]; // of a and b on this rank when the sum was first made; 0: not yet
};

class DeferredValues {
  public:
    struct Value;
    // Makes all values that share it, at once.
    struct Maker {
        std::function<void(const Value &first)> make; // fills all of them
        std::function<void(const void *field)> drop;  // MILC has freed this field: it must not be filled
        void *self = nullptr;
        std::function<void()> end; // called when no value needs the maker any more
        Maker() = default;
        Maker(const Maker &) = delete;
        ~Maker() {
            if (end)
                end();
        }
    };
    struct Input {
        const void *field; // nullptr: the gauge field of the sites
        unsigned long version;
    };
    struct Value {
        int kind; // MILCGPU_FERMION_LINKS and so on
        std::vector<const void *> fields;
        std::vector<Input> inputs{};
        std::optional<LinkSum> sum{};
        std::shared_ptr<Maker> maker{};         // nullptr: whoever deferred the value fills it, and then calls drop()
        int parities = 0;                       // of solutions: those that are not filled
        std::shared_ptr<milcgpu_links> links{}; // of eigenvectors: they make the other parity's part; nullptr: MILC has
                                                // not requested that part
    };

    static constexpr int any_kind = ~0;

    // Replaces what was deferred of this kind in these fields.
    void add(Value value);
    // From now on this maker makes these fields; adds rows for fields that have none. Changes nothing if memory is
    // short.
    void add(int kind, const std::vector<const void *> &fields, const std::vector<Input> &inputs,
             const std::shared_ptr<Maker> &maker);
    Value *find(int kinds, const void *field);
    const Value *find(int kinds, const void *field) const {
        return const_cast<DeferredValues *>(this)->find(kinds, field);
    }

    // Makes the values of these kinds: of this field; nullptr: all. Returns true if there were some. If a maker throws,
    // its values are still to be made.
    bool fulfil(int kinds, const void *field = nullptr);
    // Makes the values that have this input.
    bool before_change(const void *input);
    // Only these kinds, because MILC frees some fields unannounced, such as eigenvectors: another kind of field may now
    // have the address of one.
    bool hand_out(int kinds, const void *field) {
        const bool others = before_change(field);
        return fulfil(kinds, field) || others;
    }

    // The field is gone, or MILC or the device writes all of it; nullptr: all of these kinds.
    void drop(int kinds, const void *field = nullptr);
    void drop_without_maker();

    // The values that are being made now, of the innermost call; nullptr: none.
    const std::list<Value> *being_made() const { return making_ != nullptr ? &making_->values : nullptr; }
    bool empty() const { return values_.empty(); }
    bool has(int kinds) const;

  private:
    // On the stack of fulfil_all(): making a value may need others.
    struct Making {
        std::list<Value> values;
        const Making *before;
    };
    using Which = std::function<bool(const Value &)>;
    bool fulfil_all(const Which &which);
    void drop_all(const Which &which, const void *field);
    bool is_being_made(const void *field) const;
    std::list<Value> values_; // the oldest first: what others are made of comes before them
    const Making *making_ = nullptr;
};

} // namespace milcgpu
