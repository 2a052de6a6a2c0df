// Seconds of a steady clock.
#pragma once
#include <chrono>

namespace milcgpu {

inline double wall_seconds() {
    using clock = std::chrono::steady_clock;
    return std::chrono::duration<double>(clock::now().time_since_epoch()).count();
}

} // namespace milcgpu
