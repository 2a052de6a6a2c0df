// Asynchronous copies from global to shared memory (cp.async). A thread issues copies in stages, and waits for a stage
// before it reads what that stage copied. Other threads may read it after a barrier.
#pragma once
#include <cstdint>

namespace milcgpu::cuda {

// Copies 16 bytes, of which `valid` are read; the others become zero.
__device__ __forceinline__ void copy_ahead(uint4 *shared, const unsigned char *from, int valid) {
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid) : "memory");
}
// Copies 16 bytes, or zeros if the condition is false. It takes fewer instructions than a number of bytes.
__device__ __forceinline__ void copy_ahead_if(unsigned shared, const unsigned char *from, bool there) {
    asm volatile("{\n.reg .pred none;\nsetp.eq.u32 none, %2, 0;\n"
                 "cp.async.cg.shared.global.L2::128B [%0], [%1], 16, none;\n}" ::"r"(shared),
                 "l"(from), "r"(unsigned(there))
                 : "memory");
}
// Copies a word of `bytes`: 16, 8 or 4.
template <int bytes> __device__ __forceinline__ void copy_word_ahead(void *shared, const void *from) {
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    if constexpr (bytes == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(bytes) : "memory");
}
__device__ __forceinline__ void end_of_stage() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until all stages but the last `pending` ones have arrived.
template <int pending> __device__ __forceinline__ void wait_for_stage() {
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

} // namespace milcgpu::cuda
