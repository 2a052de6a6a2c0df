/* meson_cont_mom and meson_open_mom: contractions of Dirac fields, with MILC's timing lines. MILC adds the ranks up. */
#include "correlators.h"
#include <string.h>

#include "routines.h"

#define TABLES                                                                                                         \
    spin_wilson_vector *src1, spin_wilson_vector *src2, int no_q_momenta, int **q_momstore, char **q_parity,           \
        int groups, int *num_corr_mom, int **corr_table, int *p_index, int *gout, int *gin, int *meson_phase,          \
        Real *meson_factor, int *corr_index, int *r0
#define TABLES_GIVEN                                                                                                   \
    src1, src2, no_q_momenta, q_momstore, q_parity, groups, num_corr_mom, corr_table, p_index, gout, gin, meson_phase, \
        meson_factor, corr_index, r0

/* MILC's list of gamma matrices is the library's; GAMMAFIVE is an older name of G5. */
static int gamma_of(int milcs) { return milcs == -1 ? 4 : milcs; }

/* MILC's groups and tables as a list of terms; milcs: NULL, or the same terms as MILC adds them, for num_corr
 * correlators behind the others. 0: there is something that MILC's routine refuses. */
static int list_terms(milcgpu_dirac_term *terms, milcgpu_dirac_term *milcs, int num_corr, int groups,
                      const int *num_corr_mom, int **corr_table, const int *p_index, const int *gout, const int *gin,
                      const int *meson_phase, const Real *meson_factor, const int *corr_index) {
    int g, k, n = 0;
    for (g = 0; g < groups; g++)
        for (k = 0; k < num_corr_mom[g]; k++, n++) {
            const int c = corr_table[g][k], first = corr_table[g][0];
            const milcgpu_dirac_term term = {gamma_of(gin[c]), gamma_of(gout[c]), p_index[c],
                                             meson_phase[c],   meson_factor[c],   corr_index[c]};
            if (gin[c] != gin[first] || gout[c] != gout[first])
                return 0;
            terms[n] = term;
            if (milcs != NULL) {
                milcs[n] = term;
                milcs[n].factor *= milcgpu_repeats(corr_table[g], num_corr_mom[g], p_index, k);
                milcs[n].correlator += num_corr;
            }
        }
    return 1;
}

/* As MILC counts them: gamma matrices of one kind in a row are done once. */
static double flops_of(int open, int momenta, int groups, const int *num_corr_mom, int **corr_table, const int *gout,
                       const int *gin) {
    const int *const gammas = open ? gin : gout;
    double flops = (open ? 68.0 : 18.0) * momenta * sites_on_node;
    int g, last = -999;
    for (g = 0; g < groups; g++) {
        const int gamma = num_corr_mom[g] > 0 ? gammas[corr_table[g][0]] : last;
        flops += (gamma != last ? 1536.0 : 0) * sites_on_node;
        flops += (open ? 1152.0 : 128.0) * num_corr_mom[g] * sites_on_node + (open ? 0 : 4.0 * nt * num_corr_mom[g]);
        last = gamma;
    }
    return flops;
}

/* sums: zero; twice as many where as_milc: then as MILC has them. 1: done. */
static int contract(int open, double *sums, int as_milc, int num_corr, TABLES) {
    const int n = milcgpu_entries_of(groups, num_corr_mom), times = as_milc ? 2 : 1;
    milcgpu_momentum *momenta = (milcgpu_momentum *)milcgpu_room(no_q_momenta * sizeof *momenta, "momenta");
    milcgpu_dirac_term *terms = (milcgpu_dirac_term *)milcgpu_room(times * n * sizeof *terms, "terms of correlators");
    int done = list_terms(terms, as_milc ? terms + n : NULL, num_corr, groups, num_corr_mom, corr_table, p_index, gout,
                          gin, meson_phase, meson_factor, corr_index);
    if (done) {
        milcgpu_dirac_meson_spec spec;
        memset(&spec, 0, sizeof spec);
        spec.struct_size = sizeof spec;
        spec.basis = MILCGPU_GAMMAS_MILC;
        memcpy(spec.origin, r0, sizeof spec.origin);
        spec.n_momenta = no_q_momenta;
        spec.n_terms = times * n;
        spec.n_correlators = times * num_corr;
        spec.momenta = momenta;
        spec.terms = terms;
        milcgpu_list_momenta(momenta, no_q_momenta, q_momstore, q_parity);
        done = milcgpu_plugin_dirac_mesons(open, &spec, milcgpu_field_of(src1), milcgpu_field_of(src2),
                                           flops_of(open, no_q_momenta, groups, num_corr_mom, corr_table, gout, gin),
                                           sums);
    }
    free(momenta);
    free(terms);
    return done;
}

