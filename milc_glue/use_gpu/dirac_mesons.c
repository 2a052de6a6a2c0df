/* meson_cont_mom and meson_open_mom: contractions of Dirac fields, with MILC's timing lines. MILC adds the ranks. */
#include "correlators.h"

#include "routines.h"

#define TABLES                                                                                                         \
    spin_wilson_vector *src1, spin_wilson_vector *src2, int no_q_momenta, int **q_momstore, char **q_parity,           \
        int groups, int *num_corr_mom, int **corr_table, int *p_index, int *gout, int *gin, int *meson_phase,          \
        Real *meson_factor, int *corr_index, int *r0
#define TABLES_GIVEN                                                                                                   \
    src1, src2, no_q_momenta, q_momstore, q_parity, groups, num_corr_mom, corr_table, p_index, gout, gin, meson_phase, \
        meson_factor, corr_index, r0

typedef struct {
    const milcgpu_tables *tables;
    spin_wilson_vector *src1, *src2;
    const int *gout, *gin;
    int open; /* 1: meson_open_mom */
} contraction;

/* MILC's list of gamma matrices is the library's; GAMMAFIVE is an older name of G5. */
static int gamma_of(int milcs) { return milcs == -1 ? 4 : milcs; }

/* Converts MILC's groups and tables to a list of terms. milcs: NULL, or gets the same terms as MILC adds them, for
 * num_corr correlators after the others. Returns 0 if there is something that MILC's routine refuses. */
static int list_terms(const contraction *c, milcgpu_dirac_term *terms, milcgpu_dirac_term *milcs, int num_corr) {
    const milcgpu_tables *const t = c->tables;
    int g, k, n = 0;
    for (g = 0; g < t->groups; g++)
        for (k = 0; k < t->num_corr_mom[g]; k++, n++) {
            const int m = t->corr_table[g][k], first = t->corr_table[g][0];
            const milcgpu_dirac_term term = {gamma_of(c->gin[m]), gamma_of(c->gout[m]), t->p_index[m],
                                             t->meson_phase[m],   t->meson_factor[m],   t->corr_index[m]};
            if (c->gin[m] != c->gin[first] || c->gout[m] != c->gout[first])
                return 0;
            terms[n] = term;
            if (milcs != NULL) {
                milcs[n] = term;
                milcs[n].factor *= milcgpu_repeats(t, g, k);
                milcs[n].correlator += num_corr;
            }
        }
    return 1;
}

/* As MILC counts: consecutive gamma matrices of one kind count once. */
static double flops_of(const contraction *c) {
    const milcgpu_tables *const t = c->tables;
    const int *const gammas = c->open ? c->gin : c->gout;
    double flops = (c->open ? 68.0 : 18.0) * t->no_q_momenta * sites_on_node;
    int g, last = -999;
    for (g = 0; g < t->groups; g++) {
        const int n = t->num_corr_mom[g], gamma = n > 0 ? gammas[t->corr_table[g][0]] : last;
        flops += (gamma != last ? 1536.0 : 0) * sites_on_node;
        flops += (c->open ? 1152.0 : 128.0) * n * sites_on_node + (c->open ? 0 : 4.0 * nt * n);
        last = gamma;
    }
    return flops;
}

static int contract(const milcgpu_call *call, const contraction *c, milcgpu_correlators *to) {
    const milcgpu_tables *const t = c->tables;
    const int n = milcgpu_entries_of(t);
    const double flops = flops_of(c);
    milcgpu_momentum *momenta = (milcgpu_momentum *)milcgpu_room(t->no_q_momenta * sizeof *momenta, "momenta");
    milcgpu_dirac_term *terms =
        (milcgpu_dirac_term *)milcgpu_room(to->times * n * sizeof *terms, "terms of correlators");
    int done = list_terms(c, terms, to->times > 1 ? terms + n : NULL, to->n);
    if (done) {
        milcgpu_dirac_meson_spec spec;
        memset(&spec, 0, sizeof spec);
        spec.struct_size = sizeof spec;
        spec.basis = MILCGPU_GAMMAS_MILC;
        memcpy(spec.origin, t->r0, sizeof spec.origin);
        spec.n_momenta = t->no_q_momenta;
        spec.n_terms = to->times * n;
        spec.n_correlators = to->times * to->n;
        spec.momenta = momenta;
        spec.terms = terms;
        milcgpu_list_momenta(momenta, t);
        done = milcgpu_plugin_dirac_mesons(c->open, &spec, milcgpu_field_of(c->src1), milcgpu_field_of(c->src2), flops,
                                           to->sums);
    }
    free(momenta);
    free(terms);
    if (done) {
        const double seconds = milcgpu_seconds_so_far(call);
        node0_printf("WMTIME: time %.1e sec %g flops %.1f MF\n", seconds, flops, flops / (seconds * 1e6));
        fflush(stdout);
        milcgpu_add_to_rows(to);
    }
    return done;
}

/* One of prop and open is NULL. */
static void own(complex **prop, wilson_propagator **open, TABLES) {
    if (open != NULL)
        milcgpu_original(meson_open_mom)(open, TABLES_GIVEN);
    else
        milcgpu_original(meson_cont_mom)(prop, TABLES_GIVEN);
}

static void meson(complex **prop, wilson_propagator **open, TABLES) {
    const milcgpu_tables t = {no_q_momenta, q_momstore,   q_parity,   groups, num_corr_mom, corr_table, p_index,
                              meson_phase,  meson_factor, corr_index, r0};
    const contraction c = {&t, src1, src2, gout, gin, open != NULL};
    const int num_corr = milcgpu_correlators_of(&t);
    const size_t bytes = nt * (open != NULL ? sizeof **open : sizeof **prop);
    milcgpu_correlators rows = milcgpu_new_correlators(&t, num_corr, bytes / sizeof(Real));
    milcgpu_call call =
        MILCGPU_MEMBERS(.row = open != NULL ? MILCGPU_DIRAC_OPEN_MESON : MILCGPU_DIRAC_MESON,
                        .name = open != NULL ? "meson_open_mom" : "meson_cont_mom",
                        .why_own = milcgpu_has_tables(&t, num_corr) ? NULL : MILCGPU_WITHOUT_TABLES,
                        .outputs = rows.rows, .n_outputs = num_corr, .compare = milcgpu_compare_rows, .details = &rows);
    int m;
    rows.of_all_ranks = 1;
    rows.sources[0] = src1, rows.sources[1] = src2, rows.reals_of_source = 96;
    for (m = 0; m < num_corr; m++)
        rows.rows[m].data = open != NULL ? (void *)open[m] : (void *)prop[m], rows.rows[m].bytes = bytes;
    milcgpu_offload(&call, contract(&call, &c, &rows), own(prop, open, TABLES_GIVEN));
    milcgpu_free_correlators(&rows);
}

void __wrap_meson_cont_mom(complex **prop, TABLES) { meson(prop, NULL, TABLES_GIVEN); }

void __wrap_meson_open_mom(wilson_propagator **prop, TABLES) { meson(NULL, prop, TABLES_GIVEN); }
