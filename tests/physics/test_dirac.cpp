// Contractions of Dirac fields against explicit 4x4 matrices and slow sums: gamma matrices, numbers of sites, sums over
// time slices, mesons.
#include "gpu_kernels/wilson/contract.h"
#include "milc_glue/api/milcgpu_dirac.h"
#include "tests/cut_support.h"
#include "tests/reference/dirac.h"
#include <algorithm>

using namespace tests;
using milcgpu::Backend;
using Number = reference::Complex;
using reference::GammaSet;
using reference::MomentumFactor;
using reference::SpinMatrix;
using reference::SpinWilsonField;
using reference::WilsonField;
using reference::operator*, reference::operator+; // of spin matrices, which are arrays

namespace {

const reference::Lattice small{{2, 4, 4, 6}};
const reference::Lattice shapes[] = {reference::Lattice{{4, 6, 10, 4}}, reference::Lattice{{2, 4, 4, 8}},
                                     reference::Lattice{{6, 2, 4, 2}}};
constexpr int sets[] = {MILCGPU_GAMMAS_MILC, MILCGPU_GAMMAS_DEGRAND_ROSSI};

SpinMatrix matrix(int basis, int k) {
    return reference::gamma_of_set(basis == MILCGPU_GAMMAS_MILC ? GammaSet::milc : GammaSet::degrand_rossi, k);
}
SpinMatrix matrix(const milcgpu::Gamma &gamma) {
    SpinMatrix m{};
    const milcgpu::GammaMatrix rows = milcgpu::matrix_of(gamma);
    for (int row = 0; row < 4; ++row)
        m[row][rows.column[row]] = std::array<Number, 4>{1, {0, 1}, -1, {0, -1}}[rows.power[row]];
    return m;
}
bool equal(const SpinMatrix &a, const SpinMatrix &b) { return reference::norm2(a + Number(-1) * b) == 0; }
SpinMatrix transpose(const SpinMatrix &a) {
    SpinMatrix b;
    for (int row = 0; row < 4; ++row)
        for (int column = 0; column < 4; ++column)
            b[row][column] = a[column][row];
    return b;
}

// The difference relative to the size of a sum of so many products of random numbers: a sum with momentum may be zero.
double apart(const std::vector<Number> &a, const std::vector<Number> &b, double products) {
    double d = 0;
    for (size_t k = 0; k < b.size(); ++k)
        d += std::norm(a[k] - b[k]);
    return a.size() == b.size() ? std::sqrt(d / double(b.size()) / products) / 2 : NAN;
}
double slice(const reference::Lattice &lattice) { return double(lattice.volume()) / lattice.n[3]; }

// Measured: of numbers of sites, and of sums.
template <class Real> constexpr double site_error = times_measured *(sizeof(Real) == 8 ? 3e-16 : 1.2e-7);
template <class Real> constexpr double sum_error = times_measured *(sizeof(Real) == 8 ? 6e-16 : 8e-8);

// Fields in MILC's layout, 24 or 96 reals a site, rounded to Real.
template <class Real> std::vector<Real> to_milc(const reference::Lattice &lattice, const WilsonField &field) {
    return reference::field_to_milc<Real>(lattice, field, 1);
}
template <class Real> std::vector<Real> to_milc(const reference::Lattice &lattice, const SpinWilsonField &field) {
    return reference::field_to_milc<Real>(lattice, field, 1);
}
template <class Real, class Field> Field rounded(const reference::Lattice &lattice, const Field &field) {
    return reference::field_from_milc<typename Field::value_type>(lattice, to_milc<Real>(lattice, field).data(), 1);
}

template <class Real> struct Dirac {
    Session<Real> session;
    Dirac(const reference::Lattice &lattice, Backend backend, int block = 0) : session(lattice, backend, block, 0) {}
    const reference::Lattice &lattice() const { return session.lattice; }
    void must(milcgpu_status status) const {
        CAPTURE(milcgpu_last_error());
        REQUIRE(status == MILCGPU_OK);
    }
    // 16 numbers a site, in lexicographic order of the sites.
    std::vector<Number> sites(int numbers, const WilsonField &phi, const WilsonField &psi) {
        auto left = to_milc<Real>(lattice(), phi), right = to_milc<Real>(lattice(), psi);
        std::vector<Real> to(32 * size_t(lattice().volume()), Real(-7));
        const milcgpu_field l = session.field(left), r = session.field(right), t = session.field(to);
        must(milcgpu_dirac_sites(session.context, numbers, &l, &r, &t));
        const auto order = reference::milc_order(lattice());
        std::vector<Number> made(to.size() / 2);
        for (size_t k = 0; k < made.size(); ++k)
            made[size_t(order[k / 16]) * 16 + k % 16] = {to[2 * k], to[2 * k + 1]};
        return made;
    }
    // [momentum][k][t]
    std::vector<Number> slices(int basis, const std::vector<MomentumFactor> &momenta, const WilsonField &phi,
                               const WilsonField &psi) {
        auto left = to_milc<Real>(lattice(), phi), right = to_milc<Real>(lattice(), psi);
        const milcgpu_field l = session.field(left), r = session.field(right);
        const auto table = table_of(momenta);
        milcgpu_dirac_spec spec{sizeof spec, basis, {}, int(momenta.size()), table.data()};
        std::copy_n(momenta[0].origin.data(), 3, spec.origin);
        std::vector<Number> sums(momenta.size() * 16 * lattice().n[3], {-7, 3});
        must(milcgpu_dirac_slices(session.context, &spec, &l, &r, reinterpret_cast<double *>(sums.data())));
        return sums;
    }
    static std::vector<milcgpu_momentum> table_of(const std::vector<MomentumFactor> &momenta) {
        std::vector<milcgpu_momentum> table;
        for (const MomentumFactor &f : momenta) {
            milcgpu_momentum m{};
            for (int mu = 0; mu < 3; ++mu)
                m.p[mu] = f.p[mu], m.parity[mu] = f.parity[mu] == 'E'   ? int(MILCGPU_EVEN)
                                                  : f.parity[mu] == 'O' ? int(MILCGPU_ODD)
                                                                        : int(MILCGPU_EVEN_AND_ODD);
            table.push_back(m);
        }
        return table;
    }
    // Mesons of propagators, or open mesons.
    std::vector<Number> mesons(bool open, const milcgpu_dirac_meson_spec &spec, const std::vector<SpinWilsonField> &s1,
                               const std::vector<SpinWilsonField> &s2) {
        std::vector<std::vector<Real>> data;
        std::vector<milcgpu_field> left, right;
        for (size_t k = 0; k < s1.size(); ++k)
            data.push_back(to_milc<Real>(lattice(), s1[k])), data.push_back(to_milc<Real>(lattice(), s2[k]));
        for (size_t k = 0; k < s1.size(); ++k) {
            left.push_back(session.field(data[2 * k]));
            right.push_back(session.field(data[2 * k + (&s1 == &s2 ? 0 : 1)]));
        }
        std::vector<Number> sums(size_t(spec.n_correlators) * lattice().n[3] * (open ? 144 : 1), {0.5, -2});
        const auto call = open ? milcgpu_dirac_open_mesons : milcgpu_dirac_mesons;
        must(call(session.context, &spec, int(s1.size()), left.data(), right.data(),
                  reinterpret_cast<double *>(sums.data())));
        for (auto &z : sums)
            z -= Number(0.5, -2); // the call adds to the output
        return sums;
    }
};

std::vector<MomentumFactor> momenta_about(const reference::Origin &o) {
    return {{{0, 0, 0}, {'B', 'B', 'B'}, o}, {{1, -1, 2}, {'B', 'B', 'B'}, o}, {{1, 1, 0}, {'E', 'E', 'E'}, o},
            {{0, 1, 1}, {'E', 'O', 'O'}, o}, {{1, 2, -3}, {'O', 'E', 'B'}, o}, {{2, 0, 1}, {'B', 'E', 'O'}, o},
            {{-7, 1, 0}, {'O', 'B', 'B'}, o}};
}

// Term k takes pair k / momenta and momentum k % momenta, and adds to correlator k.
struct Mesons {
    int basis;
    std::vector<std::array<int, 2>> pairs; // in, out
    std::vector<MomentumFactor> momenta;
    std::vector<milcgpu_momentum> table;
    std::vector<milcgpu_dirac_term> terms;
    milcgpu_dirac_meson_spec spec = sized<milcgpu_dirac_meson_spec>();
    Mesons(int of_basis, const std::vector<std::array<int, 2>> &in_out, const std::vector<MomentumFactor> &at)
        : basis(of_basis), pairs(in_out), momenta(at), table(Dirac<double>::table_of(at)) {
        for (size_t g = 0; g < pairs.size(); ++g)
            for (size_t q = 0; q < momenta.size(); ++q)
                terms.push_back({pairs[g][0], pairs[g][1], int(q), int(g + q) % 4, 0.3 + 0.1 * double(q % 5),
                                 int(g * momenta.size() + q)});
        spec.basis = basis;
        std::copy_n(momenta[0].origin.data(), 3, spec.origin);
        spec.n_momenta = int(momenta.size()), spec.momenta = table.data();
        spec.n_terms = int(terms.size()), spec.terms = terms.data();
        spec.n_correlators = spec.n_terms;
    }
    Mesons(const Mesons &) = delete;
    Number weight(int k) const {
        return terms[k].factor * std::array<Number, 4>{1, {0, 1}, -1, {0, -1}}[terms[k].phase];
    }
    // The reference's values of term k.
    std::vector<Number> expected(const reference::Lattice &lattice, int k, const std::vector<SpinWilsonField> &s1,
                                 const std::vector<SpinWilsonField> &s2) const {
        std::vector<Number> sum(lattice.n[3]);
        for (size_t c = 0; c < s1.size(); ++c) {
            const auto one = reference::dirac_meson(lattice, s1[c], s2[c], matrix(basis, terms[k].in),
                                                    matrix(basis, terms[k].out), momenta[terms[k].momentum]);
            for (size_t t = 0; t < sum.size(); ++t)
                sum[t] += weight(k) * one[t];
        }
        return sum;
    }
};

std::vector<SpinWilsonField> propagators(const reference::Lattice &lattice, int n, unsigned long seed) {
    std::vector<SpinWilsonField> fields;
    for (int k = 0; k < n; ++k)
        fields.push_back(reference::random_spin_wilson_field(lattice, seed + 10 * k));
    return fields;
}

std::vector<Number> part(const std::vector<Number> &all, size_t k, size_t size) {
    return {all.begin() + k * size, all.begin() + (k + 1) * size};
}

} // namespace

