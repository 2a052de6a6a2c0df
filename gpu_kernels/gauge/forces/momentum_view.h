// Momenta as kernels take them. A momentum has MILC's 10 reals: the elements 01, 02, 12, the imaginary parts of the
// diagonal, and an unused one (0).
#pragma once
#include "gpu_kernels/fields/matrix_view.h"
#include "gpu_kernels/gauge/forces/forces.h"

namespace milcgpu {

template <class T> struct AntiHermitian {
    Complex<T> m01, m02, m12;
    T diagonal[3]; // imaginary parts
};

template <class T> MILCGPU_HD Matrix<T> matrix(const AntiHermitian<T> &h) {
    const auto minus_conj = [](Complex<T> a) { return Complex<T>{-a.re, a.im}; };
    return {{{{T(0), h.diagonal[0]}, h.m01, h.m02},
             {minus_conj(h.m01), {T(0), h.diagonal[1]}, h.m12},
             {minus_conj(h.m02), minus_conj(h.m12), {T(0), h.diagonal[2]}}}};
}

// (A - A^dag) / 2 - trace / 3
template <class T> MILCGPU_HD AntiHermitian<T> traceless_antihermitian(const Matrix<T> &a) {
    const auto half = [&](int row, int column) { return T(0.5) * (a.e[row][column] - conj(a.e[column][row])); };
    const T third = (a.e[0][0].im + a.e[1][1].im + a.e[2][2].im) * T(1.0 / 3);
    return {half(0, 1), half(0, 2), half(1, 2), {a.e[0][0].im - third, a.e[1][1].im - third, a.e[2][2].im - third}};
}

// h += s a
template <class T> MILCGPU_HD void multiply_add(AntiHermitian<T> &h, T s, const AntiHermitian<T> &a) {
    h.m01 = h.m01 + s * a.m01, h.m02 = h.m02 + s * a.m02, h.m12 = h.m12 + s * a.m12;
    MILCGPU_UNROLL
    for (int k = 0; k < 3; ++k)
        h.diagonal[k] += s * a.diagonal[k];
}

template <class To, class From> MILCGPU_HD AntiHermitian<To> convert(const AntiHermitian<From> &h) {
    return {convert<To>(h.m01),
            convert<To>(h.m02),
            convert<To>(h.m12),
            {static_cast<To>(h.diagonal[0]), static_cast<To>(h.diagonal[1]), static_cast<To>(h.diagonal[2])}};
}

// |H|_F^2 / 2
template <class T> MILCGPU_HD T half_norm(const AntiHermitian<T> &h) {
    T diagonal = 0;
    MILCGPU_UNROLL
    for (int k = 0; k < 3; ++k)
        diagonal += h.diagonal[k] * h.diagonal[k];
    return norm(h.m01) + norm(h.m02) + norm(h.m12) + T(0.5) * diagonal;
}

template <Precision p> struct MomentumView {
    using Real = typename LinkReal<p>::Real;
    unsigned char *data;
    size_t stride, block_bytes;
    KeptSum sum;
    explicit MomentumView(const LinkField &f)
        : data(f.block(0, 0)), stride(f.stride()), block_bytes(f.block_bytes()), sum(f.kept()) {}
    MILCGPU_HD MomentumView(unsigned char *first_block, size_t stride_sites, size_t bytes_a_block)
        : data(first_block), stride(stride_sites), block_bytes(bytes_a_block) {}
    template <Reuse reuse = Reuse::written> MILCGPU_HD AntiHermitian<Real> load(int parity, int mu, int i) const {
        return momentum(load_link<p, momentum_reals, reuse>(block(parity, mu), stride, i));
    }
    // As in MatrixView.
    template <Reuse reuse = Reuse::written> MILCGPU_HD AntiHermitian<Real> take(int parity, int mu, int i) const {
        const Raw raw = load_link<p, momentum_reals, reuse>(block(parity, mu), stride, i);
        sum.add(i, 0 - weight(raw, parity, mu, i));
        return momentum(raw);
    }
    MILCGPU_HD void store(int parity, int mu, int i, const AntiHermitian<Real> &h) const {
        replace(0, parity, mu, i, h);
    }
    template <class Change> MILCGPU_HD void modify(int parity, int mu, int i, const Change &change) const {
        const Raw raw = load_link<p, momentum_reals, Reuse::written>(block(parity, mu), stride, i);
        const uint64_t before = weight(raw, parity, mu, i);
        AntiHermitian<Real> h = momentum(raw);
        change(h);
        replace(before, parity, mu, i, h);
    }

  private:
    using Raw = RawLink<p, momentum_reals>;
    MILCGPU_HD void replace(uint64_t before, int parity, int mu, int i, const AntiHermitian<Real> &h) const {
        const Real reals[momentum_reals] = {h.m01.re, h.m01.im,      h.m02.re,      h.m02.im,      h.m12.re,
                                            h.m12.im, h.diagonal[0], h.diagonal[1], h.diagonal[2], 0};
        Raw raw = {};
        MILCGPU_UNROLL
        for (int k = 0; k < momentum_reals; ++k)
            raw.set(k, reals[k]);
        settle(raw);
        store_link<p, momentum_reals>(block(parity, mu), stride, i, raw);
        sum.add(i, weight(raw, parity, mu, i) - before);
    }
    static MILCGPU_HD AntiHermitian<Real> momentum(const Raw &raw) {
        return {{raw.get(0), raw.get(1)},
                {raw.get(2), raw.get(3)},
                {raw.get(4), raw.get(5)},
                {raw.get(6), raw.get(7), raw.get(8)}};
    }
    MILCGPU_HD uint64_t weight(const Raw &raw, int parity, int mu, int i) const {
        const auto piece = static_cast<uint32_t>((parity * 4 + mu) * (block_bytes / 16));
        return sum.weight<Raw::bytes>(raw.w, piece, stride, i);
    }
    MILCGPU_HD unsigned char *block(int parity, int mu) const { return data + (parity * 4 + mu) * block_bytes; }
};

} // namespace milcgpu
