// The C interface to gpu_kernels/gauge/forces: a gauge field and momenta that stay on the device.
#include "gpu_kernels/fields/asked_fields.h"
#include "gpu_kernels/gauge/forces/fermion_force.h"
#include "gpu_kernels/halo/halo.h"
#include "gpu_kernels/machine/geometry/places.h"
#include "milc_glue/api/members.h"
#include "milc_glue/links/gauge.h"
#include "milc_glue/links/link_checks.h"
#include "milc_glue/links/vectors.h"
#include <algorithm>
#include <cmath>
#include <new>

using namespace milcgpu;

namespace {

HostField field_of(const milcgpu_gauge &gauge, const milcgpu_field *field, int reals, const char *what) {
    const HostField host = host_field(field, reals, what);
    if (host.real != gauge.precision)
        refuse(format("%s are in %s precision, the gauge handle is in %s: they must agree", what, name(host.real),
                      name(gauge.precision)));
    return host;
}

// Throws if a number of the host's momenta is not finite, or too large to be squared; the message names the first.
void name_what_is_too_large(const milcgpu_context &context, const HostField &host, size_t sites) {
    for (size_t k = 0; k < sites; ++k)
        for (int real = 0; real < 4 * momentum_reals; ++real) {
            const void *const site = static_cast<const unsigned char *>(host.data) + k * host.pitch_bytes;
            const double x = host.real == Precision::double_ ? static_cast<const double *>(site)[real]
                                                             : static_cast<const float *>(site)[real];
            if (real % momentum_reals != momentum_reals - 1 && !std::isfinite(x * x)) // the last one is not read
                throw Error(
                    Status::nan_or_inf,
                    format("momenta: number %d of %s, direction %c, is %g: NaN, infinite or too large to be squared",
                           real % momentum_reals, place_of_record(context, k).c_str(), "XYZT"[real / momentum_reals],
                           x));
        }
}

struct ForceArguments {
    milcgpu_force_spec spec; // all of it but its links
    bool is_hisq;
    PathCoefficients paths;
    HisqForceSpec hisq;
    std::vector<double> residues;
};

ForceArguments checked(CallArguments &call, const milcgpu_force_spec *given) {
    ForceArguments a{};
    const milcgpu_force_spec &spec = a.spec = call.copy_of("spec", given);
    const milcgpu_fatlink_spec links = call.copy_of("spec.links", spec.links);
    a.is_hisq = links.hisq != 0;
    if (links.hisq && links.special_unitary)
        throw Error(Status::not_built, "spec.links.special_unitary: the force is built for W in U(3), which is MILC's");
    if (links.signs)
        refuse("spec.links.signs: the gauge field of the handle carries phases");
    if (spec.n_sets > 0 && !links.hisq)
        refuse(format("spec.n_sets is %d, but only HISQ has sets of eps_naik: set it to 0", spec.n_sets));
    a.paths = coefficients(links.paths, "spec.links.paths");
    a.residues.assign(spec.residues, spec.residues + spec.n_terms);
    if (!links.hisq)
        return a;
    a.hisq.level_1 = coefficients(links.fat7, "spec.links.fat7");
    a.hisq.level_2 = a.paths;
    a.hisq.naik_part = {links.eps_one_link, links.eps_naik, 0, 0, 0, 0};
    a.hisq.unitarize = unitarize_spec(links);
    a.hisq.filter = spec.filter;
    long long in_sets = 0;
    for (int k = 0; k < spec.n_sets; ++k) {
        a.hisq.sets.push_back({spec.sets[k].eps_naik, spec.sets[k].n_terms});
        in_sets += spec.sets[k].n_terms;
    }
    if (spec.n_sets == 0)
        a.hisq.sets.push_back({0, spec.n_terms});
    else if (in_sets != spec.n_terms)
        refuse(format("spec.sets have %lld terms, spec.n_terms is %d", in_sets, spec.n_terms));
    return a;
}

// The derivative of the action by the gauge field, with the margin of the box.
LinkField derivative(milcgpu_gauge &gauge, WithMargin &around, bool hisq, const ForceArguments &a,
                     const ForceTerms &terms, AskedFields &asked, milcgpu_force_report &report) {
    Device &device = gauge.device();
    Halo *const halo = gauge.context->halo.get();
    const WideBox &box = around.box();
    const int count = static_cast<int>(a.residues.size());
    if (!hisq) {
        report.flops = asqtad_derivative_flops(a.paths, count) + add_force_flops;
        return asqtad_derivative(device, box, around.of(gauge.u, long_links_reach), a.paths, terms, asked, halo);
    }
    report.flops = hisq_derivative_flops(a.hisq, count) + add_force_flops;
    const LinkField &u = around.of(gauge.u, a.hisq.level_1.reach());
    LinkField v = gauge.first_level.take(a.hisq.level_1, gauge.links_version), w;
    device.collective("HISQ links for a force", [&] {
        w = around.allocate("HISQ links");
        if (halo == nullptr)
            clear_padding(device, w, box.wide()), w.keep_sum();
        if (v.bytes() == 0) {
            v = around.allocate_on_box("HISQ links");
            v.keep_sum();
            fat_links(device, box, u, a.hisq.level_1, v, StapleSpace(device, box.wide(), gauge.precision));
            report.flops += fat_links_flops;
        }
        report.svd_links = unitarize(device, box, v, a.hisq.unitarize, nullptr, w);
    });
    HisqDerivative made = hisq_derivative(device, box, {u, v, w}, a.hisq, terms, asked, halo);
    report.svd_links += made.counts.by_singular_values;
    report.filtered_links = made.counts.filtered;
    return std::move(made.by_u);
}
LinkField derivative_on_box(milcgpu_gauge &gauge, bool hisq, const ForceArguments &a, const ForceTerms &terms,
                            AskedFields &asked, milcgpu_force_report &report) {
    Halo *const halo = gauge.context->halo.get();
    WithMargin around(gauge.device(), gauge.geometry(), halo, gauge.precision);
    LinkField made = derivative(gauge, around, hisq, a, terms, asked, report);
    if (halo == nullptr)
        return made;
    LinkField on_box;
    gauge.device().collective("memory for a force", [&] { on_box = around.allocate_on_box("derivatives by links"); });
    halo->crop(made, around.box(), on_box);
    return on_box;
}

void fermion_force(milcgpu_gauge &gauge, const ForceArguments &a, const ForceVectors &x, milcgpu_force_report &report) {
    Device &device = gauge.device();
    const Geometry &geometry = gauge.geometry();
    AskedFields asked(device);
    device.timer_start();
    const LinkField by_u = derivative_on_box(gauge, a.is_hisq, a, {x, a.residues}, asked, report);
    need_links(gauge);
    const LinkStatistics look = link_statistics(device, by_u, geometry);
    device.collective("the check of a force", [&] {
        if (look.first_bad >= 0)
            throw Error(Status::nan_or_inf,
                        format("the force has NaN or infinity, first in the link of %s: check x, and look for links "
                               "that are nearly singular",
                               place_of_link(geometry, look.first_bad).c_str()));
    });
    asked.must_hold();
    gauge.momenta_version = 0; // they are empty if anything below fails
    add_force(device, geometry, gauge.u, by_u, 2 * a.spec.eps, gauge.h);
    report.kernel_seconds = device.timer_stop_seconds();
    report.flops *= geometry.volume();
    asked.used_up(by_u, "the derivative by the links");
    asked.must_hold();
    need_links(gauge);
    gauge.momenta_changed();
}

// Checks the arguments of a force, and what look(arguments, terms) checks, on all ranks, and that they are the same
// there; then force(arguments) adds it to the momenta. Returns a description for the log.
template <class Look, class Force>
auto force_of(milcgpu_gauge &gauge, const char *function, const milcgpu_force_spec *spec, const Look &look,
              const Force &force) {
    ForceArguments a{};
    same_on_all_ranks(*gauge.context, function, [&](CallArguments &call) {
        a = checked(call, spec);
        look(call, a.spec.n_terms);
    });
    need_some_links(gauge, links_of_d);
    need_some_momenta(gauge);
    if (a.spec.n_terms > 0)
        force(a);
    return [hisq = a.is_hisq, n = a.spec.n_terms] { return format("%s force, %d terms", hisq ? "HISQ" : "asqtad", n); };
}

LoopCoefficients loop_coefficients(CallArguments &call, const milcgpu_loops *given) {
    const milcgpu_loops loops = call.copy_of("loops", given);
    return {loops.plaquette, loops.rectangle, loops.bent, signs_of(loops.signs)};
}

SaidSigns said_by(const LoopCoefficients &loops) {
    return {loops.signs, "loops.signs says which links these are: 0 with phases, 1 without"};
}

// The caller's loops. Throws unless they are closed and reach no farther than a rank's margin.
std::vector<LoopPath> loop_paths(const milcgpu_context &context, CallArguments &call, int n, const int *lengths,
                                 const int *steps) {
    std::vector<LoopPath> paths(n);
    int next = 0;
    for (int k = 0; k < n; ++k) {
        LoopPath &path = paths[k];
        path.length = lengths[k];
        call.of_entries.push_back({"a length", double(path.length)});
        if (path.length < 1 || path.length > longest_loop)
            refuse(format("lengths[%d] is %d: must be 1 to %d", k, path.length, longest_loop));
        for (int i = 0; i < path.length; ++i, ++next) {
            const int step = steps[next];
            call.of_entries.push_back({"a step", double(step)});
            if (step < 0 || step > 7)
                refuse(format("steps[%d] is %d: must be 0 to 7", next, step));
            path.steps[i] = static_cast<unsigned char>(step < 4 ? 2 * step : 2 * (7 - step) + 1);
        }
        for (int mu = 0; mu < 4; ++mu) {
            if (path.end()[mu] % context.box.whole[mu] != 0)
                refuse(format("loop %d is not closed: it ends %d sites along %c from where it begins", k,
                              path.end()[mu], "xyzt"[mu]));
            if (context.box.has_halo(mu) && path.reach(mu) > loops_reach)
                throw Error(Status::not_built,
                            format("loop %d reaches %d sites along %c, which is cut over ranks: up to %d are built", k,
                                   path.reach(mu), "xyzt"[mu], loops_reach));
        }
    }
    return paths;
}

// The ranks that share lines of sites along t.
int ranks_of_a_line(const milcgpu_context &context) {
    int count = 0;
    for (const Box &box : context.ranks->gathered("boxes of a line", context.box))
        count += std::equal(box.origin.begin(), box.origin.begin() + 3, context.box.origin.begin());
    return count;
}

// look(): returns the host's field; throws if something is wrong with it.
template <class Look>
void load(milcgpu_gauge &gauge, const char *function, LinkField &field, uint64_t &version, const Look &look) {
    HostField host{};
    same_on_all_ranks(*gauge.context, function, [&](CallArguments &call) { host = look(call); });
    version = 0;
    gauge.device().collective(function, [&] {
        field.clear_behind(gauge.geometry());
        field.keep_sum();
        links_to_device(gauge.device(), host, gauge.context->map, gauge.geometry(), field);
    });
}
template <class Look> void save(milcgpu_gauge &gauge, const char *function, const LinkField &field, const Look &look) {
    HostField host{};
    DeviceArray<unsigned char> scratch;
    same_on_all_ranks(*gauge.context, function, [&](CallArguments &) {
        host = look();
        scratch = scratch_for_links(gauge.device(), host.real, gauge.geometry().volume(), field.reals());
        gauge.device().prepare_to_host(scratch.bytes());
    });
    gauge.device().collective(
        function, [&] { links_to_host(gauge.device(), field, gauge.context->map, gauge.geometry(), host, scratch); });
}

} // namespace

