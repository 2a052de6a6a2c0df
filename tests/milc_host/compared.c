/* Calls in which MILC's routine and milcgpu differ for a known reason, and calls that the library declines. */
#include "../generic_ks/generic_ks_includes.h"

#include "../include/fermion_links.h"

#include "../include/imp_ferm_links.h"
#include "checks.h"
#include <math.h>
#include <string.h>

/* In program.c. */

/* The iteration limit ends a solve of three sources, together and one alone. MILC restarts after every qic.max
 * iterations. */
static void try_limit_of_block(fn_links_t *fn) {
    quark_invert_control qic = control(EVEN);
    su3_vector *src[3], *x[3];
    int i;
    qic.max = 4, qic.nrestart = 2;
    for (i = 0; i < 3; i++) {
        src[i] = random_field(31 + i);
        x[i] = random_field(41 + i);
    }
    ks_congrad_block_parity_cpu(3, src, x, &qic, 0.02, fn);
    check(qic.converged == 0 && qic.final_iters >= 8, "a block at its limit", qic.final_iters);
    printf("starts of a block: %d\n", qic.final_restart);
    ks_congrad_parity_cpu(src[0], x[0], &qic, 0.02, fn);
    check(qic.converged == 0 && qic.final_iters >= 8, "a source at its limit", qic.final_iters);
    for (i = 0; i < 3; i++)
        free(src[i]), free(x[i]);
}

/* MILC tests squares: it ends at once with the guess if they are 0, and at the limit if they are NaN. */
static void try_without_tolerance(fn_links_t *fn) {
    const Real tiny = MILC_PRECISION == 1 ? 1e-30 : 1e-300, tolerances[3] = {0, tiny, -tiny};
    su3_vector *src = random_field(21), *x = random_field(22), *guess = random_field(22);
    ks_param masses[3] = {{0.1}, {0.2}, {0.9}};
    fn_links_t *links[3] = {fn, fn, fn};
    su3_vector *solutions[3] = {random_field(23), random_field(24), random_field(25)};
    quark_invert_control qic, of_mass[3];
    int k, j;
    for (k = 0; k < 3; k++) {
        qic = control(EVEN);
        qic.resid = tolerances[k];
        check(ks_congrad_parity_cpu(src, x, &qic, 0.1, fn) == 1, "iterations without a tolerance", qic.final_iters);
        check(mat_invert_uml_field(src, x, &qic, 0.1, fn) == 2, "iterations of UML without one", qic.final_iters);
        check(memcmp(x, guess, even_sites_on_node * sizeof(su3_vector)) == 0, "the guess stays", k);
        for (j = 0; j < 3; j++) {
            of_mass[j] = control(EVEN);
            of_mass[j].resid = tolerances[k];
            of_mass[j].max = 3, of_mass[j].nrestart = 1;
        }
        mat_invert_multi(src, solutions, masses, 3, of_mass, FIRST_AS_MULTI(links));
    }
    qic = control(EVEN);
    qic.resid = -qic.resid; /* MILC ignores the sign */
    ks_congrad_parity_cpu(src, x, &qic, 0.1, fn);
    check(qic.converged == 1 && qic.final_rsq < qic.resid * qic.resid, "a negative tolerance", qic.final_rsq);
    free(src), free(x), free(guess);
    for (j = 0; j < 3; j++)
        free(solutions[j]);
}

