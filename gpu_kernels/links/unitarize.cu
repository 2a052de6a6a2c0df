// The unitary part W = V (V^dag V)^(-1/2) of each link, in double, one thread a link; and how far links are from
// unitary.
//
// Q = V^dag V has eigenvalues g_k from its characteristic polynomial; Q^(-1/2) = f0 + f1 Q + f2 Q^2 (Cayley and
// Hamilton) with f from u = sum sqrt(g), v = sum of products of two, w = product of the roots. One Newton step, W (3 -
// W^dag W) / 2, takes what rounding left. Where that is not accurate (links.h), V = A S R^dag by one-sided Jacobi
// rotations, W = A R^dag: unitary to rounding for any V, singular ones too.
#include "gpu_kernels/links/matrix_view.h"

namespace milcgpu {

namespace {

using M = Matrix<double>;
using C = Complex<double>;

MILCGPU_HD M newton_step(const M &w) {
    const M gram = adjoint(w) * w;
    M correction = {};
    for (int k = 0; k < 3; ++k)
        correction.e[k][k].re = 1.5;
    multiply_add(correction, -0.5, gram);
    return w * correction;
}

// Eigenvalues of a Hermitian positive 3x3 matrix with half the trace of q^2 in c1 and a third of that of q^3 in c2.
MILCGPU_HD void eigenvalues(double c0, double c1, double c2, double *g) {
    const double s = c1 / 3 - c0 * c0 / 18;
    g[0] = g[1] = g[2] = c0 / 3;
    if (!(fabs(s) >= 1e-14)) // MILC's limit in double
        return;
    const double r = c2 / 2 - c0 * c1 / 3 + c0 * c0 * c0 / 27, root = sqrt(s);
    const double angle = acos(fmax(-1.0, fmin(1.0, r / (s * root)))) / 3;
    for (int k = 0; k < 3; ++k)
        g[k] += 2 * root * cos(angle + k * (2 * M_PI / 3));
}

// False where the spec asks for singular values.
MILCGPU_HD bool unitarize_analytic(const M &v, const UnitarizeSpec &spec, M &unitary) {
    const M q = adjoint(v) * v, q2 = q * q;
    double c0 = 0, c1 = 0, c2 = 0;
    for (int k = 0; k < 3; ++k) {
        c0 += q.e[k][k].re;
        c1 += q2.e[k][k].re / 2;
        for (int j = 0; j < 3; ++j)
            c2 += (q2.e[k][j].re * q.e[j][k].re - q2.e[k][j].im * q.e[j][k].im) / 3;
    }
    double g[3];
    eigenvalues(c0, c1, c2, g);
    const double product = g[0] * g[1] * g[2], exact = norm(determinant(v));
    if (spec.svd_only || !(exact >= spec.svd_absolute) || !(fabs(exact - product) <= spec.svd_relative * exact) ||
        !(g[0] > 0 && g[1] > 0 && g[2] > 0))
        return false;
    const double r0 = sqrt(g[0]), r1 = sqrt(g[1]), r2 = sqrt(g[2]);
    const double u = r0 + r1 + r2, t = r0 * r1 + r0 * r2 + r1 * r2, w = r0 * r1 * r2;
    const double scale = 1 / (w * (u * t - w));
    M f = {};
    for (int k = 0; k < 3; ++k)
        f.e[k][k].re = scale * (-w * (u * u + t) + u * t * t);
    multiply_add(f, scale * (-w - u * u * u + 2 * u * t), q);
    multiply_add(f, scale * u, q2);
    unitary = newton_step(v * f);
    return true;
}

struct Columns {
    C c[3][3]; // [column][row]
};

MILCGPU_HD C inner(const C *a, const C *b) { return conj(a[0]) * b[0] + conj(a[1]) * b[1] + conj(a[2]) * b[2]; }

// a, b = a cos - conj(e) b sin, a sin + conj(e) b cos
MILCGPU_HD void rotate_columns(C *a, C *b, double cosine, double sine, C e) {
    for (int row = 0; row < 3; ++row) {
        const C turned = conj(e) * b[row], old = a[row];
        a[row] = cosine * old - sine * turned;
        b[row] = sine * old + cosine * turned;
    }
}

MILCGPU_HD bool normalise(C *a) {
    const double size = sqrt(inner(a, a).re);
    if (!(size > 0))
        return false;
    for (int row = 0; row < 3; ++row)
        a[row] = (1 / size) * a[row];
    return true;
}

// b = unit vector along b - (part along a), or, where nothing is left, along any direction orthogonal to a.
MILCGPU_HD void orthonormalise(const C *a, C *b) {
    for (int direction = -1; direction < 3; ++direction) {
        if (direction >= 0)
            for (int row = 0; row < 3; ++row)
                b[row] = {row == direction ? 1.0 : 0.0, 0.0};
        if (!normalise(b))
            continue;
        for (int twice = 0; twice < 2; ++twice) {
            const C along = inner(a, b);
            for (int row = 0; row < 3; ++row)
                b[row] = b[row] - along * a[row];
        }
        if (inner(b, b).re > 0.1) {
            normalise(b);
            return;
        }
    }
}

MILCGPU_HD M unitarize_by_singular_values(const M &v) {
    Columns a, r = {};
    double largest = 0;
    for (int k = 0; k < 9; ++k)
        largest = fmax(largest, fmax(fabs(v.e[k / 3][k % 3].re), fabs(v.e[k / 3][k % 3].im)));
    const double scale = largest > 0 ? 1 / largest : 1;
    for (int column = 0; column < 3; ++column) {
        r.c[column][column].re = 1;
        for (int row = 0; row < 3; ++row)
            a.c[column][row] = scale * v.e[row][column];
    }
    for (int sweep = 0; sweep < 20; ++sweep) {
        bool turned = false;
        for (int pair = 0; pair < 3; ++pair) {
            const int i = pair == 2, j = pair == 0 ? 1 : 2;
            const double aa = inner(a.c[i], a.c[i]).re, bb = inner(a.c[j], a.c[j]).re;
            const C c = inner(a.c[i], a.c[j]);
            const double size = sqrt(norm(c));
            if (!(size > 1e-17 * sqrt(aa * bb)) || !(size > 1e-300))
                continue;
            turned = true;
            const double zeta = (bb - aa) / (2 * size);
            const double t = (zeta >= 0 ? 1.0 : -1.0) / (fabs(zeta) + sqrt(1 + zeta * zeta));
            const double cosine = 1 / sqrt(1 + t * t);
            const C e = (1 / size) * c;
            rotate_columns(a.c[i], a.c[j], cosine, cosine * t, e);
            rotate_columns(r.c[i], r.c[j], cosine, cosine * t, e);
        }
        if (!turned)
            break;
    }
    for (int pass = 0; pass < 3; ++pass) { // largest column first
        const int i = pass == 1;
        if (inner(a.c[i], a.c[i]).re < inner(a.c[i + 1], a.c[i + 1]).re)
            for (int row = 0; row < 3; ++row) {
                const C x = a.c[i][row], y = r.c[i][row];
                a.c[i][row] = a.c[i + 1][row], a.c[i + 1][row] = x;
                r.c[i][row] = r.c[i + 1][row], r.c[i + 1][row] = y;
            }
    }
    if (!normalise(a.c[0]))
        a.c[0][0].re = 1;
    orthonormalise(a.c[0], a.c[1]);
    // The third is known but for its phase, which a tiny column still tells.
    C third[3];
    for (int row = 0; row < 3; ++row) {
        const int k = (row + 1) % 3, l = (row + 2) % 3;
        third[row] = conj(a.c[0][k] * a.c[1][l] - a.c[0][l] * a.c[1][k]);
    }
    const C overlap = inner(third, a.c[2]);
    const double size = sqrt(norm(overlap));
    for (int row = 0; row < 3; ++row)
        a.c[2][row] = size > 0 ? (1 / size) * overlap * third[row] : third[row];
    M w;
    for (int row = 0; row < 3; ++row)
        for (int column = 0; column < 3; ++column)
            w.e[row][column] = a.c[0][row] * conj(r.c[0][column]) + a.c[1][row] * conj(r.c[1][column]) +
                               a.c[2][row] * conj(r.c[2][column]);
    return newton_step(w);
}

template <Precision p> struct Unitarize {
    using Real = typename LinkReal<p>::Real;
    Lattice lattice;
    Phases phases;
    SitesAndParts work;
    MatrixView<p> v, y, w;
    bool keep_y;
    UnitarizeSpec spec;
    uint64_t *by_singular_values;
    MILCGPU_HD void operator()(int thread) const {
        const SitesAndParts::Item item = work.item(thread);
        if (!item.valid)
            return;
        const M link = convert<double>(v.template load<Reuse::stream>(item.parity, item.part, item.i));
        M unitary;
        if (!unitarize_analytic(link, spec, unitary)) {
            unitary = unitarize_by_singular_values(link);
            atomic_add(by_singular_values, 1);
        }
        if (keep_y)
            y.store(item.parity, item.part, item.i, convert<Real>(unitary));
        if (spec.special) {
            const double sign = phases.sign(lattice.site(item.parity, item.i), item.part);
            const C det = sign * determinant(unitary);
            const double angle = -atan2(det.im, det.re) / 3;
            for (int k = 0; k < 9; ++k)
                unitary.e[k / 3][k % 3] = C{cos(angle), sin(angle)} * unitary.e[k / 3][k % 3];
        }
        w.store(item.parity, item.part, item.i, convert<Real>(unitary));
    }
};

// The largest |u u^dag - 1| as the bits of a float, which order as integers do, and the first link that has it.
struct Worst {
    uint32_t bits, not_link; // not_link: ~index, filled by a second pass
};

template <Precision p> struct Violation {
    SitesAndParts work;
    MatrixView<p> u;
    Worst *worst;
    bool find;
    MILCGPU_HD void operator()(int thread) const {
        const SitesAndParts::Item item = work.item(thread);
        if (!item.valid)
            return;
        const M link = convert<double>(u.load(item.parity, item.part, item.i));
        const M gram = link * adjoint(link);
        double largest = 0;
        for (int k = 0; k < 9; ++k) {
            const C d = gram.e[k / 3][k % 3] - C{k % 4 == 0 ? 1.0 : 0.0, 0.0};
            largest = fmax(largest, fmax(fabs(d.re), fabs(d.im)));
        }
        const uint32_t bits = bit_cast<uint32_t>(static_cast<float>(largest));
        if (!find)
            atomic_max(&worst->bits, bits);
        else if (bits == worst->bits)
            atomic_max(&worst->not_link,
                       ~static_cast<uint32_t>(4 * (item.i + item.parity * work.even_sites) + item.part));
    }
};

} // namespace

uint64_t unitarize(Device &device, const Geometry &geometry, const LinkField &v, const UnitarizeSpec &spec,
                   const LinkField *y, const LinkField &w) {
    const SitesAndParts work(geometry, 4);
    const DeviceArray<uint64_t> count(device, 1, "unitarization");
    device.fill_zero(count.data(), count.bytes());
    for_link_precision(v.precision(), [&](auto p) {
        constexpr Precision precision = decltype(p)::value;
        launch(device, work.threads(),
               Unitarize<precision>{geometry.lattice(), Phases(geometry), work, MatrixView<precision>(v),
                                    MatrixView<precision>(y != nullptr ? *y : w), MatrixView<precision>(w),
                                    y != nullptr, spec, count.data()},
               "unitarize links");
    });
    return count.to_host()[0];
}

double unitarity_violation(Device &device, const Geometry &geometry, const LinkField &u, long long *worst_link) {
    const SitesAndParts work(geometry, 4);
    const DeviceArray<Worst> worst(device, 1, "unitarity");
    device.fill_zero(worst.data(), worst.bytes());
    for_link_precision(u.precision(), [&](auto p) {
        constexpr Precision precision = decltype(p)::value;
        for (const bool find : {false, true})
            if (!find || worst_link != nullptr)
                launch(device, work.threads(), Violation<precision>{work, MatrixView<precision>(u), worst.data(), find},
                       "look for unitarity");
    });
    const Worst found = worst.to_host()[0];
    if (worst_link != nullptr)
        *worst_link = static_cast<long long>(~found.not_link);
    return bit_cast<float>(found.bits);
}

} // namespace milcgpu
