/* Eigenvectors as MILC's programs use them, and solves that are deflated with them. */
#include "../generic_ks/generic_ks_includes.h"

#include "../include/fermion_links.h"

#include "../include/imp_ferm_links.h"
#include "checks.h"
#include "plugin.h"
#include <math.h>
#include <quark_action.h>
#include <string.h>

int __real_ks_eigensolve_Kalkreuter_Ritz(su3_vector **, eigenvalue *, ks_eigen_param *, int);
void __real_check_eigres(double *, su3_vector **, eigenvalue *, int, int, imp_ferm_links_t *);
#ifdef MILC_HOST_MASTER
#define BLOCK_TYPE UMLTYPE
#define MAT_INVERT_FIELD(src, dst, qic, mass, fn)                                                                      \
    ((qic)->inv_type == CGTYPE ? mat_invert_cg_field(src, dst, qic, mass, fn)                                          \
                               : mat_invert_uml_field(src, dst, qic, mass, fn))
#else
#define BLOCK_TYPE CGTYPE
#define MAT_INVERT_FIELD(src, dst, qic, mass, fn) mat_invert_field(src, dst, qic, mass, fn)
#endif

/* In program.c, fn_links.c, originals.cpp, eigen_stuff.c. */

enum { n = 8, most_sources = 2 };
static const Real light = 0.02;

/* How many complex numbers each site of a parity has drawn; -1: not all the same. */
static long drawn(int parity) {
    const site *const s = lattice + (parity == ODD ? even_sites_on_node : 0);
    size_t i;
    for (i = 1; i < even_sites_on_node; i++)
        if (s[i].site_prn.drawn != s[0].site_prn.drawn)
            return -1;
    return s[0].site_prn.drawn;
}

static int active(void) { return milcgpu_plugin_active(); }
static int not_filled(void) { return milcgpu_plugin_eigen_on_device((void *const *)eigVec); }

static void make_room(void) {
    int k;
    eigVec = (su3_vector **)malloc(n * sizeof(su3_vector *));
    eigVal = (eigenvalue *)malloc(n * sizeof(eigenvalue));
    for (k = 0; k < n; k++)
        eigVec[k] = random_field(300 + k); /* old contents */
}
static void give_room_back(void) {
    int k;
    for (k = 0; k < n; k++)
        free(eigVec[k]);
    free(eigVec), free(eigVal);
}

/* Solves with `deflate`, and without it by MILC's own. Returns the iterations of the deflated solve. */
static int solve(int sources, enum inv_type inverter, fn_links_t *fn) {
    su3_vector *src[most_sources], *x[most_sources], *y[most_sources];
    quark_invert_control qic = control(EVENANDODD), other;
    int k, iterations, without;
    qic.inv_type = inverter;
    qic.deflate = 1;
    qic.max = 2000;
    other = qic;
    other.deflate = 0;
    for (k = 0; k < sources; k++)
        src[k] = random_field(400 + k), x[k] = random_field(410 + k), y[k] = copy(x[k]);
    iterations = sources == 1 ? MAT_INVERT_FIELD(src[0], x[0], &qic, light, fn)
                              : MAT_INVERT_BLOCK(src, x, light, sources, &qic, fn);
    without = sources == 1 ? MAT_INVERT_FIELD(src[0], y[0], &other, light, fn)
                           : MAT_INVERT_BLOCK(src, y, light, sources, &other, fn);
    check(qic.converged == 1 && qic.deflate == 1, "a deflated solve", qic.final_rsq);
    check_iterations(!active() || iterations <= without, "deflation costs no iterations", iterations - without);
    for (k = 0; k < sources; k++) {
        check(difference(x[k], y[k], 6 * sites_on_node) < allowed(light), "a deflated solution",
              difference(x[k], y[k], 6 * sites_on_node));
        free(src[k]), free(x[k]), free(y[k]);
    }
    return iterations;
}

static void solve_all_ways(fn_links_t *fn) {
    solve(1, UMLTYPE, fn);
    solve(1, CGTYPE, fn);
    solve(2, BLOCK_TYPE, fn);
#ifndef MILC_HOST_MASTER
    solve(1, CGZTYPE, fn);
    solve(2, CGZTYPE, fn);
#endif
}