TEST_CASE("the 32 gamma matrices have their names and their definitions", "[operators]") {
    for (const int basis : sets)
        for (int k = 0; k < 16; ++k) {
            CAPTURE(basis, k);
            const SpinMatrix wanted = matrix(basis, k);
            int column[4], power[4];
            REQUIRE(milcgpu_gamma_matrix(basis, k, column, power) == MILCGPU_OK);
            SpinMatrix made{};
            for (int row = 0; row < 4; ++row)
                made[row][column[row]] = std::array<Number, 4>{1, {0, 1}, -1, {0, -1}}[power[row]];
            CHECK(equal(made, wanted));
            CHECK(equal(matrix(milcgpu::gamma_of(static_cast<milcgpu::GammaBasis>(basis), k)), wanted));
            char label[5];
            REQUIRE(milcgpu_gamma_label(basis, k, label, sizeof label) == MILCGPU_OK);
            CHECK(milcgpu_gamma_index(basis, label) == k);
        }
    CHECK(milcgpu_gamma_index(MILCGPU_GAMMAS_MILC, "G5") == 4);
    CHECK(milcgpu_gamma_index(MILCGPU_GAMMAS_MILC, "GZX") == 6);
    CHECK(milcgpu_gamma_index(MILCGPU_GAMMAS_DEGRAND_ROSSI, "G5G4") == 9);
    CHECK(milcgpu::gamma_of(milcgpu::MilcGamma::g5t) == milcgpu::gamma_of(milcgpu::GammaBasis::milc, 14));
    CHECK(milcgpu::gamma_of(milcgpu::DeGrandRossiGamma::s34) ==
          milcgpu::gamma_of(milcgpu::GammaBasis::degrand_rossi, 15));
}

