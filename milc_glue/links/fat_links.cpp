// The C interface to gpu_kernels/gauge/links: the order of the steps, copies back.
#include "gpu_kernels/fields/asked_fields.h"
#include "gpu_kernels/halo/halo.h"
#include "milc_glue/api/apart.h"
#include "milc_glue/api/members.h"
#include "milc_glue/links/gauge.h"
#include "milc_glue/links/link_checks.h"
#include "milc_glue/links/links_handle.h"
#include "milc_glue/links/verify.h"
#include <cmath>

using namespace milcgpu;

namespace {

struct FatLinkArguments {
    Precision precision;
    int reals;
    PathCoefficients fat7, paths;
    HostField gauge;
    milcgpu_gauge *resident; // in place of `gauge`, if the links are on the device
};

bool is_derivative(const milcgpu_fatlink_spec &spec, int k, int n_sets) {
    return spec.derivative != 0 && k == n_sets - 1;
}

// real: the precision of the gauge links.
FatLinkArguments checked(CallArguments &call, const milcgpu_context &context, const milcgpu_fatlink_spec &spec,
                         Precision real, const milcgpu_fatlink_set *sets, int n_sets, const milcgpu_hisq_links *hisq) {
    FatLinkArguments a{};
    a.precision = spec.precision == 0
                      ? real
                      : double_or_single(spec.precision, "spec.precision", "; solves pack half copies of the links");
    a.reals = spec.reconstruct == 0 ? 18 : spec.reconstruct;
    if (a.reals != 18 && a.reals != 12)
        throw Error(Status::not_built, format("spec.reconstruct is %d; built: 18 12", a.reals));
    if (n_sets != 0)
        a.paths = coefficients(spec.paths, "spec.paths");
    if (spec.hisq)
        a.fat7 = coefficients(spec.fat7, "spec.fat7");
    const milcgpu_hisq_links none{}, wanted = call.copy_of("hisq", hisq != nullptr ? hisq : &none);
    const bool first_level = spec.hisq && (wanted.v != nullptr || wanted.y != nullptr || wanted.w != nullptr);
    if (n_sets < (first_level ? 0 : 1))
        refuse(format("n_sets is %d: at least one set is needed, or one of HISQ's V, Y and W", n_sets));
    call("n_sets", n_sets, none_or_more);
    if (n_sets > 0)
        call.given("sets", sets);
    std::vector<milcgpu_fatlink_set> read(sets, sets + n_sets);
    std::vector<Occupied> made;
    const auto add = [&](const Name &name, const milcgpu_field *field) {
        if (field != nullptr)
            made.push_back(occupied(context, name, true, host_field(field, 72, name.text().c_str())));
    };
    for (int k = 0; k < n_sets; ++k) {
        if (is_derivative(spec, k, n_sets))
            read[k].eps = 0; // the caller's is not read
        for (int j = 0; j < k; ++j)
            if (sets[k].links != nullptr && sets[j].links != nullptr &&
                (sets[k].links == sets[j].links || (*sets[k].links != nullptr && *sets[k].links == *sets[j].links)))
                refuse(format("sets[%d].links is also the handle of sets[%d]: a handle holds one set", k, j));
        if (sets[k].fat == nullptr && sets[k].lng == nullptr && sets[k].links == nullptr)
            refuse(format("sets[%d] requests nothing: fat, lng and links are all NULL", k));
        for (const auto &[field, member] : {std::pair(sets[k].fat, "fat"), {sets[k].lng, "lng"}}) {
            Name name("sets");
            name.index[0] = k, name.parts[name.last = 1] = member;
            add(name, field);
        }
        if ((sets[k].eps != 0 || is_derivative(spec, k, n_sets)) && !spec.hisq)
            a.reals = 18; // eps needs the links themselves
    }
    for (const auto &[field, member] : {std::pair(wanted.v, "v"), {wanted.y, "y"}, {wanted.w, "w"}}) {
        Name name("hisq");
        name.parts[name.last = 1] = member;
        if (spec.hisq)
            add(name, field);
    }
    require_apart(made);
    call.entries("sets", read.data(), n_sets);
    return a;
}

// One run of the steps, and the data that they share.
class Maker {
  public:
    Maker(milcgpu_context &context, const milcgpu_fatlink_spec &spec, const FatLinkArguments &a,
          milcgpu_fatlink_report &report)
        : context_(context), device_(*context.device), spec_(spec), a_(a), report_(report), halo_(context.halo.get()),
          around_(device_, context.geometry, halo_, a.precision) {}