/* MILC's own values, from its own vectors and numbers. */
static void compare_values(void) {
    ks_eigen_param p = param.eigen_param;
    su3_vector *vectors[n];
    eigenvalue values[n];
    double residuals[n];
    const double limit = MILC_PRECISION == 1 ? 1e-5 : 1e-8;
    fn_links_t *fn = LINKS_OF(fn_links, 0);
    int k;
    for (k = 0; k < n; k++)
        vectors[k] = random_field(310);
    milcgpu_plugin_original(MILCGPU_EIGENSOLVE, 1);
    __real_ks_eigensolve_Kalkreuter_Ritz(vectors, values, &p, 1);
    __real_check_eigres(residuals, vectors, values, n, p.parity, fn);
    milcgpu_plugin_original(MILCGPU_EIGENSOLVE, 0);
    for (k = 0; k < n; k++) {
        check(fabs(eigVal[k] - values[k]) < limit, "an eigenvalue", eigVal[k] - values[k]);
        free(vectors[k]);
    }
    GIVE_BACK(fn);
}

static void first_random_numbers(void) {
    size_t i;
    for (i = 0; i < sites_on_node; i++)
        lattice[i].site_prn.state = i, lattice[i].site_prn.drawn = 0;
}

/* MILC draws random numbers on the vectors' sites alone, and none for vectors that it has. */
static void solve_on_odd_sites(void) {
    ks_eigen_param p = param.eigen_param;
    p.parity = ODD, p.Nvecs_in = 3;
    first_random_numbers();
    ks_eigensolve_Kalkreuter_Ritz(eigVec, eigVal, &p, 1);
    check(drawn(EVEN) == 0 && drawn(ODD) == 3 * (n - 3), "random numbers of odd sites", drawn(ODD));
}

/* Any routine that reads eigVec finds it filled on both parities, whichever reads first. */
static void read_first(imp_ferm_links_t *fn) {
    char tag[] = "DENSITY(0)";
    double sum = 0;
    int reader;
    for (reader = 0; reader < 4; reader++) {
        Real densities = 0;
        ks_eigensolve_Kalkreuter_Ritz(eigVec, eigVal, &param.eigen_param, 1);
        CONSTRUCT_OTHER(eigVec, eigVal, &param.eigen_param, fn);
        check(not_filled(), "eigVec is not filled before it is read", reader);
        if (reader == 1)
            print_densities(eigVec[0], tag, 0, 0, 0, EVEN);
        else if (reader == 2)
            measure_chirality(eigVec[0], &sum, EVEN);
        else if (reader == 3)
            f_meas_current_diff(0, 0, 0, NULL, NULL, NULL, NULL, NULL, &densities, NULL);
        check(reader == 0 || !not_filled(), "eigVec is filled by who reads it", reader);
        densities = 0;
        f_meas_current(0, 0, 0, NULL, NULL, NULL, NULL, &densities, NULL);
        check(fabs(densities - 2 * n) < (MILC_PRECISION == 1 ? 1e-4 : 1e-7), "norms of all vectors", densities - 2 * n);
    }
}

#ifndef MILC_HOST_MASTER
void __real_f_meas_current(int, int, int, quark_invert_control *, Real *, Real *, imp_ferm_links_t **, Real *,
                           char (*)[MAXFILENAME]);
/* Currents of one mass, with noise and with the eigenvectors, by both sides with the same random numbers. */
static void try_currents(imp_ferm_links_t *fn, int are_new) {
    enum { nrand = 2, thinning = 2 };
    quark_invert_control qic = control(EVEN);
    Real mass = 0.1, charge = 0;
    double filled;
    ape_links = create_G_from_site();
    ape_links_ks_phases = ON;
    qic.max = 2000;
    first_random_numbers();
    printf("currents by milcgpu\n");
    f_meas_current(1, nrand, thinning, &qic, &mass, &charge, &fn, NULL, NULL);
    check(!active() || not_filled() == are_new, "currents do not fill eigVec", are_new);
    check(drawn(EVEN) == 3 * nrand && drawn(ODD) == 3 * nrand, "random numbers of noise", drawn(EVEN));
    measure_chirality(eigVec[0], &filled, EVEN);
    first_random_numbers();
    printf("currents by MILC\n");
    __real_f_meas_current(1, nrand, thinning, &qic, &mass, &charge, &fn, NULL, NULL);
    free(ape_links);
    ape_links = NULL;
}
#endif

