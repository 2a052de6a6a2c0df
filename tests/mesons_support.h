// What the tests of measurements share: links and fields as MILC would hold them, calls with them, and sets of
// correlators with what the reference makes of them.
#pragma once
#include "milc_glue/api/milcgpu_mesons.h"
#include "tests/reference/mesons.h"
#include "tests/support.h"
#include <algorithm>

namespace tests {

using milcgpu::Backend;
using reference::Fermion;
using reference::Gauge;
using reference::Lattice;
using reference::Origin;
using reference::ShiftWay;

inline const Lattice small{{2, 4, 4, 6}};
inline const Lattice shapes[] = {Lattice{{4, 6, 10, 4}}, Lattice{{2, 4, 4, 8}}, Lattice{{6, 2, 4, 2}}};
inline const Origin origins[] = {{0, 0, 0, 0}, {1, 0, 3, 5}};

// Links of a measurement on a lattice, and fields as MILC would hold them.
template <class Real> struct Measurement {
    Session<Real> session;
    milcgpu_meson_links *links = nullptr;
    Gauge u; // as rounded to Real

    Measurement(const Lattice &lattice, Backend backend, const Gauge &gauge, bool antiperiodic = true, int block = 0)
        : session(lattice, backend, block, 0) {
        REQUIRE(milcgpu_meson_links_create(session.context, Session<Real>::precision, &links) == MILCGPU_OK);
        must(load(gauge, antiperiodic));
    }
    ~Measurement() { milcgpu_meson_links_destroy(links); }
    const Lattice &lattice() const { return session.lattice; }
    milcgpu_status load(const Gauge &gauge, bool antiperiodic) {
        auto host = reference::links_to_milc<Real>(lattice(), gauge);
        u = reference::links_from_milc<Real>(lattice(), host);
        const milcgpu_field field = Session<Real>::field(host);
        const milcgpu_meson_links_spec spec{sizeof spec, antiperiodic, MILCGPU_SIGNS_OUT, {}};
        return milcgpu_meson_links_load(links, &spec, &field);
    }
    void must(milcgpu_status status) const {
        CAPTURE(milcgpu_last_error());
        REQUIRE(status == MILCGPU_OK);
    }
    Fermion rounded(const Fermion &field) const {
        return reference::vector_from_milc<Real>(lattice(), reference::vector_to_milc<Real>(lattice(), field));
    }

    // What `call` makes of n fields: call(n, from, to).
    template <class Call> std::vector<std::vector<Real>> apply(const std::vector<Fermion> &fields, const Call &call) {
        std::vector<std::vector<Real>> in, out;
        std::vector<milcgpu_field> from, to;
        for (const Fermion &field : fields) {
            in.push_back(reference::vector_to_milc<Real>(lattice(), field));
            out.emplace_back(in.back().size(), Real(-7));
        }
        for (size_t k = 0; k < fields.size(); ++k) {
            from.push_back(Session<Real>::field(in[k]));
            to.push_back(Session<Real>::field(out[k]));
        }
        const milcgpu_quarks source{from.data(), nullptr, 0}, made{to.data(), nullptr, 0};
        must(call(int(fields.size()), &source, &made));
        return out;
    }
    template <class Call> Fermion apply(const Fermion &field, const Call &call) {
        return reference::vector_from_milc<Real>(lattice(), apply(std::vector<Fermion>{field}, call)[0]);
    }
    Fermion shift(int dir, int way, const int *origin, const Fermion &field) {
        return apply(field, [&](int n, const milcgpu_quarks *from, const milcgpu_quarks *to) {
            return milcgpu_quarks_shift(links, dir, way, origin, n, from, to);
        });
    }
    Fermion spin_taste(int index, const Origin &origin, const Fermion &field, milcgpu_links *fat = nullptr) {
        return apply(field, [&](int n, const milcgpu_quarks *from, const milcgpu_quarks *to) {
            return milcgpu_quarks_spin_taste(links, fat, index, origin.data(), n, from, to);
        });
    }
    // call(n, quarks), in place
    template <class Call> Fermion in_place(const Fermion &field, const Call &call) {
        auto host = reference::vector_to_milc<Real>(lattice(), field);
        const milcgpu_field of_host = Session<Real>::field(host);
        const milcgpu_quarks quarks{&of_host, nullptr, 0};
        must(call(1, &quarks));
        return reference::vector_from_milc<Real>(lattice(), host);
    }
    Fermion smear(int hop, double width, int steps, int slice, const Fermion &field) {
        return in_place(field, [&](int n, const milcgpu_quarks *quarks) {
            return milcgpu_quarks_gauss_smear(links, hop, width, steps, slice, n, quarks);
        });
    }
    Fermion laplacian(int hop, int slice, const Fermion &field) {
        return in_place(field, [&](int n, const milcgpu_quarks *quarks) {
            return milcgpu_quarks_laplacian(links, hop, slice, n, quarks);
        });
    }
    std::vector<reference::Complex> contract(const milcgpu_meson_spec &spec, const std::vector<Fermion> &a,
                                             const std::vector<Fermion> &b, milcgpu_links *fat = nullptr) {
        std::vector<std::vector<Real>> fields[2];
        std::vector<milcgpu_field> host[2];
        for (const int k : {0, 1}) {
            for (const Fermion &field : k == 0 ? a : b)
                fields[k].push_back(reference::vector_to_milc<Real>(lattice(), field));
            for (auto &field : fields[k])
                host[k].push_back(Session<Real>::field(field));
        }
        const milcgpu_quarks left{host[0].data(), nullptr, 0}, right{host[1].data(), nullptr, 0};
        std::vector<reference::Complex> sums(size_t(spec.n_correlators) * lattice().n[3], {0.5, -2});
        must(milcgpu_quarks_contract(links, &spec, fat, fat, int(a.size()), &left, &right,
                                     reinterpret_cast<double *>(sums.data())));
        for (auto &z : sums)
            z -= reference::Complex(0.5, -2); // it is added to
        return sums;
    }
};

constexpr const char *gammas[16] = {"GX",  "GY",  "GZ",  "GT",  "G5",  "GYZ", "GZX", "GXY",
                                    "GXT", "GYT", "GZT", "G5X", "G5Y", "G5Z", "G5T", "G1"};

// The directions that a label of a gamma matrix names: products of different ones, G5 is that of all.
unsigned bits_of(const std::string &gamma);

Gauge links_for(const Lattice &lattice, unsigned long seed);

Fermion times_parity(const Lattice &lattice, Fermion field);

// Measured, of fields; of correlators relative to the norms of the fields.
template <class Real> constexpr double field_error = times_measured *(sizeof(Real) == 8 ? 7e-16 : 2e-7);

// Fat links for the currents: any matrices, with whatever phases they have.
template <class Real> Gauge with_fat_links(Session<Real> &session, unsigned long seed) {
    const Gauge fat = random_links(session.lattice, seed);
    REQUIRE(session.load(fat, fat) == MILCGPU_OK);
    return reference::links_from_milc<Real>(session.lattice, session.fat);
}

// A sink operator and how it is put together: of a spin and a taste ('g'), or a current: both ways, forward, backward.
struct Sink {
    const char *label;
    char kind; // g p f b
    int dir;
    bool fat;
};

// Terms with all these operators, every parity letter, several momenta, all phases.
struct Correlators {
    std::vector<Sink> sinks;
    Origin origin;
    std::vector<milcgpu_momentum> momenta;
    std::vector<milcgpu_meson_term> terms;
    milcgpu_meson_spec spec{};
    Correlators(const Origin &about, const std::vector<Sink> &operators) : sinks(operators), origin(about) {
        const int e = MILCGPU_EVEN, o = MILCGPU_ODD, b = MILCGPU_EVEN_AND_ODD;
        momenta = {{{0, 0, 0}, {b, b, b}},  {{1, -1, 2}, {b, b, b}}, {{1, 1, 0}, {e, e, e}},  {{0, 1, 1}, {e, o, o}},
                   {{1, 2, -3}, {o, e, b}}, {{2, 0, 1}, {b, e, o}},  {{1, -1, 2}, {b, b, e}}, {{-7, 1, 0}, {o, b, b}}};
        for (size_t g = 0; g < sinks.size(); ++g)
            for (size_t p = 0; p < momenta.size(); ++p)
                terms.push_back({milcgpu_spin_taste_index(sinks[g].label), int(p), int(g + p) % 4,
                                 0.3 + 0.1 * double(p) - 0.2 * double(g), int(g * momenta.size() + p)});
        // Two terms of one correlator add up.
        terms.push_back({terms[0].spin_taste, 1, 0, 0.7, terms[1].correlator});
        spec = {sizeof spec,    {},          int(momenta.size()), int(terms.size()), int(sinks.size() * momenta.size()),
                momenta.data(), terms.data()};
        std::copy(origin.begin(), origin.end(), spec.origin);
    }