/* One of the two; the other is NULL. */
static void milcs_own(complex **prop, wilson_propagator **open, TABLES) {
    if (open != NULL)
        milcgpu_original(meson_open_mom)(open, TABLES_GIVEN);
    else
        milcgpu_original(meson_cont_mom)(prop, TABLES_GIVEN);
}

/* The same, counted; returns seconds. */
static double original(complex **prop, wilson_propagator **open, TABLES) {
    const milcgpu_routine routine = open != NULL ? MILCGPU_DIRAC_OPEN_MESON : MILCGPU_DIRAC_MESON;
    return milcgpu_by_milc(routine, milcs_own(prop, open, TABLES_GIVEN));
}

static void meson(complex **prop, wilson_propagator **open, TABLES) {
    const int num_corr = milcgpu_correlators_of(groups, num_corr_mom, corr_table, corr_index);
    const size_t reals = nt * (open != NULL ? sizeof **open : sizeof **prop) / sizeof(Real), all = num_corr * reals;
    const int repeats = milcgpu_most_repeats(groups, num_corr_mom, corr_table, p_index);
    const int as_milc = repeats > 1 && milcgpu_plugin_compare();
    double *sums, *theirs, seconds, cpu_seconds;
    Real **rows;
    int done, m;
    if (no_q_momenta < 1 || no_q_momenta > MILCGPU_MOST_MOMENTA || num_corr < 1 || !milcgpu_offloads()) {
        milcs_own(prop, open, TABLES_GIVEN);
        return;
    }
    sums = (double *)milcgpu_room((2 + as_milc) * all * sizeof(double), "correlators");
    memset(sums, 0, (2 + as_milc) * all * sizeof(double));
    theirs = sums + (1 + as_milc) * all;
    rows = (Real **)milcgpu_room(num_corr * sizeof *rows, "correlators");
    for (m = 0; m < num_corr; m++)
        rows[m] = open != NULL ? (Real *)open[m] : (Real *)prop[m];
    seconds = -milcgpu_plugin_seconds();
    done = contract(open != NULL, sums, as_milc, num_corr, TABLES_GIVEN);
    seconds += milcgpu_plugin_seconds();
    if (!done) {
        original(prop, open, TABLES_GIVEN);
    } else {
        const double flops = flops_of(open != NULL, no_q_momenta, groups, num_corr_mom, corr_table, gout, gin);
        node0_printf("WMTIME: time %.1e sec %g flops %.1f MF\n", seconds, flops, flops / (seconds * 1e6));
        fflush(stdout);
    }
    if (done && milcgpu_plugin_compare()) {
        milcgpu_rows_before(rows, num_corr, reals, theirs);
        cpu_seconds = original(prop, open, TABLES_GIVEN);
        milcgpu_rows_after(rows, num_corr, reals, theirs);
        g_vecdoublesum(theirs, all);
        milcgpu_judge(milcgpu_plugin_compare_correlators(
            open != NULL ? MILCGPU_DIRAC_OPEN_MESON : MILCGPU_DIRAC_MESON, 96, all / 2, as_milc ? sums + all : sums,
            theirs, src1, src2, milcgpu_largest_factor(groups, num_corr_mom, corr_table, meson_factor), repeats,
            seconds, cpu_seconds));
    }
    if (done && this_node == 0) /* the sums are of all ranks */
        milcgpu_add_to_rows(rows, num_corr, reals, sums);
    free(rows);
    free(sums);
}

void __wrap_meson_cont_mom(complex **prop, TABLES) { meson(prop, NULL, TABLES_GIVEN); }

void __wrap_meson_open_mom(wilson_propagator **prop, TABLES) { meson(NULL, prop, TABLES_GIVEN); }
