// Dense algebra over many fields at once: Gram matrices, and fields times a small matrix. Block conjugate gradient (D.
// P. O'Leary, Linear Algebra Appl. 29 (1980) 293; A. A. Dubrulle, ETNA 12 (2001) 216) uses both in every step;
// deflation rotates the fields that it keeps (A. Stathopoulos and K. Orginos, arXiv:0707.0131).
//
// N and M: 1 to most_dense fields, the sources of x and y. All are of one precision, double, single or half, and on the
// sites of one parity. Small matrices are double, [row][column], in device memory. Gram matrices are products and sums
// in double for every precision of the fields. Rotations are computed in double for double fields, and in single for
// others, to 4e-7 of the sum of |x_i c_ij|: on the GPU by plain multiplications or from numbers in two parts of TF32
// (H. Ootomo and R. Yokota, arXiv:2203.03341); on the host in double.
#pragma once
#include "gpu_kernels/fields/spinor_block.h"
#include "gpu_kernels/fields/su3.h"
#include <vector>

namespace milcgpu {

constexpr int most_dense = 128;
// gram reads this many fields once; in single and half precision it reads x twice if x has more than 16 fields, the
// second time from the cache. This many fields can be rotated in place. More fields are split into blocks of this size,
// and a field is read once for each block of the other side.
constexpr int dense_block = 32;

// g[i][j] = <x_i, y_j> = sum over sites and colours of conj(x_i) y_j: N x M numbers. If y is x (data and number of
// fields) and N <= dense_block, x is read once and g is exactly hermitian. Memory behind the last site is not read. The
// same numbers give the same bits: the partition of the sums depends only on the number of sites. The sum is that of
// this rank. scratch: gram_scratch(N, M) doubles on the device; nullptr: they are allocated here, which a recorded
// sequence of launches cannot do. gate: if it is 0 on the device, nothing is done. Bytes a site: N + M spinors, or N;
// flops a site: 24 N M. Throws Error(bad_argument).
void gram(Device &, const SpinorBlock &x, const SpinorBlock &y, Complex<double> *g, double *scratch = nullptr,
          const int *gate = nullptr);
size_t gram_scratch(int x_sources, int y_sources);

// As above, returned to the host, with the sums over all ranks added in rank order. Waits for the device.
std::vector<Complex<double>> gram_over_ranks(Device &, const SpinorBlock &x, const SpinorBlock &y);

// y_j = plus_j + sum_i x_i c[i][j], with a `plus` of M fields or none. c: N x M. y may be x itself if N = M <=
// dense_block, and it may be `plus`; otherwise they must not overlap. gate: as above. Bytes a site: N + M spinors, and
// M of `plus`; flops a site: 24 N M. Throws Error(bad_argument).
void block_axpy(Device &, const SpinorBlock &x, const Complex<double> *c, const SpinorBlock &y,
                const SpinorBlock &plus = {}, const int *gate = nullptr);

// y_j += sum_i x_i c[i][j], or with m y_j = sum_i y_i m[i][j] + x_i c[i][j]; then z_j = y_j + sum_i p_i d[i][j]. N <=
// most_rotated_twice fields each; z must not overlap the others. Sums are in double, and y and z are rounded once.
// Bytes a site: 5 N spinors; flops a site: 48 N N, or 72 N N. Throws Error(bad_argument).
constexpr int most_rotated_twice = 16;
struct TwoRotations {
    SpinorBlock x, y, p, z;
    const Complex<double> *c = nullptr, *m = nullptr, *d = nullptr; // m may stay nullptr
};
void rotate_twice(Device &, const TwoRotations &, const int *gate = nullptr);

// For deflation: products of N vectors in half precision with M <= most_few fields in single. Throws
// Error(bad_argument).
constexpr int most_few = 16;
// c[i][j] = <v_i, r_j>, this rank's part. On the GPU the numbers of r are rounded to 11 bits (2.4e-4 of each), which
// does not matter to a solve that deflates every true residual. The same numbers give the same bits, whatever M is.
// scratch: project_scratch(M) doubles on the device. Bytes a site: 16 N + 24 M; flops a site: 24 N M.
void project(Device &, const SpinorBlock &v, const SpinorBlock &r, Complex<double> *c, double *scratch);
size_t project_scratch(int fields);
// y_j = sum_i v_i c[i][j], plus the old y_j with `add`. v: blocks of most_dense vectors, except the last one; a launch
// does combined_at_once of them, so that two blocks of threads fit on an SM of sm_90. Bytes a site: 16 N, and 24 M a
// launch, twice if it adds; flops a site: 24 N M.
constexpr int combined_at_once(int fields) { return 6 / ((fields - 1) / 4 + 1); }
void combine(Device &, const std::vector<SpinorBlock> &v, const Complex<double> *c, const SpinorBlock &y, bool add);

constexpr double dense_flops(int n, int m, int sites) { return 24.0 * n * m * sites; }

} // namespace milcgpu
