// The interface that MILC's own GPU switches call (milc_glue/quda_compat), against tests/reference. A program has one
// lattice and one precision there, as MILC has, so other tests run the tests marked "alone" in a program of their own.
#include "milc_glue/api/plugin.h"
#include "milc_glue/routines/state.h"
#include "tests/environment.h"
#include "tests/failing_new.h"
#include "tests/quda_support.h"
#include "tests/run_support.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>

using namespace tests;

namespace {

const reference::Lattice lattice{{4, 6, 4, 4}};

// A field in MILC's order, `each` elements a site.
template <class Field> Field ordered(const Field &from, int each) {
    const auto order = reference::milc_order(lattice);
    Field to = from;
    for (int k = 0; k < lattice.volume(); ++k)
        for (int j = 0; j < each; ++j)
            to[each * k + j] = from[each * order[k] + j];
    return to;
}

double difference(const void *a, const void *b, size_t reals) {
    double dd = 0, bb = 0;
    for (size_t i = 0; i < reals; ++i) {
        const double x = static_cast<const double *>(a)[i], y = static_cast<const double *>(b)[i];
        dd += (x - y) * (x - y);
        bb += y * y;
    }
    return std::sqrt(dd / bb);
}

// The same numbers in single precision.
template <class Element> std::vector<float> in_single(const std::vector<Element> &field) {
    const double *x = reinterpret_cast<const double *>(field.data());
    return std::vector<float>(x, x + field.size() * sizeof(Element) / sizeof(double));
}

// Reals [begin, end) of a field in single precision against the right values.
template <class Element>
double single_difference(const std::vector<float> &a, const std::vector<Element> &truth, size_t begin = 0,
                         size_t end = 0) {
    const std::vector<double> x(a.begin(), a.end());
    return difference(x.data() + begin, reinterpret_cast<const double *>(truth.data()) + begin,
                      (end > 0 ? end : a.size()) - begin);
}

// While `call` runs, every allocation of host memory fails.
void without_memory(const std::function<void()> &call) {
    all_fail = true;
    news_left = 0;
    call();
    news_left = -1;
}

} // namespace

TEST_CASE("quda_compat: each header compiles alone, in C99 and in C++11, and in any order", "[quda_compat]") {
    const std::string folder = "milc_glue/quda_compat";
    for (const std::string compiler : {"gcc -std=c99 -x c", "g++ -std=c++11 -x c++"})
        for (const std::string headers :
             {"quda.h", "enum_quda.h", "quda_milc_interface.h", "quda.h quda_milc_interface.h",
              "quda_milc_interface.h quda.h enum_quda.h quda_milc_interface.h"}) {
            std::string text;
            for (size_t at = 0; at < headers.size();) {
                const size_t end = std::min(headers.find(' ', at), headers.size());
                text += "#include <" + headers.substr(at, end - at) + ">\\n";
                at = end + 1;
            }
            const std::string command = "printf '" + text + "int unused;\\n' | " + compiler +
                                        " -Wall -Wextra -Wpedantic -Werror -fsyntax-only -Imilc_glue/api -I" + folder +
                                        " -";
            INFO(command);
            CHECK(std::system(command.c_str()) == 0);
        }
}

