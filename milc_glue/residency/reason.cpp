#include "milc_glue/residency/reason.h"
#include "milc_glue/api/milcgpu.h"
#include <algorithm>
#include <cctype>
#include <utility>

namespace milcgpu {

std::string reason() {
    std::string text = milcgpu_last_error();
    while (!text.empty() && (text.back() == '\n' || text.back() == '.'))
        text.pop_back();
    return text;
}

std::string without_sizes(std::string line) {
    for (size_t at = 0; (at = line.find(" MiB", at)) != std::string::npos;) {
        size_t from = at;
        while (from > 0 && (std::isdigit(static_cast<unsigned char>(line[from - 1])) != 0 || line[from - 1] == '.'))
            --from;
        line.erase(from, at - from);
        at = from + 1;
    }
    return line;
}

std::string LoggedReason::operator()() {
    std::string text = reason();
    const size_t table = text.find('\n');
    if (table == std::string::npos)
        return text;
    std::string owners = text.substr(table);
    owners.erase(std::remove_if(owners.begin(), owners.end(), [](char c) { return std::isdigit(c) || c == ' '; }),
                 owners.end());
    if (std::exchange(owners_, owners) == owners)
        text.replace(text.find_last_not_of(':', table - 1) + 1, std::string::npos, ", by the same as before");
    return text;
}

} // namespace milcgpu
