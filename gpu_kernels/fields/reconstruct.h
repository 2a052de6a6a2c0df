// Long links in fewer reals. A long (Naik) link is L = c V with one real c > 0 for the whole field and V unitary: V =
// sign * S with S in SU(3) for asqtad links with staggered phases, V = e^{i psi} S for HISQ links and twisted
// boundaries.
//
//   18  all of L / c' (c' = 1, or the largest element in fixed point)
//   13  rows 0 and 1 of V, and t = tan(theta/4), theta = arg det V; row 2 = e^{i theta} conj(row 0 x row 1)
//   12  the same with det V = +-1: the sign is the least significant bit of real 0
//    9  row 0 and column 0 of V, without what follows from unitarity, and t
//    8  the same with det V = +-1
//
// 8 and 9 follow Bunk and Sommer, Comput. Phys. Commun. 40 (1986) 229, with pivots chosen so that no division or square
// root is ill-conditioned. The last column is exchanged with the column of the largest element of row 0. So in row 0 =
// (a1, a2, a3) |a3|^2 >= 1/3, and the modulus of a3 follows from the other two without loss. The formulas divide by N =
// 1 - |a1|^2 >= 1/2. The rest (b1, c1) of column 0 has |b1|^2 + |c1|^2 = N: the smaller element is stored, and the
// larger, |.|^2 >= N/2, is known by its phase. The least significant bits of reals 0 to 3 store these choices and the
// sign. Every unitary matrix can be stored.
//
// The link is applied without being completed. With p = a2 x1 + a3 x2, q = conj(a2) x2 - conj(a3) x1, e = det V / N and
// f = conj(a1) / N, and w = x0 - f p, g = e q:
//
//   (V x)_0 = a1 x0 + p,   (V x)_1 = b1 w + conj(c1) g,   (V x)_2 = c1 w - conj(b1) g
//
// This takes 11 complex multiplications; completing the matrix takes 19, and applying it 9 more.
//
// Angles are stored as t = tan(angle/4) in (-1, 1]: cosine and sine come from one reciprocal, without a trigonometric
// function. The code does not assume where a sign or phase comes from; the check at load time finds links that do not
// fit the form.
#pragma once
#include "gpu_kernels/fields/link_storage.h"

