/* Solves with the clover matrix, each beside MILC's own. */
#include "../generic_ks/generic_ks_includes.h"
#include "plugin.h"
#include <math.h>
#include <string.h>

int __real_bicgilu_cl_field_cpu(wilson_vector *, wilson_vector *, quark_invert_control *, void *);

/* In program.c. */
void check(int good, const char *what, double value);
double difference(const void *a, const void *b, size_t reals);
su3_vector *random_field(unsigned seed);
quark_invert_control control(int parity);
void inject(const char *fault);

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

static void try_one(Real kappa, Real clov_c, Real relresid, int guess, int max) {
    dirac_clover_param dirac = {kappa, clov_c, 0.9};
    quark_invert_control ours = control(EVENANDODD), theirs;
    wilson_vector *src = random_wilson(71), *before = copy_of(src), *x = random_wilson(81), *y;
    int iterations;
    if (!guess)
        memset(x, 0, sites_on_node * sizeof(wilson_vector));
    y = copy_of(x);
    ours.relresid = relresid;
    if (max > 0)
        ours.max = max, ours.nrestart = 1;
    theirs = ours;
    iterations = bicgilu_cl_field_cpu(src, x, &ours, &dirac);
    memcpy(src, before, sites_on_node * sizeof(wilson_vector)); /* MILC's own overwrites it */
    milcgpu_plugin_original(MILCGPU_CLOVER_SOLVE, 1);
    __real_bicgilu_cl_field_cpu(src, y, &theirs, &dirac);
    milcgpu_plugin_original(MILCGPU_CLOVER_SOLVE, 0);
    check(ours.final_iters == iterations && iterations > 0, "iterations of a clover solve", iterations);
    if (max > 0) {
        check(iterations == max && ours.final_rsq > ours.resid * ours.resid, "a clover solve at its limit", iterations);
    } else {
        check(ours.final_rsq <= ours.resid * ours.resid, "residual of a clover solve", ours.final_rsq);
        check(relresid <= 0 || ours.final_relrsq <= relresid * relresid, "relative residual", ours.final_relrsq);
        check(ours.final_restart >= 1, "starts", ours.final_restart);
        /* |M^-1| is below 10 here. */
        check(difference(x, y, 24 * sites_on_node) < 20 * ours.resid, "solution with the clover matrix",
              difference(x, y, 24 * sites_on_node));
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

void try_clover(const char *fault) {
    const Real relative = MILC_PRECISION == 1 ? 2e-5 : 1e-9;
    try_one(0.1, 1.2, 0, 0, 0);
    inject(fault);
    try_one(0.1, 1.2, relative, 1, 0);
    try_one(0.12, 0, 0, 0, 0);               /* Wilson */
    lattice[5].link[2].e[1][2].real += 0.25; /* an edit in place is seen */
    try_one(0.1, 1, 0, 0, 0);
    try_one(0.1, 1, 0, 0, 2);
    try_zero_source();
}