TEST_CASE("quda_compat: links, solves, D and observables are right by MILC's calls", "[quda_compat][sanitize]") {
    const Environment quiet{{"MILCGPU_VERBOSE", "0"}};
    reference::Rng rng(77);
    reference::Gauge u(4 * lattice.volume());
    for (auto &link : u)
        link = reference::random_near_unit_su3(rng, 0.35);
    const auto plain = u;
    reference::apply_phases(lattice, u);
    auto milc_u = ordered(u, 4);
    const size_t half = lattice.volume() / 2;

    // Before qudaInit no call works, and no output looks like a result.
    QudaInvertArgs_t args{};
    args.max_iter = 2000;
    args.evenodd = QUDA_EVEN_PARITY;
    double residual = 0, relative = 0;
    int iterations = 7;
    auto x = ordered(reference::random_fermion(lattice, 3), 1), untouched = x;
    auto b = ordered(reference::random_fermion(lattice, 4), 1);
    qudaInvert(2, 2, 0.1, args, 1e-9, 0, milc_u.data(), milc_u.data(), b.data(), x.data(), &residual, &relative,
               &iterations);
    CHECK(residual == INFINITY);
    CHECK(iterations == 0);
    CHECK(std::memcmp(x.data(), untouched.data(), x.size() * sizeof x[0]) == 0);

    const int size[4] = {4, 6, 4, 4}, ranks[4] = {1, 1, 1, 1};
    qudaSetMPICommHandle(nullptr);
    qudaInit({QUDA_SILENT, {size, ranks, 0}});

    // Fat and long links.
    const auto c = reference::asqtad_coefficients(0.9);
    const double paths[6] = {c.one_link, c.naik, c.three_staple, c.five_staple, c.seven_staple, c.lepage};
    reference::Gauge fat(u.size()), lng(u.size()), v(u.size()), w(u.size());
    qudaLoadKSLink(2, {0}, paths, milc_u.data(), fat.data(), lng.data());
    CHECK(reference::relative_difference(fat, ordered(reference::fat_links(lattice, u, c), 4)) < 3e-15);
    CHECK(reference::relative_difference(lng, ordered(reference::long_links(lattice, u, c), 4)) < 3e-15);
    reference::Gauge fat_alone(u.size());
    qudaLoadKSLink(2, {0}, paths, milc_u.data(), fat_alone.data(), nullptr);
    CHECK(reference::relative_difference(fat_alone, fat) < 1e-14);
    const auto f = reference::hisq_fat7_coefficients();
    const double fat7[6] = {f.one_link, f.naik, f.three_staple, f.five_staple, f.seven_staple, f.lepage};
    const auto hisq = reference::hisq_links(lattice, u, 0);
    qudaHisqParamsInit({1, 0, 1e-8, 1e-8, 5e-5});
    qudaLoadUnitarizedLink(2, {1}, fat7, milc_u.data(), v.data(), w.data());
    CHECK(reference::relative_difference(v, ordered(hisq.v, 4)) < 3e-15);
    CHECK(reference::relative_difference(w, ordered(hisq.w, 4)) < 3e-15);
    reference::Gauge w_alone(u.size());
    qudaLoadUnitarizedLink(2, {1}, fat7, milc_u.data(), nullptr, w_alone.data());
    CHECK(reference::relative_difference(w_alone, w) < 1e-14);

    // Solves in each mixture of precisions. The links change in place, and num_iters does not tell.
    const auto rfat = reference::fat_links(lattice, u, c), rlng = reference::long_links(lattice, u, c);
    const auto rb = reference::random_fermion(lattice, 4);
    for (const int mixed : {0, 1, 2})
        for (const int parity : {0, 1}) {
            args.mixed_precision = mixed;
            args.evenodd = parity == 0 ? QUDA_EVEN_PARITY : QUDA_ODD_PARITY;
            x = untouched;
            qudaInvert(2, 2, 0.1, args, 1e-10, 0, fat.data(), lng.data(), b.data(), x.data(), &residual, &relative,
                       &iterations);
            const auto truth = reference::conjugate_gradient(lattice, rfat, rlng, 0.1, parity, rb,
                                                             reference::random_fermion(lattice, 3), 1e-10, 5000);
            CHECK(residual < 1e-10);
            CHECK(relative == 1);
            if (mixed == 0)
                CHECK(iterations == truth.iterations);
            CHECK(difference(x.data() + parity * half, ordered(truth.x, 1).data() + parity * half, 6 * half) < 1e-8);
            CHECK(std::memcmp(x.data() + (1 - parity) * half, untouched.data() + (1 - parity) * half,
                              half * sizeof x[0]) == 0);
        }
    args.mixed_precision = 0;
    args.evenodd = QUDA_EVEN_PARITY;
    for (auto &link : fat)
        for (auto &row : link.e)
            for (auto &z : row)
                z *= 1.1;
    auto scaled = rfat;
    for (auto &link : scaled)
        link = 1.1 * link;
    x = untouched;
    iterations = 0;
    qudaInvert(2, 2, 0.1, args, 1e-10, 0, fat.data(), lng.data(), b.data(), x.data(), &residual, &relative,
               &iterations);
    const auto after = reference::conjugate_gradient(lattice, scaled, rlng, 0.1, 0, rb,
                                                     reference::random_fermion(lattice, 3), 1e-10, 5000);
    CHECK(difference(x.data(), ordered(after.x, 1).data(), 6 * half) < 1e-8);

    // Several sources, then several offsets.
    auto x2 = untouched, b2 = ordered(reference::random_fermion(lattice, 5), 1);
    x = untouched;
    void *sources[2] = {b.data(), b2.data()}, *solutions[2] = {x.data(), x2.data()};
    qudaInvertMsrc(2, 2, 0.1, args, 1e-10, 0, fat.data(), lng.data(), sources, solutions, &residual, &relative,
                   &iterations, 2);
    CHECK(residual < 1e-10);
    CHECK(iterations > after.iterations);
    CHECK(difference(x.data(), ordered(after.x, 1).data(), 6 * half) < 1e-8);
    double offsets[2] = {0.36, 0.04}, targets[2] = {1e-10, 0}, fermilab[2] = {0, 0}, finals[2], relatives[2];
    qudaMultishiftInvert(2, 2, 2, offsets, args, targets, fermilab, fat.data(), lng.data(), b.data(), solutions, finals,
                         relatives, &iterations);
    CHECK(finals[0] < 1e-10);
    CHECK(finals[1] < 1e-10);
    CHECK(difference(x2.data(), ordered(after.x, 1).data(), 6 * half) < 1e-8); // offset 0.04 is mass 0.1

    // If both tolerances are 0 when squared, as MILC tests them, the call does nothing, and no output looks like a
    // result.
    for (const double none : {0.0, 1e-300, double(NAN)}) {
        x = untouched;
        double finals_of[2] = {}, none_of[2] = {none, none};
        qudaInvert(2, 2, 0.1, args, none, 0, fat.data(), lng.data(), b.data(), x.data(), &residual, &relative,
                   &iterations);
        CHECK((residual == INFINITY && iterations == 0));
        CHECK(std::memcmp(x.data(), untouched.data(), x.size() * sizeof x[0]) == 0);
        qudaMultishiftInvert(2, 2, 2, offsets, args, none_of, fermilab, fat.data(), lng.data(), b.data(), solutions,
                             finals_of, relatives, &iterations);
        CHECK((finals_of[0] == INFINITY && finals_of[1] == INFINITY && iterations == 0));
    }
    qudaInvert(2, 2, 0.1, args, -1e-10, 0, fat.data(), lng.data(), b.data(), x.data(), &residual, &relative,
               &iterations);
    CHECK(residual < 1e-10);

    // max_iter limits all iterations, like MILC's max times its restarts; MILC's last residual counts one more.
    args.max_iter = 6;
    x = untouched;
    qudaInvert(2, 2, 0.1, args, 1e-10, 0, fat.data(), lng.data(), b.data(), x.data(), &residual, &relative,
               &iterations);
    CHECK(iterations == 7);
    CHECK(residual > 1e-10);
    qudaMultishiftInvert(2, 2, 2, offsets, args, targets, fermilab, fat.data(), lng.data(), b.data(), solutions, finals,
                         relatives, &iterations);
    CHECK(iterations == 6);
    CHECK(finals[1] > 1e-10);
    // With a tolerance below rounding the recursion converges again and again, and the limit holds.
    args.max_iter = 2 * after.iterations;
    qudaInvert(2, 2, 0.1, args, 1e-17, 0, fat.data(), lng.data(), b.data(), x.data(), &residual, &relative,
               &iterations);
    CHECK(iterations > after.iterations);
    CHECK(iterations <= args.max_iter + 1);
    CHECK(residual > 1e-17);
    CHECK(residual < 1e-14);
    args.max_iter = 2000;
    // A solution that a second start completes counts as one solution, with the residual that was asked for.
    const auto &account = milcgpu::plugin().ledger[MILCGPU_KS_CONGRAD];
    for (const double asked : {8e-16, 6e-16, 5e-16, 4e-16, 3e-16}) {
        const auto before = account;
        x = untouched;
        qudaInvert(2, 2, 0.1, args, asked, 0, fat.data(), lng.data(), b.data(), x.data(), &residual, &relative,
                   &iterations);
        INFO(asked << " " << residual << " " << iterations);
        CHECK(account.calls - before.calls == 1);
        CHECK(account.solutions - before.solutions == 1);
        CHECK(account.missed - before.missed == (residual > asked));
    }

    // D, in place.
    auto y = untouched;
    args.evenodd = QUDA_ODD_PARITY;
    qudaDslash(2, 2, args, fat.data(), lng.data(), y.data(), y.data(), &iterations);
    const auto dx = ordered(reference::dslash(lattice, scaled, rlng, reference::random_fermion(lattice, 3)), 1);
    CHECK(difference(y.data() + half, dx.data() + half, 6 * half) < 5e-15);
    CHECK(std::memcmp(y.data(), untouched.data(), half * sizeof y[0]) == 0);

    // Fields in MILC's sites.
    std::vector<Site<double>> sites(lattice.volume());
    double action = 0;
    for (int i = 0; i < lattice.volume(); ++i)
        for (int mu = 0; mu < 4; ++mu) {
            std::memcpy(sites[i].link[mu], &milc_u[4 * i + mu], sizeof sites[i].link[mu]);
            for (int k = 0; k < 10; ++k)
                sites[i].mom[mu][k] = reference::uniform(rng);
            for (int k = 0; k < 9; ++k)
                action += (k < 6 ? 1.0 : 0.5) * sites[i].mom[mu][k] * sites[i].mom[mu][k];
            action -= 4;
        }
    QudaMILCSiteArg_t arg = site_argument(sites.data());
    CHECK(qudaMomAction(2, &arg) == Approx(action).epsilon(1e-12));
    double plaq[3], ploop[2];
    qudaPlaquettePhased(2, plaq, &arg, 1);
    const auto parts = reference::plaquette_parts(lattice, plain);
    CHECK(plaq[1] == Approx(parts.space_space).epsilon(1e-12));
    CHECK(plaq[2] == Approx(parts.space_time).epsilon(1e-12));
    CHECK(plaq[0] == Approx(0.5 * (parts.space_space + parts.space_time)).epsilon(1e-12));
    qudaPolyakovLoopPhased(2, ploop, 3, &arg, 1);
    reference::Complex loops = 0;
    for (int s = 0; s < lattice.volume() / lattice.n[3]; ++s) {
        reference::Matrix m = plain[4 * s + 3];
        for (int t = 1; t < lattice.n[3]; ++t)
            m = m * plain[4 * lattice.neighbour(s, 3, t) + 3];
        loops += m.e[0][0] + m.e[1][1] + m.e[2][2];
    }
    loops /= lattice.volume() / lattice.n[3];
    CHECK(ploop[0] == Approx(loops.real()).epsilon(1e-12));
    CHECK(ploop[1] == Approx(loops.imag()).margin(1e-12));

    // The device is lost on the way: the host backend continues.
    milcgpu_plugin_inject_fault(MILCGPU_FAULT_DEVICE_LOST);
    args.evenodd = QUDA_EVEN_PARITY;
    x = untouched;
    qudaInvert(2, 2, 0.1, args, 1e-10, 0, fat.data(), lng.data(), b.data(), x.data(), &residual, &relative,
               &iterations);
    CHECK(residual < 1e-10);
    CHECK(difference(x.data(), ordered(after.x, 1).data(), 6 * half) < 1e-8);

    // Bad input is marked in the outputs.
    qudaInvert(1, 1, 0.1, args, 1e-6, 0, fat.data(), lng.data(), b.data(), x.data(), &residual, &relative, &iterations);
    CHECK(residual == INFINITY); // the precision differs from the one before
    CHECK(std::isnan(qudaMomAction(3, &arg)));
    void *room = qudaAllocatePinned(1000);
    REQUIRE(room != nullptr);
    qudaFreePinned(room);
    qudaFinalize();
}

