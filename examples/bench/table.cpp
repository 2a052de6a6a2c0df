#include "examples/bench/table.h"
#include <algorithm>
#include <filesystem>
#include <fstream>

namespace examples {
using milcgpu::format;

namespace {

const Cells heading = {"kind",
                       "what",
                       "precision",
                       "sources",
                       "lattice",
                       "grid",
                       "ranks",
                       "us",
                       "gflops",
                       "gbytes_per_second",
                       "percent_of_copy",
                       "flops_per_byte",
                       "error",
                       "steps",
                       "cublas_us",
                       "mass",
                       "sites",
                       "card",
                       "date"};
constexpr size_t naming = 7, compared = 10; // how many cells name a row; how many are compared

std::string joined(const Cells &cells) {
    std::string line = csv_line(cells);
    line.pop_back();
    return line;
}

} // namespace

Table::Table(const std::string &csv, const Job &ranks) : ranks_(ranks) {
    ranks.on_first([&] { csv_.open("--csv", csv, heading); });
}

void Table::compare_with(const std::string &file, double noise) {
    std::ifstream stream;
    if (std::filesystem::is_regular_file(file)) // to open a pipe would wait
        stream.open(file);
    const std::string shown = milcgpu::quoted_name(file);
    std::string line;
    const bool readable = stream.is_open() && std::getline(stream, line);
    const Cells columns = csv_cells(line);
    if (!readable || columns.size() < compared ||
        !std::equal(heading.begin(), heading.begin() + compared, columns.begin()))
        throw ArgumentError("--compare: " + shown + " is not a table of this program");
    noise_ = noise;
    double copy = 0; // of the lattice whose rows follow
    std::string device;
    while (std::getline(stream, line)) {
        const Cells row = csv_cells(line);
        double us, bandwidth;
        if (row.size() != columns.size() || !read_number(row[naming], us) || !read_number(row[naming + 2], bandwidth))
            throw ArgumentError("--compare: " + shown + ": a row without its " + std::to_string(columns.size()) +
                                " cells or its numbers: '" + milcgpu::quoted(line) + "'");
        if (row[0] == "copy")
            copy = bandwidth * 1e9, device = row[1];
        else if (copy > 0)
            old_[Cells(row.begin(), row.begin() + naming)] = {us * 1e-6, copy, device};
    }
    if (old_.empty())
        throw ArgumentError("--compare: " + shown + " has no rows");
}

void Table::begin(milcgpu::Device &device, const std::array<int, 4> &n) {
    device_ = device.description();
    std::replace(device_.begin(), device_.end(), ',', ';');
    lattice_ = extents_name(n);
    origin_ = card_cells(device.description());
    origin_.insert(origin_.begin(), std::to_string(size_t(n[0]) * n[1] * n[2] * n[3]));
    ranks_.together();
    copy_bandwidth_ = ranks_.sum(examples::copy_bandwidth(device));
    std::printf("%s\nlattice %s, copy %.1f GB/s (read and written)\n", device.description().c_str(), lattice_.c_str(),
                copy_bandwidth_ * 1e-9);
    csv_.row(name_of({"copy", device_, ""}), 0, 0, copy_bandwidth_ * 1e-9, 100, 0, 0, 0, 0, 0, origin_);
}

Cells Table::name_of(const Operation &operation) const {
    return {operation.kind, operation.what, operation.precision,          std::to_string(operation.sources),
            lattice_,       ranks_.grid(),  std::to_string(ranks_.size())};
}

void Table::row(const Operation &operation, const Cost &cost, double error, double tolerance) {
    if (!(error <= tolerance))
        wrong(operation, format("error %.2e, but at most %.2e is allowed", error, tolerance));
    ++rows_;
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
    csv_.row(name_of(operation), us, gflops, bandwidth, percent, cost.flops / cost.bytes, error, cost.steps,
             cost.cublas_seconds * 1e6, operation.mass, origin_);
    compare(operation, cost.seconds);

    // The first precision of a pair is part of the name; its last precision is the column.
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
    wrong_.add(joined(name_of(operation)) + ": " + why);
}

void Table::compare(const Operation &operation, double seconds) {
    const auto old = old_.find(name_of(operation));
    if (old == old_.end())
        return;
    ++compared_;
    const Old &then = old->second;
    const double expected =
        then.device == device_ ? then.seconds : then.seconds * then.copy_bandwidth / copy_bandwidth_;
    const double percent = 100 * (seconds / expected - 1);
    if (percent > noise_)
        slower_.push_back(format("%s: %.2f us, %.2f expected: %+.1f %%", joined(name_of(operation)).c_str(),
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

int Table::finish() {
    csv_.finish();
    print_summary();
    for (const std::string &line : slower_)
        std::printf("slower: %s\n", line.c_str());
    if (!old_.empty())
        std::printf("%d of %zu rows compared: %zu slower, %d faster by more than %g %% of the time\n", compared_,
                    old_.size(), slower_.size(), faster_, noise_);
    if (rows_ == 0) {
        std::printf("nothing was measured: these options exclude all operations\n");
        return 1;
    }
    return wrong_.finish();
}

} // namespace examples
