// The C interface to gpu_kernels/forces: a gauge field and momenta that stay on the device.
#include "gpu_kernels/forces/fermion_force.h"
#include "milc_glue/fat_links.h"
#include "milc_glue/gauge.h"
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

void need_momenta(const milcgpu_gauge &gauge) {
    if (gauge.momenta_version == 0)
        refuse("there are no momenta: load them first (milcgpu_momenta_load)");
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
    std::vector<HostField> x;
};

ForceArguments checked(const milcgpu_force_spec &spec, const milcgpu_field *x) {
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
    if (spec.n_terms > 0) {
        require(spec.residues, "milcgpu_fermion_force", "spec.residues");
        require(x, "milcgpu_fermion_force", "x");
    }
    for (int t = 0; t < spec.n_terms; ++t) {
        if (!std::isfinite(spec.residues[t]))
            refuse(format("spec.residues[%d] is %g", t, spec.residues[t]));
        a.residues.push_back(spec.residues[t]);
        a.x.push_back(host_field(&x[t], 6, format("x[%d]", t).c_str()));
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

void fermion_force(milcgpu_gauge &gauge, const milcgpu_force_spec &spec, const ForceArguments &a,
                   milcgpu_force_report &report) {
    Device &device = gauge.device();
    const Geometry &geometry = gauge.geometry();
    const int count = static_cast<int>(a.x.size());
    if (count == 0)
        return;
    const SpinorField even(device, gauge.precision, geometry, 0, "vectors of the force", count),
        odd(device, gauge.precision, geometry, 1, "vectors of the force", count);
    for (int t = 0; t < count; ++t) {
        gauge.context->reorder->to_device(a.x[t], 0, even[t]);
        gauge.context->reorder->to_device(a.x[t], 1, odd[t]);
    }
    device.timer_start();
    const LinkField by_u = derivative(gauge, spec.links->hisq != 0, a, {{even, odd}, a.residues}, report);
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
    report.gflops = report.kernel_seconds > 0 ? report.flops / report.kernel_seconds * 1e-9 : 0;
    gauge.momenta_changed();
}

} // namespace

extern "C" {

milcgpu_status milcgpu_gauge_create(milcgpu_context *context, int precision, milcgpu_gauge **gauge) {
    if (gauge != nullptr)
        *gauge = nullptr;
    return guarded(context, "milcgpu_gauge_create", [&] {
        require(context, "milcgpu_gauge_create", "context");
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
        g.device().synchronize();
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
    milcgpu_force_report filled{};
    filled.struct_size = sizeof filled;
    const milcgpu_status status = with_gauge(gauge, "milcgpu_fermion_force", [&](milcgpu_gauge &g) {
        require(spec, "milcgpu_fermion_force", "spec");
        if (report != nullptr)
            require_size(report->struct_size, sizeof *report, "milcgpu_force_report");
        const ForceArguments a = checked(*spec, x);
        need_links(g);
        need_momenta(g);
        const double start = wall_seconds();
        const TransferCounters before = g.device().transfers();
        fermion_force(g, *spec, a, filled);
        filled.bytes_to_device = g.device().transfers().to_device_bytes - before.to_device_bytes;
        filled.bytes_to_host = g.device().transfers().to_host_bytes - before.to_host_bytes;
        filled.seconds = wall_seconds() - start;
        g.context->tell(2, [&] {
            return format("%s force, %d terms, %s: %.3f ms (kernels %.3f ms, %.0f GFLOPS)",
                          spec->links->hisq ? "HISQ" : "asqtad", spec->n_terms, name(g.precision), filled.seconds * 1e3,
                          filled.kernel_seconds * 1e3, filled.gflops);
        });
    });
    if (report != nullptr && report->struct_size == sizeof filled) {
        filled.status = status;
        if (status != MILCGPU_OK)
            std::snprintf(filled.message, sizeof filled.message, "%s", milcgpu_last_error());
        *report = filled;
    }
    return status;
}

} // extern "C"
