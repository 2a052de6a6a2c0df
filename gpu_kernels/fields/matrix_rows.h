// Products of 3x3 matrices on a CPU, row by row: elements 0 and 1 of a row share a register of the compiler's vector
// extension, element 2 takes half a register. Each element takes the operations of the loops in su3.h, in their order.
#pragma once
#include "gpu_kernels/machine/backend/lanes.h"

#if MILCGPU_LANES

namespace milcgpu {
namespace rows {

// Registers of one and of two complex numbers.
template <class T, int numbers> struct Numbers {
    typedef T Register __attribute__((vector_size(2 * numbers * sizeof(T))));
};
template <class T> using One = typename Numbers<T, 1>::Register;
template <class T> using Two = typename Numbers<T, 2>::Register;

template <class T> struct Row {
    Two<T> first;
    One<T> last;
    MILCGPU_HD void store(void *to) const {
        memcpy(to, &first, sizeof first);
        memcpy(static_cast<unsigned char *>(to) + sizeof first, &last, sizeof last);
    }
    // += s x
    MILCGPU_HD void add(T s, const Row &x) { first += s * x.first, last += s * x.last; }
};
template <class T> MILCGPU_HD Row<T> row(const void *from) {
    Row<T> x;
    memcpy(&x.first, from, sizeof x.first);
    memcpy(&x.last, static_cast<const unsigned char *>(from) + sizeof x.first, sizeof x.last);
    return x;
}
// The row of the complex numbers at a, b and c.
template <class T> MILCGPU_HD Row<T> row(const void *a, const void *b, const void *c) {
    T first[4], last[2];
    memcpy(first, a, 2 * sizeof(T)), memcpy(first + 2, b, 2 * sizeof(T)), memcpy(last, c, 2 * sizeof(T));
    return {Two<T>{first[0], first[1], first[2], first[3]}, One<T>{last[0], last[1]}};
}

template <class T> MILCGPU_HD Row<T> times_i(const Row<T> &x) {
    return {MILCGPU_SHUFFLE(-x.first, x.first, 1, 4, 3, 6), MILCGPU_SHUFFLE(-x.last, x.last, 1, 2)};
}
template <class T> MILCGPU_HD Row<T> conj(const Row<T> &x) {
    return {MILCGPU_SHUFFLE(x.first, -x.first, 0, 5, 2, 7), MILCGPU_SHUFFLE(x.last, -x.last, 0, 3)};
}

// The right factor of a product: its rows, and its rows times i.
template <class T> struct Factor { Row<T> x[3], turned[3]; };
template <class T, class M> MILCGPU_HD Factor<T> factor(const M &b) {
    Factor<T> f;
    for (int k = 0; k < 3; ++k)
        f.x[k] = row<T>(b.e[k]), f.turned[k] = times_i(f.x[k]);
    return f;
}
template <class T, class M> MILCGPU_HD Factor<T> factor_adjoint(const M &b) {
    Factor<T> f;
    for (int k = 0; k < 3; ++k)
        f.x[k] = conj(row<T>(&b.e[0][k], &b.e[1][k], &b.e[2][k])), f.turned[k] = times_i(f.x[k]);
    return f;
}

// sum += a b. a(row, k): an element
template <class T, class Sum, class A> MILCGPU_HD void add_product(Sum &sum, const A &a, const Factor<T> &b) {
    for (int r = 0; r < 3; ++r) {
        Row<T> of_sum = row<T>(sum.e[r]);
        for (int k = 0; k < 3; ++k) {
            const auto of_a = a(r, k);
            of_sum.add(of_a.re, b.x[k]), of_sum.add(of_a.im, b.turned[k]);
        }
        of_sum.store(sum.e[r]);
    }
}

// sum += a b^dag for vectors
template <class T, class Sum, class V> MILCGPU_HD void add_outer(Sum &sum, const V &a, const V &b) {
    const Row<T> x = conj(row<T>(b.c)), turned = times_i(x);
    for (int r = 0; r < 3; ++r) {
        Row<T> of_sum = row<T>(sum.e[r]);
        of_sum.add(a.c[r].re, x), of_sum.add(a.c[r].im, turned);
        of_sum.store(sum.e[r]);
    }
}

} // namespace rows
} // namespace milcgpu

#endif
