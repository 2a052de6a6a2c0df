// The program spectrum: its correlators against propagators of the reference, free quarks, MILC's ks_spectrum, and
// gauge transformations; and the numbers that it makes of them.
#include "examples/lib/effective_mass.h"
#include "examples/lib/heatbath.h"
#include "tests/program_support.h"
#include "tests/reference/baryons.h"
#include "tests/reference/gauge.h"
#include "tests/reference/mesons.h"
#include "tests/reference/staggered.h"
#include <complex>
#include <map>
#include <sstream>

using examples::Correlator;
using reference::Complex;
using reference::Fermion;
using reference::Lattice;
using tests::Folder;
using tests::Run;

namespace {

// Correlators by quark mass, source and hadron, as the program writes them.
struct Spectrum {
    struct Row {
        double value, error, mass, error_of_mass;
    };
    std::map<std::string, std::vector<Row>> rows; // "0.1 smeared pion"
    Run run;
    Correlator of(const std::string &name) const {
        Correlator c;
        for (const Row &row : rows.at(name))
            c.push_back(row.value);
        return c;
    }
};

Spectrum spectrum(const std::string &words, const std::string &grid = "", int ranks = 1) {
    const Folder folder;
    const std::string csv = folder.path.string() + "/spectrum.csv";
    Spectrum result;
    result.run = tests::run_program("spectrum --backend host --csv " + csv + " " + words, grid, ranks);
    REQUIRE(result.run.status == 0);
    CHECK(result.run.count("every check is right\n") == 1);
    tests::check_pictures(csv, {"spectrum"});
    const tests::Table rows = tests::table(csv);
    for (size_t k = 1; k < rows.size(); ++k) {
        auto &these = result.rows[rows[k].at(0) + " " + rows[k].at(1) + " " + rows[k].at(2)];
        REQUIRE(std::stoul(rows[k].at(3)) == these.size());
        these.push_back(
            {std::stod(rows[k].at(4)), std::stod(rows[k].at(5)), std::stod(rows[k].at(6)), std::stod(rows[k].at(7))});
    }
    return result;
}

// The largest difference, over the largest number.
double difference(const Correlator &a, const Correlator &b) {
    REQUIRE(a.size() == b.size());
    double worst = 0, largest = 0;
    for (size_t t = 0; t < a.size(); ++t) {
        const double off = std::fabs(a[t] - b[t]);
        worst = off <= worst || worst != worst ? worst : off; // NaN stays
        largest = std::max(largest, std::fabs(b[t]));
    }
    return worst / largest;
}

constexpr const char *hadrons[] = {"pion", "rho", "nucleon"};

// A meson with a partner of opposite parity; 0 for no partner.
Correlator meson(int nt, double mass, double partner_mass, double partner) {
    Correlator c;
    for (int t = 0; t < nt; ++t)
        c.push_back(3 * std::cosh(mass * (t - nt / 2.0)) +
                    (t % 2 == 0 ? 1 : -1) * partner * std::cosh(partner_mass * (t - nt / 2.0)));
    return c;
}
Correlator baryon(int nt, double mass, double partner_mass, double partner) {
    Correlator c;
    for (int t = 0; t < nt; ++t) {
        const int sign = t % 2 == 0 ? 1 : -1;
        c.push_back(2 * (std::exp(-mass * t) - sign * std::exp(-mass * (nt - t))) +
                    partner * (sign * std::exp(-partner_mass * t) - std::exp(-partner_mass * (nt - t))));
    }
    return c;
}

// M^-1 eta, M = 2m + D, by the reference.
Fermion propagator(const Lattice &lattice, const reference::HisqLinks &links, double mass, const Fermion &eta) {
    Fermion x(eta.size(), reference::Vector{});
    for (const int parity : {0, 1})
        x = reference::conjugate_gradient(lattice, links.fat, links.lng, mass, parity, eta, x, 1e-12, 1000).x;
    const Fermion d = reference::dslash(lattice, links.fat, links.lng, x);
    for (size_t k = 0; k < x.size(); ++k)
        x[k] = 2 * mass * x[k] - d[k];
    return x;
}

// The three correlators of three colours from time t0.
std::vector<Correlator> hadrons_of(const Lattice &lattice, const std::vector<Fermion> &g, int t0) {
    const int nt = lattice.n[3];
    std::vector<Correlator> of(3, Correlator(nt));
    for (int site = 0; site < lattice.volume(); ++site) {
        const auto x = lattice.coordinates(site);
        const int t = (x[3] - t0 + nt) % nt;
        double norm = 0, signs = 0;
        for (const Fermion &colour : g)
            norm += reference::norm2(colour[site]);
        for (int k = 0; k < 3; ++k)
            signs += x[k] % 2 == 0 ? 1.0 / 3 : -1.0 / 3;
        of[0][t] += norm, of[1][t] += signs * norm;
        if (x[0] % 2 != 0 || x[1] % 2 != 0 || x[2] % 2 != 0)
            continue;
        Complex sum = 0;
        for (int a = 0; a < 3; ++a) {
            const int b = (a + 1) % 3, c = (a + 2) % 3;
            sum += g[0][site].c[a] * (g[1][site].c[b] * g[2][site].c[c] - g[1][site].c[c] * g[2][site].c[b]);
        }
        of[2][t] += x[3] < t0 ? -sum.real() : sum.real();
    }
    return of;
}

} // namespace

