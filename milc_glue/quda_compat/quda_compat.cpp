// The interface of quda_milc_interface.h on top of the plugin. MILC's own routines are not behind these calls, so what
// the GPU cannot do the host backend does; and what that cannot do either is marked as not done: NaN. No exception
// leaves an entry: MILC could not catch it, and its run would end.
#include "milc_glue/host_fields.h"
#include "milc_glue/plugin.h"
#include "milc_glue/quda_compat/quda_milc_interface.h"
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <new>
#include <vector>

namespace {

struct Lattice {
    int n[4] = {0, 0, 0, 0};
    int ranks = 0;
    size_t sites() const { return static_cast<size_t>(n[0]) * n[1] * n[2] * n[3]; }
    size_t site(int x, int y, int z, int t) const { // MILC's layout_hyper_prime; coordinates are taken modulo extents
        x %= n[0], y %= n[1], z %= n[2], t %= n[3];
        const size_t lexicographic = x + static_cast<size_t>(n[0]) * (y + n[1] * (z + static_cast<size_t>(n[2]) * t));
        return lexicographic / 2 + ((x + y + z + t) % 2 != 0 ? sites() / 2 : 0);
    }
};

Lattice lattice;
int started_with = 0; // precision of MILC's fields; 0: not started
double svd_relative = 0, svd_absolute = 0;

void complain(const char *function, const char *what) { std::fprintf(stderr, "milcgpu: %s: %s\n", function, what); }

// What `work` returns; false, and said, after an exception.
template <class Work> bool guarded(const char *function, const Work &work) noexcept {
    try {
        return work();
    } catch (const std::bad_alloc &) {
        complain(function, "no room in the host's memory");
    } catch (const std::exception &error) {
        complain(function, error.what());
    }
    return false;
}

// The precision comes with the first call that has one; MILC has one for all.
bool start(const char *function, int precision) {
    if (precision == started_with)
        return true;
    if (precision != 1 && precision != 2) {
        complain(function, "precision must be 1 (float) or 2 (double)");
        return false;
    }
    if (started_with != 0) {
        complain(function, "the fields of one program must have one precision");
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
    milc.ranks = lattice.ranks;
    for (int mu = 0; mu < 4; ++mu)
        milc.extent[mu] = lattice.n[mu];
    milc.site_map = order.data();
    started_with = precision;
    const int begun = milcgpu_plugin_start(&milc);
    if (begun < 0)
        started_with = 0;   // for want of memory: the next call tries again
    if (lattice.ranks != 1) // said by the plugin; there is nothing to retreat to
        return begun > 0;
    return begun > 0 || (begun == 0 && milcgpu_plugin_retreat() != 0);
}

// `work` on the GPU, else on the host backend. False: neither could.
template <class Work> bool done(const char *function, int precision, const Work &work) noexcept {
    return guarded(function, [&] {
        if (!start(function, precision))
            return false;
        if (milcgpu_plugin_active() != 0 && work())
            return true;
        return milcgpu_plugin_retreat() != 0 && work();
    });
}

milcgpu_field vectors(void *field, int precision) {
    return {field, precision == 1 ? MILCGPU_SINGLE : MILCGPU_DOUBLE, 0};
}

void fill_with_nan(void *field, size_t reals, int precision) {
    for (size_t i = 0; field != nullptr && i < reals; ++i)
        if (precision == 1)
            static_cast<float *>(field)[i] = NAN;
        else
            static_cast<double *>(field)[i] = NAN;
}

// Starts of one solve. MILC's limit is that of all iterations together.
constexpr int most_starts = 5;

// Each start goes on from the solution of the one before; the residual in between is counted once.
bool solve(const char *function, int precision, milcgpu_plugin_solve_call &call, milcgpu_solve_report &report) {
    const int limit = call.max_iterations;
    int iterations = 0;
    call.max_restarts = 1;
    for (int starts = 0; starts < most_starts; ++starts) {
        call.max_iterations = limit - iterations;
        if (!done(function, precision, [&] { return milcgpu_plugin_solve(&call, &report) != 0; }))
            return false;
        iterations += report.iterations - (starts > 0 ? 1 : 0);
        if (report.status != MILCGPU_NOT_CONVERGED || iterations >= limit)
            break;
    }
    report.iterations = iterations;
    return true;
}

int parity_of(const QudaInvertArgs_t &args) { return args.evenodd == QUDA_EVEN_PARITY ? MILCGPU_EVEN : MILCGPU_ODD; }

bool load_links(const char *function, int precision, milcgpu_routine routine, milcgpu_fatlink_spec &spec, void *inlink,
                int n_sets, void *fat, void *lng, void *v, void *y) {
    spec.struct_size = sizeof spec;
    spec.unitarity = -1; // MILC smears W, too
    const double eps = 0;
    milcgpu_fatlink_report report{};
    const bool good = done(function, precision, [&] {
        return milcgpu_plugin_links(routine, &spec, inlink, n_sets, &eps, &fat, &lng, v, y, nullptr, &report) != 0;
    });
    for (void *links : {fat, lng, v, y})
        if (!good)
            fill_with_nan(links, 72 * lattice.sites(), precision);
    return good;
}

milcgpu_paths paths_of(const double c[6]) { return {c[0], c[1], c[2], c[3], c[4], c[5]}; }

// ---- observables of site structures, on the host ----------------------------------------------------------------

template <class Real> using Matrix = std::complex<Real>[3][3];

struct Product {
    std::complex<double> e[3][3];
};

template <class Real> class Gauge {
  public:
    explicit Gauge(const QudaMILCSiteArg_t &arg)
        : base_(static_cast<const unsigned char *>(arg.link != nullptr ? arg.link : arg.site) +
                (arg.link != nullptr ? 0 : arg.link_offset)),
          pitch_(arg.link != nullptr ? 4 * sizeof(Matrix<Real>) : arg.size) {}
    Product link(size_t site, int mu) const {
        const auto *u = reinterpret_cast<const std::complex<Real> *>(base_ + site * pitch_) + 9 * mu;
        Product p;
        for (int k = 0; k < 9; ++k)
            p.e[k / 3][k % 3] = u[k];
        return p;
    }

  private:
    const unsigned char *base_;
    size_t pitch_;
};

Product operator*(const Product &a, const Product &b) {
    Product c{};
    for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 3; ++j)
            for (int k = 0; k < 3; ++k)
                c.e[i][j] += a.e[i][k] * b.e[k][j];
    return c;
}

// tr a b^dag
std::complex<double> trace_with_adjoint(const Product &a, const Product &b) {
    std::complex<double> sum = 0;
    for (int i = 0; i < 3; ++i)
        for (int k = 0; k < 3; ++k)
            sum += a.e[i][k] * std::conj(b.e[i][k]);
    return sum;
}

// Sums over a slice in t are made apart and added in their order, so that the number of threads does not matter.
double sum_over_slices(const std::function<double(int t)> &slice) {
    std::vector<double> parts(lattice.n[3]);
#pragma omp parallel for
    for (int t = 0; t < lattice.n[3]; ++t)
        parts[t] = slice(t);
    double sum = 0;
    for (const double part : parts)
        sum += part;
    return sum;
}

template <class Real> double plaquettes(const Gauge<Real> &gauge, bool with_time) {
    return sum_over_slices([&](int t) {
        double sum = 0;
        for (int z = 0; z < lattice.n[2]; ++z)
            for (int y = 0; y < lattice.n[1]; ++y)
                for (int x = 0; x < lattice.n[0]; ++x)
                    for (int mu = with_time ? 3 : 1; mu < (with_time ? 4 : 3); ++mu)
                        for (int nu = 0; nu < mu; ++nu) {
                            const auto at = [&](int dir) {
                                return lattice.site(x + (dir == 0), y + (dir == 1), z + (dir == 2), t + (dir == 3));
                            };
                            const size_t here = lattice.site(x, y, z, t);
                            sum += trace_with_adjoint(gauge.link(here, mu) * gauge.link(at(mu), nu),
                                                      gauge.link(here, nu) * gauge.link(at(nu), mu))
                                       .real();
                        }
        return sum;
    });
}

template <class Real> std::complex<double> polyakov(const Gauge<Real> &gauge, int dir) {
    std::complex<double> sum = 0;
    int start[4], n[4] = {lattice.n[0], lattice.n[1], lattice.n[2], lattice.n[3]};
    n[dir] = 1; // loops start where this coordinate is 0
    for (start[3] = 0; start[3] < n[3]; ++start[3])
        for (start[2] = 0; start[2] < n[2]; ++start[2])
            for (start[1] = 0; start[1] < n[1]; ++start[1])
                for (start[0] = 0; start[0] < n[0]; ++start[0]) {
                    int x[4] = {start[0], start[1], start[2], start[3]};
                    Product loop = gauge.link(lattice.site(x[0], x[1], x[2], x[3]), dir);
                    for (x[dir] = 1; x[dir] < lattice.n[dir]; ++x[dir])
                        loop = loop * gauge.link(lattice.site(x[0], x[1], x[2], x[3]), dir);
                    sum += loop.e[0][0] + loop.e[1][1] + loop.e[2][2];
                }
    return sum / static_cast<double>(lattice.sites() / lattice.n[dir]);
}

// A momentum is m01, m02, m12 (complex), then the imaginary parts of m00, m11, m22, and one number unused.
template <class Real> double momentum_action(const QudaMILCSiteArg_t &arg) {
    const bool packed = arg.mom != nullptr;
    const unsigned char *base =
        static_cast<const unsigned char *>(packed ? arg.mom : arg.site) + (packed ? 0 : arg.mom_offset);
    const size_t pitch = packed ? 40 * sizeof(Real) : arg.size, slice = lattice.sites() / lattice.n[3];
    return sum_over_slices([&](int t) {
        double sum = 0;
        for (size_t i = t * slice; i < (t + 1) * slice; ++i)
            for (int mu = 0; mu < 4; ++mu) {
                const Real *m = reinterpret_cast<const Real *>(base + i * pitch) + 10 * mu;
                for (int k = 0; k < 9; ++k)
                    sum += (k < 6 ? 1.0 : 0.5) * m[k] * static_cast<double>(m[k]);
                sum -= 4;
            }
        return sum;
    });
}

bool observable(const char *function, int precision, const QudaMILCSiteArg_t *arg) {
    if (arg != nullptr && (precision == 1 || precision == 2) && lattice.ranks == 1)
        return true;
    complain(function, lattice.ranks == 0  ? "called before qudaInit"
                       : lattice.ranks > 1 ? "several ranks are not built"
                                           : "bad argument");
    return false;
}

} // namespace

