// The unitary part W = V (V^dag V)^(-1/2) of each link, in double, one thread a link; and how far links are from
// unitary.
//
// Q = V^dag V has eigenvalues g_k from its characteristic polynomial; Q^(-1/2) = f0 + f1 Q + f2 Q^2 (Cayley and
// Hamilton) with f from u = sum sqrt(g), v = sum of products of two, w = product of the roots. One Newton step, W (3 -
// W^dag W) / 2, removes the remaining rounding errors. If that is not accurate (fermion_links.h), V = A S R^dag by
// one-sided Jacobi rotations, W = A R^dag: unitary to rounding for any V, even a singular one.
#include "gpu_kernels/fields/matrix_view.h"
#include "gpu_kernels/gauge/links/polar.h"

namespace milcgpu {

namespace {

using M = Matrix<double>;
using C = Complex<double>;
using polar::Columns, polar::GramMatrix, polar::inner, polar::one_sided_jacobi;

MILCGPU_HD M newton_step(const M &w) {
    const M gram = adjoint(w) * w;
    M correction = {};
    for (int k = 0; k < 3; ++k)
        correction.e[k][k].re = 1.5;
    multiply_add(correction, -0.5, gram);
    return w * correction;
}

// False if the spec requires singular values.
MILCGPU_HD bool unitarize_analytic(const M &v, const UnitarizeSpec &spec, M &unitary) {
    const GramMatrix gram(v);
    if (!gram.is_accurate(v, spec))
        return false;
    const double *const g = gram.g;
    const M &q = gram.q, &q2 = gram.q2;
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

MILCGPU_HD bool normalise(C *a) {
    const double size = sqrt(inner(a, a).re);
    if (!(size > 0))
        return false;
    for (int row = 0; row < 3; ++row)
        a[row] = (1 / size) * a[row];
    return true;
}

// b = unit vector along b - (part along a), or, if nothing remains, along any direction orthogonal to a.
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
    Columns a, r;
    one_sided_jacobi(v, a, r);
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
    // The third column is known up to its phase, which even a tiny column determines.
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
    MatrixView<p> v, y, w; // w: on the wide box
    bool keep_y;
    UnitarizeSpec spec;
    uint64_t *by_singular_values;
    MILCGPU_HD void operator()(int thread) const {
        const SitesAndParts::Item item = work.item(thread);
        if (!item.valid)
            return;
        const M link = convert<double>(v.template take<Reuse::stream>(item.parity, item.part, item.own));
        M unitary;
        if (!unitarize_analytic(link, spec, unitary)) {
            unitary = unitarize_by_singular_values(link);
            atomic_add(by_singular_values, 1);
        }
        if (keep_y)
            y.store(item.parity, item.part, item.own, convert<Real>(unitary));
        if (spec.special) {
            const double sign = phases.sign(lattice.site(item.parity, item.own), item.part);
            const C det = sign * determinant(unitary);
            const double angle = -atan2(det.im, det.re) / 3;
            for (int k = 0; k < 9; ++k)
                unitary.e[k / 3][k % 3] = C{cos(angle), sin(angle)} * unitary.e[k / 3][k % 3];
        }
        w.store(item.parity, item.part, item.i, convert<Real>(unitary));
    }
};

// The largest |u u^dag - 1| by the bits of a float, which are ordered like integers, and the first link that has it.
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
                       ~static_cast<uint32_t>(4 * (item.i + item.parity * work.sites(0)) + item.part));
    }
};

} // namespace

uint64_t unitarize(Device &device, const WideBox &box, const LinkField &v, const UnitarizeSpec &spec,
                   const LinkField *y, const LinkField &w, bool last_use_of_v) {
    const SitesAndParts work = box.work(4);
    const Geometry &geometry = box.box();
    DeviceArray<uint64_t> count;
    queue_of(device).collective("memory for a count of links", [&] { count = {device, 1, "unitarization"}; });
    queue_of(device).fill_zero(count.data(), count.bytes());
    for_real(v.precision(), [&](auto p) {
        constexpr Precision precision = decltype(p)::value;
        launch(device, work.threads(),
               Unitarize<precision>{geometry.lattice(), Phases(geometry), work,
                                    MatrixView<precision>(v).to_take(last_use_of_v),
                                    MatrixView<precision>(y != nullptr ? *y : w), MatrixView<precision>(w),
                                    y != nullptr, spec, count.data()},
               "unitarize links");
    });
    return count.to_host()[0];
}

double unitarity_violation(Device &device, const Geometry &geometry, const LinkField &u, long long *worst_link) {
    const SitesAndParts work(geometry, 4);
    const DeviceArray<Worst> worst(device, 1, "unitarity");
    queue_of(device).fill_zero(worst.data(), worst.bytes());
    for_real(u.precision(), [&](auto p) {
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
