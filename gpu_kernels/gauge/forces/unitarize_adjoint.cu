// The derivative by V of a function of W = V Q^(-1/2), Q = V^dag V, link by link, in double. One thread a link; reads V
// and q, writes q. 7 products of matrices.
//
//   by V:  q Q^(-1/2) + V (N + N^dag),   N the derivative by Q of Re tr(M Q^(-1/2)), M = q^dag V.
//
// With Q^(-1/2) = f0 + f1 Q + f2 Q^2 (unitarize.cu), N = f1 M + f2 (Q M + M Q) + sum_ij B_ij tr(M Q^i) Q^j, B the
// derivatives of f by the traces of the powers of Q: Hasenfratz, Hoffmann, Schaefer, JHEP 05 (2007) 029. If
// UnitarizeSpec requires singular values, N is computed in the basis of the singular vectors, where N_ij = -M_ij / (s_i
// s_j (s_i + s_j)). The same basis is used if eigenvalues are far apart: with a smallest singular value of 0.1 B keeps
// 10 digits, with 0.004 it keeps 8; the singular vectors keep 13 and more.
#include "gpu_kernels/fields/matrix_view.h"
#include "gpu_kernels/gauge/forces/forces.h"
#include "gpu_kernels/gauge/links/polar.h"

namespace milcgpu {

namespace {

using M = Matrix<double>;
using C = Complex<double>;

MILCGPU_HD M diagonal(double value) {
    M d = {};
    for (int k = 0; k < 3; ++k)
        d.e[k][k].re = value;
    return d;
}

MILCGPU_HD C trace_of_product(const M &a, const M &b) {
    C sum = {};
    for (int row = 0; row < 3; ++row)
        for (int k = 0; k < 3; ++k)
            sum = plus(sum, a.e[row][k], b.e[k][row]);
    return sum;
}

// c += s a
MILCGPU_HD void add_multiple(M &c, C s, const M &a) {
    for (int k = 0; k < 9; ++k)
        c.e[k / 3][k % 3] = plus(c.e[k / 3][k % 3], s, a.e[k / 3][k % 3]);
}

// Q^(-1/2) and N.
struct Derivative {
    M root, n;
};

// g: eigenvalues of q.
MILCGPU_HD Derivative by_characteristic_polynomial(const M &q, const M &q2, const double *g, const M &m) {
    const double s0 = sqrt(g[0]), s1 = sqrt(g[1]), s2 = sqrt(g[2]);
    const double u = s0 + s1 + s2, v = s0 * s1 + s0 * s2 + s1 * s2, w = s0 * s1 * s2;
    const double d = w * (u * v - w);
    const double f0 = (u * v * v - w * (u * u + v)) / d, f1 = (2 * u * v - w - u * u * u) / d, f2 = u / d;
    const double u2 = u * u, u3 = u2 * u, u4 = u2 * u2, u5 = u4 * u, u6 = u3 * u3, u7 = u6 * u, u8 = u4 * u4;
    const double v2 = v * v, v3 = v2 * v, v4 = v2 * v2, v5 = v4 * v, v6 = v3 * v3;
    const double w2 = w * w, w3 = w2 * w, w4 = w2 * w2, w5 = w4 * w;
    const double b00 = -w3 * u6 + 3 * u4 * (v * w3 + v4 * w) - u3 * (v6 + 4 * w4 + 12 * v3 * w2) +
                       u2 * (16 * v2 * w3 + 3 * v5 * w) - u * (8 * v * w4 + 3 * v4 * w2) + w5 + v3 * w3;
    const double b01 = -w2 * u7 - v2 * w * u6 + u5 * (v4 + 6 * v * w2) - u4 * (5 * w3 + v3 * w) -
                       u3 * (2 * v5 + 6 * v2 * w2) + u2 * (10 * v * w3 + 6 * v4 * w) - u * (3 * w4 + 6 * v3 * w2) +
                       2 * v2 * w3;
    const double b02 =
        w2 * u5 + v2 * w * u4 - u3 * (v4 + 4 * v * w2) + u2 * (4 * w3 + 3 * v3 * w) - 3 * v2 * w2 * u + v * w3;
    const double b11 = -w * u8 - v2 * u7 + 7 * v * w * u6 + u5 * (4 * v3 - 5 * w2) - 16 * v2 * w * u4 -
                       u3 * (4 * v4 - 16 * v * w2) - u2 * (3 * w3 - 12 * v3 * w) - 12 * v2 * w2 * u + 3 * v * w3;
    const double b12 =
        w * u6 + v2 * u5 - 5 * v * w * u4 - u3 * (2 * v3 - 4 * w2) + 6 * v2 * w * u2 - 6 * v * w2 * u + w3;
    const double b22 = -w * u4 - v2 * u3 + 3 * v * w * u2 - 3 * w2 * u;
    const double factor = 1 / (2 * d * d * d);
    const C t0 = {m.e[0][0].re + m.e[1][1].re + m.e[2][2].re, m.e[0][0].im + m.e[1][1].im + m.e[2][2].im};
    const C t1 = trace_of_product(m, q), t2 = trace_of_product(m, q2);
    const auto row = [&](double a, double b, double c) { return factor * (a * t0 + b * t1 + c * t2); };
    const C r0 = row(b00, b01, b02), r1 = row(b01, b11, b12), r2 = row(b02, b12, b22);
    Derivative result = {diagonal(f0), {}};
    multiply_add(result.root, f1, q);
    multiply_add(result.root, f2, q2);
    M &n = result.n;
    multiply_add(n, q, m);
    multiply_add(n, m, q);
    for (int k = 0; k < 9; ++k)
        n.e[k / 3][k % 3] = f2 * n.e[k / 3][k % 3] + f1 * m.e[k / 3][k % 3];
    for (int k = 0; k < 3; ++k)
        n.e[k][k] = n.e[k][k] + r0;
    add_multiple(n, r1, q);
    add_multiple(n, r2, q2);
    return result;
}

// s: square roots of the eigenvalues of Q, r: its eigenvectors.
MILCGPU_HD Derivative by_singular_values(const polar::Columns &r, const double *s, const M &m) {
    M basis;
    for (int row = 0; row < 3; ++row)
        for (int column = 0; column < 3; ++column)
            basis.e[row][column] = r.c[column][row];
    M inside = adjoint(basis) * (m * basis);
    M inverse = {};
    for (int row = 0; row < 3; ++row) {
        inverse.e[row][row].re = 1 / s[row];
        for (int column = 0; column < 3; ++column)
            inside.e[row][column] = (-1 / (s[row] * s[column] * (s[row] + s[column]))) * inside.e[row][column];
    }
    return {basis * (inverse * adjoint(basis)), basis * (inside * adjoint(basis))};
}

constexpr double least_ratio = 0.1; // of the eigenvalues of Q, for use of B

template <Precision p> struct UnitarizeAdjoint {
    using Real = typename LinkReal<p>::Real;
    SitesAndParts work;
    MatrixView<p> v, q; // q: on the wide box
    UnitarizeSpec spec;
    double filter;
    UnitarizeAdjointCounts *counts;
    MILCGPU_HD void operator()(int thread) const {
        const SitesAndParts::Item item = work.item(thread);
        if (!item.valid)
            return;
        uint64_t link_weighs, by_w_weighs;
        const M link = convert<double>(v.template take<Reuse::stream>(item.parity, item.part, item.own, link_weighs));
        const M by_w = convert<double>(q.template take<Reuse::written>(item.parity, item.part, item.i, by_w_weighs));
        v.subtract(item.own, link_weighs);
        q.subtract(item.i, by_w_weighs);
        const M m = adjoint(by_w) * link;
        polar::GramMatrix gram(link);
        Derivative d;
        bool filtered;
        const bool accurate = gram.is_accurate(link, spec);
        if (!accurate)
            atomic_add(&counts->by_singular_values, 1);
        const double least = fmin(gram.g[0], fmin(gram.g[1], gram.g[2]));
        if (accurate && least > least_ratio * fmax(gram.g[0], fmax(gram.g[1], gram.g[2]))) {
            filtered = least < filter;
            if (filtered) {
                for (int k = 0; k < 3; ++k) {
                    gram.g[k] += filter;
                    gram.q.e[k][k].re += filter;
                }
                gram.q2 = gram.q * gram.q;
            }
            d = by_characteristic_polynomial(gram.q, gram.q2, gram.g, m);
        } else {
            polar::Columns a, r;
            const double scale = polar::one_sided_jacobi(link, a, r);
            double s[3];
            for (int k = 0; k < 3; ++k)
                s[k] = sqrt(polar::inner(a.c[k], a.c[k]).re) / scale;
            const double least_s = fmin(s[0], fmin(s[1], s[2]));
            filtered = least_s * least_s < filter;
            for (int k = 0; k < 3 && filtered; ++k)
                s[k] = sqrt(s[k] * s[k] + filter);
            d = by_singular_values(r, s, m);
        }
        if (filtered)
            atomic_add(&counts->filtered, 1);
        M hermitian = d.n;
        multiply_add(hermitian, 1.0, adjoint(d.n));
        M by_v = by_w * d.root;
        multiply_add(by_v, link, hermitian);
        q.store(item.parity, item.part, item.i, convert<Real>(by_v));
    }
};

} // namespace

UnitarizeAdjointCounts unitarize_adjoint(Device &device, const WideBox &box, const LinkField &v,
                                         const UnitarizeSpec &spec, double filter, const LinkField &q) {
    if (spec.special)
        throw Error(Status::bad_argument,
                    "derivative of unitarization: only for W in U(3); a W in SU(3) has another derivative");
    const SitesAndParts work = box.work(4);
    const DeviceArray<UnitarizeAdjointCounts> counts(device, 1, "unitarization");
    queue_of(device).fill_zero(counts.data(), counts.bytes());
    for_real(v.precision(), [&](auto p) {
        constexpr Precision precision = decltype(p)::value;
        launch(device, work.threads(),
               UnitarizeAdjoint<precision>{work, MatrixView<precision>(v), MatrixView<precision>(q), spec, filter,
                                           counts.data()},
               "derivative of unitarization");
    });
    return counts.to_host()[0];
}

} // namespace milcgpu
