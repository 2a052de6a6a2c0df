// The C interface to baryons: quarks are vectors on the device; every correlator is a sum of tie-ups
// (gpu_kernels/measure/tie_ups.h), with weights on the host.
#include "milc_glue/measure/baryons.h"
#include "gpu_kernels/measure/tie_ups.h"
#include "milc_glue/api/members.h"
#include "milc_glue/measure/gb_operators.h"
#include "milc_glue/measure/meson_links_handle.h"
#include <algorithm>
#include <climits>
#include <map>
#include <optional>
#include <set>

using namespace milcgpu;

namespace {

QuarkColours in_a_row(const milcgpu_vector &first) {
    QuarkColours quark{};
    for (int c = 0; c < 3; ++c)
        quark.colour[c] = {first.of, std::min(first.index, INT_MAX - 2) + c};
    return quark;
}
bool is_row(const QuarkColours &quark) {
    const milcgpu_vector &first = quark.colour[0], &last = quark.colour[2];
    return first.of != nullptr && last.of == first.of && last.index == first.index + 2;
}
std::vector<QuarkColours> in_rows(CallArguments &call, const char *name, const milcgpu_vector *first, int n) {
    call.entries(name, first, n);
    std::vector<QuarkColours> quarks;
    for (int k = 0; k < n; ++k)
        quarks.push_back(in_a_row(first[k]));
    return quarks;
}

// The quarks of a call, each once.
class QuarksOfCall {
  public:
    explicit QuarksOfCall(milcgpu_context &context) : context_(context) {}
    // Returns the place of a quark in the list. Throws if its vectors are empty. colours: a bit for each that is used.
    int place(QuarkColours quark, const std::string &name, unsigned colours = 7) {
        const char *const what = name.c_str();
        TiedQuark tied;
        Key key{};
        for (int c = 0; c < 3; ++c) {
            if ((colours >> c & 1u) == 0)
                continue;
            const milcgpu_vector &v = quark.colour[c];
            require(v.of, what, "`of` of a quark that this call needs");
            if (v.of->context != &context_)
                refuse(format("%s: the vectors belong to another context than the call", what));
            if (is_row(quark))
                need_vectors(*v.of, quark.colour[0].index, 3, what);
            for (const int parity : {0, 1})
                need_content(*v.of, v.index, 1, parity, what);
            const Precision real = v.of->parity[0].precision();
            if (vectors_.empty())
                precision_ = real;
            if (real != precision_)
                refuse(format("%s is in %s precision, the first quark is in %s: they must agree", what,
                              milcgpu::name(real), milcgpu::name(precision_)));
            const FullVectors all = {v.of->parity[0], v.of->parity[1]};
            tied.colour[c] = all.from(v.index).first(1);
            key[c] = {v.of, v.index};
            vectors_.insert(key[c]);
        }
        const auto [at, is_new] = places_.try_emplace(key, static_cast<int>(list_.size()));
        if (is_new)
            list_.push_back(tied);
        return at->second;
    }
    const std::vector<TiedQuark> &list() const { return list_; }
    Precision precision() const { return precision_; }
    // Call it after the last read. Throws if a vector has changed on the device.
    void must_hold() const {
        context_.device->collective("quarks are as they were",
                                    [&] { need_filled(*context_.device, vectors_, "a quark"); });
    }