    std::vector<reference::Complex> wanted(const Lattice &lattice, const Gauge &phased, const Gauge &fat,
                                           const std::vector<Fermion> &a, const std::vector<Fermion> &b) const {
        std::vector<reference::Complex> sums(size_t(spec.n_correlators) * lattice.n[3]);
        for (size_t g = 0; g < sinks.size(); ++g)
            for (size_t k = 0; k < a.size(); ++k)
                for (const auto &[left, right, factor] : products(lattice, sinks[g], phased, fat, a[k], b[k]))
                    for (const auto &term : terms)
                        if (term.spin_taste == milcgpu_spin_taste_index(sinks[g].label))
                            add(lattice, term, left, right, factor, sums);
        return sums;
    }

  private:
    struct Product {
        Fermion left, right;
        double factor;
    };
    std::vector<Product> products(const Lattice &lattice, const Sink &sink, const Gauge &phased, const Gauge &fat,
                                  const Fermion &a, const Fermion &b) const {
        const std::string label = sink.label;
        if (sink.kind == 'g')
            return {{reference::spin_taste(lattice, phased, origin, bits_of(label.substr(0, label.find('-'))),
                                           bits_of(label.substr(label.find('-') + 1)), a),
                     b, 1}};
        const Gauge &links = sink.fat ? fat : phased;
        const Product backward = {
            times_parity(lattice, reference::shift(lattice, links, sink.dir, ShiftWay::backward, a)), b, 1};
        const Product forward = {
            a, times_parity(lattice, reference::shift(lattice, links, sink.dir, ShiftWay::forward, b)), 1};
        if (sink.kind != 'p')
            return {sink.kind == 'f' ? forward : backward};
        return {{backward.left, backward.right, 0.5}, {forward.left, forward.right, 0.5}};
    }
    void add(const Lattice &lattice, const milcgpu_meson_term &term, const Fermion &left, const Fermion &right,
             double factor, std::vector<reference::Complex> &sums) const {
        const auto &m = momenta[term.momentum];
        std::array<char, 3> letters;
        for (int mu = 0; mu < 3; ++mu)
            letters[mu] = " OEB"[m.parity[mu]];
        const auto slices = reference::slice_sums(lattice, left, right, {m.p[0], m.p[1], m.p[2]}, letters, origin);
        const reference::Complex phases[] = {1, {0, 1}, -1, {0, -1}};
        for (int t = 0; t < lattice.n[3]; ++t)
            sums[size_t(term.correlator) * lattice.n[3] + t] += factor * term.factor * phases[term.phase] * slices[t];
    }
};

// The largest difference, relative to the largest correlator that there could be.
double correlators_apart(const std::vector<reference::Complex> &got, const std::vector<reference::Complex> &wanted,
                         const std::vector<Fermion> &a, const std::vector<Fermion> &b);

struct Resident {
    milcgpu_vectors *vectors = nullptr;
    Resident(milcgpu_context *context, int count) {
        REQUIRE(milcgpu_vectors_create(context, MILCGPU_DOUBLE, count, &vectors) == MILCGPU_OK);
    }
    Resident(const Resident &) = delete;
    ~Resident() { milcgpu_vectors_destroy(vectors); }
    void load(int index, std::vector<double> field) {
        const milcgpu_field host = Session<double>::field(field);
        for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD})
            REQUIRE(milcgpu_vectors_load(vectors, index, parity, &host) == MILCGPU_OK);
    }
    std::vector<double> saved(int index, size_t size) {
        std::vector<double> field(size, -7);
        const milcgpu_field host = Session<double>::field(field);
        for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD})
            REQUIRE(milcgpu_vectors_save(vectors, index, parity, &host) == MILCGPU_OK);
        return field;
    }
    milcgpu_quarks from(int first) const { return {nullptr, vectors, first}; }
};

} // namespace tests
