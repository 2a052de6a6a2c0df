/* Routines of measurements, as ks_spectrum calls them. */
#define _POSIX_C_SOURCE 200112L /* setenv */
#include "../generic_ks/generic_ks_includes.h"

#include "../include/fermion_links.h"

#include "../include/imp_ferm_links.h"
#include "checks.h"
#include "plugin.h"
#include <math.h>
#include <string.h>

#ifdef MILC_HOST_MASTER
#define __real_spin_taste_op_ape_fn __real_spin_taste_op_fn
#else
void __real_shift_field(int, enum shift_dir, su3_vector *, const su3_vector *, const su3_matrix *, int *);
#endif
void __real_spin_taste_op_ape_fn(imp_ferm_links_t *, int, int *, su3_vector *, read_vector *);
void __real_gauss_smear_v_field(su3_vector *, su3_matrix *, Real, int, int);
void __real_laplacian_v_field(su3_vector *, su3_matrix *, int);
void __real_ks_meson_cont_mom(complex **, su3_vector *, su3_vector *, int, int **, char **, int, int *, int **, int *,
                              imp_ferm_links_t *, imp_ferm_links_t *, int *, int *, Real *, IF_DEVELOP(int) int *,
                              int *);

/* In program.c. */

static const double limit = MILC_PRECISION == 1 ? 5e-6 : 1e-13;

static void check_field(const su3_vector *ours, const su3_vector *theirs, const char *what) {
    const double d = difference(ours, theirs, 6 * sites_on_node);
    check(d < limit, what, d);
}

enum { MOMENTA = 3, OPERATORS = 7, LOCAL = 2, CORRELATORS = MOMENTA * OPERATORS };

/* groups: how many of the operators take part. */
static void try_contraction(fn_links_t *fn, int *r0, int groups) {
    /* GX-GX, G5-G5, GT-GXY, rhotsfn, rhoxsape, rhoysffn, rhozsbape. */
#ifdef MILC_HOST_MASTER /* master ends the run at the last two: other pairs */
    int operators[OPERATORS] = {128, 128 + 4 * 17, 128 + 16 * 3 + 7, 25, 34, 22, 35};
#else
    int operators[OPERATORS] = {128, 128 + 4 * 17, 128 + 16 * 3 + 7, 25, 34, 27, 44};
    const int count = MOMENTA * groups - 1;
#endif
    int momenta[MOMENTA][3] = {{0, 0, 0}, {1, 0, -1}, {1, 2, 0}};
    char parity[MOMENTA][3] = {{EVEN, EVEN, EVEN}, {EVENANDODD, EVEN, ODD}, {ODD, EVENANDODD, EVEN}};
    int *p[MOMENTA], table[OPERATORS][MOMENTA], *tables[OPERATORS], how_many[OPERATORS], p_index[CORRELATORS],
        sink[CORRELATORS], phase[CORRELATORS], index[CORRELATORS], g, k, c;
    char *letters[MOMENTA];
    Real factor[CORRELATORS];
    complex *ours[CORRELATORS], *theirs[CORRELATORS];
    su3_vector *a = random_field(61), *b = random_field(62);
    su3_matrix *const links = ape_links;
    double apart = 0, size = 0;
    for (k = 0; k < MOMENTA; k++) {
        p[k] = momenta[k];
        letters[k] = parity[k];
    }
    for (g = 0; g < OPERATORS; g++) {
        how_many[g] = MOMENTA;
        tables[g] = table[g];
        for (k = 0; k < MOMENTA; k++) {
            c = table[g][k] = MOMENTA * g + k;
            p_index[c] = k;
            sink[c] = operators[g];
            phase[c] = (g + k) % 4;
            factor[c] = 0.5 + 0.25 * k - 0.125 * g;
            index[c] = c > 0 ? c - 1 : 0; /* the first two add up */
        }
    }
    for (c = 0; c < CORRELATORS; c++) {
        ours[c] = (complex *)calloc(nt, sizeof(complex));
        theirs[c] = (complex *)calloc(nt, sizeof(complex));
        ours[c][0].real = theirs[c][0].real = 2;
    }
    if (groups == LOCAL) /* local operators need no links, also of MILC's own */
        ape_links = NULL;
    ks_meson_cont_mom(ours, a, b, MOMENTA, p, letters, groups, how_many, tables, p_index, fn, fn, sink, phase, factor,
                      IF_DEVELOP(count) index, r0);
    ape_links = links;
    __real_ks_meson_cont_mom(theirs, a, b, MOMENTA, p, letters, groups, how_many, tables, p_index, fn, fn, sink, phase,
                             factor, IF_DEVELOP(count) index, r0);
    for (c = 0; c < CORRELATORS; c++)
        for (k = 0; k < nt; k++) {
            const double re = ours[c][k].real - theirs[c][k].real, im = ours[c][k].imag - theirs[c][k].imag;
            apart = fmax(apart, hypot(re, im));
            size = fmax(size, hypot(theirs[c][k].real, theirs[c][k].imag));
            if (!(re == re && im == im))
                apart = size + 1;
        }
    check(apart < (MILC_PRECISION == 1 ? 1e-5 : 1e-13) * size, "correlators", apart / size);
    for (c = 0; c < CORRELATORS; c++)
        free(ours[c]), free(theirs[c]);
    free(a), free(b);
}

