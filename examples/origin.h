// Where and when a table was made: the last cells of its rows, for the titles of pictures.
#pragma once
#include <array>
#include <ctime>
#include <string>

namespace examples {

// "24x24x24x32"
inline std::string extents_name(const std::array<int, 4> &n) {
    return std::to_string(n[0]) + "x" + std::to_string(n[1]) + "x" + std::to_string(n[2]) + "x" + std::to_string(n[3]);
}

// The cells card and date (UTC), as ",NVIDIA H200,2026-11-24". device: as milcgpu_device_name() has it.
constexpr const char *card_heading = ",card,date";
inline std::string card_cells(const std::string &device) {
    const std::string card = device.substr(0, device.find(','));
    const std::time_t now = std::time(nullptr);
    char date[16] = "";
    std::strftime(date, sizeof date, ",%Y-%m-%d", std::gmtime(&now));
    return "," + (card == "host" ? "host backend" : card) + date;
}

// The same behind a cell for the lattice.
constexpr const char *origin_heading = ",lattice,card,date";
inline std::string origin_cells(const std::array<int, 4> &lattice, const std::string &device) {
    return "," + extents_name(lattice) + card_cells(device);
}

} // namespace examples
