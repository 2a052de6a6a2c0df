/* A short sequence as MILC runs it: new gauge links, fat and long links, solves, several masses with their refinement,
 * D on a field, a boundary twist edited into the links, the next step. Every result of a routine that the glue may have
 * replaced is compared with its original. Exit status 0: all were right.
 *
 *   program [a fault: none, device, memory; or sets: sets of propagators alone]
 *   program inverts [a fault: none, device, memory, flip]: M x = b alone, in inverts.c
 *   program eigen [a fault: none, device, memory, later] [readers: of eigVec; PRIMME, ARPACK]: eigenvectors and deflation,
 *     in eigen.c
 *   program clover [a fault: none, device, memory, flip]: solves with the clover matrix, in clover.c
 *   program dirac [a fault: none, device, memory, flip]: D and contractions of Dirac fields, in clover.c
 *   program memory [pool, or glibc]: where large blocks of memory come from
 *   program waiting [a fault: none, device, memory, flip]: links that nobody reads
 *   program threads: how many OpenMP has
 *   program pauses: processor time of pauses between loops of all threads
 *   program measurements: measurements.c alone
 *   program gauge: gauge fixing and APE smearing alone
 *   program trajectory [a fault: none, device, memory, write] [its place]: molecular dynamics, in trajectory.c
 *   program orders [rhmc, dyn, write]: every order of two of its routines, in orders.c
 */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include "../generic_ks/generic_ks_includes.h"
#include "../include/fermion_links.h"
#include "../include/umethod.h"
#include "checks.h"
#include "ks_spectrum_includes.h"
#include "plugin.h"
#include "test_hooks.h"
#include <dlfcn.h>
#include <math.h>
#include <quark_action.h>
#include <string.h>
#include <time.h>

void trajectory(const char *fault, const char *at);
void orders(const char *what);
void try_measurements(fn_links_t *fn);
void try_compared(fn_links_t *fn);
void try_inverts(fn_links_t *fn, fn_links_t *fn_last, const char *fault);
void try_eigen(const char *fault, const char *what);
void try_clover(const char *fault);
void try_dirac(const char *fault);

int __real_ks_congrad_parity_cpu(su3_vector *, su3_vector *, quark_invert_control *, Real, imp_ferm_links_t *);
int __real_ks_multicg_offset_field_cpu(su3_vector *, su3_vector **, ks_param *, int, quark_invert_control *,
                                       imp_ferm_links_t *);
void __real_dslash_fn_field(su3_vector *, su3_vector *, int, imp_ferm_links_t *);
void __real_load_fn_links_cpu(info_t *, fn_links_t *, ks_action_paths *, su3_matrix *, int);
void __real_load_fatlinks_cpu(info_t *, su3_matrix *, ks_component_paths *, su3_matrix *);
void __real_load_lnglinks(info_t *, su3_matrix *, ks_component_paths *, su3_matrix *);
void __real_gaugefix(int, Real, int, Real);
su3_matrix *__real_ape_smear_4D(Real, int);
void __real_create_hisq_links_milc(info_t *, fn_links_t **, fn_links_t **, hisq_auxiliary_t **, ks_action_paths_hisq *,
                                   su3_matrix *, int, int);

extern fn_links_t *set_links;    /* that solve_ksprop (make_prop.c) solves with */
extern enum set_type solved_set; /* that it was last called with */

static const double resid = MILC_PRECISION == 1 ? 1e-5 : 1e-9;
static const double link_limit = MILC_PRECISION == 1 ? 5e-6 : 1e-12;
static int failures, checks;

void check(int good, const char *what, double value) {
    checks++;
    if (good)
        return;
    failures++;
    printf("WRONG: %s (%g)\n", what, value);
}

/* As many as on the CPU, unless MILC_HOST_ITERATIONS is set: a precision that has to give way takes more. */
void check_iterations(int good, const char *what, double value) {
    check(good || getenv("MILC_HOST_ITERATIONS") != NULL, what, value);
}

/* |a - b| / |b| */
double difference(const void *a, const void *b, size_t reals) {
    const Real *x = (const Real *)a, *y = (const Real *)b;
    double d = 0, s = 0;
    size_t i;
    for (i = 0; i < reals; i++) {
        d += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
        s += (double)y[i] * y[i];
    }
    return d == 0 ? 0 : sqrt(d / s);
}

