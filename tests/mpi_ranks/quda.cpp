// MILC's own GPU switches on ranks: the calls of MILC, against the whole lattice on each rank alone.
#define MPI_COMMS // as MILC's Makefile defines it
#include "examples/lib/boxes.h"
#include "milc_glue/api/milcgpu_mesons.h"
#include "milc_glue/api/milcgpu_wilson.h"
#include "milc_glue/quda_compat/quda_milc_interface.h"
#include "tests/mpi_ranks/parts.h"
#include "tests/reference/su3.h"
#include "tests/sized.h"
#include <algorithm>
#include <cmath>
#include <complex>
#include <vector>

namespace {

// ---- MILC's side: layout_hyper_prime with --geom 1 1 z t.

int nx = 4, ny = 4, nz, nt;
size_t sites_on_node;
std::array<int, 4> grid;

milcgpu_layout box_of(int rank) { return examples::layout_on_grid({nx, ny, nz, nt}, grid, rank); }
int node_number(int, int, int z, int t) { return z / (nz / grid[2]) + grid[2] * (t / (nt / grid[3])); }
void get_coords(int coords[], int node, size_t index) {
    const milcgpu_layout box = box_of(node);
    const reference::Lattice all{{nx, ny, nz, nt}};
    static const std::vector<int> order = reference::milc_order(all); // the site of each place
    const auto x = all.coordinates(order[examples::places_of(box)[index]]);
    std::copy(x.begin(), x.end(), coords);
}

// ---- Fields of the whole lattice in MILC's order, equal on all ranks, and this rank's part.

std::vector<double> numbers(size_t count, uint64_t seed, double size) {
    std::vector<double> all(count);
    for (double &each : all) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        each = size * (static_cast<double>(seed >> 11) * 0x1p-53 - 0.5);
    }
    return all;
}

struct Field {
    size_t reals;
    std::vector<double> all, mine;
    Field(const std::vector<size_t> &places, size_t volume, size_t reals_a_site, uint64_t seed, double size)
        : reals(reals_a_site), all(numbers(volume * reals, seed, size)), mine(part(places, all)) {}
    std::vector<double> part(const std::vector<size_t> &places, const std::vector<double> &whole) const {
        std::vector<double> part;
        for (const size_t place : places)
            part.insert(part.end(), whole.begin() + place * reals, whole.begin() + (place + 1) * reals);
        return part;
    }
};

bool near(double a, double b, double tolerance) { return std::abs(a - b) <= tolerance * std::abs(b); }

// ---- Loops of the whole lattice, the slow way.

using Complex = std::complex<double>;
struct Matrix {
    Complex e[3][3] = {};
};
Matrix times(const Matrix &a, const Matrix &b, bool adjoint) {
    Matrix c;
    for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 3; ++j)
            for (int k = 0; k < 3; ++k)
                c.e[i][j] += a.e[i][k] * (adjoint ? std::conj(b.e[j][k]) : b.e[k][j]);
    return c;
}
// The sum over all sites; steps 0 to 3 go along x, y, z, t and 7 - mu goes back. signs: multiply by the staggered
// phases and the boundary sign.
Complex trace_of_loop(const std::vector<double> &links, const std::vector<int> &steps, bool signs = false) {
    const reference::Lattice all{{nx, ny, nz, nt}};
    const auto link = [&](int site, int mu) {
        const size_t place = (static_cast<size_t>(all.parity(site)) * all.volume() + site) / 2;
        Matrix u;
        for (int k = 0; k < 9; ++k)
            u.e[k / 3][k % 3] = {links[72 * place + 18 * mu + 2 * k], links[72 * place + 18 * mu + 2 * k + 1]};
        return u;
    };
    const auto sign = [&](int site, int mu) {
        const auto x = all.coordinates(site);
        const int before[4] = {x[3], x[3] + x[0], x[3] + x[0] + x[1], x[3] == nt - 1};
        return signs && before[mu] % 2 != 0 ? -1.0 : 1.0;
    };
    Complex sum = 0;
    for (int start = 0; start < all.volume(); ++start) {
        Matrix loop;
        loop.e[0][0] = loop.e[1][1] = loop.e[2][2] = 1;
        int site = start;
        double phase = 1;
        for (const int step : steps) {
            const int mu = step > 3 ? 7 - step : step;
            site = step > 3 ? all.neighbour(site, mu, -1) : site;
            loop = times(loop, link(site, mu), step > 3);
            phase *= sign(site, mu);
            site = step > 3 ? site : all.neighbour(site, mu, 1);
        }
        sum += phase * (loop.e[0][0] + loop.e[1][1] + loop.e[2][2]);
    }
    return sum;
}

