/* A quark propagator: M x = b on all sites, M = 2 m + D, by one solve on even sites. */
#include "cookbook.h"

static double b[6 * sites], x[6 * sites], rhs[6 * sites], image[6 * sites]; /* even sites, then odd ones */

static void dslash(milcgpu_links *links, int parity, double *from, double *to) {
    const milcgpu_storage in_double = {MILCGPU_DOUBLE, 0};
    milcgpu_field source = {from, MILCGPU_DOUBLE, 0}, destination = {to, MILCGPU_DOUBLE, 0};
    ok(milcgpu_staggered_dslash(links, &in_double, parity, &source, &destination));
}

int main(void) {
    const double mass = 0.05;
    const size_t half = 6 * even_sites, all = 6 * sites;
    milcgpu_context *context = make_context();
    milcgpu_gauge *gauge = make_gauge(context);
    milcgpu_links *links = NULL;
    make_hisq(gauge, &links);
    fill_random(b, all);

    /* M^dag b = 2 m b - D b on even sites */
    dslash(links, MILCGPU_EVEN, b, rhs);
    for (size_t k = 0; k < half; ++k)
        rhs[k] = 2 * mass * b[k] - rhs[k];

    milcgpu_solve_spec spec;
    milcgpu_solve_defaults(&spec, sizeof spec); /* even sites, double */
    spec.mass = mass;
    spec.tolerance = 1e-11;
    spec.sloppy.precision = MILCGPU_SINGLE; /* iterates in single, to a residual in double */
    milcgpu_solve_report report = {.struct_size = sizeof report};
    milcgpu_field source = {rhs, MILCGPU_DOUBLE, 0}, solution = {x, MILCGPU_DOUBLE, 0}; /* x is also the guess: 0 */
    ok(milcgpu_staggered_solve(links, &spec, &source, &solution, &report));
    printf("%d iterations, true residual %.1e\n", report.iterations, report.true_residual);

    /* x = (b - D x) / (2 m) on odd sites */
    dslash(links, MILCGPU_ODD, x, x);
    for (size_t k = half; k < all; ++k)
        x[k] = (b[k] - x[k]) / (2 * mass);

    dslash(links, MILCGPU_EVEN, x, image);
    dslash(links, MILCGPU_ODD, x, image);
    for (size_t k = 0; k < all; ++k)
        image[k] += 2 * mass * x[k];
    const int good = small("|M x - b|^2 / |b|^2", distance(image, b, all), 1e-18);

    milcgpu_links_destroy(links);
    milcgpu_gauge_destroy(gauge);
    milcgpu_context_destroy(context);
    return good ? 0 : 1;
}
