// Objects that all ranks have, or none.
#pragma once
#include "gpu_kernels/machine/backend/device.h"

namespace milcgpu {

// What make() returns on every rank, or the same error on all of them, and then no rank has it.
template <class Make> auto made_on_all_ranks(Device &device, const char *phase, const Make &make) {
    decltype(make()) made;
    device.collective(phase, [&] { made = make(); });
    return made;
}

// Empty on all ranks where the memory of one does not suffice.
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