void milcgpu::load_links(milcgpu_gauge &g, const char *function, const milcgpu_field *links, double unitarity) {
    load(g, function, g.u, g.links_version, [&](CallArguments &call) {
        call("unitarity", unitarity, any_finite);
        return field_of(g, links, 72, "links");
    });
    const Phases phases(g.geometry());
    g.signs = checked_gauge_field(g.device(), g.geometry(), g.u, unitarity, &phases).signs;
    g.links_changed();
}

PlaquetteMeans milcgpu::checked_plaquettes(milcgpu_gauge &g) {
    need_some_links(g);
    WithMargin around(g.device(), g.geometry(), g.context->halo.get(), g.precision);
    const PlaquetteMeans means = plaquettes(g.device(), around.box(), around.of(g.u, plaquettes_reach));
    need_links(g);
    must_be_finite(means.time);
    must_be_finite(means.space);
    return means;
}

extern "C" {

milcgpu_status milcgpu_gauge_create(milcgpu_context *context, int precision, milcgpu_gauge **gauge) {
    return make_handle(context, "milcgpu_gauge_create", "gauge", precision, "a gauge field", gauge);
}

void milcgpu_gauge_destroy(milcgpu_gauge *gauge) {
    if (gauge != nullptr && may_end(*gauge->context, "milcgpu_gauge_destroy"))
        delete gauge;
}

milcgpu_status milcgpu_gauge_load(milcgpu_gauge *gauge, const milcgpu_field *links, double unitarity) {
    return with_gauge(gauge, "milcgpu_gauge_load",
                      [&](milcgpu_gauge &g) { load_links(g, "milcgpu_gauge_load", links, unitarity); });
}

milcgpu_status milcgpu_gauge_save(milcgpu_gauge *gauge, const milcgpu_field *links) {
    return with_gauge(gauge, "milcgpu_gauge_save", [&](milcgpu_gauge &g) {
        need_links(g);
        save(g, "milcgpu_gauge_save", g.u, [&] { return field_of(g, links, 72, "links"); });
    });
}

milcgpu_status milcgpu_momenta_load(milcgpu_gauge *gauge, const milcgpu_field *momenta) {
    return with_gauge(gauge, "milcgpu_momenta_load", [&](milcgpu_gauge &g) {
        load(g, "milcgpu_momenta_load", g.h, g.momenta_version,
             [&](CallArguments &) { return field_of(g, momenta, 4 * momentum_reals, "momenta"); });
        if (!std::isfinite(momentum_action(g.device(), g.geometry(), g.h))) {
            const HostField host = field_of(g, momenta, 4 * momentum_reals, "momenta");
            g.device().collective("milcgpu_momenta_load",
                                  [&] { name_what_is_too_large(*g.context, host, g.geometry().volume()); });
            throw Error(Status::nan_or_inf, "momenta: their squares have an infinite sum");
        }
        g.momenta_changed();
    });
}

milcgpu_status milcgpu_momenta_save(milcgpu_gauge *gauge, const milcgpu_field *momenta) {
    return with_gauge(gauge, "milcgpu_momenta_save", [&](milcgpu_gauge &g) {
        need_momenta(g);
        save(g, "milcgpu_momenta_save", g.h, [&] { return field_of(g, momenta, 4 * momentum_reals, "momenta"); });
    });
}

uint64_t milcgpu_gauge_version(const milcgpu_gauge *gauge) { return gauge != nullptr ? gauge->links_version : 0; }
uint64_t milcgpu_momenta_version(const milcgpu_gauge *gauge) { return gauge != nullptr ? gauge->momenta_version : 0; }

milcgpu_status milcgpu_momenta_add_fermion_force(milcgpu_gauge *gauge, const milcgpu_force_spec *spec,
                                                 const milcgpu_field *x, milcgpu_force_report *report) {
    return reported(gauge, "milcgpu_momenta_add_fermion_force", report,
                    [&](milcgpu_gauge &g, milcgpu_force_report &filled) {
                        std::vector<HostField> fields;
                        const auto look = [&](CallArguments &call, int n_terms) {
                            if (n_terms > 0)
                                call.given("x", x);
                            for (int t = 0; t < n_terms; ++t)
                                fields.push_back(host_field(&x[t], 6, format("x[%d]", t).c_str()));
                        };
                        const auto of_host = [&](const ForceArguments &a) {
                            SpinorField parity[2];
                            g.device().collective("vectors of a force", [&] {
                                for (const int on : {0, 1}) {
                                    parity[on] = {g.device(),    g.precision, g.geometry(), on, "vectors of the force",
                                                  a.spec.n_terms};
                                    for (int t = 0; t < a.spec.n_terms; ++t)
                                        g.context->reorder->to_device(fields[t], on, parity[on][t]);
                                }
                            });
                            fermion_force(g, a, {parity[0], parity[1]}, filled);
                        };
                        return force_of(g, "milcgpu_momenta_add_fermion_force", spec, look, of_host);
                    });
}

milcgpu_status milcgpu_momenta_add_force_of_vectors(milcgpu_gauge *gauge, const milcgpu_force_spec *spec,
                                                    const milcgpu_vectors *vectors, milcgpu_force_report *report) {
    return reported(
        gauge, "milcgpu_momenta_add_force_of_vectors", report, [&](milcgpu_gauge &g, milcgpu_force_report &filled) {
            const auto look = [&](CallArguments &call, int n_terms) {
                call.given("vectors", vectors);
                if (vectors->context != g.context || vectors->parity[0].precision() != g.precision)
                    refuse("vectors: of another context, or in another precision than the gauge handle: both must be "
                           "alike");
                for (const int parity : {0, 1})
                    need_filled(*vectors, 0, n_terms, parity);
            };
            const auto first_ones = [&](const ForceArguments &a) {
                SpinorBlock x[2] = {vectors->parity[0], vectors->parity[1]};
                x[0].sources = x[1].sources = a.spec.n_terms;
                with_new_ghosts(*vectors, a.spec.n_terms, [&] { fermion_force(g, a, {x[0], x[1]}, filled); });
            };
            return force_of(g, "milcgpu_momenta_add_force_of_vectors", spec, look, first_ones);
        });
}

milcgpu_status milcgpu_momenta_add_gauge_force(milcgpu_gauge *gauge, const milcgpu_loops *loops, double beta,
                                               double eps, milcgpu_force_report *report) {
    return reported(gauge, "milcgpu_momenta_add_gauge_force", report,
                    [&](milcgpu_gauge &g, milcgpu_force_report &filled) {
                        LoopCoefficients c;
                        same_on_all_ranks(*g.context, "milcgpu_momenta_add_gauge_force", [&](CallArguments &call) {
                            c = loop_coefficients(call, loops);
                            call("beta", beta, any_finite), call("eps", eps, any_finite);
                        });
                        need_some_links(g, said_by(c));
                        need_some_momenta(g);
                        WithMargin around(g.device(), g.geometry(), g.context->halo.get(), g.precision);
                        std::unique_ptr<GaugeForceSpace> space;
                        g.device().collective("memory for a gauge force", [&] {
                            space = std::make_unique<GaugeForceSpace>(g.device(), around.box(), g.precision, c);
                        });
                        g.device().timer_start();
                        const LinkField &u = around.of(g.u, c.reach());
                        g.momenta_version = 0; // they are empty if anything below fails
                        gauge_force(g.device(), around.box(), u, c, eps * beta / 3, g.h, *space);
                        filled.kernel_seconds = g.device().timer_stop_seconds();
                        filled.flops = gauge_force_flops(c) * g.geometry().volume();
                        need_links(g);
                        g.momenta_changed();
                        return [] { return std::string("gauge force"); };
                    });
}

milcgpu_status milcgpu_gauge_update(milcgpu_gauge *gauge, double eps, int order, milcgpu_force_report *report) {
    return reported(gauge, "milcgpu_gauge_update", report, [&](milcgpu_gauge &g, milcgpu_force_report &filled) {
        same_on_all_ranks(*g.context, "milcgpu_gauge_update", [&](CallArguments &call) {
            call("eps", eps, any_finite), call("order", order, from_to(1, highest_exp_order));
        });
        need_some_links(g);
        need_momenta(g);
        g.links_version = 0;
        g.device().timer_start();
        update_links(g.device(), g.geometry(), g.u, g.h, eps, order);
        filled.kernel_seconds = g.device().timer_stop_seconds();
        filled.flops = update_links_flops(order) * g.geometry().volume();
        need_momenta(g);
        g.links_changed();
        return [] { return std::string("update of the links"); };
    });
}

milcgpu_status milcgpu_gauge_reunitarize(milcgpu_gauge *gauge, double tolerance, milcgpu_reunitarize_report *report) {
    return with_gauge(gauge, "milcgpu_gauge_reunitarize", [&](milcgpu_gauge &g) {
        same_on_all_ranks(*g.context, "milcgpu_gauge_reunitarize", [&](CallArguments &call) {
            call.given("report", report);
            require_sizes(report, 1);
            tolerance = call("tolerance", tolerance, at_least(0).or_0_for(1e-4));
        });
        need_some_links(g);
        ReunitarizeReport r;
        try {
            r = reunitarize(g.device(), g.geometry(), g.u, tolerance, !g.signs.of(Signs::phases_out));
        } catch (const std::bad_alloc &) { // the kernel may have run
            g.links_version = 0;
            throw;
        }
        g.links_changed();
        const milcgpu_reunitarize_report filled = {sizeof filled, r.failed, r.first_failed, r.largest_deviation,
                                                   r.sum_of_squares / (16.0 * g.geometry().global_volume())};
        copy_to_caller(filled, report);
    });
}

milcgpu_status milcgpu_gauge_action(milcgpu_gauge *gauge, const milcgpu_loops *loops, double *action) {
    return with_gauge(gauge, "milcgpu_gauge_action", [&](milcgpu_gauge &g) {
        LoopCoefficients c;
        same_on_all_ranks(*g.context, "milcgpu_gauge_action", [&](CallArguments &call) {
            c = loop_coefficients(call, loops);
            call.given("action", action);
        });
        need_some_links(g, said_by(c));
        WithMargin around(g.device(), g.geometry(), g.context->halo.get(), g.precision);
        const double found = gauge_action(g.device(), around.box(), around.of(g.u, c.reach()), c);
        need_links(g);
        set_if_given(found, action);
    });
}

milcgpu_status milcgpu_momenta_action(milcgpu_gauge *gauge, double *action) {
    return with_gauge(gauge, "milcgpu_momenta_action", [&](milcgpu_gauge &g) {
        same_on_all_ranks(*g.context, "milcgpu_momenta_action",
                          [&](CallArguments &call) { call.given("action", action); });
        need_some_momenta(g);
        const double found = momentum_action(g.device(), g.geometry(), g.h);
        need_momenta(g);
        set_if_given(found, action);
    });
}

milcgpu_status milcgpu_gauge_plaquettes(milcgpu_gauge *gauge, double *space, double *time) {
    return with_gauge(gauge, "milcgpu_gauge_plaquettes", [&](milcgpu_gauge &g) {
        same_on_all_ranks(*g.context, "milcgpu_gauge_plaquettes",
                          [&](CallArguments &call) { call.given("space", space), call.given("time", time); });
        const PlaquetteMeans means = checked_plaquettes(g);
        *time = means.time;
        *space = means.space;
    });
}

milcgpu_status milcgpu_gauge_polyakov_loop(milcgpu_gauge *gauge, double *real, double *imaginary) {
    return with_gauge(gauge, "milcgpu_gauge_polyakov_loop", [&](milcgpu_gauge &g) {
        same_on_all_ranks(*g.context, "milcgpu_gauge_polyakov_loop",
                          [&](CallArguments &call) { call.given("real", real), call.given("imaginary", imaginary); });
        need_some_links(g);
        const milcgpu_context &context = *g.context;
        const Complex<double> mean =
            context.box.cut(3) ? polyakov_loop(g.device(), g.geometry(), g.u, *context.halo, ranks_of_a_line(context))
                               : polyakov_loop(g.device(), g.geometry(), g.u);
        need_links(g);
        set_if_given(mean.im, imaginary);
        set_if_given(mean.re, real);
    });
}

milcgpu_status milcgpu_gauge_loop_traces(milcgpu_gauge *gauge, int signs, int n, const int *lengths, const int *steps,
                                         double *traces) {
    return with_gauge(gauge, "milcgpu_gauge_loop_traces", [&](milcgpu_gauge &g) {
        std::vector<LoopPath> paths;
        same_on_all_ranks(*g.context, "milcgpu_gauge_loop_traces", [&](CallArguments &call) {
            call("signs", signs, in_or_out), call("n", n, one_or_more);
            call.given("lengths", lengths), call.given("steps", steps), call.given("traces", traces);
            paths = loop_paths(*g.context, call, n, lengths, steps);
        });
        need_some_links(g, said_by("signs says which links these are: 0 with phases, 1 without", signs));
        WithMargin around(g.device(), g.geometry(), g.context->halo.get(), g.precision);
        const LinkField &u = around.of(g.u, loops_reach);
        std::vector<double> found(2 * size_t(n));
        for (int k = 0; k < n; ++k) {
            const Complex<double> mean = loop_trace(g.device(), around.box(), u, paths[k], signs_of(signs));
            found[2 * k] = mean.re, found[2 * k + 1] = mean.im;
        }
        need_links(g);
        for (const double value : found)
            must_be_finite(value);
        std::copy(found.begin(), found.end(), traces);
    });
}

} // extern "C"
