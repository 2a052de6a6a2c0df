/* An application with a layout of its own: structures of sites, t fastest. The library reads and writes them in place:
 * a site map says where each site is, the pitch is the size of the structure. */
#include "cookbook.h"

typedef struct {
    int x, y, z, t;
    double link[4][3][3][2];
    double source[6], solution[6];
} site;

static site lattice[sites];
static link_field links;
static double source[6 * sites], solution[6 * sites];

/* Solves with the field of the context and returns the true residual. */
static double solve(milcgpu_context *context, milcgpu_field gauge, milcgpu_field b, milcgpu_field x) {
    milcgpu_links *made = NULL;
    milcgpu_fatlink_spec hisq;
    milcgpu_hisq_defaults(&hisq, sizeof hisq);
    hisq.signs = MILCGPU_SIGNS_OUT; /* the library multiplies phases and boundary sign in */
    const milcgpu_fatlink_set set = {.links = &made};
    ok(milcgpu_links_make(context, &hisq, &gauge, &set, 1, NULL, NULL));
    milcgpu_solve_spec spec;
    milcgpu_solve_defaults(&spec, sizeof spec);
    spec.mass = 0.05;
    spec.tolerance = 1e-11;
    milcgpu_solve_report report = {.struct_size = sizeof report};
    ok(milcgpu_staggered_solve(made, &spec, &b, &x, &report));
    milcgpu_links_destroy(made);
    return report.true_residual;
}

int main(void) {
    static int site_map[sites];
    for (int k = 0, parity = 0; parity < 2; ++parity) /* the library's order */
        for (int t = 0; t < nt; ++t)
            for (int z = 0; z < nz; ++z)
                for (int y = 0; y < ny; ++y)
                    for (int x = 0; x < nx; ++x)
                        if ((x + y + z + t) % 2 == parity)
                            site_map[k++] = t + nt * (z + nz * (y + ny * x)); /* our index of its site k */

    milcgpu_context *plain = make_context(), *own;
    make_plain_links(plain, links);
    fill_random(source, 6 * sites);
    for (int k = 0; k < sites; ++k) { /* our copy of the fields */
        memcpy(lattice[site_map[k]].link, links[k], sizeof links[k]);
        memcpy(lattice[site_map[k]].source, source + 6 * k, 6 * sizeof(double));
    }

    milcgpu_layout layout = {.struct_size = sizeof layout, .extent = {nx, ny, nz, nt}, .site_map = site_map};
    ok(milcgpu_context_create(&layout, NULL, &own));
    const milcgpu_field our_links = {lattice[0].link, MILCGPU_DOUBLE, sizeof(site)},
                        our_source = {lattice[0].source, MILCGPU_DOUBLE, sizeof(site)},
                        our_solution = {lattice[0].solution, MILCGPU_DOUBLE, sizeof(site)};
    const double residual = solve(own, our_links, our_source, our_solution);
    const milcgpu_field u = {links, MILCGPU_DOUBLE, 0}, b = {source, MILCGPU_DOUBLE, 0},
                        x = {solution, MILCGPU_DOUBLE, 0};
    solve(plain, u, b, x);

    double difference = 0;
    for (int k = 0; k < sites; ++k)
        for (int n = 0; n < 6; ++n) {
            const double d = lattice[site_map[k]].solution[n] - solution[6 * k + n];
            difference += d * d;
        }
    const int good = small("true residual", residual, 1e-11),
              well = small("|solution - solution in the library's order|^2", difference, 0);
    milcgpu_context_destroy(own);
    milcgpu_context_destroy(plain);
    return good && well ? 0 : 1;
}
