// Long links in fewer reals. A long (Naik) link is L = c V with one real c > 0 a field and V unitary: V = sign * S with S
// in SU(3) for asqtad links with staggered phases, V = e^{i psi} S for HISQ links and twisted boundaries.
//
//   18  all of L / c' (c' = 1, or the largest element in fixed point)
//   13  rows 0 and 1 of V, and t = tan(theta/4), theta = arg det V; row 2 = e^{i theta} conj(row 0 x row 1)
//   12  the same with det V = +-1: the sign is the least significant bit of real 0
//    8  S as in Bunk and Sommer, Comput. Phys. Commun. 40 (1986) 229 (two elements of row 0, the phases of a third
//       element of row 0 and of one of column 0, ...), with the pivots chosen so that no division or square root is
//       ill-conditioned, see below
//    9  8 and psi
//
// Angles are kept as t = tan(angle/4) in (-1, 1]: cosine and sine come from one reciprocal, no trigonometric function.
//
// The pivoted form. Columns of S are rotated until the largest element a3 of row 0 is last: |a3|^2 >= 1/3, so its modulus
// follows from the other two without loss. N = 1 - |a1|^2 = |b1|^2 + |c1|^2 >= 1/2 is what the formulas divide by. Of b1 and
// c1 the smaller is stored and the larger, |.|^2 >= N/2, is known by its phase. Which of the choices was taken, and the sign,
// are the least significant bits of reals 0 to 3. Every SU(3) matrix is reached, the unit matrix too.
//
// Nothing is assumed where a sign or phase comes from; what does not fit the form is found by the check at load time.
#pragma once
#include "gpu_kernels/su3/link_storage.h"

