// Names of precisions and of long-link formats, as they appear in tables and messages.
#pragma once
#include <cstddef>

namespace milcgpu {

enum class Precision { double_, single, half };
constexpr const char *name(Precision p) {
    return p == Precision::double_ ? "double" : p == Precision::single ? "single" : "half";
}
constexpr size_t real_bytes(Precision p) { return p == Precision::double_ ? 8 : p == Precision::single ? 4 : 2; }

// Relative rounding error of one stored real: 2^-53, 2^-24; half: links 2^-16 of the largest element.
constexpr double storage_epsilon(Precision p) {
    return p == Precision::double_ ? 1.11e-16 : p == Precision::single ? 5.96e-8 : 1.53e-5;
}

// A spinor of one site: 3 colours of 2 reals; half is one 16-byte word with its exponent.
constexpr size_t spinor_bytes(Precision p) { return p == Precision::half ? 16 : 6 * real_bytes(p); }

} // namespace milcgpu