TEST_CASE("quda_compat: fields in single precision are right", "[quda_compat][sanitize]") {
    CHECK(alone("'[quda_compat_single]'") == 0);
}

TEST_CASE("quda_compat alone: fields in single precision", "[.][quda_compat_single]") {
    const Environment quiet{{"MILCGPU_VERBOSE", "0"}};
    reference::Rng rng(78);
    reference::Gauge u(4 * lattice.volume());
    for (auto &link : u)
        link = reference::random_near_unit_su3(rng, 0.35);
    const auto plain = u;
    reference::apply_phases(lattice, u);
    const size_t half = 3 * lattice.volume(); // reals of a parity
    const auto single_u = in_single(ordered(u, 4));
    const int size[4] = {4, 6, 4, 4}, ranks[4] = {1, 1, 1, 1};
    qudaInit({QUDA_SILENT, {size, ranks, 0}});

    const auto c = reference::asqtad_coefficients(0.9);
    const double paths[6] = {c.one_link, c.naik, c.three_staple, c.five_staple, c.seven_staple, c.lepage};
    const auto rfat = reference::fat_links(lattice, u, c), rlng = reference::long_links(lattice, u, c);
    auto in = single_u, fat = single_u, lng = single_u, v = single_u, w = single_u;
    qudaLoadKSLink(1, {0}, paths, in.data(), fat.data(), lng.data());
    CHECK(single_difference(fat, ordered(rfat, 4)) < 4e-7);
    CHECK(single_difference(lng, ordered(rlng, 4)) < 4e-7);
    const auto f = reference::hisq_fat7_coefficients();
    const double fat7[6] = {f.one_link, f.naik, f.three_staple, f.five_staple, f.seven_staple, f.lepage};
    const auto hisq = reference::hisq_links(lattice, u, 0);
    qudaLoadUnitarizedLink(1, {1}, fat7, in.data(), v.data(), w.data());
    CHECK(single_difference(v, ordered(hisq.v, 4)) < 4e-7);
    CHECK(single_difference(w, ordered(hisq.w, 4)) < 2e-6);

    const auto rb = reference::random_fermion(lattice, 4), guess = reference::random_fermion(lattice, 3);
    auto b = in_single(ordered(rb, 1));
    const auto untouched = in_single(ordered(guess, 1));
    auto x = untouched, x2 = untouched;
    QudaInvertArgs_t args{};
    args.max_iter = 2000;
    double residual = 0, relative = 0;
    int iterations = 0;
    for (const int mixed : {0, 2})
        for (const int parity : {0, 1}) {
            args.mixed_precision = mixed;
            args.evenodd = parity == 0 ? QUDA_EVEN_PARITY : QUDA_ODD_PARITY;
            x = untouched;
            qudaInvert(1, 1, 0.1, args, 1e-5, 0, fat.data(), lng.data(), b.data(), x.data(), &residual, &relative,
                       &iterations);
            const auto truth = reference::conjugate_gradient(lattice, rfat, rlng, 0.1, parity, rb, guess, 1e-5, 5000);
            CHECK(residual < 1e-5);
            if (mixed == 0) // single precision rounds: 0 to 2 steps apart from the count in double
                CHECK(std::abs(iterations - truth.iterations) <= 2);
            CHECK(single_difference(x, ordered(truth.x, 1), parity * half, (parity + 1) * half) < 1e-3);
            CHECK(std::equal(x.begin() + (1 - parity) * half, x.begin() + (2 - parity) * half,
                             untouched.begin() + (1 - parity) * half));
        }
    args.mixed_precision = 0;
    args.evenodd = QUDA_EVEN_PARITY;
    void *solutions[2] = {x2.data(), x.data()};
    double offsets[2] = {0.36, 0.04}, targets[2] = {1e-5, 0}, fermilab[2] = {0, 0}, finals[2], relatives[2];
    qudaMultishiftInvert(1, 1, 2, offsets, args, targets, fermilab, fat.data(), lng.data(), b.data(), solutions, finals,
                         relatives, &iterations);
    const auto truth = reference::conjugate_gradient(lattice, rfat, rlng, 0.1, 0, rb, guess, 1e-8, 5000);
    CHECK(finals[0] < 1e-5);
    CHECK(finals[1] < 1e-5);
    CHECK(single_difference(x, ordered(truth.x, 1), 0, half) < 1e-3);

    x = untouched;
    args.evenodd = QUDA_ODD_PARITY;
    qudaDslash(1, 1, args, fat.data(), lng.data(), x.data(), x.data(), &iterations);
    CHECK(single_difference(x, ordered(reference::dslash(lattice, rfat, rlng, guess), 1), half, 2 * half) < 1e-6);

    std::vector<Site<float>> sites(lattice.volume());
    double action = 0;
    for (int i = 0; i < lattice.volume(); ++i)
        for (int mu = 0; mu < 4; ++mu) {
            std::copy_n(&single_u[18 * (4 * i + mu)], 18, sites[i].link[mu]);
            for (int k = 0; k < 10; ++k) {
                sites[i].mom[mu][k] = static_cast<float>(reference::uniform(rng));
                action += (k < 6 ? 1.0 : k < 9 ? 0.5 : 0.0) * sites[i].mom[mu][k] * sites[i].mom[mu][k];
            }
            action -= 4;
        }
    QudaMILCSiteArg_t arg = site_argument(sites.data());
    CHECK(qudaMomAction(1, &arg) == Approx(action).epsilon(1e-12));
    double plaq[3], ploop[2];
    qudaPlaquettePhased(1, plaq, &arg, 1);
    const auto parts = reference::plaquette_parts(lattice, plain);
    CHECK(plaq[1] == Approx(parts.space_space).epsilon(1e-7));
    CHECK(plaq[2] == Approx(parts.space_time).epsilon(1e-7));
    qudaPolyakovLoopPhased(1, ploop, 3, &arg, 1);
    CHECK(std::isfinite(ploop[0] + ploop[1]));
    qudaInvert(2, 2, 0.1, args, 1e-6, 0, fat.data(), lng.data(), b.data(), x.data(), &residual, &relative, &iterations);
    CHECK(residual == INFINITY); // the precision differs from the one before
}

