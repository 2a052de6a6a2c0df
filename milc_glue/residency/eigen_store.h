// Eigenvectors of -D^2 on the device, which deflate solves: one set for each content of links and each parity. One set
// may have a copy in MILC's fields. MILC's routines that write these fields are wrapped and call the store. The fields
// are not hashed, because unfilled fields have no pages yet. While the device alone has the vectors, they have a row in
// the table of deferred values.
//
// MILC's fields also have a part on the other parity: D v / |D v| with links that MILC passes when it requests that
// part. While the device alone has the vectors, the part is computed only when somebody reads it. Until then the row
// owns those links, because MILC may twist or free its own. Once MILC's fields are filled, they have this part, too.
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
        bool said; // a line has been logged: solves do not use them
        int count() const { return milcgpu_eigenvectors_count(handle); }
    };

    // real: of MILC's fields.
    EigenStore(Collective &collective, milcgpu_context *context, int real, DeferredValues &deferred)
        : collective_(collective), context_(context), real_(real), deferred_(deferred) {}
    ~EigenStore() { drop_all(); }
    EigenStore(const EigenStore &) = delete;
    EigenStore &operator=(const EigenStore &) = delete;

    // The set of these links on this parity, even if computing its vectors failed; nullptr if no set has these links.
    // All ranks call it.
    Set *of(const LinkSet &links, int parity);
    // The eigenvalue of the last vector of the newest set on this parity; 0 if no set has vectors.
    double last_value(int parity) const;
    // Keeps a set in place of the former one of this content and parity.
    Set &keep(uint64_t content, int parity, bool exact, milcgpu_eigenvectors *handle);
    // Copies the first `count` vectors into these fields of MILC's.
    milcgpu_status save(const Set &set, int count, void *const *fields);

    // The set has the vectors of these fields, one field for each vector. filled: the fields hold them; else they are
    // deferred.
    void mirror(const Set &set, void *const *fields, bool filled);
    // True if these fields of MILC's hold or defer a set on this parity. All ranks call it.
    bool has(void *const *fields, int count, int parity) const;
    bool is_at(void *const *fields) const { return mirrored_ != nullptr && fields_[0].data == fields[0]; }
    // The fields are deferred.
    bool newest_on_device() const { return row() != nullptr; }
    const Set *mirrored() const { return mirrored_; }
    // The part on the other parity is made by these links, when the deferred fields are filled.
    void make_other_parity_by(std::shared_ptr<milcgpu_links> links) { row()->links = std::move(links); }
    void forget_other_parity(); // MILC or the device is about to make that part again
    // nullptr: MILC has not requested that part, or its fields are filled.
    milcgpu_links *links_of_other_parity() const { return row() != nullptr ? row()->links.get() : nullptr; }
    const std::vector<milcgpu_field> &fields() const { return fields_; } // MILC's, on all sites
    // The set on this parity of the links that made MILC's fields, whatever MILC's links are now; nullptr if no set has
    // them. All ranks call it.
    Set *of_fields(int parity) { return mirrored_ != nullptr ? find(mirrored_->content, parity) : nullptr; }
    // Fills MILC's fields on both parities. Throws Error if that fails; the fields stay deferred then.
    void to_host() { deferred_.fulfil(MILCGPU_EIGENVECTORS); }

    // If memory is short. Vectors that the device alone has stay.
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
