// Words that go to memory and into a checksum.
#pragma once
#include "gpu_kernels/machine/portable.h"

namespace milcgpu {

// Makes the host's compiler compute each word once. Otherwise it may compute a word twice, in a vector for one use and
// alone for the other, and round the two differently (it fuses multiply-adds in one of them). GPUs compute it once
// anyway.
template <class Words> MILCGPU_HD void settle(Words &words) {
#if MILCGPU_ON_DEVICE
    static_cast<void>(words);
#else
    asm volatile("" : "+m"(words));
#endif
}

} // namespace milcgpu