TEST_CASE("quda_compat: without memory every entry marks the outputs it could not compute, and none ends the program",
          "[quda_compat][faults]") {
    CHECK(alone("'[quda_compat_memory]'") == 0);
}

TEST_CASE("quda_compat alone: without memory", "[.][quda_compat_memory]") {
    const Environment quiet{{"MILCGPU_VERBOSE", "0"}};
    const int size[4] = {4, 4, 4, 4}, ranks[4] = {1, 1, 1, 1};
    const size_t volume = 4 * 4 * 4 * 4;
    std::vector<double> u(72 * volume, 0.0), fat(u), lng(u), x(6 * volume, 2.0), b(6 * volume, 1.0);
    std::vector<Site<double>> sites(volume);
    for (size_t i = 0; i < 4 * volume; ++i)
        u[18 * i] = u[18 * i + 8] = u[18 * i + 16] = 1;
    fat = u;
    const double paths[6] = {1, 0, 0, 0, 0, 0};
    QudaInvertArgs_t args{};
    args.max_iter = 50;
    args.evenodd = QUDA_EVEN_PARITY;
    double residual, relative, finals[1], offsets[1] = {4}, targets[1] = {1e-8}, fermilab[1] = {0}, plaq[3], ploop[2];
    void *solutions[1] = {x.data()}, *sources[1] = {b.data()};
    int iterations;
    QudaMILCSiteArg_t arg = site_argument(sites.data());
    qudaInit({QUDA_SILENT, {size, ranks, 0}});
    const auto invert = [&] {
        residual = 7;
        qudaInvert(2, 2, 1.0, args, 1e-8, 0, fat.data(), lng.data(), b.data(), x.data(), &residual, &relative,
                   &iterations);
        return residual;
    };
    const auto everything = [&] {
        std::fill(x.begin(), x.end(), 2.0);
        failed_news = 0;
        without_memory([&] { invert(); });
        CHECK(failed_news > 0);
        CHECK(residual == INFINITY);
        residual = finals[0] = 7;
        without_memory([&] {
            qudaInvertMsrc(2, 2, 1.0, args, 1e-8, 0, fat.data(), lng.data(), sources, solutions, &residual, &relative,
                           &iterations, 1);
        });
        CHECK(residual == INFINITY);
        without_memory([&] {
            qudaMultishiftInvert(2, 2, 1, offsets, args, targets, fermilab, fat.data(), lng.data(), b.data(), solutions,
                                 finals, &relative, &iterations);
        });
        CHECK(finals[0] == INFINITY);
        CHECK(x[0] == 2.0);
        without_memory([&] { qudaDslash(2, 2, args, fat.data(), lng.data(), b.data(), x.data(), &iterations); });
        CHECK(std::isnan(x[0]));
        CHECK(x[6 * volume - 1] == 2.0);
        std::fill(x.begin(), x.end(), 2.0);
        without_memory([&] { qudaLoadKSLink(2, {0}, paths, u.data(), lng.data(), nullptr); });
        CHECK(std::isnan(lng[0]));
        lng[0] = 0;
        without_memory([&] { qudaLoadUnitarizedLink(2, {1}, paths, u.data(), lng.data(), nullptr); });
        CHECK(std::isnan(lng[0]));
        without_memory([&] {
            qudaMomAction(2, &arg); // these may need no memory
            qudaPlaquettePhased(2, plaq, &arg, 0);
            qudaPolyakovLoopPhased(2, ploop, 3, &arg, 0);
        });
        CHECK(qudaAllocatePinned(size_t{1} << 62) == nullptr);
        CHECK(qudaAllocateManaged(size_t{1} << 62) == nullptr);
    };
    everything();
    std::fill(lng.begin(), lng.end(), 0.0);
    CHECK(invert() < 1e-8);     // memory is back, and the program continues
    for (double &element : fat) // other links must be loaded
        element *= 1.5;
    everything();
    std::fill(lng.begin(), lng.end(), 0.0);
    CHECK(invert() < 1e-8);
}

