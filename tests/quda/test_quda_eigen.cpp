// Eigenvectors and deflated solves through the interface that MILC's own GPU switches call (milc_glue/quda_compat).
#include "milc_glue/api/plugin.h"
#include "tests/environment.h"
#include "tests/plugin_support.h"
#include "tests/quda_support.h"
#include "tests/quenched.h"
#include "tests/run_support.h"
#include <fstream>

using namespace tests;

namespace {

const reference::Lattice lattice{{4, 4, 4, 6}};
constexpr int vectors = 16, parity_reals = 6 * 192;
constexpr double mass = 0.002;
using Field = std::vector<double>;

// Fat and long links of a quenched field, as MILC has them.
struct Links {
    Field fat = Field(72 * lattice.volume()), lng = fat;
    explicit Links(unsigned long seed) {
        reference::Gauge u = quenched(lattice, seed);
        reference::apply_phases(lattice, u);
        auto gauge = reference::links_to_milc<double>(lattice, u);
        const auto c = reference::asqtad_coefficients(0.9);
        const double paths[6] = {c.one_link, c.naik, c.three_staple, c.five_staple, c.seven_staple, c.lepage};
        qudaLoadKSLink(2, {0}, paths, gauge.data(), fat.data(), lng.data());
    }
};

QudaEigensolverArgs_t deflation(int count) {
    QudaEigensolverArgs_t args{};
    args.struct_size = sizeof args;
    args.n_ev_deflate = args.n_conv = args.n_ev = count;
    args.prec_eigensolver = QUDA_HALF_PRECISION;
    args.preserve_deflation = QUDA_BOOLEAN_TRUE;
    return args;
}

QudaInvertArgs_t on(QudaParity parity) {
    QudaInvertArgs_t args{};
    args.max_iter = 5000;
    args.evenodd = parity;
    return args;
}
// |(4 m^2 - D^2) v - b| on a parity; nullptr: no b.
double size_of_residual(Links &links, const double *v, const double *b, double of_mass, QudaParity parity) {
    Field w(v, v + 2 * parity_reals);
    int iterations = 0;
    const QudaParity other = parity == QUDA_EVEN_PARITY ? QUDA_ODD_PARITY : QUDA_EVEN_PARITY;
    for (const QudaParity to : {other, parity})
        qudaDslash(2, 2, on(to), links.fat.data(), links.lng.data(), w.data(), w.data(), &iterations);
    double sum = 0;
    const int first = parity == QUDA_EVEN_PARITY ? 0 : parity_reals;
    for (int i = first; i < first + parity_reals; ++i) {
        const double d = 4 * of_mass * of_mass * v[i] - w[i] - b[i];
        sum += d * d;
    }
    return std::sqrt(sum);
}

struct Solved {
    int iterations;
    double residual, largest; // as reported; the largest of all sources, by D
    bool done() const { return residual < 1e-10 && std::fabs(largest - residual) < 1e-13; }
};
// Solves for n sources from zero. with: nullptr: qudaInvert.
Solved solve(Links &links, const QudaEigensolverArgs_t *with, int n = 1, QudaParity parity = QUDA_EVEN_PARITY,
             double of_mass = mass) {
    std::vector<Field> b(n), x(n);
    std::vector<void *> from, to;
    for (int k = 0; k < n; ++k) {
        b[k] = reference::vector_to_milc<double>(lattice, random_fermion(lattice, 50 + k));
        x[k].assign(b[k].size(), 0);
        from.push_back(b[k].data()), to.push_back(x[k].data());
    }
    Solved s{};
    double relative = 0;
    if (with == nullptr)
        qudaInvert(2, 2, of_mass, on(parity), 1e-10, 0, links.fat.data(), links.lng.data(), from[0], to[0], &s.residual,
                   &relative, &s.iterations);
    else
        qudaInvertMsrcDeflatable(2, 2, of_mass, on(parity), *with, 1e-10, 0, links.fat.data(), links.lng.data(),
                                 from.data(), to.data(), &s.residual, &relative, &s.iterations, n);
    const Field zero(b[0].size());
    for (int k = 0; k < n; ++k)
        s.largest = worse(s.largest, size_of_residual(links, x[k].data(), b[k].data(), of_mass, parity) /
                                         size_of_residual(links, zero.data(), b[k].data(), of_mass, parity));
    return s;
}

void load_space(Links &links, QudaParity parity, void **from, QudaMilcEigLoad how) {
    qudaLoadDeflationSpace(2, 2, links.fat.data(), links.lng.data(), mass, on(parity), deflation(vectors), from, how);
}

// How often `work` computes eigenvectors.
int computed(const std::function<void()> &work) {
    const std::string said = said_by(work);
    CAPTURE(said);
    int count = 0;
    for (size_t at = said.find(", l = "); at != std::string::npos; at = said.find(", l = ", at + 1))
        ++count;
    return count;
}

// |(4 m^2 - D^2) v - l v| / |v| on a parity.
double error_of(Links &links, const double *v, double l, QudaParity parity) {
    Field lv(2 * parity_reals);
    double norm = 0;
    const int first = parity == QUDA_EVEN_PARITY ? 0 : parity_reals;
    for (int i = first; i < first + parity_reals; ++i)
        lv[i] = l * v[i], norm += v[i] * v[i];
    return size_of_residual(links, v, lv.data(), mass, parity) / std::sqrt(norm);
}

void start() {
    const int size[4] = {4, 4, 4, 6}, ranks[4] = {1, 1, 1, 1};
    qudaInit({QUDA_SILENT, {size, ranks, 0}});
}

} // namespace

