// NVTX, version 3: headers of the CUDA toolkit, no library. https://github.com/NVIDIA/NVTX
#include "gpu_kernels/backend/profile.h"
#if defined(MILCGPU_WITH_CUDA)
#include <nvtx3/nvToolsExt.h>

namespace milcgpu {

ProfilerRange::ProfilerRange(const char *name) noexcept { nvtxRangePushA(name); }
ProfilerRange::~ProfilerRange() { nvtxRangePop(); }

} // namespace milcgpu
#endif