    // The memory of a call at its peak, for the message if that does not fit.
    std::string plan(int n_sets) const {
        const double field = LinkField::bytes_of(a_.precision, 18, context_.geometry, 4) / 1048576.0;
        const double gauge = LinkField::bytes_of(a_.gauge.real, 18, context_.geometry, 4) / 1048576.0;
        return format("plan: gauge links %.1f MiB and as much for their raw copy, staples %.1f MiB (or %.1f, slower), "
                      "HISQ links %.1f "
                      "MiB, %d set(s) of fat and long links %.1f MiB",
                      gauge, 1.5 * field, field, spec_.hisq ? 2 * field : 0.0, n_sets, 2 * n_sets * field);
    }

    void make(const milcgpu_fatlink_set *sets, int n_sets, const milcgpu_hisq_links *wanted) {
        try {
            run(sets, n_sets, wanted);
        } catch (const Error &error) {
            if (error.status() != Status::no_memory)
                throw;
            throw Error(Status::no_memory, plan(n_sets) + "\n" + error.what());
        }
    }

  private:
    struct Outgoing {
        const LinkField *from;
        HostField to;
        const char *what;
    };

    // All results are made on the device and checked before the first one is copied out: a failure leaves the host's
    // fields untouched.
    void run(const milcgpu_fatlink_set *sets, int n_sets, const milcgpu_hisq_links *wanted) {
        asked_ = std::make_unique<AskedFields>(device_);
        LinkField loaded = a_.resident == nullptr ? gauge_links() : LinkField();
        const LinkField *const given = a_.resident == nullptr ? &loaded : &a_.resident->u, *links = given;
        device_.collective("memory for staples", [&] {
            space_ = std::make_unique<StapleSpace>(device_, around_.box().wide(), a_.precision);
        });
        report_.workspace_bytes = space_->bytes();
        report_.lean = space_->m.directions() < 3;
        if (spec_.hisq) {
            links = &make_unitary(*links, n_sets > 0, wanted);
            asked_->unchanged(loaded, "gauge links");
            loaded = LinkField(); // its memory
        } else if (halo_ != nullptr) {
            timed([&] { links = &around_.of(*links, std::max(a_.paths.reach(), long_links_reach)); });
        }
        for (int k = 0; k < n_sets; ++k)
            make_set(*links, sets, k, n_sets);
        space_.reset();
        if (n_sets > 1 && !is_derivative(spec_, 1, n_sets) && !is_sent(*fat_0_)) // others are made of it
            asked_->unchanged(*fat_0_, "fat links of the first set");
        const char *const which = spec_.hisq ? "HISQ's W" : "gauge links";
        if (n_sets > 0 && is_used_up(*links))
            asked_->used_up(*links, which);
        else if (!is_sent(*links))
            asked_->unchanged(*links, which);
        if (links != given)
            asked_->unchanged(*given, "gauge links");
        for (const Outgoing &out : outgoing_)
            asked_->unchanged(*out.from, out.what);
        asked_->must_hold();
        for (const Outgoing &out : outgoing_)
            must_be_finite(out);
        fill_rates();
        copy_out();
    }

    // Also in the precision of the host's field.
    void must_be_finite(const Outgoing &out) const {
        const LinkStatistics found = finite_statistics(device_, *out.from, context_.geometry, out.what);
        if (out.to.real == Precision::single && !(found.largest < INFINITY))
            throw Error(
                Status::nan_or_inf,
                format("%s: an element is too large for single precision, the precision of the field that receives it",
                       out.what));
    }

    bool is_sent(const LinkField &field) const {
        return std::any_of(outgoing_.begin(), outgoing_.end(), [&](const Outgoing &out) { return out.from == &field; });
    }
    // The last set may overwrite the links that it is made of.
    bool is_used_up(const LinkField &links) const {
        return (a_.resident == nullptr || &links != &a_.resident->u) && !is_sent(links);
    }

