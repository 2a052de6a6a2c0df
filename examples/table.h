// The table of a timing program: a row an operation, as text and as CSV, a summary at the end, and the rows that are
// slower than in a table of before.
#pragma once
#include "examples/ranks.h"
#include "examples/timing.h"
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace examples {

// What was timed. precision: one, or a pair with the one that most of the work is done in last, as "double/half".
struct Operation {
    std::string kind, what, precision;
    int sources = 1;
    std::string shape = ""; // where its launch shape stands, for Sweep
    double mass = 0;        // of a solve; 0: none, or several
};
// Of one launch, step or call: seconds, flops, and compulsory bytes (each number read or written once).
struct Cost {
    double seconds, flops, bytes;
    int steps = 0;             // of a solve
    double cublas_seconds = 0; // of the same by cuBLAS; 0: not measured
};

class Table {
  public:
    // csv: a file's name or nothing. Ranks other than the first write none.
    Table(const std::string &csv, const Job &ranks);

    // The rows that follow are slower than those of `file` where they take more than `noise` percent more time. From
    // another device, times are expected to change as the copy bandwidth does.
    // Throws ArgumentError where the file is no such table.
    void compare_with(const std::string &file, double noise);

    // The rows that follow are of this lattice on this device. Measures the device's copy.
    void begin(milcgpu::Device &device, const std::array<int, 4> &lattice);
    double copy_bandwidth() const { return copy_bandwidth_; } // bytes a second, read and written, of all ranks

    // The rows that follow go to `watcher` alone, once they are verified; none: to the table again.
    void watch(std::function<void(const Operation &, double seconds)> watcher) { watcher_ = std::move(watcher); }

    // error: of the result that was timed; above `tolerance`, or NaN, it is wrong.
    void row(const Operation &operation, const Cost &cost, double error, double tolerance);
    void wrong(const Operation &operation, const std::string &why);

    // Summary, comparison, what is wrong. The exit status: 0, or 1 where a result is wrong, or there is none. Throws
    // where the CSV could not be written.
    int finish();

  private:
    struct Old {
        double seconds, copy_bandwidth;
        std::string device;
    };
    // The CSV's cells that name a row: operation, lattice and ranks.
    Cells name_of(const Operation &operation) const;
    void compare(const Operation &operation, double seconds);
    void print_summary() const;

    const Job &ranks_;
    std::function<void(const Operation &, double)> watcher_;
    Csv csv_;
    std::string device_, lattice_;
    Cells origin_; // the last cells of each row
    double copy_bandwidth_ = 0;
    std::map<Cells, Old> old_; // by the cells that name a row
    double noise_ = 0;
    int rows_ = 0, compared_ = 0, faster_ = 0;
    std::vector<std::string> slower_;
    Wrong wrong_;
    // By lattice and operation, in the order of rows: what stands in the columns double, single, half.
    struct Line {
        std::string lattice, what;
        std::array<std::string, 3> cells;
    };
    std::vector<Line> summary_;
};

} // namespace examples
