/* Solves by the replaced routines beside MILC's own: one mass, several with their refinement, many sources, sets of
 * propagators; D on a field; a boundary twist edited into the links. */
#include "../generic_ks/generic_ks_includes.h"
#include "../include/fermion_links.h"
#include "checks.h"
#include "ks_spectrum_includes.h"
#include "plugin.h"
#include <math.h>
#include <string.h>

int __real_ks_congrad_parity_cpu(su3_vector *, su3_vector *, quark_invert_control *, Real, imp_ferm_links_t *);
int __real_ks_multicg_offset_field_cpu(su3_vector *, su3_vector **, ks_param *, int, quark_invert_control *,
                                       imp_ferm_links_t *);
void __real_dslash_fn_field(su3_vector *, su3_vector *, int, imp_ferm_links_t *);

extern enum set_type solved_set; /* the set type of the last call */

void try_solve(int parity, Real mass, fn_links_t *fn) {
    su3_vector *src = random_field(7), *x = random_field(8), *y = copy(x), *before = copy(x);
    quark_invert_control qic = control(parity), other = qic;
    const int counted = total_iters;
    const size_t first = parity == EVEN ? even_sites_on_node : 0; /* the first site of the other parity */
    int iterations = ks_congrad_parity_cpu(src, x, &qic, mass, fn);
    check(total_iters - counted == iterations && qic.final_iters == iterations, "iterations are counted", iterations);
    __real_ks_congrad_parity_cpu(src, y, &other, mass, fn);
    check(qic.converged == 1 && qic.final_rsq < resid * resid && qic.final_relrsq == 1, "qic", qic.final_rsq);
    check_iterations(abs(iterations - other.final_iters) <= other.final_iters / 4 + 2, "iterations", iterations);
    check(difference(x, y, 6 * sites_on_node) < allowed(mass), "solution", difference(x, y, 6 * sites_on_node));
    check(memcmp(x + first, before + first, even_sites_on_node * sizeof(su3_vector)) == 0, "the other parity is left",
          0);
    memset(src, 0, sites_on_node * sizeof(su3_vector));
    iterations = ks_congrad_parity_cpu(src, x, &qic, mass, fn);
    check(iterations <= 1 && qic.converged == 1 && qic.final_rsq == 0, "a zero source", iterations);
    free(src), free(x), free(y), free(before);
}

static void try_site_solve(fn_links_t *fn) {
    su3_vector *src = random_field(17), *x = random_field(18);
    quark_invert_control qic = control(EVENANDODD), other = control(EVEN);
    const Real mass = 0.2;
    Real final_rsq = 1;
    size_t i;
    double worst = 0;
    for (i = 0; i < sites_on_node; i++) {
        lattice[i].phi = src[i];
        lattice[i].xxx = x[i];
        lattice[i].other[0] = lattice[i].other[6] = (double)i;
    }
    ks_congrad_site(F_OFFSET(phi), F_OFFSET(xxx), &qic, mass, fn);
    check(qic.parity == EVENANDODD, "parity is as it was", qic.parity);
    i = ks_congrad(F_OFFSET(phi), F_OFFSET(xxx), mass, 500, 5, resid * resid, MILC_PRECISION, EVEN, &final_rsq, fn);
    check(final_rsq < resid * resid, "the older call", final_rsq);
    check_iterations(i >= 1 && i <= 3, "the older call, from the solution", i);
    __real_ks_congrad_parity_cpu(src, x, &other, mass, fn);
    other.parity = ODD;
    __real_ks_congrad_parity_cpu(src, x, &other, mass, fn);
    for (i = 0; i < sites_on_node; i++) {
        const double d = difference(&lattice[i].xxx, &x[i], 6);
        worst = d <= worst || worst != worst ? worst : d;
        check(lattice[i].other[0] == (double)i && lattice[i].other[6] == (double)i, "what else a site holds", i);
    }
    check(worst < 10 * allowed(mass), "solution in the sites", worst);
    free(src), free(x);
}

enum { masses = 5 };

