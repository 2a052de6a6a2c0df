// The CPU original of clover solves: what MILC's routine owes, done by tests/reference.
#include "fields.h"
#include "tests/reference/wilson.h"
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

void store(const reference::WilsonField &from, wilson_vector *to) {
    for (size_t s = 0; s < volume; ++s)
        for (int d = 0; d < 4; ++d)
            for (int c = 0; c < 3; ++c)
                to[place(s)].d[d].c[c] = {static_cast<Real>(from[s].d[d].c[c].real()),
                                          static_cast<Real>(from[s].d[d].c[c].imag())};
}

} // namespace

// By conjugate gradient on the normal equations of the even sites. The source is overwritten, as MILC's is.
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
    const auto M = [&](const WilsonField &f, int sign) { return wilson_even_odd(all, links, term, kappa, f, sign, 0); };
    WilsonField x = on_parity(all, wilson_field(dest), 0);
    int iterations = 0;
    if (norm2(right) == 0) {
        x = WilsonField(volume, WilsonVector{});
    } else {
        WilsonField s = M(right - M(x, 1), -1), p = s;
        double size = norm2(s);
        const auto residual = [&] { return norm2(right - M(x, 1)) / norm2(right); };
        const double wanted = 0.01 * qic->resid * qic->resid; // so that relative residuals are small, too
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
