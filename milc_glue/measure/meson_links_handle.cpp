// The C interface to gpu_kernels/measure: links of a measurement, shifts, spin-taste operators, smearing.
#include "milc_glue/measure/meson_links_handle.h"
#include "gpu_kernels/fields/asked_fields.h"
#include "gpu_kernels/halo/halo.h"
#include "milc_glue/api/members.h"
#include "milc_glue/links/gauge.h"
#include "milc_glue/links/link_checks.h"
#include "milc_glue/links/links_handle.h"
#include <algorithm>
#include <cmath>
#include <optional>

using namespace milcgpu;

void milcgpu_meson_links::look_at_used() {
    if (!context->verify)
        return;
    const auto look = [&] {
        const std::vector<Region> regions = with_used({});
        const DeviceArray<uint64_t> sums(device(), std::max<size_t>(regions.size(), 1), "checksums");
        device().fill_zero(sums.data(), sums.bytes());
        take_checksums(device(), regions.data(), static_cast<int>(regions.size()), sums.data());
        const std::vector<uint64_t> found = sums.to_host();
        for (size_t k = 0; k < regions.size(); ++k)
            if (found[k] != regions[k].expected)
                throw Error(
                    Status::corrupted,
                    "the device no longer holds the links of the measurement that were loaded, or their "
                    "products: a bit flipped, or other code wrote there. They are gone now: load the links again");
    };
    const auto look_at_fat = [&] {
        for (const auto &[fat, held] : used_fat_) {
            const LinkField &field = *held.pair.fat;
            if (checksum(device(), field.block(0, 0), field.bytes()) == field.checksum)
                continue;
            context->forget(fat);
            fat->links->clear();
            throw Error(Status::corrupted,
                        "the device no longer holds the fat links that were loaded: a bit flipped, or "
                        "other code wrote there. They are gone now: update them and call again");
        }
    };
    try {
        device().collective("the check of links of a measurement", look);
    } catch (const Error &error) {
        if (error.status() == Status::corrupted)
            clear();
        throw;
    }
    device().collective("the check of fat links", look_at_fat);
    device().collective("the check of quark fields", [&] {
        if (fields)
            fields->loaded_must_hold();
    });
}

std::vector<Region> milcgpu_meson_links::with_used(std::vector<Region> regions) const {
    std::vector<Region> used;
    for (const LinkField *field : used_) {
        used.push_back(field->region("links of a measurement"));
        if (field->keeps_sum())
            used.back().expected = 0, used.back().kept = field->kept().sum;
    }
    join(regions, used);
    return regions;
}

const ResidentField &milcgpu_meson_links::on_box() {
    constexpr int hops = 1;
    uses(u);
    if (!on_box_) {
        ResidentField::Held given(ResidentField::Held(), &u);
        if (halo() != nullptr) {
            std::shared_ptr<LinkField> made;
            device().collective("memory for gauge links", [&] {
                made = std::make_shared<LinkField>(device(), precision, 18, geometry(), "gauge links");
                made->clear(); // padding counts in checksums
            });
            halo()->crop(u, box, *made);
            halo()->exchange_backward(*made, hops);
            device().collective("a checksum of gauge links", [&] { made->checksum = made->sum_of_content(); });
            given = made;
        }
        const auto made =
            std::make_shared<ResidentField>(device(), geometry(), "gauge links", context->warn(), hops, halo());
        made->hold(given, statistics);
        on_box_ = made;
    }
    uses(on_box_->as_given());
    return *on_box_;
}

ResidentField::Held milcgpu_meson_links::version(OperatorSpec &spec) {
    const ResidentField::Held held = on_box_->version(spec.link, spec.reals);
    spec.reals = held->reals();
    uses(*held);
    return held;
}

size_t milcgpu_meson_links::bytes_on_box() const {
    return halo() != nullptr ? Device::allocated_bytes(LinkField::bytes_of(precision, 18, geometry())) : 0;
}