/* The part on odd sites belongs to twisted links, but MILC removes the twist before any routine reads that part. */
void __real_dslash_fn_field(su3_vector *, su3_vector *, int, imp_ferm_links_t *);
#ifndef MILC_HOST_MASTER
static void check_odd_part(imp_ferm_links_t *fn) {
    const size_t half = 6 * even_sites_on_node;
    double worst = 0;
    int k;
    for (k = 0; k < n; k++) {
        su3_vector *own = copy(eigVec[k]);
        Real *const odd = (Real *)own + half;
        double size = 0;
        size_t i;
        __real_dslash_fn_field(own, own, ODD, fn);
        for (i = 0; i < half; i++)
            size += odd[i] * odd[i];
        for (i = 0; i < half; i++)
            odd[i] /= sqrt(size);
        worst = fmax(worst, difference((Real *)eigVec[k] + half, odd, half));
        free(own);
    }
    check(worst < (MILC_PRECISION == 1 ? 1e-5 : 1e-12), "vectors on odd sites, of twisted links", worst);
}
static void try_twisted(fn_links_t *fn) {
    eigen_residual none[n];
    int from_file, count = n;
    for (from_file = 0; from_file < 2; from_file++) {
        if (from_file) {
            reload_ks_eigen(RELOAD_SERIAL, NULL, &count, eigVal, eigVec, fn, 1);
            CONSTRUCT_OTHER(eigVec, eigVal, &param.eigen_param, fn);
        }
        boundary_twist_fn(fn, 0);
        {
            imp_ferm_links_t *of_mass = LINKS_OF(fn_links, FERM_ACTION == HISQ);
            try_currents(of_mass, !from_file);
            GIVE_BACK(of_mass);
        }
        boundary_twist_fn(fn, 1);
        check_odd_part(fn);
        save_ks_eigen(SAVE_SERIAL, NULL, n, eigVal, eigVec, none, 1);
    }
    /* Read on the host alone; and requested when MILC's fields have the vectors. */
    for (from_file = 0; from_file < 2; from_file++) {
        ks_eigensolve_Kalkreuter_Ritz(eigVec, eigVal, &param.eigen_param, 1);
        if (from_file)
            save_ks_eigen(SAVE_SERIAL, NULL, n, eigVal, eigVec, none, 1);
        CONSTRUCT_OTHER(eigVec, eigVal, &param.eigen_param, fn);
        boundary_twist_fn(fn, 0);
        save_ks_eigen(SAVE_SERIAL, NULL, n, eigVal, eigVec, none, 1);
        boundary_twist_fn(fn, 1);
        check_odd_part(fn);
    }
}
#endif

/* fault: in the eigensolver, or, "later", in a solve with vectors that only the device has. what: readers, currents,
 * twisted links, another eigensolver, or "tight": a tolerance that single precision does not reach. */
