// The CPU originals of measurements, by tests/reference.
#include "fields.h"
extern "C" {
#include "../include/imp_ferm_links.h"
}
#include "tests/reference/mesons.h"
#include <algorithm>
#include <cstdlib>

namespace {

// The numbers of the vector currents: rhoxsfn comes first, and each kind has four directions.
enum { pair_fn = 22, forward_fn = 26, backward_fn = 30, pair_ape = 34, forward_ape = 38, backward_ape = 42 };
bool is(int kind, int index) { return index >= kind && index < kind + 4; }

reference::Origin origin(const int *r0) { return {r0[0], r0[1], r0[2], r0[3]}; }

reference::Fermion current(const su3_matrix *links, int kind, int index, const reference::Fermion &field) {
    const bool forward = kind == forward_fn || kind == forward_ape;
    reference::Fermion made =
        reference::shift(here(), gauge(links), index - kind,
                         forward ? reference::ShiftWay::forward : reference::ShiftWay::backward, field);
    for (size_t s = 0; s < volume; ++s)
        if (here().parity(s) == 1)
            made[s] = -1.0 * made[s];
    return made;
}

// links: with phases relative to r0.
reference::Fermion apply(su3_matrix *links, imp_ferm_links_t *fn, int index, int *r0, const reference::Fermion &field) {
    constexpr unsigned bits[16] = {1, 2, 4, 8, 15, 6, 5, 3, 9, 10, 12, 14, 13, 11, 7, 0};
    for (const int kind : {forward_fn, backward_fn})
        if (is(kind, index))
            return current(get_fatlinks(fn), kind, index, field);
    for (const int kind : {forward_ape, backward_ape})
        if (is(kind, index))
            return current(links, kind, index, field);
    if (index < 128)
        std::abort();
    const unsigned spin = bits[(index - 128) / 16], taste = bits[(index - 128) % 16];
    const reference::Gauge used = spin == taste ? reference::Gauge{} : gauge(links); // local operators need no links
    return reference::spin_taste(here(), used, origin(r0), spin, taste, field);
}

// MILC's APE links: develop multiplies phases in once, master for the duration of a call.
reference::Fermion apply(imp_ferm_links_t *fn, int index, int *r0, const reference::Fermion &field) {
#ifdef MILC_HOST_MASTER
    if (ape_links == nullptr) // local operators
        return apply(nullptr, fn, index, r0, field);
    rephase_field_offset(ape_links, ON, nullptr, r0);
    const reference::Fermion made = apply(ape_links, fn, index, r0, field);
    rephase_field_offset(ape_links, OFF, nullptr, r0);
    return made;
#else
    const bool of_fat_links = is(forward_fn, index) || is(backward_fn, index);
    if (!of_fat_links && ape_links_ks_phases != ON)
        rephase_field_offset(ape_links, ON, &ape_links_ks_phases, r0);
    return apply(ape_links, fn, index, r0, field);
#endif
}

} // namespace

