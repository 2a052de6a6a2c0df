// Device and date of a table: the last cells of its rows, for the titles of pictures.
#pragma once
#include "examples/lib/csv.h"
#include <array>
#include <ctime>
#include <string>

namespace examples {

// "24x24x24x32"
inline std::string extents_name(const std::array<int, 4> &n) {
    return std::to_string(n[0]) + "x" + std::to_string(n[1]) + "x" + std::to_string(n[2]) + "x" + std::to_string(n[3]);
}

// Appends their column names, card and date (UTC), as for "NVIDIA H200", "2026-11-24".
inline Cells with_card(Cells columns) {
    columns.insert(columns.end(), {"card", "date"});
    return columns;
}
// device: as milcgpu_context_device_name() returns it.
inline Cells card_cells(const std::string &device) {
    const std::string card = device.substr(0, device.find(','));
    const std::time_t now = std::time(nullptr);
    char date[16] = "";
    std::strftime(date, sizeof date, "%Y-%m-%d", std::gmtime(&now));
    return {card == "host" ? "host backend" : card, date};
}

// The same, after a cell for the lattice.
inline Cells with_origin(Cells columns) {
    columns.push_back("lattice");
    return with_card(std::move(columns));
}
inline Cells origin_cells(const std::array<int, 4> &lattice, const std::string &device) {
    Cells cells = card_cells(device);
    cells.insert(cells.begin(), extents_name(lattice));
    return cells;
}

} // namespace examples