TEST_CASE("effective masses are the masses of the states, also with partners", "[measurements][sanitize]") {
    const Correlator pion = meson(14, 0.4, 0, 0), rho = meson(14, 0.5, 0.9, 1.5), nucleon = baryon(40, 0.8, 1.1, 1.2);
    for (int t = 1; t <= 7; ++t)
        CHECK(std::fabs(examples::meson_mass(pion, t) - 0.4) < 1e-12);
    for (int t = 2; t < 7; ++t)
        CHECK(std::fabs(examples::meson_mass_with_partner(rho, t) - 0.5) < 1e-11);
    // A heavier state instead of the partner.
    Correlator two = meson(14, 0.5, 0, 0);
    for (int t = 0; t < 14; ++t)
        two[t] += 0.3 * std::cosh(1.2 * (t - 7));
    for (int t = 2; t < 7; ++t)
        CHECK(std::fabs(examples::meson_mass_with_partner(two, t) - 0.5) < 1e-10);
    // The part from the other end is of order e^(-M (T - 2t)).
    for (int t = 1; t < 10; ++t)
        CHECK(std::fabs(examples::nucleon_mass(nucleon, t) - 0.8) < 10 * std::exp(-0.8 * (40 - 2 * (t + 2))));
    CHECK(std::isnan(examples::meson_mass(pion, 0)));
    CHECK(std::isnan(examples::meson_mass(pion, 8)));
    CHECK(std::isnan(examples::meson_mass_with_partner(rho, 1)));
    CHECK(std::isnan(examples::meson_mass_with_partner(rho, 7)));
    CHECK(std::isnan(examples::nucleon_mass(nucleon, 0)));
    CHECK(std::isnan(examples::nucleon_mass(nucleon, 18)));
    CHECK(std::isnan(examples::meson_mass({1, -2, 1, -2}, 1)));
    CHECK(examples::meson_mass({3, 1}, 1) == Approx(std::acosh(3)));
    for (int t = 0; t < 6; ++t)
        for (int nt = t + 1; nt <= 6; ++nt) { // all within the numbers
            examples::meson_mass_with_partner(Correlator(nt, 1.0), t);
            examples::nucleon_mass(Correlator(nt, 1.0), t);
        }
    // Folding does not change any of these.
    CHECK(difference(examples::folded(rho, false), rho) < 1e-15);
    CHECK(difference(examples::folded(nucleon, true), nucleon) < 1e-15);
    CHECK(difference(examples::folded({5, 2, 3, 4}, false), {5, 3, 3, 3}) == 0);
    CHECK(difference(examples::folded({5, 2, 3, 4}, true), {5, 3, 0, 3}) == 0);
}

