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
#include "milc_glue/residency/link_cache.h"
#include <memory>
#include <string>
#include <vector>

namespace milcgpu {

class EigenStore {
  public:
    struct Set {
        uint64_t content; // LinkSet::content() of their links, on this rank
        int parity;
        bool exact;                   // computed to a tolerance, not only as deflation needs them
        milcgpu_eigenvectors *handle; // nullptr: computing them failed
        long used;
        bool said; // a line has said that solves do not use them
        int count() const { return milcgpu_eigenvectors_count(handle); }
    };

    // real: of MILC's fields.
    EigenStore(Collective &collective, milcgpu_context *context, int real, DeferredValues &deferred)
        : collective_(collective), context_(context), real_(real), deferred_(deferred) {}
    ~EigenStore() { drop_all(); }
    EigenStore(const EigenStore &) = delete;
    EigenStore &operator=(const EigenStore &) = delete;

    // The set of links with this content on this parity, also one that could not be made; nullptr: there is none. All
    // ranks call it.
    Set *of(const LinkSet &links, int parity);
    // The eigenvalue of the last vector of the newest set on this parity; 0: there is no set.
    double last_value(int parity) const;
    // Keeps a set in place of the former one of this content and parity.
    Set &keep(uint64_t content, int parity, bool exact, milcgpu_eigenvectors *handle);
    // Copies the first `count` vectors into these fields of MILC's.
    milcgpu_status save(const Set &set, int count, void *const *fields);

    // The set has the vectors of these fields, one field for each vector. filled: the fields hold them; else they are
    // deferred.
    void mirror(const Set &set, void *const *fields, bool filled);
    // There is such a set of these fields, on this parity. All ranks call it.
    bool has(void *const *fields, int count, int parity) const;
    bool is_at(void *const *fields) const { return mirrored_ != nullptr && fields_[0].data == fields[0]; }
    // The fields are deferred.
    bool newest_on_device() const { return row() != nullptr; }
    const Set *mirrored() const { return mirrored_; }
    // These links make the part on the other parity, while the fields are deferred.
    void make_other_parity_by(std::shared_ptr<milcgpu_links> links) { row()->links = std::move(links); }
    void forget_other_parity(); // MILC or the device is about to make it again
    // nullptr: MILC has not asked for it, or its fields are filled.
    milcgpu_links *links_of_other_parity() const { return row() != nullptr ? row()->links.get() : nullptr; }
    const std::vector<milcgpu_field> &fields() const { return fields_; } // MILC's, on all sites
    // The set of MILC's fields on this parity, whatever MILC's links are now; nullptr: there is none. All ranks call
    // it.
    Set *of_fields(int parity) { return mirrored_ != nullptr ? find(mirrored_->content, parity) : nullptr; }
    // Fills MILC's fields on both parities. Throws Error if that fails; the fields stay deferred then.
    void to_host() { deferred_.fulfil(MILCGPU_EIGENVECTORS); }

    // For memory that is short. Vectors that the device alone has stay.
    void make_room(size_t bytes,
                   const LinkSet &links); // drops sets of other links, the oldest first, until so many bytes are free
    bool drop_others();                   // drops all but the sets requested last; returns true if it dropped any
    void drop_all_but_newest() { drop_until(clock_); }
    void forget_vectors(Set &set); // frees them; they are not computed again
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