    void fill_rates() {
        const double sites = context_.geometry.volume();
        report_.flops = sites * flops_;
        if (report_.kernel_seconds > 0) {
            report_.gflops = report_.flops / report_.kernel_seconds * 1e-9;
            report_.gbytes_per_second = sites * bytes_ / report_.kernel_seconds * 1e-9;
        }
    }

    // Steps that count in the report's flops and bytes.
    void make_fat(const LinkField &u, const PathCoefficients &paths, const LinkField &fat) {
        fat_links(device_, around_.box(), u, paths, fat, *space_);
        flops_ += fat_links_flops, bytes_ += fat_links_bytes(a_.precision, u.reals());
    }
    void make_long(const LinkField &u, double naik, const LinkField &lng, bool last_use) {
        long_links(device_, around_.box(), u, naik, lng, last_use);
        flops_ += long_links_flops;
    }

    template <class Step> void timed(const Step &step) {
        device_.timer_start();
        step();
        report_.kernel_seconds += device_.timer_stop_seconds();
    }

    LinkField field(Precision p, const char *owner) const { return {device_, p, 18, context_.geometry, owner}; }

    // U for the kernels: checked, with phases, in the precision and reals of the call.
    LinkField gauge_links() {
        LinkField u;
        device_.collective("the loading of a gauge field", [&] {
            u = field(a_.gauge.real, "gauge links");
            u.clear_behind(context_.geometry);
            u.keep_sum();
            links_to_device(device_, a_.gauge, context_.map, context_.geometry, u);
        });
        const Phases phases(context_.geometry);
        LinkStatistics statistics = checked_gauge_field(device_, context_.geometry, u, spec_.unitarity, &phases);
        need_signs(device_, context_.geometry, u, statistics.signs, phases,
                   {spec_.signs ? Signs::phases_out : Signs::phases_in,
                    "spec.signs says which links these are: 0 with phases and boundary sign, 1 without",
                    spec_.signs != 0});
        if (spec_.signs)
            apply_phases(device_, context_.geometry, u);
        report_.reconstruct = 18;
        const int reals = halo_ != nullptr ? 18 : a_.reals; // margins are built for 18
        if (a_.precision == a_.gauge.real && reals == 18)
            return u;
        statistics.mean_norm = 1; // SU(3): no scale
        PackedLinks packed = pack_links(device_, u, statistics, context_.geometry, a_.precision, reals, "gauge links");
        asked_->unchanged(u, "gauge links");
        if (reals == 18 || packed.worst_error <= accepted_error(a_.precision)) {
            report_.reconstruct = reals;
            return std::move(packed.field);
        }
        context_.log(
            1,
            format(
                "gauge links: %d reals in %s precision do not hold these links (worst error %.1e, accepted %.1e); 18 "
                "reals are used",
                reals, name(a_.precision), packed.worst_error, accepted_error(a_.precision)));
        if (a_.precision == a_.gauge.real)
            return u;
        return std::move(pack_links(device_, u, statistics, context_.geometry, a_.precision, 18, "gauge links").field);
    }

