// Tables in files (CSV): commas separate cells. A cell with a comma or a quotation mark is between quotation marks, and
// a mark within it is doubled. The first row has the names of the columns. All programs write their tables by this
// file.
#pragma once
#include "examples/lib/output_file.h"
#include <array>
#include <string>
#include <type_traits>
#include <vector>

namespace examples {

using Cells = std::vector<std::string>;

class Csv {
  public:
    // digits: for numbers that are not whole.
    explicit Csv(int digits = 6) : digits_(digits) {}
    // Writes the heading, so that a full disk shows at once. Throws ArgumentError. If the path is empty, rows are
    // dropped.
    void open(const std::string &what, const std::string &path, const Cells &heading);
    bool is_open() const { return file_.is_open(); }
    // Words, numbers, arrays of them; as many as the heading has. Does not throw if the disk fails.
    template <class... Parts> void row(const Parts &...parts) {
        if (!is_open())
            return;
        Cells cells;
        (add(cells, parts), ...);
        write(cells);
    }
    // The table is complete. Throws std::runtime_error if it could not be written.
    void finish() { file_.finish(); }

  private:
    void add(Cells &cells, const std::string &word) const { cells.push_back(word); }
    void add(Cells &cells, const Cells &words) const { cells.insert(cells.end(), words.begin(), words.end()); }
    template <std::size_t n> void add(Cells &cells, const std::array<double, n> &numbers) const {
        for (const double number : numbers)
            add(cells, number);
    }
    template <class Number> std::enable_if_t<std::is_arithmetic_v<Number>> add(Cells &cells, Number number) const {
        if constexpr (std::is_integral_v<Number>)
            cells.push_back(std::to_string(number));
        else
            cells.push_back(number_text(number, digits_));
    }
    static std::string number_text(double number, int digits);
    void write(const Cells &cells);

    OutputFile file_;
    int digits_;
    std::size_t columns_ = 0; // 0: the heading is not written yet
};

// The cells of a line, without their quotation marks.
Cells csv_cells(const std::string &line);
std::string csv_line(const Cells &cells);

} // namespace examples