  private:
    using Vector = std::pair<milcgpu_vectors *, int>;
    using Key = std::array<Vector, 3>;
    milcgpu_context &context_;
    std::map<Key, int> places_;
    std::vector<TiedQuark> list_;
    std::set<Vector> vectors_;
    Precision precision_ = Precision::double_;
};

constexpr int most_octet_quarks = 24;

// Three octets, of which only some corners are needed.
struct Octets {
    int place[most_octet_quarks];
    // needed: a bit for each quark.
    Octets(CallArguments &call, QuarksOfCall &quarks, const std::vector<QuarkColours> &octets, unsigned needed) {
        for (int k = 0; k < most_octet_quarks; ++k) {
            const std::string name =
                format("octets[%d] (corner %d of octet %d)", k, k % cube_corners, k / cube_corners);
            place[k] = (needed >> k & 1u) != 0 ? quarks.place(octets[k], name) : -1;
            call.of_entries.push_back({"which of octets are equal", double(place[k])});
        }
    }
    std::vector<TieUp> tied(const milcgpu_tie_up *list, int n) const {
        std::vector<TieUp> all(n);
        for (int k = 0; k < n; ++k)
            for (int f = 0; f < 3; ++f)
                all[k].quark[f] = place[f * cube_corners + list[k].source[f]], all[k].shift[f] = list[k].sink[f];
        return all;
    }
};

bool moves(const milcgpu_momentum &m) { return m.p[0] != 0 || m.p[1] != 0 || m.p[2] != 0; }

template <class Spec> SliceCorner corner_of(const Spec &spec, int corner) {
    SliceCorner at;
    at.corner = corner, at.one_sided = spec.one_sided != 0;
    if (moves(spec.momentum))
        at.momentum = momenta_of(1, &spec.momentum)[0];
    std::copy(std::begin(spec.origin), std::end(spec.origin), at.origin);
    return at;
}
template <class Spec> void check_momentum(const milcgpu_context &c, const Spec &spec, bool wall) {
    check_origin(c.geometry, spec.origin);
    if (wall && moves(spec.momentum))
        refuse("wall: a wall sink has no momentum: spec.momentum.p must be 0 0 0");
}

// The different tie-ups of a call: E is symmetric in its three quarks, so tie-ups that differ by a permutation are
// equal.
struct DistinctTieUps {
    std::vector<TieUp> list;
    std::vector<int> place_of; // in the list, of each of the call's
    explicit DistinctTieUps(const std::vector<TieUp> &all) {
        std::vector<int> keys;
        for (const TieUp &one : all) {
            int q[3]; // quark and shift
            for (int f = 0; f < 3; ++f)
                q[f] = one.quark[f] * cube_corners + one.shift[f];
            std::sort(std::begin(q), std::end(q));
            keys.push_back((q[0] * 256 + q[1]) * 256 + q[2]);
        }
        std::vector<int> distinct = keys;
        std::sort(distinct.begin(), distinct.end());
        distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
        for (const int key : distinct) {
            const int q[3] = {key >> 16, key >> 8 & 255, key & 255};
            list.push_back({{q[0] / cube_corners, q[1] / cube_corners, q[2] / cube_corners},
                            {q[0] % cube_corners, q[1] % cube_corners, q[2] % cube_corners}});
        }
        for (const int key : keys)
            place_of.push_back(
                static_cast<int>(std::lower_bound(distinct.begin(), distinct.end(), key) - distinct.begin()));
    }
};

// The sums of all ranks, [tie-up][t of the whole lattice].
std::vector<Complex<double>> tie_up_all(milcgpu_context &c, const QuarksOfCall &quarks, const SliceCorner &at,
                                        bool wall, const std::vector<TieUp> &list) {
    Device &device = *c.device;
    std::optional<WideBox> box;
    std::optional<DistinctTieUps> distinct;
    device.collective("memory for tie-ups", [&] {
        distinct.emplace(list);
        if (c.halo)
            box.emplace(device, c.geometry, 1);
        else
            box.emplace(c.geometry);
    });
    auto of_box = wall ? sum_quarks(device, c.halo.get(), *box, quarks.list(), at)
                       : tie_up(device, c.halo.get(), *box, quarks.list(), at, distinct->list);
    const size_t begin = c.geometry.origin()[3], n_t = c.geometry.lattice().extent[3],
                 times = c.geometry.global_extents()[3];
    std::vector<Complex<double>> sums, all;
    if (n_t == times) // on all ranks
        sums = std::move(of_box);
    else
        device.collective("sums of tie-ups", [&] {
            sums.assign(of_box.size() / n_t * times, {});
            for (size_t k = 0; k < of_box.size(); ++k)
                sums[k / n_t * times + begin + k % n_t] = of_box[k];
        });
    sum_over_ranks(device, sums);
    const auto of_walls = [&](const TieUp &one, int f, size_t t) {
        Matrix<double> q;
        for (int i = 0; i < 9; ++i)
            q.e[i / 3][i % 3] = sums[((one.quark[f] * 9 + i) * cube_corners + one.shift[f]) * times + t];
        return q;
    };
    device.collective("sums of tie-ups", [&] {
        all.clear();
        all.reserve(distinct->place_of.size() * times);
        for (const int place : distinct->place_of)
            for (size_t t = 0; t < times; ++t) {
                const TieUp &one = distinct->list[place];
                all.push_back(wall ? tie(of_walls(one, 0, t), of_walls(one, 1, t), of_walls(one, 2, t))
                                   : sums[place * times + t]);
            }
    });
    return all;
}

constexpr const char *made_of = "the quarks";

} // namespace

