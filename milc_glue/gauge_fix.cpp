// The C interface to gauge fixing and APE smearing.
#include "gpu_kernels/gauge/gauge_fix.h"
#include "gpu_kernels/halo/halo.h"
#include "gpu_kernels/su3/asked_fields.h"
#include "milc_glue/fat_links.h"
#include "milc_glue/gauge.h"
#include "milc_glue/milcgpu_gauge.h"

using namespace milcgpu;

namespace {

Signs signs_of(int phases_out) { return phases_out != 0 ? Signs::phases_out : Signs::phases_in; }

// As spec says, its defaults put in.
milcgpu_gauge_fix_spec checked(milcgpu_gauge_fix_spec spec) {
    require_size(spec.struct_size, sizeof spec, "milcgpu_gauge_fix_spec");
    if (spec.direction != MILCGPU_LANDAU && (spec.direction < 0 || spec.direction > 3))
        refuse(format("spec.direction is %d: must be 0 to 3 (Coulomb gauge; 3 is time) or MILCGPU_LANDAU (8)",
                      spec.direction));
    spec.boost = spec.boost == 0 ? 1.8 : spec.boost;
    if (!(spec.boost >= 1) || !std::isfinite(spec.boost))
        refuse(format("spec.boost is %g: must be at least 1, or 0 for 1.8", spec.boost));
    spec.most_steps = spec.most_steps == 0 ? 500 : spec.most_steps;
    spec.reunitarize_every = spec.reunitarize_every == 0 ? 20 : spec.reunitarize_every;
    if (spec.most_steps < 0 || spec.reunitarize_every < 0)
        refuse(format("spec.most_steps is %d, spec.reunitarize_every %d: must not be negative", spec.most_steps,
                      spec.reunitarize_every));
    spec.tolerance = spec.tolerance == 0 ? 2e-6 : spec.tolerance;
    if (!std::isfinite(spec.tolerance))
        refuse(format("spec.tolerance is %g: must be finite", spec.tolerance));
    return spec;
}

class GaugeFixing {
  public:
    GaugeFixing(milcgpu_gauge &gauge, const milcgpu_gauge_fix_spec &spec)
        : gauge_(gauge), spec_(spec), condition_{15u & ~(1u << spec.direction), spec.boost, signs_of(spec.phases_out)},
          around_(gauge.device(), gauge.geometry(), gauge.context->halo.get(), gauge.precision) {
        gauge.device().agree("memory for gauge fixing", [&] { u_ = around_.room_on_box("gauge fixing"); });
        u_.copy(gauge.u);
        if (gauge.context->halo != nullptr)
            u_.no_sum(); // steps are made on the wide box
    }
    // True: it ended by the tolerance.
    bool run(milcgpu_gauge_fix_report &report) {
        double before = 0;
        bool at_end = false;
        for (report.steps = 0; report.steps < spec_.most_steps; ++report.steps) {
            report.mean = step();
            report.change = report.steps == 0 ? 0 : report.mean - before;
            before = report.mean;
            if (!std::isfinite(report.mean))
                throw Error(Status::nan_or_inf, format("step %d: the mean of Re tr is %g: links have NaN or infinity",
                                                       report.steps, report.mean));
            if (spec_.progress != nullptr) {
                gauge_.context->callbacks.run(
                    "spec.progress", [&] { spec_.progress(spec_.user, report.steps, report.mean, report.change); });
                gauge_.device().make_current();
            }
            at_end = report.steps != 0 && std::fabs(report.change) < spec_.tolerance;
            if (at_end)
                break;
            if ((report.steps + 1) % spec_.reunitarize_every == 0)
                make_unitary(report);
        }
        if (report.steps % spec_.reunitarize_every != 0) // MILC's, too: not after a first step since the last time
            make_unitary(report);
        const int steps = report.steps + (at_end ? 1 : 0);
        report.flops = steps * relax_gauge_flops(condition_) * gauge_.geometry().volume();
        return at_end;
    }
    void commit() {
        need_links(gauge_);
        gauge_.u = std::move(u_);
        gauge_.links_changed();
    }

  private:
    // The mean of Re tr U / 3: a link counts half with each of its ends, as these have left it.
    double step() {
        double sum = 0;
        for (const int parity : {1, 0}) {
            const LinkField &wide = around_.of(u_, gauge_fix_reach);
            sum += relax_gauge(gauge_.device(), around_.box(), wide, condition_, parity);
            if (gauge_.context->halo != nullptr)
                gauge_.context->halo->crop(wide, around_.box(), u_);
        }
        return sum / (6.0 * condition_.count() * gauge_.geometry().global_volume());
    }
    void make_unitary(milcgpu_gauge_fix_report &report) {
        report.failed += reunitarize(gauge_.device(), gauge_.geometry(), u_, 1e-4, spec_.phases_out == 0).failed;
    }

