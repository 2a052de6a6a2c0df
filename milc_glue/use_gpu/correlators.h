/* MILC's tables of correlators, as its contractions of staggered quarks and of Dirac fields take them, and the rows
 * that these add to. A row is a correlator: nt records of reals. */
#ifndef MILCGPU_CORRELATORS_H
#define MILCGPU_CORRELATORS_H

#include "glue.h"

enum { MILCGPU_MOST_MOMENTA = 100 }; /* MILC's, which ends the run beyond */

static inline void milcgpu_list_momenta(milcgpu_momentum *momenta, int n, int **p, char **parity) {
    int k, mu;
    for (k = 0; k < n; k++)
        for (mu = 0; mu < 3; mu++) {
            momenta[k].p[mu] = p[k][mu];
            momenta[k].parity[mu] = parity[k][mu]; /* MILC's EVEN, ODD, EVENANDODD are the library's numbers */
        }
}

static inline int milcgpu_entries_of(int groups, const int *num_corr_mom) {
    int g, n = 0;
    for (g = 0; g < groups; g++)
        n += num_corr_mom[g];
    return n;
}

/* Where MILC does not say how many there are. */
static inline int milcgpu_correlators_of(int groups, const int *num_corr_mom, int **corr_table, const int *corr_index) {
    int g, k, n = 0;
    for (g = 0; g < groups; g++)
        for (k = 0; k < num_corr_mom[g]; k++)
            n = corr_index[corr_table[g][k]] >= n ? corr_index[corr_table[g][k]] + 1 : n;
    return n;
}

/* MILC has one sum for each operator and momentum, and adds to it as often as its table has both. So this is how many
 * times too large the k-th correlator of a group is, and the largest of these numbers in all groups. */
static inline int milcgpu_repeats(const int *table, int n, const int *p_index, int k) {
    int j, repeats = 0;
    for (j = 0; j < n; j++)
        repeats += p_index[table[j]] == p_index[table[k]];
    return repeats;
}
static inline int milcgpu_most_repeats(int groups, const int *num_corr_mom, int **corr_table, const int *p_index) {
    int g, k, most = 1;
    for (g = 0; g < groups; g++)
        for (k = 0; k < num_corr_mom[g]; k++) {
            const int repeats = milcgpu_repeats(corr_table[g], num_corr_mom[g], p_index, k);
            most = repeats > most ? repeats : most;
        }
    return most;
}

static inline double milcgpu_largest_factor(int groups, const int *num_corr_mom, int **corr_table,
                                            const Real *meson_factor) {
    double largest = 0;
    int g, k;
    for (g = 0; g < groups; g++)
        for (k = 0; k < num_corr_mom[g]; k++) {
            const double factor = meson_factor[corr_table[g][k]], size = factor < 0 ? -factor : factor;
            largest = size > largest ? size : largest;
        }
    return largest;
}

/* Around MILC's own, which adds to the rows: afterwards `added` is what it has added, and the rows are as before. */
static inline void milcgpu_rows_before(Real *const *rows, int n, size_t reals, double *added) {
    int m;
    size_t k;
    for (m = 0; m < n; m++)
        for (k = 0; k < reals; k++)
            added[m * reals + k] = -rows[m][k];
}
static inline void milcgpu_rows_after(Real *const *rows, int n, size_t reals, double *added) {
    int m;
    size_t k;
    for (m = 0; m < n; m++)
        for (k = 0; k < reals; k++) {
            const double before = -added[m * reals + k];
            added[m * reals + k] += rows[m][k];
            rows[m][k] = before;
        }
}
static inline void milcgpu_add_to_rows(Real *const *rows, int n, size_t reals, const double *sums) {
    int m;
    size_t k;
    for (m = 0; m < n; m++)
        for (k = 0; k < reals; k++)
            rows[m][k] += sums[m * reals + k];
}

#endif