TEST_CASE("jackknife errors of a mean and of a square", "[measurements][sanitize]") {
    const std::vector<Correlator> samples = {{1, 3}, {2, 7}, {4, -1}, {9, 0}, {3, 3}};
    // For a mean: the standard error.
    const examples::Estimate mean = examples::jackknife(samples, [](const Correlator &c) { return c[0]; });
    double squares = 0;
    for (const Correlator &sample : samples)
        squares += std::pow(sample[0] - 3.8, 2);
    CHECK(mean.value == Approx(3.8).epsilon(1e-14));
    CHECK(mean.error == Approx(std::sqrt(squares / 4 / 5)).epsilon(1e-13));
    // For the square of a mean of two, by hand: (3/2)^2, and 4 and 1 without one of the two.
    const examples::Estimate square = examples::jackknife({{1}, {2}}, [](const Correlator &c) { return c[0] * c[0]; });
    CHECK(square.value == 2.25);
    CHECK(square.error == Approx(std::sqrt(0.5 * 2 * 1.5 * 1.5)).epsilon(1e-14));
    CHECK(std::isnan(examples::jackknife({{1}}, [](const Correlator &c) { return c[0]; }).error));
}

TEST_CASE("free quarks in time solve the equation of motion, with the energy of the dispersion relation",
          "[measurements][sanitize]") {
    const int nt = 10;
    const double mass = 0.2;
    const std::vector<double> g = examples::free_quark(nt, mass);
    const auto at = [&](int t) { return t < 0 ? -g[t + nt] : t >= nt ? -g[t - nt] : g[t]; };
    for (int t = 0; t < nt; ++t) {
        const double d = 9.0 / 8 * (at(t + 1) - at(t - 1)) - (at(t + 3) - at(t - 3)) / 24;
        CHECK(std::fabs(2 * mass * g[t] + d - (t == 0)) < 1e-14);
    }
    for (const double m : {0.01, 0.3, 0.9}) {
        const double e = examples::free_energy(m);
        CHECK(std::fabs(9.0 / 8 * std::sinh(e) - std::sinh(3 * e) / 24 - m) < 1e-14);
        CHECK(e < std::asinh(std::sqrt(2.0)));
    }
    CHECK(examples::free_energy(0) == 0);
    CHECK(std::isnan(examples::free_energy(0.95)));
}

TEST_CASE("programs: spectrum of free quarks from every wall, and their masses", "[measurements]") {
    NEED_MPIRUN;
    const std::string free = "--sweeps 0 --source wall ";
    for (const std::string words : {"--wall corner --size 4 6 10 4 --masses 0.1,0.4 --first-slice 3",
                                    "--wall even --size 2 4 4 8 --masses 0.2 --first-slice 1 --action asqtad",
                                    "--wall full --size 4 2 4 6 --masses 0.2 --sources-in-time 3", "--size 2 2 2 2"}) {
        const Spectrum s = spectrum(free + words);
        CHECK(s.run.count("correlators of free quarks, relative to the largest") == 1);
    }
    const Spectrum s = spectrum(free + "--size 2 2 2 64 --masses 0.3");
    // Correlators of two, two, and three quarks. The pion's cannot see the quark that went around, with (-1)^t.
    const double quark = 0.300186846;
    for (const int k : {0, 1, 2}) {
        const auto &rows = s.rows.at(std::string("0.3 corner-wall ") + hadrons[k]);
        for (const int t : {10, 11})
            CHECK(std::fabs(rows.at(t).mass - (k == 2 ? 3 : 2) * quark) < (k == 0 ? 2e-4 : 5e-5));
    }
    CHECK(s.run.count("free quarks of mass 0.3 have energy 0.300187: pion and rho 0.600374, nucleon 0.900560") == 1);
}