TEST_CASE("gamma matrices obey their products, adjoints, transposes, anticommutators and orthogonality",
          "[operators]") {
    using milcgpu::Gamma;
    for (const int basis : sets)
        for (int j = 0; j < 16; ++j) {
            const Gamma a = milcgpu::gamma_of(static_cast<milcgpu::GammaBasis>(basis), j);
            CHECK(equal(matrix(adjoint(a)), reference::adjoint(matrix(a))));
            CHECK(equal(matrix(transpose(a)), transpose(matrix(a))));
            CHECK(adjoint(a) * a == milcgpu::unit_gamma());
            const std::string label = milcgpu::gamma_label(static_cast<milcgpu::GammaBasis>(basis), j);
            const bool axial = label.size() > 2 && label[1] == '5'; // gamma_5 gamma_mu is antihermitian
            CHECK((a == adjoint(a)) == !axial);
            for (int k = 0; k < 16; ++k) {
                const Gamma b = milcgpu::gamma_of(static_cast<milcgpu::GammaBasis>(basis), k);
                CAPTURE(basis, j, k);
                CHECK(equal(matrix(a * b), matrix(a) * matrix(b)));
                CHECK(
                    equal(matrix(adjoint(times_i(a) * b)), reference::adjoint(Number(0, 1) * (matrix(a) * matrix(b)))));
                CHECK(equal(matrix(transpose(times_i(a) * b)), transpose(Number(0, 1) * (matrix(a) * matrix(b)))));
                const SpinMatrix product = reference::adjoint(matrix(a)) * matrix(b);
                CHECK(product[0][0] + product[1][1] + product[2][2] + product[3][3] == Number(j == k ? 4 : 0));
            }
        }
    for (int mu = 0; mu < 4; ++mu)
        for (int nu = 0; nu < 4; ++nu) {
            const SpinMatrix a = matrix(milcgpu::gamma_of_direction(mu)), b = matrix(milcgpu::gamma_of_direction(nu));
            CHECK(equal(a * b + b * a, Number(mu == nu ? 2 : 0) * reference::unit_spin_matrix()));
        }
}

TEST_CASE("the 16 gamma matrices are complete: sum_k (G_k)_mn conj (G_k)_pq = 4 delta_mp delta_nq", "[operators]") {
    for (const int basis : sets)
        for (int m = 0; m < 4; ++m)
            for (int n = 0; n < 4; ++n)
                for (int p = 0; p < 4; ++p)
                    for (int q = 0; q < 4; ++q) {
                        Number sum = 0;
                        for (int k = 0; k < 16; ++k) {
                            const SpinMatrix g = matrix(milcgpu::gamma_of(static_cast<milcgpu::GammaBasis>(basis), k));
                            sum += g[m][n] * std::conj(g[p][q]);
                        }
                        CAPTURE(basis, m, n, p, q);
                        CHECK(sum == Number(m == p && n == q ? 4 : 0));
                    }
}

namespace {

template <class Real> void check_sites(const reference::Lattice &lattice, Backend backend) {
    Dirac<Real> d(lattice, backend);
    const WilsonField phi = rounded<Real>(lattice, reference::random_wilson_field(lattice, 1)),
                      psi = rounded<Real>(lattice, reference::random_wilson_field(lattice, 2));
    std::vector<Number> wanted[3]; // open spins, then each set of 16
    for (int site = 0; site < lattice.volume(); ++site) {
        const SpinMatrix a = reference::open_spin(phi[site], psi[site]);
        for (int k = 0; k < 16; ++k) {
            wanted[0].push_back(a[k / 4][k % 4]);
            for (const int basis : sets)
                wanted[1 + basis].push_back(reference::bilinear(matrix(basis, k), a));
        }
    }
    const int numbers[] = {MILCGPU_OPEN_SPIN, MILCGPU_GAMMAS_MILC, MILCGPU_GAMMAS_DEGRAND_ROSSI};
    std::vector<Number> made[3];
    for (int k = 0; k < 3; ++k) {
        CAPTURE(name(backend), sizeof(Real), lattice.n[0], numbers[k]);
        made[k] = d.sites(numbers[k], phi, psi);
        CHECK(reference::relative_difference(made[k], wanted[k]) <= site_error<Real>);
    }
    // Open spins follow from the 16 by completeness.
    for (const int basis : sets) {
        std::vector<Number> back(made[0].size());
        for (size_t k = 0; k < back.size(); ++k)
            for (int g = 0; g < 16; ++g)
                back[k] += 0.25 * std::conj(matrix(basis, g)[k % 16 / 4][k % 4]) * made[1 + basis][k - k % 16 + g];
        CHECK(reference::relative_difference(back, made[0]) <= site_error<Real>);
    }
}

} // namespace

TEST_CASE("open spins and 16 gammas of sites", "[operators]") {
    for (const Backend backend : backends())
        for (const reference::Lattice &lattice : shapes) {
            check_sites<double>(lattice, backend);
            check_sites<float>(lattice, backend);
        }
}

