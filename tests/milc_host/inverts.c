/* M x = b by the routines that programs call, each beside MILC's own. */
#include "../generic_ks/generic_ks_includes.h"

#include "../include/fermion_links.h"

#include "../include/imp_ferm_links.h"
#include "checks.h"
#include "plugin.h"
#include <math.h>
#include <string.h>

#ifdef MILC_HOST_MASTER
int __real_mat_invert_cg_field(su3_vector *, su3_vector *, quark_invert_control *, Real, imp_ferm_links_t *);
#define __real_mat_invert_block __real_mat_invert_block_uml
#else
int __real_mat_invert_field(su3_vector *, su3_vector *, quark_invert_control *, Real, imp_ferm_links_t *);
#endif
int __real_mat_invert_uml_field(su3_vector *, su3_vector *, quark_invert_control *, Real, imp_ferm_links_t *);
void __real_f_meas_imp_field(int, quark_invert_control *, Real, int, fermion_links_t *);
void __real_ks_dirac_adj_op_inplace(su3_vector *, Real, int, imp_ferm_links_t *);
int __real_mat_invert_multi(su3_vector *, su3_vector **, ks_param *, int, quark_invert_control *, links_multi);
int __real_mat_invert_block(su3_vector **, su3_vector **, Real, int, quark_invert_control *, imp_ferm_links_t *);

/* In program.c. */

