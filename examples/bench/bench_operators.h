// Shared code of bench_operators.cpp and bench_wilson.cpp.
#pragma once
#include "examples/bench/bench.h"
#include "examples/bench/bench_stream.h"
#include "gpu_kernels/fields/spinor_field.h"
#include "reorder/resident_links.h"
#include <cstring>
#include <functional>

namespace examples {

using Reals = std::vector<double>; // a field in MILC's order

// Links of one gauge field in every form, and rows.
class Operators {
  public:
    explicit Operators(const Bench &bench)
        : bench_(bench), geometry_(bench.system.lattice.n), lattice_(bench.system.lattice),
          gauge_(reference::near_unit_gauge(lattice_, 0.3, 5)), reorder_(device(), map_, geometry_),
          plain_(device(), milcgpu::Precision::double_, 18, geometry_, "bench") {
        auto host = reference::links_to_milc<double>(lattice_, gauge_);
        links_to_device(device(), {host.data(), milcgpu::Precision::double_, 576}, map_, geometry_, plain_);
        statistics_ = link_statistics(device(), plain_, geometry_);
    }

  protected:
    static constexpr milcgpu::Precision precisions[] = {milcgpu::Precision::double_, milcgpu::Precision::single,
                                                        milcgpu::Precision::half};
    static int index(milcgpu::Precision p) { return static_cast<int>(p); }
    milcgpu::Device &device() const { return bench_.device(); }
    milcgpu::LinkField links(milcgpu::Precision p, int reals) const {
        return pack_links(device(), plain_, statistics_, geometry_, p, reals, "bench").field;
    }
    // The reals of gauge links: --reals 13 and 9 select 12 and 8; --quick selects 12.
    bool wants(int reals) const {
        const int wanted = bench_.settings.reals;
        return wanted == 0 || wanted == reals || wanted == reals + 1;
    }
    double seconds(const std::function<void()> &launch) const {
        return median_seconds(device(), 9, device().on_gpu() ? 20 : 2, launch);
    }
    // made, wanted: the first source on even sites, which come first.
    void row(const Operation &operation, const Cost &cost, const Reals &made, const Reals &wanted, double tolerance) {
        bench_.table.row(operation, cost, difference(bench_.ranks, made, wanted, 6 * size_t(geometry_.sites(0))),
                         tolerance);
    }
    // After a row: a plain kernel that reads and writes as many bytes, in the fastest of its launch shapes. Its time is
    // the limit, including the start and the end of a launch.
    void plain_row(const std::string &what, milcgpu::Precision p, size_t read, size_t written) {
        if (!device().on_gpu() || bench_.settings.sweep_shapes)
            return;
        read = (read + 15) / 16 * 16, written = (written + 15) / 16 * 16;
        std::vector<uint32_t> words(read / sizeof(uint32_t)), back(written / sizeof(uint32_t));
        for (size_t k = 0; k < words.size(); ++k)
            words[k] = static_cast<uint32_t>(k) * 2654435761u + 1;
        const milcgpu::DeviceArray<unsigned char> from(device(), read, "bench"), to(device(), written, "bench");
        const milcgpu::DeviceArray<uint32_t> aside(device(), most_stream_blocks, "bench");
        device().copy_to_device(from.data(), words.data(), read);
        double fastest = INFINITY, wrong = 0;
        for (int shape = 0; shape < stream_shapes; ++shape) {
            device().fill_zero(to.data(), written);
            fastest = std::fmin(
                fastest, seconds([&] {
                    plain_write(device(), shape, {from.data(), read}, {to.data(), written}, false, aside.data());
                }));
            device().copy_to_host(back.data(), to.data(), written);
            wrong += std::memcmp(back.data(), words.data(), written) != 0;
        }
        bench_.table.row({"plain", what, name(p)}, {fastest, 0, double(read + written)}, wrong, 0);
    }
    milcgpu::SpinorField up(const reference::Fermion &field, int parity, milcgpu::Precision p, int sources = 1) {
        milcgpu::SpinorField to(device(), p, geometry_, parity, "bench", sources);
        auto host = reference::vector_to_milc<double>(lattice_, field);
        for (int k = 0; k < sources; ++k)
            reorder_.to_device({host.data(), milcgpu::Precision::double_, 48}, parity, to[k]);
        return to;
    }
    Reals down(const milcgpu::SpinorBlock &from) {
        Reals host(6 * size_t(lattice_.volume()));
        reorder_.to_host(from, 0, {host.data(), milcgpu::Precision::double_, 48});
        return host;
    }

    const Bench &bench_;
    milcgpu::Geometry geometry_;
    reference::Lattice lattice_;
    reference::Gauge gauge_;
    milcgpu::SiteMap map_;
    milcgpu::SpinorReorder reorder_;
    milcgpu::LinkField plain_;
    milcgpu::LinkStatistics statistics_{};
};

} // namespace examples