TEST_CASE("numbers of sites go where the site map and the pitch say, and nowhere else", "[operators]") {
    const WilsonField phi = reference::random_wilson_field(small, 3), psi = reference::random_wilson_field(small, 4);
    const size_t volume = small.volume(), pitch = 40; // reals
    std::vector<int> map(volume);
    for (size_t k = 0; k < volume; ++k)
        map[k] = int((k * 37 + 5) % volume);
    for (const Backend backend : backends()) {
        Dirac<double> plain(small, backend);
        const auto wanted = plain.sites(MILCGPU_GAMMAS_MILC, phi, psi);
        milcgpu_layout layout = layout_of(small, map.data());
        const Context context(layout, backend);
        const auto scattered = [&](const std::vector<double> &field) {
            std::vector<double> to(volume * pitch, 99);
            for (size_t k = 0; k < volume; ++k)
                std::copy_n(&field[24 * k], 24, &to[map[k] * pitch]);
            return to;
        };
        auto left = scattered(to_milc<double>(small, phi)), right = scattered(to_milc<double>(small, psi));
        std::vector<double> to(volume * pitch, -7);
        const milcgpu_field l{left.data(), MILCGPU_DOUBLE, pitch * 8}, r{right.data(), MILCGPU_DOUBLE, pitch * 8},
            t{to.data(), MILCGPU_DOUBLE, pitch * 8};
        CHECK(milcgpu_dirac_sites(context, MILCGPU_GAMMAS_MILC, &l, &r, &t) == MILCGPU_OK);
        const auto order = reference::milc_order(small);
        bool same = true, kept = true;
        for (size_t k = 0; k < volume; ++k)
            for (size_t j = 0; j < pitch / 2; ++j) {
                const Number z(to[map[k] * pitch + 2 * j], to[map[k] * pitch + 2 * j + 1]);
                if (j < 16)
                    same = same && z == wanted[size_t(order[k]) * 16 + j];
                else
                    kept = kept && z == Number(-7, -7);
            }
        CHECK(same);
        CHECK(kept);
    }
}

namespace {

template <class Real>
void check_slices(const reference::Lattice &lattice, Backend backend, int basis, const reference::Origin &origin) {
    Dirac<Real> d(lattice, backend);
    const WilsonField phi = rounded<Real>(lattice, reference::random_wilson_field(lattice, 5)),
                      psi = rounded<Real>(lattice, reference::random_wilson_field(lattice, 6));
    const auto momenta = momenta_about(origin);
    // All momenta, and one alone, which has its own kernel.
    for (const auto &chosen : {momenta, std::vector<MomentumFactor>{momenta[4]}}) {
        const auto made = d.slices(basis, chosen, phi, psi);
        std::vector<Number> wanted;
        for (const MomentumFactor &f : chosen)
            for (int k = 0; k < 16; ++k) {
                const auto one = reference::dirac_slices(lattice, matrix(basis, k), phi, psi, f);
                wanted.insert(wanted.end(), one.begin(), one.end());
            }
        CAPTURE(name(backend), sizeof(Real), lattice.n[0], basis, chosen.size());
        CHECK(apart(made, wanted, 12 * slice(lattice)) <= sum_error<Real>);
    }
}

} // namespace

TEST_CASE("16 gammas are summed over time slices at several momenta", "[operators]") {
    for (const Backend backend : backends()) {
        for (const reference::Lattice &lattice : shapes) {
            check_slices<double>(lattice, backend, MILCGPU_GAMMAS_MILC, {0, 0, 0, 0});
            check_slices<float>(lattice, backend, MILCGPU_GAMMAS_DEGRAND_ROSSI, {1, 0, 3, 0});
        }
        check_slices<double>(shapes[0], backend, MILCGPU_GAMMAS_DEGRAND_ROSSI, {3, 5, 2, 0});
    }
}

TEST_CASE("the two sets of 16 gammas give the same numbers but for one sign", "[operators]") {
    const WilsonField phi = reference::random_wilson_field(small, 7), psi = reference::random_wilson_field(small, 8);
    const auto momenta = momenta_about({1, 2, 3, 0});
    // The places of I G1 G2 G3 G4 G5 G5G1 .. G5G4 S12 S13 S14 S23 S24 S34 in MILC's set.
    const int in_milc[16] = {15, 0, 1, 2, 3, 4, 11, 12, 13, 14, 7, 6, 8, 5, 9, 10};
    const size_t times = small.n[3];
    for (const Backend backend : backends()) {
        Dirac<double> d(small, backend);
        const auto milc = d.slices(MILCGPU_GAMMAS_MILC, momenta, phi, psi),
                   other = d.slices(MILCGPU_GAMMAS_DEGRAND_ROSSI, momenta, phi, psi);
        for (size_t q = 0; q < momenta.size(); ++q)
            for (int k = 0; k < 16; ++k) {
                auto one = part(milc, q * 16 + in_milc[k], times);
                if (k == 11) // S13 = -GZX in MILC's set
                    for (auto &z : one)
                        z = -z;
                CHECK(part(other, q * 16 + k, times) == one);
            }
    }
}

