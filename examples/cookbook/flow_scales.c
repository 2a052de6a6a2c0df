/* The scales t0 and w0 of the gradient flow: t^2 E = 0.3 at t0, t d/dt (t^2 E) = 0.3 at w0^2. The field is a constant
 * colour field, which the flow does not change: E is known, and so are its scales. */
#include "cookbook.h"
#include <math.h>
#include <milcgpu/milcgpu_flow.h>

typedef struct {
    double time, t2e, slope; /* of the last measurement; slope: of t^2 E, in the middle of the last interval */
    double middle;
    double t0, w0; /* 0: not yet reached */
} scales;

/* Where a straight line between two points has the value 0.3. */
static double crossing(double x0, double y0, double x1, double y1) { return x0 + (0.3 - y0) * (x1 - x0) / (y1 - y0); }

static int take(void *user, const milcgpu_flow_point *point) {
    scales *s = user;
    const double t2e = point->time * point->time * (point->of.clover_t + point->of.clover_s);
    if (point->time > 0) {
        const double middle = (point->time + s->time) / 2, slope = middle * (t2e - s->t2e) / (point->time - s->time);
        if (s->t0 == 0 && t2e >= 0.3)
            s->t0 = crossing(s->time, s->t2e, point->time, t2e);
        if (s->w0 == 0 && slope >= 0.3)
            s->w0 = sqrt(crossing(s->middle, s->slope, middle, slope));
        s->middle = middle, s->slope = slope;
    }
    s->time = point->time, s->t2e = t2e;
    return s->t0 > 0 && s->w0 > 0; /* ends the flow */
}

/* F_xy = B diag(1, -1, 0), by links exp(-i B y) along x and, across the boundary, exp(i B ny x) along y. Without
 * phases. The flux through the plane is a multiple of 2 pi. */
static void make_constant_field(double b, link_field links) {
    for (int k = 0, parity = 0; parity < 2; ++parity)
        for (int t = 0; t < nt; ++t)
            for (int z = 0; z < nz; ++z)
                for (int y = 0; y < ny; ++y)
                    for (int x = 0; x < nx; ++x) {
                        if ((x + y + z + t) % 2 != parity)
                            continue;
                        const double angle[4] = {-b * y, y == ny - 1 ? b * ny * x : 0, 0, 0};
                        for (int mu = 0; mu < 4; ++mu)
                            for (int row = 0; row < 3; ++row) {
                                const double phase = (row == 0) - (row == 1);
                                links[k][mu][row][row][0] = cos(phase * angle[mu]);
                                links[k][mu][row][row][1] = sin(phase * angle[mu]);
                            }
                        ++k;
                    }
}

int main(void) {
    const double pi = acos(-1), b = 2 * pi / (nx * ny), energy = 2 * sin(b) * sin(b);
    static link_field links;
    make_constant_field(b, links);
    milcgpu_context *context = make_context();
    milcgpu_gauge *gauge;
    milcgpu_field u = {links, MILCGPU_DOUBLE, 0};
    ok(milcgpu_gauge_create(context, MILCGPU_DOUBLE, &gauge));
    ok(milcgpu_gauge_load(gauge, &u, 0));

    scales s = {0};
    milcgpu_flow_spec spec;
    milcgpu_flow_defaults(&spec, sizeof spec); /* Wilson flow, Luescher's integrator, steps of 1/16 */
    spec.signs = MILCGPU_SIGNS_OUT;
    spec.stop = 4;
    milcgpu_flow_report report = {.struct_size = sizeof report};
    ok(milcgpu_gauge_flow(gauge, &spec, take, &s, &report)); /* the links of `gauge` are now those of the end */
    printf("t0 %.5f, w0 %.5f%s\n", s.t0, s.w0,
           report.beyond_half_box ? "; sqrt(8 t) is above half of the box: on a real lattice take a larger one" : "");
    /* Linear interpolation between steps of 1/16 is right to some 1e-4. */
    const int good = small("t0 / sqrt(0.3 / E) - 1", fabs(s.t0 / sqrt(0.3 / energy) - 1), 1e-3),
              well = small("w0 / (0.15 / E)^(1/4) - 1", fabs(s.w0 / pow(0.15 / energy, 0.25) - 1), 1e-3);
    milcgpu_gauge_destroy(gauge);
    milcgpu_context_destroy(context);
    return good && well ? 0 : 1;
}