namespace {

// quarks(call): the three.
template <class Quarks> milcgpu_status nucleon(milcgpu_context *context, const Quarks &quarks, double *correlator) {
    constexpr const char *function = "milcgpu_baryon_nucleon";
    return timed_call(context, function, [&](milcgpu_context &c) {
        QuarksOfCall used(c);
        TieUp colours_in_turn{};
        same_on_all_ranks(c, function, [&](CallArguments &call) {
            call.given("correlator", correlator);
            const std::vector<QuarkColours> three = quarks(call);
            for (int f = 0; f < 3; ++f) { // E of quarks with one colour each is the determinant
                colours_in_turn.quark[f] = used.place(three[f], format("quarks[%d]", f), 1u << f);
                call.of_entries.push_back({"which of quarks are equal", double(colours_in_turn.quark[f])});
            }
        });
        const auto sums = tie_up_all(c, used, {}, false, {colours_in_turn});
        used.must_hold();
        add_finite(sums, made_of, correlator);
        return [] { return std::string("nucleon"); };
    });
}

// quark(call): the quark.
template <class Quark> milcgpu_status delta(milcgpu_context *context, const Quark &quark, double *correlator) {
    constexpr const char *function = "milcgpu_baryon_delta";
    return timed_call(context, function, [&](milcgpu_context &c) {
        QuarksOfCall used(c);
        same_on_all_ranks(c, function, [&](CallArguments &call) {
            call.given("correlator", correlator);
            used.place(quark(call), "quark");
        });
        auto sums = tie_up_all(c, used, {}, false, {{{0, 0, 0}, {1, 2, 4}}});
        used.must_hold();
        for (Complex<double> &z : sums) // D_j = 2 T_j
            z = {8 * z.re, 0 * z.im};
        add_finite(sums, made_of, correlator);
        return [] { return std::string("delta"); };
    });
}

} // namespace

milcgpu_status milcgpu::baryon_nucleon(milcgpu_context *context, const QuarkColours quarks[3], double *correlator) {
    return nucleon(
        context, [&](CallArguments &) { return std::vector<QuarkColours>(quarks, quarks + 3); }, correlator);
}
milcgpu_status milcgpu::baryon_delta(milcgpu_context *context, const QuarkColours &quark, double *correlator) {
    return delta(
        context, [&](CallArguments &) { return quark; }, correlator);
}

