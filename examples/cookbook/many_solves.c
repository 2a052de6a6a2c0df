/* Several masses of one source in one Krylov space, and several sources of one mass in one Krylov space. */
#include "cookbook.h"

enum { n = 4 };
static double b[n][6 * sites], of_masses[n][6 * sites], of_sources[n][6 * sites];

int main(void) {
    const double masses[n] = {0.02, 0.05, 0.1, 0.4};
    milcgpu_context *context = make_context();
    milcgpu_gauge *gauge = make_gauge(context);
    milcgpu_links *links = NULL;
    make_hisq(gauge, &links);
    fill_random(b[0], n * 6 * sites);
    milcgpu_field sources[n], solutions[n], by_mass[n];
    for (int k = 0; k < n; ++k) {
        sources[k] = (milcgpu_field){b[k], MILCGPU_DOUBLE, 0};
        solutions[k] = (milcgpu_field){of_sources[k], MILCGPU_DOUBLE, 0};
        by_mass[k] = (milcgpu_field){of_masses[k], MILCGPU_DOUBLE, 0};
    }

    /* source 0, all masses: offsets are 4 m^2 */
    milcgpu_pole shifts[n];
    for (int k = 0; k < n; ++k)
        shifts[k] = (milcgpu_pole){4 * masses[k] * masses[k], 1e-10, 0};
    milcgpu_multi_mass_spec several;
    milcgpu_multi_mass_defaults(&several, sizeof several);
    several.n_shifts = n;
    several.shifts = shifts;
    several.sloppy.precision = MILCGPU_SINGLE; /* down to single as the residual falls */
    milcgpu_shift_report of_shifts[n];
    milcgpu_multi_mass_report report = {.struct_size = sizeof report, .shifts = of_shifts};
    ok(milcgpu_staggered_multi_mass(links, &several, &sources[0], by_mass, &report));
    for (int k = 0; k < n; ++k)
        printf("mass %.2f: true residual %.1e\n", masses[k], of_shifts[k].true_residual);

    /* all sources, mass 0 of the list */
    milcgpu_solve_spec spec;
    milcgpu_solve_defaults(&spec, sizeof spec);
    spec.mass = masses[0];
    spec.tolerance = 1e-10;
    spec.sloppy.precision = MILCGPU_SINGLE;
    milcgpu_solve_report reports[n];
    for (int k = 0; k < n; ++k)
        reports[k].struct_size = sizeof reports[k];
    ok(milcgpu_staggered_solve_sources(links, &spec, MILCGPU_BLOCK, n, sources, solutions, reports));
    for (int k = 0; k < n; ++k)
        printf("source %d: %d steps together, true residual %.1e\n", k, reports[k].steps, reports[k].true_residual);

    /* Source 0 of mass 0 was solved in both ways. Each residual allows a relative difference of (1e-10 / 4 m^2)^2 in
     * the squares. */
    const int good =
        small("one source, both ways: difference", distance(of_sources[0], of_masses[0], 6 * even_sites), 1e-15);
    milcgpu_links_destroy(links);
    milcgpu_gauge_destroy(gauge);
    milcgpu_context_destroy(context);
    return good ? 0 : 1;
}