    milcgpu_gauge &gauge_;
    const milcgpu_gauge_fix_spec &spec_;
    GaugeCondition condition_;
    WithMargin around_;
    LinkField u_;
};

ApeSpec checked(const milcgpu_ape_spec &spec) {
    require_size(spec.struct_size, sizeof spec, "milcgpu_ape_spec");
    if (!std::isfinite(spec.weight) || spec.weight < 0 || spec.times < 0)
        refuse(format("spec.weight is %g, spec.times %d: must not be negative", spec.weight, spec.times));
    if (!std::isfinite(spec.tolerance))
        refuse(format("spec.tolerance is %g: must be finite", spec.tolerance));
    if (spec.most_hits > 10000)
        refuse(format("spec.most_hits is %d: must not be above 10000", spec.most_hits));
    return {spec.weight, spec.space_only == 0,
            spec.most_hits < 0    ? 0
            : spec.most_hits == 0 ? 10
                                  : spec.most_hits,
            spec.tolerance < 0    ? 0
            : spec.tolerance == 0 ? 1e-5
                                  : spec.tolerance,
            signs_of(spec.phases_out)};
}

HypSpec checked(const milcgpu_hyp_spec &spec) {
    require_size(spec.struct_size, sizeof spec, "milcgpu_hyp_spec");
    const auto good = [](double alpha) { return alpha >= 0 && alpha <= 1; };
    if (!good(spec.alpha1) || !good(spec.alpha2) || !good(spec.alpha3))
        refuse(format("spec.alpha1 is %g, alpha2 %g, alpha3 %g: must be from 0 to 1", spec.alpha1, spec.alpha2,
                      spec.alpha3));
    if (spec.directions != 3 && spec.directions != 4)
        refuse(format("spec.directions is %d: must be 4, or 3 for space", spec.directions));
    if (spec.times < 0 || spec.hits < 0 || spec.hits > 10000)
        refuse(format("spec.times is %d, spec.hits %d: must not be negative, hits not above 10000", spec.times,
                      spec.hits));
    return {{spec.alpha3, spec.alpha2, spec.alpha1},
            spec.directions == 3,
            spec.hits == 0 ? 9 : spec.hits,
            signs_of(spec.phases_out)};
}

} // namespace

