// The C interface to gpu_kernels/forces: a gauge field and momenta that stay on the device.
#include "gpu_kernels/forces/fermion_force.h"
#include "milc_glue/fat_links.h"
#include "milc_glue/gauge.h"
#include "milc_glue/vectors.h"
#include <cmath>

using namespace milcgpu;

namespace {

// body(gauge), with its context's device current and its errors as a status.
template <class Body> milcgpu_status with_gauge(milcgpu_gauge *gauge, const char *function, const Body &body) {
    return guarded(gauge != nullptr ? gauge->context : nullptr, function, [&] {
        require(gauge, function, "gauge");
        body(*gauge);
        return Status::ok;
    });
}

HostField field_of(const milcgpu_gauge &gauge, const milcgpu_field *field, int reals, const char *what) {
    const HostField host = host_field(field, reals, what);
    if (host.real != gauge.precision)
        refuse(format("%s are in %s precision, the gauge handle is in %s: they must agree", what, name(host.real),
                      name(gauge.precision)));
    return host;
}

struct ForceArguments {
    PathCoefficients paths;
    HisqForceSpec hisq;
    std::vector<double> residues;
};

ForceArguments checked(const milcgpu_force_spec &spec) {
    require_size(spec.struct_size, sizeof spec, "milcgpu_force_spec");
    require(spec.links, "milcgpu_fermion_force", "spec.links");
    const milcgpu_fatlink_spec &links = *spec.links;
    require_size(links.struct_size, sizeof links, "milcgpu_fatlink_spec");
    if (links.hisq && links.special_unitary)
        throw Error(Status::not_built, "spec.links.special_unitary: the force is built for W in U(3), which is MILC's");
    if (links.phases_out)
        refuse("spec.links.phases_out: the gauge field of the handle carries phases");
    if (!std::isfinite(spec.eps) || std::isnan(spec.filter))
        refuse(format("spec.eps is %g, spec.filter %g: must be finite", spec.eps, spec.filter));
    if (spec.n_terms < 0 || spec.n_sets < 0 || (spec.n_sets > 0 && !links.hisq))
        refuse(format("spec.n_terms is %d, spec.n_sets %d: must not be negative; sets of eps_naik are HISQ's",
                      spec.n_terms, spec.n_sets));
    ForceArguments a;
    a.paths = coefficients(links.paths, "spec.links.paths");
    if (spec.n_terms > 0)
        require(spec.residues, "milcgpu_fermion_force", "spec.residues");
    for (int t = 0; t < spec.n_terms; ++t) {
        if (!std::isfinite(spec.residues[t]))
            refuse(format("spec.residues[%d] is %g", t, spec.residues[t]));
        a.residues.push_back(spec.residues[t]);
    }
    if (!links.hisq)
        return a;
    a.hisq.level_1 = coefficients(links.fat7, "spec.links.fat7");
    a.hisq.level_2 = a.paths;
    a.hisq.naik_part = {links.eps_one_link, links.eps_naik, 0, 0, 0, 0};
    a.hisq.unitarize = unitarize_spec(links);
    a.hisq.filter = spec.filter == 0 ? 5e-5 : spec.filter;
    if (spec.n_sets > 0)
        require(spec.sets, "milcgpu_fermion_force", "spec.sets");
    int in_sets = spec.n_sets == 0 ? spec.n_terms : 0;
    for (int k = 0; k < spec.n_sets; ++k) {
        const milcgpu_force_set &set = spec.sets[k];
        if (!std::isfinite(set.eps_naik) || set.n_terms < 0 || set.n_terms > spec.n_terms)
            refuse(format("spec.sets[%d]: eps_naik %g, n_terms %d", k, set.eps_naik, set.n_terms));
        a.hisq.sets.push_back({set.eps_naik, set.n_terms});
        in_sets += set.n_terms;
    }
    if (spec.n_sets == 0)
        a.hisq.sets.push_back({0, spec.n_terms});
    if (in_sets != spec.n_terms)
        refuse(format("spec.sets have %d terms, spec.n_terms is %d", in_sets, spec.n_terms));
    return a;
}

// The derivative of the action by the gauge field.
LinkField derivative(milcgpu_gauge &gauge, bool hisq, const ForceArguments &a, const ForceTerms &terms,
                     milcgpu_force_report &report) {
    Device &device = gauge.device();
    const Geometry &geometry = gauge.geometry();
    const int count = static_cast<int>(a.residues.size());
    if (!hisq) {
        report.flops = asqtad_derivative_flops(a.paths, count) + add_force_flops;
        return asqtad_derivative(device, geometry, gauge.u, a.paths, terms);
    }
    report.flops = hisq_derivative_flops(a.hisq, count) + fat_links_flops + add_force_flops;
    const LinkField v(device, gauge.precision, 18, geometry, "HISQ links"),
        w(device, gauge.precision, 18, geometry, "HISQ links");
    fat_links(device, geometry, gauge.u, a.hisq.level_1, v, StapleSpace(device, geometry, gauge.precision));
    report.svd_links = unitarize(device, geometry, v, a.hisq.unitarize, nullptr, w);
    HisqDerivative made = hisq_derivative(device, geometry, gauge.u, v, w, a.hisq, terms);
    report.svd_links += made.counts.by_singular_values;
    report.filtered_links = made.counts.filtered;
    return std::move(made.by_u);
}

void fermion_force(milcgpu_gauge &gauge, const milcgpu_force_spec &spec, const ForceArguments &a, const ForceVectors &x,
                   milcgpu_force_report &report) {
    Device &device = gauge.device();
    const Geometry &geometry = gauge.geometry();
    device.timer_start();
    const LinkField by_u = derivative(gauge, spec.links->hisq != 0, a, {x, a.residues}, report);
    const LinkStatistics look = link_statistics(device, by_u, geometry);
    if (look.first_bad >= 0)
        throw Error(
            Status::nan_or_inf,
            format("the force has NaN or infinity, first in the link of %s: look for it in x, or for links that "
                   "are nearly singular",
                   place_of_link(look.first_bad).c_str()));
    add_force(device, geometry, gauge.u, by_u, 2 * spec.eps, gauge.h);
    report.kernel_seconds = device.timer_stop_seconds();
    report.flops *= geometry.volume();
    gauge.momenta_changed();
}

std::string what_force(const milcgpu_force_spec &spec) {
    return format("%s force, %d terms", spec.links->hisq ? "HISQ" : "asqtad", spec.n_terms);
}

LoopCoefficients loop_coefficients(const milcgpu_loops *loops, const char *function) {
    require(loops, function, "loops");
    if (!std::isfinite(loops->plaquette) || !std::isfinite(loops->rectangle) || !std::isfinite(loops->bent))
        refuse(
            format("loops: coefficients %g, %g, %g must be finite", loops->plaquette, loops->rectangle, loops->bent));
    return {loops->plaquette, loops->rectangle, loops->bent};
}

void hand_out(double value, double *to, const char *what) {
    require(to, "result", what);
    if (!std::isfinite(value))
        throw Error(Status::nan_or_inf, format("the result is %g: links or momenta have NaN or infinity, or are too "
                                               "large",
                                               value));
    *to = value;
}

// An entry with a report. body(gauge, report) returns what it did, for the line at verbosity 2.
template <class Body>
milcgpu_status reported(milcgpu_gauge *gauge, const char *function, milcgpu_force_report *report, const Body &body) {
    milcgpu_force_report filled{};
    filled.struct_size = sizeof filled;
    const milcgpu_status status = with_gauge(gauge, function, [&](milcgpu_gauge &g) {
        if (report != nullptr)
            require_size(report->struct_size, sizeof *report, "milcgpu_force_report");
        const CallMeter meter(g.device());
        const std::string done = body(g, filled);
        filled.gflops = filled.kernel_seconds > 0 ? filled.flops / filled.kernel_seconds * 1e-9 : 0;
        meter.fill(filled);
        g.context->tell(2, [&] {
            return format("%s, %s: %.3f ms (kernels %.3f ms, %.0f GFLOPS)", done.c_str(), name(g.precision),
                          filled.seconds * 1e3, filled.kernel_seconds * 1e3, filled.gflops);
        });
    });
    return hand_back(status, filled, report);
}

} // namespace