extern "C" {

su3_matrix *ape_links;
#ifndef MILC_HOST_MASTER
int refresh_ape_links, ape_links_ks_phases;
#endif

int is_rhosfn_index(int index) { return is(pair_fn, index); }
int is_rhosape_index(int index) { return is(pair_ape, index); }
int is_rhosffn_index(int index) { return is(forward_fn, index); }
int is_rhosbfn_index(int index) { return is(backward_fn, index); }
int is_rhosfape_index(int index) { return is(forward_ape, index); }
int is_rhosbape_index(int index) { return is(backward_ape, index); }
int forward_index(int index) {
#ifndef MILC_HOST_MASTER
    if (is(forward_fn, index) || is(forward_ape, index))
        return index;
#endif
    return is(pair_fn, index)    ? index + forward_fn - pair_fn
           : is(pair_ape, index) ? index + forward_ape - pair_ape
                                 : -1;
}
int backward_index(int index) {
#ifndef MILC_HOST_MASTER
    if (is(backward_fn, index) || is(backward_ape, index))
        return index;
#endif
    return is(pair_fn, index)    ? index + backward_fn - pair_fn
           : is(pair_ape, index) ? index + backward_ape - pair_ape
                                 : -1;
}

void rephase_field_offset(su3_matrix *links, int flag, int *status_now, int r0[]) {
    store(reference::phased_links(here(), gauge(links), origin(r0), false), links);
    if (status_now != nullptr)
        *status_now = flag;
}

#ifndef MILC_HOST_MASTER
void shift_field(int dir, enum shift_dir fb, su3_vector *dest, const su3_vector *const src,
                 const su3_matrix *const links, int *) {
    store(reference::shift(here(), gauge(links), dir, static_cast<reference::ShiftWay>(fb), fermion(src)), EVENANDODD,
          dest);
}

#endif
int own_operators; // calls of these two
void spin_taste_op_ape_fn(imp_ferm_links_t *fn, int index, int r0[], su3_vector *dest, read_vector *src) {
    ++own_operators;
    store(apply(fn, index, r0, fermion(src)), EVENANDODD, dest);
}
void spin_taste_op(int index, int r0[], su3_vector *dest, read_vector *src) {
    ++own_operators;
    store(apply(nullptr, index, r0, fermion(src)), EVENANDODD, dest);
}

#ifndef MILC_HOST_MASTER
// The two-link products of the last smearing exist. On several ranks they may exist on some ranks only.
static bool products = false;
void gauss_smear_delete_2link_cpu() { products = false; }
#endif

void gauss_smear_v_field(su3_vector *src, su3_matrix *t_links, Real width, int iters, int t0) {
#ifndef MILC_HOST_MASTER
    if (products && numnodes() > 1)
        std::printf("smearing with products that other ranks may not have\n");
    products = true;
#endif
    reference::Fermion field = fermion(src);
    const double a = width * width / (16 * iters);
    for (int k = 0; k < iters; ++k) {
        const reference::Fermion more = reference::laplacian(here(), gauge(t_links), 2, t0, field);
        for (size_t s = 0; s < volume; ++s)
            field[s] = a * ((1 / a) * field[s] + more[s]); // NaN if the width is 0, like MILC's
    }
    store(field, EVENANDODD, src);
#ifndef MILC_HOST_MASTER
    if (this_node == 0)
        std::printf("GSMEAR: time = %e (fn %s) iters = %d\n", 0.0, MILC_PRECISION == 1 ? "F" : "D", iters);
#endif
}

void laplacian_v_field(su3_vector *src, su3_matrix *t_links, int t0) {
    const reference::Fermion field = fermion(src);
    reference::Fermion minus = reference::laplacian(here(), gauge(t_links), 2, t0, field);
    for (size_t s = 0; s < volume; ++s)
        minus[s] = t0 == ALL_T_SLICES || here().coordinates(s)[3] == t0 ? -1.0 * minus[s] : field[s];
    store(minus, EVENANDODD, src);
}

void ks_meson_cont_mom(complex **prop, su3_vector *src1, su3_vector *src2, int, int **q_momstore, char **q_parity,
                       int no_spin_taste_corr, int num_corr_mom[], int **corr_table, int p_index[],
                       imp_ferm_links_t *fn_src1, imp_ferm_links_t *fn_src2, int spin_taste_snk[], int meson_phase[],
                       Real meson_factor[], IF_DEVELOP(int) int corr_index[], int r0[]) {
    const reference::Fermion a = fermion(src1), b = fermion(src2);
    for (int g = 0; g < no_spin_taste_corr; ++g) {
        const int op = spin_taste_snk[corr_table[g][0]];
        const int to_backward = is(pair_fn, op)    ? backward_fn - pair_fn
                                : is(pair_ape, op) ? backward_ape - pair_ape
                                                   : 0;
        const int to_forward = is(pair_fn, op) ? forward_fn - pair_fn : is(pair_ape, op) ? forward_ape - pair_ape : 0;
        const bool pair = to_forward != 0, forward = pair || is(forward_fn, op) || is(forward_ape, op);
        for (int k = 0; k < num_corr_mom[g]; ++k) {
            const int c = corr_table[g][k], p = p_index[c];
            // MILC adds repeated operators and momenta into one sum.
            const auto repeats = std::count_if(corr_table[g], corr_table[g] + num_corr_mom[g],
                                               [&](int other) { return p_index[other] == p; });
            const auto add = [&](const reference::Fermion &left, const reference::Fermion &right) {
                std::array<char, 3> letters;
                for (int mu = 0; mu < 3; ++mu)
                    letters[mu] = " OEB"[static_cast<int>(q_parity[p][mu])];
                const auto sums = reference::slice_sums(
                    here(), left, right, {q_momstore[p][0], q_momstore[p][1], q_momstore[p][2]}, letters, origin(r0));
                const reference::Complex phases[] = {1, {0, 1}, -1, {0, -1}};
                for (int t = 0; t < nt; ++t) {
                    const auto z =
                        double(repeats) * (pair ? 0.5 : 1) * double(meson_factor[c]) * phases[meson_phase[c]] * sums[t];
                    prop[corr_index[c]][t].real += static_cast<Real>(z.real());
                    prop[corr_index[c]][t].imag += static_cast<Real>(z.imag());
                }
            };
            if (pair || !forward)
                add(apply(fn_src1, op + to_backward, r0, a), b);
            if (forward)
                add(a, apply(fn_src2, op + to_forward, r0, b));
        }
    }
}

} // extern "C"
