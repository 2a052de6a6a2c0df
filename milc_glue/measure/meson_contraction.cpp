// The C interface to contractions. Terms are grouped by the sum over sites that they need, and combined on the host.
#include "milc_glue/api/members.h"
#include "milc_glue/measure/meson_links_handle.h"
#include <algorithm>
#include <cmath>
#include <optional>

using namespace milcgpu;

std::vector<Momentum> milcgpu::momenta_of(int n, const milcgpu_momentum *given) {
    std::vector<Momentum> momenta(n);
    for (int k = 0; k < n; ++k)
        for (int mu = 0; mu < 3; ++mu)
            momenta[k].p[mu] = given[k].p[mu], momenta[k].parity[mu] = static_cast<MomentumParity>(given[k].parity[mu]);
    return momenta;
}

void milcgpu::sum_over_ranks(Device &device, std::vector<Complex<double>> &added) {
    constexpr size_t most = size_t(1) << 24; // complex numbers: twice as many fit in an int
    for (size_t first = 0; first < added.size(); first += most)
        device.add_over_ranks(&added[first].re, static_cast<int>(2 * std::min(most, added.size() - first)));
}

void milcgpu::add_finite(const std::vector<Complex<double>> &added, const char *made_of, double *correlators) {
    for (const Complex<double> &z : added)
        if (!std::isfinite(z.re) || !std::isfinite(z.im))
            throw Error(Status::nan_or_inf, format("a correlator is NaN or infinite: check %s", made_of));
    for (size_t k = 0; k < added.size(); ++k) {
        correlators[2 * k] += added[k].re;
        correlators[2 * k + 1] += added[k].im;
    }
}

void milcgpu::add_correlators(Device &device, std::vector<Complex<double>> &added, const char *made_of,
                              double *correlators) {
    sum_over_ranks(device, added);
    add_finite(added, made_of, correlators);
}

namespace {

// A field of numbers to be summed. Local operators share one field without an operator; the sums apply their signs.
struct SummedField {
    int spin_taste; // -1: no operator
    SpinTaste op;
};

struct Term {
    int field;
    SignPattern sign; // of a local operator
};

struct Contraction {
    std::vector<Momentum> momenta;
    std::vector<SummedField> fields;
    std::vector<Term> terms;
    bool fat1 = false, fat2 = false;
};

Contraction checked(const milcgpu_meson_links &links, const milcgpu_meson_spec &spec) {
    check_origin(links.geometry(), spec.origin);
    Contraction c;
    c.momenta = momenta_of(spec.n_momenta, spec.momenta);
    for (int k = 0; k < spec.n_terms; ++k) {
        const milcgpu_meson_term &term = spec.terms[k];
        check_term(term, k, spec);
        const SpinTaste op = spin_taste(term.spin_taste);
        const bool local = op.directions() == 0;
        if (!local)
            need_links(links);
        const int wanted = local ? -1 : term.spin_taste;
        size_t field = 0;
        while (field < c.fields.size() && c.fields[field].spin_taste != wanted)
            ++field;
        if (field == c.fields.size())
            c.fields.push_back({wanted, op});
        c.terms.push_back({static_cast<int>(field), local ? signs_of(op, spec.origin) : SignPattern()});
        c.fat1 = c.fat1 || (op.fat && op.kind != SpinTaste::Kind::forward);
        c.fat2 = c.fat2 || (op.fat && op.kind != SpinTaste::Kind::backward);
    }
    return c;
}

// One of the two sets of fields, with a margin once an operator needs it.
class Source {
  public:
    Source(milcgpu_meson_links &links, const FullVectors &on_box) : links_(links), on_box_(on_box) {}
    const FullVectors &on_box() const { return on_box_; }
    const FullVectors &around(const Neighbours &what) {
        if (what.steps.empty())
            return on_box_;
        if (!around_)
            around_.emplace(links_.device(), links_.halo(), links_.box, on_box_, MarginPart{{1, 1, 1, 1}, true});
        return around_->vectors();
    }

