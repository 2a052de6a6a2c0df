#include "gpu_kernels/fields/link_field.h"
#include "gpu_kernels/machine/backend/device.h"

namespace milcgpu {

void LinkField::clear() { data_.device().fill_zero(data_.data(), bytes()); }

void LinkField::keep_sum() { sum_ = data_.device().zero_sum(); }

void LinkField::copy(const LinkField &from) {
    data_.device().copy_on_device(data_.data(), from.data_.data(), data_.bytes());
    no_sum();
    if (from.keeps_sum()) {
        keep_sum();
        kept().copy(data_.device(), from.kept());
    }
}

uint64_t LinkField::sum_of_content() const {
    return keeps_sum() ? kept().read(data_.device()) : milcgpu::checksum(data_.device(), data_.data(), bytes());
}

} // namespace milcgpu
