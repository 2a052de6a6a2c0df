// Wilson fields, gauge fields and clover terms between the reference and a device.
#pragma once
#include "gpu_kernels/wilson/clover.h"
#include "reorder/link_reorder.h"
#include "tests/reference/wilson.h"
#include "tests/support.h"

namespace tests {

struct WilsonBench {
    reference::Lattice lattice;
    milcgpu::Geometry geometry;
    milcgpu::Device device;
    milcgpu::SiteMap map;
    milcgpu::SpinorReorder reorder;

    WilsonBench(const std::array<int, 4> &n, milcgpu::Backend backend, int block = 0)
        : lattice{n}, geometry(n), device(backend, 0), reorder(device, map, geometry, 4) {
        device.set_block(block);
    }
    milcgpu::LinkField upload(const reference::Gauge &links, milcgpu::Precision p = milcgpu::Precision::double_) {
        milcgpu::LinkField field(device, p, 18, geometry, "test");
        const auto load = [&](auto milc) {
            links_to_device(device, {milc.data(), p, 72 * sizeof milc[0]}, map, geometry, field);
        };
        if (p == milcgpu::Precision::double_)
            load(reference::links_to_milc<double>(lattice, links));
        else
            load(reference::links_to_milc<float>(lattice, links));
        return field;
    }
    milcgpu::SpinorField upload(const reference::WilsonField &psi, int parity, milcgpu::Precision p) {
        milcgpu::SpinorField field(device, p, geometry, parity, "test", 1, 4);
        auto milc = reference::field_to_milc<double>(lattice, psi, 1);
        reorder.to_device({milc.data(), milcgpu::Precision::double_, 192}, parity, field);
        return field;
    }
    // Zero on the other parity.
    reference::WilsonField download(const milcgpu::SpinorBlock &field, int parity) {
        std::vector<double> milc(24 * lattice.volume(), 0);
        reorder.to_host(field, parity, {milc.data(), milcgpu::Precision::double_, 192});
        return reference::field_from_milc<reference::WilsonVector>(lattice, milc.data(), 1);
    }
    milcgpu::CloverField clover(const reference::Gauge &links, double cku0) {
        milcgpu::CloverField r(device, milcgpu::Precision::double_, geometry, "test");
        make_clover(device, geometry, upload(links), cku0, r);
        return r;
    }
    // R psi on both parities, in the precision of r.
    reference::WilsonField multiply(const milcgpu::CloverField &r, const reference::WilsonField &psi) {
        reference::WilsonField result(psi.size(), reference::WilsonVector{});
        for (int parity = 0; parity < 2; ++parity) {
            const milcgpu::SpinorField in = upload(psi, parity, r.precision()),
                                       out(device, r.precision(), geometry, parity, "test", 1, 4);
            multiply_clover(device, r, parity, in, out);
            result = result + download(out, parity);
        }
        return result;
    }
};

} // namespace tests
