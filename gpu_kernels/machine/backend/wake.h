// Starts the CUDA driver, which takes a few tenths of a second, before the first Device.
#pragma once

namespace milcgpu {

// Initializes the GPU of this number for the process. Numbers above the last GPU's begin again with the first GPU. Does
// nothing if there is none. Any thread may call it at any time. A failure is not reported here: the first Device fails
// in the same way.
void wake(int number) noexcept;

} // namespace milcgpu