namespace milcgpu {

// e^{i angle} from t = tan(angle/4)
template <class T> MILCGPU_HD Complex<T> unit_phase(T t) {
    const T inverse = reciprocal(T(1) + t * t);
    const T c = (T(1) - t * t) * inverse, s = T(2) * t * inverse; // of angle/2
    return {c * c - s * s, T(2) * c * s};
}

MILCGPU_HD double quarter_tangent(Complex<double> z) { return tan(0.25 * atan2(z.im, z.re)); }

// row 2 of a unitary matrix with determinant d (complex, or real for +-1): d conj(row 0 x row 1)
template <class T, class D> MILCGPU_HD void complete_row(Matrix<T> &u, D d) {
MILCGPU_UNROLL
    for (int k = 0; k < 3; ++k) {
        const int l = (k + 1) % 3, m = (k + 2) % 3;
        u.e[2][k] = d * conj(u.e[0][l] * u.e[1][m] - u.e[0][m] * u.e[1][l]);
    }
}

template <class T> MILCGPU_HD Complex<T> select(uint32_t which, Complex<T> zero, Complex<T> one) {
    return which ? one : zero;
}

// Rotation of three colours: element k becomes element (k + rotation) mod 3.
template <class T> MILCGPU_HD Vector<T> rotate(const Vector<T> &x, uint32_t rotation) {
    Vector<T> y;
MILCGPU_UNROLL
    for (int k = 0; k < 3; ++k)
        y.c[k] = rotation == 0 ? x.c[k] : rotation == 1 ? x.c[(k + 1) % 3] : x.c[(k + 2) % 3];
    return y;
}

// A long link unpacked, ready to be applied. Rotation and phase of the 8 and 9 forms act on the vector, which is cheaper
// than on the matrix.
template <Precision p, int reals> struct LongLink {
    using Real = typename LinkReal<p>::Real;
    static_assert(reals == 18 || reals == 13 || reals == 12 || reals == 9 || reals == 8, "unknown reconstruction");
    static constexpr bool pivoted = reals == 8 || reals == 9;

    Matrix<Real> u;
    Complex<Real> phase; // 8: +-1 in its real part, 9: e^{i psi}; else unused
    uint32_t rotation;   // 8 and 9

    MILCGPU_HD explicit LongLink(const RawLink<p, reals> &raw) : phase{1, 0}, rotation(0) {
        if constexpr (!pivoted) {
            constexpr int rows = reals == 18 ? 3 : 2;
MILCGPU_UNROLL
            for (int row = 0; row < rows; ++row)
MILCGPU_UNROLL
                for (int k = 0; k < 3; ++k)
                    u.e[row][k] = {raw.get(6 * row + 2 * k), raw.get(6 * row + 2 * k + 1)};
            if constexpr (reals == 12)
                complete_row(u, raw.get_bit(0) ? Real(-1) : Real(1));
            else if constexpr (reals == 13)
                complete_row(u, unit_phase(raw.get(12)));
        } else {
            unpack_pivoted(raw);
        }
    }

    template <class T> MILCGPU_HD void add_forward(Vector<T> &acc, Vector<T> x) const {
        if constexpr (pivoted)
            x = rotate(apply_phase(x, phase), rotation);
        multiply_add(acc, convert<T>(u), x);
    }

    template <class T> MILCGPU_HD void subtract_backward(Vector<T> &acc, const Vector<T> &x) const {
        if constexpr (pivoted) {
            Vector<T> y = {};
            adjoint_multiply_subtract(y, convert<T>(u), x);
            acc = acc + apply_phase(rotate(y, (3u - rotation) % 3u), conj(phase));
        } else {
            adjoint_multiply_subtract(acc, convert<T>(u), x);
        }
    }

    // The plain matrix: what the load-time check compares and what tests look at.
    MILCGPU_HD Matrix<Real> matrix() const {
        if constexpr (!pivoted)
            return u;
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
    template <class T> static MILCGPU_HD Vector<T> apply_phase(const Vector<T> &x, Complex<Real> by) {
        if constexpr (reals == 8)
            return T(by.re) * x;
        else
            return Complex<T>{T(by.re), T(by.im)} * x;
    }

    MILCGPU_HD void unpack_pivoted(const RawLink<p, reals> &raw) {
        const Complex<Real> a1 = {raw.get(0), raw.get(1)}, a2 = {raw.get(2), raw.get(3)};
        const Complex<Real> stored = {raw.get(4), raw.get(5)};
        const Real n = Real(1) - norm(a1);
        const Complex<Real> a3 = square_root(n - norm(a2)) * unit_phase(raw.get(6));
        const Complex<Real> derived = square_root(n - norm(stored)) * unit_phase(raw.get(7));
        const uint32_t swapped = raw.get_bit(2);
        const Complex<Real> b1 = select(swapped, stored, derived), c1 = select(swapped, derived, stored);
        const Real inverse = reciprocal(n);
        const Complex<Real> ab = inverse * (conj(a1) * b1), ac = inverse * (conj(a1) * c1);
        u.e[0][0] = a1, u.e[0][1] = a2, u.e[0][2] = a3;
        u.e[1][0] = b1, u.e[2][0] = c1;
        u.e[1][1] = Real(-1) * (inverse * conj_multiply(a3, c1) + ab * a2);
        u.e[1][2] = inverse * conj_multiply(a2, c1) - ab * a3;
        u.e[2][1] = inverse * conj_multiply(a3, b1) - ac * a2;
        u.e[2][2] = Real(-1) * (inverse * conj_multiply(a2, b1) + ac * a3);
        rotation = raw.get_bit(0) | raw.get_bit(1) << 1;
        if constexpr (reals == 8)
            phase.re = raw.get_bit(3) ? Real(-1) : Real(1);
        else
            phase = unit_phase(raw.get(8));
    }
};

// v: the link divided by the field's scale. Not unitary input gives a raw link that does not unpack to v; the check at
// load time finds it.
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
        const Complex<double> d = determinant(v);
        const double psi = reals == 9 ? atan2(d.im, d.re) / 3.0 : 0.0;
        const Complex<double> away =
            reals == 9 ? Complex<double>{cos(psi), -sin(psi)} : Complex<double>{d.re < 0 ? -1.0 : 1.0, 0.0};
        // rotation r: column k of the packed matrix is column (k + r) mod 3; the largest of row 0 goes last.
        uint32_t rotation = 0;
        for (uint32_t r = 1; r < 3; ++r)
            if (norm(v.e[0][(2 + r) % 3]) > norm(v.e[0][(2 + rotation) % 3]))
                rotation = r;
        const Complex<double> a1 = away * v.e[0][rotation], a2 = away * v.e[0][(1 + rotation) % 3],
                              a3 = away * v.e[0][(2 + rotation) % 3], b1 = away * v.e[1][rotation],
                              c1 = away * v.e[2][rotation];
        const uint32_t swapped = norm(b1) > norm(c1); // then c1 is stored
        const Complex<double> stored = select(swapped, b1, c1), derived = select(swapped, c1, b1);
        raw.set(0, a1.re), raw.set(1, a1.im);
        raw.set(2, a2.re), raw.set(3, a2.im);
        raw.set(4, stored.re), raw.set(5, stored.im);
        raw.set(6, quarter_tangent(a3)), raw.set(7, quarter_tangent(derived));
        raw.set_bit(0, rotation & 1u), raw.set_bit(1, rotation >> 1);
        raw.set_bit(2, swapped);
        if constexpr (reals == 9)
            raw.set(8, tan(0.25 * psi));
        else
            raw.set_bit(3, d.re < 0);
    }
    return raw;
}

} // namespace milcgpu
