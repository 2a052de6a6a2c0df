// Observables of MILC's site structures, on the host: MILC asks for them a few times a trajectory, and its links are
// there.
#include "milc_glue/quda_compat/internal.h"
#include <algorithm>
#include <cmath>
#include <complex>
#include <functional>
#include <vector>

using namespace milcgpu::quda;

namespace {

struct Product {
    std::complex<double> e[3][3];
};

template <class Real> class Gauge {
  public:
    explicit Gauge(const QudaMILCSiteArg_t &arg)
        : links_(records_of(links_of(arg, sizeof(Real) / 4), 72, sizeof(Real) / 4)) {}
    Product link(size_t site, int mu) const {
        const auto *first = static_cast<const unsigned char *>(links_.data) + site * links_.pitch;
        const auto *u = reinterpret_cast<const std::complex<Real> *>(first) + 9 * mu;
        Product p;
        for (int k = 0; k < 9; ++k)
            p.e[k / 3][k % 3] = u[k];
        return p;
    }

  private:
    milcgpu::HostRecords links_;
};

Product operator*(const Product &a, const Product &b) {
    Product c{};
    for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 3; ++j)
            for (int k = 0; k < 3; ++k)
                c.e[i][j] += a.e[i][k] * b.e[k][j];
    return c;
}

Product adjoint(const Product &a) {
    Product c;
    for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 3; ++j)
            c.e[i][j] = std::conj(a.e[j][i]);
    return c;
}

// Whether the link from x along mu has the phase -1: staggered, and the boundary's in t.
bool has_minus(const int x[4], int mu) {
    const int before[4] = {x[3], x[3] + x[0], x[3] + x[0] + x[1], x[3] == lattice.n[3] - 1 ? 1 : 0};
    return before[mu] % 2 != 0;
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

// The sum over all sites of the trace of a loop of links, as they are. steps: 0 to 3 along x, y, z, t and 7 - mu back.
// signs: times the links' phases, which takes them out again.
template <class Real>
std::complex<double> trace_of_loop(const Gauge<Real> &gauge, const int *steps, int length, bool signs) {
    std::vector<std::complex<double>> parts(lattice.n[3]);
#pragma omp parallel for
    for (int t = 0; t < lattice.n[3]; ++t)
        for (int k = 0; k < lattice.n[0] * lattice.n[1] * lattice.n[2]; ++k) {
            int x[4] = {k % lattice.n[0], k / lattice.n[0] % lattice.n[1], k / (lattice.n[0] * lattice.n[1]), t};
            Product loop{{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
            bool minus = false;
            for (int i = 0; i < length; ++i) {
                const bool back = steps[i] > 3;
                const int mu = back ? 7 - steps[i] : steps[i];
                if (back)
                    x[mu] = (x[mu] + lattice.n[mu] - 1) % lattice.n[mu];
                const Product u = gauge.link(lattice.site(x[0], x[1], x[2], x[3]), mu);
                loop = loop * (back ? adjoint(u) : u);
                minus ^= has_minus(x, mu);
                if (!back)
                    x[mu] = (x[mu] + 1) % lattice.n[mu];
            }
            const std::complex<double> trace = loop.e[0][0] + loop.e[1][1] + loop.e[2][2];
            parts[t] += signs && minus ? -trace : trace;
        }
    std::complex<double> sum = 0;
    for (const auto &part : parts)
        sum += part;
    return sum;
}

bool are_steps(int **paths, const int *lengths, int n) {
    for (int k = 0; k < n; ++k)
        for (int i = 0; i < lengths[k]; ++i)
            if (paths[k][i] < 0 || paths[k][i] > 7)
                return false;
    return true;
}

// A momentum is m01, m02, m12 (complex), then the imaginary parts of m00, m11, m22, and one number unused.
template <class Real> double momentum_action(const milcgpu_field &momenta) {
    const milcgpu::HostRecords records = records_of(momenta, 40, sizeof(Real) / 4);
    const auto *base = static_cast<const unsigned char *>(records.data);
    const size_t slice = lattice.sites() / lattice.n[3];
    return sum_over_slices([&](int t) {
        double sum = 0;
        for (size_t i = t * slice; i < (t + 1) * slice; ++i)
            for (int mu = 0; mu < 4; ++mu) {
                const Real *m = reinterpret_cast<const Real *>(base + i * records.pitch) + 10 * mu;
                for (int k = 0; k < 9; ++k)
                    sum += (k < 6 ? 1.0 : 0.5) * m[k] * static_cast<double>(m[k]);
                sum -= 4;
            }
        return sum;
    });
}

} // namespace

bool milcgpu::quda::observable(const char *function, int precision, const QudaMILCSiteArg_t *arg) {
    if (arg != nullptr && (precision == 1 || precision == 2) && lattice.ranks == 1)
        return true;
    complain(function, lattice.ranks == 0  ? "called before qudaInit"
                       : lattice.ranks > 1 ? "several ranks are not built"
                                           : "bad argument");
    return false;
}

extern "C" {

double qudaMomAction(int precision, QudaMILCSiteArg_t *arg) {
    double action = NAN;
    guarded(__func__, [&] {
        milcgpu_field momenta;
        if (observable("qudaMomAction", precision, arg) && newest_momenta("qudaMomAction", *arg, precision, momenta))
            action = precision == 1 ? momentum_action<float>(momenta) : momentum_action<double>(momenta);
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

void qudaGaugeLoopTracePhased(int precision, double *traces, int **paths, int *lengths, double *coefficients,
                              int num_paths, int, double factor, QudaMILCSiteArg_t *arg, int phase_in) {
    std::fill_n(traces, 2 * std::max(0, num_paths), NAN);
    guarded(__func__, [&] {
        if (!observable("qudaGaugeLoopTracePhased", precision, arg))
            return false;
        if (!are_steps(paths, lengths, num_paths)) {
            complain("qudaGaugeLoopTracePhased", "steps of a loop must be 0 to 7: the traces are NaN");
            return false;
        }
        for (int k = 0; k < num_paths; ++k) {
            const auto trace = precision == 1 ? trace_of_loop(Gauge<float>(*arg), paths[k], lengths[k], phase_in != 0)
                                              : trace_of_loop(Gauge<double>(*arg), paths[k], lengths[k], phase_in != 0);
            traces[2 * k] = factor * coefficients[k] * trace.real();
            traces[2 * k + 1] = factor * coefficients[k] * trace.imag();
        }
        return true;
    });
}

void qudaGaugeMeasurementsPhased(int precision, double plaq[3], double ploop[2], int dir, double *traces, int **paths,
                                 int *lengths, double *coefficients, int num_paths, int max_length, double factor,
                                 QudaMILCSiteArg_t *arg, int phase_in) {
    qudaPlaquettePhased(precision, plaq, arg, phase_in);
    qudaPolyakovLoopPhased(precision, ploop, dir, arg, phase_in);
    qudaGaugeLoopTracePhased(precision, traces, paths, lengths, coefficients, num_paths, max_length, factor, arg,
                             phase_in);
}

} // extern "C"
