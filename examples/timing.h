// What the timing programs share: times by device events, rows of the table, what is wrong.
#pragma once
#include "examples/arguments.h"
#include "examples/ranks.h"
#include "gpu_kernels/su3/fields.h"
#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace examples {

// Errors are wrong above this many times what was measured on the host backend.
constexpr double times_measured = 3;
inline double links_tolerance(milcgpu::Precision p, double measured_in_double, double measured_in_single) {
    return times_measured * (p == milcgpu::Precision::double_ ? measured_in_double : measured_in_single);
}

// Median over `runs` of the time of `repeat` launches, a launch.
template <class Launch> double median_seconds(milcgpu::Device &device, int runs, int repeat, const Launch &launch) {
    launch();
    device.synchronize();
    std::vector<double> seconds;
    for (int run = 0; run < runs; ++run) {
        device.timer_start();
        for (int k = 0; k < repeat; ++k)
            launch();
        seconds.push_back(device.timer_stop_seconds() / repeat);
    }
    std::sort(seconds.begin(), seconds.end());
    return seconds[seconds.size() / 2];
}

inline double copy_bandwidth(milcgpu::Device &device) {
    const size_t bytes = device.on_gpu() ? size_t(2) << 30 : size_t(1) << 27;
    const milcgpu::DeviceArray<unsigned char> a(device, bytes, "bench"), b(device, bytes, "bench");
    device.fill_zero(a.data(), bytes);
    return 2.0 * bytes / median_seconds(device, 7, 3, [&] { device.copy_on_device(b.data(), a.data(), bytes); });
}

// A table that was written before. Times are compared as parts of what the device's copy would take, so that tables of
// two cards can be.
class Before {
  public:
    // Throws ArgumentError where it is not such a table. noise: percent.
    Before(const std::string &file, double noise) : noise_(noise) {
        std::ifstream stream(file);
        std::string line;
        if (!std::getline(stream, line) || line.rfind("kind,what,us,", 0) != 0)
            throw ArgumentError("--compare: " + file + " is no table that this program has written");
        while (std::getline(stream, line)) {
            std::istringstream row(line);
            std::string kind, what, us, gflops, bandwidth;
            for (std::string *cell : {&kind, &what, &us, &gflops, &bandwidth})
                std::getline(row, *cell, ',');
            if (kind == "copy")
                copy_ = std::stod(bandwidth) * 1e9;
            else
                seconds_[key(kind, what)] = std::stod(us) * 1e-6;
        }
    }
    void look_at(const std::string &kind, const std::string &what, double seconds, double copy) {
        const auto old = seconds_.find(key(kind, what));
        if (old == seconds_.end())
            return;
        ++compared_;
        const double percent = 100 * (seconds * copy / (old->second * copy_) - 1);
        const std::string line = milcgpu::format("%-9s %-34s %10.2f us, %.2f before: %+.1f %%", kind.c_str(),
                                                 what.c_str(), seconds * 1e6, old->second * 1e6, percent);
        if (percent > noise_)
            slower_.push_back(line);
        else if (percent < -noise_)
            ++faster_;
    }
    void tell() const {
        for (const std::string &line : slower_)
            std::printf("slower: %s\n", line.c_str());
        std::printf(
            "%d of %zu rows compared: %zu slower, %d faster by more than %g %% of the time, by copy bandwidth\n",
            compared_, seconds_.size(), slower_.size(), faster_, noise_);
    }

  private:
    // Without the numbers of steps and updates, which may change.
    static std::string key(const std::string &kind, const std::string &what) {
        const size_t steps = what.find(" steps");
        return kind + " " + (steps == std::string::npos ? what : what.substr(0, what.rfind(' ', steps - 1)));
    }
    std::map<std::string, double> seconds_;
    double noise_, copy_ = 0;
    int compared_ = 0, faster_ = 0;
    std::vector<std::string> slower_;
};

struct Out {
    std::ofstream csv;
    std::optional<Before> before;
    double copy_bandwidth = 0;        // bytes a second, of all ranks
    std::string where = ",1x1x1x1,1"; // the last columns
    std::vector<std::string> wrong;
    void fail(const std::string &kind, const std::string &what, const std::string &why) {
        std::printf("%-9s %-34s WRONG: %s\n", kind.c_str(), what.c_str(), why.c_str());
        wrong.push_back(kind + " " + what + ": " + why);
    }
    // error: of the result that was timed; above `tolerance`, or NaN, it is wrong.
    void line(const std::string &kind, const std::string &what, double seconds, double flops, double bytes,
              double error, double tolerance) {
        const double percent = 100 * bytes / seconds / copy_bandwidth;
        std::printf("%-9s %-34s %10.2f us %9.1f GFLOPS %8.1f GB/s %6.1f %%  error %.1e\n", kind.c_str(), what.c_str(),
                    seconds * 1e6, flops / seconds * 1e-9, bytes / seconds * 1e-9, percent, error);
        csv << kind << "," << what << "," << seconds * 1e6 << "," << flops / seconds * 1e-9 << ","
            << bytes / seconds * 1e-9 << "," << percent << "," << flops / bytes << "," << error << where << "\n";
        if (before)
            before->look_at(kind, what, seconds, copy_bandwidth);
        if (!(error <= tolerance))
            fail(kind, what, milcgpu::format("error %.2e, at most %.2e is right", error, tolerance));
    }
    // The device and the lattice, the copy bandwidth, and the table's heading.
    void begin(milcgpu::Device &device, const std::array<int, 4> &size, const std::string &file,
               const Job &ranks = Job());
    int finish() const {
        if (before)
            before->tell();
        for (const std::string &each : wrong)
            std::printf("wrong: %s\n", each.c_str());
        std::printf(wrong.empty() ? "every result is right\n" : "%zu results are wrong\n", wrong.size());
        return wrong.empty() ? 0 : 1;
    }
};

inline void Out::begin(milcgpu::Device &device, const std::array<int, 4> &size, const std::string &file,
                       const Job &ranks) {
    if (!file.empty() && ranks.is_first())
        csv.open(file);
    where = "," + ranks.grid() + "," + std::to_string(ranks.size());
    ranks.together();
    copy_bandwidth = ranks.sum(examples::copy_bandwidth(device));
    std::printf("%s\nlattice %d x %d x %d x %d, copy %.1f GB/s (read and written)\n", device.description().c_str(),
                size[0], size[1], size[2], size[3], copy_bandwidth * 1e-9);
    csv << "kind,what,us,gflops,gbytes_per_second,percent_of_copy,flops_per_byte,error,grid,ranks\n";
    csv << "copy,device copy,0,0," << copy_bandwidth * 1e-9 << ",100,0,0" << where << "\n";
}

} // namespace examples
