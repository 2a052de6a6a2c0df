#include "milc_glue/host/host_fields.h"
#include "gpu_kernels/gauge/links/polar.h"
#include "gpu_kernels/machine/backend/host_threads.h"
#include "gpu_kernels/machine/backend/large_pages.h"
#include "gpu_kernels/machine/content_hash.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace milcgpu {

namespace {

constexpr size_t block = 1024; // records; sums are made block by block

const unsigned char *record(const HostRecords &r, size_t i) {
    return static_cast<const unsigned char *>(r.data) + i * r.pitch;
}

uint64_t hash_record(const HostRecords &r, size_t i, uint64_t seed) {
    return hash_row(record(r, i), r.bytes, scrambled(seed + i));
}

// Records of a piece for hash_piece(): microseconds of work, so that threads share few pieces evenly.
constexpr size_t block_records = 8, sampled_of = 8, piece_records = 1024;

// The block of a group that is in the sample: a random one, so that no pattern of edits misses all of them.
size_t sampled_block(size_t group) { return sampled_of * group + scrambled(group + 1) % sampled_of; }

template <class Real> Difference difference(const HostRecords &a, const HostRecords &b) {
    const size_t reals = a.bytes / sizeof(Real), blocks = (a.count + block - 1) / block;
    std::vector<Difference> parts(blocks);
#pragma omp parallel for if (blocks > 1)
    for (size_t k = 0; k < blocks; ++k) {
        double dd = 0, bb = 0;
        for (size_t i = k * block; i < a.count && i < (k + 1) * block; ++i)
            for (size_t j = 0; j < reals; ++j) {
                Real x, y;
                std::memcpy(&x, record(a, i) + j * sizeof x, sizeof x);
                std::memcpy(&y, record(b, i) + j * sizeof y, sizeof y);
                dd += (static_cast<double>(x) - y) * (static_cast<double>(x) - y);
                bb += static_cast<double>(y) * y;
            }
        parts[k] = {dd, bb};
    }
    Difference sum{0, 0};
    for (const Difference &part : parts)
        sum = {sum.difference + part.difference, sum.size + part.size};
    return {std::sqrt(sum.difference), std::sqrt(sum.size)};
}

template <class Real> double worst(const Real *a, const Real *b, size_t matrices) {
    double largest = 0;
#pragma omp parallel for reduction(max : largest) if (matrices >= few_sites)
    for (size_t i = 0; i < matrices; ++i) {
        double dd = 0, bb = 0;
        for (size_t k = 18 * i; k < 18 * (i + 1); ++k) {
            dd += (static_cast<double>(a[k]) - b[k]) * (static_cast<double>(a[k]) - b[k]);
            bb += static_cast<double>(b[k]) * b[k];
        }
        const double relative = dd == 0 ? 0 : std::sqrt(dd / bb);
        largest = std::fmax(largest, relative < INFINITY ? relative : INFINITY); // NaN too
    }
    return largest;
}

template <class Real> Matrix<double> matrix_of(const Real *reals) {
    Matrix<double> m;
    for (int k = 0; k < 9; ++k)
        m.e[k / 3][k % 3] = {static_cast<double>(reals[2 * k]), static_cast<double>(reals[2 * k + 1])};
    return m;
}

// Eigenvalues of V^dag V, the smallest first.
std::array<double, 3> squares_of_singular_values(const Matrix<double> &v) {
    polar::Columns a, r;
    const double scale = polar::one_sided_jacobi(v, a, r);
    std::array<double, 3> g;
    for (int k = 0; k < 3; ++k)
        g[k] = polar::inner(a.c[k], a.c[k]).re / (scale * scale);
    std::sort(g.begin(), g.end());
    return g;
}

template <class Real> WorstV worst_v(const Real *links, size_t matrices, const UnitarizeSpec &spec) {
    double ratio = 1, inverse = 0;
#pragma omp parallel for reduction(max : ratio, inverse)
    for (size_t i = 0; i < matrices; ++i) {
        const Matrix<double> v = matrix_of(links + 18 * i);
        const polar::GramMatrix gram(v);
        const std::array<double, 3> g = squares_of_singular_values(v);
        if (g[2] == 0)
            ratio = INFINITY;
        else if (gram.is_accurate(v, spec))
            ratio = std::fmax(ratio, g[2] / g[0]);
        if (g[0] > 0)
            inverse = std::fmax(inverse, 1 / std::sqrt(g[0]));
    }
    return {ratio, inverse};
}

template <class Real> DerivativeSize derivative_size(const Real *links, size_t matrices, double filter) {
    double terms = 0, value = 0;
#pragma omp parallel for reduction(+ : terms, value)
    for (size_t i = 0; i < matrices; ++i) {
        std::array<double, 3> g = squares_of_singular_values(matrix_of(links + 18 * i));
        const double added = g[0] < filter ? filter : 0;
        for (double &one : g)
            one += added;
        terms += std::pow(g[2] / g[1], 4) * std::pow(g[2] / g[0], 3) / g[2];
        value += 1 / g[0];
    }
    return {terms, value};
}

template <class Real>
void adjoint_links(const std::complex<Real> *links, const MilcSites &sites, int hops, std::complex<Real> *to) {
    const int *n = sites.extent;
    const size_t odd_from = static_cast<size_t>(n[0]) * n[1] * n[2] * n[3] / 2;
    const auto milc_site = [&](const int x[4]) {
        const size_t lexicographic = x[0] + n[0] * (x[1] + n[1] * (x[2] + static_cast<size_t>(n[2]) * x[3]));
        return static_cast<size_t>(sites.map[lexicographic / 2 + ((x[0] + x[1] + x[2] + x[3]) % 2) * odd_from]);
    };
#pragma omp parallel for collapse(3) if (odd_from >= few_sites)
    for (int t = 0; t < n[3]; ++t)
        for (int z = 0; z < n[2]; ++z)
            for (int y = 0; y < n[1]; ++y)
                for (int x = 0; x < n[0]; ++x) {
                    int at[4] = {x, y, z, t};
                    const size_t i = milc_site(at);
                    for (int mu = 0; mu < 4; ++mu) {
                        const int here = at[mu];
                        at[mu] = (here + hops * n[mu] - hops) % n[mu];
                        const std::complex<Real> *u = links + 9 * (4 * milc_site(at) + mu);
                        at[mu] = here;
                        std::complex<Real> *v = to + 9 * (4 * i + mu);
                        for (int r = 0; r < 3; ++r)
                            for (int c = 0; c < 3; ++c)
                                v[3 * r + c] = std::conj(u[3 * c + r]);
                    }
                }
}

} // namespace