void milcgpu::check_origin(const Geometry &geometry, const int *origin, int directions) {
    for (int mu = 0; mu < directions; ++mu)
        if (origin[mu] < 0 || origin[mu] >= geometry.global_extents()[mu])
            refuse(format("origin[%c] is %d: must be from 0 to %d", "XYZT"[mu], origin[mu],
                          geometry.global_extents()[mu] - 1));
}

void milcgpu::check_fat_links(milcgpu_meson_links &links, milcgpu_links *fat, const char *label) {
    if (fat == nullptr)
        refuse(format("%s takes fat links, which are NULL", label));
    resident(links.context, fat); // refuses an empty handle, and another context's
}

HeldFat milcgpu::fat_links_of(milcgpu_meson_links &links, milcgpu_links *fat) {
    HeldFat fetched{fat->links->held_version(links.precision, 18), {}};
    links.uses(fat, fetched.held);
    if (links.halo() == nullptr)
        return fetched;
    links.device().collective("memory for fat links with a margin",
                              [&] { fetched.around = links.links_on(links.box.wide()); });
    const LinkField &field = *fetched.held.pair.fat;
    links.halo()->extend(field, links.box, 1, fetched.around);
    fetched.around.scale = field.scale;
    return fetched;
}

Neighbours milcgpu::neighbours_of(milcgpu_meson_links &links, const SpinTaste &op, const int *origin,
                                  const LinkField *fat) {
    Neighbours what;
    what.sign = signs_of(op, origin);
    const unsigned directions = op.directions();
    if (directions == 0) {
        what.self = 1;
        return what;
    }
    what.steps = corner_steps(directions);
    what.t_sign = op.fat ? -1 : links.t_sign(origin);
    if (what.steps.size() > 1) {
        what.links = &links.products.corners(directions);
        what.neighbours = 0.5 / static_cast<double>(what.steps.size());
    } else {
        const bool general = op.kind == SpinTaste::Kind::general;
        what.links = op.fat ? fat : &links.u;
        while ((directions >> what.first_slot & 1) == 0)
            ++what.first_slot;
        what.neighbours = general ? 0.5 : 1;
        what.ahead = general || op.kind == SpinTaste::Kind::forward;
        what.behind = general || op.kind == SpinTaste::Kind::backward;
    }
    if (!op.fat)
        links.uses(*what.links);
    return what;
}

