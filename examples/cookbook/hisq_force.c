/* The HISQ force: one leapfrog step with a pseudofermion, on the device. Its error in the energy goes with the third
 * power of the step. */
#include "cookbook.h"

static double phi[6 * sites], x[6 * sites];

/* X = (4 m^2 - D D)^-1 phi on even sites, D X on odd sites; returns the action <phi, X>. */
static double solve(milcgpu_gauge *gauge, milcgpu_links **links, milcgpu_vectors *vectors) {
    const milcgpu_pole pole = {4 * 0.2 * 0.2, 1e-12, 0};
    milcgpu_multi_mass_spec spec;
    milcgpu_multi_mass_defaults(&spec, sizeof spec);
    spec.n_shifts = 1;
    spec.shifts = &pole;
    const milcgpu_field source = {phi, MILCGPU_DOUBLE, 0}, to = {x, MILCGPU_DOUBLE, 0};
    make_hisq(gauge, links);
    ok(milcgpu_staggered_multi_mass_vectors(*links, &spec, &source, vectors, 0, NULL));
    ok(milcgpu_vectors_dslash(vectors, 0, *links, MILCGPU_ODD));
    ok(milcgpu_vectors_save(vectors, 0, MILCGPU_EVEN, &to));
    double action = 0;
    for (int k = 0; k < 6 * even_sites; ++k)
        action += phi[k] * x[k];
    return action;
}

/* The change of the energy in a step. */
static double error_of(double step, milcgpu_context *context, milcgpu_vectors *vectors, milcgpu_links **links) {
    const double residue = 1;
    milcgpu_fatlink_spec hisq;
    milcgpu_hisq_defaults(&hisq, sizeof hisq);
    milcgpu_force_spec force;
    milcgpu_force_defaults(&force, sizeof force);
    force.links = &hisq;
    force.eps = step / 2;
    force.n_terms = 1;
    force.residues = &residue;

    milcgpu_gauge *gauge = make_gauge(context);
    double kinetic[2], fermions[2];
    for (int end = 0; end < 2; ++end) {
        fermions[end] = solve(gauge, links, vectors);
        if (end == 0)
            ok(milcgpu_momenta_action(gauge, &kinetic[0]));
        ok(milcgpu_momenta_add_force_of_vectors(gauge, &force, vectors, NULL));
        if (end == 0)
            ok(milcgpu_gauge_update(gauge, step, 8, NULL));
    }
    ok(milcgpu_momenta_action(gauge, &kinetic[1]));
    milcgpu_gauge_destroy(gauge);
    const double change = kinetic[1] - kinetic[0] + fermions[1] - fermions[0];
    printf("step %.3f: momenta %+.6f, fermions %+.6f, sum %+.2e\n", step, kinetic[1] - kinetic[0],
           fermions[1] - fermions[0], change);
    return change;
}

int main(void) {
    milcgpu_context *context = make_context();
    milcgpu_vectors *vectors;
    milcgpu_links *links = NULL;
    ok(milcgpu_vectors_create(context, MILCGPU_DOUBLE, 1, &vectors));
    fill_random(phi, 6 * even_sites);
    const double ratio = error_of(0.01, context, vectors, &links) / error_of(0.005, context, vectors, &links);
    printf("half the step: the error falls by %.2f\n", ratio);
    milcgpu_links_destroy(links);
    milcgpu_vectors_destroy(vectors);
    milcgpu_context_destroy(context);
    return ratio > 7 && ratio < 9 ? 0 : 1;
}