extern "C" {

milcgpu_status milcgpu_baryon_nucleon(milcgpu_context *context, const milcgpu_vector quarks[3], double *correlator) {
    return nucleon(
        context, [&](CallArguments &call) { return in_rows(call, "quarks", quarks, 3); }, correlator);
}

milcgpu_status milcgpu_baryon_delta(milcgpu_context *context, milcgpu_vector quark, double *correlator) {
    return delta(
        context, [&](CallArguments &call) { return in_a_row(call.copy_of("quark", &quark)); }, correlator);
}

milcgpu_status milcgpu_octets_tie_up(milcgpu_context *context, const milcgpu_tie_up_spec *given,
                                     const milcgpu_vector *octets, double *numbers) {
    constexpr const char *function = "milcgpu_octets_tie_up";
    return timed_call(context, function, [&](milcgpu_context &c) {
        QuarksOfCall quarks(c);
        milcgpu_tie_up_spec spec{};
        std::vector<TieUp> list;
        same_on_all_ranks(c, function, [&](CallArguments &call) {
            spec = call.copy_of("spec", given);
            check_momentum(c, spec, spec.wall != 0);
            call.given("numbers", numbers);
            unsigned needed = 0;
            for (int k = 0; k < spec.n_list; ++k)
                for (int f = 0; f < 3; ++f)
                    needed |= 1u << (f * cube_corners + spec.list[k].source[f]);
            const Octets all(call, quarks, in_rows(call, "octets", octets, most_octet_quarks), needed);
            list = all.tied(spec.list, spec.n_list);
        });
        const auto sums = tie_up_all(c, quarks, corner_of(spec, spec.corner), spec.wall != 0, list);
        quarks.must_hold();
        add_finite(sums, made_of, numbers);
        return [n = spec.n_list, quarks = quarks.list().size(), p = quarks.precision()] {
            return format("%d tie-ups of %zu quarks, %s", n, quarks, name(p));
        };
    });
}

int milcgpu_gb_operator_index(const char *label) {
    return index_of_label("milcgpu_gb_operator_index", label, [&] { return gb_operator_index(label); });
}

milcgpu_status milcgpu_gb_operator_label(int index, char *label, size_t size) {
    return label_of_index("milcgpu_gb_operator_label", label, size, [&] { return gb_operator_label(index); });
}

} // extern "C"

namespace {

// The tie-ups of a call at one corner of the lattice, and which terms they are part of.
class Group {
  public:
    // Adds weight times a tie-up to correlator[t].
    void add(int correlator, Complex<double> weight, const std::array<int, 3> &source, const std::array<int, 3> &sink) {
        int key = 0;
        milcgpu_tie_up one{};
        for (int f = 0; f < 3; ++f) {
            one.source[f] = source[f], one.sink[f] = sink[f];
            key = key * 64 + 8 * source[f] + sink[f];
        }
        int &place = places_[key];
        if (place < 0) {
            place = static_cast<int>(list_.size());
            list_.push_back(one);
        }
        parts_.push_back({correlator, place, weight});
    }
    unsigned needed() const {
        unsigned bits = 0;
        for (const milcgpu_tie_up &one : list_)
            for (int f = 0; f < 3; ++f)
                bits |= 1u << (f * cube_corners + one.source[f]);
        return bits;
    }
    void take(const Octets &octets) { tied_ = octets.tied(list_.data(), static_cast<int>(list_.size())); }
    const std::vector<TieUp> &tied() const { return tied_; }
    void add_up(const std::vector<Complex<double>> &tied, size_t times,
                std::vector<Complex<double>> &correlators) const {
        for (const Part &part : parts_)
            for (size_t t = 0; t < times; ++t) {
                Complex<double> &to = correlators[part.correlator * times + t];
                to = plus(to, part.weight, tied[part.place * times + t]);
            }
    }
    size_t size() const { return list_.size(); }

