// The driver's start, which takes a few tenths of a second, ahead of the first Device.
#pragma once

namespace milcgpu {

// Makes the GPU of this number ready for the process, or does nothing where there is none. Any thread may call it,
// while others use the GPU or not. A failure is not said: the first Device meets it again.
void wake(int ordinal) noexcept;

} // namespace milcgpu
