// Tests whether fields still hold what was written to them, for fields whose writers keep a checksum
// (LinkField::keep_sum). A call tests each field after its last read, and reads all answers once, before it returns
// results. A bit that flips before the test changes the answer, even if the field was read earlier.
#pragma once
#include "gpu_kernels/fields/link_field.h"

namespace milcgpu {

class AskedFields {
  public:
    explicit AskedFields(Device &device);
    static size_t bytes(); // of device memory
    // Tests that the field holds all that was written to it, at this point of the queue. Reads the field. Skips fields
    // without a kept checksum.
    void unchanged(const LinkField &field, const char *name);
    // Tests that all that was written to the field has been taken (MatrixView::take). Does not read the field.
    // must_hold() reads the answer; whoever writes the field before that starts a new checksum (LinkField::keep_sum).
    void used_up(const LinkField &field, const char *name);
    // Waits for the answers. Throws Error(corrupted) on all ranks, with the names of the fields that changed. New tests
    // may follow.
    void must_hold();

  private:
    // Checksum found minus checksum kept, 0 if nothing changed: first the fields that were read, then those that are
    // used up.
    DeviceArray<uint64_t> sums_;
    std::vector<const char *> read_;
    struct UsedUp {
        const char *name;
        std::shared_ptr<uint64_t> sum; // outlives the field
    };
    std::vector<UsedUp> used_up_;
};

} // namespace milcgpu
