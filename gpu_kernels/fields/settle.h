// Words that go both to memory and into a checksum.
#pragma once
#include "gpu_kernels/machine/backend/portable.h"

namespace milcgpu {

// The host's compiler may compute a word twice, in a vector for the one and alone for the other, and round the two
// otherwise (multiply-adds are fused in one of them). From here on the word is one. GPUs compute it once.
template <class Words> MILCGPU_HD void settle(Words &words) {
#if MILCGPU_ON_DEVICE
    static_cast<void>(words);
#else
    asm volatile("" : "+m"(words));
#endif
}

} // namespace milcgpu
