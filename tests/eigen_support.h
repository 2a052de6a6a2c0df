// A handle of eigenvectors that is destroyed.
#pragma once
#include "milc_glue/api/milcgpu_eigen.h"

namespace tests {

struct EigenvectorsHandle {
    milcgpu_eigenvectors *of = nullptr;
    EigenvectorsHandle() = default;
    EigenvectorsHandle(const EigenvectorsHandle &) = delete;
    ~EigenvectorsHandle() { milcgpu_eigenvectors_destroy(of); }
    milcgpu_eigenvectors *operator*() const { return of; }
};

} // namespace tests
