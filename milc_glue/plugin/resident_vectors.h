// MILC's solutions on their way from the multi-mass solver to a sum of them, through D to the fermion force, or to
// M^dag of them: they stay on the device, and MILC's fields are left as they are. Only between begin and end, where all
// of their readers are known; whoever else reads one has it copied first (to_host).
#pragma once
#include "milc_glue/api/milcgpu_md.h"
#include "milc_glue/api/plugin.h"
#include <vector>

namespace milcgpu {

class ResidentVectors {
  public:
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
    bool holds(int index, int parities) const { return (held_[index] & parities) == parities; }
    void now_holds(int index, int parity, bool poison); // poison: MILC's field becomes NaN there, for tests
    void holds_no_more(int index, int parities) { held_[index] &= ~parities; }
    // MILC's field has what the device has, and the device no more. Throws Error where it is lost.
    void to_host(const void *field);
    void all_to_host();

  private:
    milcgpu_context *context_ = nullptr;
    milcgpu_vectors *handle_ = nullptr;
    int count_ = 0, most_ = 0, real_ = 0, sites_[2] = {}; // sites: even, odd
    std::vector<void *> fields_;
    std::vector<int> held_; // of each: MILCGPU_EVEN + MILCGPU_ODD, as far as it is here
};

} // namespace milcgpu
