// Text of the last failure, without the end of its last line. The table of memory that may follow the first line is there
// once as long as it has the same owners.
#pragma once
#include <string>

namespace milcgpu {

std::string reason();

} // namespace milcgpu