/* A table with an operator and a momentum twice, and a third correlator. */
static void try_repeated_correlators(fn_links_t *fn) {
    int momenta[2][3] = {{0, 0, 0}, {1, 0, 0}}, *p[2] = {momenta[0], momenta[1]}, table[3] = {0, 1, 2},
        *tables[1] = {table}, how_many[1] = {3}, p_index[3] = {0, 1, 0}, sink[3] = {196, 196, 196} /* pion */,
        phase[3] = {0, 1, 0}, index[3] = {0, 1, 2}, r0[4] = {0, 0, 0, 0}, k, t;
    char parity[2][3] = {{EVEN, EVEN, EVEN}, {EVENANDODD, EVEN, EVEN}}, *letters[2] = {parity[0], parity[1]};
    Real factor[3] = {1, 1, 0.5};
    su3_vector *src = random_field(11);
    complex *rows[3];
    double norm = 0, sum = 0;
    size_t i;
    for (k = 0; k < 3; k++)
        rows[k] = (complex *)calloc(nt, sizeof(complex));
    ks_meson_cont_mom(rows, src, src, 2, p, letters, 1, how_many, tables, p_index, fn, fn, sink, phase, factor,
                      IF_DEVELOP(3) index, r0);
    for (i = 0; i < 6 * sites_on_node; i++)
        norm += (double)((Real *)src)[i] * ((Real *)src)[i];
    for (t = 0; t < nt; t++)
        sum += rows[0][t].real;
    check(fabs(fabs(sum) / norm - 1) < 1e-5, "the pion, which is the norm", sum / norm);
    for (t = 0; t < nt; t++)
        check(fabs(rows[2][t].real - 0.5 * rows[0][t].real) < 1e-5 * norm, "the pion again", t);
    for (k = 0; k < 3; k++)
        free(rows[k]);
    free(src);
}

static void try_smearing_without_width(void) {
    su3_vector *x = random_field(12);
    gauss_smear_v_field(x, ape_links, 0, 2, ALL_T_SLICES);
    check(x[3].c[1].real != x[3].c[1].real, "smearing without a width is NaN, as MILC's", 0);
    free(x);
}

/* Calls that the device does not do: each logs its reason once (test_milc_host.cpp has the lines). */
void try_declined(fn_links_t *fn) {
    int r0[4] = {0, 0, 0, 0}, pass, refresh = 0;
    double space, time;
    su3_vector *src = random_field(71), *x = random_field(72), *solutions[1] = {x};
    ks_action_paths asqtad;
    ks_action_paths_hisq hisq;
    info_t info = {0};
    su3_matrix *links, *smeared;
    ks_param massless[1] = {{0}};
    fill_action(&asqtad, &hisq);
    memset(&asqtad.p.act_path_coeff, 0, sizeof asqtad.p.act_path_coeff);
    ape_links = create_G_from_site();
    links = create_G_from_site(), smeared = create_G_from_site();
    for (pass = 0; pass < 2; pass++) {
        quark_invert_control qic = control(EVEN);
        ks_congrad_parity_cpu(src, x, &qic, 0.1, fn);
        qic.resid = 0;
        ks_congrad_parity_cpu(src, x, &qic, 0.1, fn);
        mat_invert_uml_field(src, x, &qic, 0.1, fn);
        qic = control(EVEN);
        qic.max = 2, qic.nrestart = 1;
        ks_multicg_offset_field_cpu(src, solutions, massless, 1, &qic, fn);
        dslash_fn_field(x, x, EVENANDODD, fn);
        load_fatlinks_cpu(&info, smeared, &asqtad.p, links);
        gauss_smear_v_field(x, ape_links, 1.5, 0, ALL_T_SLICES);
#ifndef MILC_HOST_MASTER
        shift_field(XUP, SHIFT_FORWARD, x, x, ape_links, &refresh);
#endif
        ks_meson_cont_mom(NULL, src, x, 0, NULL, NULL, 0, NULL, NULL, NULL, fn, fn, NULL, NULL, NULL,
                          IF_DEVELOP(0) NULL, r0);
        gaugefix(TUP, 1.8, 0, 1e-6);
        ape_smear_field(links, smeared, -0.1, 1, 1, 10, 1e-5);
        g_measure(); /* with phases in */
        d_plaquette(&space, &time);
    }
    check(info.final_flop > 0, "what MILC's own leaves", info.final_flop);
    (void)refresh;
    free(links), free(smeared), free(ape_links);
    free(src), free(x);
}

void try_compared(fn_links_t *fn) {
    try_limit_of_block(fn);
    try_without_tolerance(fn);
    ape_links = create_G_from_site();
    try_repeated_correlators(fn);
    try_smearing_without_width();
    free(ape_links);
}