  private:
    struct Part {
        int correlator, place;
        Complex<double> weight;
    };
    std::vector<int> places_ = std::vector<int>(64 * 64 * 64, -1); // in the list, of all corners
    std::vector<milcgpu_tie_up> list_;
    std::vector<TieUp> tied_; // the same, of quarks on the device
    std::vector<Part> parts_;
};

using Groups = std::map<std::pair<bool, int>, Group>; // wall or not, corner

// add(corner of the lattice, weight, corners of the source, corners of the sink), for each tie-up of a term.
template <class Add> void walk_term(const milcgpu_gb_spec &spec, const milcgpu_gb_term &term, const Add &add) {
    const bool has_current = spec.current != MILCGPU_TWO_POINT;
    const GbCurrent current = has_current ? gb_current(spec.current) : GbCurrent();
    const int flip = term.flip != 0 ? 7 : 0;
    const auto source = gb_source(term.source, has_current), sink = gb_sink(term.sink, flip, spec.whole_sinks != 0);
    for (int o = 0; o < (term.cube != 0 ? cube_corners : 1); ++o) {
        // The current displaces the source of M1/2, and the sites of the others.
        const int moved = o ^ current.displacement, at_source = is_mixed(term.sink) ? moved : o,
                  corner = (is_mixed(term.sink) ? o : moved) ^ flip;
        const double factor = current.sign(o) * term.factor / 36;
        for (const WeightedCorners &s : source)
            for (const WeightedCorners &k : sink)
                add(corner, times_i(Complex<double>{factor * s.weight * k.weight, 0}, term.phase),
                    std::array<int, 3>{s.corners[0] ^ at_source, s.corners[1] ^ at_source, s.corners[2] ^ at_source},
                    k.corners);
    }
}

// octets(call): 24 quarks.
template <class Given>
milcgpu_status correlate(milcgpu_context *context, const milcgpu_gb_spec *given, const Given &octets,
                         double *correlators, double *flops) {
    constexpr const char *function = "milcgpu_gb_correlate";
    return timed_call(context, function, [&](milcgpu_context &c) {
        QuarksOfCall quarks(c);
        const size_t times = c.geometry.global_extents()[3];
        std::vector<Complex<double>> added;
        milcgpu_gb_spec spec{};
        Groups groups;
        same_on_all_ranks(c, function, [&](CallArguments &call) {
            spec = call.copy_of("spec", given);
            call.given("correlators", correlators);
            if (spec.current != MILCGPU_TWO_POINT)
                gb_current(spec.current);
            groups.clear(); // all ranks may try again
            unsigned needed = 0;
            for (int k = 0; k < spec.n_terms; ++k) {
                const milcgpu_gb_term &term = spec.terms[k];
                check_momentum(c, spec, term.wall != 0);
                for (const auto &[index, name] : {std::pair(term.source, "source"), std::pair(term.sink, "sink")})
                    require_gb_operator(index, format("spec.terms[%d].%s", k, name));
                if (term.correlator >= spec.n_correlators)
                    refuse(format("spec.terms[%d].correlator is %d: must be below spec.n_correlators, %d", k,
                                  term.correlator, spec.n_correlators));
                walk_term(spec, term, [&](int corner, auto weight, const auto &source, const auto &sink) {
                    groups[{term.wall != 0, corner}].add(term.correlator, weight, source, sink);
                });
            }
            for (const auto &[at, group] : groups)
                needed |= group.needed();
            const Octets all(call, quarks, octets(call), needed);
            for (auto &[at, group] : groups)
                group.take(all);
            added.resize(spec.n_correlators * times);
        });
        size_t tie_ups = 0;
        for (const auto &[at, group] : groups) {
            group.add_up(tie_up_all(c, quarks, corner_of(spec, at.second), at.first, group.tied()), times, added);
            tie_ups += group.size();
        }
        quarks.must_hold();
        add_finite(added, made_of, correlators);
        if (flops != nullptr)
            *flops = 360.0 * static_cast<double>(tie_ups) * c.geometry.volume() / cube_corners;
        return [n = spec.n_correlators, tie_ups, p = quarks.precision()] {
            return format("%d correlators of %zu tie-ups, %s", n, tie_ups, name(p));
        };
    });
}

} // namespace

milcgpu_status milcgpu::gb_correlate(milcgpu_context *context, const milcgpu_gb_spec *spec,
                                     const QuarkColours octets[24], double *correlators, double *flops) {
    return correlate(
        context, spec, [&](CallArguments &) { return std::vector<QuarkColours>(octets, octets + most_octet_quarks); },
        correlators, flops);
}

GbCorners milcgpu::corners_of(const milcgpu_gb_spec &spec, const milcgpu_gb_term &term) {
    GbCorners all;
    walk_term(spec, term, [&](int, auto, const std::array<int, 3> &source, const std::array<int, 3> &sink) {
        for (int f = 0; f < 3; ++f)
            all.source[f] |= 1u << source[f], all.sink[f] |= 1u << sink[f];
    });
    return all;
}

extern "C" milcgpu_status milcgpu_gb_correlate(milcgpu_context *context, const milcgpu_gb_spec *spec,
                                               const milcgpu_vector *octets, double *correlators) {
    return correlate(
        context, spec, [&](CallArguments &call) { return in_rows(call, "octets", octets, most_octet_quarks); },
        correlators, nullptr);
}
