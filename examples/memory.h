// Memory that a program is known to need, before it takes any.
#pragma once
#include <string>

namespace examples {

// Throws std::runtime_error where `bytes` are more than this machine, its control group or the shell's limit has. what:
// for what, as "a lattice of 8 x 8 x 8 x 8".
void need_memory(const std::string &what, double bytes);

} // namespace examples
