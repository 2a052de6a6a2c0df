// Shared code of the timing programs: times by device events, and the list of wrong results.
#pragma once
#include "gpu_kernels/fields/precision.h"
#include "gpu_kernels/machine/backend/device.h"
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace examples {

// A result is wrong if its error exceeds this many times the error measured on the host backend.
constexpr double times_measured = 3;
inline double links_tolerance(milcgpu::Precision p, double measured_in_double, double measured_in_single) {
    return times_measured * (p == milcgpu::Precision::double_ ? measured_in_double : measured_in_single);
}

// The time of a launch: the median over `runs` of the time of `repeat` launches, divided by `repeat`.
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
    const size_t bytes = device.on_gpu() ? size_t(2) << 30 : size_t(1) << 25;
    const milcgpu::DeviceArray<unsigned char> a(device, bytes, "bench"), b(device, bytes, "bench");
    device.fill_zero(a.data(), bytes);
    return 2.0 * bytes / median_seconds(device, 7, 3, [&] { device.copy_on_device(b.data(), a.data(), bytes); });
}

// Wrong results, printed at once and again at the end.
class Wrong {
  public:
    void add(const std::string &line) {
        std::printf("WRONG: %s\n", line.c_str());
        lines_.push_back(line);
    }
    // Returns the exit status: 1 if any result is wrong.
    int finish() const {
        for (const std::string &line : lines_)
            std::printf("wrong: %s\n", line.c_str());
        std::printf(lines_.empty() ? "every result is right\n" : "%zu results are wrong\n", lines_.size());
        return lines_.empty() ? 0 : 1;
    }

  private:
    std::vector<std::string> lines_;
};

} // namespace examples
