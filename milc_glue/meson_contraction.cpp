// The C interface to contractions: terms are grouped by what is summed over the sites, and put together on the host.
#include "milc_glue/mesons.h"
#include <cmath>

using namespace milcgpu;

namespace {

// A field of numbers to be summed. Local operators share one, of no operator: their signs come with the sums.
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
    require_size(spec.struct_size, sizeof spec, "milcgpu_meson_spec");
    check_origin(links, spec.origin);
    if (spec.n_momenta < 1 || spec.n_terms < 0 || spec.n_correlators < 1)
        refuse(format("spec.n_momenta is %d, n_terms %d, n_correlators %d: at least 1, 0 and 1", spec.n_momenta,
                      spec.n_terms, spec.n_correlators));
    require(spec.momenta, "milcgpu_contract", "spec.momenta");
    if (spec.n_terms > 0)
        require(spec.terms, "milcgpu_contract", "spec.terms");
    Contraction c;
    for (int k = 0; k < spec.n_momenta; ++k) {
        const milcgpu_momentum &given = spec.momenta[k];
        Momentum m{};
        for (int mu = 0; mu < 3; ++mu) {
            if (given.parity[mu] < MILCGPU_ODD || given.parity[mu] > MILCGPU_EVEN_AND_ODD)
                refuse(format("spec.momenta[%d].parity[%c] is %d: must be MILCGPU_ODD (1), MILCGPU_EVEN (2) or "
                              "MILCGPU_EVEN_AND_ODD (3)",
                              k, "XYZ"[mu], given.parity[mu]));
            m.p[mu] = given.p[mu], m.parity[mu] = static_cast<MomentumParity>(given.parity[mu]);
        }
        c.momenta.push_back(m);
    }
    for (int k = 0; k < spec.n_terms; ++k) {
        const milcgpu_meson_term &term = spec.terms[k];
        const SpinTaste op = spin_taste(term.spin_taste);
        if (term.momentum < 0 || term.momentum >= spec.n_momenta || term.correlator < 0 ||
            term.correlator >= spec.n_correlators || term.phase < 0 || term.phase > 3 || !std::isfinite(term.factor))
            refuse(format("spec.terms[%d]: momentum %d of %d, correlator %d of %d, phase %d (0 to 3), factor %g", k,
                          term.momentum, spec.n_momenta, term.correlator, spec.n_correlators, term.phase, term.factor));
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

// One field of numbers, (O src1)^dag src2.
void fill_numbers(milcgpu_meson_links &links, const SummedField &field, const int *origin, const LinkField *fat1,
                  const LinkField *fat2, const FullVectors &src1, const FullVectors &src2, Complex<double> *numbers) {
    using Kind = SpinTaste::Kind;
    SpinTaste op = field.op;
    const auto dot = [&](const Neighbours &what, const Dot &how) {
        dot_neighbours(links.device(), links.geometry(), what, how.made_is_right ? src2 : src1,
                       how.made_is_right ? src1 : src2, how, numbers);
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

// Over the classes of sites, with the signs of a local operator.
Complex<double> signed_sum(const Complex<double> *of_classes, int t, int n_t, const SignPattern &sign) {
    Complex<double> sum = {};
    for (unsigned k = 0; k < SliceSums::classes; ++k) {
        const unsigned coordinates = (k | (t & 1u) << 3) & sign.mask;
        const bool odd = (coordinates ^ coordinates >> 1 ^ coordinates >> 2 ^ coordinates >> 3) & 1;
        const Complex<double> one = of_classes[k * n_t + t];
        sum = odd != sign.negative ? sum - one : sum + one;
    }
    return sum;
}

Complex<double> times_i(Complex<double> z, int phase) {
    return phase == 0   ? z
           : phase == 1 ? Complex<double>{-z.im, z.re}
           : phase == 2 ? -1.0 * z
                        : Complex<double>{z.im, -z.re};
}

} // namespace

milcgpu_status milcgpu_contract(milcgpu_meson_links *links, const milcgpu_meson_spec *spec, milcgpu_links *fat1,
                                milcgpu_links *fat2, int n, const milcgpu_quarks *src1, const milcgpu_quarks *src2,
                                double *correlators) {
    return with_meson_links(links, "milcgpu_contract", [&](milcgpu_meson_links &l) {
        require(spec, "milcgpu_contract", "spec");
        require(correlators, "milcgpu_contract", "correlators");
        const Contraction c = checked(l, *spec);
        const HeldFat held1 = c.fat1 ? fat_links_of(l, fat1, "a backward current (fat1)") : HeldFat(),
                      held2 = c.fat2 ? fat_links_of(l, fat2, "a forward current (fat2)") : HeldFat();
        const Quarks left(l, src1, n, "src1"), right(l, src2, n, "src2");
        Device &device = l.device();
        const int n_t = l.extent(3), n_fields = static_cast<int>(c.fields.size());
        if (n_fields == 0)
            return std::string("contraction without terms");
        const DeviceArray<Complex<double>> numbers(device, l.geometry().volume(), "contraction");
        SliceSums sums(device, l.geometry(), c.momenta, spec->origin, n_fields);
        for (int k = 0; k < n_fields; ++k) {
            fill_numbers(l, c.fields[k], spec->origin, held1.field, held2.field, left.vectors(), right.vectors(),
                         numbers.data());
            sums.sum(k, numbers.data());
        }
        const std::vector<Complex<double>> found = sums.to_host();
        std::vector<Complex<double>> added(size_t(spec->n_correlators) * n_t);
        for (size_t k = 0; k < c.terms.size(); ++k) {
            const milcgpu_meson_term &term = spec->terms[k];
            const Complex<double> *const of_classes =
                &found[(size_t(c.terms[k].field) * spec->n_momenta + term.momentum) * SliceSums::classes * n_t];
            for (int t = 0; t < n_t; ++t) {
                Complex<double> &to = added[size_t(term.correlator) * n_t + t];
                to = to + term.factor * times_i(signed_sum(of_classes, t, n_t, c.terms[k].sign), term.phase);
            }
        }
        for (const Complex<double> &z : added)
            if (!std::isfinite(z.re) || !std::isfinite(z.im))
                throw Error(Status::nan_or_inf, "a correlator is NaN or infinite: look for it in src1, src2 and links");
        for (size_t k = 0; k < added.size(); ++k) {
            correlators[2 * k] += added[k].re;
            correlators[2 * k + 1] += added[k].im;
        }
        return format("%d terms of %d operators, %d momenta, %d fields", spec->n_terms, n_fields, spec->n_momenta, n);
    });
}
