// Over-relaxation and heat bath of forces.h. One thread a link of one direction on the sites of one parity; no
// plaquette contains two of these links. The three SU(2) subgroups of a link come one after the other. Matrices a link:
// U read and written, 18 of its staples read. 13 products, and 5 hits of two rows each.
#include "gpu_kernels/gauge/forces/steps.h"

namespace milcgpu {

namespace {

// a0 + i (a1 sigma_1 + a2 sigma_2 + a3 sigma_3)
struct Quaternion {
    double a0, a1, a2, a3;
};

// Multiplies rows p and q of m by the SU(2) matrix h.
template <class Real> MILCGPU_HD void turn_rows(Matrix<Real> &m, const Quaternion &h, int p, int q) {
    const Complex<Real> same = {static_cast<Real>(h.a0), static_cast<Real>(h.a3)},
                        other = {static_cast<Real>(h.a2), static_cast<Real>(h.a1)};
    MILCGPU_UNROLL
    for (int k = 0; k < 3; ++k) {
        const Complex<Real> upper = m.e[p][k], lower = m.e[q][k];
        m.e[p][k] = same * upper + other * lower;
        m.e[q][k] = conj(same) * lower - conj(other) * upper;
    }
}

// The sum over the six plaquettes of a link is Re tr(U s).
template <Precision p>
MILCGPU_HD Matrix<typename LinkReal<p>::Real> staples(const Lattice &lattice, const MatrixView<p> &u, const Site &x,
                                                      int parity, int mu) {
    Matrix<typename LinkReal<p>::Real> sum = {};
    const Site ahead = walk(lattice, x, 2 * mu);
    for (int step = 0; step < steps; ++step) {
        if (axis(step) == mu)
            continue;
        const auto there = link_along(lattice, u, ahead, 1 - parity, step) *
                           link_along(lattice, u, walk(lattice, ahead, step), parity, 2 * mu + 1);
        multiply_add(sum, there, link_along(lattice, u, walk(lattice, x, step), 1 - parity, opposite(step)));
    }
    return sum;
}

// MILC's myrand: 24 bits of a shift register, and 24 of a linear congruence. forces.h lists the words.
struct Generator {
    uint32_t word[generator_words], drawn = 0;
    MILCGPU_HD uint64_t wide(int k) const { return static_cast<uint64_t>(word[k + 1]) << 32 | word[k]; }
    MILCGPU_HD double next() {
        const uint32_t t = ((word[5] >> 7 | word[6] << 17) ^ (word[4] >> 1 | word[5] << 23)) & 0xFFFFFF;
        MILCGPU_UNROLL
        for (int k = 6; k > 0; --k)
            word[k] = word[k - 1];
        word[0] = t;
        const uint64_t state = wide(11) * wide(7) + wide(9);
        word[11] = static_cast<uint32_t>(state), word[12] = static_cast<uint32_t>(state >> 32);
        ++drawn;
        const uint32_t bits = t ^ static_cast<uint32_t>(state >> word[14] & 0xFFFFFF);
        return static_cast<double>(bit_cast<float>(word[13]) * static_cast<float>(bits));
    }
    MILCGPU_HD double log_of_next() { return log(next() + 1e-10); }
};

// 1 - x for x in (-1, 1) with the density sqrt(1 - x^2) exp(alpha x). Kennedy, Pendleton, Phys. Lett. B 156 (1985) 393;
// for small alpha, Creutz, Phys. Rev. D 21 (1980) 2308. Draws the same random numbers as MILC, in the same order.
MILCGPU_HD double distance_from_one(double alpha, Generator &random) {
    constexpr double two_pi = 2 * 3.14159265358979323846;
    constexpr int most = 20; // hits, after the first
    double d = 0;
    for (int hit = 0; hit <= (alpha > 2 ? most : 0); ++hit) {
        const double first = random.log_of_next(), second = random.log_of_next();
        const double cosine = cos(two_pi * random.next()), height = random.next();
        d = -(second + first * cosine * cosine) / alpha;
        if (1 - 0.5 * d > height * height)
            return d;
    }
    if (alpha > 2)
        return d;
    const double least = exp(-2 * alpha);
    double x = 0;
    for (int hit = 0; hit < most; ++hit) {
        const double at = random.next(), height = random.next();
        x = 1 + log(least + (1 - least) * at) / alpha;
        if (1 - x * x > height * height)
            break;
    }
    return 1 - x;
}

// A matrix of SU(2) with the density exp(alpha a0).
MILCGPU_HD Quaternion near_one(double alpha, Generator &random) {
    const double a0 = 1 - distance_from_one(alpha, random), r2 = fabs(1 - a0 * a0);
    const double a3 = (2 * random.next() - 1) * sqrt(r2), rho = sqrt(fabs(r2 - a3 * a3));
    const double angle = 2 * 3.14159265358979323846 * random.next();
    return {a0, rho * cos(angle), rho * sin(angle), a3};
}

MILCGPU_HD Quaternion product_with_inverse(const Quaternion &a, const Quaternion &v) { // |v| = 1
    return {
        a.a0 * v.a0 + a.a1 * v.a1 + a.a2 * v.a2 + a.a3 * v.a3, a.a1 * v.a0 - a.a0 * v.a1 + a.a2 * v.a3 - a.a3 * v.a2,
        a.a2 * v.a0 - a.a0 * v.a2 + a.a3 * v.a1 - a.a1 * v.a3, a.a3 * v.a0 - a.a0 * v.a3 + a.a1 * v.a2 - a.a2 * v.a1};
}

template <Precision p, bool heat> struct Hits {
    using Real = typename LinkReal<p>::Real;
    Lattice lattice;
    MatrixView<p> u;
    int parity, mu;
    double third_of_beta;
    uint32_t *generators; // one word of all sites after the other; at the end the numbers of draws
    int first, sites;     // of this parity, and of all

    MILCGPU_HD void operator()(int i) const {
        Generator random;
        if (heat)
            MILCGPU_UNROLL
        for (int k = 0; k < generator_words; ++k)
            random.word[k] = generators[k * sites + first + i];
        const Matrix<Real> s = staples(lattice, u, lattice.site(parity, i), parity, mu);
        u.modify(parity, mu, i, [&](Matrix<Real> &link) {
            Matrix<Real> w = link * s;
            MILCGPU_UNROLL
            for (int left_out = 0; left_out < 3; ++left_out) {
                const int a = left_out == 0 ? 1 : 0, b = left_out == 2 ? 1 : 2;
                // The part of w that depends on the subgroup.
                Quaternion v = {
                    static_cast<double>(w.e[a][a].re) + w.e[b][b].re, static_cast<double>(w.e[a][b].im) + w.e[b][a].im,
                    static_cast<double>(w.e[a][b].re) - w.e[b][a].re, static_cast<double>(w.e[a][a].im) - w.e[b][b].im};
                const double z = sqrt(v.a0 * v.a0 + v.a1 * v.a1 + v.a2 * v.a2 + v.a3 * v.a3);
                if (z == 0) // the action does not depend on this subgroup
                    continue;
                v = {v.a0 / z, v.a1 / z, v.a2 / z, v.a3 / z};
                Quaternion h;
                if constexpr (heat)
                    h = product_with_inverse(near_one(third_of_beta * z, random), v);
                else // v^dag twice, for the same trace
                    h = product_with_inverse({v.a0, -v.a1, -v.a2, -v.a3}, v);
                turn_rows(link, h, a, b);
                if (left_out < 2)
                    turn_rows(w, h, a, b);
            }
        });
        if (heat) {
            for (int k = 0; k < generator_words; ++k)
                generators[k * sites + first + i] = random.word[k];
            generators[generator_words * sites + first + i] += random.drawn;
        }
    }
};

template <bool heat>
void sweep(Device &device, const Geometry &geometry, const LinkField &u, double beta, uint32_t *generators) {
    const Lattice lattice = geometry.lattice();
    for_real(u.precision(), [&](auto p) {
        constexpr Precision precision = decltype(p)::value;
        for (const int parity : {1, 0})
            for (int mu = 0; mu < 4; ++mu) {
                const Hits<precision, heat> body{lattice,
                                                 MatrixView<precision>(u),
                                                 parity,
                                                 mu,
                                                 beta / 3,
                                                 generators,
                                                 parity != 0 ? geometry.sites(0) : 0,
                                                 geometry.volume()};
                launch(device, geometry.sites(parity), body, heat ? "heat bath" : "over-relaxation");
            }
    });
}

} // namespace

double overrelax_bytes(Precision p) { return (8 * 4 + 4) * link_bytes(p, 18); }

double heat_bath_bytes(Precision p) { return overrelax_bytes(p) + 4 * 2 * (generator_words + 1) * sizeof(uint32_t); }

void overrelax(Device &device, const Geometry &geometry, const LinkField &u) {
    sweep<false>(device, geometry, u, 0, nullptr);
}

void heat_bath(Device &device, const Geometry &geometry, const LinkField &u, double beta, uint32_t *generators) {
    sweep<true>(device, geometry, u, beta, generators);
}

} // namespace milcgpu
