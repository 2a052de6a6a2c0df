// MILC's solutions on their way from the multi-mass solver to a sum of them, through D to the fermion force, or to
// M^dag of them. They stay on the device, and MILC's fields are not filled: each has a row in the table of deferred
// values, which says on which parities the device has it. This lasts from begin() to end(), where all readers are
// known; whoever else reads a field has it copied first (to_host).
#pragma once
#include "milc_glue/api/milcgpu_md.h"
#include "milc_glue/api/plugin.h"
#include "milc_glue/residency/deferred.h"
#include <vector>

namespace milcgpu {

class ResidentVectors {
  public:
    explicit ResidentVectors(DeferredValues &deferred) : deferred_(deferred) {}
    ~ResidentVectors() { drop(); }
    // most: vectors at a time.
    void begin(milcgpu_context *context, int real, int most);
    void end();
    bool active() const { return most_ > 0; }
    void drop(); // the memory, too

    milcgpu_vectors *handle() const { return handle_; }
    int find(const void *field) const; // -1: none of these
    // Number of the first where these fields are successive ones; -1 where they are not.
    int run_of(const milcgpu_field *fields, int n) const;
    // The same, and fields that are new get a number. -1: they go to the host as ever, because there are too many, or
    // no memory.
    int take(const milcgpu_field *fields, int n);
    bool holds(int index, int parities) const { return (held(index) & parities) == parities; }
    void now_holds(int index, int parity, bool poison); // poison: MILC's field becomes NaN there, for tests
    void holds_no_more(int index, int parities);
    // MILC's field gets what the device has, and the device has it no more. Throws Error if it is lost.
    void to_host(const void *field) { deferred_.fulfil(MILCGPU_SOLUTIONS, field); }
    void all_to_host() { deferred_.fulfil(MILCGPU_SOLUTIONS); }

  private:
    int held(int index) const; // MILCGPU_EVEN + MILCGPU_ODD, as far as the device alone has it
    void copy_to_host(const void *field, int parities) const;
    DeferredValues &deferred_;
    milcgpu_context *context_ = nullptr;
    milcgpu_vectors *handle_ = nullptr;
    int count_ = 0, most_ = 0, real_ = 0, sites_[2] = {}; // sites: even, odd
    std::vector<void *> fields_;
};

} // namespace milcgpu
