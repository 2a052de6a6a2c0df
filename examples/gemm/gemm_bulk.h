// Step 14, for sm_90: the bulk tensor copy engine moves whole tiles, which one thread requests. The matrix units of a
// group of four warps work on 64 x 256 at once, in TF32, with B read directly from shared memory.
//
// In both factors the unit needs the numbers of a sum next to each other. B has this layout. A does not, so A goes
// through registers, and every thread loads its own numbers. The engine swizzles both tiles (chunks of 16 bytes, by the
// exclusive or with the number of the line), so that a warp finds its numbers of A in 32 banks. For this a warp takes
// its rows in a special order (row_of).
#pragma once
#include "examples/gemm/gemm_async.h"
#include <cuda.h>
#include <dlfcn.h>
#include <stdexcept>

namespace examples::gemm {

struct BulkTf32 {
    static constexpr int rows = 128, columns = 256, depth = 32, stages = 4;
    static constexpr int groups = rows / 64,
                         threads = 128 * (groups + 1); // four more warps, of which one thread requests the copies
    static constexpr int a_floats = rows * depth, b_floats = columns * depth;
    static constexpr unsigned stage_bytes = (a_floats + b_floats) * sizeof(float);
    static constexpr int shared_bytes = stages * stage_bytes + 1024; // the swizzle needs an alignment of 1024 bytes
};

__device__ __forceinline__ unsigned in_shared(const void *p) {
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// Barriers in shared memory that count arrivals and bytes. A wait ends with the phase of the given parity.
__device__ __forceinline__ void set_barrier(uint64_t *barrier, unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(in_shared(barrier)), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void arrive(uint64_t *barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(in_shared(barrier)) : "memory");
}
__device__ __forceinline__ void arrive_and_expect(uint64_t *barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(in_shared(barrier)), "r"(bytes)
                 : "memory");
}
__device__ __forceinline__ void wait(uint64_t *barrier, unsigned parity) {
    asm volatile(
        "{\n.reg .pred done;\nlook:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra look;\n}" ::"r"(in_shared(barrier)),
        "r"(parity)
        : "memory");
}
__device__ __forceinline__ void copy_box(float *to, const CUtensorMap &map, int x, int y, uint64_t *barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
                 "[%4];" ::"r"(in_shared(to)),
                 "l"(&map), "r"(x), "r"(y), "r"(in_shared(barrier))
                 : "memory");
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define MILCGPU_16(i)                                                                                                  \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]),        \
        "+f"(d[i + 7]), "+f"(d[i + 8]), "+f"(d[i + 9]), "+f"(d[i + 10]), "+f"(d[i + 11]), "+f"(d[i + 12]),             \
        "+f"(d[i + 13]), "+f"(d[i + 14]), "+f"(d[i + 15])
