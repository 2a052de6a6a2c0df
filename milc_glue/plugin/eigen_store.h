// Eigenvectors of -D^2 on the device, for solves to be deflated with: a set for links of each content and each parity.
// One of them may have a copy in fields of MILC's. MILC says who writes these; nobody looks, because fields that are
// not filled have no pages yet. While the device alone has the vectors, they have a row in the table of deferred
// values.
//
// MILC's fields have a part on the other parity, too: D v / |D v| with the links that MILC names when it asks for it.
// While the device alone has the vectors, that part is not computed before somebody reads it. So the row holds those
// links: MILC twists them, or frees them, in the meantime. When MILC's fields are filled, that part is read from there.
#pragma once
#include "milc_glue/api/milcgpu_eigen.h"
#include "milc_glue/plugin/link_cache.h"
#include <memory>
#include <string>
#include <vector>

namespace milcgpu {

class EigenStore {
  public:
    struct Set {
        uint64_t content; // LinkSet::content() of its links, on this rank
        int parity;
        bool exact;                   // to a tolerance, not as deflation needs them
        milcgpu_eigenvectors *handle; // nullptr: they could not be made
        long used;
        bool said; // that they are not taken
        int count() const { return milcgpu_eigenvectors_count(handle); }
    };

    // real: of MILC's fields.
    EigenStore(Collective &collective, milcgpu_context *context, int real, DeferredValues &deferred)
        : collective_(collective), context_(context), real_(real), deferred_(deferred) {}
    ~EigenStore() { drop_all(); }
    EigenStore(const EigenStore &) = delete;
    EigenStore &operator=(const EigenStore &) = delete;

    // What was made, or tried, for links of this content on this parity, on all ranks; nullptr: nothing. All ranks call
    // it.
    Set *of(const LinkSet &links, int parity);
    // l of the last vector of the newest set on this parity; 0: there is none.
    double last_value(int parity) const;
    // Puts a set in place of what links of this content had.
    Set &keep(uint64_t content, int parity, bool exact, milcgpu_eigenvectors *handle);
    // The first `count` vectors go into these fields of MILC's.
    milcgpu_status save(const Set &set, int count, void *const *fields);

    // The set has the same vectors as these fields, one a vector. filled: the fields have them; else the device alone.
    void mirror(const Set &set, void *const *fields, bool filled);
    // There is such a set of these fields, on this parity. All ranks call it.
    bool has(void *const *fields, int count, int parity) const;
    bool is_at(void *const *fields) const { return mirrored_ != nullptr && fields_[0].data == fields[0]; }
    // The device alone has the newest.
    bool newest_on_device() const { return row() != nullptr; }
    const Set *mirrored() const { return mirrored_; }
    // The device has the newest, and these links make the part on the other parity.
    void make_other_parity_by(std::shared_ptr<milcgpu_links> links) { row()->links = std::move(links); }
    void forget_other_parity(); // it is made anew, there or here
    // nullptr: MILC has not asked for it, or its fields are filled.
    milcgpu_links *links_of_other_parity() const { return row() != nullptr ? row()->links.get() : nullptr; }
    const std::vector<milcgpu_field> &fields() const { return fields_; } // MILC's, on all sites
    // The mirror, or the set on the other parity of the same links, whatever the links are now; nullptr: there is none.
    // All ranks call it.
    Set *of_fields(int parity) { return mirrored_ != nullptr ? find(mirrored_->content, parity) : nullptr; }
    // MILC's fields have what the device has, on both parities. Returns why that is lost; empty: it is not.
    std::string to_host();

    // Where memory is short. Vectors that the device alone has stay.
    void make_room(size_t bytes,
                   const LinkSet &links); // until so many are free; those of other links, the oldest first
    bool drop_others();                   // than those that were asked for last. Whether there were any
    void drop_all_but_newest() { drop_until(clock_); }
    void forget_vectors(Set &set); // they are not made again
    void drop_all();

  private:
    static constexpr size_t most_sets = 2 * most_link_sets; // both parities
    Set *find(uint64_t content, int parity);
    bool alone_has(const Set &set) const { return &set == mirrored_ && newest_on_device(); }
    bool drop_oldest(long last_used_until);
    void drop_until(long last_used);
    void erase(const Set &set);
    DeferredValues::Value *row() const {
        return mirrored_ != nullptr ? deferred_.find(MILCGPU_EIGENVECTORS, fields_[0].data) : nullptr;
    }
    void copy_to_host(milcgpu_links *links_of_other);
    Collective &collective_;
    milcgpu_context *context_;
    int real_;
    DeferredValues &deferred_;
    std::vector<std::unique_ptr<Set>> sets_;
    long clock_ = 0;
    const Set *mirrored_ = nullptr;
    std::vector<milcgpu_field> fields_;
};

} // namespace milcgpu