static double links_differ(const su3_matrix *a, const su3_matrix *b) { return difference(a, b, 72 * sites_on_node); }

su3_vector *random_field(unsigned seed) {
    su3_vector *f = (su3_vector *)malloc(sites_on_node * sizeof(su3_vector));
    Real *x = (Real *)f;
    size_t i;
    srand(seed);
    for (i = 0; i < 6 * sites_on_node; i++)
        x[i] = (Real)rand() / RAND_MAX - 0.5;
    return f;
}

su3_vector *copy(const su3_vector *f) {
    su3_vector *g = (su3_vector *)malloc(sites_on_node * sizeof(su3_vector));
    memcpy(g, f, sites_on_node * sizeof(su3_vector));
    return g;
}

quark_invert_control control(int parity) {
    quark_invert_control qic;
    memset(&qic, 0, sizeof qic);
    qic.prec = MILC_PRECISION;
    qic.max = 500;
    qic.nrestart = 5;
    qic.parity = parity;
    qic.resid = resid;
    return qic;
}

/* How far two solutions of this tolerance may be apart: |A^-1| is at most 1 / (4 m^2), |b| about 1 / sqrt(2) |x| here.
 */
double allowed(double mass) { return 4 * resid / (4 * mass * mass) + (MILC_PRECISION == 1 ? 1e-4 : 1e-12); }

