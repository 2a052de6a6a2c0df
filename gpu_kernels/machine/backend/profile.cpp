// NVTX, version 3: headers of the CUDA toolkit, no library (https://github.com/NVIDIA/NVTX). If the toolkit was
// installed without them, there are no ranges.
#include "gpu_kernels/machine/backend/profile.h"
#if defined(MILCGPU_WITH_CUDA)
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#else
static void nvtxRangePushA(const char *) {}
static void nvtxRangePop() {}
#endif

namespace milcgpu {

ProfilerRange::ProfilerRange(const char *name) noexcept { nvtxRangePushA(name); }
ProfilerRange::~ProfilerRange() { nvtxRangePop(); }

} // namespace milcgpu
#endif
