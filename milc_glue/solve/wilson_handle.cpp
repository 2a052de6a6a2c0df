// The handle of Wilson fermions: links, clover terms, operators, the last solver.
#include "gpu_kernels/fields/asked_fields.h"
#include "gpu_kernels/halo/halo.h"
#include "gpu_kernels/measure/quark_operators.h"
#include "milc_glue/links/gauge.h"
#include "milc_glue/links/link_checks.h"
#include "milc_glue/solve/kept_solver.h"
#include "milc_glue/solve/wilson_calls.h"
#include <cmath>

using namespace milcgpu;

void milcgpu_wilson::clear() {
    context->forget(this);
    links_.clear();
    clover_.clear();
}

void milcgpu_wilson::load(Precision real, const SaidSigns &said, const std::function<void(LinkField &)> &fill) {
    clear();
    LinkField given;
    device().collective("the loading of links", [&] {
        given = LinkField(device(), real, 18, geometry(), name_of_links);
        given.clear_behind(geometry());
        given.keep_sum();
        fill(given);
    });
    const Phases phases(geometry());
    const LinkStatistics statistics = checked_gauge_field(device(), geometry(), given, -1, &phases);
    need_signs(device(), geometry(), given, statistics.signs, phases, said);
    if (said.signs == Signs::phases_in) {
        constexpr int origin[4] = {};
        turn_links(device(), geometry(),
                   {phases_of(0, origin), phases_of(1, origin), phases_of(2, origin), phases_of(3, origin)}, -1, given);
    }
    const bool in_double = real == Precision::double_;
    const auto as_given = std::make_shared<LinkField>(
        in_double ? std::move(given)
                  : pack_links(device(), given, statistics, geometry(), Precision::double_, 18, name_of_links).field);
    device().collective("a checksum of links", [&] { as_given->checksum = as_given->sum_of_content(); });
    AskedFields asked(device());
    asked.unchanged(in_double ? *as_given : given, name_of_links);
    asked.must_hold();
    links_.hold(as_given, statistics);
}

std::shared_ptr<const LinkField> milcgpu_wilson::version(OperatorSpec &spec) {
    const ResidentField::Held held = links_.version(spec.link, spec.reals);
    spec.reals = held->reals();
    return held;
}

std::shared_ptr<const CloverField> milcgpu_wilson::with_checksum(CloverField made) const {
    made.checksum = made.kept_sum();
    return std::make_shared<const CloverField>(std::move(made));
}

CloverVersion milcgpu_wilson::clover(double cku0, Precision precision, int divided) {
    if (cku0 == 0)
        return {};
    if (cku0 != cku0_) {
        context->forget(this); // the solver holds the old terms
        clover_.clear();
        cku0_ = cku0;
    }
    // R if `of` is none, else its inverse on that parity. Held here while others are made.
    const auto one = [&](Precision in, int of, const auto &make) {
        std::shared_ptr<const CloverField> found = clover_[{in, of}];
        if (!found) {
            CloverField made;
            device().collective("memory for a clover term", [&] {
                made = {device(), in, geometry(), of == none ? "clover term" : "inverse of the clover term"};
            });
            make(made);
            found = with_checksum(std::move(made));
            clover_[{in, of}] = found;
        }
        return found;
    };
    const auto in_full = [&](int of) {
        return one(Precision::double_, of, [&](CloverField &made) {
            if (of == none) {
                WithMargin around(device(), context->geometry, context->halo.get(), Precision::double_);
                const LinkField &u = around.of(as_given(), clover_reach);
                return make_clover(device(), around.box(), u, cku0, made);
            }
            invert_clover(device(), *clover(cku0, Precision::double_, none).term, of, made);
        });
    };
    const auto version = [&](int of) {
        if (precision == Precision::double_)
            return in_full(of);
        return one(precision, of, [&](CloverField &made) { convert_clover(device(), *in_full(of), made); });
    };
    CloverVersion both;
    both.term = version(none);
    if (divided != none)
        both.inverse = version(divided);
    return both;
}

