// The C interface to gpu_kernels/gauge/flow: gradient flow, stout smearing, observables.
#include "gpu_kernels/gauge/flow/flow_integrators.h"
#include "milc_glue/api/members.h"
#include "milc_glue/links/gauge.h"
#include "milc_glue/links/link_checks.h"
#include <algorithm>
#include <limits>

using namespace milcgpu;

static_assert(highest_exp_order == 16, "the limit of milcgpu_flow.h and members.h");

namespace {

// MILC prints these in this order.
milcgpu_observables observables_for_caller(const FlowObservables &o) {
    milcgpu_observables made{};
    set_if_given(o.clover_t, &made.clover_t);
    set_if_given(o.clover_s, &made.clover_s);
    set_if_given(o.plaquette_t, &made.plaquette_t);
    set_if_given(o.plaquette_s, &made.plaquette_s);
    set_if_given(o.rectangle_t, &made.rectangle_t);
    set_if_given(o.rectangle_s, &made.rectangle_s);
    set_if_given(o.charge, &made.charge);
    return made;
}

FlowMethod method_of(const milcgpu_flow_spec &spec, Precision precision) {
    const FlowIntegrator *const integrator = flow_integrator(spec.integrator);
    if (integrator == nullptr)
        refuse(format("spec.integrator is %d: must be one of 0 to 3, 10 to 13 and 20 to 22 (milcgpu_flow_integrator)",
                      spec.integrator));
    // Two solutions of a step differ at least by the rounding of the links.
    const double least = precision == Precision::double_ ? std::numeric_limits<double>::epsilon()
                                                         : std::numeric_limits<float>::epsilon();
    if (integrator->adaptive() && !at_least(least).holds(spec.tolerance))
        refuse(format("spec.tolerance is %g: links in %s precision resolve no less than %.1e", spec.tolerance,
                      name(precision), least));
    if (!integrator->adaptive() && spec.stop / spec.step > spec.most_steps + 0.5)
        refuse(format("spec.stop %g in steps of %g is %.0f steps, but spec.most_steps is %d: raise it, or spec.step",
                      spec.stop, spec.step, std::ceil(spec.stop / spec.step), spec.most_steps));
    return {integrator, spec.action == MILCGPU_FLOW_SYMANZIK, spec.anisotropy, signs_of(spec.signs), spec.exp_order};
}

// The loop over steps, as in MILC: the length of a step, when a step is retried, where the flow ends.
class FlowRun {
  public:
    FlowRun(milcgpu_gauge &gauge, const milcgpu_flow_spec &spec, const FlowMethod &method, milcgpu_flow_callback call,
            void *user)
        : gauge_(gauge), spec_(spec), method_(method), adaptive_(method.integrator->adaptive()), call_(call),
          user_(user), flow_(gauge.device(), gauge.geometry(), gauge.context->halo.get(), gauge.u, method),
          step_(spec.step), next_step_(spec.step), stable_step_(longest_stable_step(method)) {
        point_.step = step_;
    }

    // Returns false if there were too many steps, or if the flow smoothed far beyond the lattice without an end.
    bool run() {
        const bool automatic = spec_.stop == MILCGPU_FLOW_AUTO_STOP;
        measure();
        bool end = spec_.stop == 0;
        double measured_at = 0, energy = 0; // energy: t^2 E
        while (!ended_by_caller_ && !end) {
            if (point_.steps == spec_.most_steps || (automatic && spec_.as_milc == 0 && point_.time > longest_time())) {
                if (measured_after_ != point_.steps)
                    measure();
                return false;
            }
            // A step that ends there up to rounding is a whole step.
            const double slack = spec_.as_milc != 0 ? 0 : 1e-9;
            const double left = automatic ? INFINITY : spec_.stop - point_.time, whole = step_;
            bool cut = step_ > left * (1 + slack);
            if (step_ > left * (1 - slack))
                step_ = rounded(left);
            cut = make_step(cut) && cut;
            next_step_ = cut ? whole : adaptive_ ? rounded(step_ * change(point_.distance)) : step_;
            end = cut || (!automatic && spec_.stop - point_.time <= slack * step_);
            if (point_.steps % spec_.every == 0 || end) {
                measure();
                const double before = energy, time = point_.time;
                energy = time * time * (point_.of.clover_t + point_.of.clover_s);
                const double slope = time * (energy - before) / (time - measured_at);
                measured_at = time;
                end = end || (automatic && energy > 0.45 && slope > 0.35);
            } else if (step_ > stable_step_) {
                look();
            }
            step_ = next_step_;
        }
        return true;
    }
    void commit() { // the flowed links become the handle's
        if (point_.steps == 0)
            return;
        LinkField links = flow_.take();
        need_links(gauge_);
        gauge_.u = std::move(links);
        gauge_.links_changed();
    }
    void fill(milcgpu_flow_report &report) const {
        report.ended_by_caller = ended_by_caller_;
        report.next_step = next_step_;
        report.last = point_;
        const auto &n = gauge_.geometry().global_extents();
        report.beyond_half_box = std::sqrt(8 * point_.time) > 0.5 * *std::min_element(n.begin(), n.end());
        std::snprintf(report.message, sizeof report.message, "%s", note_.c_str());
        report.flops = flow_.flops() * gauge_.geometry().volume();
    }

