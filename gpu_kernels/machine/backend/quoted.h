// Quotes foreign text in messages: a terminal obeys control characters, and a message must stay short.
#pragma once
#include <string>

namespace milcgpu {

// For file contents and words of the user: control characters (also C1, and those that change the direction of writing)
// and invalid UTF-8 appear as \n, \t or \xNN. If more than `most` bytes would appear, the text is cut and ends in "...".
std::string quoted(const std::string &text, size_t most = 80);
// For names of files: likewise, up to the length that systems allow.
std::string quoted_name(const std::string &name);
// For a whole message, perhaps of several lines, before it is printed.
std::string printable(const std::string &message);

} // namespace milcgpu
