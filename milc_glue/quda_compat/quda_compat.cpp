// The interface of quda_milc_interface.h on top of the plugin. MILC's own routines are not behind these calls, so the
// host backend does what the GPU cannot. If the host backend fails, too, the results are marked with NaN. No exception
// leaves an entry, because MILC could not catch it, and its run would end.
#include "milc_glue/api/start_context.h"
#include "milc_glue/quda_compat/internal.h"
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>
#include <vector>

namespace milcgpu::quda {

Lattice lattice;
State state;

void complain(const char *function, const char *what) {
    if (lattice.messages[0].rank == 0) // errors occur on all ranks
        std::fprintf(stderr, "milcgpu: %s: %s\n", function, what);
}

bool start(const char *function, int precision) {
    if (precision == state.precision)
        return true;
    if (precision != 1 && precision != 2) {
        complain(function, "precision must be 1 (float) or 2 (double)");
        return false;
    }
    if (state.precision != 0) {
        complain(function,
                 "the precision differs from the precision of earlier calls: a program must use one precision");
        return false;
    }
    if (lattice.ranks == 0) {
        complain(function, "called before qudaInit");
        return false;
    }
    std::vector<int> order(lattice.sites());
    for (size_t k = 0; k < order.size(); ++k)
        order[k] = static_cast<int>(k);
    milcgpu_milc milc{};
    milc.struct_size = sizeof milc;
    milc.header_version = MILCGPU_VERSION;
    milc.milc = "MILC through its own GPU switches";
    milc.precision = precision;
    milc.report_sizes = milcgpu_sizes_of_reports();
    milc.ranks = lattice.ranks;
    std::copy_n(lattice.box.extent, 4, milc.extent);
    if (lattice.has_messages) {
        std::copy_n(lattice.box.whole, 4, milc.whole);
        std::copy_n(lattice.box.origin, 4, milc.origin);
        std::copy_n(&lattice.box.neighbour[0][0], 8, &milc.neighbour[0][0]);
        milc.rank = lattice.messages[0].rank;
        milc.messages = &lattice.messages[0];
        milc.decisions = &lattice.messages[1];
    }
    milc.not_offloaded[MILCGPU_GAUGE_ACTION] = milc.not_offloaded[MILCGPU_PLAQUETTE] = "inside g_measure";
    enum { LINKED, BOTH };
#define MILCGPU_ROW(row, doors, name)                                                                                  \
    if (doors == LINKED)                                                                                               \
        milc.not_offloaded[row] = "MILC's own: these switches do not reach it";
#include "milc_glue/api/routines.def"
    milc.site_map = order.data();
    state.precision = precision;
    const int begun = milcgpu_plugin_start(&milc);
    if (begun < 0)
        state.precision = 0; // memory was short: the next call tries again
    return begun > 0 || (begun == 0 && milcgpu_plugin_retreat() != 0);
}

void fill_with_nan(void *field, size_t reals, int precision) {
    for (size_t i = 0; field != nullptr && i < reals; ++i)
        if (precision == 1)
            static_cast<float *>(field)[i] = NAN;
        else
            static_cast<double *>(field)[i] = NAN;
}

} // namespace milcgpu::quda

using namespace milcgpu::quda;

