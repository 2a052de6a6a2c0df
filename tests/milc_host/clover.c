/* Solves with the clover matrix, D and contractions of Dirac fields, each beside MILC's own. */
#include "../generic_ks/generic_ks_includes.h"
#include "checks.h"
#include "plugin.h"
#include <math.h>
#include <string.h>

int __real_bicgilu_cl_field_cpu(wilson_vector *, wilson_vector *, quark_invert_control *, void *);
void __real_dslash_w_field(wilson_vector *, wilson_vector *, int, int);
#define TABLES                                                                                                         \
    spin_wilson_vector *, spin_wilson_vector *, int, int **, char **, int, int *, int **, int *, int *, int *, int *,  \
        Real *, int *, int *
void __real_meson_cont_mom(complex **, TABLES);
void __real_meson_open_mom(wilson_propagator **, TABLES);

/* In program.c. */

static wilson_vector *random_wilson(unsigned seed) {
    wilson_vector *f = (wilson_vector *)malloc(sites_on_node * sizeof(wilson_vector));
    size_t i;
    int d;
    for (d = 0; d < 4; d++) {
        su3_vector *one = random_field(seed + d);
        for (i = 0; i < sites_on_node; i++)
            f[i].d[d] = one[i];
        free(one);
    }
    return f;
}
static wilson_vector *copy_of(const wilson_vector *f) {
    wilson_vector *to = (wilson_vector *)malloc(sites_on_node * sizeof(wilson_vector));
    memcpy(to, f, sites_on_node * sizeof(wilson_vector));
    return to;
}

static void try_one(Real kappa, Real clov_c, int relative_alone, Real relresid, int guess, int max) {
    dirac_clover_param dirac = {kappa, clov_c, 0.9};
    quark_invert_control ours = control(EVENANDODD), theirs;
    wilson_vector *src = random_wilson(71), *before = copy_of(src), *x = random_wilson(81), *y;
    int iterations;
    if (!guess)
        memset(x, 0, sites_on_node * sizeof(wilson_vector));
    y = copy_of(x);
    ours.relresid = relresid;
    if (relative_alone)
        ours.resid = 0;
    if (max > 0)
        ours.max = max, ours.nrestart = 1;
    theirs = ours;
    if (clov_c == 0) {
        dirac_wilson_param wilson = {kappa};
        iterations = bicgilu_w_field(src, x, &ours, &wilson);
    } else {
        iterations = bicgilu_cl_field_cpu(src, x, &ours, &dirac);
    }
    memcpy(src, before, sites_on_node * sizeof(wilson_vector)); /* MILC's own overwrites it */
    milcgpu_plugin_original(MILCGPU_CLOVER_SOLVE, 1);
    __real_bicgilu_cl_field_cpu(src, y, &theirs, &dirac);
    milcgpu_plugin_original(MILCGPU_CLOVER_SOLVE, 0);
    check(ours.final_iters == iterations && iterations > 0, "iterations of a clover solve", iterations);
    if (max > 0) {
        check(iterations == max && ours.final_rsq > ours.resid * ours.resid, "a clover solve at its limit", iterations);
    } else {
        check(relative_alone || ours.final_rsq <= ours.resid * ours.resid, "residual of a clover solve",
              ours.final_rsq);
        check(relresid <= 0 || ours.final_relrsq <= relresid * relresid, "relative residual", ours.final_relrsq);
        check(ours.final_restart >= 1, "starts", ours.final_restart);
        /* |M^-1| is below 10 here. */
        check(difference(x, y, 24 * sites_on_node) < 20 * (relative_alone ? relresid : ours.resid),
              "solution with the clover matrix", difference(x, y, 24 * sites_on_node));
    }
    free(src), free(before), free(x), free(y);
}