/* The shared iteration, then a solve for each mass, as in ks_multicg; the last with other links. */
static void try_multicg(int parity, fn_links_t *fn, fn_links_t *fn_last) {
    su3_vector *src = random_field(27), *x[masses], *y = random_field(28);
    ks_param ksp[masses];
    quark_invert_control qic[masses];
    int i;
    memset(ksp, 0, sizeof ksp);
    for (i = 0; i < masses; i++) {
        const double m = i == 0 ? 0.3 : 0.05 * i; /* the smallest is not the first */
        ksp[i].offset = 4 * m * m;
        qic[i] = control(parity);
        x[i] = random_field(30 + i); /* the call must ignore it */
    }
    ks_multicg_offset_field_cpu(src, x, ksp, masses, qic, fn);
    for (i = 0; i < masses; i++)
        check(qic[i].converged == 1 && qic[i].final_rsq < (MILC_PRECISION == 1 ? 1.1 : 1.0) * resid * resid,
              "every mass has its residual", qic[i].final_rsq);
    for (i = 0; i < masses; i++) {
        fn_links_t *use = i == masses - 1 ? fn_last : fn;
        const Real mass = 0.5 * sqrt(ksp[i].offset);
        quark_invert_control other = control(parity);
        const int n = ks_congrad_parity_cpu(src, x[i], &qic[i], mass, use);
        __real_ks_congrad_parity_cpu(src, y, &other, mass, use);
        check_iterations(use != fn || n <= 2 + other.final_iters / 4, "little was left to refine", n);
        if (parity == EVEN)
            memcpy(x[i] + even_sites_on_node, y + even_sites_on_node, even_sites_on_node * sizeof(su3_vector));
        else
            memcpy(x[i], y, even_sites_on_node * sizeof(su3_vector));
        check(difference(x[i], y, 6 * sites_on_node) < allowed(mass), "solution of a mass",
              difference(x[i], y, 6 * sites_on_node));
    }
    for (i = 0; i < masses; i++)
        free(x[i]);
    free(src), free(y);
}

/* At the limit MILC's shared iteration ends: as many steps, no refinement, one residual for all masses. */
static void try_limit(fn_links_t *fn) {
    const double limit = MILC_PRECISION == 1 ? 1e-4 : 1e-6;
    su3_vector *src = random_field(75), *x[2], *y[2];
    ks_param ksp[2];
    quark_invert_control qic[2], other[2];
    int i, iterations;
    memset(ksp, 0, sizeof ksp);
    ksp[0].offset = 0.04, ksp[1].offset = 0.0025;
    for (i = 0; i < 2; i++) {
        qic[i] = control(EVEN);
        qic[i].max = 3, qic[i].nrestart = 2;
        other[i] = qic[i];
        x[i] = random_field(76), y[i] = copy(x[i]);
    }
    iterations = ks_multicg_offset_field_cpu(src, x, ksp, 2, qic, fn);
    check(iterations == 6 && qic[1].final_iters == 6, "as many iterations as asked for", iterations);
    check(__real_ks_multicg_offset_field_cpu(src, y, ksp, 2, other, fn) == 6, "and so does MILC", iterations);
    check(qic[0].converged == 0 && qic[1].converged == 0, "not converged", qic[0].converged);
    check(qic[0].final_rsq == qic[1].final_rsq && qic[0].final_rsq > resid * resid, "the residual of the smallest mass",
          qic[0].final_rsq);
    for (i = 0; i < 2; i++) {
        check(difference(x[i], y[i], 6 * even_sites_on_node) < limit, "solution at the limit",
              difference(x[i], y[i], 6 * even_sites_on_node));
        free(x[i]), free(y[i]);
    }
    free(src);
}

/* A zero source gives zero solutions, and the refinement counts no iteration, as on the CPU. */
static void try_zero_source(fn_links_t *fn) {
    su3_vector *src = random_field(71), *x[2] = {random_field(72), random_field(73)};
    ks_param ksp[2];
    quark_invert_control qic[2] = {control(EVEN), control(EVEN)};
    int i;
    memset(src, 0, sites_on_node * sizeof(su3_vector));
    memset(ksp, 0, sizeof ksp);
    ksp[0].offset = 0.01, ksp[1].offset = 0.04;
    check(ks_multicg_offset_field_cpu(src, x, ksp, 2, qic, fn) == 0, "masses of a zero source", 0);
    for (i = 0; i < 2; i++) {
        check(memcmp(x[i], src, even_sites_on_node * sizeof(su3_vector)) == 0, "zero solution", i);
        check(ks_congrad_parity_cpu(src, x[i], &qic[i], 0.5 * sqrt(ksp[i].offset), fn) == 0, "nothing to refine", i);
        free(x[i]);
    }
    free(src);
}

static void try_block(fn_links_t *fn) {
    su3_vector *src[3], *x[3], *y;
    quark_invert_control qic = control(EVEN), other = qic;
    int i, iterations;
    for (i = 0; i < 3; i++) {
        src[i] = random_field(40 + i);
        x[i] = random_field(50 + i);
    }
    iterations = ks_congrad_block_parity_cpu(3, src, x, &qic, 0.1, fn);
    check(iterations > 3 && qic.converged == 1 && qic.final_rsq < resid * resid, "block", iterations);
    for (i = 0; i < 3; i++) {
        y = random_field(50 + i);
        __real_ks_congrad_parity_cpu(src[i], y, &other, 0.1, fn);
        check(difference(x[i], y, 6 * sites_on_node) < allowed(0.1), "solution of a block", i);
        free(src[i]), free(x[i]), free(y);
    }
}