namespace {

// Whether there is a tolerance to reach. Logs a line if not.
bool is_asked(const char *function, const std::vector<double> &tolerances) {
    for (const double tolerance : tolerances)
        if (tolerance > 0)
            return true;
    complain(function, "no tolerance is given: one must be above 0, and so must its square");
    return false;
}

// Logs a line, once, if MILC passed links that it has not filled, as quda_gauge_flow does for an eps_naik. D is zero
// then, and every solve converges.
void note_zero_links(const char *function, int precision, const void *fat) {
    const auto *bytes = static_cast<const unsigned char *>(fat);
    if (!state.zero_links_logged && std::all_of(bytes, bytes + 72 * lattice.sites() * bytes_of(precision),
                                                [](unsigned char byte) { return byte == 0; })) {
        state.zero_links_logged = true;
        complain(function, "all fat links are zero: MILC has not filled them. The solution is the source over 4 m^2; "
                           "do not use it. docs/quda-switches.md names a MILC with this error");
    }
}

int parity_of(const QudaInvertArgs_t &args) { return args.evenodd == QUDA_EVEN_PARITY ? MILCGPU_EVEN : MILCGPU_ODD; }

void nan_on_parity(void *field, int parity, int precision) {
    const size_t even = lattice.even_sites(), first = parity == MILCGPU_EVEN ? 0 : even;
    fill_with_nan(static_cast<unsigned char *>(field) + 6 * first * bytes_of(precision),
                  6 * (parity == MILCGPU_EVEN ? even : lattice.sites() - even), precision);
}

// Logged when eigenvectors are computed.
constexpr const char *note_of_eigenvectors =
    "the size of the Krylov space, the polynomial and its interval follow from the links, so these lines of the input "
    "are not used: Lanczos_*, Max_Lanczos_restart_iters, Chebyshev_*, block_size, batched_rotate, tol_restart. "
    "Residuals are as small as deflation needs. For vectors that MILC or a file receives they are at most "
    "eigenval_tolerance times the largest eigenvalue";

// The eigenvectors that a call of MILC's requests.
milcgpu_plugin_eigenvectors wanted_by(const QudaEigensolverArgs_t &args, const QudaInvertArgs_t &of_links) {
    milcgpu_plugin_eigenvectors wanted{};
    wanted.count = std::max(args.n_ev_deflate, args.n_conv);
    wanted.precision = args.prec_eigensolver == QUDA_HALF_PRECISION ? MILCGPU_HALF : MILCGPU_SINGLE;
    wanted.tolerance = args.vec_outfile[0] != 0 ? args.tol : 0; // readers of the file may deflate once, as MILC does
    wanted.note = note_of_eigenvectors;
    wanted.read_from = args.vec_infile;
    wanted.write_to = wanted.count > 0 ? args.vec_outfile : nullptr;
    wanted.saved = !std::exchange(state.eigen.twisted, false) && of_links.naik_epsilon == 0;
    return wanted;
}

// Returns false if the arguments have the layout of another header; logs it once, unless was_logged.
bool can_read(const char *function, const QudaEigensolverArgs_t &args, bool &was_logged) {
    if (args.struct_size == sizeof args)
        return true;
    char text[160];
    std::snprintf(text, sizeof text,
                  "QudaEigensolverArgs_t has %zu bytes here, and struct_size is %zu: solutions of such calls are NaN",
                  sizeof args, args.struct_size);
    if (!std::exchange(was_logged, true))
        complain(function, text);
    return false;
}

// The request of a call for one or several sources.
struct SourcesCall {
    int precision;
    double mass;
    QudaInvertArgs_t args;
    double residual, fermilab_residual;
    const void *fat, *lng;
    void **sources, **solutions;
    int n;
    const QudaEigensolverArgs_t *eigenvectors = nullptr; // nullptr: deflated with the eigenvectors that exist
};
struct SourcesResults {
    double *residual, *fermilab_residual;
    int *iterations;
};
enum class Count { of_all, of_one }; // iterations: the sum, or the most that one source took

void solve_sources(const char *function, const SourcesCall &c, const SourcesResults &results, Count count) {
    *results.residual = *results.fermilab_residual = c.n > 0 ? INFINITY : 0;
    *results.iterations = 0;
    if (c.n < 1)
        return;
    guarded(function, [&] {
        const double tolerance = milcgpu_tolerance(c.residual, c.precision),
                     relative = milcgpu_tolerance(c.fermilab_residual, c.precision);
        if (!is_asked(function, {tolerance, relative}))
            return false;
        milcgpu_plugin_eigenvectors wanted{};
        if (c.eigenvectors != nullptr)
            wanted = wanted_by(*c.eigenvectors, c.args);
        if (c.eigenvectors != nullptr && c.eigenvectors->n_ev_deflate <= 0)
            wanted.count = 0;
        std::vector<milcgpu_plugin_solve_call> calls;
        for (int i = 0; i < c.n; ++i) {
            milcgpu_plugin_solve_call call{};
            call.routine = c.n == 1 ? MILCGPU_KS_CONGRAD : MILCGPU_KS_CONGRAD_BLOCK;
            call.mixed = c.args.mixed_precision;
            call.fat = c.fat;
            call.lng = c.lng;
            call.parity = parity_of(c.args);
            call.mass = c.mass;
            call.tolerance = tolerance;
            call.relative_tolerance = relative;
            call.max_iterations = c.args.max_iter;
            call.max_restarts = most_starts, call.limit_of_all = 1;
            call.source = packed(c.sources[i], c.precision);
            call.solution = packed(c.solutions[i], c.precision);
            call.eigenvectors = c.eigenvectors != nullptr ? &wanted : nullptr;
            call.deflate =
                c.eigenvectors != nullptr && wanted.count == 0 ? MILCGPU_UNDEFLATED : MILCGPU_DEFLATED_BY_KEPT;
            calls.push_back(call);
        }
        std::vector<milcgpu_solve_report> reports(c.n);
        const bool good = done(function, c.precision, [&] {
            return (c.n == 1 ? milcgpu_plugin_solve(calls.data(), reports.data())
                             : milcgpu_plugin_solve_sources(c.n, calls.data(), reports.data())) != 0;
        });
        if (!good)
            return false;
        note_zero_links(function, c.precision, c.fat);
        *results.residual = *results.fermilab_residual = 0;
        for (int i = 0; i < c.n; ++i) {
            const milcgpu_solve_report &report = reports[i];
            *results.residual = milcgpu::worse_error(*results.residual, report.true_residual);
            *results.fermilab_residual =
                milcgpu::worse_error(*results.fermilab_residual, relative > 0 ? report.relative_residual : 1);
            *results.iterations = count == Count::of_all ? *results.iterations + report.iterations
                                                         : std::max(*results.iterations, report.iterations);
            if (c.n > 1 && report.status != MILCGPU_OK) { // MILC gets only the worst residual
                char text[200];
                std::snprintf(text, sizeof text,
                              "source %d of %d ends at residual %.3g (asked: %g) and Fermilab residual %.3g (asked: "
                              "%g) after %d iterations",
                              i + 1, c.n, report.true_residual, c.residual, report.relative_residual,
                              c.fermilab_residual, report.iterations);
                complain(function, text);
            }
        }
        return true;
    });
}

struct LinksTo {
    void *fat, *lng, *v, *y; // nullptr: not wanted
};
bool load_links(const char *function, int precision, milcgpu_routine routine, milcgpu_fatlink_spec &spec, void *inlink,
                LinksTo to) {
    spec.struct_size = sizeof spec;
    spec.unitarity = -1; // MILC smears W without a check, too
    const double eps = 0;
    milcgpu_fatlink_report report{};
    const auto make_of = [&](const void *gauge) {
        const int n_sets = to.fat != nullptr;
        return milcgpu_plugin_links({routine, &spec, gauge, n_sets, &eps, &to.fat, &to.lng, to.v, to.y, nullptr, 0},
                                    &report) != 0;
    };
    const bool good = done(function, precision, [&] {
        // After an update of the links the device has U.
        if (routine == MILCGPU_HISQ_LINKS && milcgpu_plugin_has_links(inlink) != 0) {
            if (make_of(nullptr))
                return true;
            milcgpu_plugin_host_wrote(MILCGPU_LINKS); // the device's links cannot be trusted
        }
        return make_of(inlink);
    });
    for (void *links : {to.fat, to.lng, to.v, to.y})
        if (!good)
            fill_with_nan(links, 72 * lattice.sites(), precision);
    return good;
}

} // namespace