extern "C" {

milcgpu_status milcgpu_gauge_create(milcgpu_context *context, int precision, milcgpu_gauge **gauge) {
    if (gauge != nullptr)
        *gauge = nullptr;
    return guarded(context, "milcgpu_gauge_create", [&] {
        require(context, "milcgpu_gauge_create", "context");
        require_whole(*context, "a gauge field on the device");
        require(gauge, "milcgpu_gauge_create", "gauge");
        const Precision real = precision_of(precision, "precision");
        if (real == Precision::half)
            refuse("precision: gauge fields are double or single");
        *gauge = new milcgpu_gauge(context, real);
        return Status::ok;
    });
}

void milcgpu_gauge_destroy(milcgpu_gauge *gauge) {
    if (gauge == nullptr)
        return;
    make_current_if_possible(*gauge->context);
    delete gauge;
}

milcgpu_status milcgpu_gauge_load(milcgpu_gauge *gauge, const milcgpu_field *links, double unitarity) {
    return with_gauge(gauge, "milcgpu_gauge_load", [&](milcgpu_gauge &g) {
        if (std::isnan(unitarity))
            refuse("unitarity is NaN");
        const HostField host = field_of(g, links, 72, "links");
        g.links_version = 0;
        links_to_device(g.device(), host, g.context->map, g.geometry(), g.u);
        checked_gauge_field(g.device(), g.geometry(), g.u, unitarity);
        g.links_changed();
    });
}

milcgpu_status milcgpu_gauge_save(milcgpu_gauge *gauge, const milcgpu_field *links) {
    return with_gauge(gauge, "milcgpu_gauge_save", [&](milcgpu_gauge &g) {
        need_links(g);
        links_to_host(g.device(), g.u, g.context->map, g.geometry(), field_of(g, links, 72, "links"));
    });
}

milcgpu_status milcgpu_momenta_load(milcgpu_gauge *gauge, const milcgpu_field *momenta) {
    return with_gauge(gauge, "milcgpu_momenta_load", [&](milcgpu_gauge &g) {
        const HostField host = field_of(g, momenta, 4 * momentum_reals, "momenta");
        g.momenta_version = 0;
        links_to_device(g.device(), host, g.context->map, g.geometry(), g.h);
        if (!std::isfinite(momentum_action(g.device(), g.geometry(), g.h)))
            throw Error(Status::nan_or_inf, "momenta: there is NaN or infinity among them");
        g.momenta_changed();
    });
}

milcgpu_status milcgpu_momenta_save(milcgpu_gauge *gauge, const milcgpu_field *momenta) {
    return with_gauge(gauge, "milcgpu_momenta_save", [&](milcgpu_gauge &g) {
        need_momenta(g);
        links_to_host(g.device(), g.h, g.context->map, g.geometry(),
                      field_of(g, momenta, 4 * momentum_reals, "momenta"));
    });
}

uint64_t milcgpu_gauge_version(const milcgpu_gauge *gauge) { return gauge != nullptr ? gauge->links_version : 0; }
uint64_t milcgpu_momenta_version(const milcgpu_gauge *gauge) { return gauge != nullptr ? gauge->momenta_version : 0; }

milcgpu_status milcgpu_fermion_force(milcgpu_gauge *gauge, const milcgpu_force_spec *spec, const milcgpu_field *x,
                                     milcgpu_force_report *report) {
    return reported(gauge, "milcgpu_fermion_force", report, [&](milcgpu_gauge &g, milcgpu_force_report &filled) {
        require(spec, "milcgpu_fermion_force", "spec");
        const ForceArguments a = checked(*spec);
        const int count = spec->n_terms;
        std::vector<HostField> fields;
        if (count > 0)
            require(x, "milcgpu_fermion_force", "x");
        for (int t = 0; t < count; ++t)
            fields.push_back(host_field(&x[t], 6, format("x[%d]", t).c_str()));
        need_links(g);
        need_momenta(g);
        if (count > 0) {
            const SpinorField even(g.device(), g.precision, g.geometry(), 0, "vectors of the force", count),
                odd(g.device(), g.precision, g.geometry(), 1, "vectors of the force", count);
            for (int t = 0; t < count; ++t) {
                g.context->reorder->to_device(fields[t], 0, even[t]);
                g.context->reorder->to_device(fields[t], 1, odd[t]);
            }
            fermion_force(g, *spec, a, {even, odd}, filled);
        }
        return what_force(*spec);
    });
}

milcgpu_status milcgpu_force_of_vectors(milcgpu_gauge *gauge, const milcgpu_force_spec *spec,
                                        const milcgpu_vectors *vectors, milcgpu_force_report *report) {
    return reported(gauge, "milcgpu_force_of_vectors", report, [&](milcgpu_gauge &g, milcgpu_force_report &filled) {
        require(spec, "milcgpu_force_of_vectors", "spec");
        require(vectors, "milcgpu_force_of_vectors", "vectors");
        const ForceArguments a = checked(*spec);
        if (vectors->context != g.context || vectors->parity[0].precision() != g.precision)
            refuse("vectors: another context's, or in another precision than the gauge handle");
        for (const int parity : {0, 1})
            need_filled(*vectors, 0, spec->n_terms, parity);
        need_links(g);
        need_momenta(g);
        if (spec->n_terms > 0)
            fermion_force(g, *spec, a, {vectors->parity[0], vectors->parity[1]}, filled);
        return what_force(*spec);
    });
}

milcgpu_status milcgpu_gauge_force(milcgpu_gauge *gauge, const milcgpu_loops *loops, double beta, double eps,
                                   milcgpu_force_report *report) {
    return reported(gauge, "milcgpu_gauge_force", report, [&](milcgpu_gauge &g, milcgpu_force_report &filled) {
        const LoopCoefficients c = loop_coefficients(loops, "milcgpu_gauge_force");
        if (!std::isfinite(beta) || !std::isfinite(eps))
            refuse(format("beta is %g, eps %g: must be finite", beta, eps));
        need_links(g);
        need_momenta(g);
        const GaugeForceSpace space(g.device(), g.geometry(), g.precision, c);
        g.device().timer_start();
        gauge_force(g.device(), g.geometry(), g.u, c, eps * beta / 3, g.h, space);
        filled.kernel_seconds = g.device().timer_stop_seconds();
        filled.flops = gauge_force_flops(c) * g.geometry().volume();
        g.momenta_changed();
        return std::string("gauge force");
    });
}

milcgpu_status milcgpu_update_links(milcgpu_gauge *gauge, double eps, int order, milcgpu_force_report *report) {
    return reported(gauge, "milcgpu_update_links", report, [&](milcgpu_gauge &g, milcgpu_force_report &filled) {
        if (!std::isfinite(eps) || order < 1 || order > 16)
            refuse(format("eps is %g, order %d: eps must be finite, order 1 to 16", eps, order));
        need_links(g);
        need_momenta(g);
        g.device().timer_start();
        update_links(g.device(), g.geometry(), g.u, g.h, eps, order);
        filled.kernel_seconds = g.device().timer_stop_seconds();
        filled.flops = update_links_flops(order) * g.geometry().volume();
        g.links_changed();
        return std::string("update of the links");
    });
}

milcgpu_status milcgpu_reunitarize(milcgpu_gauge *gauge, double tolerance, milcgpu_reunitarize_report *report) {
    return with_gauge(gauge, "milcgpu_reunitarize", [&](milcgpu_gauge &g) {
        require(report, "milcgpu_reunitarize", "report");
        require_size(report->struct_size, sizeof *report, "milcgpu_reunitarize_report");
        if (!(tolerance >= 0))
            refuse(format("tolerance is %g: must be positive, or 0 for 1e-4", tolerance));
        need_links(g);
        const ReunitarizeReport r = reunitarize(g.device(), g.geometry(), g.u, tolerance == 0 ? 1e-4 : tolerance);
        g.links_changed();
        *report = {sizeof *report, r.failed, r.first_failed, r.largest_deviation,
                   r.sum_of_squares / (16.0 * g.geometry().volume())};
    });
}

milcgpu_status milcgpu_gauge_action(milcgpu_gauge *gauge, const milcgpu_loops *loops, double *action) {
    return with_gauge(gauge, "milcgpu_gauge_action", [&](milcgpu_gauge &g) {
        const LoopCoefficients c = loop_coefficients(loops, "milcgpu_gauge_action");
        need_links(g);
        hand_out(gauge_action(g.device(), g.geometry(), g.u, c), action, "action");
    });
}

milcgpu_status milcgpu_momentum_action(milcgpu_gauge *gauge, double *action) {
    return with_gauge(gauge, "milcgpu_momentum_action", [&](milcgpu_gauge &g) {
        need_momenta(g);
        hand_out(momentum_action(g.device(), g.geometry(), g.h), action, "action");
    });
}

milcgpu_status milcgpu_plaquettes(milcgpu_gauge *gauge, double *space, double *time) {
    return with_gauge(gauge, "milcgpu_plaquettes", [&](milcgpu_gauge &g) {
        require(space, "milcgpu_plaquettes", "space");
        need_links(g);
        const PlaquetteMeans means = plaquettes(g.device(), g.geometry(), g.u);
        hand_out(means.time, time, "time");
        hand_out(means.space, space, "space");
    });
}

milcgpu_status milcgpu_polyakov_loop(milcgpu_gauge *gauge, double *real, double *imaginary) {
    return with_gauge(gauge, "milcgpu_polyakov_loop", [&](milcgpu_gauge &g) {
        require(real, "milcgpu_polyakov_loop", "real");
        need_links(g);
        const Complex<double> mean = polyakov_loop(g.device(), g.geometry(), g.u);
        hand_out(mean.im, imaginary, "imaginary");
        hand_out(mean.re, real, "real");
    });
}

} // extern "C"