    // HISQ: W, by way of V and Y. Returns W with the margin that sets read.
    const LinkField &make_unitary(const LinkField &links, bool for_sets, const milcgpu_hisq_links *wanted) {
        LinkField v, y, made;
        const bool keep_y = wanted != nullptr && wanted->y != nullptr && spec_.special_unitary;
        device_.collective("memory for HISQ links", [&] {
            v = field(a_.precision, "HISQ links"), made = around_.allocate("HISQ links");
            if (keep_y)
                y = field(a_.precision, "HISQ links");
            for (LinkField *one : {&v, &y, &made})
                if (one->bytes() > 0 && (halo_ == nullptr || one != &made)) // with a halo, W's margin is filled below
                    one->clear_behind(context_.geometry), one->keep_sum();
        });
        const LinkField &w = kept(std::move(made));
        const UnitarizeSpec how = unitarize_spec(spec_);
        timed([&] {
            const LinkField &around = around_.of(links, a_.fat7.reach());
            make_fat(around, a_.fat7, v);
            const bool v_is_sent = wanted != nullptr && wanted->v != nullptr, // tested then
                in_trajectory = !v_is_sent && a_.resident != nullptr && a_.resident->momenta_version != 0,
                       last_use = !v_is_sent && !in_trajectory;
            report_.svd_links = unitarize(device_, around_.box(), v, how, keep_y ? &y : nullptr, w, last_use);
            if (last_use)
                asked_->used_up(v, "HISQ's V");
            if (in_trajectory) {
                asked_->unchanged(v, "HISQ's V");
                a_.resident->first_level.keep(std::move(v), a_.fat7, a_.resident->links_version);
            }
            if (halo_ != nullptr && for_sets)
                halo_->fill_margin(w, around_.box(), std::max(a_.paths.reach(), long_links_reach));
        });
        if (wanted == nullptr)
            return w;
        if (wanted->v != nullptr)
            send(kept(std::move(v)), wanted->v, "HISQ's V");
        const LinkField *on_box = &w;
        if (halo_ != nullptr && (wanted->w != nullptr || (wanted->y != nullptr && !keep_y))) {
            device_.collective("memory for HISQ links", [&] { on_box = &kept(field(a_.precision, "HISQ links")); });
            halo_->crop(w, around_.box(), *on_box);
        }
        send(keep_y ? kept(std::move(y)) : *on_box, wanted->y, "HISQ's Y");
        send(*on_box, wanted->w, "HISQ's W");
        return w;
    }

    // fat_k = fat_0 + (eps_k - eps_0) eps_one_link links: one pass of staples for all sets. links: with their margin.
    void make_set(const LinkField &links, const milcgpu_fatlink_set *sets, int k, int n_sets) {
        const milcgpu_fatlink_set &set = sets[k];
        const auto fill = [&](const LinkField &fat, const LinkField &lng) {
            const bool last_use = k == n_sets - 1 && is_used_up(links);
            timed([&] {
                if (is_derivative(spec_, k, n_sets)) {
                    device_.fill_zero(fat.block(0, 0), fat.bytes());
                    add_links(device_, around_.box(), fat, spec_.eps_one_link, links, fat);
                    make_long(links, spec_.eps_naik, lng, last_use);
                    return;
                }
                if (k == 0)
                    make_fat(links, a_.paths, fat);
                const double added = (set.eps - (k > 0 ? sets[0].eps : 0)) * spec_.eps_one_link;
                if (k > 0 || added != 0)
                    add_links(device_, around_.box(), k == 0 ? fat : *fat_0_, added, links, fat);
                make_long(links, a_.paths.naik + set.eps * spec_.eps_naik, lng, last_use);
            });
        };
        LinkPair made;
        if (set.links != nullptr) {
            ResidentLinks &resident = renewed(**set.links, a_.precision);
            resident.update(fill);
            forget_solvers(**set.links);
            made = resident.full();
        } else {
            LinkField own[2];
            device_.collective("memory for fat and long links", [&] {
                for (LinkField &one : own) {
                    one = field(a_.precision, "fat and long links");
                    one.clear_behind(context_.geometry), one.keep_sum();
                }
            });
            made.fat = &kept(std::move(own[0])), made.lng = &kept(std::move(own[1]));
            fill(*made.fat, *made.lng);
        }
        if (k == 0) {
            fat_0_ = made.fat;
            space_.reset(); // room for the other sets
        }
        send(*made.fat, set.fat, "fat links");
        send(*made.lng, set.lng, "long links");
    }

    const LinkField &kept(LinkField &&made) {
        kept_.push_back(std::move(made));
        return kept_.back();
    }

    void send(const LinkField &from, const milcgpu_field *to, const char *what) {
        if (to != nullptr)
            outgoing_.push_back({&from, host_field(to, 72, what), what});
    }

