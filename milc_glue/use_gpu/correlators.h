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

/* to = factor i^phase from, as MILC numbers the phases; complex numbers. */
static inline void milcgpu_normalize(double *to, const double *from, int phase, double factor) {
    const double re = factor * from[0], im = factor * from[1];
    to[0] = phase == 0 ? re : phase == 1 ? -im : phase == 2 ? -re : im;
    to[1] = phase == 0 ? im : phase == 1 ? re : phase == 2 ? -im : -re;
}

/* ---- the rows ---------------------------------------------------------------------------------------------------- */

/* What a contraction adds to its rows. */
typedef struct {
    int n;            /* number of rows */
    size_t reals;     /* in a row */
    int of_all_ranks; /* 1: MILC adds the contribution of this rank's sites; the device returns the sums of all ranks */
    int times;        /* 2: MILC's formula differs, so in a comparison the sums by this formula follow the sums */
    double *sums, *before; /* the device's sums; minus the rows before the call (plus MILC's sums, to compare) */
    double divisor;        /* of what is added to the rows */
    char *skips;           /* 1 for rows that are not compared */
    const void *sources[3];
    int reals_of_source; /* for each site */
    double factor;       /* the largest */
    int repeats;         /* milcgpu_most_repeats */
    milcgpu_output *rows;
} milcgpu_correlators;

/* sums, before and skips are 0. */
static inline milcgpu_correlators milcgpu_new_rows(int n, size_t reals, int times) {
    milcgpu_correlators c;
    memset(&c, 0, sizeof c);
    c.n = n;
    c.reals = reals;
    c.times = times;
    c.divisor = c.repeats = 1;
    c.sums = (double *)milcgpu_room(((times + 1) * n * reals + 1) * sizeof(double), "correlators");
    memset(c.sums, 0, (times + 1) * n * reals * sizeof(double));
    c.before = c.sums + times * n * reals;
    c.rows = (milcgpu_output *)milcgpu_room((n + 1) * sizeof *c.rows, "correlators");
    memset(c.rows, 0, n * sizeof *c.rows);
    c.skips = (char *)milcgpu_room(n + 1, "correlators");
    memset(c.skips, 0, n + 1);
    return c;
}
static inline milcgpu_correlators milcgpu_new_correlators(const milcgpu_tables *t, int n, size_t reals) {
    const int repeats = milcgpu_most_repeats(t);
    milcgpu_correlators c =
        milcgpu_new_rows(n, reals, milcgpu_offloads() && milcgpu_plugin_compare() && repeats > 1 ? 2 : 1);
    c.factor = milcgpu_largest_factor(t);
    c.repeats = repeats;
    return c;
}
/* A row of baryons, with its factor. */
static inline void milcgpu_set_row(milcgpu_correlators *c, int m, complex *row, double factor) {
    const double size = factor < 0 ? -factor : factor;
    c->rows[m].data = row;
    c->rows[m].bytes = nt * sizeof(complex);
    c->factor = size > c->factor ? size : c->factor;
}
static inline void milcgpu_no_numbers(milcgpu_correlators *c, int m) {
    size_t k;
    for (k = 0; k < c->reals; k++)
        c->sums[m * c->reals + k] = 0.0 / 0.0;
}
static inline void milcgpu_free_correlators(milcgpu_correlators *c) {
    free(c->sums);
    free(c->rows);
    free(c->skips);
}

static inline void milcgpu_add_to_rows(milcgpu_correlators *c) {
    int m;
    size_t k;
    for (m = 0; m < c->n; m++)
        for (k = 0; k < c->reals; k++) {
            Real *const row = (Real *)c->rows[m].data;
            c->before[m * c->reals + k] = -row[k];
            if (!c->of_all_ranks || this_node == 0)
                row[k] += c->sums[m * c->reals + k] / c->divisor;
        }
}

/* compare() for a call with these details, whose outputs are the rows. */
static inline int milcgpu_compare_rows(const milcgpu_call *call) {
    const milcgpu_correlators *const c = (const milcgpu_correlators *)call->details;
    const size_t all = c->n * c->reals;
    double *const ours = c->times > 1 ? c->sums + all : c->sums;
    milcgpu_plugin_correlators pair;
    int m, compared = 0;
    size_t k;
    for (m = 0; m < c->n; m++)
        compared |= !c->skips[m];
    if (!compared)
        return 1;
    for (m = 0; m < c->n; m++)
        for (k = 0; k < c->reals; k++) {
            double *const theirs = &c->before[m * c->reals + k];
            *theirs += ((const Real *)c->rows[m].theirs)[k];
            if (c->skips[m])
                ours[m * c->reals + k] = *theirs = 0;
        }
    if (c->of_all_ranks)
        g_vecdoublesum(c->before, all);
    memset(&pair, 0, sizeof pair);
    pair.routine = call->row;
    pair.n = all / 2;
    pair.gpu = ours;
    pair.cpu = c->before;
    memcpy(pair.sources, c->sources, sizeof pair.sources);
    pair.reals = c->reals_of_source;
    pair.factor = c->factor;
    pair.repeats = c->repeats;
    pair.seconds = call->seconds;
    pair.cpu_seconds = call->cpu_seconds;
    return milcgpu_plugin_compare_correlators(&pair);
}

#endif
