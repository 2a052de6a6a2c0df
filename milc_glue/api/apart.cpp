#include "milc_glue/api/apart.h"
#include <algorithm>

using namespace milcgpu;

namespace {

size_t extent(const Occupied &x) { return (x.records - 1) * x.pitch + x.bytes; }

// a begins before b, or with it, and ends behind b's first byte.
bool overlap(const Occupied &a, const Occupied &b) {
    const size_t looked_at = a.pitch == b.pitch ? 1 : b.records; // further records repeat the first
    for (size_t k = 0; k < looked_at; ++k) {
        const size_t at = b.first - a.first + k * b.pitch, before = at / a.pitch, behind = at % a.pitch;
        if ((before < a.records && behind < a.bytes) || (before + 1 < a.records && a.pitch - behind < b.bytes))
            return true;
    }
    return false;
}

} // namespace

Occupied milcgpu::occupied(const milcgpu_context &context, const Name &name, bool written, const HostField &field,
                           Parity parity) {
    const Geometry &geometry = context.geometry;
    const bool in_order = context.map.data() == nullptr; // else sites of a parity may be anywhere
    const size_t even = size_t(geometry.sites(0)), first = in_order && parity == 1 ? even : 0;
    const size_t records = in_order && parity ? size_t(geometry.sites(*parity)) : size_t(geometry.volume());
    return {name,
            written,
            reinterpret_cast<uintptr_t>(field.data) + first * field.pitch_bytes,
            field.record_bytes,
            field.pitch_bytes,
            records};
}

void milcgpu::require_apart(std::vector<Occupied> fields, const std::vector<Occupied> &more) {
    fields.insert(fields.end(), more.begin(), more.end());
    std::vector<const Occupied *> in_order, open; // open: their ends lie ahead
    for (const Occupied &field : fields)
        if (field.records > 0)
            in_order.push_back(&field);
    std::sort(in_order.begin(), in_order.end(), [](auto *a, auto *b) { return a->first < b->first; });
    for (const Occupied *b : in_order) {
        const auto ends = [b](const Occupied *a) { return b->first - a->first >= extent(*a); };
        open.erase(std::remove_if(open.begin(), open.end(), ends), open.end());
        for (const Occupied *a : open)
            if ((a->written || b->written) && overlap(*a, *b)) {
                const bool is_a = a->written && (!b->written || a > b); // the later one of two that are written
                refuse(format("%s overlaps %s: give it memory of its own", (is_a ? a : b)->name.text().c_str(),
                              (is_a ? b : a)->name.text().c_str()));
            }
        open.push_back(b);
    }
}