static void try_shifts(const su3_vector *src, su3_vector *ours, su3_vector *theirs) {
#ifndef MILC_HOST_MASTER
    int k, refresh = 0;
    for (k = SHIFT_FORWARD; k <= SHIFT_SYMMETRIC; k++) {
        shift_field(k, (enum shift_dir)k, ours, src, ape_links, &refresh);
        __real_shift_field(k, (enum shift_dir)k, theirs, src, ape_links, &refresh);
        check_field(ours, theirs, "a shift");
        ape_links[5].e[1][2].real += 0.5; /* the library must see an edit in place */
    }
#else
    (void)src, (void)ours, (void)theirs;
#endif
}

extern int own_operators;

/* All local operators, with the origin r0. */
static void try_local(int *r0, su3_vector *src, su3_vector *ours, su3_vector *theirs) {
#ifdef MILC_HOST_MASTER
    const int threads = 0;
#else
    const int threads =
        milcgpu_plugin_active() && !milcgpu_plugin_compare() && milcgpu_plugin_by_all_threads(0, NULL, NULL) == 0;
#endif
    int spin;
    for (spin = 0; spin < 16; spin++) {
        const int before = own_operators;
        spin_taste_op(128 + 17 * spin, r0, ours, src);
        check(own_operators == before + !threads, "a local operator by all threads", spin);
        __real_spin_taste_op_ape_fn(NULL, 128 + 17 * spin, r0, theirs, src);
        check(memcmp(ours, theirs, sites_on_node * sizeof *ours) == 0, "every bit of a local operator", spin);
    }
    memcpy(ours, src, sites_on_node * sizeof *ours);
    spin_taste_op(128 + 17 * 15, r0, ours, ours);
    check(memcmp(ours, theirs, sites_on_node * sizeof *ours) == 0, "a local operator in place", 0);
}

void try_measurements(fn_links_t *fn) {
    /* One to four links, local, currents of both kinds. */
    const int operators[] = {
        128 + 15, 128 + 16 * 4 + 3, 128 + 16 * 15 + 7, 128 + 14, 128 + 16 * 15 + 4, 128, 26, 33, 41, 42};
    const int alone = getenv("MILC_HOST_RANKS") == NULL;
    int r0[4] = {1, 0, 2, 3}, k;
    su3_vector *src = random_field(51), *ours = copy(src), *theirs = copy(src);
    ape_links = create_G_from_site();
#ifndef MILC_HOST_MASTER
    ape_links_ks_phases = OFF;
#endif
    for (k = 0; k < (int)(sizeof operators / sizeof *operators); k++) {
        spin_taste_op_ape_fn(fn, operators[k], r0, ours, src);
#ifndef MILC_HOST_MASTER
        check(ape_links_ks_phases == ON, "phases come with the first operator", ape_links_ks_phases);
#endif
        __real_spin_taste_op_ape_fn(fn, operators[k], r0, theirs, src);
        check_field(ours, theirs, "a spin-taste operator");
    }
    memcpy(ours, src, sites_on_node * sizeof(su3_vector));
    spin_taste_op(operators[0], r0, ours, ours);
    __real_spin_taste_op_ape_fn(fn, operators[0], r0, theirs, src);
    check_field(ours, theirs, "a spin-taste operator in place");
    try_local(r0, src, ours, theirs);
    try_shifts(src, ours, theirs);
    for (k = ALL_T_SLICES; k < nt; k += 2) {
        memcpy(ours, src, sites_on_node * sizeof(su3_vector));
        memcpy(theirs, src, sites_on_node * sizeof(su3_vector));
        if (alone) /* what the glue does on several ranks before MILC's own */
            setenv("MILC_HOST_RANKS", "2", 1);
        gauss_smear_v_field(ours, ape_links, 1.5, 3, k);
        if (alone)
            unsetenv("MILC_HOST_RANKS");
        __real_gauss_smear_v_field(theirs, ape_links, 1.5, 3, k);
        check_field(ours, theirs, "smearing");
        laplacian_v_field(ours, ape_links, k);
        __real_laplacian_v_field(theirs, ape_links, k);
        check_field(ours, theirs, "the Laplacian");
    }
    try_contraction(fn, r0, OPERATORS);
    try_contraction(fn, r0, LOCAL);
    free(ape_links);
    free(src), free(ours), free(theirs);
}
