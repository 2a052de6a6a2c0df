// The products of a staple in an order that needs few registers: a b, or a^dag b, is computed first, by one column and
// one row at a time, and c is read row by row. For kernels that need many warps more than many loads in flight; su3.h
// has the other order.
#pragma once
#include "gpu_kernels/fields/matrix_view.h"

namespace milcgpu {

// A matrix of a field, element by element. In double each element is loaded where it is used: compilers keep loads in
// their written order, and whole matrices would need more registers than there are.
template <Precision p> class Elements {
    using Real = typename LinkReal<p>::Real;

  public:
    MILCGPU_HD Elements(const MatrixView<p> &u, int parity, int mu, int i)
        : block_(u.data + (parity * u.directions + mu) * u.block_bytes), stride_(u.stride), i_(i) {
        if constexpr (p == Precision::single)
            whole_ = u.load(parity, mu, i);
    }
    MILCGPU_HD Vector<Real> row(int k) const { return {{at(k, 0), at(k, 1), at(k, 2)}}; }
    MILCGPU_HD Vector<Real> column(int k) const { return {{at(0, k), at(1, k), at(2, k)}}; }

  private:
    MILCGPU_HD Complex<Real> at(int row, int column) const {
        if constexpr (p == Precision::single) {
            return whole_.e[row][column];
        } else {
            constexpr int bytes = sizeof(Complex<double>);
            const int before = bytes * (3 * row + column);
#if MILCGPU_ON_DEVICE
            const double2 v = load_as<Reuse::keep, double2>(place<bytes>(block_, before, stride_, i_));
            return {v.x, v.y};
#else
            Complex<double> v;
#if MILCGPU_STRIPES
            memcpy(&v, place<bytes>(block_, before, stride_, i_), bytes);
#else
            memcpy(&v, block_ + i_ * link_bytes(p, 18) + before, bytes);
#endif
            return v;
#endif
        }
    }

    const unsigned char *block_;
    size_t stride_, i_;
    Matrix<Real> whole_; // in single
};

// sum += x y^T
template <class T> MILCGPU_HD void add_outer_product(Matrix<T> &sum, const Vector<T> &x, const Vector<T> &y) {
    MILCGPU_UNROLL
    for (int row = 0; row < 3; ++row)
        MILCGPU_UNROLL
    for (int column = 0; column < 3; ++column)
        sum.e[row][column] = plus(sum.e[row][column], x.c[row], y.c[column]);
}
template <class T> MILCGPU_HD Vector<T> conj(const Vector<T> &x) {
    return {{conj(x.c[0]), conj(x.c[1]), conj(x.c[2])}};
}

// sum += a b c^dag
template <class T, class E> MILCGPU_HD void add_staple_up(Matrix<T> &sum, const E &a, const E &b, const E &c) {
    Matrix<T> ab = {};
    MILCGPU_UNROLL
    for (int k = 0; k < 3; ++k)
        add_outer_product(ab, a.column(k), b.row(k));
    MILCGPU_UNROLL
    for (int column = 0; column < 3; ++column) {
        const Vector<T> of_c = conj(c.row(column));
        MILCGPU_UNROLL
        for (int row = 0; row < 3; ++row)
            MILCGPU_UNROLL
        for (int k = 0; k < 3; ++k)
            sum.e[row][column] = plus(sum.e[row][column], ab.e[row][k], of_c.c[k]);
    }
}
// sum += a^dag b c
template <class T, class E> MILCGPU_HD void add_staple_down(Matrix<T> &sum, const E &a, const E &b, const E &c) {
    Matrix<T> ab = {};
    MILCGPU_UNROLL
    for (int k = 0; k < 3; ++k)
        add_outer_product(ab, conj(a.row(k)), b.row(k));
    MILCGPU_UNROLL
    for (int k = 0; k < 3; ++k)
        add_outer_product(sum, {{ab.e[0][k], ab.e[1][k], ab.e[2][k]}}, c.row(k));
}

} // namespace milcgpu
