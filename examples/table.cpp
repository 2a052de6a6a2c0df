#include "examples/table.h"
#include <algorithm>
#include <sstream>

namespace examples {
using milcgpu::format;

namespace {

constexpr const char *heading = "kind,what,precision,sources,lattice,grid,ranks,us,gflops,gbytes_per_second,"
                                "percent_of_copy,flops_per_byte,error,steps,cublas_us,sites,card,date";

std::string cells_of(const Operation &operation) {
    return operation.kind + "," + operation.what + "," + operation.precision + "," + std::to_string(operation.sources);
}

} // namespace

Table::Table(const std::string &csv, const Job &ranks) : ranks_(ranks) {
    if (csv.empty() || !ranks.is_first())
        return;
    csv_.open(csv);
    if (!csv_)
        throw ArgumentError("--csv: " + csv + " cannot be written");
    csv_ << heading << "\n";
}

void Table::compare_with(const std::string &file, double noise) {
    std::ifstream stream(file);
    std::string line;
    if (!std::getline(stream, line) || line != heading)
        throw ArgumentError("--compare: " + file + " is no table that this version of the program has written");
    noise_ = noise;
    double copy = 0; // of the lattice whose rows follow
    std::string device;
    while (std::getline(stream, line)) {
        std::istringstream row(line);
        std::string name, us, gflops, bandwidth;
        for (int k = 0; k < 7; ++k) {
            std::string cell;
            std::getline(row, cell, ',');
            name += (k == 0 ? "" : ",") + cell;
        }
        for (std::string *cell : {&us, &gflops, &bandwidth})
            std::getline(row, *cell, ',');
        try {
            if (line.rfind("copy,", 0) == 0)
                copy = std::stod(bandwidth) * 1e9, device = line.substr(5, line.find(',', 5) - 5);
            else if (copy > 0)
                old_[name] = {std::stod(us) * 1e-6, copy, device};
        } catch (const std::exception &) {
            throw ArgumentError("--compare: " + file + ": a row without its numbers: '" + line + "'");
        }
    }
    if (old_.empty())
        throw ArgumentError("--compare: " + file + " has no rows");
}

void Table::begin(milcgpu::Device &device, const std::array<int, 4> &n) {
    device_ = device.description();
    std::replace(device_.begin(), device_.end(), ',', ';');
    lattice_ = extents_name(n);
    origin_ = format(",%zu", size_t(n[0]) * n[1] * n[2] * n[3]) + card_cells(device.description());
    ranks_.together();
    copy_bandwidth_ = ranks_.sum(examples::copy_bandwidth(device));
    std::printf("%s\nlattice %s, copy %.1f GB/s (read and written)\n", device.description().c_str(), lattice_.c_str(),
                copy_bandwidth_ * 1e-9);
    csv_ << cells_of({"copy", device_, ""}) << place() << ",0,0," << copy_bandwidth_ * 1e-9 << ",100,0,0,0,0" << origin_
         << std::endl;
}

std::string Table::place() const { return "," + lattice_ + "," + ranks_.grid() + "," + std::to_string(ranks_.size()); }

void Table::row(const Operation &operation, const Cost &cost, double error, double tolerance) {
    if (!(error <= tolerance))
        wrong(operation, format("error %.2e, at most %.2e is right", error, tolerance));
    if (watcher_)
        return watcher_(operation, cost.seconds);
    const double us = cost.seconds * 1e6, gflops = cost.flops / cost.seconds * 1e-9,
                 bandwidth = cost.bytes / cost.seconds * 1e-9, percent = 1e11 * bandwidth / copy_bandwidth_;
    const std::string sources = operation.sources == 1 ? "" : format(" %d sources", operation.sources);
    const std::string what = operation.kind + " " + operation.what + sources;
    std::string extra = cost.steps > 0 ? format("  %d steps", cost.steps) : "";
    if (cost.cublas_seconds > 0)
        extra += format("  cuBLAS %.2f us", cost.cublas_seconds * 1e6);
    std::printf("%-38s %-13s %10.2f us %9.1f GFLOPS %8.1f GB/s %6.1f %%  error %.1e%s\n", what.c_str(),
                operation.precision.c_str(), us, gflops, bandwidth, percent, error, extra.c_str());
    std::fflush(stdout);
    csv_ << cells_of(operation) << place() << "," << us << "," << gflops << "," << bandwidth << "," << percent << ","
         << cost.flops / cost.bytes << "," << error << "," << cost.steps << "," << cost.cublas_seconds * 1e6 << origin_
         << std::endl;
    compare(operation, cost.seconds);

    // A pair's first precision is part of the name, its last one is the column.
    const size_t slash = operation.precision.rfind('/');
    const std::string column = operation.precision.substr(slash == std::string::npos ? 0 : slash + 1),
                      named = slash == std::string::npos ? what : what + ", " + operation.precision.substr(0, slash);
    auto line = std::find_if(summary_.begin(), summary_.end(),
                             [&](const Line &l) { return l.lattice == lattice_ && l.what == named; });
    if (line == summary_.end())
        line = summary_.insert(line, {lattice_, named, {}});
    line->cells[column == "double"   ? 0
                : column == "single" ? 1
                                     : 2] =
        cost.steps > 0 ? format("%.1f, %d steps", us, cost.steps) : format("%.1f (%.0f %%)", us, percent);
}

void Table::wrong(const Operation &operation, const std::string &why) {
    wrong_.add(format("%s, lattice %s: %s", cells_of(operation).c_str(), lattice_.c_str(), why.c_str()));
}

void Table::compare(const Operation &operation, double seconds) {
    const auto old = old_.find(cells_of(operation) + place());
    if (old == old_.end())
        return;
    ++compared_;
    const Old &then = old->second;
    const double expected =
        then.device == device_ ? then.seconds : then.seconds * then.copy_bandwidth / copy_bandwidth_;
    const double percent = 100 * (seconds / expected - 1);
    if (percent > noise_)
        slower_.push_back(format("%s%s: %.2f us, %.2f expected: %+.1f %%", cells_of(operation).c_str(), place().c_str(),
                                 seconds * 1e6, expected * 1e6, percent));
    else if (percent < -noise_)
        ++faster_;
}

void Table::print_summary() const {
    std::printf("\n%-13s %-44s %20s %20s %20s\n", "lattice", "us (% of the copy)", "double", "single", "half");
    for (const Line &line : summary_)
        std::printf("%-13s %-44s %20s %20s %20s\n", line.lattice.c_str(), line.what.c_str(), line.cells[0].c_str(),
                    line.cells[1].c_str(), line.cells[2].c_str());
    std::printf("\n");
}

int Table::finish() const {
    print_summary();
    for (const std::string &line : slower_)
        std::printf("slower: %s\n", line.c_str());
    if (!old_.empty())
        std::printf("%d of %zu rows compared: %zu slower, %d faster by more than %g %% of the time\n", compared_,
                    old_.size(), slower_.size(), faster_, noise_);
    return wrong_.finish();
}

} // namespace examples
