#include "gpu_kernels/machine/backend/quoted.h"
#include "gpu_kernels/machine/error.h"
#include <climits>

namespace milcgpu {

namespace {

// The length in bytes of the character that starts at `at`, if a terminal can show it; otherwise 0.
size_t shown_bytes(const std::string &text, size_t at) {
    const auto byte = [&](size_t k) { return k < text.size() ? static_cast<unsigned char>(text[k]) : 0u; };
    const unsigned first = byte(at);
    if (first < 0x80)
        return first >= 0x20 && first != 0x7f;
    const size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    unsigned point = first & (0xffu >> (bytes + 1));
    for (size_t k = 1; k < bytes; ++k) {
        if ((byte(at + k) & 0xc0) != 0x80)
            return 0;
        point = point << 6 | (byte(at + k) & 0x3f);
    }
    const unsigned least = bytes == 4 ? 0x10000 : bytes == 3 ? 0x800 : 0xa0; // below 0xa0: C1
    const bool turns = (point >= 0x200e && point <= 0x200f) || (point >= 0x2028 && point <= 0x202e) ||
                       (point >= 0x2066 && point <= 0x2069);
    return first >= 0xc2 && point >= least && point <= 0x10ffff && (point < 0xd800 || point > 0xdfff) && !turns ? bytes
                                                                                                                : 0;
}

std::string escaped(const std::string &text, size_t most, bool keep_lines) {
    std::string out;
    for (size_t at = 0; at < text.size();) {
        if (out.size() >= most)
            return out + "...";
        const size_t bytes = keep_lines && text[at] == '\n' ? 1 : shown_bytes(text, at);
        if (bytes > 0)
            out.append(text, at, bytes);
        else if (text[at] == '\n' || text[at] == '\t')
            out += text[at] == '\n' ? "\\n" : "\\t";
        else
            out += format("\\x%02x", static_cast<unsigned char>(text[at]));
        at += bytes > 0 ? bytes : 1;
    }
    return out;
}

} // namespace

std::string quoted(const std::string &text, size_t most) { return escaped(text, most, false); }
std::string quoted_name(const std::string &name) { return escaped(name, PATH_MAX, false); }
std::string printable(const std::string &message) { return escaped(message, std::string::npos, true); }

} // namespace milcgpu
