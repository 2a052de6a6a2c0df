// Text of the last failure, without the end of its last line.
#pragma once
#include "milc_glue/api/milcgpu.h"
#include <string>

namespace milcgpu {

inline std::string reason() {
    std::string text = milcgpu_last_error();
    while (!text.empty() && (text.back() == '\n' || text.back() == '.'))
        text.pop_back();
    return text;
}

} // namespace milcgpu
