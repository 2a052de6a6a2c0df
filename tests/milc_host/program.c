/* Runs routines that the glue may have replaced, each beside its original. Exit status 0: all were right.
 *
 *   program [a fault: none, device, memory; or sets: only sets of propagators]: a short sequence, in links.c
 *   program inverts [a fault: none, device, memory, flip]: only M x = b, in inverts.c
 *   program eigen [a fault: none, device, memory, later] [readers: routines that read eigVec; currents, twisted,
 *     PRIMME, ARPACK]: eigenvectors, in eigen.c
 *   program clover [a fault: none, device, memory, flip]: solves with the clover matrix, in clover.c
 *   program dirac [a fault: none, device, memory, flip]: D and contractions of Dirac fields, in clover.c
 *   program memory [kept, or freed]: freed fields must stay in the process, or leave it, in host.c
 *   program setup [threads, or one] [bad, turned, own, again, or rank: rank 1 of two]: gathers and generators of random
 *     numbers, in host.c
 *   program auxiliary: auxiliary links, needed and not, in links.c
 *   program sums: sums of links, in use while others are destroyed, in links.c
 *   program waiting [a fault: none, device, memory, flip]: links that no routine reads, in links.c
 *   program threads: the number of OpenMP's threads, in host.c
 *   program pauses: processor time of pauses between loops of all threads, in host.c
 *   program lattice_file ROUTINES FILE: links to a file and back, in host.c
 *   program measurements: only measurements.c
 *   program baryons [FAULT]: only baryons.c
 *   program compared: only compared.c
 *   program declined: calls that are left to MILC's own, in compared.c
 *   program gauge: only gauge fixing and APE smearing, in links.c
 *   program trajectory [a fault: none, device, memory, write] [its place]: molecular dynamics, in trajectory.c
 *   program orders [rhmc, dyn, write]: every order of two routines of molecular dynamics, in orders.c
 *   program twin: random sequences beside MILC's originals, in twin.c
 */
#include "../generic_ks/generic_ks_includes.h"
#include "../include/fermion_links.h"
#include "checks.h"
#include "ranks.h"
#include "test_hooks.h"
#include <math.h>
#include <string.h>

void __real_load_fn_links_cpu(info_t *, fn_links_t *, ks_action_paths *, su3_matrix *, int);

void in_steps(const char *fault);
void gauge_everything(void);
void auxiliary(void);
void waiting(const char *fault);
void sums_of_links(void);
void try_memory(int kept);
void try_setup(int by_threads, const char *what);
void try_reload(int by_threads, int again, int fast);
void try_threads(void);
void try_pauses(void);
void try_lattice_file(const char *routines, const char *name);
void trajectory(const char *fault, const char *at);
void orders(const char *what);
void try_measurements(fn_links_t *fn);
void try_baryons(const char *fault);
void try_solved_quarks(fn_links_t *fn);
void try_compared(fn_links_t *fn);
void try_declined(fn_links_t *fn);
void try_inverts(fn_links_t *fn, fn_links_t *fn_last, const char *fault);
void try_eigen(const char *fault, const char *what);
void try_clover(const char *fault);
void try_dirac(const char *fault);
int twin(int argc, char **argv);

const double resid = MILC_PRECISION == 1 ? 1e-5 : 1e-9;
static int failures, checks;

void check(int good, const char *what, double value) {
    checks++;
    if (good)
        return;
    failures++;
    printf("WRONG: %s (%g)\n", what, value);
}

/* As many as on the CPU, unless MILC_HOST_ITERATIONS is set: a solve that starts again in a higher precision takes
 * more. */
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

/* The largest distance of two solutions of this tolerance: |A^-1| is at most 1 / (4 m^2), and |b| is about |x| /
 * sqrt(2) here. */
double allowed(double mass) { return 4 * resid / (4 * mass * mass) + (MILC_PRECISION == 1 ? 1e-4 : 1e-12); }

void inject(const char *fault) {
    if (strcmp(fault, "device") == 0)
        milcgpu_plugin_inject_fault(MILCGPU_FAULT_DEVICE_LOST);
    if (strcmp(fault, "memory") == 0)
        milcgpu_plugin_inject_fault(MILCGPU_FAULT_ALLOCATION);
    if (strcmp(fault, "flip") == 0)
        milcgpu_plugin_inject_fault(MILCGPU_FAULT_FLIP_LINKS);
}