// Starts d (64 x 256) += a (64 x 8) b (8 x 256). b: its descriptor in shared memory.
__device__ __forceinline__ void begin_product(float (&d)[128], const uint32_t *a, uint64_t b) {
    asm volatile("{\n.reg .pred add;\nsetp.eq.u32 add, 1, 1;\n" // add to d
                 "wgmma.mma_async.sync.aligned.m64n256k8.f32.tf32.tf32 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
                 "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
                 "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
                 "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
                 "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
                 "}, {%128, %129, %130, %131}, %132, add, 1, 1;\n}"
                 : MILCGPU_16(0), MILCGPU_16(16), MILCGPU_16(32), MILCGPU_16(48), MILCGPU_16(64), MILCGPU_16(80),
                   MILCGPU_16(96), MILCGPU_16(112)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
#undef MILCGPU_16
#endif

__global__ void __launch_bounds__(BulkTf32::threads, 1)
    bulk_tf32(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map, int n, float *c) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    using T = BulkTf32;
    extern __shared__ float4 memory[];
    __shared__ uint64_t full[T::stages], empty[T::stages];
    float *const a = reinterpret_cast<float *>((reinterpret_cast<uintptr_t>(memory) + 1023) / 1024 * 1024);
    float *const b = a + T::stages * T::a_floats;
    const int group = threadIdx.x / 128, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32, quad = lane % 4;
    if (threadIdx.x == 0) {
        for (int k = 0; k < T::stages; ++k)
            set_barrier(full + k, 1), set_barrier(empty + k, 4 * T::groups);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    const int tiles = n / T::depth;
    if (group == T::groups) { // one thread requests all copies; the multiplying warps get the registers
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x % 128 == 0)
            for (int k = 0; k < tiles; ++k) {
                const int stage = k % T::stages;
                wait(empty + stage, (k / T::stages + 1) % 2);
                arrive_and_expect(full + stage, T::stage_bytes);
                for (int box = 0; box < T::rows / 32; ++box)
                    copy_box(a + stage * T::a_floats + box * 32 * T::depth, a_map, blockIdx.x * T::rows + 32 * box,
                             k * T::depth, full + stage);
                copy_box(b + stage * T::b_floats, b_map, k * T::depth, blockIdx.y * T::columns, full + stage);
            }
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    // Rows g and g + 8 of a warp's 16 are row_of(0) and row_of(1) of its 64: eight rows in two chunks of 16 bytes, four
    // chunks apart.
    const auto row_of = [&](int below) {
        return warp / 2 * 32 + (lane / 16 * 4 + warp % 2 * 2 + below) * 4 + lane / 4 % 4;
    };
    const auto take = [&](int stage, uint32_t(&to)[T::depth / 8][4]) {
        const float *const tile = a + stage * T::a_floats + group * 64 * T::depth;
#pragma unroll
        for (int k = 0; k < T::depth; k += 8)
#pragma unroll
            for (int q = 0; q < 4; ++q) {
                const int row = row_of(q % 2), line = k + quad + q / 2 * 4;
                to[k / 8][q] = __float_as_uint(
                    tile[row / 32 * 32 * T::depth + line * 32 + ((row % 32 / 4) ^ (line % 8)) * 4 + row % 4]);
            }
    };
    // 128-byte lines, swizzled; 1024 bytes from 8 columns to the next 8.
    const auto place_of_b = [&](int stage, int k) {
        const uint64_t address = (in_shared(b + stage * T::b_floats) + k * sizeof(float)) >> 4;
        return address | uint64_t(1) << 16 | uint64_t(1024 >> 4) << 32 | uint64_t(1) << 62;
    };
    float sum[128] = {};
    uint32_t left[2][T::depth / 8][4];
    wait(full, 0);
    take(0, left[0]);
    const auto step = [&](int k, uint32_t(&now)[T::depth / 8][4], uint32_t(&next)[T::depth / 8][4]) {
        const int stage = k % T::stages, after = (k + 1) % T::stages;
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int q = 0; q < T::depth / 8; ++q)
            begin_product(sum, now[q], place_of_b(stage, 8 * q));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        if (k + 1 < tiles) { // meanwhile the next rows of A
            wait(full + after, (k + 1) / T::stages % 2);
            take(after, next);
        }
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        if (lane == 0)
            arrive(empty + stage);
    };
    for (int k = 0; k < tiles; k += 2) {
        step(k, left[0], left[1]);
        step(k + 1, left[1], left[0]);
    }
    float *const to = c + blockIdx.x * T::rows + group * 64 + size_t(blockIdx.y * T::columns + 2 * quad) * n;
#pragma unroll
    for (int s = 0; s < T::columns / 8; ++s)
#pragma unroll
        for (int q = 0; q < 4; ++q)
            to[row_of(q / 2) + size_t(8 * s + q % 2) * n] = sum[4 * s + q];
#endif
}

// n x n numbers, cut into boxes of 32 x `lines`.
inline CUtensorMap boxes_of(const float *data, int n, int lines) {
    static void *const driver = dlopen("libcuda.so.1", RTLD_NOW);
    const auto encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(
        driver != nullptr ? dlsym(driver, "cuTensorMapEncodeTiled") : nullptr);
    CUtensorMap map;
    const cuuint64_t size[] = {cuuint64_t(n), cuuint64_t(n)}, line_bytes[] = {n * sizeof(float)};
    const cuuint32_t box[] = {32, cuuint32_t(lines)}, apart[] = {1, 1};
    if (encode == nullptr ||
        encode(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, const_cast<float *>(data), size, line_bytes, box, apart,
               CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
               CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS)
        throw std::runtime_error("the driver cannot make tensor maps: install a newer driver");
    return map;
}

} // namespace examples::gemm