TEST_CASE("contractions give the norm, find the momentum of a plane wave and are gauge invariant", "[operators]") {
    const reference::Lattice lattice{{4, 2, 6, 4}};
    const size_t times = lattice.n[3];
    const MomentumFactor at_rest{{0, 0, 0}, {'B', 'B', 'B'}, {0, 0, 0, 0}};
    for (const Backend backend : backends()) {
        Dirac<double> d(lattice, backend);
        const WilsonField phi = reference::random_wilson_field(lattice, 9),
                          psi = reference::random_wilson_field(lattice, 10);
        // <phi, phi> on each slice.
        const auto own = part(d.slices(MILCGPU_GAMMAS_MILC, {at_rest}, phi, phi), 15, times);
        std::vector<Number> norms(times);
        for (int site = 0; site < lattice.volume(); ++site)
            norms[lattice.coordinates(site)[3]] += reference::norm2(phi[site]);
        CHECK(reference::relative_difference(own, norms) <= sum_error<double>);
        // psi(x) = e^(-i k x) phi with a constant phi: only momentum k gives a number.
        WilsonField same(lattice.volume()), wave(lattice.volume());
        const MomentumFactor k{{1, 0, 2}, {'B', 'B', 'B'}, {0, 0, 0, 0}};
        for (int site = 0; site < lattice.volume(); ++site) {
            same[site] = phi[0];
            wave[site] = std::conj(reference::momentum_factor(lattice, site, k.p, k.parity, k.origin)) * phi[0];
        }
        const auto sums = d.slices(MILCGPU_GAMMAS_MILC, {at_rest, k, {{1, 0, 1}, k.parity, k.origin}}, same, wave);
        const double all = slice(lattice) * reference::norm2(phi[0]);
        for (size_t t = 0; t < times; ++t) {
            CHECK(std::abs(sums[15 * times + t]) <= 1e-15 * all);
            CHECK(std::abs(sums[(16 + 15) * times + t] - all) <= 1e-15 * all);
            CHECK(std::abs(sums[(32 + 15) * times + t]) <= 1e-15 * all);
        }
        // The same gauge transformation acts on both fields.
        const auto g = reference::random_transformation(lattice, 11);
        const auto before = d.slices(MILCGPU_GAMMAS_MILC, {k}, phi, psi),
                   after = d.slices(MILCGPU_GAMMAS_MILC, {k}, reference::transform_wilson_field(g, phi),
                                    reference::transform_wilson_field(g, psi));
        CHECK(reference::relative_difference(after, before) <= 5 * sum_error<double>);
    }
}

namespace {

const std::vector<std::array<int, 2>> some_pairs = {{4, 4}, {0, 0},   {0, 1}, {1, 0},   {4, 14}, {14, 4}, {14, 14},
                                                    {5, 8}, {15, 15}, {2, 9}, {10, 13}, {3, 7},  {11, 6}, {4, 4}};

template <class Real> void check_mesons(const reference::Lattice &lattice, Backend backend, const Mesons &m, int n) {
    Dirac<Real> d(lattice, backend);
    std::vector<SpinWilsonField> s1, s2;
    for (const auto &field : propagators(lattice, n, 20))
        s1.push_back(rounded<Real>(lattice, field));
    for (const auto &field : propagators(lattice, n, 40))
        s2.push_back(rounded<Real>(lattice, field));
    const auto made = d.mesons(false, m.spec, s1, s2);
    std::vector<Number> wanted;
    for (int k = 0; k < m.spec.n_terms; ++k) {
        const auto one = m.expected(lattice, k, s1, s2);
        wanted.insert(wanted.end(), one.begin(), one.end());
    }
    CAPTURE(name(backend), sizeof(Real), lattice.n[0], m.basis, n);
    CHECK(apart(made, wanted, 48 * slice(lattice)) <= sum_error<Real>);
}

} // namespace

TEST_CASE("mesons of propagators are tr[G S2 G' g5 S1^dag g5] of explicit matrices", "[operators]") {
    for (const Backend backend : backends()) {
        for (const reference::Lattice &lattice : {shapes[1], shapes[2]})
            for (const int basis : sets) {
                const Mesons m(basis, some_pairs, momenta_about({1, 0, 3, 0}));
                check_mesons<double>(lattice, backend, m, 1);
                check_mesons<float>(lattice, backend, m, 2);
            }
        // All 256 pairs take several passes.
        std::vector<std::array<int, 2>> all;
        for (int k = 0; k < 256; ++k)
            all.push_back({k / 16, k % 16});
        check_mesons<double>(shapes[2], backend,
                             Mesons(MILCGPU_GAMMAS_MILC, all, {{{1, 0, 1}, {'B', 'B', 'O'}, {0, 1, 0, 0}}}), 1);
    }
}

TEST_CASE("the pion is the norm of the propagator, and one field on both sides is copied once", "[operators]") {
    for (const Backend backend : backends()) {
        Dirac<double> d(small, backend);
        const auto s = propagators(small, 3, 60);
        const Mesons m(MILCGPU_GAMMAS_MILC, {{4, 4}}, {{{0, 0, 0}, {'B', 'B', 'B'}, {0, 0, 0, 0}}});
        const uint64_t before = d.session.context->device->transfers().to_device_bytes;
        const auto made = d.mesons(false, m.spec, s, s);
        const uint64_t moved = d.session.context->device->transfers().to_device_bytes - before;
        CHECK(moved >= 3 * 768u * small.volume());
        CHECK(moved < 4 * 768u * small.volume());
        std::vector<Number> norms(small.n[3]);
        for (const auto &field : s)
            for (int site = 0; site < small.volume(); ++site)
                for (const auto &spin : field[site].d)
                    norms[small.coordinates(site)[3]] += 0.3 * reference::norm2(spin);
        CHECK(reference::relative_difference(made, norms) <= sum_error<double>);
        const auto copy = s;
        CHECK(d.mesons(false, m.spec, s, copy) == made);
    }
}

TEST_CASE("terms of one correlator add up; terms that differ in the sink alone share a contraction", "[operators]") {
    Dirac<double> d(small, Backend::host);
    const auto s1 = propagators(small, 1, 60), s2 = propagators(small, 1, 70);
    Mesons m(MILCGPU_GAMMAS_MILC, some_pairs, momenta_about({0, 0, 0, 0}));
    const auto apart = d.mesons(false, m.spec, s1, s2);
    for (auto &term : m.terms)
        term.correlator = term.in == 4 ? 1 : 0;
    m.spec.n_correlators = 2;
    const auto together = d.mesons(false, m.spec, s1, s2);
    std::vector<Number> wanted(2 * size_t(small.n[3]));
    for (size_t k = 0; k < m.terms.size(); ++k)
        for (int t = 0; t < small.n[3]; ++t)
            wanted[m.terms[k].correlator * small.n[3] + t] += apart[k * small.n[3] + t];
    CHECK(reference::relative_difference(together, wanted) <= 1e-14);
    m.spec.n_terms = 0; // adds nothing
    CHECK(d.mesons(false, m.spec, s1, s2) == std::vector<Number>(wanted.size()));
}