void try_eigen(const char *fault, const char *what) {
    const int primme = strcmp(what, "PRIMME") == 0, draws = !primme && strcmp(what, "ARPACK") != 0;
    const int twisted = strcmp(what, "twisted") == 0;
    const int later = strcmp(fault, "later") == 0, is_double = MILC_PRECISION == 2;
    double even[n], odd[n], again[n];
    eigen_residual none[n];
    int k, count = n, iterations, reloaded;
    fn_links_t *fn;
    fill_gauge_field(600);
    fill_action(&fn_links->ap, &fn_links->aph);
    restore_fermion_links_from_site(fn_links, MILC_PRECISION);
    const double tolerance = strcmp(what, "tight") == 0 ? 1e-14 : is_double ? 1e-11 : 1e-9;
    param.eigen_param = (ks_eigen_param){n, 0, tolerance, 0.3, 100, 10, 20, EVEN};
    make_room();
    reload_ks_eigen(FRESH, NULL, &count, eigVal, eigVec, NULL, 1);
    first_random_numbers();
    fn = LINKS_OF(fn_links, 0);
    if (twisted) {
        fn->phase->bdry_phase[TUP] = 1;
        boundary_twist_fn(fn, 1);
    }
    GIVE_BACK(fn);
    inject(later ? "none" : fault);
    if (primme)
        ks_eigensolve_PRIMME(eigVec, eigVal, &param.eigen_param, 1);
    else if (strcmp(what, "ARPACK") == 0)
        ks_eigensolve_ARPACK(eigVec, eigVal, &param.eigen_param, 1);
    else
        ks_eigensolve_Kalkreuter_Ritz(eigVec, eigVal, &param.eigen_param, 1);
    inject("none");
    check(drawn(EVEN) == (draws ? 3 * n : 0) && drawn(ODD) == 0, "random numbers", drawn(EVEN));
    fn = LINKS_OF(fn_links, 0);
    CONSTRUCT_OTHER(eigVec, eigVal, &param.eigen_param, fn);
    check_eigres(even, eigVec, eigVal, n, EVEN, fn);
    check_eigres(odd, eigVec, eigVal, n, ODD, fn);
#ifndef MILC_HOST_MASTER
    if (strcmp(what, "currents") == 0) {
        try_currents(fn, 1);
        GIVE_BACK(fn);
        return;
    }
    if (twisted) {
        try_twisted(fn);
        GIVE_BACK(fn);
        return;
    }
#endif
    if (strcmp(what, "readers") == 0) {
        Real none_there = 0;
        void *first[1];
        solve_on_odd_sites();
        read_first(fn);
        ks_eigensolve_Kalkreuter_Ritz(eigVec, eigVal, &param.eigen_param, 1);
        first[0] = eigVec[0];
        give_room_back();
        param.eigen_param.Nvecs = 0; /* the next input has no vectors */
        f_meas_current(0, 0, 0, NULL, NULL, NULL, NULL, &none_there, NULL);
        check(none_there == 0 && milcgpu_plugin_eigen_on_device(first), "vectors that are freed stay as they are", 0);
        GIVE_BACK(fn);
        return;
    }
    if (later) {
        inject("device");
        solve(1, UMLTYPE, fn);
        inject("none");
        GIVE_BACK(fn);
        save_ks_eigen(FORGET, NULL, n, eigVal, eigVec, none, 1);
        printf("the vectors are saved\n");
        fflush(stdout);
        save_ks_eigen(SAVE_SERIAL, NULL, n, eigVal, eigVec, none, 1);
        check(0, "a save of vectors that are lost", 0);
        return;
    }
    iterations = solve(1, UMLTYPE, fn);
    solve_all_ways(fn);
    if (active() && !milcgpu_plugin_compare() && strcmp(fault, "device") != 0)
        check(not_filled(), "eigVec is not filled while nobody reads it", 0);
    save_ks_eigen(FORGET, NULL, n, eigVal, eigVec, none, 1);
    save_ks_eigen(SAVE_SERIAL, NULL, n, eigVal, eigVec, none, 1);
    check(!not_filled(), "eigVec is filled before it is saved", 0);
    for (k = EVEN; k >= ODD; k--) {
        const double *const residuals = k == EVEN ? even : odd;
        int j;
        __real_check_eigres(again, eigVec, eigVal, n, k, fn);
        for (j = 0; j < n; j++)
            check(fabs(again[j] - residuals[j]) < 0.05 * residuals[j] + (is_double ? 0 : 1e-4), "a residual",
                  again[j] - residuals[j]);
    }
    compare_values();
    give_room_back();
    make_room(); /* as for the next lattice */
    reload_ks_eigen(RELOAD_SERIAL, NULL, &count, eigVal, eigVec, fn, 1);
    reloaded = solve(1, UMLTYPE, fn);
    check_iterations(abs(reloaded - iterations) <= iterations / 10 + 2, "iterations with vectors of a file", reloaded);
    solve_all_ways(fn);
    check(!not_filled(), "eigVec has what was read", 0);
    GIVE_BACK(fn);
    /* Links that the vectors do not belong to: other ones, while the program has dropped its own, and new ones. */
    fermion_links_t other = *fn_links;
    memset(other.fn, 0, sizeof other.fn);
    restore_fermion_links_from_site(&other, MILC_PRECISION);
    invalidate_fermion_links(fn_links);
    fn = LINKS_OF(&other, 0);
    solve(1, UMLTYPE, fn);
    GIVE_BACK(fn);
    invalidate_fermion_links(&other);
    fill_gauge_field(601);
    restore_fermion_links_from_site(fn_links, MILC_PRECISION);
    fn = LINKS_OF(fn_links, 0);
    solve(1, UMLTYPE, fn);
    reload_ks_eigen(RELOAD_SERIAL, NULL, &count, eigVal, eigVec, fn, 1); /* a file of other links' vectors */
    solve(1, UMLTYPE, fn);
    solve(1, CGTYPE, fn);
    GIVE_BACK(fn);
    give_room_back();
}