  private:
    milcgpu_meson_links &links_;
    const FullVectors &on_box_;
    std::optional<AroundVectors> around_;
};

// One field of numbers, (O src1)^dag src2.
void fill_numbers(milcgpu_meson_links &links, const SummedField &field, const int *origin, const LinkField *fat1,
                  const LinkField *fat2, Source &src1, Source &src2, Complex<double> *numbers) {
    using Kind = SpinTaste::Kind;
    SpinTaste op = field.op;
    const auto dot = [&](const Neighbours &what, const Dot &how) {
        dot_neighbours(links.device(), links.box, what, (how.made_is_right ? src2 : src1).around(what),
                       (how.made_is_right ? src1 : src2).on_box(), how, numbers);
    };
    if (field.spin_taste < 0) {
        Neighbours as_it_is;
        as_it_is.self = 1;
        return dot(as_it_is, {});
    }
    const Kind kind = op.kind;
    const double factor = kind == Kind::pair ? 0.5 : 1;
    if (kind != Kind::forward) {
        op.kind = kind == Kind::pair ? Kind::backward : kind;
        dot(neighbours_of(links, op, origin, fat1), {false, false, factor});
    }
    if (kind == Kind::forward || kind == Kind::pair) {
        op.kind = Kind::forward;
        dot(neighbours_of(links, op, origin, fat2), {true, kind == Kind::pair, factor});
    }
}

// The sum over the classes of sites with the signs of a local operator. of_classes: sums of time slice t, each n_t
// behind the one before.
Complex<double> signed_sum(const Complex<double> *of_classes, int t, int n_t, const SignPattern &sign) {
    Complex<double> sum = {};
    for (unsigned k = 0; k < SliceSums::classes; ++k) {
        const unsigned coordinates = (k | (t & 1u) << 3) & sign.mask;
        const bool odd = (coordinates ^ coordinates >> 1 ^ coordinates >> 2 ^ coordinates >> 3) & 1;
        const Complex<double> one = of_classes[k * n_t];
        sum = odd != sign.negative ? sum - one : sum + one;
    }
    return sum;
}

} // namespace

milcgpu_status milcgpu_quarks_contract(milcgpu_meson_links *links, const milcgpu_meson_spec *given, milcgpu_links *fat1,
                                       milcgpu_links *fat2, int n, const milcgpu_quarks *src1,
                                       const milcgpu_quarks *src2, double *correlators) {
    return with_meson_links(links, "milcgpu_quarks_contract", [&](milcgpu_meson_links &l) {
        constexpr const char *function = "milcgpu_quarks_contract";
        Contraction c;
        milcgpu_meson_spec spec{};
        std::optional<Quarks> left, right;
        same_on_all_ranks(*l.context, function, [&](CallArguments &call) {
            spec = call.copy_of("spec", given);
            c = checked(l, spec);
            call.given("correlators", correlators);
            if (c.fat1)
                check_fat_links(l, fat1, "a backward current (fat1)");
            if (c.fat2)
                check_fat_links(l, fat2, "a forward current (fat2)");
            call("n", n, from_to(1, 1000));
            left.emplace(call, l, src1, n, "src1"), right.emplace(call, l, src2, n, "src2");
        });
        const HeldFat held1 = c.fat1 ? fat_links_of(l, fat1) : HeldFat(),
                      held2 = c.fat2 ? fat_links_of(l, fat2) : HeldFat();
        Device &device = l.device();
        const int n_fields = static_cast<int>(c.fields.size());
        const auto text = [n_terms = spec.n_terms, n_momenta = spec.n_momenta, n_fields, n] {
            return format("%d terms of %d operators, %d momenta, %d fields", n_terms, n_fields, n_momenta, n);
        };
        if (n_fields == 0)
            return text;
        DeviceArray<Complex<double>> numbers;
        std::optional<SliceSums> sums;
        device.collective("memory for a contraction", [&] {
            numbers = {device, static_cast<size_t>(l.geometry().volume()), "contraction"};
            sums.emplace(device, l.geometry(), c.momenta, spec.origin, n_fields);
        });
        Source first(l, left->vectors()), second(l, right->vectors());
        for (int k = 0; k < n_fields; ++k) {
            fill_numbers(l, c.fields[k], spec.origin, held1.field(), held2.field(), first, second, numbers.data());
            sums->sum(k, numbers.data());
        }
        std::vector<Complex<double>> found;
        device.collective("sums over time slices", [&] { found = sums->to_host(); });
        // Sums of the box, then of all boxes.
        const int n_t = l.geometry().lattice().extent[3], begin = l.geometry().origin()[3];
        std::vector<Complex<double>> added(size_t(spec.n_correlators) * l.extent(3));
        for (size_t k = 0; k < c.terms.size(); ++k) {
            const milcgpu_meson_term &term = spec.terms[k];
            const Complex<double> *const of_classes =
                &found[(size_t(c.terms[k].field) * spec.n_momenta + term.momentum) * SliceSums::classes * n_t];
            for (int t = 0; t < n_t; ++t) {
                Complex<double> &to = added[size_t(term.correlator) * l.extent(3) + begin + t];
                to =
                    to + term.factor * times_i(signed_sum(of_classes + t, begin + t, n_t, c.terms[k].sign), term.phase);
            }
        }
        l.look_at_used();
        add_correlators(device, added, "src1, src2 and links", correlators);
        return text;
    });
}
