// Text that others have written, in messages: a terminal obeys what it prints, and a message is to stay short.
#pragma once
#include <string>

namespace milcgpu {

// Content of a file, or a word that was given: control characters (also C1, and those that turn the direction of
// writing) and what is no UTF-8 appear as \n, \t or \xNN; what is longer than `most` bytes is cut and ends in "...".
std::string quoted(const std::string &text, size_t most = 80);
// The name of a file: likewise, up to what a system takes.
std::string quoted_name(const std::string &name);
// A whole message, of several lines perhaps: for those who print it.
std::string printable(const std::string &message);

} // namespace milcgpu