TEST_CASE("open mesons are explicit matrices, and the gamma at the sink closes them", "[operators]") {
    for (const Backend backend : backends())
        for (const reference::Lattice &lattice : {shapes[1], shapes[2]}) {
            const auto check = [&](auto real, const Mesons &m) {
                using Real = decltype(real);
                Dirac<Real> d(lattice, backend);
                const std::vector<SpinWilsonField> s1{rounded<Real>(lattice, propagators(lattice, 1, 60)[0])},
                    s2{rounded<Real>(lattice, propagators(lattice, 1, 70)[0])};
                const size_t size = 144 * size_t(lattice.n[3]);
                const auto open = d.mesons(true, m.spec, s1, s2);
                const auto closed = d.mesons(false, m.spec, s1, s2);
                for (int k = 0; k < m.spec.n_terms; ++k) {
                    const auto &term = m.terms[k];
                    CAPTURE(name(backend), sizeof(Real), lattice.n[0], k);
                    std::vector<Number> wanted, traced;
                    for (const auto &slice : reference::open_dirac_meson(
                             lattice, s1[0], s2[0], matrix(m.basis, term.in), m.momenta[term.momentum]))
                        for (const Number &z : slice)
                            wanted.push_back(m.weight(k) * z);
                    const auto one = part(open, k, size);
                    CHECK(apart(one, wanted, 4 * slice(lattice)) <= sum_error<Real>);
                    const SpinMatrix out = matrix(m.basis, term.out);
                    for (int t = 0; t < lattice.n[3]; ++t) {
                        Number sum = 0;
                        for (int c = 0; c < 3; ++c)
                            for (int a = 0; a < 4; ++a)
                                for (int b = 0; b < 4; ++b)
                                    sum += out[b][a] * one[t * 144 + ((c * 4 + a) * 4 + b) * 3 + c];
                        traced.push_back(sum);
                    }
                    CHECK(apart(traced, part(closed, k, lattice.n[3]), 48 * slice(lattice)) <= sum_error<Real>);
                }
            };
            const auto momenta = momenta_about({1, 0, 3, 0});
            check(double(), Mesons(MILCGPU_GAMMAS_MILC, {{4, 4}, {0, 5}, {9, 14}},
                                   {momenta[0], momenta[1], momenta[4], momenta[5]}));
            check(float(), Mesons(MILCGPU_GAMMAS_DEGRAND_ROSSI, {{5, 5}, {11, 3}}, {momenta[3]}));
        }
}

TEST_CASE("contractions of Dirac fields have the same bits for any threads and launch shape", "[operators]") {
    const reference::Lattice lattice{{4, 6, 6, 8}};
    const auto momenta = momenta_about({1, 0, 3, 0});
    const WilsonField phi = reference::random_wilson_field(lattice, 7),
                      psi = reference::random_wilson_field(lattice, 8);
    const auto s1 = propagators(lattice, 1, 60), s2 = propagators(lattice, 1, 70);
    const Mesons m(MILCGPU_GAMMAS_MILC, some_pairs, momenta);
    for (const Backend backend : backends()) {
        std::vector<std::vector<Number>> made;
        for (int choice = 0; choice < thread_choices(backend); ++choice) {
            const Threads threads(backend, choice);
            Dirac<double> d(lattice, backend, threads.block);
            made.push_back(d.slices(MILCGPU_GAMMAS_MILC, momenta, phi, psi));
            for (const bool open : {false, true}) {
                const auto more = d.mesons(open, m.spec, s1, s2);
                made.back().insert(made.back().end(), more.begin(), more.end());
            }
            CHECK(made.back() == made.front());
        }
    }
}

namespace {

const Extents whole = {6, 4, 6, 8};

// What a rank computes for its box: numbers of sites, written to their places in `sites`, and correlators.
std::vector<Number> on_rank(Here &here, const std::vector<double> &phi, const std::vector<double> &prop,
                            std::vector<double> &sites) {
    const auto left = Fields::part(phi, here.places, 24);
    const auto s = Fields::part(prop, here.places, 96);
    std::vector<double> own(32 * here.places.size());
    const milcgpu_field l = field_of(left), to = field_of(own), propagator = field_of(s);
    demand(milcgpu_dirac_sites(here.context, MILCGPU_GAMMAS_MILC, &l, &l, &to));
    Fields::put(sites, own, here.places, 32);
    const Mesons m(MILCGPU_GAMMAS_MILC, some_pairs, momenta_about({1, 0, 3, 0}));
    const size_t slices = size_t(m.spec.n_momenta) * 16 * whole[3], mesons = size_t(m.spec.n_terms) * whole[3];
    std::vector<Number> sums(slices + 145 * mesons);
    const auto from = [&](size_t k) { return reinterpret_cast<double *>(&sums[k]); };
    const milcgpu_dirac_spec spec{sizeof spec, m.basis, {1, 0, 3}, m.spec.n_momenta, m.spec.momenta};
    demand(milcgpu_dirac_slices(here.context, &spec, &l, &l, from(0)));
    demand(milcgpu_dirac_mesons(here.context, &m.spec, 1, &propagator, &propagator, from(slices)));
    demand(milcgpu_dirac_open_mesons(here.context, &m.spec, 1, &propagator, &propagator, from(slices + mesons)));
    return sums;
}

} // namespace