void observables(const Field &gauge, const Field &momenta) {
    std::vector<double> links = gauge.mine, h = momenta.mine;
    QudaMILCSiteArg_t arg{};
    arg.link = links.data(), arg.mom = h.data();
    const reference::Lattice all{{nx, ny, nz, nt}};
    double space = 0, time = 0;
    for (int mu = 1; mu < 4; ++mu)
        for (int nu = 0; nu < mu; ++nu)
            (mu == 3 ? time : space) += trace_of_loop(gauge.all, {mu, nu, 7 - mu, 7 - nu}).real();
    double plaquettes[3];
    qudaPlaquettePhased(2, plaquettes, &arg, 0);
    check(near(plaquettes[1], space / (9 * all.volume()), 1e-12), "plaquettes in space");
    check(near(plaquettes[2], time / (9 * all.volume()), 1e-12), "plaquettes in time");
    double ours[2];
    qudaPolyakovLoopPhased(2, ours, 3, &arg, 0);
    const Complex line = trace_of_loop(gauge.all, std::vector<int>(nt, 3)) / double(all.volume());
    check(std::abs(Complex(ours[0], ours[1]) - line) < 1e-12 * std::abs(line), "the Polyakov loop");
    qudaPolyakovLoopPhased(2, ours, 0, &arg, 0);
    check(std::isnan(ours[0]), "the Polyakov loop in x");
    double action = 0; // of ten numbers the last is not used; 4 a link are subtracted
    for (size_t k = 0; k < momenta.all.size(); ++k)
        action += k % 10 == 9 ? -4 : (k % 10 < 6 ? 1 : 0.5) * momenta.all[k] * momenta.all[k];
    check(near(qudaMomAction(2, &arg), action, 1e-12), "the action of the momenta");

    // Around corners, up to two sites beyond the box.
    std::vector<std::vector<int>> loops = {
        {2, 3, 5, 4}, {4, 4, 5, 3, 3, 2}, {3, 3, 2, 2, 4, 4, 5, 5}, {5, 4, 0, 2, 3, 7}};
    std::vector<int *> paths;
    std::vector<int> lengths;
    for (auto &loop : loops)
        paths.push_back(loop.data()), lengths.push_back(static_cast<int>(loop.size()));
    std::vector<double> weights = {1, 2, -1, 0.5}, traces(8);
    for (const bool phases : {false, true}) {
        qudaGaugeLoopTracePhased(2, traces.data(), paths.data(), lengths.data(), weights.data(), 4, 8, 3, &arg, phases);
        for (size_t k = 0; k < loops.size(); ++k) {
            const Complex expected = 3 * weights[k] * trace_of_loop(gauge.all, loops[k], phases);
            check(std::abs(Complex(traces[2 * k], traces[2 * k + 1]) - expected) < 1e-12 * std::abs(expected),
                  "loop " + std::to_string(k));
        }
    }
    std::vector<int> far(2 * 3);
    std::fill_n(far.begin(), far.size() / 2, 3);
    std::fill(far.begin() + far.size() / 2, far.end(), 4);
    int *far_path = far.data(), far_length = static_cast<int>(far.size());
    double one = 1;
    qudaGaugeLoopTracePhased(2, traces.data(), &far_path, &far_length, &one, 1, far_length, 1, &arg, 0);
    check(std::isnan(traces[0]), "a loop that comes three sites away");
}

