// Fields of a call that must not share memory.
#pragma once
#include "milc_glue/api/context.h"
#include <optional>

namespace milcgpu {

// Memory of a call's argument: records of `bytes`, each `pitch` bytes behind the one before.
struct Occupied {
    Name name;
    bool written;
    uintptr_t first;
    size_t bytes, pitch, records;
};
// parity: of the sites that the call reads or writes; nothing: all sites.
using Parity = std::optional<int>;
Occupied occupied(const milcgpu_context &, const Name &, bool written, const HostField &, Parity parity = {});
// All fields of a list of arguments.
template <class Place>
std::vector<Occupied> occupied(const milcgpu_context &context, const char *list, bool written,
                               const std::vector<Place> &places, Parity parity = {}) {
    std::vector<Occupied> all;
    Name name(list);
    for (int &k = name.index[0] = 0; k < static_cast<int>(places.size()); ++k)
        all.push_back(occupied(context, name, written, places[k], parity));
    return all;
}
// Throws Error(bad_argument) if one that is written shares memory with another one.
void require_apart(std::vector<Occupied> fields, const std::vector<Occupied> &more = {});

} // namespace milcgpu
