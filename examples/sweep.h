// Launch shapes other than those of the tables, which stay as they are: what a person would gain by changing them.
#pragma once
#include "examples/table.h"
#include <functional>

namespace examples {

// Times of rows by launch shape.
class Sweep {
  public:
    void add(const Operation &, const std::string &shape, double seconds);
    // For each place where a launch shape stands, and each other shape: the mean gain of its rows and the smallest one,
    // where the mean is more than the noise. Noise: the largest spread of the runs of a row, (largest - smallest) /
    // median. For each row of several sources: the gain of several launches of fewer sources. A line each.
    std::vector<std::string> gains() const;

    static constexpr const char *own = "as in the tables";

  private:
    struct Row {
        Operation operation;
        std::map<std::string, std::vector<double>> seconds; // by shape
    };
    std::vector<Row> rows_;
};

// Runs `part`, which adds rows to `table`, in each shape, three times in turn, and prints the gains.
void sweep_shapes(milcgpu::Device &device, Table &table, const std::function<void()> &part);

} // namespace examples
