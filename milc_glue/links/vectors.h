// What stands behind the handle of vectors.
#pragma once
#include "gpu_kernels/fields/spinor_field.h"
#include "milc_glue/api/apart.h"
#include "milc_glue/api/context.h"
#include "milc_glue/api/milcgpu_md.h"
#include <functional>

struct milcgpu_vectors {
    milcgpu_context *context;
    milcgpu::SpinorField parity[2]; // a source a vector
    mutable std::vector<bool> filled[2];
    mutable std::vector<std::optional<uint64_t>> sums[2]; // checksums, of those that have one
    milcgpu::DeviceArray<uint64_t> scratch;               // for a checksum: a look at a vector needs no memory
    milcgpu_vectors(milcgpu_context *of, milcgpu::Precision p, int count)
        : context(of), parity{{*of->device, p, of->geometry, 0, "vectors", count},
                              {*of->device, p, of->geometry, 1, "vectors", count}},
          scratch(*of->device, 1, "checksum of vectors") {
        for (const int on : {0, 1})
            filled[on].resize(count), sums[on].resize(count);
    }
    int count() const { return static_cast<int>(filled[0].size()); }
};

namespace milcgpu {

// Throws where these are not vectors of it. what: the argument that says so.
void need_vectors(const milcgpu_vectors &vectors, int first, int count, const char *what);
// Throws where one of them is empty on this parity, or no longer has its checksum; that one is empty then.
void need_filled(const milcgpu_vectors &vectors, int first, int count, int parity, const char *what = "vectors");
// They are about to be written: empty until now_filled().
void begin_filling(milcgpu_vectors &vectors, int first, int count, int parity);
// with_sums: their checksums are taken.
void now_filled(milcgpu_vectors &vectors, int first, int count, int parity, bool with_sums);
// Does work that fills ghosts of the first `count` vectors, which are part of their checksums. Where it throws, these
// vectors have none any more.
void with_new_ghosts(const milcgpu_vectors &vectors, int count, const std::function<void()> &work);

// A colour vector where a solve finds it and leaves it: in the host's memory, or on the device.
class VectorPlace {
  public:
    VectorPlace(const HostField &host) : host_(host) {}
    // Throws where there is no such vector of this context.
    VectorPlace(const milcgpu_context *, const milcgpu_vector &, const char *what);
    void read(milcgpu_context &, int parity, const SpinorBlock &to) const;
    bool read_guess(milcgpu_context &, int parity,
                    const SpinorBlock &to) const; // the same; true if it is known as zero
    void write(milcgpu_context &, int parity, const SpinorBlock &from) const;
    Occupied occupied(const milcgpu_context &, const Name &, bool written, Parity) const;

  private:
    HostField host_{};
    milcgpu_vectors *vectors_ = nullptr;
    int index_ = 0;
};

inline Occupied occupied(const milcgpu_context &context, const Name &name, bool written, const VectorPlace &place,
                         Parity parity) {
    return place.occupied(context, name, written, parity);
}

} // namespace milcgpu
