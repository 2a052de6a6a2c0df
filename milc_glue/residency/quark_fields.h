// MILC's quark fields on the device, from one routine to the next. A field that a routine has read or made stays there.
// The next routine that reads the same content, at whatever address, uses it. The host's fields are always written, so
// nothing is lost with these.
//
// Each field has a mirror (mirror.h), whose tag is a hash of every bit. A field of 21 MB (24^3 x 32) takes a core 1.1
// ms to hash, and the bus 0.4 ms to copy: this pays with several cores.
//
// A field belongs to the lattice that it was used with. Plugin::lattice_changed drops all fields.
#pragma once
#include "milc_glue/api/milcgpu_md.h"
#include "milc_glue/residency/mirror.h"
#include <memory>
#include <utility>
#include <vector>

namespace milcgpu {

// One field, or several that belong together, on both parities.
class QuarkField {
  public:
    QuarkField() = default;
    ~QuarkField() { release(); }
    QuarkField(const QuarkField &) = delete;
    QuarkField &operator=(const QuarkField &) = delete;
    milcgpu_status make(milcgpu_context *context, int real, int count) {
        count_ = count;
        return milcgpu_vectors_create(context, real, count, &handle_);
    }
    int count() const { return count_; }
    milcgpu_vector vector() const { return {handle_, 0}; }
    void release() { milcgpu_vectors_destroy(std::exchange(handle_, nullptr)); } // before its context goes

  private:
    milcgpu_vectors *handle_ = nullptr;
    int count_ = 0;
};

class QuarkFields {
  public:
    // real: of MILC's fields. stays: fields are kept; else every call loads what it reads.
    QuarkFields(milcgpu_context *context, int real, int sites, bool stays)
        : context_(context), real_(real), sites_(sites), stays_(stays) {}
    ~QuarkFields(); // releases all fields, including those in use
    QuarkFields(const QuarkFields &) = delete;
    QuarkFields &operator=(const QuarkFields &) = delete;

    bool stay() const { return stays_; }
    // Finds or loads a field with the content of the host's. Adds the bytes that it copies to `moved`. No question to
    // other ranks.
    milcgpu_status with_content(const void *field, std::shared_ptr<QuarkField> &found, uint64_t &moved);
    milcgpu_status empty(std::shared_ptr<QuarkField> &made, int count = 1);
    // Loads a field that nobody else reads, to be worked on in place.
    milcgpu_status loaded(const void *field, std::shared_ptr<QuarkField> &made, uint64_t &moved);
    // Copies it to the host's field, and keeps it: nobody writes it any more.
    milcgpu_status deliver(const std::shared_ptr<QuarkField> &made, const milcgpu_field &to, uint64_t &moved);
    // Drops the field that was used longest ago, among those that no call works with. Returns false if there is none.
    bool drop_oldest();
    void drop_all() { kept_.clear(); }
    size_t count() const { return kept_.size(); }

  private:
    struct Kept {
        Mirror mirror;
        std::shared_ptr<QuarkField> field;
        long used;
    };
    size_t field_bytes() const { return 6 * (real_ == MILCGPU_DOUBLE ? sizeof(double) : sizeof(float)) * sites_; }
    Mirror mirror_of(const void *field) const {
        return {{field, sites_, field_bytes() / sites_, field_bytes() / sites_}, Mirror::Look::whole};
    }
    void keep(const std::shared_ptr<QuarkField> &field, Mirror mirror, const Mirror::Tag &tag);
    milcgpu_context *context_;
    int real_;
    size_t sites_;
    bool stays_;
    size_t most_ = 0; // fields; 0: not known yet
    std::vector<Kept> kept_;
    std::vector<std::weak_ptr<QuarkField>> all_; // in use or kept
    long clock_ = 0;
};

} // namespace milcgpu
