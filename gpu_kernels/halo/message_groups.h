// Messages through the host in groups: while one group travels, the next is copied to the host, and the previous one to
// the device.
#pragma once
#include <algorithm>
#include <cstddef>
#include <vector>

namespace milcgpu {

// A part of a buffer: consecutive parts of pieces.
struct MessageGroup {
    struct Part {
        int piece;
        size_t first, bytes;
    };
    std::vector<Part> parts;
    size_t first = 0, bytes = 0;
};

// All pieces, in order, in groups of up to most_bytes, a multiple of 16. Both sides of a face split a piece in the same
// way, because the split does not depend on the other pieces.
inline std::vector<MessageGroup> groups_of(const std::vector<size_t> &bytes_of_pieces, size_t most_bytes) {
    std::vector<MessageGroup> groups;
    size_t at = 0;
    for (size_t k = 0; k < bytes_of_pieces.size(); ++k)
        for (size_t left = bytes_of_pieces[k], bytes; left > 0; left -= bytes, at += bytes) {
            bytes = std::min(most_bytes, left);
            if (groups.empty() || groups.back().bytes + bytes > most_bytes)
                groups.push_back({{}, at, 0});
            groups.back().parts.push_back({static_cast<int>(k), at, bytes});
            groups.back().bytes += bytes;
        }
    return groups;
}

} // namespace milcgpu