// Shifts, operators, smearing and contractions, against the whole lattice on this rank alone.
void measurements(const Field &gauge, const Field &quark, const Field &other, const std::vector<size_t> &places) {
    const int origin[4] = {1, 0, nz - 1, 2}, slice = nt - 2, n_mom = 2;
    auto alone = tests::sized<milcgpu_layout>();
    const int whole[4] = {nx, ny, nz, nt};
    std::copy_n(whole, 4, alone.extent);
    const auto lent = [](const std::vector<double> &data) {
        return milcgpu_field{const_cast<double *>(data.data()), MILCGPU_DOUBLE, 0};
    };
    std::vector<double> shifted(quark.all.size()), made(quark.all.size()), smeared = quark.all;
    const milcgpu_field u = lent(gauge.all), q = lent(quark.all), r = lent(other.all), to_shifted = lent(shifted),
                        to_made = lent(made), to_smeared = lent(smeared);
    const milcgpu_quarks from{&q, nullptr, 0}, second{&r, nullptr, 0}, of_shift{&to_shifted, nullptr, 0},
        of_operator{&to_made, nullptr, 0}, of_smearing{&to_smeared, nullptr, 0};
    auto phased = tests::sized<milcgpu_meson_links_spec>(), as_they_are = phased;
    as_they_are.signs = MILCGPU_SIGNS_OUT;
    std::copy_n(origin, 4, phased.origin);
    int modes[4 * n_mom] = {0, 0, 0, 0, 1, -1, 2, 0};
    QudaFFTSymmType types[4 * n_mom] = {QUDA_FFT_SYMM_EO,   QUDA_FFT_SYMM_EO, QUDA_FFT_SYMM_EO, QUDA_FFT_SYMM_EO,
                                        QUDA_FFT_SYMM_EVEN, QUDA_FFT_SYMM_EO, QUDA_FFT_SYMM_EO, QUDA_FFT_SYMM_EO};
    const milcgpu_momentum momenta[n_mom] = {{{0, 0, 0}, {3, 3, 3}}, {{1, -1, 2}, {2, 3, 3}}};
    const int pion5 = milcgpu_spin_taste_index("pion5");
    const milcgpu_meson_term terms[n_mom] = {{pion5, 0, 0, 1, 0}, {pion5, 1, 0, 1, 1}};
    milcgpu_meson_spec spec{sizeof spec, {}, n_mom, n_mom, n_mom, momenta, terms};
    std::copy_n(origin, 4, spec.origin);
    std::vector<double> sums(2 * n_mom * nt), sums_here(sums);
    milcgpu_context *context = nullptr;
    milcgpu_meson_links *bare = nullptr, *with_phases = nullptr;
    check(milcgpu_context_create(&alone, nullptr, &context) == MILCGPU_OK &&
              milcgpu_meson_links_create(context, MILCGPU_DOUBLE, &bare) == MILCGPU_OK &&
              milcgpu_meson_links_create(context, MILCGPU_DOUBLE, &with_phases) == MILCGPU_OK &&
              milcgpu_meson_links_load(bare, &as_they_are, &u) == MILCGPU_OK &&
              milcgpu_meson_links_load(with_phases, &phased, &u) == MILCGPU_OK &&
              milcgpu_quarks_shift(bare, 3, MILCGPU_SYMMETRIC, nullptr, 1, &from, &of_shift) == MILCGPU_OK &&
              milcgpu_quarks_spin_taste(with_phases, nullptr, milcgpu_spin_taste_index("GX-GZT"), origin, 1, &from,
                                        &of_operator) == MILCGPU_OK &&
              milcgpu_quarks_gauss_smear(bare, 2, 0.8, 2, slice, 1, &of_smearing) == MILCGPU_OK &&
              milcgpu_quarks_contract(bare, &spec, nullptr, nullptr, 1, &from, &second, sums.data()) == MILCGPU_OK,
          milcgpu_last_error());
    milcgpu_meson_links_destroy(bare), milcgpu_meson_links_destroy(with_phases);
    milcgpu_context_destroy(context);

    std::vector<double> here(quark.mine.size());
    const void *const links = gauge.mine.data();
    qudaShift(2, 2, links, quark.mine.data(), here.data(), 3, 3, 1);
    check(here == quark.part(places, shifted), "a shift has the bits of one rank");
    milcgpu_quda_origin(origin);
    qudaSpinTaste(2, 2, links, quark.mine.data(), here.data(), 1, 12, 0); // GX-GZT
    check(here == quark.part(places, made), "an operator has the bits of one rank");
    here = quark.mine;
    qudaTwoLinkGaussianSmear(2, 2, links, here.data(), {2, 0.8, 1, 0, slice, 3});
    check(here == quark.part(places, smeared), "smearing has the bits of one rank");
    here = quark.mine;
    qudaTwoLinkGaussianSmear(2, 2, nullptr, here.data(), {2, 0.8, 0, 1, slice, 3});
    check(here == quark.part(places, smeared), "smearing with the same products");
    int about[4];
    std::copy_n(origin, 4, about);
    QudaContractArgs_t contraction{n_mom, modes, types, about, 0, 0};
    qudaContractFT(2, &contraction, quark.mine.data(), other.mine.data(), sums_here.data());
    check(reference::relative_difference(sums_here, sums) < 1e-13, "correlators");
}

