// Matrix products in plain FP32, step by step. C = A B, all n x n and column-major: element (i, j) at i + j n. n is a
// multiple of 256.
#pragma once
#include <cuda_runtime.h>

namespace examples::gemm {

// The arguments of every kernel, besides C.
struct Factors {
    const float *a, *b;
    int n;
};

// 1. One thread per element of C, directly from global memory. Threads of a warp are neighbours in a column, so that
// reads of A coalesce and all threads read the same number of B. Each number is read n times.
__global__ void __launch_bounds__(1024) plain(Factors f, float *c) {
    const int i = blockIdx.x * 32 + threadIdx.x, j = blockIdx.y * 32 + threadIdx.y;
    float sum = 0;
    for (int k = 0; k < f.n; ++k)
        sum += f.a[i + size_t(k) * f.n] * f.b[k + size_t(j) * f.n];
    c[i + size_t(j) * f.n] = sum;
}

// 2. Tiles of 32 x 32 of A and of B in shared memory: global memory is read 32 times less. A's tile is stored row by
// row, so that all threads of a warp, with one row each, read from one bank.
// 3. A thread computes its place in the tile once, from one index, and keeps it in registers.
// 4. A's tile is stored column by column: a warp reads 32 neighbours, one from each bank.
template <bool one_index, bool by_columns> __global__ void __launch_bounds__(1024) shared_tiles(Factors f, float *c) {
    __shared__ float a[32 * 32], b[32 * 32];
    const int row = one_index ? threadIdx.x % 32 : threadIdx.x, column = one_index ? threadIdx.x / 32 : threadIdx.y;
    const size_t n = f.n, first = size_t(blockIdx.y) * 32;
    float sum = 0;
    for (int k = 0; k < f.n; k += 32) {
        a[by_columns ? row + column * 32 : row * 32 + column] = f.a[blockIdx.x * 32 + row + (k + column) * n];
        b[by_columns ? row + column * 32 : row * 32 + column] = f.b[k + row + (first + column) * n];
        __syncthreads();
        for (int q = 0; q < 32; ++q)
            sum += a[by_columns ? row + q * 32 : row * 32 + q] * b[by_columns ? q + column * 32 : q * 32 + column];
        __syncthreads();
    }
    c[blockIdx.x * 32 + row + (first + column) * n] = sum;
}

// 5. A thread computes four elements of a column, so it uses each number of B from shared memory four times.
// 6. A thread moves four numbers at once, 16 bytes, from global and from shared memory: a quarter of the load
// instructions.
template <bool wide> __global__ void __launch_bounds__(256) four_rows(Factors f, float *c) {
    __shared__ float4 a[32][8], b[32][8]; // [column][row / 4]
    const int row = threadIdx.x % 8, column = threadIdx.x / 8;
    const size_t n = f.n, first = size_t(blockIdx.y) * 32;
    float sum[4] = {};
    for (int k = 0; k < f.n; k += 32) {
        const float *const from_a = f.a + blockIdx.x * 32 + (k + column) * n, *const from_b =
                                                                                  f.b + k + (first + column) * n;
        if (wide) {
            a[column][row] = reinterpret_cast<const float4 *>(from_a)[row];
            b[column][row] = reinterpret_cast<const float4 *>(from_b)[row];
        } else {
            for (int q = 0; q < 4; ++q) { // neighbouring threads store neighbouring numbers in each round
                reinterpret_cast<float *>(a[column])[row + 8 * q] = from_a[row + 8 * q];
                reinterpret_cast<float *>(b[column])[row + 8 * q] = from_b[row + 8 * q];
            }
        }
        __syncthreads();
        for (int q = 0; q < 32; ++q) {
            const float right = reinterpret_cast<const float *>(b[column])[q];
            if (wide) {
                const float4 left = a[q][row];
                sum[0] += left.x * right, sum[1] += left.y * right, sum[2] += left.z * right, sum[3] += left.w * right;
            } else {
                const volatile float *const left = reinterpret_cast<const float *>(&a[q][row]); // one by one
                for (int r = 0; r < 4; ++r)
                    sum[r] += left[r] * right;
            }
        }
        __syncthreads();
    }
    reinterpret_cast<float4 *>(c + blockIdx.x * 32 + (first + column) * n)[row] =
        make_float4(sum[0], sum[1], sum[2], sum[3]);
}

// 7. A thread has 4 x 4 elements in registers, a block 64 x 64: 8 numbers from shared memory for 16 products.
// 8. 8 x 8 and 128 x 128: 16 numbers for 64 products.
// 9. A warp computes 32 x 64 of the tile instead of 128 x 16, so that its threads read fewer different numbers.
// 10. The next tile is loaded into registers during the work on this tile.
// 11. The next tile goes to a second buffer of shared memory: one barrier per tile, not two.
template <int tile, int micro, int depth, bool by_warps, bool ahead, int buffers>
__global__ void __launch_bounds__(256, 2) register_tiles(Factors f, float *c) {
    __shared__ float4 a[buffers][depth][tile / 4], b[buffers][depth][tile / 4]; // [k][row / 4], [k][column / 4]
    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32, side = tile / micro;
    const int row = by_warps ? warp % 4 * 32 + lane % 4 * 8 : thread % side * micro;
    const int column = by_warps ? warp / 4 * 64 + lane / 4 * 8 : thread / side * micro;
    const size_t n = f.n;
    // A thread moves four rows of one k of A, and four k of one column of B, which it transposes.
    const int a_row = thread % (tile / 4), a_k = thread / (tile / 4), b_k = thread % (depth / 4),
              b_column = thread / (depth / 4);
    const float *from_a = f.a + size_t(blockIdx.x) * tile + 4 * a_row + a_k * n;
    const float *from_b = f.b + 4 * b_k + (size_t(blockIdx.y) * tile + b_column) * n;
    float4 next_a, next_b;
    const auto fetch = [&] {
        next_a = *reinterpret_cast<const float4 *>(from_a), next_b = *reinterpret_cast<const float4 *>(from_b);
        from_a += depth * n, from_b += depth;
    };
    const auto put = [&](int buffer) {
        a[buffer][a_k][a_row] = next_a;
        float *const to = reinterpret_cast<float *>(b[buffer][4 * b_k]) + b_column;
        to[0] = next_b.x, to[tile] = next_b.y, to[2 * tile] = next_b.z, to[3 * tile] = next_b.w;
    };
    float sum[micro][micro] = {}; // [column][row]
    if (ahead) {
        fetch();
        put(0);
        __syncthreads();
    }
    for (int k = 0; k < f.n; k += depth) {
        const int buffer = buffers == 2 ? k / depth % 2 : 0;
        const bool more = k + depth < f.n;
        if (!ahead || more)
            fetch();
        if (!ahead) {
            put(0);
            __syncthreads();
        }
#pragma unroll
        for (int q = 0; q < depth; ++q) {
            float left[micro], right[micro];
#pragma unroll
            for (int r = 0; r < micro; r += 4) {
                *reinterpret_cast<float4 *>(left + r) = a[buffer][q][(row + r) / 4];
                *reinterpret_cast<float4 *>(right + r) = b[buffer][q][(column + r) / 4];
            }
#pragma unroll
            for (int s = 0; s < micro; ++s)
#pragma unroll
                for (int r = 0; r < micro; ++r)
                    sum[s][r] += left[r] * right[s];
        }
        if (buffers == 1)
            __syncthreads();
        if (ahead && more)
            put(buffers == 2 ? 1 - buffer : 0);
        if (ahead)
            __syncthreads();
    }
    float *const to = c + size_t(blockIdx.x) * tile + row + (size_t(blockIdx.y) * tile + column) * n;
#pragma unroll
    for (int s = 0; s < micro; ++s)
#pragma unroll
        for (int r = 0; r < micro; r += 4)
            *reinterpret_cast<float4 *>(to + r + s * n) = *reinterpret_cast<float4 *>(sum[s] + r);
}

} // namespace examples::gemm