extern "C" {

milcgpu_status milcgpu_gauge_fix(milcgpu_gauge *gauge, const milcgpu_gauge_fix_spec *spec,
                                 milcgpu_gauge_fix_report *report) {
    constexpr const char *function = "milcgpu_gauge_fix";
    bool finished = true;
    milcgpu_gauge_fix_spec full{};
    const auto body = [&](milcgpu_gauge &g, milcgpu_gauge_fix_report &filled) {
        agreed(
            *g.context, function,
            [&] {
                require(spec, function, "spec");
                full = checked(*spec);
            },
            [&] {
                return Numbers{{"spec.direction", double(full.direction)},
                               {"spec.boost", full.boost},
                               {"spec.most_steps", double(full.most_steps)},
                               {"spec.tolerance", full.tolerance},
                               {"spec.reunitarize_every", double(full.reunitarize_every)},
                               {"spec.phases_out", double(full.phases_out)}};
            });
        need_some_links(g, said_by(says_phases, full.phases_out, true));
        GaugeFixing fixing(g, full);
        g.device().timer_start();
        finished = fixing.run(filled);
        g.device().agree("milcgpu_gauge_fix", [&] { g.context->callbacks.throw_what_they_threw(); });
        filled.kernel_seconds = g.device().timer_stop_seconds();
        fixing.commit();
        return [&filled] { return format("gauge fixing, %d steps to a mean of %.8f", filled.steps, filled.mean); };
    };
    const milcgpu_status status = reported(gauge, function, report, body, "milcgpu_gauge_fix_report");
    if (status != MILCGPU_OK || finished || full.tolerance < 0)
        return status;
    const milcgpu_status unfinished = guarded(gauge->context, function, [&]() -> Status {
        throw Error(Status::not_converged,
                    format("spec.most_steps = %d steps have not brought the change of a step below spec.tolerance %g: "
                           "the links are where they have come; call again to go on, or allow more",
                           full.most_steps, full.tolerance));
    });
    if (report == nullptr)
        return unfinished;
    milcgpu_gauge_fix_report filled = *report;
    return hand_back(unfinished, filled, report);
}

milcgpu_status milcgpu_ape_smear(milcgpu_gauge *gauge, const milcgpu_ape_spec *spec, uint64_t *not_converged,
                                 milcgpu_force_report *report) {
    constexpr const char *function = "milcgpu_ape_smear";
    return reported(gauge, function, report, [&](milcgpu_gauge &g, milcgpu_force_report &filled) {
        ApeSpec ape{};
        agreed(
            *g.context, function,
            [&] {
                require(spec, function, "spec");
                ape = checked(*spec);
            },
            [&] {
                return Numbers{{"spec.weight", spec->weight},
                               {"spec.times", double(spec->times)},
                               {"spec.space_only", double(spec->space_only)},
                               {"spec.most_hits", double(spec->most_hits)},
                               {"spec.tolerance", spec->tolerance},
                               {"spec.phases_out", double(spec->phases_out)}};
            });
        need_some_links(g, said_by(says_phases, spec->phases_out, true));
        double failed = 0; // of all ranks
        if (spec->times > 0) {
            WithMargin around(g.device(), g.geometry(), g.context->halo.get(), g.precision);
            LinkField from, to;
            DeviceArray<uint64_t> count;
            g.device().agree("memory for APE smearing", [&] {
                count = {g.device(), 1, "APE smearing"};
                to = around.room_on_box("APE smearing");
                if (spec->times > 1)
                    from = around.room_on_box("APE smearing");
                for (LinkField *field : {&from, &to})
                    if (field->bytes() > 0)
                        field->clear_behind(g.geometry()), field->keep_sum();
            });
            AskedFields asked(g.device());
            g.device().timer_start();
            g.device().fill_zero(count.data(), count.bytes());
            ape_smear(g.device(), around.box(), around.of(g.u, ape_reach), ape, to, count.data());
            for (int k = 1; k < spec->times; ++k) {
                std::swap(from, to);
                to.keep_sum(); // anew
                ape_smear(g.device(), around.box(), around.of(from, ape_reach), ape, to, count.data());
                asked.unchanged(from, "smeared links");
            }
            asked.must_hold();
            filled.kernel_seconds = g.device().timer_stop_seconds();
            failed = static_cast<double>(count.to_host()[0]);
            if (g.device().ranks() != nullptr)
                g.device().ranks()->add_in_rank_order("APE smearing", &failed, 1);
            checked_gauge_field(g.device(), g.geometry(), to, -1);
            filled.flops = ape_smear_flops(ape) * spec->times * g.geometry().volume();
            need_links(g);
            g.u = std::move(to);
            g.links_changed();
        }
        if (not_converged != nullptr)
            *not_converged = static_cast<uint64_t>(failed);
        return [spec] { return format("APE smearing, %d times", spec->times); };
    });
}

milcgpu_status milcgpu_hyp_smear(milcgpu_gauge *gauge, const milcgpu_hyp_spec *spec, milcgpu_force_report *report) {
    constexpr const char *function = "milcgpu_hyp_smear";
    return reported(gauge, function, report, [&](milcgpu_gauge &g, milcgpu_force_report &filled) {
        HypSpec hyp{};
        agreed(
            *g.context, function,
            [&] {
                require(spec, function, "spec");
                hyp = checked(*spec);
            },
            [&] {
                return Numbers{{"spec.alpha1", spec->alpha1},
                               {"spec.alpha2", spec->alpha2},
                               {"spec.alpha3", spec->alpha3},
                               {"spec.times", double(spec->times)},
                               {"spec.directions", double(spec->directions)},
                               {"spec.hits", double(spec->hits)},
                               {"spec.phases_out", double(spec->phases_out)}};
            });
        need_some_links(g, said_by(says_phases, spec->phases_out, true));
        if (spec->times > 0) {
            g.device().timer_start();
            LinkField made = hyp_smear(g.device(), g.geometry(), g.context->halo.get(), g.u, hyp);
            for (int k = 1; k < spec->times; ++k)
                made = hyp_smear(g.device(), g.geometry(), g.context->halo.get(), made, hyp);
            filled.kernel_seconds = g.device().timer_stop_seconds();
            checked_gauge_field(g.device(), g.geometry(), made, -1);
            filled.flops = hyp_smear_flops(hyp) * spec->times * g.geometry().volume();
            need_links(g);
            g.u = std::move(made);
            g.links_changed();
        }
        return [spec] { return format("HYP smearing, %d times", spec->times); };
    });
}

} // extern "C"