namespace {

// Scratch fields for results that replace the fields themselves. They begin as a copy if some slices must stay as they
// are.
struct Scratch {
    SpinorField even, odd;
    Scratch() = default;
    Scratch(milcgpu_meson_links &links, const Quarks &quarks, bool copy)
        : even(quarks.allocate(0, "room for smearing")), odd(quarks.allocate(1, "room for smearing")) {
        if (!copy)
            return;
        const FullVectors &from = quarks.vectors();
        for (int k = 0; k < from.sources(); ++k) {
            const size_t bytes = even.stride() * spinor_bytes(links.precision);
            links.device().copy_on_device(even[k].data, from.even[k].data, bytes);
            links.device().copy_on_device(odd[k].data, from.odd[k].data, bytes);
        }
    }
    FullVectors vectors() const { return {even, odd}; }
};

const LinkField &links_in_space(milcgpu_meson_links &links, int hop) {
    return links.uses(hop == 2 ? links.products.two_links() : links.u);
}

// Checks an origin among the arguments of a call; nullptr: none.
void look_at_origin(CallArguments &call, const milcgpu_meson_links &links, const int *origin) {
    static const int none[4] = {-1, -1, -1, -1};
    if (origin != nullptr)
        check_origin(links.geometry(), origin);
    Name name("origin");
    for (int &mu = name.index[0] = 0; mu < 4; ++mu)
        call(name, (origin != nullptr ? origin : none)[mu]);
}

// Quark fields that a call reads, and those that it writes. look(arguments): checks the other arguments.
struct ReadAndMade {
    std::optional<Quarks> read, made;
    ReadAndMade(milcgpu_meson_links &links, const char *function, const std::function<void(CallArguments &)> &look,
                int n, const milcgpu_quarks *from, const milcgpu_quarks *to) {
        same_on_all_ranks(*links.context, function, [&](CallArguments &call) {
            look(call);
            call("n", n, from_to(1, 1000));
            read.emplace(call, links, from, n, "from");
            made.emplace(call, links, to, *read, "to");
        });
        made->begin();
    }
    void apply(milcgpu_meson_links &links, const Neighbours &what) {
        const AroundVectors around(links.device(), links.halo(), links.box, read->vectors(),
                                   margin_of(what, links.geometry()));
        sum_neighbours(links.device(), links.box, what, around.vectors(), made->vectors());
        made->deliver();
    }
};

// Quark fields that a call changes in place, on one slice or on all.
struct InPlace {
    std::optional<Quarks> fields;
    InPlace(milcgpu_meson_links &links, const char *function, int hop, int slice,
            const std::function<void(CallArguments &)> &look, int n, const milcgpu_quarks *quarks) {
        same_on_all_ranks(*links.context, function, [&](CallArguments &call) {
            need_links(links);
            call("hop", hop, from_to(1, 2, "2 (two links, staggered quarks) or 1"));
            call("slice", slice, from_to(-1, links.extent(3) - 1));
            look(call);
            call("n", n, from_to(1, 1000));
            fields.emplace(call, links, quarks, n, "quarks", true);
        });
    }
    Scratch allocate(milcgpu_meson_links &links, bool copy) const {
        Scratch made;
        links.device().collective("room for smearing", [&] { made = Scratch(links, *fields, copy); });
        return made;
    }
};

// The two ways to load links. look(arguments): checks the source of the links. fill(bare): writes the links. begin():
// called once this handle is empty.
template <class Look, class Fill>
milcgpu_status load_links(milcgpu_meson_links *links, const char *function, const milcgpu_meson_links_spec *spec,
                          const Look &look, const Fill &fill, const std::function<void()> &begin) {
    return guarded(links != nullptr ? links->context : nullptr, function, [&] {
        require(links, function, "links");
        Device &device = links->device();
        const Geometry &geometry = links->geometry();
        milcgpu_meson_links_spec full{};
        same_on_all_ranks(*links->context, function, [&](CallArguments &call) {
            full = call.copy_of("spec", spec, [](milcgpu_meson_links_spec &given) {
                if (given.signs != MILCGPU_SIGNS_IN)
                    std::fill_n(given.origin, 4, 0); // the caller's is not read
            });
            check_origin(geometry, full.origin);
            const Precision real = look(call);
            if (real != links->precision)
                refuse(format("the links are in %s precision, the handle is in %s: they must agree", name(real),
                              name(links->precision)));
        });
        links->clear();
        begin();
        LinkField on_box;
        LinkField &bare = links->halo() != nullptr ? on_box : links->u;
        device.collective(function, [&] {
            if (links->halo() != nullptr)
                on_box = links->links_on(geometry);
            bare.clear_behind(geometry);
            bare.keep_sum();
            fill(bare);
        });
        const bool signs_in = full.signs == MILCGPU_SIGNS_IN;
        const Phases phases = signs_in ? Phases(geometry).relative_to(full.origin) : Phases(geometry);
        links->statistics = checked_gauge_field(device, geometry, bare, -1, &phases);
        if (full.signs != MILCGPU_SIGNS_AS_THEY_ARE)
            need_signs(device, geometry, bare, links->statistics.signs, phases,
                       {signs_in ? Signs::phases_in : Signs::phases_out,
                        "spec.signs says which links these are: 0 with phases relative to spec.origin, 1 without, "
                        "2 as they are"});
        links->antiperiodic = full.antiperiodic != 0;
        if (signs_in)
            turn_links(device, geometry,
                       {phases_of(0, full.origin), phases_of(1, full.origin), phases_of(2, full.origin),
                        phases_of(3, full.origin)},
                       links->t_sign(full.origin), bare);
        if (links->halo() != nullptr) {
            AskedFields asked(device);
            links->halo()->extend(on_box, links->box, neighbours_margin, links->u);
            asked.unchanged(on_box, "links");
            asked.must_hold();
        }
        if (links->context->verify)
            device.collective(function, [&] { links->u.checksum = links->u.sum_of_content(); });
        links->uses_nothing();
        links->uses(links->u);
        links->look_at_used();
        device.collective(function, [&] { device.synchronize(); });
        links->loaded = true;
        return Status::ok;
    });
}

} // namespace

