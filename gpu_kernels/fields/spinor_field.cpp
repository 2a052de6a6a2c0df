#include "gpu_kernels/fields/spinor_field.h"
#include "gpu_kernels/machine/backend/device.h"

namespace milcgpu {

SpinorField::SpinorField(Device &device, Precision precision, const Geometry &geometry, int parity, const char *owner,
                         int sources, int components)
    : memory_(device, bytes_of(precision, geometry, sources, components), owner) {
    block_.data = memory_.data();
    block_.stride = components * geometry.stride();
    block_.source_bytes = memory_.bytes() / sources;
    block_.precision = precision;
    block_.component_sites = geometry.sites(parity);
    block_.sites = components > 1 ? static_cast<int>(block_.stride) : block_.component_sites;
    block_.sources = sources;
    block_.components = components;
    if (components > 1)
        block_.component_bytes = geometry.stride() * bytes_between_elements(device.on_gpu(), precision);
    device.fill_zero(memory_.data(), memory_.bytes());
}

size_t SpinorField::allocated_bytes(Precision precision, const Geometry &geometry, int sources, int components) {
    return Device::allocated_bytes(bytes_of(precision, geometry, sources, components));
}

} // namespace milcgpu
