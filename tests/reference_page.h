// docs/headers.md as it is to be: every function and every member of the C interface, from the headers and the tables
// of members (milc_glue/api/members.h).
#pragma once
#include "milc_glue/api/arguments.h"
#include <map>
#include <string>

namespace tests {

std::string reference_page(const std::map<std::string, const milcgpu::Table *> &tables);

} // namespace tests