TEST_CASE("quda_compat: without a GPU the host backend works, with both tables", "[quda_compat][faults]") {
    const Run child = succeeded(
        run("MILCGPU_BACKEND=cuda CUDA_VISIBLE_DEVICES= MILCGPU_VERBOSE=1", "", self() + " '[quda_compat_no_gpu]'"));
    const size_t retreat = child.output.find("the host backend does this call and all that follow"),
                 start = child.output.find("MILC's routine"), exit = child.output.find("seconds", start);
    CHECK(retreat < start);
    CHECK(start < exit);
    CHECK(exit != std::string::npos);
}

TEST_CASE("quda_compat alone: without a GPU", "[.][quda_compat_no_gpu]") {
    const int size[4] = {4, 6, 4, 4}, ranks[4] = {1, 1, 1, 1};
    std::vector<double> fat(72 * lattice.volume(), 0.0), lng(fat), x(6 * lattice.volume(), 0.0), b(x.size(), 1.0);
    for (int i = 0; i < 4 * lattice.volume(); ++i)
        fat[18 * i] = fat[18 * i + 8] = fat[18 * i + 16] = 1;
    QudaInvertArgs_t args{};
    args.max_iter = 50;
    args.evenodd = QUDA_EVEN_PARITY;
    double residual = 1, relative;
    int iterations;
    qudaInit({QUDA_SILENT, {size, ranks, 0}});
    qudaInvert(2, 2, 1.0, args, 1e-8, 0, fat.data(), lng.data(), b.data(), x.data(), &residual, &relative, &iterations);
    CHECK(residual < 1e-8);
    qudaFinalize();
}