// qudaCloverInvert, whose vectors are gamma_5 times MILC's, against the whole lattice on this rank alone.
void clover(const Field &gauge, const Field &source, const std::vector<size_t> &places) {
    const double kappa = 0.1, coefficient = 0.02, tolerance = 1e-11;
    const auto gamma_5 = [](std::vector<double> field) {
        for (size_t k = 0; k < field.size(); ++k)
            field[k] *= k % 24 < 12 ? 1 : -1;
        return field;
    };
    auto alone = tests::sized<milcgpu_layout>();
    const int whole[4] = {nx, ny, nz, nt};
    std::copy_n(whole, 4, alone.extent);
    std::vector<double> x(source.all.size(), 0.0), rotated = gamma_5(source.all);
    const auto lent = [](const std::vector<double> &data) {
        return milcgpu_field{const_cast<double *>(data.data()), MILCGPU_DOUBLE, 0};
    };
    const milcgpu_field u = lent(gauge.all), b = lent(rotated), solution = lent(x);
    const milcgpu_wilson_spec spec{sizeof spec, kappa, coefficient / kappa, 1, MILCGPU_WILSON_BICGSTAB};
    auto how = tests::sized<milcgpu_solve_spec>();
    how.parity = MILCGPU_EVEN;
    how.tolerance = tolerance;
    how.max_iterations = 1000, how.max_restarts = 1;
    how.precise.precision = MILCGPU_DOUBLE;
    auto report = tests::sized<milcgpu_solve_report>();
    milcgpu_context *context = nullptr;
    milcgpu_wilson *handle = nullptr;
    check(milcgpu_context_create(&alone, nullptr, &context) == MILCGPU_OK &&
              milcgpu_wilson_create(context, &handle) == MILCGPU_OK && milcgpu_wilson_load(handle, &u) == MILCGPU_OK &&
              milcgpu_wilson_solve(handle, &spec, &how, &b, &solution, &report) == MILCGPU_OK,
          milcgpu_last_error());
    milcgpu_wilson_destroy(handle);
    milcgpu_context_destroy(context);

    QudaInvertArgs_t invert{};
    invert.max_iter = 1000;
    std::vector<double> here = source.mine, solved(here.size(), NAN);
    double residual = 1, fermilab = 0;
    int iterations = -1;
    qudaCloverInvert(2, 2, kappa, coefficient, invert, tolerance, 0, gauge.mine.data(), nullptr, nullptr, here.data(),
                     solved.data(), &residual, &fermilab, &iterations);
    check(residual < tolerance && fermilab == 1, "the true residual of a clover solve: " + std::to_string(residual));
    check(std::abs(iterations - report.iterations) <= 1, "iterations of a clover solve");
    check(reference::relative_difference(gamma_5(solved), source.part(places, x)) < 1e-10,
          "the solution of a clover solve");
    // The Fermilab residual of the whole lattice.
    qudaCloverInvert(2, 2, kappa, coefficient, invert, 0, tolerance, gauge.mine.data(), nullptr, nullptr, here.data(),
                     solved.data(), &residual, &fermilab, &iterations);
    check(fermilab < tolerance, "the Fermilab residual");
    check(reference::relative_difference(gamma_5(solved), source.part(places, x)) < 1e-10,
          "the solution by the Fermilab residual");
}

} // namespace