/* A set of propagators: the set type that MILC's routine gets, and its solutions. */
static void try_set(fn_links_t *fn, enum set_type set, enum inv_type inverter, int propagators, int start,
                    enum set_type expected) {
    ks_prop_field fields[2][2], *solutions[2], *sources[2];
    su3_vector *y;
    quark_invert_control qic[2] = {control(EVEN), control(EVEN)};
    ks_param parameters[2] = {{0.1}, {0.1}};
    int starts[2] = {start, start}, color, j;
    for (j = 0; j < propagators; j++) {
        fields[0][j].nc = fields[1][j].nc = 3;
        fields[0][j].v = malloc(3 * sizeof(su3_vector *));
        fields[1][j].v = malloc(3 * sizeof(su3_vector *));
        for (color = 0; color < 3; color++) {
            fields[0][j].v[color] = random_field(140 + 3 * j + color);
            fields[1][j].v[color] = random_field(150 + 3 * j + color);
        }
        sources[j] = &fields[0][j], solutions[j] = &fields[1][j];
    }
    set_links = fn;
    solve_ksprop(set, inverter, propagators, starts, NULL, NULL, NULL, solutions, sources, NULL, qic, parameters, 0,
                 NULL, NULL, 1);
    check(solved_set == expected, "set type", solved_set);
    check(qic[0].converged == 1, "a set", 0);
    for (j = 0; j < propagators; j++)
        for (color = 0; color < 3; color++) {
            y = random_field(150 + 3 * j + color);
            __real_ks_congrad_parity_cpu(sources[j]->v[color], y, &qic[1], 0.1, fn);
            check(difference(solutions[j]->v[color], y, 6 * sites_on_node) < allowed(0.1), "solution of a set", color);
            free(y), free(sources[j]->v[color]), free(solutions[j]->v[color]);
        }
    for (j = 0; j < propagators; j++)
        free(sources[j]->v), free(solutions[j]->v);
}

/* A set of several masses: each mass alone with all colours, unless MILC changes the links for it (origin). */
static void try_masses(fn_links_t *fn, enum set_type set, int origin_t, int own_sources, int start,
                       enum set_type expected) {
    const Real masses[3] = {0.1, 0.4, 0.9};
    ks_prop_field source[2], solution[3], *solutions[3], *sources[3];
    quark_invert_control qic[3] = {control(EVEN), control(EVEN), control(EVEN)};
    ks_param parameters[3] = {{masses[0]}, {masses[1]}, {masses[2]}};
    Real phases[4] = {0, 0, 0, 0};
    int starts[3] = {start, start, start}, origin[4] = {2, 0, 0, origin_t}, color, j;
    for (j = 0; j < 3; j++) {
        solution[j].nc = 3;
        solution[j].v = malloc(3 * sizeof(su3_vector *));
        solutions[j] = &solution[j];
        sources[j] = &source[own_sources && j == 2];
        for (color = 0; color < 3; color++)
            solution[j].v[color] = random_field(170 + 3 * j + color);
    }
    for (j = 0; j < 2; j++) {
        source[j].nc = 3;
        source[j].v = malloc(3 * sizeof(su3_vector *));
        for (color = 0; color < 3; color++)
            source[j].v[color] = random_field(160 + 3 * j + color);
    }
    set_links = fn;
    for (j = 0; j < 3; j++)
        qic[j].inv_type = UMLTYPE;
    solve_ksprop(set, UMLTYPE, 3, starts, NULL, NULL, NULL, solutions, sources, NULL, qic, parameters, 0, phases,
                 origin, 1);
    check(solved_set == expected, "set type of several masses", solved_set);
    for (j = 0; j < 3; j++)
        for (color = 0; color < 3; color++) {
            su3_vector *y = random_field(170 + 3 * j + color);
            if (solved_set == MULTICOLORSOURCE_SET) {
                __real_ks_congrad_parity_cpu(sources[j]->v[color], y, &qic[j], masses[j], fn);
                check(difference(solution[j].v[color], y, 6 * sites_on_node) < allowed(masses[j]),
                      "solution of a mass of a set", color);
            }
            free(y), free(solution[j].v[color]);
        }
    for (j = 0; j < 2; j++) {
        for (color = 0; color < 3; color++)
            free(source[j].v[color]);
        free(source[j].v);
    }
    for (j = 0; j < 3; j++)
        free(solution[j].v);
}