/* inverts.c, measurements.c or compared.c, with its own links. */
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
        (strcmp(what, "compared") == 0        ? try_compared
         : strcmp(what, "declined") == 0      ? try_declined
         : strcmp(what, "solved_quarks") == 0 ? try_solved_quarks
                                              : try_measurements)(fn);
    destroy_fn_links(fn);
}

/* Programs that mostly solve have few sites. (Operators and smearing of measurements need more than two in each
 * direction.) */
static int is_small(const char *what) {
    return strcmp(what, "inverts") == 0 || strcmp(what, "eigen") == 0 || strcmp(what, "clover") == 0 ||
           strcmp(what, "sets") == 0 || strcmp(what, "waiting") == 0 || strcmp(what, "sums") == 0;
}

int main(int argc, char **argv) {
    const char *fault = argc > 1 ? argv[1] : "none";
    if (strcmp(fault, "twin") == 0)
        return twin(argc, argv);
    initialize_machine(&argc, &argv);
    if (strcmp(fault, "orders") == 0) {
        orders(argc > 2 ? argv[2] : "rhmc");
        normal_exit(0);
    }
    if (strcmp(fault, "trajectory") == 0) {
        if (getenv("MILC_HOST_EMPTY_SET") != NULL) /* of eps_naik */
            n_orders_naik[0] = n_order_naik_total, n_orders_naik[1] = 0;
        trajectory(argc > 2 ? argv[2] : "none", argc > 3 ? argv[3] : "");
        normal_exit(0);
    }
    if (strcmp(fault, "memory") == 0 && argc > 2) {
        try_memory(strcmp(argv[2], "kept") == 0);
        printf("%d of %d checks wrong\n", failures, checks);
        normal_exit(failures != 0);
    }
    nx = nt = 4, ny = strcmp(fault, "eigen") == 0 ? 4 : 6;
    nz = is_small(fault) ? 2 : 4;
    if (strcmp(fault, "setup") == 0 && argc > 6 && strcmp(argv[3], "rank") == 0) {
        nz = nt = 8;
        become_rank(NULL, atoi(argv[4]), (const int[4]){1, 1, atoi(argv[5]), atoi(argv[6])});
    }
    make_lattice();
    if (strcmp(fault, "setup") == 0) {
        try_setup(strcmp(argv[2], "threads") == 0, argc > 3 ? argv[3] : "");
        printf("%d of %d checks wrong\n", failures, checks);
        normal_exit(failures != 0);
    }
    if (strcmp(fault, "reload") == 0) {
        try_reload(strcmp(argv[2], "threads") == 0, argc > 3 && strcmp(argv[3], "again") == 0,
                   argc > 3 && strcmp(argv[3], "fast") == 0);
        printf("%d of %d checks wrong\n", failures, checks);
        normal_exit(failures != 0);
    }
    if (strcmp(fault, "input") == 0) { /* alone, before any routine of the library */
        while (readin(0) == 0)
            ;
        normal_exit(0);
    }
    if (strcmp(fault, "threads") == 0 || strcmp(fault, "pauses") == 0) {
        strcmp(fault, "threads") == 0 ? try_threads() : try_pauses();
        normal_exit(0);
    }
    if (strcmp(fault, "inverts") == 0 || strcmp(fault, "measurements") == 0 || strcmp(fault, "compared") == 0 ||
        strcmp(fault, "declined") == 0 || strcmp(fault, "solved_quarks") == 0) {
        alone(fault, argc > 2 ? argv[2] : "none");
        while (readin(0) == 0)
            ;
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
    if (strcmp(fault, "baryons") == 0) {
        try_baryons(argc > 2 ? argv[2] : "none");
        printf("%d of %d checks wrong\n", failures, checks);
        normal_exit(failures != 0);
    }
    if (strcmp(fault, "lattice_file") == 0) {
        try_lattice_file(argv[2], argv[3]);
        printf("%d of %d checks wrong\n", failures, checks);
        normal_exit(failures != 0);
    }
    if (strcmp(fault, "auxiliary") == 0 || strcmp(fault, "waiting") == 0 || strcmp(fault, "sums") == 0) {
        if (strcmp(fault, "auxiliary") == 0)
            auxiliary();
        else if (strcmp(fault, "sums") == 0)
            sums_of_links();
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
    in_steps(fault);
    printf("%d of %d checks wrong\n", failures, checks);
    normal_exit(failures != 0);
    return 0;
}