void quda_door(const milcgpu_messages &table, void *job) {
    grid = table.size == 4 ? std::array<int, 4>{1, 1, 2, 2} : std::array<int, 4>{1, 1, 1, table.size};
    const auto extent = [](int ranks) { return ranks > 1 ? 3 * ranks : 4; }; // boxes begin at odd places, too
    nz = extent(grid[2]), nt = extent(grid[3]);
    const milcgpu_layout box = box_of(table.rank);
    sites_on_node = size_t(box.extent[0]) * box.extent[1] * box.extent[2] * box.extent[3];
    const int whole[4] = {nx, ny, nz, nt};
    QudaInitArgs_t init{};
    init.layout.latsize = whole;
    init.layout.machsize = grid.data();
    qudaSetMPICommHandle(job);
    qudaInit(init);

    const std::vector<size_t> places = examples::places_of(box);
    const size_t volume = sites_on_node * table.size;
    const Field fat(places, volume, 72, 1, 0.4), lng(places, volume, 72, 2, 0.2), b(places, volume, 6, 3, 1),
        gauge(places, volume, 72, 4, 1), momenta(places, volume, 40, 5, 2);

    // The whole lattice on this rank alone, by the C interface.
    auto alone = tests::sized<milcgpu_layout>();
    std::copy_n(whole, 4, alone.extent);
    const auto lent = [](const std::vector<double> &data) {
        return milcgpu_field{const_cast<double *>(data.data()), MILCGPU_DOUBLE, 0};
    };
    milcgpu_context *context = nullptr;
    milcgpu_links *links = nullptr;
    const milcgpu_field f = lent(fat.all), l = lent(lng.all), source = lent(b.all);
    std::vector<double> x(b.all.size()), d(b.all.size());
    const milcgpu_field solution = lent(x), image = lent(d);
    auto spec = tests::sized<milcgpu_solve_spec>();
    spec.parity = MILCGPU_EVEN;
    spec.mass = 0.3, spec.tolerance = 1e-10;
    spec.max_iterations = 1000, spec.max_restarts = 5;
    spec.precise.precision = MILCGPU_DOUBLE;
    auto report = tests::sized<milcgpu_solve_report>();
    const milcgpu_storage what{MILCGPU_DOUBLE, 0};
    auto paths = tests::sized<milcgpu_fatlink_spec>();
    paths.unitarity = -1;
    paths.paths = {0.6, -0.03, -0.06, 0.02, -0.003, -0.06};
    std::vector<double> made_fat(gauge.all.size()), made_long(gauge.all.size());
    const milcgpu_field u = lent(gauge.all), to_fat = lent(made_fat), to_long = lent(made_long);
    const milcgpu_fatlink_set set{0, &to_fat, &to_long, nullptr};
    check(milcgpu_context_create(&alone, nullptr, &context) == MILCGPU_OK &&
              milcgpu_links_create(context, &f, &l, &links) == MILCGPU_OK &&
              milcgpu_staggered_solve(links, &spec, &source, &solution, &report) == MILCGPU_OK &&
              milcgpu_staggered_dslash(links, &what, MILCGPU_ODD, &source, &image) == MILCGPU_OK &&
              milcgpu_links_make(context, &paths, &u, &set, 1, nullptr, nullptr) == MILCGPU_OK,
          milcgpu_last_error());
    milcgpu_links_destroy(links);
    milcgpu_context_destroy(context);

    QudaInvertArgs_t invert{};
    invert.max_iter = 1000;
    invert.evenodd = QUDA_EVEN_PARITY;
    std::vector<double> mine = b.mine, solved(b.mine.size(), 0.0);
    double residual = 1, relative = 0;
    int iterations = -1;
    qudaInvert(2, 2, 0.3, invert, 1e-10, 0, fat.mine.data(), lng.mine.data(), mine.data(), solved.data(), &residual,
               &relative, &iterations);
    check(residual < 1e-10 && relative == 1, "the true residual: " + std::to_string(residual));
    check(std::abs(iterations - report.iterations) <= 1, "iterations");
    const double off = reference::relative_difference(solved, b.part(places, x));
    check(off < 1e-9, "the solution: " + std::to_string(off));

    double offsets[3] = {0.36, 0.5, 2}, tolerances[3] = {1e-10, 1e-10, 1e-10}, no_tolerances[3] = {0, 0, 0};
    double residuals[3], relatives[3];
    std::vector<std::vector<double>> several(3, std::vector<double>(b.mine.size()));
    void *fields[3] = {several[0].data(), several[1].data(), several[2].data()};
    qudaMultishiftInvert(2, 2, 3, offsets, invert, tolerances, no_tolerances, fat.mine.data(), lng.mine.data(),
                         mine.data(), fields, residuals, relatives, &iterations);
    check(*std::max_element(residuals, residuals + 3) < 1e-10, "true residuals of several masses");
    check(reference::relative_difference(several[0], solved) < 1e-9, "the mass that was solved alone");

    std::vector<double> image_here(b.mine.size(), 0.0);
    invert.evenodd = QUDA_ODD_PARITY;
    qudaDslash(2, 2, invert, fat.mine.data(), lng.mine.data(), mine.data(), image_here.data(), &iterations);
    check(image_here == b.part(places, d), "D has the bits of one rank");

    const double coefficients[6] = {0.6, -0.03, -0.06, 0.02, -0.003, -0.06};
    std::vector<double> inlinks = gauge.mine, fat_here(gauge.mine.size()), long_here(gauge.mine.size());
    qudaLoadKSLink(2, {}, coefficients, inlinks.data(), fat_here.data(), long_here.data());
    check(fat_here == gauge.part(places, made_fat) && long_here == gauge.part(places, made_long),
          "links have the bits of one rank");

    observables(gauge, momenta);
    measurements(gauge, b, Field(places, volume, 6, 6, 1), places);
    clover(gauge, Field(places, volume, 24, 7, 1), places);
    qudaFinalize();
}