namespace milcgpu {

// e^{i angle} from t = tan(angle/4): cos(angle/2) = 2/(1 + t^2) - 1, sin(angle/2) = 2t/(1 + t^2), then the angle
// doubled once more.
template <class T> MILCGPU_HD Complex<T> unit_phase(T t) {
    const T w = reciprocal(T(1) + t * t);
    const T c = T(2) * w - T(1), twice_c = c + c, half_s = t * w;
    return {twice_c * c - T(1), twice_c * (half_s + half_s)};
}

MILCGPU_HD double quarter_tangent(Complex<double> z) { return tan(0.25 * atan2(z.im, z.re)); }

// conj(row 0 x row 1): row 2 of a special unitary matrix
template <class T> MILCGPU_HD void complete_row(Matrix<T> &u) {
    MILCGPU_UNROLL
    for (int k = 0; k < 3; ++k) {
        const int l = (k + 1) % 3, m = (k + 2) % 3;
        u.e[2][k] = conj(minus(u.e[0][l] * u.e[1][m], u.e[0][m], u.e[1][l]));
    }
}

template <class T> MILCGPU_HD Complex<T> select(uint32_t which, Complex<T> zero, Complex<T> one) {
    return which ? one : zero;
}

// Exchanges element 2 with element 0 or 1, or with none.
template <class T> MILCGPU_HD Vector<T> exchange(const Vector<T> &x, uint32_t with_0, uint32_t with_1) {
    return {{select(with_0, x.c[0], x.c[2]), select(with_1, x.c[1], x.c[2]),
             select(with_0, select(with_1, x.c[2], x.c[1]), x.c[0])}};
}

// A link in the form in which it is applied: a fat link (18 reals) or a long one. Determinant and exchange act on the
// vector, which is cheaper than on the matrix.
template <Precision p, int reals> struct Link {
    using Real = typename LinkReal<p>::Real;
    static_assert(reals == 18 || reals == 13 || reals == 12 || reals == 9 || reals == 8, "unknown reconstruction");
    static constexpr bool pivoted = reals == 8 || reals == 9;

    Matrix<Real> u;    // 18: the link; 13, 12: with row 2 of a special unitary matrix; 9, 8: row 0 and column 0 only
    Complex<Real> det; // 13, 12: determinant; 9, 8: determinant / N, the e above. Real for 12 and 8
    Complex<Real> f;   // 9, 8
    uint32_t with_0, with_1; // 9, 8: columns that were exchanged with column 2

    MILCGPU_HD explicit Link(const RawLink<p, reals> &raw) : det{1, 0}, f{0, 0}, with_0(0), with_1(0) {
        if constexpr (!pivoted) {
            constexpr int rows = reals == 18 ? 3 : 2;
            MILCGPU_UNROLL
            for (int row = 0; row < rows; ++row)
                MILCGPU_UNROLL
            for (int k = 0; k < 3; ++k)
                u.e[row][k] = {raw.get(6 * row + 2 * k), raw.get(6 * row + 2 * k + 1)};
            if constexpr (reals != 18)
                complete_row(u);
            if constexpr (reals == 12)
                det.re = raw.get_bit(0) ? Real(-1) : Real(1);
            else if constexpr (reals == 13)
                det = unit_phase(raw.get(12));
        } else {
            const Complex<Real> a1 = {raw.get(0), raw.get(1)}, a2 = {raw.get(2), raw.get(3)};
            const Complex<Real> stored = {raw.get(4), raw.get(5)};
            const Real n = minus_norm(Real(1), a1), inverse = reciprocal(n);
            const Complex<Real> a3 = square_root(minus_norm(n, a2)) * unit_phase(raw.get(6));
            const Complex<Real> derived = square_root(minus_norm(n, stored)) * unit_phase(raw.get(7));
            const uint32_t swapped = raw.get_bit(2);
            u.e[0][0] = a1, u.e[0][1] = a2, u.e[0][2] = a3;
            u.e[1][0] = select(swapped, stored, derived), u.e[2][0] = select(swapped, derived, stored);
            f = inverse * conj(a1);
            if constexpr (reals == 8)
                det.re = raw.get_bit(3) ? -inverse : inverse;
            else
                det = inverse * unit_phase(raw.get(8));
            with_0 = raw.get_bit(0), with_1 = raw.get_bit(1);
        }
    }

    MILCGPU_HD explicit Link(const Matrix<Real> &whole) : u(whole), det{1, 0}, f{0, 0}, with_0(0), with_1(0) {}

    // The link times a number, with the determinant in row 2, for a link that multiplies many vectors. If only row 0
    // and column 0 are known, the vectors are multiplied by the number instead.
    MILCGPU_HD Link<p, 18> times(Real s) const {
        static_assert(!pivoted, "a pivoted link cannot be scaled");
        Matrix<Real> m;
        MILCGPU_UNROLL
        for (int k = 0; k < 3; ++k) {
            m.e[0][k] = s * u.e[0][k];
            m.e[1][k] = s * u.e[1][k];
            if constexpr (reals == 13)
                m.e[2][k] = (s * det) * u.e[2][k];
            else
                m.e[2][k] = (s * det.re) * u.e[2][k];
        }
        return Link<p, 18>(m);
    }

    // acc += L x
    template <class T> MILCGPU_HD void add_forward(Vector<T> &acc, const Vector<T> &x) const {
        if constexpr (pivoted) {
            const Pivoted<T> v(*this);
            const Vector<T> y = exchange(x, with_0, with_1);
            const Complex<T> p_ = plus(v.a2 * y.c[1], v.a3, y.c[2]);
            const Complex<T> q = minus(conj(v.a2) * y.c[2], conj(v.a3), y.c[1]);
            const Complex<T> w = minus(y.c[0], convert<T>(f), p_), g = times_det(q);
            acc.c[0] = plus(acc.c[0] + p_, v.a1, y.c[0]);
            acc.c[1] = plus(plus(acc.c[1], v.b1, w), conj(v.c1), g);
            acc.c[2] = minus(plus(acc.c[2], v.c1, w), conj(v.b1), g);
        } else if constexpr (reals == 18) {
            multiply_add(acc, convert<T>(u), x);
        } else {
            Vector<T> sum = {{acc.c[0], acc.c[1], {0, 0}}};
            multiply_add(sum, convert<T>(u), x);
            acc = {{sum.c[0], sum.c[1],
                    real_det ? acc.c[2] + times_det(sum.c[2]) : plus(acc.c[2], convert<T>(det), sum.c[2])}};
        }
    }

    // acc -= L^dag x
    template <class T> MILCGPU_HD void subtract_backward(Vector<T> &acc, const Vector<T> &x) const {
        if constexpr (pivoted) {
            acc = acc - backward(x);
        } else if constexpr (reals == 18) {
            adjoint_multiply_subtract(acc, convert<T>(u), x);
        } else {
            adjoint_multiply_subtract(acc, convert<T>(u), Vector<T>{{x.c[0], x.c[1], times_conj_det(x.c[2])}});
        }
    }

    // L x and L^dag x. If only row 0 and column 0 are known, no number is added to 0.
    template <class T> MILCGPU_HD Vector<T> forward(const Vector<T> &x) const {
        if constexpr (pivoted) {
            const Pivoted<T> v(*this);
            const Vector<T> y = exchange(x, with_0, with_1);
            const Complex<T> p_ = plus(v.a2 * y.c[1], v.a3, y.c[2]);
            const Complex<T> q = minus(conj(v.a2) * y.c[2], conj(v.a3), y.c[1]);
            const Complex<T> w = minus(y.c[0], convert<T>(f), p_), g = times_det(q);
            return {{plus(p_, v.a1, y.c[0]), plus(v.b1 * w, conj(v.c1), g), minus(v.c1 * w, conj(v.b1), g)}};
        } else {
            Vector<T> sum = {};
            add_forward(sum, x);
            return sum;
        }
    }
    template <class T> MILCGPU_HD Vector<T> backward(const Vector<T> &x) const {
        if constexpr (pivoted) {
            const Pivoted<T> v(*this);
            const Complex<T> w = plus(conj(v.b1) * x.c[1], conj(v.c1), x.c[2]);
            const Complex<T> h = minus(v.c1 * x.c[1], v.b1, x.c[2]);
            const Complex<T> p_ = minus(x.c[0], conj(convert<T>(f)), w), q = times_conj_det(h);
            const Vector<T> y = {
                {plus(w, conj(v.a1), x.c[0]), minus(conj(v.a2) * p_, v.a3, q), plus(conj(v.a3) * p_, v.a2, q)}};
            return exchange(y, with_0, with_1);
        } else {
            Vector<T> sum = {};
            subtract_backward(sum, x);
            MILCGPU_UNROLL
            for (int k = 0; k < 3; ++k)
                sum.c[k] = {-sum.c[k].re, -sum.c[k].im};
            return sum;
        }
    }

    // The plain matrix, for the check at load time and for tests.
    MILCGPU_HD Matrix<Real> matrix() const {
        Matrix<Real> full = {};
        MILCGPU_UNROLL
        for (int column = 0; column < 3; ++column) {
            Vector<Real> unit = {}, result = {};
            unit.c[column].re = 1;
            add_forward(result, unit);
            MILCGPU_UNROLL
            for (int row = 0; row < 3; ++row)
                full.e[row][column] = result.c[row];
        }
        return full;
    }

  private:
    template <class T> struct Pivoted {
        Complex<T> a1, a2, a3, b1, c1;
        MILCGPU_HD explicit Pivoted(const Link &l)
            : a1(convert<T>(l.u.e[0][0])), a2(convert<T>(l.u.e[0][1])), a3(convert<T>(l.u.e[0][2])),
              b1(convert<T>(l.u.e[1][0])), c1(convert<T>(l.u.e[2][0])) {}
    };
    static constexpr bool real_det = reals == 12 || reals == 8;
    template <class T> MILCGPU_HD Complex<T> times_det(Complex<T> x) const {
        if constexpr (real_det)
            return T(det.re) * x;
        else
            return convert<T>(det) * x;
    }
    template <class T> MILCGPU_HD Complex<T> times_conj_det(Complex<T> x) const {
        if constexpr (real_det)
            return T(det.re) * x;
        else
            return conj(convert<T>(det)) * x;
    }
};

// v: the link divided by the field's scale. If v is not unitary, the raw link does not unpack to v; the check at load
// time finds it.
template <Precision p, int reals> MILCGPU_HD RawLink<p, reals> pack_link(const Matrix<double> &v) {
    RawLink<p, reals> raw = {};
    if constexpr (reals == 18 || reals == 13 || reals == 12) {
        constexpr int rows = reals == 18 ? 3 : 2;
        MILCGPU_UNROLL
        for (int k = 0; k < 9 * rows / 3; ++k) {
            raw.set(2 * k, v.e[k / 3][k % 3].re);
            raw.set(2 * k + 1, v.e[k / 3][k % 3].im);
        }
        if constexpr (reals == 13)
            raw.set(12, quarter_tangent(determinant(v)));
        else if constexpr (reals == 12)
            raw.set_bit(0, determinant(v).re < 0);
    } else {
        int pivot = 2; // column of the largest element of row 0
        for (int k = 0; k < 2; ++k)
            if (norm(v.e[0][k]) > norm(v.e[0][pivot]))
                pivot = k;
        const int first = pivot == 0 ? 2 : 0, second = pivot == 1 ? 2 : 1;
        const Complex<double> a1 = v.e[0][first], a2 = v.e[0][second], a3 = v.e[0][pivot], b1 = v.e[1][first],
                              c1 = v.e[2][first], d = (pivot == 2 ? 1.0 : -1.0) * determinant(v);
        const uint32_t swapped = norm(b1) > norm(c1); // then c1 is stored
        const Complex<double> stored = select(swapped, b1, c1), derived = select(swapped, c1, b1);
        raw.set(0, a1.re), raw.set(1, a1.im);
        raw.set(2, a2.re), raw.set(3, a2.im);
        raw.set(4, stored.re), raw.set(5, stored.im);
        raw.set(6, quarter_tangent(a3)), raw.set(7, quarter_tangent(derived));
        raw.set_bit(0, pivot == 0), raw.set_bit(1, pivot == 1);
        raw.set_bit(2, swapped);
        if constexpr (reals == 9)
            raw.set(8, quarter_tangent(d));
        else
            raw.set_bit(3, d.re < 0);
    }
    return raw;
}

} // namespace milcgpu
