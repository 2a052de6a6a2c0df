// Times launch shapes that differ from the tables, and prints the gain of a change. It does not change the tables.
#pragma once
#include "examples/bench/table.h"
#include <functional>

namespace examples {

// Times of rows by launch shape.
class Sweep {
  public:
    void add(const Operation &, const std::string &shape, double seconds);
    // A line for each place in the code that has a launch shape, and each other shape: the mean and the smallest gain
    // of its rows, if the mean exceeds the noise. Noise is the largest spread of the runs of a row, (largest -
    // smallest) / median. Also a line for each row of several sources: the gain of several launches of fewer sources.
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
