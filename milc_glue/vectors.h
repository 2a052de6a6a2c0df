// What stands behind the handle of vectors.
#pragma once
#include "milc_glue/context.h"
#include "milc_glue/milcgpu_md.h"

struct milcgpu_vectors {
    milcgpu_context *context;
    milcgpu::SpinorField parity[2]; // a source a vector
    std::vector<bool> filled[2];
    milcgpu_vectors(milcgpu_context *of, milcgpu::Precision p, int count)
        : context(of), parity{{*of->device, p, of->geometry, 0, "vectors", count},
                              {*of->device, p, of->geometry, 1, "vectors", count}},
          filled{std::vector<bool>(count), std::vector<bool>(count)} {}
    int count() const { return static_cast<int>(filled[0].size()); }
};

namespace milcgpu {

// Throws where these are not vectors of it.
void need_vectors(const milcgpu_vectors &vectors, int first, int count);
// Throws where one of them is empty on this parity.
void need_filled(const milcgpu_vectors &vectors, int first, int count, int parity);

} // namespace milcgpu