extern "C" {

void qudaSetMPICommHandle(void *) {} // one rank

void qudaInit(QudaInitArgs_t input) {
    lattice.ranks = 1;
    for (int mu = 0; mu < 4; ++mu) {
        lattice.n[mu] = input.layout.latsize[mu];
        lattice.ranks *= input.layout.machsize != nullptr ? input.layout.machsize[mu] : 1;
    }
}

void qudaFinalize(void) {} // the tables come at the exit of the program

void *qudaAllocatePinned(size_t bytes) { return milcgpu::host_room(bytes); }
void qudaFreePinned(void *address) { std::free(address); }
void *qudaAllocateManaged(size_t bytes) { return milcgpu::host_room(bytes); }
void qudaFreeManaged(void *address) { std::free(address); }

void qudaInvert(int external_precision, int, double mass, QudaInvertArgs_t inv_args, double target_residual,
                double target_fermilab_residual, const void *fatlink, const void *longlink, void *source,
                void *solution, double *final_residual, double *final_fermilab_residual, int *num_iters) {
    milcgpu_plugin_solve_call call{};
    call.routine = MILCGPU_KS_CONGRAD;
    call.mixed = inv_args.mixed_precision;
    call.fat = fatlink;
    call.lng = longlink;
    call.parity = parity_of(inv_args);
    call.mass = mass;
    call.tolerance = target_residual;
    call.relative_tolerance = target_fermilab_residual;
    call.max_iterations = inv_args.max_iter;
    call.source = vectors(source, external_precision);
    call.solution = vectors(solution, external_precision);
    milcgpu_solve_report report{};
    if (solve(__func__, external_precision, call, report)) {
        *final_residual = report.true_residual;
        *final_fermilab_residual = target_fermilab_residual > 0 ? report.relative_residual : 1;
        *num_iters = report.iterations;
    } else {
        *final_residual = *final_fermilab_residual = INFINITY;
        *num_iters = 0;
    }
}

void qudaInvertMsrc(int external_precision, int quda_precision, double mass, QudaInvertArgs_t inv_args,
                    double target_residual, double target_fermilab_residual, const void *fatlink, const void *longlink,
                    void **sources, void **solutions, double *final_residual, double *final_fermilab_residual,
                    int *num_iters, int num_src) {
    *final_residual = *final_fermilab_residual = 0;
    int all = 0;
    for (int i = 0; i < num_src; ++i) {
        double residual = INFINITY, relative = INFINITY;
        qudaInvert(external_precision, quda_precision, mass, inv_args, target_residual, target_fermilab_residual,
                   fatlink, longlink, sources[i], solutions[i], &residual, &relative, num_iters);
        *final_residual = std::fmax(*final_residual, residual);
        *final_fermilab_residual = std::fmax(*final_fermilab_residual, relative);
        all += *num_iters;
    }
    *num_iters = all;
}

void qudaMultishiftInvert(int external_precision, int, int num_offsets, double *offset, QudaInvertArgs_t inv_args,
                          const double *target_residual, const double *target_fermilab_residual, const void *fatlink,
                          const void *longlink, void *source, void **solutions, double *final_residual,
                          double *final_fermilab_residual, int *num_iters) {
    std::vector<milcgpu_field> fields;
    std::vector<milcgpu_shift_report> shifts;
    std::vector<double> tolerances;
    milcgpu_multi_mass_report report{};
    const bool good = guarded(__func__, [&] {
        for (int i = 0; i < num_offsets; ++i) {
            fields.push_back(vectors(solutions[i], external_precision));
            tolerances.push_back(target_residual[i] > 0 ? target_residual[i] : target_residual[0]);
        }
        shifts.resize(num_offsets);
        milcgpu_plugin_multi_mass_call call{};
        call.mixed = inv_args.mixed_precision;
        call.fat = fatlink;
        call.lng = longlink;
        call.parity = parity_of(inv_args);
        call.n_shifts = num_offsets;
        call.offsets = offset;
        call.tolerances = tolerances.data();
        call.relative_tolerances = target_fermilab_residual;
        call.max_iterations = std::max(1, inv_args.max_iter - 1); // MILC counts from 1
        call.max_restarts = most_starts;                          // of a refinement; none at the limit
        call.source = vectors(source, external_precision);
        call.solutions = fields.data();
        return done("qudaMultishiftInvert", external_precision,
                    [&] { return milcgpu_plugin_multi_mass(&call, shifts.data(), &report) != 0; });
    });
    for (int i = 0; i < num_offsets; ++i) {
        final_residual[i] = good ? shifts[i].true_residual : INFINITY;
        final_fermilab_residual[i] = good && target_fermilab_residual[i] > 0 ? shifts[i].relative_residual
                                     : good                                  ? 1
                                                                             : INFINITY;
    }
    *num_iters = good ? report.iterations : 0;
}

void qudaDslash(int external_precision, int, QudaInvertArgs_t inv_args, const void *fatlink, const void *longlink,
                void *source, void *destination, int *num_iters) {
    const int parity = parity_of(inv_args);
    if (!done(__func__, external_precision, [&] {
            return milcgpu_plugin_dslash(fatlink, longlink, parity, vectors(source, external_precision),
                                         vectors(destination, external_precision)) != 0;
        })) {
        const size_t half = 3 * lattice.sites() * (external_precision == 1 ? sizeof(float) : sizeof(double));
        fill_with_nan(static_cast<unsigned char *>(destination) + (parity == MILCGPU_EVEN ? 0 : half),
                      3 * lattice.sites(), external_precision);
    }
    *num_iters = 0;
}

void qudaLoadKSLink(int precision, QudaFatLinkArgs_t, const double path_coeff[6], void *inlink, void *fatlink,
                    void *longlink) {
    milcgpu_fatlink_spec spec{};
    spec.paths = paths_of(path_coeff);
    load_links(__func__, precision, MILCGPU_LOAD_FN_LINKS, spec, inlink, 1, fatlink, longlink, nullptr, nullptr);
}

void qudaLoadUnitarizedLink(int precision, QudaFatLinkArgs_t, const double path_coeff[6], void *inlink, void *fatlink,
                            void *ulink) {
    milcgpu_fatlink_spec spec{};
    spec.hisq = 1;
    spec.fat7 = paths_of(path_coeff);
    spec.svd_relative = svd_relative;
    spec.svd_absolute = svd_absolute;
    load_links(__func__, precision, MILCGPU_HISQ_LINKS, spec, inlink, 0, nullptr, nullptr, fatlink, ulink);
}

void qudaHisqParamsInit(QudaHisqParams_t parameters) {
    svd_relative = parameters.reunit_svd_rel_error;
    svd_absolute = parameters.reunit_svd_abs_error;
}

double qudaMomAction(int precision, QudaMILCSiteArg_t *arg) {
    double action = NAN;
    guarded(__func__, [&] {
        if (observable("qudaMomAction", precision, arg))
            action = precision == 1 ? momentum_action<float>(*arg) : momentum_action<double>(*arg);
        return true;
    });
    return action;
}

void qudaPlaquettePhased(int precision, double plaq[3], QudaMILCSiteArg_t *arg, int phase_in) {
    plaq[1] = plaq[2] = NAN;
    guarded(__func__, [&] {
        if (!observable("qudaPlaquettePhased", precision, arg))
            return false;
        // The staggered phases of a plaquette multiply to -1; boundary signs cancel in it.
        const double scale = (phase_in != 0 ? -1.0 : 1.0) / (9.0 * static_cast<double>(lattice.sites()));
        for (int k = 0; k < 2; ++k)
            plaq[1 + k] = scale * (precision == 1 ? plaquettes(Gauge<float>(*arg), k == 1)
                                                  : plaquettes(Gauge<double>(*arg), k == 1));
        return true;
    });
    plaq[0] = 0.5 * (plaq[1] + plaq[2]);
}

void qudaPolyakovLoopPhased(int precision, double ploop[2], int dir, QudaMILCSiteArg_t *arg, int phase_in) {
    std::complex<double> loop(NAN, NAN);
    guarded(__func__, [&] {
        if (observable("qudaPolyakovLoopPhased", precision, arg) && dir >= 0 && dir < 4)
            loop = precision == 1 ? polyakov(Gauge<float>(*arg), dir) : polyakov(Gauge<double>(*arg), dir);
        return true;
    });
    // Along a loop in x, y or z the phases cancel; in t there is the boundary's sign.
    const double sign = phase_in != 0 && dir == 3 ? -1 : 1;
    ploop[0] = sign * loop.real();
    ploop[1] = sign * loop.imag();
}

} // extern "C"
