// The table of a timing program: one row per operation, as text and as CSV, a summary at the end, and the rows that are
// slower than in an earlier table.
#pragma once
#include "examples/lib/ranks.h"
#include "examples/lib/timing.h"
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace examples {

// The timed operation. precision: one precision, or a pair whose last one does most of the work, as "double/half".
struct Operation {
    std::string kind, what, precision;
    int sources = 1;
    std::string shape = ""; // the place of its launch shape in the code, for Sweep
    double mass = 0;        // of a solve; 0: none, or several
};
// The cost of one launch, step or call: seconds, flops, and compulsory bytes (each number read or written once).
struct Cost {
    double seconds, flops, bytes;
    int steps = 0;             // of a solve
    double cublas_seconds = 0; // seconds of cuBLAS; 0: not measured
};

class Table {
  public:
    // csv: a file name, or empty. Only rank 0 writes the file.
    Table(const std::string &csv, const Job &ranks);

    // Compares later rows with `file`: a row is slower if it takes more than `noise` percent more time. If the file is
    // from another device, times are expected to scale with the copy bandwidth. Throws ArgumentError if the file is not
    // such a table.
    void compare_with(const std::string &file, double noise);

    // Sets lattice and device of later rows. Measures the device's copy.
    void begin(milcgpu::Device &device, const std::array<int, 4> &lattice);
    double copy_bandwidth() const { return copy_bandwidth_; } // bytes per second, read and written, of all ranks

    // Later rows go only to `watcher`, after they are verified; an empty one: to the table again.
    void watch(std::function<void(const Operation &, double seconds)> watcher) { watcher_ = std::move(watcher); }

    // error: the error of the timed result. The result is wrong if its error is above `tolerance`, or NaN.
    void row(const Operation &operation, const Cost &cost, double error, double tolerance);
    void wrong(const Operation &operation, const std::string &why);

    // Prints summary, comparison and wrong results. Returns the exit status: 0, or 1 if a result is wrong or if nothing
    // was measured. Throws if the CSV could not be written.
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
    // By lattice and operation, in the order of rows: the cells of the columns double, single, half.
    struct Line {
        std::string lattice, what;
        std::array<std::string, 3> cells;
    };
    std::vector<Line> summary_;
};

} // namespace examples