int milcgpu::index_of_label(const char *function, const char *label, const std::function<int()> &find) {
    int index = -1;
    guarded(nullptr, function, [&] {
        require(label, function, "label");
        index = find();
        return Status::ok;
    });
    return index;
}

milcgpu_status milcgpu::label_of_index(const char *function, char *label, size_t size,
                                       const std::function<std::string()> &name) {
    return guarded(nullptr, function, [&] {
        require(label, function, "label");
        const std::string text = name();
        if (text.size() >= size)
            refuse(format("the label %s needs %zu characters, there are %zu", text.c_str(), text.size() + 1, size));
        std::copy(text.c_str(), text.c_str() + text.size() + 1, label);
        return Status::ok;
    });
}

extern "C" {

milcgpu_status milcgpu_meson_links_create(milcgpu_context *context, int precision, milcgpu_meson_links **links) {
    return make_handle(context, "milcgpu_meson_links_create", "links", precision, "links of a measurement", links);
}

void milcgpu_meson_links_destroy(milcgpu_meson_links *links) {
    if (links != nullptr && may_end(*links->context, "milcgpu_meson_links_destroy"))
        delete links;
}

milcgpu_status milcgpu_meson_links_load(milcgpu_meson_links *links, const milcgpu_meson_links_spec *spec,
                                        const milcgpu_field *field) {
    HostField host{};
    const auto look = [&](CallArguments &) {
        host = host_field(field, 72, "field");
        return host.real;
    };
    const auto fill = [&](LinkField &bare) {
        links_to_device(links->device(), host, links->context->map, links->geometry(), bare);
    };
    return load_links(links, "milcgpu_meson_links_load", spec, look, fill, [] {});
}

milcgpu_status milcgpu_meson_links_load_gauge(milcgpu_meson_links *links, const milcgpu_meson_links_spec *spec,
                                              milcgpu_gauge *gauge) {
    const auto look = [&](CallArguments &call) {
        call.given("gauge", gauge);
        if (gauge->context != links->context)
            refuse("gauge: a handle of another context than that of links");
        if (gauge->links_version == 0)
            refuse(no_links);
        return gauge->precision;
    };
    return load_links(
        links, "milcgpu_meson_links_load_gauge", spec, look, [&](LinkField &bare) { bare.copy(gauge->u); },
        [&] { need_links(*gauge); });
}

milcgpu_status milcgpu_quarks_shift(milcgpu_meson_links *links, int dir, int way, const int origin[4], int n,
                                    const milcgpu_quarks *from, const milcgpu_quarks *to) {
    constexpr const char *function = "milcgpu_quarks_shift";
    return with_meson_links(links, function, [&](milcgpu_meson_links &l) {
        const auto look = [&](CallArguments &call) {
            need_links(l);
            call("dir", dir, from_to(0, 3, "from 0 (X) to 3 (T)"));
            call("way", way, from_to(MILCGPU_FORWARD, MILCGPU_SYMMETRIC, "from 0 (forward) to 2 (symmetric)"));
            look_at_origin(call, l, origin);
        };
        ReadAndMade quarks(l, function, look, n, from, to);
        Neighbours what;
        what.links = &l.uses(l.u), what.first_slot = dir;
        what.steps = corner_steps(1u << dir);
        what.ahead = way != MILCGPU_BACKWARD, what.behind = way != MILCGPU_FORWARD;
        what.neighbours = way == MILCGPU_SYMMETRIC ? 0.5 : 1;
        if (origin != nullptr)
            what.sign = phases_of(dir, origin), what.t_sign = l.t_sign(origin);
        quarks.apply(l, what);
        return [n] { return format("shift of %d fields", n); };
    });
}

int milcgpu_spin_taste_index(const char *label) {
    return index_of_label("milcgpu_spin_taste_index", label, [&] { return spin_taste_index(label); });
}

milcgpu_status milcgpu_spin_taste_label(int index, char *label, size_t size) {
    return label_of_index("milcgpu_spin_taste_label", label, size, [&] { return spin_taste_label(index); });
}

milcgpu_status milcgpu_quarks_spin_taste(milcgpu_meson_links *links, milcgpu_links *fat, int index, const int origin[4],
                                         int n, const milcgpu_quarks *from, const milcgpu_quarks *to) {
    constexpr const char *function = "milcgpu_quarks_spin_taste";
    return with_meson_links(links, function, [&](milcgpu_meson_links &l) {
        SpinTaste op;
        std::string label;
        const auto look = [&](CallArguments &call) {
            op = spin_taste(index);
            if (op.directions() != 0)
                need_links(l);
            label = spin_taste_label(index);
            if (op.kind == SpinTaste::Kind::pair)
                refuse(format(
                    "%s is an operator of two fields: milcgpu_quarks_contract takes it. Its halves are the forward "
                    "and the backward one, as rhoxsffn and rhoxsbfn",
                    label.c_str()));
            call("spin_taste", index), call.given("origin", origin);
            look_at_origin(call, l, origin);
            if (op.fat)
                check_fat_links(l, fat, label.c_str());
        };
        ReadAndMade quarks(l, function, look, n, from, to);
        const HeldFat held = op.fat ? fat_links_of(l, fat) : HeldFat();
        quarks.apply(l, neighbours_of(l, op, origin, held.field()));
        return [label, n] { return format("%s of %d fields", label.c_str(), n); };
    });
}

milcgpu_status milcgpu_quarks_gauss_smear(milcgpu_meson_links *links, int hop, double width, int steps, int slice,
                                          int n, const milcgpu_quarks *quarks) {
    constexpr const char *function = "milcgpu_quarks_gauss_smear";
    return with_meson_links(links, function, [&](milcgpu_meson_links &l) {
        const auto look = [&](CallArguments &call) {
            call("width", width, at_least(0)), call("steps", steps, at_least(0));
        };
        InPlace in_place(l, function, hop, slice, look, n, quarks);
        Quarks &fields = *in_place.fields;
        if (steps > 0) {
            links_in_space(l, hop);
            fields.changes();
            const Scratch scratch = l.halo() == nullptr ? in_place.allocate(l, slice >= 0) : Scratch();
            const bool in_scratch = smear(l.device(), l.halo(), l.box, l.products, l.u, {hop, width, steps, slice},
                                          fields.vectors(), scratch.vectors());
            fields.deliver(in_scratch ? scratch.vectors() : fields.vectors());
        }
        return [steps, n] { return format("%d steps of smearing of %d fields", steps, n); };
    });
}

milcgpu_status milcgpu_quarks_laplacian(milcgpu_meson_links *links, int hop, int slice, int n,
                                        const milcgpu_quarks *quarks) {
    constexpr const char *function = "milcgpu_quarks_laplacian";
    return with_meson_links(links, function, [&](milcgpu_meson_links &l) {
        InPlace in_place(
            l, function, hop, slice, [](CallArguments &) {}, n, quarks);
        Quarks &fields = *in_place.fields;
        links_in_space(l, hop);
        const Scratch scratch = in_place.allocate(l, slice >= 0);
        const Neighbours what = in_space(l.products, l.u, hop, 6, -1, slice);
        const AroundVectors around(l.device(), l.halo(), l.box, fields.vectors(), margin_of(what, l.geometry()));
        sum_neighbours(l.device(), l.box, what, around.vectors(), scratch.vectors());
        fields.deliver(scratch.vectors());
        return [n] { return format("Laplacian of %d fields", n); };
    });
}

} // extern "C"
