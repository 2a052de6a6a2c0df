/* MILC's tables of correlators, as its contractions of staggered quarks and of Dirac fields take them, and the rows to
 * which the contractions add. A row is a correlator: nt records of reals. */
#ifndef MILCGPU_CORRELATORS_H
#define MILCGPU_CORRELATORS_H

#include "glue.h"
#include <string.h>

enum { MILCGPU_MOST_MOMENTA = 100 }; /* MILC's limit; with more, MILC ends the run */

/* MILC's arguments, under MILC's names. */
typedef struct {
    int no_q_momenta, **q_momstore;
    char **q_parity;
    int groups, *num_corr_mom, **corr_table, *p_index, *meson_phase;
    Real *meson_factor;
    int *corr_index, *r0;
} milcgpu_tables;

static inline int milcgpu_has_tables(const milcgpu_tables *t, int num_corr) {
    return t->no_q_momenta >= 1 && t->no_q_momenta <= MILCGPU_MOST_MOMENTA && num_corr >= 1;
}
#define MILCGPU_WITHOUT_TABLES "MILC's own: there are no correlators, or not from 1 to 100 momenta"

static inline void milcgpu_list_momenta(milcgpu_momentum *momenta, const milcgpu_tables *t) {
    int k, mu;
    for (k = 0; k < t->no_q_momenta; k++)
        for (mu = 0; mu < 3; mu++) {
            momenta[k].p[mu] = t->q_momstore[k][mu];
            momenta[k].parity[mu] = t->q_parity[k][mu]; /* MILC's EVEN, ODD, EVENANDODD are the library's numbers */
        }
}

static inline int milcgpu_entries_of(const milcgpu_tables *t) {
    int g, n = 0;
    for (g = 0; g < t->groups; g++)
        n += t->num_corr_mom[g];
    return n;
}

/* For MILC's routines that do not get the number of correlators. */
static inline int milcgpu_correlators_of(const milcgpu_tables *t) {
    int g, k, n = 0;
    for (g = 0; g < t->groups; g++)
        for (k = 0; k < t->num_corr_mom[g]; k++) {
            const int index = t->corr_index[t->corr_table[g][k]];
            n = index >= n ? index + 1 : n;
        }
    return n;
}

/* MILC has one sum for each operator and momentum, and adds to it once for each entry of its table with the two. So the
 * k-th correlator of a group is too large by this factor. The second function returns the largest factor of all groups.
 */
static inline int milcgpu_repeats(const milcgpu_tables *t, int group, int k) {
    const int *const table = t->corr_table[group];
    int j, repeats = 0;
    for (j = 0; j < t->num_corr_mom[group]; j++)
        repeats += t->p_index[table[j]] == t->p_index[table[k]];
    return repeats;
}
static inline int milcgpu_most_repeats(const milcgpu_tables *t) {
    int g, k, most = 1;
    for (g = 0; g < t->groups; g++)
        for (k = 0; k < t->num_corr_mom[g]; k++) {
            const int repeats = milcgpu_repeats(t, g, k);
            most = repeats > most ? repeats : most;
        }
    return most;
}

static inline double milcgpu_largest_factor(const milcgpu_tables *t) {
    double largest = 0;
    int g, k;
    for (g = 0; g < t->groups; g++)
        for (k = 0; k < t->num_corr_mom[g]; k++) {
            const double factor = t->meson_factor[t->corr_table[g][k]], size = factor < 0 ? -factor : factor;
            largest = size > largest ? size : largest;
        }
    return largest;
}

/* ---- the rows ---------------------------------------------------------------------------------------------------- */

/* What a contraction adds to its rows. */
typedef struct {
    const milcgpu_tables *tables;
    int n;            /* number of rows */
    size_t reals;     /* in a row */
    int of_all_ranks; /* 1: MILC adds the contribution of this rank's sites; the device returns the sums of all ranks */
    int times;        /* 2: MILC's tables repeat a correlator, so MILC's own sums follow the sums */
    double *sums, *before; /* the device's sums; minus the rows before the call (plus MILC's sums, to compare) */
    const void *src1, *src2;
    int reals_of_source; /* for each site */
    milcgpu_output *rows;
} milcgpu_correlators;

static inline milcgpu_correlators milcgpu_new_correlators(const milcgpu_tables *t, int n, size_t reals) {
    milcgpu_correlators c;
    memset(&c, 0, sizeof c);
    c.tables = t;
    c.n = n;
    c.reals = reals;
    c.times = milcgpu_offloads() && milcgpu_plugin_compare() && milcgpu_most_repeats(t) > 1 ? 2 : 1;
    c.sums = (double *)milcgpu_room(((c.times + 1) * n * reals + 1) * sizeof(double), "correlators");
    memset(c.sums, 0, (c.times + 1) * n * reals * sizeof(double));
    c.before = c.sums + c.times * n * reals;
    c.rows = (milcgpu_output *)milcgpu_room((n + 1) * sizeof *c.rows, "correlators");
    memset(c.rows, 0, n * sizeof *c.rows);
    return c;
}
static inline void milcgpu_free_correlators(milcgpu_correlators *c) {
    free(c->sums);
    free(c->rows);
}

static inline void milcgpu_add_to_rows(milcgpu_correlators *c) {
    int m;
    size_t k;
    for (m = 0; m < c->n; m++)
        for (k = 0; k < c->reals; k++) {
            Real *const row = (Real *)c->rows[m].data;
            c->before[m * c->reals + k] = -row[k];
            if (!c->of_all_ranks || this_node == 0)
                row[k] += c->sums[m * c->reals + k];
        }
}

/* compare() for a call with these details, whose outputs are the rows. */
static inline int milcgpu_compare_rows(const milcgpu_call *call) {
    const milcgpu_correlators *const c = (const milcgpu_correlators *)call->details;
    const size_t all = c->n * c->reals;
    milcgpu_plugin_correlators pair;
    int m;
    size_t k;
    for (m = 0; m < c->n; m++)
        for (k = 0; k < c->reals; k++)
            c->before[m * c->reals + k] += ((const Real *)c->rows[m].theirs)[k];
    if (c->of_all_ranks)
        g_vecdoublesum(c->before, all);
    memset(&pair, 0, sizeof pair);
    pair.routine = call->row;
    pair.n = all / 2;
    pair.gpu = c->times > 1 ? c->sums + all : c->sums;
    pair.cpu = c->before;
    pair.sources[0] = c->src1;
    pair.sources[1] = c->src2;
    pair.reals = c->reals_of_source;
    pair.factor = milcgpu_largest_factor(c->tables);
    pair.repeats = milcgpu_most_repeats(c->tables);
    pair.seconds = call->seconds;
    pair.cpu_seconds = call->cpu_seconds;
    return milcgpu_plugin_compare_correlators(&pair);
}

#endif
