// What the timing programs share: times by device events, rows of the table, what is wrong.
#pragma once
#include "examples/ranks.h"
#include "gpu_kernels/su3/fields.h"
#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
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

struct Out {
    std::ofstream csv;
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
        if (!(error <= tolerance))
            fail(kind, what, milcgpu::format("error %.2e, at most %.2e is right", error, tolerance));
    }
    // The device and the lattice, the copy bandwidth, and the table's heading.
    void begin(milcgpu::Device &device, const std::array<int, 4> &size, const std::string &file,
               const Job &ranks = Job());
    int finish() const {
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