TEST_CASE("quda_eigen: deflated solves, eigenvectors of several lattices and the eigensolver are right",
          "[quda_compat][eigen]") {
    CHECK(alone("'[quda_deflation]' 2>/dev/null") == 0);
    CHECK(alone("'[quda_eigensolver]' 2>/dev/null") == 0);
}

TEST_CASE("quda_eigen alone: deflated solves", "[.][quda_deflation]") {
    start();
    Links one(3), other(4);
    const QudaEigensolverArgs_t none = deflation(0), some = deflation(vectors);
    const int plain = solve(one, &none).iterations;
    Solved s{};

    // The first solve computes the vectors and keeps them.
    CHECK(computed([&] { s = solve(one, &some); }) == 1);
    CAPTURE(plain, s.iterations, s.residual);
    CHECK(s.done());
    CHECK(2 * s.iterations < plain);
    const int deflated = s.iterations;
    CHECK(computed([&] { s = solve(one, &some, 3); }) == 0);
    CHECK(s.done());
    CHECK(2 * s.iterations < plain);
    CHECK(computed([&] { s = solve(one, &some, 4); }) == 0); // on the host in one Krylov space
    CHECK(s.done());
    CHECK(s.iterations <= deflated);
    CHECK(solve(one, &none).iterations == plain);
    CHECK(solve(one, nullptr).iterations == deflated); // qudaInvert uses the kept vectors

    // The other parity uses D of them.
    CHECK(computed([&] { s = solve(one, &some, 1, QUDA_ODD_PARITY); }) == 0);
    CHECK(s.done());
    CHECK(2 * s.iterations < plain);

    // Another lattice has its own vectors; a heavy mass computes none. Then the first lattice again, and an edit of its
    // links.
    CHECK(computed([&] { s = solve(other, &some, 1, QUDA_EVEN_PARITY, 2); }) == 0);
    CHECK(s.done());
    CHECK(computed([&] { s = solve(other, &some); }) == 1);
    CHECK(s.done());
    CHECK(2 * s.iterations < plain);
    CHECK(computed([&] { s = solve(one, &some); }) == 0);
    CHECK(s.iterations == deflated);
    for (size_t i = 0; i < one.fat.size(); ++i)
        one.fat[i] *= 1 + 1e-3 * (i % 5);
    CHECK(solve(one, nullptr).iterations > plain / 2);
    CHECK(computed([&] { s = solve(one, &some); }) == 1);
    CHECK(s.done());
    CHECK(2 * s.iterations < plain);

    // Files: written once, read for either parity, and recomputed if a file has other vectors.
    const Folder folder;
    QudaEigensolverArgs_t filed = some;
    std::snprintf(filed.vec_outfile, sizeof filed.vec_outfile, "%s/vectors", folder.path.c_str());
    qudaCleanUpDeflationSpace();
    filed.tol = 1e-9; // of the largest l, which single precision does not reach
    CHECK(computed([&] { s = solve(one, &filed); }) == 1);
    {
        std::ifstream file(filed.vec_outfile, std::ios::binary);
        double l[vectors];
        file.seekg(92); // where MILC's native files have the eigenvalues
        file.read(reinterpret_cast<char *>(l), sizeof l);
        Field v(2 * parity_reals);
        for (int k = 0; k < vectors; ++k) {
            file.read(reinterpret_cast<char *>(v.data()), parity_reals * sizeof v[0]);
            CHECK(error_of(one, v.data(), l[k] + 4 * mass * mass, QUDA_EVEN_PARITY) < filed.tol * 20);
        }
        REQUIRE(file.good());
    }
    std::swap(filed.vec_infile, filed.vec_outfile);
    for (const QudaParity parity : {QUDA_EVEN_PARITY, QUDA_ODD_PARITY}) {
        qudaCleanUpDeflationSpace();
        CHECK(computed([&] { s = solve(one, &filed, 1, parity); }) == 0);
        CHECK(s.done());
        CHECK(2 * s.iterations < plain);
    }
    CHECK(has(said_by([&] { s = solve(other, &filed); }), "vectors: "));
    CHECK(s.done());
    CHECK(2 * s.iterations < plain);

    // Vectors are freed: all of them, or at the end of a call that does not keep them.
    qudaCleanUpDeflationSpace();
    CHECK(2 * solve(one, nullptr).iterations > plain);
    CHECK(2 * solve(other, nullptr).iterations > plain);
    QudaEigensolverArgs_t once = some;
    once.preserve_deflation = QUDA_BOOLEAN_FALSE;
    CHECK(computed([&] { s = solve(other, &once); }) == 1);
    CHECK(s.done());
    CHECK(2 * s.iterations < plain);
    CHECK(2 * solve(other, nullptr).iterations > plain);

    // One vector, which saves no steps on this lattice; a dozen, which do; more than exist, which a message says. None
    // is recomputed.
    for (const int count : {1, 12, 700}) {
        qudaCleanUpDeflationSpace();
        const QudaEigensolverArgs_t these = deflation(count);
        CHECK(has(said_by([&] { s = solve(one, &these); }), "lattice") == (count == 700));
        CHECK(s.done());
        CHECK(s.iterations < (count == 1 ? plain + 3 : count == 12 ? plain : deflated));
        CHECK(computed([&] { s = solve(one, &these, 2); }) == 0);
        CHECK(s.done());
    }
    qudaFinalize();
}

