/* The lowest eigenvectors of -D^2, and a solve of a light quark with and without deflation by them. */
#include "cookbook.h"
#include <milcgpu/milcgpu_eigen.h>

static double b[6 * sites], x[2][6 * sites];

int main(void) {
    enum { count = 96 };
    milcgpu_context *context = make_context();
    milcgpu_gauge *gauge = make_gauge(context);
    milcgpu_links *links = NULL;
    make_hisq(gauge, &links);
    fill_random(b, 6 * sites);

    milcgpu_eigen_spec lowest;
    milcgpu_eigen_defaults(&lowest, sizeof lowest); /* even sites; as accurate as deflation needs */
    lowest.count = count;
    milcgpu_eigenvectors *vectors;
    milcgpu_eigen_report made = {.struct_size = sizeof made};
    ok(milcgpu_eigenvectors_compute(links, &lowest, &vectors, &made));
    double l[count];
    ok(milcgpu_eigenvectors_values(vectors, l, NULL));
    printf("%d vectors of eigenvalues %.4f to %.4f; %.0f applications of -D^2\n", made.count, l[0], l[made.count - 1],
           made.applications);

    int steps[2];
    for (int deflated = 0; deflated < 2; ++deflated) {
        milcgpu_solve_spec spec;
        milcgpu_solve_defaults(&spec, sizeof spec);
        spec.mass = 0.005;
        spec.tolerance = 1e-10;
        spec.sloppy.precision = MILCGPU_SINGLE;
        spec.eigenvectors = deflated ? vectors : NULL;
        milcgpu_solve_report report = {.struct_size = sizeof report};
        milcgpu_field source = {b, MILCGPU_DOUBLE, 0}, solution = {x[deflated], MILCGPU_DOUBLE, 0};
        ok(milcgpu_staggered_solve(links, &spec, &source, &solution, &report));
        steps[deflated] = report.steps;
        printf("%s: %d steps, true residual %.1e\n", deflated ? "deflated" : "plain", report.steps,
               report.true_residual);
    }
    const int good =
        small("difference of the solutions", distance(x[1], x[0], 6 * even_sites), 1e-15) && steps[1] < steps[0] / 2;
    milcgpu_eigenvectors_destroy(vectors);
    milcgpu_links_destroy(links);
    milcgpu_gauge_destroy(gauge);
    milcgpu_context_destroy(context);
    return good ? 0 : 1;
}
