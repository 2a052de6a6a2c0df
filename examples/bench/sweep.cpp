#include "examples/bench/sweep.h"
#include <algorithm>
#include <climits>
#include <cmath>

namespace examples {
using milcgpu::format;

namespace {

double median(std::vector<double> v) {
    std::sort(v.begin(), v.end());
    return v[v.size() / 2];
}
double spread(const std::vector<double> &v) {
    const auto ends = std::minmax_element(v.begin(), v.end());
    return (*ends.second - *ends.first) / median(v);
}

} // namespace

void Sweep::add(const Operation &operation, const std::string &shape, double seconds) {
    const auto is_it = [&](const Row &row) {
        const Operation &o = row.operation;
        return o.kind == operation.kind && o.what == operation.what && o.precision == operation.precision &&
               o.sources == operation.sources;
    };
    auto row = std::find_if(rows_.begin(), rows_.end(), is_it);
    if (row == rows_.end())
        row = rows_.insert(row, {operation, {}});
    row->seconds[shape].push_back(seconds);
}

std::vector<std::string> Sweep::gains() const {
    struct Gain {
        double sum = 0, worst = INFINITY, noise = 0;
        int rows = 0;
    };
    std::map<std::string, std::map<std::string, Gain>> places; // by place, then by shape
    std::vector<std::string> lines;
    for (const Row &row : rows_) {
        const Operation &o = row.operation;
        const std::vector<double> &own_times = row.seconds.at(own);
        const std::string named = o.kind + " " + o.what + ", " + o.precision;
        for (const auto &[shape, times] : row.seconds) {
            if (shape == own)
                continue;
            const double gain = median(own_times) / median(times) - 1;
            Gain &all = places[o.shape.empty() ? named : o.shape][shape];
            all.sum += gain, ++all.rows;
            all.worst = std::fmin(all.worst, gain);
            all.noise = std::fmax(all.noise, std::fmax(spread(own_times), spread(times)));
        }
        for (const Row &fewer : rows_) {
            const Operation &f = fewer.operation;
            if (f.sources >= o.sources || o.sources % f.sources != 0 || f.kind != o.kind || f.what != o.what ||
                f.precision != o.precision)
                continue;
            const int launches = o.sources / f.sources;
            const std::vector<double> &times = fewer.seconds.at(own);
            const double gain = median(own_times) / (launches * median(times)) - 1,
                         noise = std::fmax(spread(own_times), spread(times));
            if (gain > noise)
                lines.push_back(format("%s, %d sources: %.1f %% (noise %.1f %%) with %d launches of %d", named.c_str(),
                                       o.sources, 100 * gain, 100 * noise, launches, f.sources));
        }
    }
    for (const auto &[place, shapes] : places)
        for (const auto &[shape, gain] : shapes)
            if (gain.sum / gain.rows > gain.noise)
                lines.push_back(format("%s -> %s: %.1f %% on average over %d rows, at least %.1f %% (noise %.1f %%)",
                                       place.c_str(), shape.c_str(), 100 * gain.sum / gain.rows, gain.rows,
                                       100 * gain.worst, 100 * gain.noise));
    return lines;
}

void sweep_shapes(milcgpu::Device &device, Table &table, const std::function<void()> &part) {
    struct Shape {
        const char *name;
        int block, parts_below;
    };
    const int block = device.block(), parts_below = device.parts_below(), runs = 3;
    const Shape shapes[] = {{Sweep::own, 0, parts_below},
                            {"64 threads a block", 64, parts_below},
                            {"128 threads a block", 128, parts_below},
                            {"256 threads a block", 256, parts_below},
                            {"one thread a site", 0, 0},
                            {"four threads a site", 0, INT_MAX}};
    Sweep sweep;
    for (int run = 0; run < runs; ++run)
        for (const Shape &shape : shapes) {
            std::printf("run %d of %d: %s\n", run + 1, runs, shape.name);
            std::fflush(stdout);
            device.set_block(shape.block);
            device.set_parts_below(shape.parts_below);
            table.watch([&](const Operation &o, double seconds) { sweep.add(o, shape.name, seconds); });
            part();
        }
    table.watch(nullptr);
    device.set_block(block);
    device.set_parts_below(parts_below);
    const std::vector<std::string> lines = sweep.gains();
    for (const std::string &line : lines)
        std::printf("gain: %s\n", line.c_str());
    std::printf("%zu launch shapes beat the tables' shapes by more than the noise\n", lines.size());
}

} // namespace examples