uint64_t hash_records(const HostRecords &r, Share share) {
    const bool several = r.count * r.bytes >= few_bytes * (share == Share::sample ? sampled_of : 1);
    const uint64_t seed = process_seed();
    uint64_t sum = 0;
    if (share == Share::all) {
#pragma omp parallel for reduction(+ : sum) if (several)
        for (size_t i = 0; i < r.count; ++i)
            sum += hash_record(r, i, seed);
        return sum;
    }
#pragma omp parallel for reduction(+ : sum) if (several)
    for (size_t piece = 0; piece < hash_pieces(r); ++piece)
        sum += hash_piece(r, share, piece);
    return sum;
}

uint64_t hash_bytes(const void *data, size_t bytes) {
    constexpr size_t piece = 4096;
    const size_t pieces = bytes / piece, rest = bytes % piece;
    const uint64_t sum = hash_records({data, pieces, piece, piece});
    return rest == 0 ? sum
                     : sum + hash_row(static_cast<const unsigned char *>(data) + pieces * piece, rest,
                                      scrambled(process_seed() + pieces));
}

size_t hash_pieces(const HostRecords &r) { return (r.count + piece_records - 1) / piece_records; }

uint64_t hash_piece(const HostRecords &r, Share share, size_t piece) {
    constexpr size_t groups = piece_records / (sampled_of * block_records);
    const uint64_t seed = process_seed();
    uint64_t sum = 0;
    const auto add = [&](size_t from_block, size_t to_block) {
        const size_t end = std::min(to_block * block_records, r.count);
        for (size_t i = from_block * block_records; i < end; ++i)
            sum += hash_record(r, i, seed);
    };
    for (size_t group = groups * piece; group < groups * (piece + 1); ++group) {
        const size_t sampled = sampled_block(group);
        if (share != Share::sample)
            add(sampled_of * group, sampled);
        if (share != Share::rest)
            add(sampled, sampled + 1);
        if (share != Share::sample)
            add(sampled + 1, sampled_of * (group + 1));
    }
    return sum;
}

ContentHash hash_all_and_sample(const HostRecords &r) {
    uint64_t sample = 0, rest = 0;
#pragma omp parallel for reduction(+ : sample, rest) if (r.count * r.bytes >= few_bytes)
    for (size_t piece = 0; piece < hash_pieces(r); ++piece) {
        sample += hash_piece(r, Share::sample, piece);
        rest += hash_piece(r, Share::rest, piece);
    }
    return {sample + rest, sample};
}

Difference difference_of(const HostRecords &a, const HostRecords &b, bool in_double) {
    return in_double ? difference<double>(a, b) : difference<float>(a, b);
}

double worst_link_difference(const void *a, const void *b, size_t matrices, bool in_double) {
    return in_double ? worst(static_cast<const double *>(a), static_cast<const double *>(b), matrices)
                     : worst(static_cast<const float *>(a), static_cast<const float *>(b), matrices);
}

WorstV worst_of_v(const void *v, size_t matrices, bool in_double, const UnitarizeSpec &spec) {
    return in_double ? worst_v(static_cast<const double *>(v), matrices, spec)
                     : worst_v(static_cast<const float *>(v), matrices, spec);
}

DerivativeSize derivative_size(const void *v, size_t matrices, bool in_double, double filter) {
    return in_double ? derivative_size(static_cast<const double *>(v), matrices, filter)
                     : derivative_size(static_cast<const float *>(v), matrices, filter);
}

void *host_allocate(size_t bytes) { return allocate_in_large_pages(bytes, alignof(std::max_align_t)); }

void gather_records(const HostRecords &from, void *to) {
#pragma omp parallel for if (from.count * from.bytes >= few_bytes)
    for (size_t i = 0; i < from.count; ++i)
        std::memcpy(static_cast<unsigned char *>(to) + i * from.bytes, record(from, i), from.bytes);
}

void gather_adjoint_links(const void *links, const MilcSites &sites, int hops, bool in_double, void *to) {
    if (in_double)
        adjoint_links(static_cast<const std::complex<double> *>(links), sites, hops,
                      static_cast<std::complex<double> *>(to));
    else
        adjoint_links(static_cast<const std::complex<float> *>(links), sites, hops,
                      static_cast<std::complex<float> *>(to));
}

} // namespace milcgpu