TEST_CASE("Dirac contractions over ranks and on odd boxes have the sites of one rank, the sums to rounding",
          "[operators][ranks][cut]") {
    const Fields fields = fields_on(whole, true);
    const auto phi = to_milc<double>(fields.lattice, reference::random_wilson_field(fields.lattice, 80));
    const auto prop = to_milc<double>(fields.lattice, reference::random_spin_wilson_field(fields.lattice, 81));
    struct Contractions {
        std::vector<double> sites;
        std::vector<std::vector<Number>> sums;
    };
    const auto work = [&](const Cut &cut, Backend backend) {
        Contractions made{std::vector<double>(32 * size_t(fields.lattice.volume()), -7), {}};
        made.sums.resize(cut.ranks());
        CHECK(all_well(on_cut(fields, cut, backend, [&](Here &here, Ending &) {
            made.sums[here.rank()] = on_rank(here, phi, prop, made.sites);
        })));
        return made;
    };
    for (const Backend backend : backends()) {
        const Contractions one = work({whole, {1, 1, 1, 1}, 0}, backend);
        for (const Cut &cut : {Cut{whole, {2, 1, 1, 1}, 0}, // odd local extents
                               Cut{whole, {2, 1, 2, 1}, 0}, // an odd extent in x and z
                               Cut{whole, {1, 1, 1, 2}, 4, 1}}) {
            CAPTURE(text_of(cut), name(backend));
            const Contractions many = work(cut, backend);
            CHECK(same_bits(many.sites, one.sites));
            for (const auto &sums : many.sums)
                CHECK(sums == many.sums[0]);
            CHECK(reference::relative_difference(many.sums[0], one.sums[0]) <= sum_error<double>);
        }
    }
}

TEST_CASE("ranks that contract Dirac fields must pass the same arguments", "[operators][ranks][cut]") {
    const Extents extents = {4, 2, 2, 8};
    const Fields fields = fields_on(extents, true);
    const auto phi = to_milc<double>(fields.lattice, reference::random_wilson_field(fields.lattice, 80));
    const auto prop = to_milc<double>(fields.lattice, reference::random_spin_wilson_field(fields.lattice, 81));
    const Cut cut{extents, {1, 1, 1, 2}, 0};
    // A change of rank 1's arguments, and what the message of every rank names.
    struct Twist {
        int gamma;
        bool nan;
        milcgpu_status status;
        const char *says;
    };
    for (const Twist &twist : {Twist{5, false, MILCGPU_BAD_ARGUMENT, "spec.terms[0].in"},
                               Twist{4, true, MILCGPU_NAN_OR_INF, "src1[0]: the site x y z t = 3 1 0 4 holds"}}) {
        const auto endings = on_cut(fields, cut, Backend::host, [&](Here &here, Ending &ending) {
            auto s = Fields::part(prop, here.places, 96);
            Mesons m(MILCGPU_GAMMAS_MILC, {{4, 4}}, {{{0, 0, 0}, {'B', 'B', 'B'}, {0, 0, 0, 0}}});
            if (here.rank() == 1) {
                m.terms[0].in = twist.gamma;
                if (twist.nan)
                    s[3 * 96 + 50] = NAN;
            }
            const milcgpu_field propagator = field_of(s);
            std::vector<double> sums(2 * size_t(extents[3]), 3);
            ending.status = milcgpu_dirac_mesons(here.context, &m.spec, 1, &propagator, &propagator, sums.data());
            ending.text = milcgpu_last_error();
            if (sums != std::vector<double>(sums.size(), 3))
                ending.text = "correlators were written";
        });
        for (const Ending &ending : endings) {
            CAPTURE(ending.text);
            CHECK(ending.status == twist.status);
            CHECK(has(ending.text, twist.says));
        }
    }
}

