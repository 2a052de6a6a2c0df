// Steps 12 and 13: asynchronous copies of tiles to shared memory, for plain FP32 and for the matrix units.
#pragma once
#include "examples/gemm/gemm_steps.h"
#include <cstdint>

namespace examples::gemm {

template <int bytes> __device__ __forceinline__ void copy_ahead(float *shared, const float *from) {
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    if constexpr (bytes == 16)
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(bytes) : "memory");
}
__device__ __forceinline__ void end_of_stage() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int pending> __device__ __forceinline__ void wait_for_stage() {
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

// 12. A ring of tiles in shared memory, filled by asynchronous copies, which need no registers. The copies transpose B,
// 4 bytes per copy; padding gives each copy its own bank. A thread reads the numbers of the next k while it multiplies
// the numbers of this k; a tile has one barrier, between the two.
struct AsyncFp32 {
    static constexpr int threads = 256, rows = 256, columns = 64, depth = 8, stages = 4;
    static constexpr int a_stage = depth * rows, b_row = columns + 4, b_stage = depth * b_row;
    static constexpr int shared_bytes = stages * (a_stage + b_stage) * sizeof(float);
};
__global__ void __launch_bounds__(AsyncFp32::threads, 2) async_fp32(Factors f, float *c) {
    using T = AsyncFp32;
    constexpr int stages = T::stages, depth = T::depth, rows = T::rows, columns = T::columns, threads = T::threads,
                  a_stage = T::a_stage, b_stage = T::b_stage, b_row = T::b_row;
    extern __shared__ float4 memory[];
    float *const a = reinterpret_cast<float *>(memory), *const b = a + stages * a_stage;
    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    const int row = warp % 4 * 64 + lane % 8 * 4, column = warp / 4 * 32 + lane / 8 * 4; // and 32, 16 further
    const size_t n = f.n;
    const float *from_a = f.a + size_t(blockIdx.x) * rows + thread % (rows / 4) * 4 + thread / (rows / 4) * n;
    const float *from_b = f.b + thread % depth + (size_t(blockIdx.y) * columns + thread / depth) * n;
    int tiles_left = f.n / depth;
    const auto copy_tile = [&](int stage) {
        if (tiles_left-- > 0) {
            constexpr int a_step = 4 * threads / rows, b_step = threads / depth; // k, columns
#pragma unroll
            for (int k = 0; k < depth; k += a_step)
                copy_ahead<16>(a + stage * a_stage + k * rows + 4 * thread, from_a + k * n);
#pragma unroll
            for (int j = 0; j < columns; j += b_step)
                copy_ahead<4>(b + stage * b_stage + thread % depth * b_row + j + thread / depth, from_b + j * n);
            from_a += depth * n, from_b += depth;
        }
        end_of_stage();
    };
    float sum[8][8] = {}, left[2][8], right[2][8];
    const auto take = [&](int stage, int k, int to) {
#pragma unroll
        for (int r = 0; r < 2; ++r)
            *reinterpret_cast<float4 *>(left[to] + 4 * r) =
                *reinterpret_cast<const float4 *>(a + stage * a_stage + k * rows + row + 32 * r);
#pragma unroll
        for (int s = 0; s < 2; ++s)
            *reinterpret_cast<float4 *>(right[to] + 4 * s) =
                *reinterpret_cast<const float4 *>(b + stage * b_stage + k * b_row + column + 16 * s);
    };
    for (int k = 0; k < stages - 1; ++k)
        copy_tile(k);
    wait_for_stage<stages - 2>();
    __syncthreads();
    take(0, 0, 0);
    for (int tile = 0, stage = 0; tile < f.n / depth; ++tile) {
        const int next = stage + 1 < stages ? stage + 1 : 0;
#pragma unroll
        for (int k = 0; k < depth; ++k) {
            if (k == 0)
                copy_tile(stage > 0 ? stage - 1 : stages - 1);
            if (k == depth - 1) {
                wait_for_stage<stages - 2>();
                __syncthreads();
            }
            take(k == depth - 1 ? next : stage, (k + 1) % depth, (k + 1) % 2);
#pragma unroll
            for (int s = 0; s < 8; ++s)
#pragma unroll
                for (int r = 0; r < 8; ++r)
                    sum[s][r] += left[k % 2][r] * right[k % 2][s];
        }
        stage = next;
    }
    float *const to = c + size_t(blockIdx.x) * rows + row + (size_t(blockIdx.y) * columns + column) * n;
#pragma unroll
    for (int s = 0; s < 8; ++s)
#pragma unroll
        for (int r = 0; r < 8; r += 4)
            *reinterpret_cast<float4 *>(to + 8 * r + (s / 4 * 16 + s % 4) * n) =
                *reinterpret_cast<float4 *>(sum[s] + r);
}

// 13. The same ring, with products by the matrix units in TF32: numbers are truncated to 10 bits of their fraction,
// sums stay in FP32. A warp computes 64 x 64. B is not transposed, because the unit reads it k by k; padding keeps
// every read of a warp in 32 banks.
struct AsyncTf32 {
    static constexpr int threads = 128, rows = 128, columns = 128, depth = 32, stages = 3;
    static constexpr int a_row = rows + 8, b_row = depth + 4; // [k][row], [column][k]
    static constexpr int a_stage = depth * a_row, b_stage = columns * b_row;
    static constexpr int shared_bytes = stages * (a_stage + b_stage) * sizeof(float);
};
__global__ void __launch_bounds__(AsyncTf32::threads, 2) async_tf32(Factors f, float *c) {
    using T = AsyncTf32;
    extern __shared__ float4 memory[];
    float *const a = reinterpret_cast<float *>(memory), *const b = a + T::stages * T::a_stage;
    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32, group = lane / 4, quad = lane % 4;
    const int row = warp % 2 * 64, column = warp / 2 * 64;
    const size_t n = f.n;
    const float *from_a = f.a + size_t(blockIdx.x) * T::rows, *from_b = f.b + size_t(blockIdx.y) * T::columns * n;
    int tiles_left = f.n / T::depth;
    const auto copy_tile = [&](int stage) {
        if (tiles_left-- > 0) {
#pragma unroll
            for (int k = thread / 32; k < T::depth; k += T::threads / 32)
                copy_ahead<16>(a + stage * T::a_stage + k * T::a_row + 4 * lane, from_a + 4 * lane + k * n);
#pragma unroll
            for (int j = thread / 8; j < T::columns; j += T::threads / 8)
                copy_ahead<16>(b + stage * T::b_stage + j * T::b_row + thread % 8 * 4, from_b + thread % 8 * 4 + j * n);
            from_a += T::depth * n, from_b += T::depth;
        }
        end_of_stage();
    };
    float sum[4][8][4] = {}; // [16 rows][8 columns][in the unit's layout]
    for (int k = 0; k < T::stages - 1; ++k)
        copy_tile(k);
    for (int tile = 0, stage = 0; tile < f.n / T::depth; ++tile) {
        wait_for_stage<T::stages - 2>();
        __syncthreads();
        copy_tile(stage > 0 ? stage - 1 : T::stages - 1);
        const float *const a_tile = a + stage * T::a_stage + row + group, *const b_tile = b + stage * T::b_stage;
#pragma unroll
        for (int k = 0; k < T::depth; k += 8) {
            uint32_t left[4][4], right[8][2];
#pragma unroll
            for (int r = 0; r < 4; ++r)
#pragma unroll
                for (int q = 0; q < 4; ++q)
                    left[r][q] = __float_as_uint(a_tile[(k + quad + q / 2 * 4) * T::a_row + 16 * r + q % 2 * 8]);
#pragma unroll
            for (int s = 0; s < 8; ++s)
#pragma unroll
                for (int q = 0; q < 2; ++q)
                    right[s][q] = __float_as_uint(b_tile[(column + 8 * s + group) * T::b_row + k + quad + 4 * q]);
#pragma unroll
            for (int r = 0; r < 4; ++r)
#pragma unroll
                for (int s = 0; s < 8; ++s)
                    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                        "{%8, %9}, {%0, %1, %2, %3};"
                        : "+f"(sum[r][s][0]), "+f"(sum[r][s][1]), "+f"(sum[r][s][2]), "+f"(sum[r][s][3])
                        : "r"(left[r][0]), "r"(left[r][1]), "r"(left[r][2]), "r"(left[r][3]), "r"(right[s][0]),
                          "r"(right[s][1]));
        }
        stage = stage + 1 < T::stages ? stage + 1 : 0;
    }
    float *const to =
        c + size_t(blockIdx.x) * T::rows + row + group + (size_t(blockIdx.y) * T::columns + column + 2 * quad) * n;
#pragma unroll
    for (int r = 0; r < 4; ++r)
#pragma unroll
        for (int s = 0; s < 8; ++s)
#pragma unroll
            for (int q = 0; q < 4; ++q)
                to[16 * r + q / 2 * 8 + (8 * s + q % 2) * n] = sum[r][s][q];
}

} // namespace examples::gemm