TEST_CASE("programs: the correlators of spectrum are the contractions of the reference's propagators",
          "[measurements]") {
    NEED_MPIRUN;
    const Lattice lattice{{4, 2, 4, 6}};
    const int t0 = 5, steps = 4;
    const double mass = 0.15, width = 1.5;
    const Spectrum s =
        spectrum("--size 4 2 4 6 --sweeps 2 --seed 3 --masses 0.15 --first-slice 5 --not-fixed --width 1.5 "
                 "--smear-steps 4 --wall even --tolerance 1e-12");
    const reference::Gauge u = examples::thermalized(lattice, 6.0, 3, 2, 4);
    reference::Gauge phased = u;
    reference::apply_phases(lattice, phased);
    const reference::HisqLinks links = reference::hisq_links(lattice, phased, 0);
    const auto smear = [&](Fermion &psi, int slice) {
        for (int step = 0; step < steps; ++step) {
            const Fermion change = reference::laplacian(lattice, u, 2, slice, psi);
            for (size_t k = 0; k < psi.size(); ++k)
                psi[k] = psi[k] + width * width / (16 * steps) * change[k];
        }
    };
    for (const std::string source : {"even-wall", "smeared"}) {
        std::vector<Fermion> g;
        for (int c = 0; c < 3; ++c) {
            Fermion eta(lattice.volume(), reference::Vector{});
            for (int site = 0; site < lattice.volume(); ++site) {
                const auto x = lattice.coordinates(site);
                const bool on = source == "smeared" ? x[0] + x[1] + x[2] == 0 : (x[0] + x[1] + x[2]) % 2 == 0;
                eta[site].c[c] = on && x[3] == t0;
            }
            if (source == "smeared")
                smear(eta, t0);
            g.push_back(propagator(lattice, links, mass, eta));
            if (source == "smeared")
                smear(g.back(), -1);
        }
        const std::vector<Correlator> wanted = hadrons_of(lattice, g, t0);
        for (int k = 0; k < 3; ++k) {
            CAPTURE(source, hadrons[k]);
            CHECK(difference(s.of("0.15 " + source + " " + hadrons[k]), wanted[k]) < 2e-11);
        }
    }
    // The same field in a file, in single precision.
    const Folder folder;
    const std::string file = folder.path.string() + "/lat";
    REQUIRE(tests::run_program("make_lattice --size 4 2 4 6 --sweeps 2 --seed 3 --out " + file).status == 0);
    const Spectrum of_file =
        spectrum("--masses 0.15 --first-slice 5 --not-fixed --width 1.5 --smear-steps 4 --wall even "
                 "--tolerance 1e-12 --lattice " +
                 file);
    for (const std::string name : {"0.15 even-wall nucleon", "0.15 smeared nucleon", "0.15 smeared pion"})
        CHECK(difference(of_file.of(name), s.of(name)) < 1e-6);
}

TEST_CASE("programs: baryons of two octets are those of the reference's propagators, on one rank and on two",
          "[measurements][baryons][ranks][mpi]") {
    NEED_MPIRUN;
    const Lattice lattice{{4, 2, 4, 6}};
    const int t0 = 3, nt = 6;
    const std::string words = "spectrum --backend host --size 4 2 4 6 --sweeps 2 --seed 3 --masses 0.15,0.4 --octets "
                              "--first-slice 3 --not-fixed --source wall --tolerance 1e-12";
    reference::Gauge phased = examples::thermalized(lattice, 6.0, 3, 2, 4);
    reference::apply_phases(lattice, phased);
    const reference::HisqLinks links = reference::hisq_links(lattice, phased, 0);
    reference::Octet octets[2];
    for (int k = 0; k < 2 * 8 * 3; ++k) {
        const int s = k / 3 % 8, c = k % 3;
        Fermion eta(lattice.volume(), reference::Vector{});
        for (int site = 0; site < lattice.volume(); ++site) {
            const auto x = lattice.coordinates(site);
            eta[site].c[c] = x[0] % 2 + 2 * (x[1] % 2) + 4 * (x[2] % 2) == s && x[3] == t0;
        }
        octets[k / 24][s][c] = propagator(lattice, links, k < 24 ? 0.15 : 0.4, eta);
    }
    const char *const classes[] = {"2", "3", "41", "42", "61", "62", "7"};
    for (const int ranks : {1, 2}) {
        const Run run = tests::run_program(words, ranks == 2 ? "1 1 1 2" : "", ranks);
        REQUIRE(run.status == 0);
        CHECK(run.count("every check is right\n") == 1);
        CHECK(run.count("MiB  shifted quarks and sums of tie-ups\n") == 1);
        std::istringstream table(run.output.substr(run.output.find("masses 0.15 0.15 0.4\n")));
        std::string line;
        std::getline(table, line), std::getline(table, line);
        Correlator printed[7];
        for (int t = 0; t < nt; ++t)
            for (int k = -1; k < 7; ++k) {
                double value = NAN;
                table >> value;
                if (k >= 0)
                    printed[k].push_back(value);
            }
        for (int k = 0; k < 7; ++k) {
            const std::string op = std::string("16+ M ") + classes[k];
            const auto all = reference::gb_correlator(lattice, {&octets[0], &octets[0], &octets[1]}, op, op, "2point",
                                                      false, false, false, {});
            Correlator wanted;
            for (int t = 0; t < nt; ++t)
                wanted.push_back((t + t0 < nt ? 1 : -1) * all[(t + t0) % nt].real());
            CAPTURE(ranks, op);
            CHECK(difference(printed[k], wanted) < 6e-7); // half of the last digit
        }
    }
}

