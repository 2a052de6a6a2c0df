/* Gradient flow of a gauge field, with a line for each measurement, in steps of three lengths. */
#include "cookbook.h"
#include <milcgpu/milcgpu_flow.h>

/* Called after each measurement. A return value other than 0 would end the flow. */
static int line(void *user, const milcgpu_flow_point *point) {
    const double energy = point->of.clover_t + point->of.clover_s;
    double *last = user;
    printf("t %.2f  t^2 E %.5f  charge %+.4f\n", point->time, point->time * point->time * energy, point->of.charge);
    const int rises = energy > *last; /* E falls along a flow */
    *last = energy;
    return rises;
}

/* E at flow time 1/2. */
static double flow_by(double step, milcgpu_gauge *gauge, milcgpu_gauge *smooth) {
    double energy = 1e9;
    milcgpu_flow_spec spec;
    milcgpu_flow_defaults(&spec, sizeof spec); /* Wilson flow, Luescher's integrator */
    spec.signs = MILCGPU_SIGNS_IN;
    spec.step = step;
    spec.stop = 0.5;
    spec.every = (int)(0.25 / step);
    milcgpu_flow_report report = {.struct_size = sizeof report};
    ok(milcgpu_gauge_copy(gauge, smooth)); /* the flow changes the links */
    ok(milcgpu_gauge_flow(smooth, &spec, line, &energy, &report));
    if (report.ended_by_caller)
        exit(1);
    return energy;
}

int main(void) {
    milcgpu_context *context = make_context();
    milcgpu_gauge *gauge = make_gauge(context), *smooth;
    ok(milcgpu_gauge_create(context, MILCGPU_DOUBLE, &smooth));
    const double coarse = flow_by(1. / 16, gauge, smooth), finer = flow_by(1. / 32, gauge, smooth),
                 finest = flow_by(1. / 64, gauge, smooth), ratio = (coarse - finer) / (finer - finest);
    printf("half the step: the error falls by %.2f\n", ratio); /* 8: third order */
    milcgpu_gauge_destroy(smooth);
    milcgpu_gauge_destroy(gauge);
    milcgpu_context_destroy(context);
    return ratio > 6 && ratio < 10 ? 0 : 1;
}