  private:
    double rounded(double step) const { // as MILC's Real
        return spec_.as_milc != 0 && gauge_.precision == Precision::single ? static_cast<float>(step) : step;
    }
    // The flow time at which sqrt(8 t) is the largest extent.
    double longest_time() const {
        const auto &n = gauge_.geometry().global_extents();
        const double largest = *std::max_element(n.begin(), n.end());
        return largest * largest / 8;
    }
    // Solutions of second and third order differ by eps^3. The safety factor is MILC's. The limits keep the step finite
    // if two solutions agree in all bits, and above 0 if they overflow.
    double change(double distance) const {
        return std::isfinite(distance) ? std::min(0.95 * std::pow(spec_.tolerance / distance, 1.0 / 3), 1000.0) : 0.1;
    }
    // last: the step is shortened to end at spec.stop. Returns false if it became shorter than step_ was.
    bool make_step(bool last) {
        const double asked = step_;
        for (;;) {
            point_.distance = flow_.try_step(step_);
            if (!adaptive_ || point_.distance <= spec_.tolerance)
                break;
            if (last && spec_.as_milc != 0 && std::isfinite(point_.distance)) {
                note(
                    format("the last step, of %g, has a distance of %g between its two solutions, spec.tolerance is %g",
                           step_, point_.distance, spec_.tolerance));
                break;
            }
            if (!(step_ > 1e-30))
                throw Error(Status::nan_or_inf, format("after flow time %g: links have NaN or infinity", point_.time));
            step_ = rounded(step_ * change(point_.distance));
            ++point_.rejected;
        }
        flow_.accept();
        point_.time += step_, point_.step = step_;
        ++point_.steps;
        return step_ == asked;
    }
    // Measures at this flow time, and looks at the action, which rises only if a step is too long.
    milcgpu_observables look() {
        const FlowObservables of = flow_.observables();
        milcgpu_observables found{};
        try {
            found = observables_for_caller(of);
        } catch (const Error &error) {
            if (point_.steps == 0)
                throw;
            throw Error(error.status(), culprit() +
                                            format(": from flow time %g to %g links become NaN or infinite. ",
                                                   looked_at_, point_.time) +
                                            advice());
        }
        const double action = flow_action(method_, of), scale = std::max(1.0, spec_.anisotropy * spec_.anisotropy),
                     rounding = gauge_.precision == Precision::double_ ? std::numeric_limits<double>::epsilon()
                                                                       : std::numeric_limits<float>::epsilon();
        if (point_.steps > 0 && action > action_ + 1000 * rounding * scale) {
            const std::string what = too_long(action);
            if (spec_.as_milc == 0)
                refuse(what);
            note(what);
        }
        action_ = action, looked_at_ = point_.time;
        return found;
    }
    std::string too_long(double action) const {
        return culprit() +
               format(": from flow time %g to %g the action of a site rises from %g to %g, and a flow lowers it. ",
                      looked_at_, point_.time, action_, action) +
               advice();
    }
    // The argument that makes steps too long, and what to take instead.
    std::string culprit() const {
        return format(adaptive_ ? "spec.tolerance is %g, which lets steps be too long"
                                : "spec.step is %g, which is too long",
                      adaptive_ ? spec_.tolerance : spec_.step);
    }
    std::string advice() const {
        if (adaptive_)
            return format("Take %.1g", spec_.tolerance / 100);
        if (spec_.step <= stable_step_)
            return format("Take %g, or a higher spec.exp_order", spec_.step / 2);
        return format("%s's steps of %s flow are stable up to %.3g on smooth links", method_.integrator->name,
                      method_.symanzik ? "Symanzik" : "Wilson", stable_step_);
    }
    void note(const std::string &what) { // keeps the first one only
        if (note_.empty())
            note_ = what;
    }
    void measure() {
        point_.of = look();
        measured_after_ = point_.steps;
        bool ends = false;
        if (call_ != nullptr) {
            ends = true; // if it throws
            gauge_.context->callbacks.run("callback", [&] { ends = call_(user_, &point_) != 0; });
            gauge_.device().make_current();
        }
        ended_by_caller_ = any_rank(ends);
    }
    bool any_rank(bool here) const {
        Ranks *const ranks = gauge_.device().ranks();
        if (ranks == nullptr)
            return here;
        bool any = false;
        for (const int one : ranks->gathered("the end of a flow", int(here)))
            any = any || one != 0;
        return any;
    }

