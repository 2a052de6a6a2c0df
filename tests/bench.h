// A lattice on a device, for the tests of kernels and solvers: links and fields between the reference and the device.
#pragma once
#include "gpu_kernels/fields/spinor_field.h"
#include "gpu_kernels/machine/backend/device.h"
#include "reorder/link_reorder.h"
#include "tests/support.h"

namespace tests {

// Fields of `Site`, one at a site: reference::Vector or reference::WilsonVector.
template <class Site> struct Bench {
    using Field = std::vector<Site>;
    static constexpr size_t reals = sizeof(Site) / sizeof(double);
    static constexpr int components = static_cast<int>(reals / 6); // vectors a site
    reference::Lattice lattice;
    milcgpu::Geometry geometry;
    milcgpu::Device device;
    milcgpu::SiteMap map;
    milcgpu::SpinorReorder reorder;

    Bench(const std::array<int, 4> &n, milcgpu::Backend backend, int block = 0)
        : lattice{n}, geometry(n), device(backend, 0), reorder(device, map, geometry, components) {
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
    milcgpu::LinkField packed(const milcgpu::LinkField &links, milcgpu::Precision precision, int in_reals) {
        milcgpu::PackedLinks made = milcgpu::pack_links(
            device, links, milcgpu::link_statistics(device, links, geometry), geometry, precision, in_reals, "test");
        REQUIRE(made.worst_error <= milcgpu::accepted_error(precision));
        return std::move(made.field);
    }
    void put(const Field &field, int parity, const milcgpu::SpinorBlock &to, double times = 1) {
        auto milc = reference::field_to_milc<double>(lattice, field, 1);
        for (double &x : milc)
            x *= times;
        reorder.to_device({milc.data(), milcgpu::Precision::double_, reals * sizeof(double)}, parity, to);
    }
    // Source k is (k + 1) field.
    milcgpu::SpinorField upload(const Field &field, int parity, milcgpu::Precision precision, int sources = 1) {
        milcgpu::SpinorField to(device, precision, geometry, parity, "test", sources, components);
        for (int k = 0; k < sources; ++k)
            put(field, parity, to[k], k + 1);
        return to;
    }
    milcgpu::SpinorField upload_all(const std::vector<Field> &fields, int parity, milcgpu::Precision precision) {
        milcgpu::SpinorField to(device, precision, geometry, parity, "test", static_cast<int>(fields.size()),
                                components);
        for (int k = 0; k < to.sources(); ++k)
            put(fields[k], parity, to[k]);
        return to;
    }
    // Zero on the other parity.
    Field download(const milcgpu::SpinorBlock &field, int parity) {
        std::vector<double> milc(reals * lattice.volume(), 0);
        reorder.to_host(field, parity, {milc.data(), milcgpu::Precision::double_, reals * sizeof(double)});
        return reference::field_from_milc<Site>(lattice, milc.data(), 1);
    }
    // |got - (k + 1) wanted| / |(k + 1) wanted| of source k.
    double error_of(const milcgpu::SpinorField &got, int k, const Field &wanted, int parity) {
        Field scaled = wanted;
        for (auto &v : scaled)
            v = double(k + 1) * v;
        return parity_difference(lattice, download(got[k], parity), scaled, parity);
    }
};

} // namespace tests