/* One source: master has one routine for each inverter. */
#ifdef MILC_HOST_MASTER
#define MAT_INVERT_FIELD(prefix, src, dst, qic, mass, fn)                                                              \
    ((qic)->inv_type == CGTYPE ? prefix##mat_invert_cg_field(src, dst, qic, mass, fn)                                  \
                               : prefix##mat_invert_uml_field(src, dst, qic, mass, fn))
#else
#define MAT_INVERT_FIELD(prefix, src, dst, qic, mass, fn) prefix##mat_invert_field(src, dst, qic, mass, fn)
#endif

/* MILC's routine with MILC's own solves and D. */
static int own(int n, su3_vector **src, su3_vector **dst, quark_invert_control *qic, Real mass, fn_links_t *fn) {
    int iterations;
    milcgpu_plugin_original(MILCGPU_MAT_INVERT, 1);
    iterations = n == 1 ? MAT_INVERT_FIELD(__real_, src[0], dst[0], qic, mass, fn)
                        : __real_mat_invert_block(src, dst, mass, n, qic, fn);
    milcgpu_plugin_original(MILCGPU_MAT_INVERT, 0);
    return iterations;
}

enum { most = 3 };

/* together: the solver counts iterations of a block, which MILC's own lacks. */
static void check_control(const quark_invert_control *ours, const quark_invert_control *theirs, int together) {
    check(ours->parity == theirs->parity && ours->converged == theirs->converged, "control", ours->converged);
    check(ours->final_rsq <= ours->resid * ours->resid, "residual", ours->final_rsq);
    if (!together)
        check_iterations(abs(ours->final_iters - theirs->final_iters) <= theirs->final_iters / 4 + 3,
                         "iterations of both parities", ours->final_iters);
}

static void try_invert(int n, enum inv_type inverter, Real mass, fn_links_t *fn, const char *fault) {
    su3_vector *src[most], *before[most], *x[most], *y[most];
    quark_invert_control qic = control(EVENANDODD), other;
    const int counted = total_iters;
    int k, iterations;
    qic.inv_type = inverter;
    other = qic;
    for (k = 0; k < n; k++) {
        src[k] = random_field(200 + k), before[k] = copy(src[k]);
        x[k] = random_field(210 + k), y[k] = copy(x[k]);
    }
    inject(fault);
    iterations =
        n == 1 ? MAT_INVERT_FIELD(, src[0], x[0], &qic, mass, fn) : MAT_INVERT_BLOCK(src, x, mass, n, &qic, fn);
    inject("none");
    check(total_iters - counted == iterations, "iterations are counted", iterations);
    own(n, src, y, &other, mass, fn);
    check_control(&qic, &other, n > 1);
    for (k = 0; k < n; k++) {
        const double d = difference(x[k], y[k], 6 * sites_on_node);
        check(d < allowed(mass), "a solution of M x = b", d);
        check(memcmp(src[k], before[k], sites_on_node * sizeof(su3_vector)) == 0, "the source", k);
        free(src[k]), free(before[k]), free(x[k]), free(y[k]);
    }
}

su3_vector *solved_field(unsigned seed, fn_links_t *fn) {
    su3_vector *src = random_field(seed), *x = random_field(seed + 1);
    quark_invert_control qic = control(EVENANDODD);
    mat_invert_uml_field(src, x, &qic, 0.3, fn);
    free(src);
    return x;
}

/* A source on the sites of one parity, of which M^dag is on both. A zero source gets no solve and no line. */
static void try_sources_of_one_parity(fn_links_t *fn) {
    int zero;
    for (zero = 0; zero < 2; zero++) {
        su3_vector *src = random_field(220), *x = random_field(221), *y = copy(x);
        quark_invert_control qic = control(EVENANDODD), other = qic;
        const Real mass = 0.15;
        memset(src + (zero ? 0 : even_sites_on_node), 0,
               (zero ? sites_on_node : even_sites_on_node) * sizeof(su3_vector));
        mat_invert_uml_field(src, x, &qic, mass, fn);
        milcgpu_plugin_original(MILCGPU_MAT_INVERT, 1);
        __real_mat_invert_uml_field(src, y, &other, mass, fn);
        milcgpu_plugin_original(MILCGPU_MAT_INVERT, 0);
        check_control(&qic, &other, 0);
        check(zero ? memcmp(x, src, sites_on_node * sizeof(su3_vector)) == 0
                   : difference(x, y, 6 * sites_on_node) < allowed(mass),
              "a solution of a thin source", difference(x, y, 6 * sites_on_node));
        check(!zero || (qic.final_iters == 0 && qic.final_rsq == 0 && qic.size_relr == 1), "a zero source", zero);
        free(src), free(x), free(y);
    }
}

/* An exact guess costs only the evaluations of residuals, in any precision. */
static void try_guess(fn_links_t *fn) {
    su3_vector *src = random_field(230), *x = random_field(231), *before;
    quark_invert_control qic = control(EVENANDODD);
    qic.inv_type = CGTYPE;
    MAT_INVERT_FIELD(, src, x, &qic, 0.1, fn);
    before = copy(x);
    qic.resid *= 2;
    check(MAT_INVERT_FIELD(, src, x, &qic, 0.1, fn) <= 2, "iterations from an exact guess", qic.final_iters);
    check(difference(x, before, 6 * sites_on_node) < 1e-6, "an exact guess stays", 0);
    free(src), free(x), free(before);
}

static void try_adjoint(fn_links_t *fn, const char *fault) {
    int parity;
    for (parity = ODD; parity <= EVENANDODD; parity++) {
        su3_vector *ours = random_field(240), *theirs = copy(ours);
        inject(parity == EVENANDODD ? fault : "none");
        ks_dirac_adj_op_inplace(ours, 0.3, parity, fn);
        inject("none");
        milcgpu_plugin_original(MILCGPU_MAT_INVERT, 1);
        __real_ks_dirac_adj_op_inplace(theirs, 0.3, parity, fn);
        milcgpu_plugin_original(MILCGPU_MAT_INVERT, 0);
        check(difference(ours, theirs, 6 * sites_on_node) < (MILC_PRECISION == 1 ? 2e-6 : 1e-14), "M^dag in place",
              difference(ours, theirs, 6 * sites_on_node));
        free(ours), free(theirs);
    }
}

/* Three masses; the last may have other links, for which it is solved again. Close masses are solved together,
 * distant ones one by one. */
static void try_multi(fn_links_t *fn, fn_links_t *fn_last, int far_apart, enum inv_type inverter) {
    su3_vector *src = random_field(250), *x[3], *y[3];
    ks_param ksp[3] = {{0.3}, {far_apart ? 0.1 : 0.25}, {far_apart ? 0.2 : 0.27}};
    quark_invert_control qic[3], other[3];
    fn_links_t *fn_multi[3] = {fn, fn, fn_last};
    int i;
    for (i = 0; i < 3; i++) {
        x[i] = random_field(251 + i), y[i] = copy(x[i]);
        qic[i] = control(EVENANDODD);
        qic[i].inv_type = inverter;
        other[i] = qic[i];
    }
    mat_invert_multi(src, x, ksp, 3, qic, FIRST_AS_MULTI(fn_multi));
    milcgpu_plugin_original(MILCGPU_MAT_INVERT, 1);
    __real_mat_invert_multi(src, y, ksp, 3, other, FIRST_AS_MULTI(fn_multi));
    milcgpu_plugin_original(MILCGPU_MAT_INVERT, 0);
    for (i = 0; i < 3; i++) {
        check(qic[i].converged == 1, "a mass of several", i);
        check(difference(x[i], y[i], 6 * sites_on_node) < allowed(ksp[i].mass), "a solution of several masses",
              difference(x[i], y[i], 6 * sites_on_node));
        free(x[i]), free(y[i]);
    }
    free(src);
}

/* The following random sources are drawn with the first one, with the same numbers, and solved in one call. A new
 * mass begins with the next numbers. */
static void try_condensate(fn_links_t *fn) {
    enum { reps = most_condensates };
    quark_invert_control qic = control(EVENANDODD);
    const Real mass[2] = {0.12, 0.2};
    double ours[2][reps];
    size_t i;
    int k, mine, ahead;
    set_links = fn;
    for (mine = 1; mine >= 0; mine--) {
        for (i = 0; i < sites_on_node; i++)
            lattice[i].site_prn.state = i, lattice[i].site_prn.drawn = 0;
        for (k = 0; k < 2; k++) {
            const int before = 3 * reps * k;
            if (mine)
                f_meas_imp_field(reps, &qic, mass[k], 0, NULL);
            else
                __real_f_meas_imp_field(reps, &qic, mass[k], 0, NULL);
            ahead = mine && milcgpu_plugin_gathers() && !milcgpu_plugin_compare();
            check(drawn_for_first == before + (ahead ? 3 * reps : 3), "random numbers of the first source",
                  drawn_for_first);
            check(lattice[0].site_prn.drawn == before + 3 * reps, "random numbers of all", lattice[0].site_prn.drawn);
            for (i = 0; i < reps; i++)
                if (mine)
                    ours[k][i] = condensate[i];
                else
                    check(fabs(condensate[i] - ours[k][i]) < allowed(mass[k]) * fabs(ours[k][i]), "a condensate",
                          condensate[i] - ours[k][i]);
        }
    }
}

void try_inverts(fn_links_t *fn, fn_links_t *fn_last, const char *fault) {
    try_invert(1, UMLTYPE, 0.05, fn, "none");
    try_invert(1, UMLTYPE, 0.1, fn, fault);
    try_invert(1, CGTYPE, 0.1, fn, fault);
#ifndef MILC_HOST_MASTER
    try_invert(1, CGZTYPE, 0.1, fn, "none");
    try_invert(2, CGTYPE, 0.1, fn, "none");
    try_invert(2, CGZTYPE, 0.1, fn, "none");
#endif
    try_invert(3, UMLTYPE, 0.08, fn, fault);
    try_sources_of_one_parity(fn);
    try_guess(fn);
    try_condensate(fn);
    try_adjoint(fn, fault);
    try_multi(fn, fn, 0, UMLTYPE);
    try_multi(fn, fn_last, 0, UMLTYPE);
    try_multi(fn, fn_last, 1, UMLTYPE);
#ifndef MILC_HOST_MASTER
    try_multi(fn, fn, 1, CGTYPE); /* together, although the input says otherwise */
#endif
    param.eigen_param.Nvecs = 2; /* the input has some, but no call requests them */
    try_invert(1, UMLTYPE, 0.1, fn, "none");
}