static void try_zero_source(void) {
    dirac_clover_param dirac = {0.1, 1, 1};
    quark_invert_control qic = control(EVENANDODD);
    wilson_vector *src = random_wilson(91), *x = copy_of(src);
    memset(src, 0, sites_on_node * sizeof(wilson_vector));
    check(bicgilu_cl_field_cpu(src, x, &qic, &dirac) == 0, "iterations of a zero source", qic.final_iters);
    check(memcmp(src, x, sites_on_node * sizeof(wilson_vector)) == 0, "solution of a zero source", 0);
    free(src), free(x);
}

/* MILC tests squares: it ends before the first step if they are 0, and goes on to the limit if they are NaN. */
static void try_without_tolerance(void) {
    const Real tiny = MILC_PRECISION == 1 ? 1e-30 : 1e-300, tolerances[3] = {0, tiny, NAN};
    dirac_clover_param dirac = {0.1, 1, 1};
    int k;
    for (k = 0; k < 3; k++) {
        quark_invert_control qic = control(EVENANDODD);
        wilson_vector *src = random_wilson(91), *x = random_wilson(92);
        qic.resid = tolerances[k];
        qic.max = 3, qic.nrestart = 1;
        check(bicgilu_cl_field_cpu(src, x, &qic, &dirac) == (k < 2 ? 0 : 3), "steps without a tolerance", k);
        free(src), free(x);
    }
}

/* D, on some sites and on all, and in place. */
static void try_dslash(void) {
    const int parities[] = {EVEN, ODD, EVENANDODD};
    const double limit = MILC_PRECISION == 1 ? 1e-6 : 1e-14;
    wilson_vector *src = random_wilson(101);
    int k;
    for (k = 0; k < 6; k++) {
        wilson_vector *ours = random_wilson(111), *theirs = copy_of(ours);
        dslash_w_field(src, ours, k % 2 ? 1 : -1, parities[k / 2]);
        __real_dslash_w_field(src, theirs, k % 2 ? 1 : -1, parities[k / 2]);
        check(difference(ours, theirs, 24 * sites_on_node) < limit, "D of a Wilson field",
              difference(ours, theirs, 24 * sites_on_node));
        memcpy(ours, src, sites_on_node * sizeof(wilson_vector));
        memcpy(theirs, src, sites_on_node * sizeof(wilson_vector));
        dslash_w_field(ours, ours, 1, parities[k / 2]);
        __real_dslash_w_field(theirs, theirs, 1, parities[k / 2]);
        check(difference(ours, theirs, 24 * sites_on_node) < limit, "D in place",
              difference(ours, theirs, 24 * sites_on_node));
        free(ours), free(theirs);
    }
    free(src);
}

static spin_wilson_vector *random_spin_wilson(unsigned seed) {
    spin_wilson_vector *f = (spin_wilson_vector *)malloc(sites_on_node * sizeof(spin_wilson_vector));
    size_t i;
    int d;
    for (d = 0; d < 4; d++) {
        wilson_vector *one = random_wilson(seed + 10 * d);
        for (i = 0; i < sites_on_node; i++)
            f[i].d[d] = one[i];
        free(one);
    }
    return f;
}

enum { GROUPS = 4, MOMENTA = 2, CORRELATORS = GROUPS * MOMENTA };

static void check_rows(const void *ours, const void *theirs, size_t reals, const char *what) {
    const double apart = difference(ours, theirs, reals);
    check(apart < (MILC_PRECISION == 1 ? 1e-5 : 1e-13), what, apart);
}

/* Both contractions, also of one field with itself, added to rows that are not zero. repeated: all momenta equal the
 * first, which makes MILC's rows larger than ours; compare mode knows why. */
