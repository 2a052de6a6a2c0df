// The handle of vectors on the device.
#pragma once
#include "gpu_kernels/fields/spinor_field.h"
#include "milc_glue/api/apart.h"
#include "milc_glue/api/context.h"
#include "milc_glue/api/milcgpu_md.h"
#include <algorithm>
#include <functional>
#include <set>

struct milcgpu_vectors {
    milcgpu_context *context;
    milcgpu::SpinorField parity[2]; // one source per vector
    mutable std::vector<bool> filled[2];
    mutable std::vector<std::optional<uint64_t>> sums[2]; // checksums; some vectors have none
    mutable std::vector<bool> behind[2];                  // parts whose other part has been written since they were
    milcgpu::DeviceArray<uint64_t> scratch;               // for a checksum: a check of a vector must allocate nothing
    // D of vectors first, first + 1, ... on `parity`, computed at once because MILC asks for D of all solutions one
    // after the other. It becomes part of a vector when that vector's call comes.
    struct Ahead {
        milcgpu::SpinorField results;
        int first = 0, parity = 0;
        uint64_t links = 0;      // their tag
        std::vector<bool> there; // neither used nor out of date
        bool has(int k, int on) const {
            return on == parity && k >= first && k - first < static_cast<int>(there.size()) && there[k - first];
        }
        void drop(int k, int on) {
            if (has(k, on))
                there[k - first] = false;
            if (std::find(there.begin(), there.end(), true) == there.end())
                *this = {};
        }
    };
    Ahead ahead;
    milcgpu_vectors(milcgpu_context *of, milcgpu::Precision p, int count)
        : context(of), parity{{*of->device, p, of->geometry, 0, "vectors", count},
                              {*of->device, p, of->geometry, 1, "vectors", count}},
          scratch(*of->device, 1, "checksum of vectors") {
        for (const int on : {0, 1})
            filled[on].resize(count), sums[on].resize(count), behind[on].resize(count);
    }
    int count() const { return static_cast<int>(filled[0].size()); }
};

namespace milcgpu {

// Throws if it has no such vectors. what: the argument that names them.
void need_vectors(const milcgpu_vectors &vectors, int first, int count, const char *what);
// Throws if one of them is empty on this parity.
void need_content(const milcgpu_vectors &vectors, int first, int count, int parity, const char *what);
// The same, or if one has lost its checksum; that vector is empty then.
void need_filled(const milcgpu_vectors &vectors, int first, int count, int parity, const char *what = "vectors");
// The same for single vectors of one context, by their indices, on both parities. Waits for the device once.
void need_filled(Device &, const std::set<std::pair<milcgpu_vectors *, int>> &vectors, const char *what);
// Marks vectors that a call is about to write as empty, until now_filled().
void begin_filling(milcgpu_vectors &vectors, int first, int count, int parity);
// with_sums: takes their checksums.
void now_filled(milcgpu_vectors &vectors, int first, int count, int parity, bool with_sums);
// Runs `work`, which fills ghosts of the first `count` vectors; ghosts are part of the checksums. If it throws, these
// vectors have no checksums from then on.
void with_new_ghosts(const milcgpu_vectors &vectors, int count, const std::function<void()> &work);

// A source or a solution of a solve: in the host's memory, or on the device.
class VectorPlace {
  public:
    VectorPlace(const HostField &host) : host_(host) {}
    // Throws if this context has no such vector.
    VectorPlace(const milcgpu_context *, const milcgpu_vector &, const char *what);
    void read(milcgpu_context &, int parity, const SpinorBlock &to) const;
    bool read_guess(milcgpu_context &, int parity,
                    const SpinorBlock &to) const; // the same; returns true if the guess is known to be zero
    void write(milcgpu_context &, int parity, const SpinorBlock &from) const;
    Occupied occupied(const milcgpu_context &, const Name &, bool written, Parity) const;
    const HostField *host() const { return vectors_ == nullptr ? &host_ : nullptr; }
    Precision precision() const { return vectors_ == nullptr ? host_.real : vectors_->parity[0].precision(); }

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