static void try_solve(int parity, Real mass, fn_links_t *fn) {
    su3_vector *src = random_field(7), *x = random_field(8), *y = copy(x), *before = copy(x);
    quark_invert_control qic = control(parity), other = qic;
    const int counted = total_iters;
    const size_t first = parity == EVEN ? even_sites_on_node : 0; /* of the parity that is not solved */
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

/* The shared iteration, and then a solve a mass as ks_multicg does it; the last with other links. */
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
        x[i] = random_field(30 + i); /* to be ignored */
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

/* At the limit MILC's shared iteration stops where it is: as many steps, no refinement, one residual for all masses. */
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

/* A zero source: zero solutions, and the refinement counts no iteration, as on the CPU. */
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

/* A set of propagators: which set type MILC's routine gets, and its solutions. */
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

/* A set of several masses: each by itself, with all colours, unless MILC changes the links for it (origin). */
static void try_masses(fn_links_t *fn, int origin_t, int own_sources, int start, enum set_type expected) {
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
            source[j].v[color] = random_field(160 + color);
    }
    set_links = fn;
    for (j = 0; j < 3; j++)
        qic[j].inv_type = UMLTYPE;
    solve_ksprop(MULTIMASS_SET, UMLTYPE, 3, starts, NULL, NULL, NULL, solutions, sources, NULL, qic, parameters, 0,
                 phases, origin, 1);
    check(solved_set == expected, "set type of several masses", solved_set);
    for (j = 0; j < 3; j++)
        for (color = 0; color < 3; color++) {
            su3_vector *y = random_field(170 + 3 * j + color);
            if (solved_set == MULTICOLORSOURCE_SET) {
                __real_ks_congrad_parity_cpu(source[0].v[color], y, &qic[j], masses[j], fn);
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
    try_set(fn, SINGLES_SET, UMLTYPE, 2, FRESH, SINGLES_SET); /* may be of two masses */
    try_set(fn, MULTISOURCE_SET, UMLTYPE, 2, CONTINUE, MULTISOURCE_SET);
    try_set(fn, MULTISOURCE_SET, CGZTYPE, 2, FRESH, MULTISOURCE_SET);
    try_set(fn, MULTIMASS_SET, UMLTYPE, 2, FRESH, MULTIMASS_SET); /* of two sources, which MILC refuses */
    try_masses(fn, 0, 0, FRESH, all ? MULTICOLORSOURCE_SET : MULTIMASS_SET);
    try_masses(fn, 2, 0, FRESH, MULTIMASS_SET);
    try_masses(fn, 0, 1, FRESH, MULTIMASS_SET);
    try_masses(fn, 0, 0, CONTINUE, MULTIMASS_SET);
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

/* In place, and nobody is told: the x links through the boundary take a phase, as a twist does it. */
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

static void check_links(fn_links_t *a, fn_links_t *b) {
    const su3_matrix *const fatback = get_fatbacklinks(a), *const lngback = get_lngbacklinks(a);
    const su3_matrix *const fat = get_fatlinks(a), *const lng = get_lnglinks(a);
    check(links_differ(fat, b->fat) < link_limit, "fat links", links_differ(fat, b->fat));
    check(links_differ(lng, b->lng) < link_limit, "long links", links_differ(lng, b->lng));
    check((fatback == NULL) == (b->fatback == NULL), "whether there are back links", 0);
    if (b->fatback != NULL) {
        check(links_differ(fatback, b->fatback) < link_limit, "backward fat links", 0);
        check(links_differ(lngback, b->lngback) < link_limit, "backward long links", 0);
    }
}

static void try_links_alone(ks_component_paths *p, su3_matrix *links) {
    fn_links_t *a = create_fn_links(), *b = create_fn_links();
    info_t info = {0};
    load_fatlinks_cpu(&info, a->fat, p, links);
    check(info.final_flop == 61632.0 * volume, "flops of fat links", info.final_flop);
    load_lnglinks(&info, a->lng, p, links);
    check(info.final_flop == 1728.0 * volume, "flops of long links", info.final_flop);
    __real_load_fatlinks_cpu(&info, b->fat, p, links);
    __real_load_lnglinks(&info, b->lng, p, links);
    check_links(a, b);
    destroy_fn_links(a);
    destroy_fn_links(b);
}

/* More sets of links than the library keeps: of three made last, one had the oldest place, the others take new ones. */
static void try_many_sets(su3_matrix *links) {
    enum { kept = 8, last = 3 };
    fn_links_t *fn[kept + last - 1], *first[last];
    const double eps[last] = {0, -0.3, 0.2};
    milcgpu_fatlink_spec spec;
    milcgpu_fatlink_report report;
    int i, k;
    milcgpu_hisq_defaults(&spec, sizeof spec);
    spec.unitarity = -1;
    for (i = 0; i < kept + last - 1; i++)
        fn[i] = create_fn_links();
    for (i = -1; i <= kept; i++) {
        const int n = i >= 0 && i < kept ? 1 : last;
        void *fat[last], *lng[last];
        for (k = 0; k < n; k++) {
            fn_links_t *to = i >= 0 ? fn[i < kept ? i : k == 0 ? 0 : kept + k - 1] : (first[k] = create_fn_links());
            fat[k] = to->fat, lng[k] = to->lng;
        }
        check(milcgpu_plugin_links(MILCGPU_HISQ_LINKS, &spec, links, n, eps, fat, lng, NULL, NULL, NULL, 0, &report),
              "links of many sets", i);
    }
    for (k = 0; k < last; k++) {
        check_links(fn[k == 0 ? 0 : kept + k - 1], first[k]);
        destroy_fn_links(first[k]);
    }
    try_solve(EVEN, 0.1, fn[kept]);
    for (i = 0; i < kept + last - 1; i++)
        destroy_fn_links(fn[i]);
}

void inject(const char *fault) {
    if (strcmp(fault, "device") == 0)
        milcgpu_plugin_inject_fault(MILCGPU_FAULT_DEVICE_LOST);
    if (strcmp(fault, "memory") == 0)
        milcgpu_plugin_inject_fault(MILCGPU_FAULT_ALLOCATION);
    if (strcmp(fault, "flip") == 0)
        milcgpu_plugin_inject_fault(MILCGPU_FAULT_FLIP_LINKS);
}

static void solve_everything(fn_links_t *fn, fn_links_t *fn_last, const char *fault) {
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

/* Gauge fixing and APE smearing of the links of the sites, without phases, as MILC calls them. */
static void put_links(const su3_matrix *links) {
    size_t i;
    for (i = 0; i < volume; i++)
        memcpy(lattice[i].link, links + 4 * i, 4 * sizeof(su3_matrix));
}
static void try_gauge(int dir, int steps, Real tolerance) {
    su3_matrix *before = create_G_from_site(), *ours, *theirs;
    gaugefix(dir, 1.8, steps, tolerance);
    ours = create_G_from_site();
    put_links(before);
    __real_gaugefix(dir, 1.8, steps, tolerance);
    theirs = create_G_from_site();
    check(links_differ(ours, theirs) < (MILC_PRECISION == 1 ? 1e-4 : 1e-11), "gauge fixing", dir);
    check(links_differ(ours, before) > 0.1, "gauge fixing does nothing", dir);
    free(before), free(ours), free(theirs);
}
static void try_ape(Real weight, int iterations) {
    su3_matrix *ours = ape_smear_4D(weight, iterations), *theirs = __real_ape_smear_4D(weight, iterations);
    check(links_differ(ours, theirs) < (MILC_PRECISION == 1 ? 1e-4 : 1e-11), "APE smearing", iterations);
    destroy_G(ours), destroy_G(theirs);
}
static void gauge_everything(void) {
    fill_gauge_field(200);
    rephase(OFF);
    try_ape(0.3, 2);
    try_ape(0.3, 0);
    try_ape(0.3, -1);
    try_ape(-0.1, 1); /* MILC's own */
    try_gauge(TUP, 500, 2e-6);
    fill_gauge_field(300);
    rephase(OFF);
    try_gauge(8, 25, 0);
    try_gauge(ZUP, 1, 2e-6);
}

/* Where MILC keeps links of eps_naik 0 and the derivative alone, that is the second set. */
typedef void (*hisq_maker)(info_t *, fn_links_t **, fn_links_t **, hisq_auxiliary_t **, ks_action_paths_hisq *,
                           su3_matrix *, int, int);
static void make_by(hisq_maker make, fn_links_t **fn, fn_links_t **deps, hisq_auxiliary_t **aux,
                    ks_action_paths_hisq *hisq, su3_matrix *links, int want_deps) {
    info_t info = {0};
    make(&info, fn, deps, aux, hisq, links, want_deps, 1);
    if (SETS(hisq) == 1)
        fn[1] = *deps;
}
static void destroy_sets(ks_action_paths_hisq *hisq, hisq_auxiliary_t *aux, fn_links_t **fn, fn_links_t *deps) {
    destroy_hisq_links_milc(hisq, aux, ALL_SETS(fn), SETS(hisq) == 1 ? fn[1] : deps);
}

/* Links of a program that wants no auxiliary ones, then some, then none again. */
static void auxiliary(void) {
    ks_action_paths asqtad;
    ks_action_paths_hisq hisq;
    su3_matrix *links;
    int wants;
    fill_gauge_field(600);
    fill_action(&asqtad, &hisq);
    links = create_G_from_site();
    for (wants = 0; wants < 3; wants++) {
        fn_links_t *fn[MAX_NAIK], *deps, *other[MAX_NAIK], *other_deps;
        hisq_auxiliary_t *aux, *other_aux;
        fermion_links_want_aux(wants % 2);
        make_by(create_hisq_links_milc, fn, &deps, &aux, &hisq, links, 0);
        make_by(__real_create_hisq_links_milc, other, &other_deps, &other_aux, &hisq, links, 0);
        check_links(fn[0], other[0]);
        check_links(fn[1], other[1]);
        if (wants > 0) {
            check(links_differ(aux->U_link, links) == 0, "U", wants);
            check(links_differ(aux->V_link, other_aux->V_link) < link_limit, "V", wants);
            check(links_differ(aux->W_unitlink, other_aux->W_unitlink) < link_limit, "W", wants);
        }
        destroy_sets(&hisq, aux, fn, deps);
        destroy_sets(&hisq, other_aux, other, other_deps);
    }
    free(links);
}

/* Links of a program that wants no auxiliary ones: on the device alone until MILC reads them. */
typedef struct {
    fn_links_t *fn[MAX_NAIK], *deps;
    hisq_auxiliary_t *aux;
} link_sets;

static void make_sets(link_sets *ours, link_sets *milcs, ks_action_paths_hisq *hisq, unsigned long seed) {
    su3_matrix *links;
    fill_gauge_field(seed);
    links = create_G_from_site();
    make_by(create_hisq_links_milc, ours->fn, &ours->deps, &ours->aux, hisq, links, 0);
    make_by(__real_create_hisq_links_milc, milcs->fn, &milcs->deps, &milcs->aux, hisq, links, 0);
    memset(links, 0, 4 * sites_on_node * sizeof(su3_matrix));
    free(links);
    fill_gauge_field(seed + 1000); /* nobody makes them from the sites again */
}

static void drop_sets(link_sets *sets, const ks_action_paths_hisq *hisq) {
    ks_action_paths_hisq of_those = *hisq;
    while (of_those.n_naiks > 0 && sets->fn[of_those.n_naiks - 1] == NULL)
        of_those.n_naiks--;
    destroy_sets(&of_those, sets->aux, sets->fn, sets->deps);
}

/* With MILCGPU_TEST=nan what is not filled is NaN. */
static int wait(const link_sets *sets) {
    const Real a = sets->fn[0]->fat[5].e[1][2].imag, b = sets->fn[1]->lng[7].e[0][0].real;
    return a != a && b != b;
}

static void solve_with(const link_sets *ours, const link_sets *milcs) {
    su3_vector *src = random_field(801), *x = random_field(802), *y = copy(x);
    const Real mass = 0.3;
    int k;
    for (k = 0; k < 2; k++) {
        quark_invert_control qic = control(EVEN), other = qic;
        ks_congrad_parity_cpu(src, x, &qic, mass, ours->fn[k]);
        __real_ks_congrad_parity_cpu(src, y, &other, mass, milcs->fn[k]);
        check(difference(x, y, 6 * sites_on_node) < allowed(mass), "a solve with them", k);
        dslash_fn_field(src, x, EVENANDODD, ours->fn[k]);
        __real_dslash_fn_field(src, y, EVENANDODD, milcs->fn[k]);
        check(difference(x, y, 6 * sites_on_node) < (MILC_PRECISION == 1 ? 1e-5 : 1e-13), "D with them", k);
    }
    free(src), free(x), free(y);
}

static void check_sets(link_sets *ours, link_sets *milcs) {
    check_links(ours->fn[0], milcs->fn[0]);
    check_links(ours->fn[1], milcs->fn[1]);
}

static void waiting(const char *fault) {
    ks_action_paths asqtad;
    ks_action_paths_hisq hisq;
    link_sets ours, milcs, later, milcs_later;
    fermion_links_want_aux(0);
    fill_action(&asqtad, &hisq);
    make_sets(&ours, &milcs, &hisq, 800);
    boundary_twist_fn(ours.fn[0], 1); /* without a phase */
    printf("made: they wait %d\n", wait(&ours));
    inject(fault);
    solve_with(&ours, &milcs);
    printf("used: they wait %d\n", wait(&ours));
    check_sets(&ours, &milcs);
    printf("read: they wait %d\n", wait(&ours));
    solve_with(&ours, &milcs);
    drop_sets(&ours, &hisq);
    drop_sets(&milcs, &hisq);
    make_sets(&later, &milcs_later, &hisq, 810); /* these wait as the next are made */
    make_sets(&ours, &milcs, &hisq, 820);
    check_sets(&later, &milcs_later);
    drop_sets(&later, &hisq);
    drop_sets(&milcs_later, &hisq);
    ours.fn[0]->phase->bdry_phase[TUP] = milcs.fn[0]->phase->bdry_phase[TUP] = 1;
    boundary_twist_fn(ours.fn[0], 1);
    boundary_twist_fn(milcs.fn[0], 1);
    solve_with(&ours, &milcs);
    drop_sets(&ours, &hisq);
    drop_sets(&milcs, &hisq);
    make_sets(&ours, &milcs, &hisq, 830);
    destroy_fn_links(ours.fn[1]);
    ours.fn[1] = NULL;
    check_links(ours.fn[0], milcs.fn[0]);
    drop_sets(&ours, &hisq);
    drop_sets(&milcs, &hisq);
    make_sets(&ours, &milcs, &hisq, 840); /* nobody reads them */
    drop_sets(&ours, &hisq);
    drop_sets(&milcs, &hisq);
}

/* inverts.c, measurements.c or compared.c, with links of their own. */
static void alone(const char *what, const char *fault) {
    ks_action_paths asqtad;
    ks_action_paths_hisq hisq;
    info_t info = {0};
    fn_links_t *fn = create_fn_links();
    su3_matrix *links;
    fill_gauge_field(400);
    fill_action(&asqtad, &hisq);
    links = create_G_from_site();
    __real_load_fn_links_cpu(&info, fn, &asqtad, links, 0);
    free(links);
    if (strcmp(what, "inverts") == 0) {
        fn_links_t *const other = create_fn_links();
        fill_gauge_field(401);
        links = create_G_from_site();
        __real_load_fn_links_cpu(&info, other, &asqtad, links, 0);
        try_inverts(fn, other, fault);
        destroy_fn_links(other);
        free(links);
    } else
        (strcmp(what, "compared") == 0 ? try_compared : try_measurements)(fn);
    destroy_fn_links(fn);
}

/* Blocks of the pool begin at whole large pages, those of glibc behind a header. */
static int of_pool(const void *block) { return (size_t)block % ((size_t)2 << 20) == 0; }

static int all_are(const unsigned char *block, size_t bytes, int value) {
    size_t k;
    for (k = 0; k < bytes; k++)
        if (block[k] != value)
            return 0;
    return 1;
}

static void try_memory(int pooled) {
    const size_t large = (size_t)5 << 20, larger = (size_t)11 << 20;
    unsigned char *volatile a = malloc(large), *volatile b, *volatile small = malloc(1000);
    check(of_pool(a) == pooled, "where a large block comes from", pooled);
    check(!of_pool(small), "where a small block comes from", 0);
    memset(a, 7, large);
    check(all_are(a, large, 7), "memset of a large block", 0);
    b = malloc(large);
    memcpy(b, a, large);
    check(all_are(b, large, 7), "memcpy of a large block", 0);
    free(a);
    a = calloc(large / 8, 8); /* of the pool: the block that was freed */
    check(of_pool(a) == pooled, "where calloc's block comes from", pooled);
    check(all_are(a, large, 0), "calloc's zeros", 0);
    b = realloc(b, larger);
    check(of_pool(b) == pooled, "where realloc's block comes from", pooled);
    check(all_are(b, large, 7), "what realloc keeps of a larger block", 0);
    b = realloc(b, 1000);
    check(all_are(b, 1000, 7), "what realloc keeps of a smaller block", 0);
    free(a), free(b), free(small);
    free(NULL);
}

/* As MILC's loops would use them. */
static int openmp_threads(void) {
    int (*const asked)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "omp_get_max_threads");
    return asked != NULL ? asked() : 0;
}

static void try_threads(void) {
    printf("threads while the GPU starts: %d\n", openmp_threads());
    fill_gauge_field(900);
    free(create_G_from_site()); /* the first routine */
    printf("threads then: %d\n", openmp_threads());
}

static void try_pauses(void) {
    const struct timespec pause = {0, 10000000};
    char *const volatile block = malloc((size_t)64 << 20);
    double spent = 0;
    int k;
    fill_gauge_field(900);
    free(create_G_from_site()); /* the first routine */
    for (k = 0; k < 30; k++) {
        clock_t before;
        memset(block, k, (size_t)64 << 20); /* by all threads */
        before = clock();
        nanosleep(&pause, NULL);
        spent += 1e3 * (clock() - before) / CLOCKS_PER_SEC;
    }
    free(block);
    printf("spent %.3f ms\n", spent);
}

Real __real_check_unitarity(void);
u_int32type __real_nersc_cksum(void);
void __real_d_linktrsum(double_complex *mean);
extern int own_checks;

/* Of links as a program has loaded them: MILC's numbers, the mean trace but for rounding. A link that is none is MILC's
 * to name. */
static void try_checks_of_lattice(void) {
    double_complex mean, own;
    Real *const some = &lattice[5].link[2].e[1][0].real;
    const Real was = *some;
    const int before = own_checks;
    check(check_unitarity() == __real_check_unitarity(), "deviation from unitarity", check_unitarity());
    check(nersc_cksum() == __real_nersc_cksum(), "checksum of a lattice", nersc_cksum());
    d_linktrsum(&mean);
    __real_d_linktrsum(&own);
    check(fabs(mean.real - own.real) < 1e-13 && fabs(mean.imag - own.imag) < 1e-13, "mean trace", mean.real - own.real);
    check(own_checks == before + 3, "what MILC's own checked", own_checks - before);
    *some = 3;
    check(check_unitarity() > 1 && own_checks == before + 4, "a link that is not unitary", own_checks - before);
    *some = was;
}

/* Links into a file and back, by the pair of routines. ILDG: of a field, in double. */
static gauge_file *write_links(const char *routines, file_name name, su3_matrix *field) {
#ifdef MILC_HOST_MASTER
    if (strcmp(routines, "scidac") == 0)
        return save_parallel_scidac(name);
    if (strcmp(routines, "ildg") == 0)
        return save_serial_ildg(name, (file_name) "lfn://host/links");
#else
    if (strcmp(routines, "scidac") == 0)
        return save_parallel_scidac(NULL, name, 1);
    if (strcmp(routines, "ildg") == 0)
        return save_serial_ildg(field, name, 2, "lfn://host/links");
#endif
    return (strcmp(routines, "mpiio") == 0      ? save_mpiio
            : strcmp(routines, "parallel") == 0 ? save_parallel
                                                : save_serial)(name);
}
static gauge_file *read_links(const char *routines, file_name name, su3_matrix *field) {
#ifdef MILC_HOST_MASTER
    if (strcmp(routines, "scidac") == 0 || strcmp(routines, "ildg") == 0)
        return restore_parallel_scidac(name);
#else
    if (strcmp(routines, "scidac") == 0 || strcmp(routines, "read_scidac") == 0)
        return restore_parallel_scidac(NULL, name);
    if (strcmp(routines, "ildg") == 0)
        return restore_serial_scidac(field, name);
#endif
    return (strcmp(routines, "mpiio") == 0      ? restore_mpiio
            : strcmp(routines, "parallel") == 0 ? restore_parallel
                                                : restore_serial)(name);
}

/* What MILC's own does shows in the first link. */
static void try_lattice_file(const char *routines, const char *name) {
    const int scidac = strcmp(routines, "scidac") == 0 || strcmp(routines, "ildg") == 0;
    gauge_file *written, *read;
    su3_matrix *links, *field;
    size_t i;
    fill_gauge_field(3);
    rephase(OFF);
    for (i = 0; i < sites_on_node * 72; i++) { /* as a file has them */
        Real *x = (Real *)lattice[i / 72].link + i % 72;
        *x = (float)*x;
    }
    links = create_G_from_site(), field = create_G_from_site();
    written = strncmp(routines, "read", 4) == 0 ? NULL : write_links(routines, (file_name)name, field);
    if (written != NULL)
        for (i = 0; i < sites_on_node; i++) {
            memset(lattice[i].link, 0, sizeof lattice[i].link);
            memset(&field[4 * i], 0, sizeof lattice[i].link);
        }
    read = read_links(routines, (file_name)name, field);
    if (read == NULL)
        return;
    for (i = 0; i < sites_on_node; i++) {
#ifndef MILC_HOST_MASTER
        if (strcmp(routines, "ildg") == 0) /* of a field: the sites keep theirs */
            memcpy(lattice[i].link, &field[4 * i], sizeof lattice[i].link);
#endif
        check(memcmp(lattice[i].link, &links[4 * i], sizeof lattice[i].link) == 0, "links of a site", (double)i);
    }
    check(scidac ? read->filename == name
                 : read->parallel == (strcmp(routines, "serial") != 0 && strcmp(routines, "read") != 0) &&
                       read->header->dims[1] == ny && read->rank2rcv == NULL && read->fp == NULL &&
                       read->header->header_bytes == 88 && read->header->order == 0 && read->filename == name,
          "what MILC keeps of a file", read->header->header_bytes);
    check(scidac || written == NULL ||
              (strcmp(read->header->time_stamp, written->header->time_stamp) == 0 &&
               read->check.sum29 == written->check.sum29 && read->check.sum31 == written->check.sum31),
          "stamp and sums", read->check.sum29);
    try_checks_of_lattice();
}

int main(int argc, char **argv) {
    const char *fault = argc > 1 ? argv[1] : "none";
    ks_action_paths asqtad;
    ks_action_paths_hisq hisq;
    int step;
    initialize_machine(&argc, &argv);
    if (strcmp(fault, "orders") == 0) {
        orders(argc > 2 ? argv[2] : "rhmc");
        normal_exit(0);
    }
    if (strcmp(fault, "trajectory") == 0) {
        trajectory(argc > 2 ? argv[2] : "none", argc > 3 ? argv[3] : "");
        normal_exit(0);
    }
    if (strcmp(fault, "memory") == 0 && argc > 2) {
        try_memory(strcmp(argv[2], "pool") == 0);
        printf("%d of %d checks wrong\n", failures, checks);
        normal_exit(failures != 0);
    }
    nx = nz = nt = 4, ny = strcmp(fault, "eigen") == 0 ? 4 : 6;
    make_lattice();
    if (strcmp(fault, "threads") == 0 || strcmp(fault, "pauses") == 0) {
        strcmp(fault, "threads") == 0 ? try_threads() : try_pauses();
        normal_exit(0);
    }
    if (strcmp(fault, "inverts") == 0 || strcmp(fault, "measurements") == 0 || strcmp(fault, "compared") == 0) {
        alone(fault, argc > 2 ? argv[2] : "none");
        printf("%d of %d checks wrong\n", failures, checks);
        normal_exit(failures != 0);
    }
    if (strcmp(fault, "eigen") == 0) {
        try_eigen(argc > 2 ? argv[2] : "none", argc > 3 ? argv[3] : "none");
        printf("%d of %d checks wrong\n", failures, checks);
        normal_exit(failures != 0);
    }
    if (strcmp(fault, "clover") == 0 || strcmp(fault, "dirac") == 0) {
        fill_gauge_field(500);
        rephase(OFF);
        (strcmp(fault, "dirac") == 0 ? try_dirac : try_clover)(argc > 2 ? argv[2] : "none");
        printf("%d of %d checks wrong\n", failures, checks);
        normal_exit(failures != 0);
    }
    if (strcmp(fault, "lattice_file") == 0) {
        try_lattice_file(argv[2], argv[3]);
        printf("%d of %d checks wrong\n", failures, checks);
        normal_exit(failures != 0);
    }
    if (strcmp(fault, "auxiliary") == 0 || strcmp(fault, "waiting") == 0) {
        if (strcmp(fault, "auxiliary") == 0)
            auxiliary();
        else
            waiting(argc > 2 ? argv[2] : "none");
        printf("%d of %d checks wrong\n", failures, checks);
        normal_exit(failures != 0);
    }
    if (strcmp(fault, "gauge") == 0) {
        gauge_everything();
        printf("%d of %d checks wrong\n", failures, checks);
        normal_exit(failures != 0);
    }
    fill_action(&asqtad, &hisq);
    for (step = 0; step < (strcmp(fault, "sets") == 0 ? 1 : 2); step++) {
        info_t info = {0};
        su3_matrix *links;
        fill_gauge_field(100 + step);
        links = create_G_from_site();
        check(memcmp(&links[4 * 5 + 2], &lattice[5].link[2], sizeof(su3_matrix)) == 0, "gauge links from the sites", 0);
        if (step == 1)
            inject(fault);
        if (FERM_ACTION == HISQ) {
            fn_links_t *fn[MAX_NAIK], *deps, *other[MAX_NAIK], *other_deps;
            hisq_auxiliary_t *aux, *other_aux;
            make_by(create_hisq_links_milc, fn, &deps, &aux, &hisq, links, 1);
            make_by(__real_create_hisq_links_milc, other, &other_deps, &other_aux, &hisq, links, 1);
            check_links(fn[0], other[0]);
            check_links(fn[1], other[1]);
            check_links(deps, other_deps);
            check(fn[0]->eps_naik == 0 && fn[1]->eps_naik == (fn[1] == deps ? 0 : hisq.eps_naik[1]), "eps_naik",
                  fn[1]->eps_naik);
            check(links_differ(aux->U_link, links) == 0, "U", 0);
            check(links_differ(aux->V_link, other_aux->V_link) < link_limit, "V", 0);
            check(links_differ(aux->W_unitlink, other_aux->W_unitlink) < link_limit, "W", 0);
            check(aux->WeqY && aux->W_unitlink == aux->Y_unitlink, "W is Y", 0);
            if (step == 0 && milcgpu_plugin_active())
                try_many_sets(links);
            solve_everything(fn[0], fn[1], fault);
            try_measurements(fn[0]);
            destroy_sets(&hisq, aux, fn, deps);
            destroy_sets(&hisq, other_aux, other, other_deps);
        } else {
            fn_links_t *fn = create_fn_links(), *other = create_fn_links();
            load_fn_links_cpu(&info, fn, &asqtad, links, 1);
            check(info.final_flop == (61632.0 + 1728.0) * volume, "flops of links", info.final_flop);
            __real_load_fn_links_cpu(&info, other, &asqtad, links, 1);
            check_links(fn, other);
            try_links_alone(&asqtad.p, links);
            solve_everything(fn, fn, fault);
            try_measurements(fn);
            destroy_fn_links(fn);
            destroy_fn_links(other);
        }
        free(links);
    }
    printf("%d of %d checks wrong\n", failures, checks);
    normal_exit(failures != 0);
    return 0;
}