TEST_CASE("programs: spectrum has the correlators of MILC's ks_spectrum_hisq", "[measurements]") {
    NEED_MPIRUN;
    NEED_SAMPLE("lat.sample.l4444");
    // develop 9782cb00, PRECISION=2, on the CPU: coulomb_gauge_fix, corner_wall and covariant_gaussian (stride 2, r0 2,
    // 20 iterations; on the quark, too) of a point at t = 1, even_wall at t = 2; mass 0.05. 7 digits are printed.
    const std::vector<std::pair<std::string, Correlator>> wanted = {
        {"corner-wall pion", {5.771788e-01, 4.979513e+00, 4.030316e-01, 4.875257e+00}},
        {"corner-wall rho", {2.142244e-01, 4.803105e+00, 1.275699e-01, 4.692181e+00}},
        {"corner-wall nucleon", {7.543744e-04, 7.218770e-01, 1.586598e-07, 6.979328e-01}},
        {"even-wall pion", {2.396759e+00, 2.076343e+01, 1.332002e+00, 1.973240e+01}},
        {"even-wall rho", {-5.606847e-02, -8.710245e-03, 1.680981e-02, -1.588980e-01}},
        {"even-wall nucleon", {8.261010e-04, 7.972451e-01, -1.394348e-06, 7.110051e-01}},
        {"smeared pion", {3.159548e-03, 2.048148e-02, 1.009277e-03, 2.249845e-02}},
        {"smeared rho", {1.150035e-03, 2.007658e-02, 3.227755e-04, 2.212207e-02}},
        {"smeared nucleon", {1.911395e-07, 1.904200e-04, 1.543100e-10, 2.181567e-04}}};
    const std::string words = "--masses 0.05 --tolerance 1e-11 --lattice " + sample_file("lat.sample.l4444");
    const Spectrum corner = spectrum(words + " --first-slice 1"),
                   even = spectrum(words + " --source wall --wall even --first-slice 2");
    for (const auto &row : wanted) {
        const bool is_even = row.first.compare(0, 4, "even") == 0;
        const Correlator c = (is_even ? even : corner).of("0.05 " + row.first);
        for (size_t t = 0; t < 4; ++t) {
            CAPTURE(row.first, t);
            CHECK(std::fabs(c[t] / row.second[t] - 1) < 5.1e-7); // half of the last digit
        }
    }
    CHECK(corner.run.count("Coulomb gauge after 23 steps, mean trace 0.894048") == 1);
}

TEST_CASE("programs: smeared correlators do not depend on the gauge, correlators of a wall do", "[measurements]") {
    NEED_MPIRUN;
    const std::string words = "--size 4 4 2 6 --sweeps 3 --masses 0.2 --not-fixed --tolerance 1e-12 ";
    const Spectrum one = spectrum(words), other = spectrum(words + "--transform 7");
    for (const char *hadron : hadrons) {
        const std::string smeared = std::string("0.2 smeared ") + hadron,
                          wall = std::string("0.2 corner-wall ") + hadron;
        CAPTURE(hadron);
        CHECK(difference(other.of(smeared), one.of(smeared)) < 5e-13);
        CHECK(difference(other.of(wall), one.of(wall)) > 0.02);
    }
}

