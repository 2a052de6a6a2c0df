#pragma once
#include <cstddef>

namespace tests {

// A struct of the C interface as a caller begins it: its size, and nothing else.
template <class T> T sized() {
    T made{};
    made.struct_size = sizeof made;
    return made;
}

// A struct as its function milcgpu_..._defaults fills it.
template <class T> T filled(void (*defaults)(T *, size_t)) {
    T made;
    defaults(&made, sizeof made);
    return made;
}
template <class T> T filled(void (*defaults)(double, T *, size_t), double number) {
    T made;
    defaults(number, &made, sizeof made);
    return made;
}

} // namespace tests
