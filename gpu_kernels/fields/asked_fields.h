// Whether fields whose writers keep their checksums (LinkField::keep_sum) are what was put there. A call asks of each
// one when it has read it for the last time, and looks at the answers once, before it hands anything over. A bit that
// flipped before the question changes the answer, whoever has read the field meanwhile.
#pragma once
#include "gpu_kernels/fields/fields.h"

namespace milcgpu {

class AskedFields {
  public:
    explicit AskedFields(Device &device);
    static size_t bytes(); // of device memory
    // All that was put there is there at this moment of the queue. Reads the field. Fields without a kept checksum are
    // not asked.
    void unchanged(const LinkField &field, const char *name);
    // All that was put there has been taken (MatrixView::take). Reads no field. The answer is read by must_hold(): who
    // writes the field before that begins a new checksum (LinkField::keep_sum).
    void used_up(const LinkField &field, const char *name);
    // Throws Error(corrupted) with the names of fields that were not, on all ranks. Waits. Then it can be asked anew.
    void must_hold();

  private:
    // Found less kept, 0 where nothing changed: of fields that were read, then of those that are used up.
    DeviceArray<uint64_t> sums_;
    std::vector<const char *> read_;
    struct UsedUp {
        const char *name;
        std::shared_ptr<uint64_t> sum; // the field itself may be gone
    };
    std::vector<UsedUp> used_up_;
};

} // namespace milcgpu