    void copy_out() {
        if (outgoing_.empty())
            return;
        Precision widest = Precision::single;
        for (const Outgoing &field : outgoing_)
            widest = field.to.real == Precision::double_ ? Precision::double_ : widest;
        DeviceArray<unsigned char> scratch;
        device_.collective("memory for a copy of links", [&] {
            scratch = scratch_for_links(device_, widest, context_.geometry.volume());
            device_.prepare_to_host(scratch.bytes());
        });
        device_.collective("the copy of links", [&] {
            for (const Outgoing &field : outgoing_)
                links_to_host(device_, *field.from, context_.map, context_.geometry, field.to, scratch);
        });
    }

    milcgpu_context &context_;
    Device &device_;
    const milcgpu_fatlink_spec &spec_;
    const FatLinkArguments &a_;
    milcgpu_fatlink_report &report_;
    Halo *halo_; // nullptr: the lattice is whole
    WithMargin around_;
    std::unique_ptr<AskedFields> asked_;
    std::unique_ptr<StapleSpace> space_;
    const LinkField *fat_0_ = nullptr; // of the first set; the others need it
    std::list<LinkField> kept_;        // until they are copied out
    std::vector<Outgoing> outgoing_;
    double flops_ = 0, bytes_ = 0; // per site; bytes: of the passes over staples
};

// After a failure every handle is empty: it has neither its former links nor a part of the new ones.
void empty_handles(const milcgpu_fatlink_set *sets, int n_sets, const std::vector<milcgpu_links **> &made_here) {
    for (int k = 0; k < n_sets; ++k)
        if (sets[k].links != nullptr && *sets[k].links != nullptr && (*sets[k].links)->links)
            (*sets[k].links)->links->clear();
    for (milcgpu_links **links : made_here) {
        milcgpu_links_destroy(*links);
        *links = nullptr;
    }
}

void empty_unless_it_holds(AskedFields &asked, milcgpu_links &links) {
    try {
        asked.must_hold();
    } catch (const Error &error) {
        if (error.status() == Status::corrupted)
            emptying(links)();
        throw;
    }
}

// The two entries. handle: the argument that has the context. check(arguments, spec) checks their arguments.
struct MakeCall {
    const char *function, *handle;
    const milcgpu_fatlink_set *sets;
    int n_sets;
    const milcgpu_hisq_links *hisq;
};
template <class Check>
milcgpu_status make_links(milcgpu_context *context, const MakeCall &of, const milcgpu_fatlink_spec *given,
                          milcgpu_fatlink_report *report, const Check &check) {
    const milcgpu_fatlink_set *const sets = of.sets;
    milcgpu_fatlink_report filled{};
    filled.struct_size = sizeof filled;
    std::vector<milcgpu_links **> made_here;
    bool begun = false;
    const milcgpu_status status = guarded(context, of.function, [&] {
        require(context, of.function, of.handle);
        FatLinkArguments a{};
        milcgpu_fatlink_spec spec{};
        same_on_all_ranks(*context, of.function, [&](CallArguments &call) {
            spec = call.copy_of("spec", given);
            require_sizes(report, 1);
            a = check(call, spec);
            for (int k = 0; k < of.n_sets; ++k)
                if (sets[k].links != nullptr && *sets[k].links != nullptr && (*sets[k].links)->context != context)
                    refuse(format("sets[%d].links belongs to another context", k));
            begun = true;
            made_here.reserve(of.n_sets);
            for (int k = 0; k < of.n_sets; ++k)
                if (sets[k].links != nullptr && *sets[k].links == nullptr) {
                    *sets[k].links = new milcgpu_links(context);
                    made_here.push_back(sets[k].links);
                }
        });
        const CallMeter meter(*context->device);
        Maker(*context, spec, a, filled).make(sets, of.n_sets, of.hisq);
        meter.fill(filled);
        context->log(2, [&] {
            return format("%s links, %d set(s), %s: %.3f ms (kernels %.3f ms, %.0f GFLOPS), %llu links by singular "
                          "values",
                          spec.hisq ? "HISQ" : "fat", of.n_sets, name(a.precision), filled.seconds * 1e3,
                          filled.kernel_seconds * 1e3, filled.gflops,
                          static_cast<unsigned long long>(filled.svd_links));
        });
        return Status::ok;
    });
    if (status != MILCGPU_OK && begun)
        empty_handles(sets, of.n_sets, made_here);
    return report_to_caller(status, filled, report);
}

} // namespace