TEST_CASE("quda_eigen alone: the eigensolver", "[.][quda_eigensolver]") {
    start();
    Links links(3);
    const int plain = solve(links, nullptr).iterations;
    const QudaEigensolverArgs_t loose = deflation(vectors);
    CHECK(solve(links, &loose).done()); // not what the eigensolver returns
    QudaInvertParam inverter = newQudaInvertParam();
    inverter.cpu_prec = QUDA_DOUBLE_PRECISION;
    inverter.mass = mass;
    QudaEigParam eigen = newQudaEigParam();
    eigen.invert_param = &inverter;
    eigen.n_conv = vectors;
    eigen.tol = 1e-12;
    eigen.use_pc = QUDA_BOOLEAN_TRUE;
    eigen.spectrum = QUDA_SPECTRUM_SR_EIG;
    std::vector<Field> fields(vectors, Field(2 * parity_reals, 7));
    std::vector<void *> to;
    for (Field &field : fields)
        to.push_back(field.data());
    Field values(2 * vectors, 7);

    const std::string refusal = said_by([&] { eigensolveQuda(to.data(), values.data(), &eigen); });
    CHECK(has(refusal, "fat and long"));
    CHECK((std::isnan(values[0]) && std::isnan(fields[0][0])));

    QudaGaugeParam gauge = newQudaGaugeParam();
    for (const bool three : {false, true}) {
        gauge.type = three ? QUDA_ASQTAD_LONG_LINKS : QUDA_ASQTAD_FAT_LINKS;
        loadGaugeQuda(three ? links.lng.data() : links.fat.data(), &gauge);
    }
    for (const QudaParity parity : {QUDA_ODD_PARITY, QUDA_EVEN_PARITY}) {
        const int first = parity == QUDA_EVEN_PARITY ? 0 : parity_reals;
        inverter.matpc_type = parity == QUDA_EVEN_PARITY ? QUDA_MATPC_EVEN_EVEN : QUDA_MATPC_ODD_ODD;
        for (Field &field : fields)
            field.assign(2 * parity_reals, 7);
        eigensolveQuda(to.data(), values.data(), &eigen);
        for (int k = 0; k < vectors; ++k) {
            CHECK(error_of(links, fields[k].data(), values[2 * k], parity) < eigen.tol * 20);
            CHECK(values[2 * k] >= 4 * mass * mass);
            CHECK(values[2 * k + 1] == 0);
            if (k > 0)
                CHECK(values[2 * k] >= values[2 * k - 2]);
            CHECK(fields[k][parity_reals - first] == 7); // the other parity is untouched
        }
        CHECK(2 * solve(links, nullptr, 1, parity).iterations < plain);
    }

    // MILC's own vectors.
    qudaCleanUpDeflationSpace();
    load_space(links, QUDA_EVEN_PARITY, to.data(), QUDA_MILC_EIG_LOAD);
    CHECK(2 * solve(links, nullptr).iterations < plain);
    CHECK(has(said_by([&] { load_space(links, QUDA_ODD_PARITY, nullptr, QUDA_MILC_EIG_FROM_OTHER_PARITY); }),
              std::to_string(vectors) + " eigenvectors on odd sites"));
    CHECK(2 * solve(links, nullptr, 1, QUDA_ODD_PARITY).iterations < plain);

    // No vector; then more than the lattice has.
    qudaCleanUpDeflationSpace();
    values.assign(2 * 700, 7);
    eigen.n_conv = 0;
    CHECK(said_by([&] { eigensolveQuda(to.data(), values.data(), &eigen); }).empty());
    CHECK(values[0] == 7);
    CHECK(computed([&] { solve(links, &loose); }) == 1);
    to.assign(700, fields[0].data());
    eigen.n_conv = 700;
    CHECK(has(said_by([&] { eigensolveQuda(to.data(), values.data(), &eigen); }), "of the 700"));
    CHECK((std::isnan(values[2 * 699]) && std::isnan(fields[0][0])));

    // Solvers that are not built.
    eigen.n_conv = 1;
    eigen.use_pc = QUDA_BOOLEAN_FALSE;
    CHECK(has(said_by([&] { eigensolveQuda(to.data(), values.data(), &eigen); }), "lowest"));
    CHECK(std::isnan(values[0]));
    qudaFinalize();
}
