/* ks_baryon_nd: nucleon and delta. MILC sums over the ranks twice, so on N ranks it prints N times the correlators. The
 * rows get the correlators, which MILC then sums once more. With MILCGPU_BARYONS=right the rows get the correlators
 * divided by N. */
#include "correlators.h"

#include "../include/imp_ferm_links.h"

#include "routines.h"

typedef struct {
    ks_prop_field *quarks[3];
    int n, *types, *phases;
    Real *factors;
} baryons;

static int is_there(const ks_prop_field *quark) { return quark != NULL && quark->nc == 3; }

static const char *why_own(const baryons *b) {
    int k;
    for (k = 0; k < 3; k++)
        if (!is_there(b->quarks[k]))
            return "MILC's own: a quark does not have three colours";
    for (k = 0; k < b->n; k++)
        if (b->types[k] != 0 && b->types[k] != 1)
            return "MILC's own: a sink is neither nucleon nor delta";
    return b->n < 1 ? "MILC's own: there are no correlators" : NULL;
}

static int tie_up(const baryons *b, milcgpu_correlators *to) {
    const void *fields[9];
    double *sums[2] = {NULL, NULL}, *const room = (double *)milcgpu_room(4 * nt * sizeof(double), "baryons");
    int k, t, done;
    memset(room, 0, 4 * nt * sizeof(double));
    for (k = 0; k < 9; k++)
        fields[k] = NULL;
    for (k = 0; k < b->n; k++)
        sums[b->types[k]] = room + 2 * nt * b->types[k];
    for (k = 0; k < 3; k++) {
        if (sums[0] != NULL)
            fields[4 * k] = b->quarks[k]->v[k];
        if (sums[1] != NULL)
            fields[k] = b->quarks[0]->v[k];
    }
    done = milcgpu_plugin_baryons(fields, sums[0], sums[1]);
    for (k = 0; done && k < b->n; k++) {
        double *const row = to->sums + k * to->reals;
        for (t = 0; t < nt; t++)
            milcgpu_normalize(row + 2 * t, sums[b->types[k]] + 2 * t, b->phases[k], b->factors[k]);
        if (b->types[k] == 1 && (b->quarks[1] != b->quarks[0] || b->quarks[2] != b->quarks[0]))
            node0_printf("WARNING: No provision for non-degenerate deltas!\n");
    }
    free(room);
    if (done)
        milcgpu_add_to_rows(to);
    return done;
}

void __wrap_ks_baryon_nd(complex *prop[], ks_prop_field *qp0, ks_prop_field *qp1, ks_prop_field *qp2, int num_corr_b,
                         int baryon_type_snk[], int phase[], Real fact[]) {
    const baryons b = {{qp0, qp1, qp2}, num_corr_b, baryon_type_snk, phase, fact};
    const int n = num_corr_b > 0 ? num_corr_b : 0;
    milcgpu_correlators rows = milcgpu_new_rows(n, 2 * (size_t)nt, 1);
    milcgpu_call call = MILCGPU_MEMBERS(.row = MILCGPU_BARYON, .name = "ks_baryon_nd", .needs = MILCGPU_SOLUTIONS,
                                        .why_own = why_own(&b), .outputs = rows.rows, .n_outputs = n,
                                        .compare = milcgpu_compare_rows, .details = &rows);
    int k;
    rows.of_all_ranks = 1;
    rows.reals_of_source = 6;
    for (k = 0; k < 3 && call.why_own == NULL; k++)
        rows.sources[k] = b.quarks[k]->v[k];
    for (k = 0; k < n; k++)
        milcgpu_set_row(&rows, k, prop[k], fact[k]);
    if (call.why_own == NULL && milcgpu_offloads() && numnodes() > 1) {
        const int right = milcgpu_plugin_right_baryons();
        rows.divisor = right ? numnodes() : 1;
        milcgpu_plugin_says_once(
            MILCGPU_BARYON, right ? "MILC sums nucleon and delta over the ranks twice, and prints them too large by "
                                    "the number of ranks. Its output is right here (MILCGPU_BARYONS=right)"
                                  : "MILC sums nucleon and delta over the ranks twice: what it prints is too large "
                                    "by the number of ranks, also with milcgpu. MILCGPU_BARYONS=right makes it "
                                    "right");
    }
    milcgpu_offload(&call, tie_up(&b, &rows),
                    milcgpu_original(ks_baryon_nd)(prop, qp0, qp1, qp2, num_corr_b, baryon_type_snk, phase, fact));
    milcgpu_free_correlators(&rows);
}