extern "C" {

milcgpu_status milcgpu_links_make(milcgpu_context *context, const milcgpu_fatlink_spec *spec,
                                  const milcgpu_field *gauge, const milcgpu_fatlink_set *sets, int n_sets,
                                  const milcgpu_hisq_links *hisq, milcgpu_fatlink_report *report) {
    const auto check = [&](CallArguments &call, const milcgpu_fatlink_spec &full) {
        const HostField host = host_field(gauge, 72, "gauge field");
        call("the precision of gauge", int(host.real));
        FatLinkArguments a = checked(call, *context, full, host.real, sets, n_sets, hisq);
        a.gauge = host;
        return a;
    };
    return make_links(context, {"milcgpu_links_make", "context", sets, n_sets, hisq}, spec, report, check);
}

milcgpu_status milcgpu_gauge_make_links(milcgpu_gauge *gauge, const milcgpu_fatlink_spec *spec,
                                        const milcgpu_fatlink_set *sets, int n_sets, const milcgpu_hisq_links *hisq,
                                        milcgpu_fatlink_report *report) {
    const auto check = [&](CallArguments &call, const milcgpu_fatlink_spec &full) {
        FatLinkArguments a = checked(call, *gauge->context, full, gauge->precision, sets, n_sets, hisq);
        need_links(*gauge, links_of_d);
        if (a.precision != gauge->precision || a.reals != 18 || full.signs)
            refuse("spec: links of a gauge handle are made in its precision, from 18 reals, with phases in (precision, "
                   "reconstruct and signs 0)");
        a.resident = gauge;
        return a;
    };
    return make_links(gauge != nullptr ? gauge->context : nullptr,
                      {"milcgpu_gauge_make_links", "gauge", sets, n_sets, hisq}, spec, report, check);
}

milcgpu_status milcgpu_links_add(milcgpu_links *a, double factor, milcgpu_links *b, milcgpu_links **to) {
    milcgpu_context *const context = a != nullptr ? a->context : nullptr;
    bool made_here = false, begun = false;
    const milcgpu_status status = guarded(context, "milcgpu_links_add", [&] {
        require(a, "milcgpu_links_add", "a");
        Device &device = *context->device;
        same_on_all_ranks(*context, "a sum of links", [&](CallArguments &call) {
            resident(context, a, "a"), resident(context, b, "b");
            call.given("to", to), call("factor", factor, any_finite);
            if (a->links->host_real() != b->links->host_real())
                refuse("a and b must have the same precision");
            if (*to == a || *to == b || (*to != nullptr && (*to)->context != context))
                refuse("to must be another handle than a and b, of their context");
            made_here = *to == nullptr;
            if (made_here)
                *to = new milcgpu_links(context);
        });
        begun = true;
        AskedFields of_a(device), of_b(device);
        const LinkPair one = a->links->full(), other = b->links->full();
        const auto make = [&](const LinkField &fat, const LinkField &lng) {
            add_links(device, context->geometry, *one.fat, factor, *other.fat, fat);
            add_links(device, context->geometry, *one.lng, factor, *other.lng, lng);
            of_a.unchanged(*one.fat, "a: fat links"), of_a.unchanged(*one.lng, "a: long links");
            of_b.unchanged(*other.fat, "b: fat links"), of_b.unchanged(*other.lng, "b: long links");
        };
        const auto must_hold = [&] {
            empty_unless_it_holds(of_a, *a);
            empty_unless_it_holds(of_b, *b);
        };
        try {
            renewed(**to, a->links->host_real()).update(make);
        } catch (const Error &error) {
            if (error.status() == Status::nan_or_inf) // find out whether a or b has it
                must_hold();
            throw;
        }
        forget_solvers(**to);
        must_hold();
        return Status::ok;
    });
    if (status != MILCGPU_OK && made_here) {
        milcgpu_links_destroy(*to);
        *to = nullptr;
    } else if (status != MILCGPU_OK && begun && (*to)->links) {
        (*to)->links->clear();
    }
    return status;
}

} // extern "C"
