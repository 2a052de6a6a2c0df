#include "examples/lib/csv.h"
#include "examples/lib/arguments.h"
#include <cmath>
#include <cstring>

namespace examples {

void Csv::open(const std::string &what, const std::string &path, const Cells &heading) {
    if (path.empty())
        return;
    file_.open(what, path);
    columns_ = heading.size();
    file_.write(csv_line(heading));
    if (file_.failure() != 0)
        throw ArgumentError(what + ": " + milcgpu::quoted_name(path) +
                            " cannot be written: " + std::strerror(file_.failure()));
}

void Csv::write(const Cells &cells) {
    if (cells.size() != columns_)
        throw std::logic_error("a row of " + std::to_string(cells.size()) + " cells in a table of " +
                               std::to_string(columns_));
    Cells shown; // names of files may have control characters
    for (const std::string &cell : cells)
        shown.push_back(milcgpu::quoted_name(cell));
    file_.write(csv_line(shown));
    file_.worth_keeping();
}

std::string Csv::number_text(double number, int digits) {
    char text[40];
    std::snprintf(text, sizeof text, "%.*g", digits, number);
    return std::isnan(number) ? "nan" : text;
}

std::string csv_line(const Cells &cells) {
    std::string line;
    for (const std::string &cell : cells) {
        std::string marked;
        for (const char c : cell)
            marked += c == '"' ? std::string(2, c) : std::string(1, c);
        const bool plain = cell.find_first_of(",\"\r\n") == std::string::npos;
        line += (&cell == &cells.front() ? "" : ",") + (plain ? cell : '"' + marked + '"');
    }
    return line + "\n";
}

Cells csv_cells(const std::string &line) {
    Cells cells(1);
    bool quoted = false;
    for (std::size_t k = 0; k < line.size(); ++k) {
        if (line[k] == '"' && quoted && k + 1 < line.size() && line[k + 1] == '"')
            cells.back() += line[++k];
        else if (line[k] == '"')
            quoted = !quoted;
        else if (line[k] == ',' && !quoted)
            cells.emplace_back();
        else
            cells.back() += line[k];
    }
    return cells;
}

} // namespace examples