static void try_contractions(int same, int repeated) {
    int gammas[GROUPS][2] = {{4, 4}, {4, 14}, {0, 0}, {11, 5}}; /* G5 G5, G5 G5T, GX GX, G5X GYZ: source, sink */
    int momenta[MOMENTA][3] = {{0, 0, 0}, {1, -1, 2}};
    char parity[MOMENTA][3] = {{EVEN, EVEN, EVEN}, {EVENANDODD, ODD, EVEN}};
    int *p[MOMENTA], table[GROUPS][MOMENTA], *tables[GROUPS], how_many[GROUPS], p_index[CORRELATORS], gin[CORRELATORS],
        gout[CORRELATORS], phase[CORRELATORS], index[CORRELATORS], r0[4] = {1, 0, 3, 0}, g, k, c;
    char *letters[MOMENTA];
    Real factor[CORRELATORS];
    complex *rows[2][CORRELATORS];
    wilson_propagator *open[2][CORRELATORS];
    spin_wilson_vector *a = random_spin_wilson(121), *b = same ? a : random_spin_wilson(161);
    for (k = 0; k < MOMENTA; k++) {
        p[k] = momenta[k];
        letters[k] = parity[k];
    }
    for (g = 0; g < GROUPS; g++) {
        how_many[g] = MOMENTA;
        tables[g] = table[g];
        for (k = 0; k < MOMENTA; k++) {
            c = table[g][k] = MOMENTA * g + k;
            p_index[c] = repeated ? 0 : k;
            gin[c] = gammas[g][0];
            gout[c] = gammas[g][1];
            phase[c] = (g + k) % 4;
            factor[c] = 0.5 + 0.25 * k - 0.125 * g;
            index[c] = c > 0 ? c - 1 : 0; /* the first two add up */
        }
    }
    for (k = 0; k < 2; k++)
        for (c = 0; c < CORRELATORS; c++) {
            rows[k][c] = (complex *)calloc(nt, sizeof(complex));
            open[k][c] = (wilson_propagator *)calloc(nt, sizeof(wilson_propagator));
            rows[k][c][1].real = 2, open[k][c][1].c[2].d[1].d[3].c[0].imag = 3;
        }
    meson_cont_mom(rows[0], a, b, MOMENTA, p, letters, GROUPS, how_many, tables, p_index, gout, gin, phase, factor,
                   index, r0);
    __real_meson_cont_mom(rows[1], a, b, MOMENTA, p, letters, GROUPS, how_many, tables, p_index, gout, gin, phase,
                          factor, index, r0);
    meson_open_mom(open[0], a, b, MOMENTA, p, letters, GROUPS, how_many, tables, p_index, gout, gin, phase, factor,
                   index, r0);
    __real_meson_open_mom(open[1], a, b, MOMENTA, p, letters, GROUPS, how_many, tables, p_index, gout, gin, phase,
                          factor, index, r0);
    for (c = 0; c < CORRELATORS - 1 && !repeated; c++) {
        check_rows(rows[0][c], rows[1][c], 2 * nt, "a meson");
        check_rows(open[0][c], open[1][c], 288 * nt, "an open meson");
    }
    for (k = 0; k < 2; k++)
        for (c = 0; c < CORRELATORS; c++)
            free(rows[k][c]), free(open[k][c]);
    free(a);
    if (!same)
        free(b);
}

void try_dirac(const char *fault) {
    try_contractions(0, 0);
    inject(fault);
    try_contractions(1, 0);
    try_contractions(1, 1);
    try_dslash();
}

void try_clover(const char *fault) {
    const Real relative = MILC_PRECISION == 1 ? 2e-5 : 1e-9;
    try_one(0.1, 1.2, 0, 0, 0, 0);
    inject(fault);
    try_one(0.1, 1.2, 0, relative, 1, 0);
    try_one(0.1, 1.2, 1, 1000 * relative, 0, 0); /* less exact than solves with a tolerance for the residual */
    try_without_tolerance();
    try_one(0.12, 0, 0, 0, 0, 0);            /* Wilson */
    lattice[5].link[2].e[1][2].real += 0.25; /* the library must see an edit in place */
    try_one(0.1, 1, 0, 0, 0, 0);
    try_one(0.1, 1, 0, 0, 0, 2);
    try_zero_source();
}
