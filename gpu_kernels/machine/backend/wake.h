// Starts the CUDA driver, which takes a few tenths of a second, before the first Device.
#pragma once

namespace milcgpu {

// Initializes the GPU of this number for the process; does nothing if there is none. Any thread may call it at any
// time. A failure is not reported here: the first Device fails in the same way.
void wake(int ordinal) noexcept;

} // namespace milcgpu
