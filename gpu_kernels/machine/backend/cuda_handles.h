// CUDA types of the handles that Device holds as void *, so that device.h needs no CUDA header.
#pragma once
#if defined(MILCGPU_WITH_CUDA)
#include <cuda_runtime.h>

namespace milcgpu {

inline cudaStream_t as_stream(void *stream) { return static_cast<cudaStream_t>(stream); }
inline cudaEvent_t as_event(void *event) { return static_cast<cudaEvent_t>(event); }

} // namespace milcgpu
#endif
