#include "milc_glue/plugin/eigen_owner.h"
#include "milc_glue/plugin/reason.h"
#include "milc_glue/solve/eigen.h"
#include <algorithm>
#include <utility>

namespace milcgpu {

void EigenOwner::now_at(void *const *fields, int count, int parity) {
    fields_.assign(fields, fields + count);
    parity_ = parity;
    mirror_ = Mirror({fields[0], 0, 0, 0}, Mirror::Look::told);
}

bool EigenOwner::has(void *const *fields, int count, int parity) const {
    const bool same =
        handle(parity) != nullptr && count == this->count() && std::equal(fields, fields + count, fields_.begin());
    return !collective_(!same);
}

milcgpu_status EigenOwner::compute(milcgpu_links *links, const milcgpu_eigen_spec &spec, void *const *fields,
                                   milcgpu_eigen_report &report) {
    drop();
    const milcgpu_status status = collective_(milcgpu_eigenvectors_compute(links, &spec, &handle_, &report));
    if (status != MILCGPU_OK) {
        drop();
        return status;
    }
    now_at(fields, report.count, spec.parity);
    mirror_.device_wrote();
    return status;
}

milcgpu_status EigenOwner::load(milcgpu_links *links, void *const *fields, int count, int parity) {
    drop();
    milcgpu_status status = collective_(milcgpu_eigenvectors_create(links, parity, 0, count, &handle_));
    for (int k = 0; k < count && status == MILCGPU_OK; ++k) {
        const milcgpu_field from{fields[k], real_, 0};
        status = collective_(milcgpu_eigenvectors_load(handle_, links, k, &from));
    }
    if (status != MILCGPU_OK) {
        drop();
        return status;
    }
    now_at(fields, count, parity);
    mirror_.both_have();
    return status;
}

milcgpu_status EigenOwner::make_other(milcgpu_links *links) {
    return other_ != nullptr ? MILCGPU_OK : collective_(other_parity_of(handle_, links, &other_));
}

std::string EigenOwner::to_host() {
    for (int k = 0; k < count() && newest_on_device(); ++k) {
        const milcgpu_field to{fields_[k], real_, 0};
        if (collective_(milcgpu_eigenvectors_save(handle_, k, &to)) != MILCGPU_OK) {
            const std::string why = reason();
            drop();
            return why;
        }
    }
    if (newest_on_device())
        mirror_.both_have();
    return {};
}

void EigenOwner::drop() {
    for (milcgpu_eigenvectors **of : {&handle_, &other_})
        milcgpu_eigenvectors_destroy(std::exchange(*of, nullptr));
    mirror_.forget_copy();
    fields_.clear();
}

milcgpu_eigenvectors *EigenOwner::handle(int parity) const {
    milcgpu_eigenvectors *const of = parity == parity_ ? handle_ : other_;
    return milcgpu_eigenvectors_count(of) > 0 ? of : nullptr;
}

} // namespace milcgpu
