// Text of the last failure, without the end of its last line. A table of memory may follow the first line: it is left
// out if the last one had the same owners.
#pragma once
#include <string>

namespace milcgpu {

std::string reason();

} // namespace milcgpu