static void try_sets(fn_links_t *fn) {
    const char *words = getenv("MILCGPU_TEST");
    const int all = milcgpu_plugin_active() && (words == NULL || strstr(words, "no_gather") == NULL);
    const enum set_type gathered = all ? MULTICOLORSOURCE_SET : MULTISOURCE_SET;
    try_set(fn, MULTISOURCE_SET, UMLTYPE, 2, FRESH, gathered);
    try_set(fn, MULTISOURCE_SET, CGTYPE, 2, FRESH, gathered);
    try_set(fn, SINGLES_SET, UMLTYPE, 1, FRESH, all ? MULTICOLORSOURCE_SET : SINGLES_SET);
    try_set(fn, MULTISOURCE_SET, UMLTYPE, 2, CONTINUE, MULTISOURCE_SET);
    try_set(fn, MULTISOURCE_SET, CGZTYPE, 2, FRESH, gathered);
    try_set(fn, MULTISOURCE_SET, MGTYPE, 2, FRESH, MULTISOURCE_SET);
    try_set(fn, MULTIMASS_SET, UMLTYPE, 2, FRESH, MULTIMASS_SET); /* has two sources, which MILC refuses */
    try_masses(fn, MULTIMASS_SET, 0, 0, FRESH, all ? MULTICOLORSOURCE_SET : MULTIMASS_SET);
    try_masses(fn, MULTIMASS_SET, 2, 0, FRESH, MULTIMASS_SET);
    try_masses(fn, MULTIMASS_SET, 0, 1, FRESH, MULTIMASS_SET);
    try_masses(fn, MULTIMASS_SET, 0, 0, CONTINUE, MULTIMASS_SET);
    try_masses(fn, SINGLES_SET, 0, 0, FRESH, all ? MULTICOLORSOURCE_SET : SINGLES_SET);
    try_masses(fn, SINGLES_SET, 0, 1, FRESH, all ? MULTICOLORSOURCE_SET : SINGLES_SET);
    try_masses(fn, SINGLES_SET, 2, 0, FRESH, SINGLES_SET);
    try_masses(fn, SINGLES_SET, 0, 0, CONTINUE, SINGLES_SET);
}

static void try_dslash(fn_links_t *fn) {
    su3_vector *x = random_field(60), *y = copy(x), *in_place = copy(x);
    const double limit = MILC_PRECISION == 1 ? 1e-6 : 1e-14;
    __real_dslash_fn_field(x, y, EVENANDODD, fn);
    dslash_fn_field(in_place, in_place, ODD, fn); /* reads even sites, writes odd ones */
    check(difference(in_place + even_sites_on_node, y + even_sites_on_node, 6 * even_sites_on_node) < limit,
          "D in place", 0);
    check(memcmp(in_place, x, even_sites_on_node * sizeof(su3_vector)) == 0, "D leaves the other parity", 0);
    dslash_fn_field(x, in_place, EVENANDODD, fn);
    check(difference(in_place, y, 6 * sites_on_node) < limit, "D on both parities", 0);
    free(x), free(y), free(in_place);
}

/* Twists the boundary in place and without a notice: the x links through the boundary get a phase. */
static void twist(fn_links_t *fn) {
    const Real c = 0.8, s = 0.6;
    size_t i;
    int k;
    for (i = 0; i < sites_on_node; i++) {
        su3_matrix *of[2] = {lattice[i].x == nx - 1 ? &fn->fat[4 * i] : NULL,
                             lattice[i].x >= nx - 3 ? &fn->lng[4 * i] : NULL};
        int j;
        for (j = 0; j < 2; j++)
            for (k = 0; of[j] != NULL && k < 9; k++) {
                complex_number *z = &of[j]->e[k / 3][k % 3];
                const Real re = c * z->real - s * z->imag;
                z->imag = s * z->real + c * z->imag;
                z->real = re;
            }
    }
}

void solve_everything(fn_links_t *fn, fn_links_t *fn_last, const char *fault) {
    if (strcmp(fault, "sets") == 0) {
        try_sets(fn);
        return;
    }
    try_solve(EVEN, 0.05, fn);
    inject(fault);
    try_solve(ODD, 0.1, fn);
    try_site_solve(fn);
    inject(fault);
    try_multicg(EVEN, fn, fn_last);
    try_multicg(ODD, fn, fn_last);
    try_limit(fn);
    try_zero_source(fn);
    try_block(fn);
    try_dslash(fn);
    twist(fn);
    try_solve(EVEN, 0.1, fn);
    try_dslash(fn);
}
