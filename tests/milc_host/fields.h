// Converts fields of the program to those of tests/reference, lexicographic and in double, and back.
#pragma once
#include "tests/reference/gauge.h"
#include <cstdlib>
#include <vector>
extern "C" {
#include "../generic_ks/generic_ks_includes.h"
#include "../include/fermion_links.h"
#include "../include/umethod.h"
#include "ranks.h"
}

inline reference::Lattice here() { return {{nx, ny, nz, nt}}; }

// MILC's index of a lexicographic site of this rank.
inline size_t place(int s) {
    const auto x = here().coordinates(s);
    return node_index(x[0], x[1], x[2], x[3]);
}
inline bool is_mine(int s) {
    const auto x = here().coordinates(s);
    return node_number(x[0], x[1], x[2], x[3]) == this_node;
}
// The field of the whole lattice, to which each rank brings its own sites. All ranks call it.
template <class Field> Field of_all_ranks(Field field) {
    share_sites(field.data(), field.size() / volume * sizeof field[0]);
    return field;
}

inline reference::Fermion fermion(const su3_vector *f) {
    reference::Fermion out(volume);
    for (size_t s = 0; s < volume; ++s)
        for (int c = 0; c < 3 && is_mine(s); ++c)
            out[s].c[c] = {f[place(s)].c[c].real, f[place(s)].c[c].imag};
    return of_all_ranks(out);
}

inline void store(const reference::Fermion &from, int parity, su3_vector *to) {
    for (size_t s = 0; s < volume; ++s)
        if (is_mine(s) && (parity & (here().parity(s) == 0 ? EVEN : ODD)))
            for (int c = 0; c < 3; ++c)
                to[place(s)].c[c] = {static_cast<Real>(from[s].c[c].real()), static_cast<Real>(from[s].c[c].imag())};
}

inline reference::Gauge gauge(const su3_matrix *links) {
    reference::Gauge out(4 * volume);
    for (size_t s = 0; s < volume; ++s) {
        if (!is_mine(s))
            continue;
        const su3_matrix *const of_site = links + 4 * place(s);
        for (int mu = 0; mu < 4; ++mu)
            for (int k = 0; k < 9; ++k) {
                const complex_number &z = of_site[mu].e[k / 3][k % 3];
                out[4 * s + mu].e[k / 3][k % 3] = {z.real, z.imag};
            }
    }
    return of_all_ranks(out);
}

inline void store(const reference::Gauge &from, su3_matrix *to) {
    for (size_t s = 0; s < volume; ++s) {
        if (!is_mine(s))
            continue;
        su3_matrix *const of_site = to + 4 * place(s);
        for (int mu = 0; mu < 4; ++mu)
            for (int k = 0; k < 9; ++k) {
                const reference::Complex z = from[4 * s + mu].e[k / 3][k % 3];
                of_site[mu].e[k / 3][k % 3] = {static_cast<Real>(z.real()), static_cast<Real>(z.imag())};
            }
    }
}

inline reference::Gauge links_of_sites() {
    su3_matrix *links = create_G_from_site();
    reference::Gauge out = gauge(links);
    std::free(links);
    return out;
}

inline void to_sites(const reference::Gauge &from) {
    std::vector<su3_matrix> packed(4 * sites_on_node);
    store(from, packed.data());
    for (size_t i = 0; i < sites_on_node; ++i)
        for (int mu = 0; mu < 4; ++mu)
            lattice[i].link[mu] = packed[4 * i + mu];
}

inline reference::PathCoefficients coefficients(const ks_component_paths &p) {
    const asqtad_coeffs_t &c = p.act_path_coeff;
    return {c.one_link, c.naik, c.three_staple, c.five_staple, c.seven_staple, c.lepage};
}
