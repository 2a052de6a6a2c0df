// Halves of a step of block conjugate gradient in one launch, in single precision.
#include "gpu_kernels/dslash/block_half.h"

namespace milcgpu {

bool takes_block_half(const Device &device, const CutLattice &lattice, Precision spinor, Precision link, int sources) {
    return device.on_gpu() && device.ranks() == nullptr && !lattice.is_cut() && spinor == Precision::single &&
           link == Precision::single && sources > 4 && sources <= 16;
}

void block_half(Device &device, const BlockDslashCall &call) {
#if defined(MILCGPU_WITH_CUDA)
    for_all_reals([&](auto reals) {
        if (call.lng->reals() != reals)
            return;
        const auto start = call.in.sources <= 8    ? cuda::launch_block_half<reals, 8>
                           : call.in.sources <= 12 ? cuda::launch_block_half<reals, 12>
                                                   : cuda::launch_block_half<reals, 16>;
        start(device, call);
    });
#else
    static_cast<void>(device), static_cast<void>(call);
#endif
}

} // namespace milcgpu