std::shared_ptr<const WilsonMatrix> milcgpu_wilson::matrix(const WilsonParameters &of, int parity, OperatorSpec &spec) {
    const std::shared_ptr<const LinkField> links = version(spec);
    const CloverVersion R = clover(of.cku0, spec.spinor, 1 - parity);
    std::unique_ptr<WilsonMatrix> made;
    device().collective("memory for a Wilson operator", [&] {
        made = std::make_unique<WilsonMatrix>(device(), geometry(), parity, spec, *links, of.kappa, R.pair(), halo());
    });
    // The links and the term stay as long as the operator does.
    return {made.release(), [links, R](const WilsonMatrix *M) { delete M; }};
}

void WilsonFamily::make_solver(KeptSolver &solver) {
    if (method_ == MILCGPU_WILSON_CG)
        return OperatorFamily::make_solver(solver);
    OperatorSpec spec = in_double;
    const std::shared_ptr<const WilsonMatrix> full = w_.matrix(of_, parity_, spec);
    spec = solver.sloppy;
    const SharedMatrix M = spec == in_double ? full : w_.matrix(of_, parity_, spec);
    solver.operators.full = std::make_shared<const WilsonNormal>(full);
    device().collective("memory for a solver", [&] {
        solver.bicgstab = std::make_unique<BicgstabSolver>(device(), BicgOperators{full, M});
    });
}

bool milcgpu_wilson::release_idle() {
    bool any = links_.drop_unused();
    for (auto entry = clover_.begin(); entry != clover_.end();) {
        const bool unused = entry->second.use_count() == 1;
        entry = unused ? clover_.erase(entry) : std::next(entry);
        any = any || unused;
    }
    if (!any)
        return false;
    context->log(2, "memory is short: packed links and clover terms of Wilson fermions are freed");
    return true;
}

extern "C" {

milcgpu_status milcgpu_wilson_create(milcgpu_context *context, milcgpu_wilson **wilson) {
    constexpr const char *function = "milcgpu_wilson_create";
    if (wilson != nullptr)
        *wilson = nullptr;
    return guarded(context, function, [&] {
        require(context, function, "context");
        std::unique_ptr<milcgpu_wilson> made;
        context->device->collective(function, [&] {
            require(wilson, function, "wilson");
            made = std::make_unique<milcgpu_wilson>(context);
        });
        *wilson = made.release();
        return Status::ok;
    });
}

void milcgpu_wilson_destroy(milcgpu_wilson *wilson) {
    if (wilson != nullptr && may_end(*wilson->context, "milcgpu_wilson_destroy"))
        delete wilson;
}

milcgpu_status milcgpu_wilson_load(milcgpu_wilson *wilson, const milcgpu_field *links) {
    constexpr const char *function = "milcgpu_wilson_load";
    return with_wilson(wilson, function, [&](milcgpu_wilson &w) {
        HostField host{};
        same_on_all_ranks(*w.context, function, [&](CallArguments &call) {
            host = host_field(links, 72, "links");
            call("the precision of links", int(host.real));
        });
        w.load(host.real, {Signs::phases_out, "Take the phases out before they are loaded"},
               [&](LinkField &given) { links_to_device(w.device(), host, w.context->map, w.geometry(), given); });
        return Status::ok;
    });
}

milcgpu_status milcgpu_wilson_load_gauge(milcgpu_wilson *wilson, int signs, milcgpu_gauge *gauge) {
    constexpr const char *function = "milcgpu_wilson_load_gauge";
    return with_wilson(wilson, function, [&](milcgpu_wilson &w) {
        same_on_all_ranks(*w.context, function, [&](CallArguments &call) {
            call.given("gauge", gauge);
            call("signs", signs, in_or_out);
            if (gauge->context != w.context)
                refuse("gauge: a handle of another context than wilson");
            call("the precision of gauge", int(gauge->precision));
        });
        need_some_links(*gauge);
        w.clear();
        need_links(*gauge);
        w.load(gauge->precision,
               said_by("The argument signs says which links these are: 0 with phases, 1 without", signs),
               [&](LinkField &given) { given.copy(gauge->u); });
        return Status::ok;
    });
}

} // extern "C"
