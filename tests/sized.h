#pragma once

namespace tests {

// A struct of the C interface as a caller begins it: its size, and nothing else.
template <class T> T sized() {
    T made{};
    made.struct_size = sizeof made;
    return made;
}

} // namespace tests