    milcgpu_gauge &gauge_;
    const milcgpu_flow_spec &spec_;
    const FlowMethod method_;
    bool adaptive_;
    milcgpu_flow_callback call_;
    void *user_;
    GradientFlow flow_;
    double step_, next_step_;
    const double stable_step_;
    double action_ = 0, looked_at_ = 0; // at the flow time of the last look
    std::string note_;
    milcgpu_flow_point point_{};
    int measured_after_ = -1; // steps
    bool ended_by_caller_ = false;
};

} // namespace

extern "C" {

milcgpu_status milcgpu_gauge_flow(milcgpu_gauge *gauge, const milcgpu_flow_spec *spec, milcgpu_flow_callback callback,
                                  void *user, milcgpu_flow_report *report) {
    constexpr const char *function = "milcgpu_gauge_flow";
    bool finished = true;
    int taken = 0;
    double time = 0;
    milcgpu_flow_spec full{};
    const auto body = [&](milcgpu_gauge &g, milcgpu_flow_report &filled) {
        FlowMethod method{};
        same_on_all_ranks(*g.context, function, [&](CallArguments &call) {
            full = call.copy_of("spec", spec);
            method = method_of(full, g.precision);
        });
        need_some_links(g, said_by(says_phases, full.signs));
        FlowRun run(g, full, method, callback, user);
        g.device().timer_start();
        finished = run.run();
        filled.kernel_seconds = g.device().timer_stop_seconds();
        g.device().collective(function, [&] { g.context->callbacks.throw_what_they_threw(); });
        run.fill(filled);
        taken = filled.last.steps, time = filled.last.time;
        run.commit();
        return [&filled, method] {
            return format("%s flow to %g in %d steps by %s", method.symanzik ? "Symanzik" : "Wilson", filled.last.time,
                          filled.last.steps, method.integrator->name);
        };
    };
    const milcgpu_status status = reported(gauge, function, report, body);
    if (status != MILCGPU_OK || finished)
        return status;
    return not_converged(
        *gauge, function, report,
        taken == full.most_steps
            ? format(
                  "the flow did not end in %d steps (spec.most_steps = %d); the links are at flow time %g. Call again "
                  "to go on from there, or allow more steps",
                  taken, full.most_steps, time)
            : format(
                  "sqrt(8 t) is %.3g at flow time %g, the largest extent, and t^2 E has not reached 0.45 with a slope "
                  "of 0.35: use a larger lattice, or set spec.stop to a time",
                  std::sqrt(8 * time), time));
}

milcgpu_status milcgpu_gauge_measure(milcgpu_gauge *gauge, int signs, milcgpu_observables *observables) {
    return with_gauge(gauge, "milcgpu_gauge_measure", [&](milcgpu_gauge &g) {
        same_on_all_ranks(*g.context, "milcgpu_gauge_measure", [&](CallArguments &call) {
            call.given("observables", observables);
            call("signs", signs, in_or_out);
        });
        need_some_links(g, said_by("The argument signs says which links these are: 0 with phases, 1 without", signs));
        WithMargin around(g.device(), g.geometry(), g.context->halo.get(), g.precision);
        const FlowObservables found =
            flow_observables(g.device(), around.box(), around.of(g.u, flow_observables_reach), signs_of(signs));
        need_links(g);
        *observables = observables_for_caller(found);
    });
}

milcgpu_status milcgpu_gauge_stout_smear(milcgpu_gauge *gauge, const milcgpu_stout_spec *spec,
                                         milcgpu_force_report *report) {
    return reported(gauge, "milcgpu_gauge_stout_smear", report, [&](milcgpu_gauge &g, milcgpu_force_report &filled) {
        milcgpu_stout_spec full{};
        same_on_all_ranks(*g.context, "milcgpu_gauge_stout_smear",
                          [&](CallArguments &call) { full = call.copy_of("spec", spec); });
        need_some_links(g, said_by(says_phases, full.signs));
        if (full.times > 0) {
            g.device().timer_start();
            LinkField smeared = stout(g.device(), g.geometry(), g.context->halo.get(), g.u, signs_of(full.signs),
                                      full.rho, full.directions, full.times);
            filled.kernel_seconds = g.device().timer_stop_seconds();
            checked_gauge_field(g.device(), g.geometry(), smeared, -1);
            filled.flops = stout_flops * full.times * g.geometry().volume();
            need_links(g);
            g.u = std::move(smeared);
            g.links_changed();
        }
        return [times = full.times] { return format("stout smearing, %d times", times); };
    });
}

milcgpu_status milcgpu_gauge_copy(milcgpu_gauge *from, milcgpu_gauge *to) {
    const auto copy = [&](milcgpu_gauge &g) {
        same_on_all_ranks(*g.context, "milcgpu_gauge_copy", [&](CallArguments &call) {
            call.given("to", to);
            if (to->context != g.context || to->precision != g.precision)
                refuse("to: another context or another precision than from: both must be alike");
        });
        need_links(g);
        if (to == from)
            return;
        to->links_version = 0;
        to->signs = g.signs;
        to->u.copy(g.u);
        to->links_changed();
    };
    return with_gauge(from, "milcgpu_gauge_copy", copy, "from");
}

} // extern "C"