TEST_CASE("contractions of Dirac fields refuse bad input by name and leave outputs untouched",
          "[operators][sanitize]") {
    for (const Backend backend : backends()) {
        Dirac<double> d(small, backend);
        milcgpu_context *const context = d.session.context;
        auto phi = to_milc<double>(small, reference::random_wilson_field(small, 90)), psi = phi;
        auto s1 = to_milc<double>(small, reference::random_spin_wilson_field(small, 91)), s2 = s1;
        std::vector<float> single(phi.begin(), phi.end());
        std::vector<double> out(32 * size_t(small.volume()), -7), sums(2000, -7);
        const auto out_before = out, sums_before = sums;
        const milcgpu_field left = d.session.field(phi), right = d.session.field(psi), to = d.session.field(out),
                            in_single = Session<float>::field(single), none{nullptr, MILCGPU_DOUBLE, 0},
                            narrow{phi.data(), MILCGPU_DOUBLE, 184};
        milcgpu_field first[2] = {d.session.field(s1), d.session.field(s1)},
                      second[2] = {d.session.field(s2), d.session.field(s2)};
        const auto refused = [&](milcgpu_status status, const char *what, milcgpu_status as = MILCGPU_BAD_ARGUMENT) {
            CAPTURE(name(backend), what, milcgpu_last_error());
            CHECK(status == as);
            CHECK(last_error_says(what));
            CHECK(out == out_before);
            CHECK(sums == sums_before);
        };
        const auto sites = [&](int numbers, const milcgpu_field *a, const milcgpu_field *b, const milcgpu_field *c) {
            return milcgpu_dirac_sites(context, numbers, a, b, c);
        };
        refused(milcgpu_dirac_sites(nullptr, 0, &left, &right, &to), "context is NULL");
        refused(sites(2, &left, &right, &to), "numbers is 2");
        refused(sites(-2, &left, &right, &to), "numbers is -2");
        refused(sites(0, nullptr, &right, &to), "phi");
        refused(sites(0, &left, &none, &to), "psi: data is NULL");
        refused(sites(0, &left, &right, nullptr), "to");
        refused(sites(0, &left, &in_single, &to), "psi is in single precision");
        refused(sites(0, &in_single, &in_single, &to), "to is in double precision");
        refused(sites(0, &narrow, &right, &to), "phi: pitch of 184 bytes");
        psi[24 * 7 + 13] = NAN;
        refused(sites(MILCGPU_OPEN_SPIN, &left, &right, &to), "psi: the site x y z t = 0 3 1 0 holds",
                MILCGPU_NAN_OR_INF);
        psi[24 * 7 + 13] = 1e300, phi[24 * 7 + 13] = 1e300;
        refused(sites(MILCGPU_OPEN_SPIN, &left, &right, &to), "so large", MILCGPU_NAN_OR_INF);
        const milcgpu_momentum rest{{0, 0, 0}, {3, 3, 3}}, wrong{{0, 0, 0}, {3, 4, 3}};
        milcgpu_dirac_spec spec{sizeof spec, 0, {0, 0, 0}, 1, &rest};
        const auto slices = [&] { return milcgpu_dirac_slices(context, &spec, &left, &right, sums.data()); };
        refused(slices(), "too large", MILCGPU_NAN_OR_INF);
        psi[24 * 7 + 13] = 1, phi[24 * 7 + 13] = 1, phi[24 * (small.volume() / 2 + 2)] = INFINITY;
        refused(slices(), "phi: the site x y z t = 1 2 0 0 holds", MILCGPU_NAN_OR_INF);
        phi[24 * (small.volume() / 2 + 2)] = 1;
        refused(milcgpu_dirac_slices(context, nullptr, &left, &right, sums.data()), "spec is NULL");
        refused(milcgpu_dirac_slices(context, &spec, &left, &right, nullptr), "sums is NULL");
        const auto with = [&](auto change, const char *what) {
            const milcgpu_dirac_spec before = spec;
            change();
            refused(slices(), what);
            spec = before;
        };
        with([&] { spec.struct_size = 8; }, "milcgpu_dirac_spec.struct_size is 8");
        with([&] { spec.basis = 7; }, "basis is 7");
        with([&] { spec.origin[1] = 4; }, "origin[Y] is 4");
        with([&] { spec.n_momenta = 0; }, "spec.n_momenta is 0");
        with([&] { spec.momenta = nullptr; }, "spec.momenta is NULL");
        with([&] { spec.momenta = &wrong; }, "spec.momenta[0].parity[1] is 4");

        milcgpu_dirac_term term{4, 4, 0, 0, 1, 0};
        milcgpu_dirac_meson_spec mesons{sizeof mesons, 0, {0, 0, 0}, 1, 1, 1, &rest, &term};
        int n = 2;
        const auto both = [&](const char *what, milcgpu_status as = MILCGPU_BAD_ARGUMENT) {
            refused(milcgpu_dirac_mesons(context, &mesons, n, first, second, sums.data()), what, as);
            refused(milcgpu_dirac_open_mesons(context, &mesons, n, first, second, sums.data()), what, as);
        };
        const auto changed = [&](auto change, const char *what) {
            const auto mesons_before = mesons;
            const auto term_before = term;
            change();
            both(what);
            mesons = mesons_before, term = term_before, n = 2;
        };
        changed([&] { mesons.struct_size = 0; }, "milcgpu_dirac_meson_spec.struct_size is 0");
        changed([&] { mesons.basis = -1; }, "basis is -1");
        changed([&] { mesons.origin[2] = -1; }, "origin[Z] is -1");
        changed([&] { mesons.n_correlators = 0; }, "n_correlators is 0");
        changed([&] { mesons.n_terms = -1; }, "n_terms is -1");
        changed([&] { mesons.terms = nullptr; }, "spec.terms is NULL");
        changed([&] { mesons.momenta = nullptr; }, "spec.momenta is NULL");
        changed([&] { term.in = 16; }, "spec.terms[0].in is 16");
        changed([&] { term.momentum = 1; }, "momentum 1 of 1");
        changed([&] { term.correlator = -1; }, "spec.terms[0].correlator is -1");
        changed([&] { term.phase = 4; }, "spec.terms[0].phase is 4");
        changed([&] { term.factor = NAN; }, "spec.terms[0].factor is nan");
        changed([&] { n = 0; }, "n is 0");
        term.out = -1; // ignored if the sink is open
        refused(milcgpu_dirac_mesons(context, &mesons, n, first, second, sums.data()), "spec.terms[0].out is -1");
        term.out = 4;
        refused(milcgpu_dirac_mesons(context, &mesons, n, nullptr, second, sums.data()), "src1 is NULL");
        refused(milcgpu_dirac_mesons(context, &mesons, n, first, nullptr, sums.data()), "src2 is NULL");
        refused(milcgpu_dirac_mesons(context, &mesons, n, first, second, nullptr), "correlators is NULL");
        second[1].precision = MILCGPU_SINGLE;
        both("src2[1] is in single precision");
        second[1].precision = MILCGPU_DOUBLE;
        auto third = s2;
        third[96 * 4 + 95] = -INFINITY;
        second[1] = d.session.field(third);
        both("src2[1]: the site x y z t = 1 0 1 0 holds", MILCGPU_NAN_OR_INF);
        third[96 * 4 + 95] = 1;
        mesons.n_terms = 0; // no terms: the call succeeds
        CHECK(milcgpu_dirac_mesons(context, &mesons, n, first, second, sums.data()) == MILCGPU_OK);
        CHECK(sums == sums_before);
        char label[4];
        int rows[4];
        refused(milcgpu_gamma_label(0, 16, label, sizeof label), "index is 16");
        refused(milcgpu_gamma_label(1, 6, label, sizeof label), "the label G5G1 needs 5 characters");
        refused(milcgpu_gamma_label(0, 0, nullptr, 4), "label is NULL");
        refused(milcgpu_gamma_matrix(0, -1, rows, rows), "index is -1");
        refused(milcgpu_gamma_matrix(0, 1, nullptr, rows), "column is NULL");
        CHECK(milcgpu_gamma_index(MILCGPU_GAMMAS_DEGRAND_ROSSI, "GX") == -1);
        CHECK(last_error_says("'GX'"));
        CHECK(milcgpu_gamma_index(3, "GX") == -1);
        CHECK(milcgpu_gamma_index(0, nullptr) == -1);
    }
}
