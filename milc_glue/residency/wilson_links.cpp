#include "milc_glue/residency/wilson_links.h"
#include <utility>

namespace milcgpu {

milcgpu_status WilsonLinks::ready(const HostRecords &links, milcgpu_wilson *&handle, uint64_t &moved) {
    const InUse use = kept_.use();
    Mirror here(links, Mirror::Look::whole);
    const Mirror::Tag tag = here.tag_now();
    handle = handle_;
    const Collective::Words all = collective_.on_all_ranks({mirror_.has(tag), kept_.has(links)});
    if (all[0] != 0)
        return MILCGPU_OK;
    drop();
    const milcgpu_field from = {const_cast<void *>(links.data), real_, links.pitch};
    milcgpu_status status = collective_(milcgpu_wilson_create(context_, &handle_));
    if (status == MILCGPU_OK)
        status = collective_(all[1] != 0 ? milcgpu_wilson_load_gauge(handle_, MILCGPU_SIGNS_OUT, kept_.handle())
                                         : milcgpu_wilson_load(handle_, &from));
    if (status != MILCGPU_OK) {
        drop();
        return status;
    }
    moved += all[1] != 0 ? 0 : links.count * links.bytes;
    mirror_ = here;
    mirror_.both_have(tag);
    handle = handle_;
    return MILCGPU_OK;
}

bool WilsonLinks::drop() {
    milcgpu_wilson_destroy(handle_);
    mirror_.forget_copy();
    return std::exchange(handle_, nullptr) != nullptr;
}

} // namespace milcgpu