extern "C" {

void qudaSetMPICommHandle(void *) {} // for a MILC without mpi.h; others lend message passing instead

void milcgpu_quda_lend(const void *tables, const milcgpu_milc_box *box) {
    guarded(__func__, [&] {
        const auto *next = static_cast<const unsigned char *>(tables); // their size may be older
        for (milcgpu_messages &table : lattice.messages) {
            table = milcgpu::whole_table(reinterpret_cast<const milcgpu_messages *>(next));
            next += reinterpret_cast<const milcgpu_messages *>(next)->struct_size;
        }
        lattice.has_messages = true;
        lattice.box = *box;
        return true;
    });
}

void qudaInit(QudaInitArgs_t input) {
    lattice.ranks = 1;
    for (int mu = 0; mu < 4; ++mu) {
        const int ranks = input.layout.machsize != nullptr ? input.layout.machsize[mu] : 1;
        lattice.ranks *= ranks;
        if (!lattice.has_messages) {
            lattice.box.whole[mu] = input.layout.latsize[mu];
            lattice.box.extent[mu] = input.layout.latsize[mu] / ranks;
        }
    }
}

// The tables of one rank are printed when the program exits; those of several ranks while message passing works.
void qudaFinalize(void) {
    if (lattice.ranks > 1)
        milcgpu_plugin_exit(0);
    milcgpu_plugin_ended();
    lattice.has_messages = false;
}

void *qudaAllocatePinned(size_t bytes) { return milcgpu::host_allocate(bytes); }
void qudaFreePinned(void *address) { std::free(address); }
void *qudaAllocateManaged(size_t bytes) { return milcgpu::host_allocate(bytes); }
void qudaFreeManaged(void *address) { std::free(address); }

void qudaInvert(int external_precision, int, double mass, QudaInvertArgs_t inv_args, double target_residual,
                double target_fermilab_residual, const void *fatlink, const void *longlink, void *source,
                void *solution, double *final_residual, double *final_fermilab_residual, int *num_iters) {
    solve_sources(__func__,
                  {external_precision, mass, inv_args, target_residual, target_fermilab_residual, fatlink, longlink,
                   &source, &solution, 1},
                  {final_residual, final_fermilab_residual, num_iters}, Count::of_all);
}

void qudaInvertMsrc(int external_precision, int, double mass, QudaInvertArgs_t inv_args, double target_residual,
                    double target_fermilab_residual, const void *fatlink, const void *longlink, void **sources,
                    void **solutions, double *final_residual, double *final_fermilab_residual, int *num_iters,
                    int num_src) {
    solve_sources(__func__,
                  {external_precision, mass, inv_args, target_residual, target_fermilab_residual, fatlink, longlink,
                   sources, solutions, num_src},
                  {final_residual, final_fermilab_residual, num_iters}, Count::of_all);
}

void milcgpu_quda_invert_sources(int external_precision, int, double mass, QudaInvertArgs_t inv_args,
                                 double target_residual, double target_fermilab_residual, const void *fatlink,
                                 const void *longlink, void **sources, void **solutions, double *final_residual,
                                 double *final_fermilab_residual, int *num_iters, int num_src) {
    solve_sources("qudaInvertMsrc",
                  {external_precision, mass, inv_args, target_residual, target_fermilab_residual, fatlink, longlink,
                   sources, solutions, num_src},
                  {final_residual, final_fermilab_residual, num_iters}, Count::of_one);
}

void qudaInvertDeflatable(int external_precision, int quda_precision, double mass, QudaInvertArgs_t inv_args,
                          QudaEigensolverArgs_t eig_args, double target_residual, double target_fermilab_residual,
                          const void *fatlink, const void *longlink, void *source, void *solution,
                          double *final_residual, double *final_fermilab_residual, int *num_iters) {
    qudaInvertMsrcDeflatable(external_precision, quda_precision, mass, inv_args, eig_args, target_residual,
                             target_fermilab_residual, fatlink, longlink, &source, &solution, final_residual,
                             final_fermilab_residual, num_iters, 1);
}

void qudaInvertMsrcDeflatable(int external_precision, int, double mass, QudaInvertArgs_t inv_args,
                              QudaEigensolverArgs_t eig_args, double target_residual, double target_fermilab_residual,
                              const void *fatlink, const void *longlink, void **sources, void **solutions,
                              double *final_residual, double *final_fermilab_residual, int *num_iters, int num_src) {
    const char *function = num_src == 1 ? "qudaInvertDeflatable" : "qudaInvertMsrcDeflatable";
    *final_residual = *final_fermilab_residual = INFINITY;
    *num_iters = 0;
    if (!can_read(function, eig_args, state.eigen.size_was_logged[0])) {
        for (int i = 0; i < num_src; ++i)
            nan_on_parity(solutions[i], parity_of(inv_args), external_precision);
        return;
    }
    solve_sources(function,
                  {external_precision, mass, inv_args, target_residual, target_fermilab_residual, fatlink, longlink,
                   sources, solutions, num_src, &eig_args},
                  {final_residual, final_fermilab_residual, num_iters}, Count::of_one);
    if (eig_args.preserve_deflation == QUDA_BOOLEAN_FALSE)
        milcgpu_plugin_eigenvectors_drop();
}

void qudaLoadDeflationSpace(int external_precision, int, const void *fatlink, const void *longlink, double,
                            QudaInvertArgs_t inv_args, QudaEigensolverArgs_t eig_args, void **vectors,
                            QudaMilcEigLoad from) {
    if (!can_read(__func__, eig_args, state.eigen.size_was_logged[1]))
        return;
    guarded(__func__, [&] {
        if (!start(__func__, external_precision) || milcgpu_plugin_active() == 0)
            return false;
        const milcgpu_plugin_eigenvectors wanted = wanted_by(eig_args, inv_args);
        if (wanted.count < 1)
            return true;
        const int parity = parity_of(inv_args);
        if (from != QUDA_MILC_EIG_LOAD)
            return milcgpu_plugin_eigenvectors_get(fatlink, longlink, parity, &wanted, nullptr, nullptr) != 0;
        return milcgpu_plugin_eigenvectors_set(fatlink, longlink, parity, &wanted, vectors) != 0;
    });
}

void milcgpu_quda_twist(int is_in) { state.eigen.twisted = is_in != 0; }

void qudaCleanUpDeflationSpace(void) { milcgpu_plugin_eigenvectors_drop(); }

void milcgpu_quda_links_of_eigensolver(int three_links, const void *links) { state.eigen.links[three_links] = links; }

void milcgpu_quda_eigensolve(void **vectors, double *values, const QudaEigParam *asked) {
    constexpr const char *function = "eigensolveQuda";
    const QudaInvertParam &of = *asked->invert_param;
    const int precision = of.cpu_prec == QUDA_SINGLE_PRECISION ? 1 : 2, n = asked->n_conv;
    if (n < 1)
        return;
    const bool good = guarded(function, [&] {
        if (asked->use_pc == QUDA_BOOLEAN_FALSE || asked->spectrum != QUDA_SPECTRUM_SR_EIG) {
            complain(function,
                     "the lowest eigenvectors of one parity are built, and no others: spectrum must be SR, use_pc 1");
            return false;
        }
        if (state.eigen.links[0] == nullptr || state.eigen.links[1] == nullptr) {
            complain(function, "no fat and long links were loaded: loadGaugeQuda with both comes first");
            return false;
        }
        milcgpu_plugin_eigenvectors wanted{};
        wanted.count = n;
        wanted.precision = MILCGPU_SINGLE;
        wanted.tolerance = asked->tol > 0 ? asked->tol : 1;
        wanted.note = note_of_eigenvectors;
        std::vector<double> l(n);
        const int parity = of.matpc_type == QUDA_MATPC_ODD_ODD ? MILCGPU_ODD : MILCGPU_EVEN;
        const auto solve = [&] {
            return milcgpu_plugin_eigenvectors_get(state.eigen.links[0], state.eigen.links[1], parity, &wanted,
                                                   l.data(), vectors) != 0;
        };
        // If memory is short, the host backend would take too long.
        const bool here = start(function, precision) && milcgpu_plugin_active() != 0;
        if (!(here && solve()) && !(milcgpu_plugin_active() == 0 && milcgpu_plugin_retreat() != 0 && solve()))
            return false;
        for (int k = 0; k < n; ++k)
            values[2 * k] = l[k] + 4 * of.mass * of.mass, values[2 * k + 1] = 0;
        return true;
    });
    if (good)
        return;
    fill_with_nan(values, 2 * static_cast<size_t>(n), 2);
    for (int k = 0; k < n; ++k)
        fill_with_nan(vectors[k], 6 * lattice.sites(), precision);
}

void qudaMultishiftInvert(int external_precision, int, int num_offsets, double *offset, QudaInvertArgs_t inv_args,
                          const double *target_residual, const double *target_fermilab_residual, const void *fatlink,
                          const void *longlink, void *source, void **solutions, double *final_residual,
                          double *final_fermilab_residual, int *num_iters) {
    std::vector<milcgpu_field> fields;
    std::vector<milcgpu_shift_report> shifts;
    std::vector<double> tolerances, relative, asked;
    milcgpu_multi_mass_report report{};
    const bool good = guarded(__func__, [&] {
        for (int i = 0; i < num_offsets; ++i) {
            const double own = milcgpu_tolerance(target_residual[i], external_precision);
            fields.push_back(packed(solutions[i], external_precision));
            tolerances.push_back(own > 0 ? own : milcgpu_tolerance(target_residual[0], external_precision));
            relative.push_back(milcgpu_tolerance(target_fermilab_residual[i], external_precision));
            asked.insert(asked.end(), {tolerances[i], relative[i]});
        }
        if (num_offsets > 0 && !is_asked("qudaMultishiftInvert", asked))
            return false;
        shifts.resize(num_offsets);
        milcgpu_plugin_multi_mass_call call{};
        call.mixed = inv_args.mixed_precision;
        call.fat = fatlink;
        call.lng = longlink;
        call.parity = parity_of(inv_args);
        call.n_shifts = num_offsets;
        call.offsets = offset;
        call.tolerances = tolerances.data();
        call.relative_tolerances = relative.data();
        call.max_iterations = std::max(1, inv_args.max_iter - 1); // MILC counts from 1
        call.max_restarts = most_starts;                          // of a refinement; at the limit there is none
        call.source = packed(source, external_precision);
        call.solutions = fields.data();
        return done("qudaMultishiftInvert", external_precision,
                    [&] { return milcgpu_plugin_multi_mass(&call, shifts.data(), &report) != 0; });
    });
    if (good)
        note_zero_links(__func__, external_precision, fatlink);
    for (int i = 0; i < num_offsets; ++i) {
        final_residual[i] = good ? shifts[i].true_residual : INFINITY;
        final_fermilab_residual[i] = good && relative[i] > 0 ? shifts[i].relative_residual : good ? 1 : INFINITY;
    }
    *num_iters = good ? report.iterations : 0;
}

void qudaDslash(int external_precision, int, QudaInvertArgs_t inv_args, const void *fatlink, const void *longlink,
                void *source, void *destination, int *num_iters) {
    const int parity = parity_of(inv_args);
    if (!done(__func__, external_precision, [&] {
            return milcgpu_plugin_dslash(fatlink, longlink, parity, packed(source, external_precision),
                                         packed(destination, external_precision)) != 0;
        })) {
        nan_on_parity(destination, parity, external_precision);
    }
    *num_iters = 0;
}

void qudaLoadKSLink(int precision, QudaFatLinkArgs_t, const double path_coeff[6], void *inlink, void *fatlink,
                    void *longlink) {
    milcgpu_fatlink_spec spec{};
    spec.paths = paths_of(path_coeff);
    load_links(__func__, precision, MILCGPU_LOAD_FN_LINKS, spec, inlink, {fatlink, longlink, nullptr, nullptr});
}

void qudaLoadUnitarizedLink(int precision, QudaFatLinkArgs_t, const double path_coeff[6], void *inlink, void *fatlink,
                            void *ulink) {
    milcgpu_fatlink_spec spec{};
    spec.hisq = 1;
    spec.fat7 = paths_of(path_coeff);
    spec.svd_relative = state.hisq.reunit_svd_rel_error;
    spec.svd_absolute = state.hisq.reunit_svd_abs_error;
    spec.svd_only = state.hisq.reunit_svd_only != 0;
    load_links(__func__, precision, MILCGPU_HISQ_LINKS, spec, inlink, {nullptr, nullptr, fatlink, ulink});
}

void qudaHisqParamsInit(QudaHisqParams_t parameters) { state.hisq = parameters; }

} // extern "C"
