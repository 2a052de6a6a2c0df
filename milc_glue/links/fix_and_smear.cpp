// The C interface to gauge fixing and APE smearing.
#include "gpu_kernels/fields/asked_fields.h"
#include "gpu_kernels/gauge/flow/gauge_fix.h"
#include "gpu_kernels/halo/halo.h"
#include "milc_glue/api/members.h"
#include "milc_glue/links/gauge.h"
#include "milc_glue/links/link_checks.h"

using namespace milcgpu;

namespace {

class GaugeFixing {
  public:
    GaugeFixing(milcgpu_gauge &gauge, const milcgpu_gauge_fix_spec &spec)
        : gauge_(gauge), spec_(spec), condition_{15u & ~(1u << spec.direction), spec.boost, signs_of(spec.signs)},
          around_(gauge.device(), gauge.geometry(), gauge.context->halo.get(), gauge.precision) {
        gauge.device().collective("memory for gauge fixing", [&] { u_ = around_.allocate_on_box("gauge fixing"); });
        u_.copy(gauge.u);
        if (gauge.context->halo != nullptr)
            u_.no_sum(); // steps are made on the wide box
    }
    // Returns true if the tolerance was reached.
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
        if (report.steps % spec_.reunitarize_every != 0) // as in MILC: not one step after the last time
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
    // The mean of Re tr U / 3. Each end of a link counts half of it, with the link as that end's step left it.
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
        report.failed += reunitarize(gauge_.device(), gauge_.geometry(), u_, 1e-4, spec_.signs == 0).failed;
    }

    milcgpu_gauge &gauge_;
    const milcgpu_gauge_fix_spec &spec_;
    GaugeCondition condition_;
    WithMargin around_;
    LinkField u_;
};

} // namespace

extern "C" {

milcgpu_status milcgpu_gauge_fix(milcgpu_gauge *gauge, const milcgpu_gauge_fix_spec *spec,
                                 milcgpu_gauge_fix_report *report) {
    constexpr const char *function = "milcgpu_gauge_fix";
    bool finished = true;
    milcgpu_gauge_fix_spec full{};
    const auto body = [&](milcgpu_gauge &g, milcgpu_gauge_fix_report &filled) {
        same_on_all_ranks(*g.context, function, [&](CallArguments &call) { full = call.copy_of("spec", spec); });
        need_some_links(g, said_by(says_phases, full.signs, true));
        GaugeFixing fixing(g, full);
        g.device().timer_start();
        finished = fixing.run(filled);
        g.device().collective("milcgpu_gauge_fix", [&] { g.context->callbacks.throw_what_they_threw(); });
        filled.kernel_seconds = g.device().timer_stop_seconds();
        fixing.commit();
        return [&filled] { return format("gauge fixing, %d steps to a mean of %.8f", filled.steps, filled.mean); };
    };
    const milcgpu_status status = reported(gauge, function, report, body);
    if (status != MILCGPU_OK || finished || full.tolerance < 0)
        return status;
    return not_converged(*gauge, function, report,
                         format("after spec.most_steps = %d steps a step still changes the mean of Re tr by more than "
                                "spec.tolerance %g. Call "
                                "again to go on from these links, or allow more steps",
                                full.most_steps, full.tolerance));
}

milcgpu_status milcgpu_gauge_ape_smear(milcgpu_gauge *gauge, const milcgpu_ape_spec *spec, uint64_t *not_converged,
                                       milcgpu_force_report *report) {
    constexpr const char *function = "milcgpu_gauge_ape_smear";
    return reported(gauge, function, report, [&](milcgpu_gauge &g, milcgpu_force_report &filled) {
        milcgpu_ape_spec full{};
        same_on_all_ranks(*g.context, function, [&](CallArguments &call) { full = call.copy_of("spec", spec); });
        const ApeSpec ape{full.weight, full.space_only == 0, std::max(full.most_hits, 0), std::max(full.tolerance, 0.0),
                          signs_of(full.signs)};
        need_some_links(g, said_by(says_phases, full.signs, true));
        double failed = 0; // of all ranks
        if (full.times > 0) {
            WithMargin around(g.device(), g.geometry(), g.context->halo.get(), g.precision);
            LinkField from, to;
            DeviceArray<uint64_t> count;
            g.device().collective("memory for APE smearing", [&] {
                count = {g.device(), 1, "APE smearing"};
                to = around.allocate_on_box("APE smearing");
                if (full.times > 1)
                    from = around.allocate_on_box("APE smearing");
                for (LinkField *field : {&from, &to})
                    if (field->bytes() > 0)
                        field->clear_behind(g.geometry()), field->keep_sum();
            });
            AskedFields asked(g.device());
            g.device().timer_start();
            g.device().fill_zero(count.data(), count.bytes());
            ape_smear(g.device(), around.box(), around.of(g.u, ape_reach), ape, to, count.data());
            for (int k = 1; k < full.times; ++k) {
                std::swap(from, to);
                to.keep_sum(); // starts a new checksum
                ape_smear(g.device(), around.box(), around.of(from, ape_reach), ape, to, count.data());
                asked.unchanged(from, "smeared links");
            }
            asked.must_hold();
            filled.kernel_seconds = g.device().timer_stop_seconds();
            failed = static_cast<double>(count.to_host()[0]);
            if (g.device().ranks() != nullptr)
                g.device().ranks()->add_in_rank_order("APE smearing", &failed, 1);
            checked_gauge_field(g.device(), g.geometry(), to, -1);
            filled.flops = ape_smear_flops(ape) * full.times * g.geometry().volume();
            need_links(g);
            g.u = std::move(to);
            g.links_changed();
        }
        if (not_converged != nullptr)
            *not_converged = static_cast<uint64_t>(failed);
        return [times = full.times] { return format("APE smearing, %d times", times); };
    });
}

milcgpu_status milcgpu_gauge_hyp_smear(milcgpu_gauge *gauge, const milcgpu_hyp_spec *spec,
                                       milcgpu_force_report *report) {
    constexpr const char *function = "milcgpu_gauge_hyp_smear";
    return reported(gauge, function, report, [&](milcgpu_gauge &g, milcgpu_force_report &filled) {
        milcgpu_hyp_spec full{};
        same_on_all_ranks(*g.context, function, [&](CallArguments &call) { full = call.copy_of("spec", spec); });
        const HypSpec hyp{
            {full.alpha3, full.alpha2, full.alpha1}, full.directions == 3, full.hits, signs_of(full.signs)};
        need_some_links(g, said_by(says_phases, full.signs, true));
        if (full.times > 0) {
            g.device().timer_start();
            LinkField made = hyp_smear(g.device(), g.geometry(), g.context->halo.get(), g.u, hyp);
            for (int k = 1; k < full.times; ++k)
                made = hyp_smear(g.device(), g.geometry(), g.context->halo.get(), made, hyp);
            filled.kernel_seconds = g.device().timer_stop_seconds();
            checked_gauge_field(g.device(), g.geometry(), made, -1);
            filled.flops = hyp_smear_flops(hyp) * full.times * g.geometry().volume();
            need_links(g);
            g.u = std::move(made);
            g.links_changed();
        }
        return [times = full.times] { return format("HYP smearing, %d times", times); };
    });
}

} // extern "C"
