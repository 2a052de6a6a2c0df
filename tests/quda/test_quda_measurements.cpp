// Measurements by the interface that MILC's own GPU switches call, against tests/reference. Each test runs in its own
// program, because a program has one lattice and one precision.
#include "milc_glue/api/plugin.h"
#include "tests/mesons_support.h"
#include "tests/quda_support.h"
#include "tests/run_support.h"
#include <algorithm>
#include <cmath>
#include <cstring>

using namespace tests;

namespace {

const Lattice lattice{{4, 6, 2, 4}};
const Origin even{2, 0, 0, 2}, odd{1, 4, 1, 3};

template <class Real> struct Program {
    static constexpr int precision = sizeof(Real) / 4;
    using Field = std::vector<Real>;
    const double tolerance = field_error<Real>;
    const Gauge bare = rounded(links_for(lattice, 301));
    const Fermion quark = rounded(random_fermion(lattice, 302)), other = rounded(random_fermion(lattice, 303));
    Field from = milc(quark), to = milc(other);

    Program() {
        setenv("MILCGPU_VERBOSE", "0", 0);
        const int size[4] = {lattice.n[0], lattice.n[1], lattice.n[2], lattice.n[3]}, ranks[4] = {1, 1, 1, 1};
        qudaInit({QUDA_SILENT, {size, ranks, 0}});
    }
    static Gauge rounded(const Gauge &u) {
        return reference::links_from_milc<Real>(lattice, reference::links_to_milc<Real>(lattice, u));
    }
    static Fermion rounded(const Fermion &f) { return reference::vector_from_milc<Real>(lattice, milc(f)); }
    static Field milc(const Fermion &f) { return reference::vector_to_milc<Real>(lattice, f); }
    Gauge phased(const Origin &origin) const { return reference::phased_links(lattice, bare, origin, true); }
    static Field milc(const Gauge &u) { return reference::links_to_milc<Real>(lattice, u); }
    static double off(const Field &field, const Fermion &wanted) {
        return reference::relative_difference(reference::vector_from_milc<Real>(lattice, field), wanted);
    }
    static bool all_nan(const Field &field) {
        return std::all_of(field.begin(), field.end(), [](Real x) { return std::isnan(x); });
    }
    void smear(const void *links, Field &field, int compute, int slice = -1, int steps = 3) const {
        qudaTwoLinkGaussianSmear(precision, precision, links, field.data(), {steps, 0.9, compute, 0, slice, 3});
    }
    Fermion smeared(const Gauge &links, Fermion field, int slice = -1, int steps = 3) const {
        for (int k = 0; k < steps; ++k) {
            const Fermion step = reference::laplacian(lattice, links, 2, slice, field);
            for (int site = 0; site < lattice.volume(); ++site)
                field[site] = field[site] + (0.9 * 0.9 / (16 * steps)) * step[site];
        }
        return field;
    }
};

template <class Real> void shifts_and_operators() {
    Program<Real> p;
    const int precision = p.precision;
    auto links = p.milc(p.phased(odd));
    for (int dir = 0; dir < 4; ++dir)
        for (int sym = 1; sym <= 3; ++sym) {
            CAPTURE(dir, sym);
            qudaShift(precision, precision, links.data(), p.from.data(), p.to.data(), dir, sym, 0);
            CHECK(p.off(p.to, reference::shift(lattice, p.phased(odd), dir, static_cast<ShiftWay>(sym - 1), p.quark)) <=
                  p.tolerance);
        }
    // Other links at the same address.
    for (const Origin &origin : {odd, even}) {
        links = p.milc(p.phased(origin));
        for (int spin = 0; spin < 16; spin += 3)
            for (int taste = 0; taste < 16; ++taste) {
                CAPTURE(origin, spin, taste);
                milcgpu_quda_origin(origin.data());
                qudaSpinTaste(precision, precision, spin == taste ? nullptr : links.data(), p.from.data(), p.to.data(),
                              spin, taste, taste == 0);
                CHECK(p.off(p.to, reference::spin_taste(lattice, p.phased(origin), origin, spin, taste, p.quark)) <=
                      p.tolerance);
            }
    }
    // Without an origin coordinates count from 0, which gives the same if the origin is even. In place.
    auto field = p.from;
    qudaSpinTaste(precision, precision, links.data(), field.data(), field.data(), 5, 8, 0);
    CHECK(p.off(field, reference::spin_taste(lattice, p.phased(even), even, 5, 8, p.quark)) <= p.tolerance);
    field = p.from;
    qudaSpinTaste(precision, precision, nullptr, field.data(), field.data(), 15, 15, 0);
    CHECK(field == p.from);

    const auto refused = [&](int dir, int sym, const void *with) {
        p.to = p.from;
        qudaShift(precision, precision, with, p.from.data(), p.to.data(), dir, sym, 0);
        CHECK(p.all_nan(p.to));
    };
    refused(4, 1, links.data());
    refused(-1, 1, links.data());
    refused(0, 0, links.data());
    refused(0, 4, links.data());
    refused(0, 1, nullptr);
    for (const int bad : {-1, 16}) {
        p.to = p.from;
        qudaSpinTaste(precision, precision, links.data(), p.from.data(), p.to.data(), bad, 3, 0);
        CHECK(p.all_nan(p.to));
    }
    p.to = p.from;
    qudaSpinTaste(precision, precision, nullptr, p.from.data(), p.to.data(), 1, 0, 0); // not local
    CHECK(p.all_nan(p.to));
    p.to = p.from;
    milcgpu_quda_origin(Origin{0, 0, 2, 0}.data());
    qudaSpinTaste(precision, precision, links.data(), p.from.data(), p.to.data(), 1, 0, 0);
    CHECK(p.all_nan(p.to));
    // The plugin still works.
    qudaShift(precision, precision, links.data(), p.from.data(), p.to.data(), 2, 3, 1);
    CHECK(p.off(p.to, reference::shift(lattice, p.phased(even), 2, ShiftWay::symmetric, p.quark)) <= p.tolerance);
    CHECK(milcgpu_plugin_active() == 1);
}

template <class Real> void smearing() {
    Program<Real> p;
    const auto links = p.milc(p.phased(odd)); // the result does not depend on phases
    auto field = p.from;
    p.smear(nullptr, field, 0);
    CHECK(p.all_nan(field)); // there are no products yet
    for (const int slice : {-1, 0, 3}) {
        field = p.from;
        p.smear(links.data(), field, 1, slice);
        CHECK(p.off(field, p.smeared(p.bare, p.quark, slice)) <= p.tolerance);
        // Without new products the call ignores the links, whatever they are.
        for (const void *given : {static_cast<const void *>(nullptr), static_cast<const void *>("nothing")}) {
            auto again = p.from;
            p.smear(given, again, 0, slice);
            CHECK(again == field);
        }
    }
    // New products of links at another address, then of other links at the same address.
    const Gauge second_gauge = p.rounded(links_for(lattice, 305));
    auto second = p.milc(second_gauge);
    field = p.from;
    p.smear(second.data(), field, 1);
    CHECK(p.off(field, p.smeared(second_gauge, p.quark)) <= p.tolerance);
    field = p.from;
    p.smear(links.data(), field, 0); // uses the links of the last call with 1
    CHECK(p.off(field, p.smeared(second_gauge, p.quark)) <= p.tolerance);
    second = links;
    field = p.from;
    p.smear(second.data(), field, 1);
    CHECK(p.off(field, p.smeared(p.bare, p.quark)) <= p.tolerance);
    qudaFreeTwoLink();
    field = p.from;
    p.smear(second.data(), field, 0);
    CHECK(p.all_nan(field));
    field = p.from;
    p.smear(links.data(), field, 1, -1, 0);
    CHECK(field == p.from);
    // Products that are lost with the device, which a program loses once, are recomputed from this call's links.
    field = p.from;
    p.smear(links.data(), field, 1);
    milcgpu_plugin_inject_fault(MILCGPU_FAULT_DEVICE_LOST);
    auto again = p.from;
    p.smear(p.precision == 2 ? links.data() : second.data(), again, 0);
    CHECK((p.precision == 2 ? p.off(again, p.smeared(p.bare, p.quark)) <= p.tolerance : p.all_nan(again)));
    const auto refused = [&](QudaTwoLinkQuarkSmearArgs_t arguments) {
        field = p.from;
        qudaTwoLinkGaussianSmear(p.precision, p.precision, links.data(), field.data(), arguments);
        CHECK(p.all_nan(field));
    };
    refused({-1, 1, 1, 0, -1, 3});
    refused({2, -1, 1, 0, -1, 3});
    refused({2, NAN, 1, 0, -1, 3});
    refused({2, 0, 1, 0, -1, 3}); // MILC divides by its square
    refused({2, 1, 1, 0, 4, 3});
    refused({2, 1, 1, 0, -2, 3});
    refused({2, 1, 1, 0, -1, 4});
    field = p.from;
    qudaTwoLinkGaussianSmear(p.precision, p.precision, links.data(), field.data(), {3, 0.9, 1, 1, -1, 3});
    CHECK(p.off(field, p.smeared(p.bare, p.quark)) <= p.tolerance);
    p.smear(links.data(), field, 0); // delete_2link
    CHECK(p.all_nan(field));
}

template <class Real> void contractions() {
    Program<Real> p;
    const auto o = QUDA_FFT_SYMM_ODD, e = QUDA_FFT_SYMM_EVEN, b = QUDA_FFT_SYMM_EO;
    std::vector<int> modes = {0, 0, 0, 0, 1, -1, 1, 0, 0, 2, 1, 0, 3, 1, 0, 0};
    std::vector<QudaFFTSymmType> types = {b, b, b, b, b, b, b, b, e, o, b, b, o, e, e, b};
    Origin origin = odd;
    const int n = 4, n_t = lattice.n[3];
    QudaContractArgs_t arguments{n, modes.data(), types.data(), origin.data(), 0, 0};
    std::vector<reference::Complex> sums(n * n_t), wanted;
    const auto contract = [&] {
        std::fill(sums.begin(), sums.end(), reference::Complex(0.5, -2));
        qudaContractFT(p.precision, &arguments, p.from.data(), p.to.data(), reinterpret_cast<double *>(sums.data()));
    };
    contract();
    for (int k = 0; k < n; ++k) {
        std::array<char, 3> letters;
        for (int mu = 0; mu < 3; ++mu)
            letters[mu] = " OEB"[types[4 * k + mu]];
        for (const auto &z : reference::slice_sums(lattice, p.quark, p.other,
                                                   {modes[4 * k], modes[4 * k + 1], modes[4 * k + 2]}, letters, origin))
            wanted.push_back(z + reference::Complex(0.5, -2)); // the call adds to the output
    }
    CHECK(correlators_apart(sums, wanted, {p.quark}, {p.other}) <= times_measured * 1.7e-17);
    CHECK(arguments.flops == 26.0 * n * lattice.volume());
    CHECK(arguments.dtime > 0);
    const auto refused = [&](auto &place, auto value) {
        const auto good = std::exchange(place, value);
        contract();
        for (const auto &z : sums)
            CHECK((std::isnan(z.real()) && std::isnan(z.imag())));
        place = good;
    };
    refused(modes[7], 1);
    refused(types[2], static_cast<QudaFFTSymmType>(0));
    refused(origin[2], 2);
    refused(origin[0], -1);
    refused(p.from[3], Real(NAN));
    arguments.n_mom = 0; // the number of momenta is not known
    const auto before = sums;
    qudaContractFT(p.precision, &arguments, p.from.data(), p.to.data(), reinterpret_cast<double *>(sums.data()));
    CHECK(std::memcmp(sums.data(), before.data(), sums.size() * sizeof sums[0]) == 0);
}

} // namespace

TEST_CASE("quda_compat: shifts and spin-taste operators are right", "[quda][measurements][quda_operators]") {
    in_each_precision("'[quda_operators]'", [](auto real) { shifts_and_operators<decltype(real)>(); });
}

TEST_CASE("quda_compat: two-link smearing is right, and uses the products of the right links",
          "[quda][measurements][quda_smearing]") {
    in_each_precision("'[quda_smearing]'", [](auto real) { smearing<decltype(real)>(); });
}

TEST_CASE("quda_compat: contractions are right", "[quda][measurements][quda_contractions]") {
    in_each_precision("'[quda_contractions]'", [](auto real) { contractions<decltype(real)>(); });
}

TEST_CASE("quda_compat: an operator without its origin is logged once", "[quda][measurements]") {
    const Run child = run("QUDA_TEST_PRECISION=2", "", self() + " '[quda_operators]'");
    CHECK(child.status == 0);
    CHECK(child.count("milcgpu: qudaSpinTaste: no origin") == 1);
}
