/* Pion and rho of a point source at the origin, from a lattice file: correlators FILE MASS. Without arguments it writes
 * a file, correlators.nersc, and measures on it. */
#include "cookbook.h"
#include <milcgpu/milcgpu_mesons.h>

/* G_c = M^-1 eta_c for n fields on all sites, as in propagator.c. volume: number of sites. Returns Re <eta, G>. */
static double propagators(milcgpu_links *links, double mass, int n, size_t volume, double *eta, double *g) {
    const milcgpu_storage in_double = {MILCGPU_DOUBLE, 0};
    const size_t all = 6 * volume, half = all / 2;
    milcgpu_field source[3], rhs[3], solution[3];
    double *work = calloc(n * all, sizeof *work), product = 0;
    for (int c = 0; c < n; ++c) {
        source[c] = (milcgpu_field){eta + c * all, MILCGPU_DOUBLE, 0};
        rhs[c] = (milcgpu_field){work + c * all, MILCGPU_DOUBLE, 0};
        solution[c] = (milcgpu_field){g + c * all, MILCGPU_DOUBLE, 0};
        ok(milcgpu_staggered_dslash(links, &in_double, MILCGPU_EVEN, &source[c], &rhs[c]));
        for (size_t k = c * all; k < c * all + half; ++k) /* M^dag eta on even sites, which come first */
            work[k] = 2 * mass * eta[k] - work[k];
    }
    milcgpu_solve_spec spec;
    milcgpu_solve_defaults(&spec, sizeof spec);
    spec.mass = mass;
    spec.tolerance = 1e-12;
    ok(milcgpu_staggered_solve_sources(links, &spec, MILCGPU_TOGETHER_AUTO, n, rhs, solution, NULL));
    for (int c = 0; c < n; ++c) {
        ok(milcgpu_staggered_dslash(links, &in_double, MILCGPU_ODD, &solution[c], &solution[c]));
        for (size_t k = c * all + half; k < (c + 1) * all; ++k)
            g[k] = (eta[k] - g[k]) / (2 * mass);
        for (size_t k = c * all; k < (c + 1) * all; ++k)
            product += eta[k] * g[k];
    }
    free(work);
    return product;
}

int main(int argc, char **argv) {
    const char *path = argc > 1 ? argv[1] : "correlators.nersc";
    const double mass = argc > 2 ? atof(argv[2]) : 0.1;
    if (argc == 1)
        write_plain_file(path);
    milcgpu_gauge_file head = {.struct_size = sizeof head};
    ok(milcgpu_gauge_file_look(path, &head));
    const int *extent = head.extent, times = extent[3];
    const size_t volume = (size_t)extent[0] * extent[1] * extent[2] * times;

    milcgpu_layout layout = {.struct_size = sizeof layout, .extent = {extent[0], extent[1], extent[2], times}};
    milcgpu_context *context;
    ok(milcgpu_context_create(&layout, NULL, &context));
    double *gauge = malloc(72 * volume * sizeof *gauge);
    const milcgpu_field u = {gauge, MILCGPU_DOUBLE, 0};
    ok(milcgpu_gauge_file_read(context, path, &u, NULL));
    milcgpu_links *links = NULL;
    milcgpu_fatlink_spec hisq;
    milcgpu_hisq_defaults(&hisq, sizeof hisq);
    hisq.signs = MILCGPU_SIGNS_OUT; /* files have no phases: the library multiplies them in */
    const milcgpu_fatlink_set set = {.links = &links};
    ok(milcgpu_links_make(context, &hisq, &u, &set, 1, NULL, NULL));

    double *eta = calloc(18 * volume, sizeof *eta), *g = calloc(18 * volume, sizeof *g);
    milcgpu_field quarks[3];
    for (int c = 0; c < 3; ++c) { /* site (0, 0, 0, 0) is the first one */
        eta[6 * volume * c + 2 * c] = 1;
        quarks[c] = (milcgpu_field){g + 6 * volume * c, MILCGPU_DOUBLE, 0};
    }
    const double product = propagators(links, mass, 3, volume, eta, g);

    milcgpu_meson_links *none; /* local operators use no links */
    ok(milcgpu_meson_links_create(context, MILCGPU_DOUBLE, &none));
    const milcgpu_momentum rest = {{0, 0, 0}, {MILCGPU_EVEN, MILCGPU_EVEN, MILCGPU_EVEN}};
    const milcgpu_meson_term terms[] = {{milcgpu_spin_taste_index("G5-G5"), 0, 0, 1, 0},
                                        {milcgpu_spin_taste_index("GX-GX"), 0, 0, 1. / 3, 1},
                                        {milcgpu_spin_taste_index("GY-GY"), 0, 0, 1. / 3, 1},
                                        {milcgpu_spin_taste_index("GZ-GZ"), 0, 0, 1. / 3, 1}};
    milcgpu_meson_spec spec;
    milcgpu_meson_defaults(&spec, sizeof spec);
    spec.n_momenta = 1, spec.momenta = &rest;
    spec.n_terms = 4, spec.terms = terms;
    spec.n_correlators = 2;
    double *correlators = calloc(4 * times, sizeof *correlators), sum = 0; /* complex numbers */
    const milcgpu_quarks fields = {.host = quarks};
    ok(milcgpu_quarks_contract(none, &spec, NULL, NULL, 3, &fields, &fields, correlators));
    printf("t,pion,rho\n");
    for (int t = 0; t < times; ++t) {
        printf("%d,%.15e,%.15e\n", t, correlators[2 * t], correlators[2 * (times + t)]);
        sum += correlators[2 * t];
    }
    /* Goldstone's Ward identity: sum over x of |G|^2 = Re <eta, G> / 2m */
    const double ward = sum * 2 * mass / product - 1;
    const int good = small("Ward identity", ward < 0 ? -ward : ward, 1e-10);
    milcgpu_meson_links_destroy(none);
    milcgpu_links_destroy(links);
    milcgpu_context_destroy(context);
    free(gauge), free(eta), free(g), free(correlators);
    return good ? 0 : 1;
}
