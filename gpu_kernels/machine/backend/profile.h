// Ranges that profilers show (nsys profile PROGRAM): every call of the C interface by its name, and copies between host
// and device. Builds without nvcc have none.
#pragma once

namespace milcgpu {

#if defined(MILCGPU_WITH_CUDA)
// The range lasts until the end of the scope, on this thread. Without a profiler it costs nanoseconds.
class ProfilerRange {
  public:
    explicit ProfilerRange(const char *name) noexcept;
    ~ProfilerRange();
    ProfilerRange(const ProfilerRange &) = delete;
};
#else
class ProfilerRange {
  public:
    explicit ProfilerRange(const char *) noexcept {}
    ~ProfilerRange() {}
};
#endif

} // namespace milcgpu
