// The check that memory suffices, before a program allocates any.
#pragma once
#include <string>

namespace examples {

// Throws std::runtime_error if this machine, its control group or the shell's limit has less than `bytes`. what: the
// object that needs the memory, as "a lattice of 8 x 8 x 8 x 8".
void need_memory(const std::string &what, double bytes);

} // namespace examples