TEST_CASE("programs: spectrum averages over configurations and over slices, in any precisions", "[measurements]") {
    NEED_MPIRUN;
    const std::string words = "--size 4 4 4 4 --masses 0.2 --source smeared --tolerance 1e-9 ";
    const Spectrum first = spectrum(words + "--sweeps 2"),
                   second = spectrum(words + "--sweeps 5 --precisions double/half"),
                   both = spectrum(words + "--sweeps 2 --between 3 --configurations 2"),
                   slices = spectrum(words + "--sweeps 2 --sources-in-time 2"),
                   later = spectrum(words + "--sweeps 2 --first-slice 2");
    const auto check = [](const Spectrum &all, const Spectrum &one, const Spectrum &other) {
        for (const char *hadron : hadrons) {
            const std::string name = std::string("0.2 smeared ") + hadron;
            const Correlator a = one.of(name), b = other.of(name), mean = all.of(name);
            for (size_t t = 0; t < a.size(); ++t) {
                CAPTURE(hadron, t);
                const double size = std::fabs(a[t]) + std::fabs(b[t]);
                CHECK(std::fabs(mean[t] - (a[t] + b[t]) / 2) < 1e-8 * size);
                CHECK(std::fabs(all.rows.at(name)[t].error - std::fabs(a[t] - b[t]) / 2) < 1e-8 * size);
                CHECK(std::isnan(one.rows.at(name)[t].error));
            }
        }
    };
    check(both, first, second);
    check(slices, first, later);
    CHECK(both.run.count("errors from 2 configurations\n") == 1);
    CHECK(slices.run.count("errors from 2 slice(s) of one configuration\n") == 1);
    CHECK(both.run.count("\nseconds: heat bath ") == 1);
}

TEST_CASE("programs: spectrum on ranks has the correlators of one rank", "[measurements][ranks][mpi]") {
    NEED_MPIRUN;
    const std::string words = "--size 4 4 6 8 --sweeps 3 --masses 0.2 --first-slice 5 --tolerance 1e-12";
    const Spectrum one = spectrum(words);
    for (const std::string grid : {"1 1 1 2", "1 1 2 1"}) {
        const Spectrum two = spectrum(words, grid, 2);
        CHECK(two.run.count("configuration 1 of 1: ") == 1); // only rank 0 prints
        for (const std::string source : {"corner-wall ", "smeared "})
            for (const char *hadron : hadrons)
                CHECK(difference(two.of("0.2 " + source + hadron), one.of("0.2 " + source + hadron)) < 2e-12);
    }
}

TEST_CASE("programs: spectrum refuses bad input with a message", "[measurements]") {
    NEED_MPIRUN;
    const auto refused = [](const std::string &options, int status, const std::string &why,
                            const std::string &lattice = "--size 4 4 4 4 --sweeps 0 ") {
        const Run r = tests::run_program("spectrum --backend host " + lattice + options);
        CHECK(r.status == status);
        CHECK(r.count(why) == 1);
    };
    refused("--source point", 2, "--source: 'point' must be one of wall, smeared, both");
    refused("--wall odd", 2, "--wall: 'odd' must be one of corner, even, full");
    refused("--masses 0.1,0", 2, "--masses: '0.1,0' must be between commas, each a number above 0");
    refused("--masses 0.1,x", 2, "--masses: '0.1,x' must be");
    refused("--precisions double", 2, "--precisions: 'double' must be one of double/double");
    refused("--sources-in-time 3", 2, "--sources-in-time must divide the extent in time, 4");
    refused("--first-slice 4", 2, "--first-slice must be below the extent in time, 4");
    refused("--configurations 0", 2, "--configurations: '0' must be");
    refused("--csv /nowhere/csv", 2, "/nowhere/csv cannot be written");
    refused("--lattice /nowhere/lat", 1, "/nowhere/lat cannot be opened ", "");
    refused("--lattice /nowhere/lat", 2, "--lattice excludes --size");
    refused("--width -1", 2, "--width: '-1' must be");
    // Double precision cannot reach this residual, and the library refuses it.
    refused("--tolerance 1e-18", 1, "spectrum: ");
}
