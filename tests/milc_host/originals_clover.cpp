// The CPU originals of clover_invert2's routines: the results of MILC's, computed by tests/reference.
#include "fields.h"
#include "tests/reference/dirac.h"
#include <algorithm>
#include <cmath>

namespace {

reference::WilsonField wilson_field(const wilson_vector *f) {
    reference::WilsonField out(volume);
    for (size_t s = 0; s < volume; ++s)
        for (int d = 0; d < 4; ++d)
            for (int c = 0; c < 3; ++c)
                out[s].d[d].c[c] = {f[place(s)].d[d].c[c].real, f[place(s)].d[d].c[c].imag};
    return out;
}

void store(const reference::WilsonField &from, wilson_vector *to, int parity = EVENANDODD) {
    for (size_t s = 0; s < volume; ++s)
        for (int d = 0; d < 4 && (parity & (here().parity(s) == 0 ? EVEN : ODD)); ++d)
            for (int c = 0; c < 3; ++c)
                to[place(s)].d[d].c[c] = {static_cast<Real>(from[s].d[d].c[c].real()),
                                          static_cast<Real>(from[s].d[d].c[c].imag())};
}

reference::SpinWilsonField spin_wilson_field(const spin_wilson_vector *f) {
    reference::SpinWilsonField out(volume);
    for (size_t s = 0; s < volume; ++s)
        for (int spin = 0; spin < 4; ++spin)
            for (int d = 0; d < 4; ++d)
                for (int c = 0; c < 3; ++c) {
                    const complex_number &z = f[place(s)].d[spin].d[d].c[c];
                    out[s].d[spin].d[d].c[c] = {z.real, z.imag};
                }
    return out;
}

reference::MomentumFactor factor_of(const int *p, const char *parity, const int *r0) {
    reference::MomentumFactor f{{p[0], p[1], p[2]}, {}, {r0[0], r0[1], r0[2], 0}};
    for (int mu = 0; mu < 3; ++mu)
        f.parity[mu] = " OEB"[static_cast<int>(parity[mu])];
    return f;
}

// Like MILC's loops: work(c, momentum) gives the rows to add to correlator c, nt times `reals`.
template <class Row, class Work>
void accumulate(Row **prop, int groups, const int *num_corr_mom, int **corr_table, const int *p_index,
                const int *meson_phase, const Real *meson_factor, const int *corr_index, const Work &work) {
    const reference::Complex phases[] = {1, {0, 1}, -1, {0, -1}};
    constexpr size_t numbers = sizeof(Row) / sizeof(complex_number);
    for (int g = 0; g < groups; ++g)
        for (int k = 0; k < num_corr_mom[g]; ++k) {
            const int c = corr_table[g][k];
            const std::vector<reference::Complex> sums = work(c, p_index[c]);
            // MILC adds repeated operators and momenta into one sum.
            const auto repeats = std::count_if(corr_table[g], corr_table[g] + num_corr_mom[g],
                                               [&](int other) { return p_index[other] == p_index[c]; });
            auto *const row = reinterpret_cast<complex_number *>(prop[corr_index[c]]);
            for (size_t i = 0; i < numbers * nt; ++i) {
                const auto z = double(repeats) * double(meson_factor[c]) * phases[meson_phase[c]] * sums[i];
                row[i].real += static_cast<Real>(z.real());
                row[i].imag += static_cast<Real>(z.imag());
            }
        }
}

} // namespace

extern "C" void dslash_w_field(wilson_vector *src, wilson_vector *dest, int isign, int parity) {
    store(reference::wilson_dslash(here(), links_of_sites(), wilson_field(src), isign), dest, parity);
}

extern "C" void meson_cont_mom(complex_number **prop, spin_wilson_vector *src1, spin_wilson_vector *src2, int,
                               int **q_momstore, char **q_parity, int groups, int num_corr_mom[], int **corr_table,
                               int p_index[], int gout[], int gin[], int meson_phase[], Real meson_factor[],
                               int corr_index[], int r0[]) {
    using namespace reference;
    const SpinWilsonField s1 = spin_wilson_field(src1), s2 = spin_wilson_field(src2);
    accumulate(prop, groups, num_corr_mom, corr_table, p_index, meson_phase, meson_factor, corr_index,
               [&](int c, int p) {
                   return dirac_meson(here(), s1, s2, gamma_of_set(GammaSet::milc, gin[c]),
                                      gamma_of_set(GammaSet::milc, gout[c]), factor_of(q_momstore[p], q_parity[p], r0));
               });
}

