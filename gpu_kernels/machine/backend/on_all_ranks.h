// Objects that either all ranks have or none.
#pragma once
#include "gpu_kernels/machine/backend/device.h"

namespace milcgpu {

// Returns what make() returns, on every rank; if it fails on any rank, no rank keeps its object and all throw the same
// error.
template <class Make> auto made_on_all_ranks(Device &device, const char *phase, const Make &make) {
    decltype(make()) made;
    device.collective(phase, [&] { made = make(); });
    return made;
}

// As above, but returns an empty result on all ranks if the memory of any rank does not suffice.
template <class Make> auto made_if_it_fits(Device &device, const char *phase, const Make &make) {
    try {
        return made_on_all_ranks(device, phase, make);
    } catch (const Error &error) {
        if (error.status() != Status::no_memory)
            throw;
        return decltype(make()){};
    }
}

} // namespace milcgpu