extern "C" void meson_open_mom(wilson_propagator **prop, spin_wilson_vector *src1, spin_wilson_vector *src2, int,
                               int **q_momstore, char **q_parity, int groups, int num_corr_mom[], int **corr_table,
                               int p_index[], int[], int gin[], int meson_phase[], Real meson_factor[],
                               int corr_index[], int r0[]) {
    using namespace reference;
    const SpinWilsonField s1 = spin_wilson_field(src1), s2 = spin_wilson_field(src2);
    accumulate(prop, groups, num_corr_mom, corr_table, p_index, meson_phase, meson_factor, corr_index,
               [&](int c, int p) {
                   std::vector<Complex> all;
                   for (const auto &slice : open_dirac_meson(here(), s1, s2, gamma_of_set(GammaSet::milc, gin[c]),
                                                             factor_of(q_momstore[p], q_parity[p], r0)))
                       all.insert(all.end(), slice.begin(), slice.end());
                   return all;
               });
}

// By conjugate gradient on the normal equations of the even sites. Like MILC's, it overwrites the source.
extern "C" int bicgilu_cl_field_cpu(wilson_vector *src, wilson_vector *dest, quark_invert_control *qic, void *dmp) {
    using namespace reference;
    const auto &dirac = *static_cast<const dirac_clover_param *>(dmp);
    const Lattice all = here();
    const Gauge links = links_of_sites();
    const double kappa = dirac.Kappa;
    const Clover term = clover_term(all, links, kappa * dirac.Clov_c / (dirac.U0 * dirac.U0 * dirac.U0)),
                 inverse_term = inverse(term);
    const WilsonField b = wilson_field(src);
    const auto odd = [&](const WilsonField &f) { return inverse_term * on_parity(all, f, 1); };
    const WilsonField right = on_parity(all, b + Complex(kappa) * wilson_dslash(all, links, odd(b), 1), 0);
    const auto M = [&](const WilsonField &f, int sign) {
        return wilson_even_odd(all, links, term, inverse_term, kappa, f, sign, 0);
    };
    WilsonField x = on_parity(all, wilson_field(dest), 0);
    int iterations = 0;
    if (norm2(right) == 0) {
        x = WilsonField(volume, WilsonVector{});
    } else {
        WilsonField s = M(right - M(x, 1), -1), p = s;
        double size = norm2(s);
        const auto residual = [&] { return norm2(right - M(x, 1)) / norm2(right); };
        // Small enough for relative residuals, too. MILC tests the squares of both tolerances.
        const double resid = qic->resid * qic->resid, relresid = qic->relresid * qic->relresid,
                     wanted = resid > 0               ? 0.01 * resid
                              : relresid > 0          ? 0.01 * relresid
                              : resid + relresid == 0 ? INFINITY
                                                      : 0;
        for (const int most = qic->max * qic->nrestart; iterations < most && residual() >= wanted; ++iterations) {
            const WilsonField q = M(M(p, 1), -1);
            const double alpha = size / dot(p, q).real();
            x = x + Complex(alpha) * p;
            s = s - Complex(alpha) * q;
            const double next = norm2(s);
            p = s + Complex(next / size) * p;
            size = next;
        }
        qic->final_rsq = qic->size_r = residual();
    }
    qic->final_relrsq = qic->size_relr = 0;
    qic->final_iters = iterations;
    qic->final_restart = 1;
    const WilsonField hop = on_parity(all, b, 1) + Complex(kappa) * wilson_dslash(all, links, x, 1);
    store(x + odd(hop), dest);
    store(right, src);
    return iterations;
}

extern "C" int bicgilu_w_field(wilson_vector *src, wilson_vector *dest, quark_invert_control *qic, void *dmp) {
    dirac_clover_param dirac{static_cast<dirac_wilson_param *>(dmp)->Kappa, 0, 1};
    return bicgilu_cl_field_cpu(src, dest, qic, &dirac);
}
