// Observables of MILC's site structures, on the host: MILC asks for them a few times a trajectory, and its links are
// there.
#include "milc_glue/quda_compat/internal.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstring>
#include <vector>

using namespace milcgpu::quda;

namespace {

struct Product {
    std::complex<double> e[3][3];
};

// In the box, 0 to its extents - 1; beyond it neighbours' sites, where the box is cut, else the other end.
using Place = std::array<int, 4>;

// The links of this rank's box, and of the nearest `margin` layers of its neighbours where the box is cut. All ranks
// make one together.
template <class Real> class Gauge {
  public:
    explicit Gauge(const QudaMILCSiteArg_t &arg, int margin)
        : links_(records_of(links_of(arg, sizeof(Real) / 4), 72, sizeof(Real) / 4)) {
        for (int mu = 0; mu < 4; ++mu) {
            margin_[mu] = lattice.cut(mu) ? margin : 0;
            wide_[mu] = lattice.n(mu) + 2 * margin_[mu];
            if (margin_[mu] > lattice.n(mu)) // on all ranks
                throw milcgpu::Error(milcgpu::Status::not_built,
                                     milcgpu::format("a loop reaches %d sites along %c, beyond the neighbour's %d",
                                                     margin, "xyzt"[mu], lattice.n(mu)));
        }
        if (lattice.is_cut() && margin > 0)
            fetch();
    }
    Product link(const Place &x, int mu) const {
        const auto *first = static_cast<const unsigned char *>(links_.data) + index(x) * links_.pitch;
        const auto *u = reinterpret_cast<const std::complex<Real> *>(first) + 9 * mu;
        Product p;
        for (int k = 0; k < 9; ++k)
            p.e[k / 3][k % 3] = u[k];
        return p;
    }

  private:
    static constexpr size_t record = 72 * sizeof(Real);

    size_t index(Place x) const {
        for (int mu = 0; mu < 4; ++mu)
            if (margin_[mu] == 0)
                x[mu] = (x[mu] % lattice.n(mu) + lattice.n(mu)) % lattice.n(mu);
        return fetched_.empty() ? lattice.site(x[0], x[1], x[2], x[3]) : wide_index(x);
    }
    size_t wide_index(const Place &x) const {
        size_t index = 0;
        for (int mu = 3; mu >= 0; --mu)
            index = index * wide_[mu] + x[mu] + margin_[mu];
        return index;
    }
    // Calls use(place) for the layers from .. from + count - 1 in mu, all others wide.
    template <class Use> void for_layers(int mu, int from, int count, const Use &use) const {
        Place begin, end, x;
        for (int nu = 0; nu < 4; ++nu)
            begin[nu] = -margin_[nu], end[nu] = lattice.n(nu) + margin_[nu];
        begin[mu] = from, end[mu] = from + count;
        for (x[3] = begin[3]; x[3] < end[3]; ++x[3])
            for (x[2] = begin[2]; x[2] < end[2]; ++x[2])
                for (x[1] = begin[1]; x[1] < end[1]; ++x[1])
                    for (x[0] = begin[0]; x[0] < end[0]; ++x[0])
                        use(x);
    }

    // Direction by direction, each with what the ones before have brought: so corners come along.
    void fetch() {
        lattice.messenger->collective(
            phase, [&] { fetched_.resize(72 * static_cast<size_t>(wide_[0]) * wide_[1] * wide_[2] * wide_[3]); });
        unsigned char *const to = reinterpret_cast<unsigned char *>(fetched_.data());
        Place x;
        for (x[3] = 0; x[3] < lattice.n(3); ++x[3])
            for (x[2] = 0; x[2] < lattice.n(2); ++x[2])
                for (x[1] = 0; x[1] < lattice.n(1); ++x[1])
                    for (x[0] = 0; x[0] < lattice.n(0); ++x[0])
                        std::memcpy(to + wide_index(x) * record,
                                    static_cast<const unsigned char *>(links_.data) +
                                        lattice.site(x[0], x[1], x[2], x[3]) * links_.pitch,
                                    record);
        for (int mu = 0; mu < 4; ++mu)
            if (lattice.cut(mu))
                exchange(mu, to);
        links_ = {to, fetched_.size() / 72, record, record};
    }
    void exchange(int mu, unsigned char *links) {
        const int m = margin_[mu], n = lattice.n(mu);
        struct Buffers {
            std::vector<unsigned char> out[2], in[2]; // behind, ahead
        };
        const auto buffers = std::make_shared<Buffers>();
        size_t bytes = record * m;
        for (int nu = 0; nu < 4; ++nu)
            bytes *= nu != mu ? wide_[nu] : 1;
        lattice.messenger->collective(phase, [&] {
            for (auto *each : {&buffers->out[0], &buffers->out[1], &buffers->in[0], &buffers->in[1]})
                each->resize(bytes);
        });
        std::vector<milcgpu::Message> messages;
        for (const int side : {0, 1}) {
            unsigned char *next = buffers->out[side].data();
            for_layers(mu, side == 0 ? 0 : n - m, m, [&](const Place &x) {
                std::memcpy(next, links + wide_index(x) * record, record);
                next += record;
            });
            // What goes behind comes from ahead, with one tag.
            messages.push_back(
                {lattice.box.neighbour[mu][side], buffers->out[side].data(), nullptr, bytes, side, name});
            messages.push_back(
                {lattice.box.neighbour[mu][1 - side], nullptr, buffers->in[1 - side].data(), bytes, side, name});
        }
        milcgpu::Exchange(*lattice.messenger, phase, messages, buffers).finish();
        for (const int side : {0, 1}) {
            const unsigned char *next = buffers->in[side].data();
            for_layers(mu, side == 0 ? -m : n, m, [&](const Place &x) {
                std::memcpy(links + wide_index(x) * record, next, record);
                next += record;
            });
        }
    }

    static constexpr const char *phase = "links for an observable", *name = "beside it";
    milcgpu::HostRecords links_;
    int margin_[4], wide_[4];
    std::vector<Real> fetched_; // empty: MILC's own are all there is
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
bool has_minus(const Place &x, int mu) {
    int all[4]; // coordinates in the whole lattice
    for (int nu = 0; nu < 4; ++nu)
        all[nu] = (x[nu] + lattice.box.origin[nu] + 2 * lattice.box.whole[nu]) % lattice.box.whole[nu];
    const int before[4] = {all[3], all[3] + all[0], all[3] + all[0] + all[1], all[3] == lattice.box.whole[3] - 1};
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

double over_ranks(double sum) {
    if (lattice.ranks > 1)
        lattice.messenger->add_in_rank_order("an observable", &sum, 1);
    return sum;
}
std::complex<double> over_ranks(std::complex<double> sum) {
    double parts[2] = {sum.real(), sum.imag()};
    if (lattice.ranks > 1)
        lattice.messenger->add_in_rank_order("an observable", parts, 2);
    return {parts[0], parts[1]};
}

// Sums over a slice in t are made apart and added in their order, so that the number of threads does not matter; then
// those of the ranks in theirs.
template <class Number, class Slice> Number sum_over_slices(const Slice &slice) {
    std::vector<Number> parts(lattice.n(3));
#pragma omp parallel for
    for (int t = 0; t < lattice.n(3); ++t)
        parts[t] = slice(t);
    Number sum = 0;
    for (const Number &part : parts)
        sum += part;
    return over_ranks(sum);
}

template <class Real> double plaquettes(const Gauge<Real> &gauge, bool with_time) {
    return sum_over_slices<double>([&](int t) {
        double sum = 0;
        for (int z = 0; z < lattice.n(2); ++z)
            for (int y = 0; y < lattice.n(1); ++y)
                for (int x = 0; x < lattice.n(0); ++x)
                    for (int mu = with_time ? 3 : 1; mu < (with_time ? 4 : 3); ++mu)
                        for (int nu = 0; nu < mu; ++nu) {
                            const Place here = {x, y, z, t};
                            const auto at = [&](int dir) {
                                Place there = here;
                                ++there[dir];
                                return there;
                            };
                            sum += trace_with_adjoint(gauge.link(here, mu) * gauge.link(at(mu), nu),
                                                      gauge.link(here, nu) * gauge.link(at(nu), mu))
                                       .real();
                        }
        return sum;
    });
}

// Of the loops through this rank's sites, the part that lies here.
template <class Real> std::vector<Product> lines(const Gauge<Real> &gauge, int dir) {
    std::vector<Product> lines;
    Place start, n = {lattice.n(0), lattice.n(1), lattice.n(2), lattice.n(3)};
    n[dir] = 1; // where this coordinate is 0
    for (start[3] = 0; start[3] < n[3]; ++start[3])
        for (start[2] = 0; start[2] < n[2]; ++start[2])
            for (start[1] = 0; start[1] < n[1]; ++start[1])
                for (start[0] = 0; start[0] < n[0]; ++start[0]) {
                    Place x = start;
                    lines.push_back(gauge.link(x, dir));
                    for (x[dir] = 1; x[dir] < lattice.n(dir); ++x[dir])
                        lines.back() = lines.back() * gauge.link(x, dir);
                }
    return lines;
}

// From rank to rank along dir, each puts its part behind those before it; the last one has the loops.
std::complex<double> polyakov(std::vector<Product> mine, int dir) {
    const milcgpu_milc_box &box = lattice.box;
    const bool is_first = box.origin[dir] == 0, is_last = box.origin[dir] + box.extent[dir] == box.whole[dir];
    const auto pass = [&](int peer, const std::shared_ptr<std::vector<Product>> &buffer, bool sends) {
        const size_t bytes = buffer->size() * sizeof(Product);
        milcgpu::Exchange(*lattice.messenger, "a Polyakov loop",
                          {{peer, sends ? buffer->data() : nullptr, sends ? nullptr : buffer->data(), bytes, 0,
                            sends ? "ahead" : "behind"}},
                          buffer)
            .finish();
    };
    const auto loops = std::make_shared<std::vector<Product>>(mine);
    if (!is_first) {
        pass(box.neighbour[dir][0], loops, false);
        for (size_t k = 0; k < mine.size(); ++k)
            (*loops)[k] = (*loops)[k] * mine[k];
    }
    std::complex<double> sum = 0;
    if (!is_last)
        pass(box.neighbour[dir][1], loops, true);
    else
        for (const Product &loop : *loops)
            sum += loop.e[0][0] + loop.e[1][1] + loop.e[2][2];
    return over_ranks(sum) / (lattice.whole_sites() / box.whole[dir]);
}

// The sum over all sites of the trace of a loop of links, as they are. steps: 0 to 3 along x, y, z, t and 7 - mu back.
// signs: times the links' phases, which takes them out again.
template <class Real>
std::complex<double> trace_of_loop(const Gauge<Real> &gauge, const int *steps, int length, bool signs) {
    return sum_over_slices<std::complex<double>>([&](int t) {
        std::complex<double> sum = 0;
        for (int k = 0; k < lattice.n(0) * lattice.n(1) * lattice.n(2); ++k) {
            Place x = {k % lattice.n(0), k / lattice.n(0) % lattice.n(1), k / (lattice.n(0) * lattice.n(1)), t};
            Product loop{{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
            bool minus = false;
            for (int i = 0; i < length; ++i) {
                const bool back = steps[i] > 3;
                const int mu = back ? 7 - steps[i] : steps[i];
                x[mu] -= back ? 1 : 0;
                const Product u = gauge.link(x, mu);
                loop = loop * (back ? adjoint(u) : u);
                minus ^= has_minus(x, mu);
                x[mu] += back ? 0 : 1;
            }
            const std::complex<double> trace = loop.e[0][0] + loop.e[1][1] + loop.e[2][2];
            sum += signs && minus ? -trace : trace;
        }
        return sum;
    });
}

// Sites beyond a box that loops through its sites reach, in a direction that is cut.
int reach_of(int **paths, const int *lengths, int n) {
    int reach = 0;
    for (int k = 0; k < n; ++k) {
        Place x{};
        for (int i = 0; i < lengths[k]; ++i) {
            const int mu = paths[k][i] > 3 ? 7 - paths[k][i] : paths[k][i];
            x[mu] += paths[k][i] > 3 ? -1 : 1;
            if (lattice.cut(mu))
                reach = std::max(reach, std::abs(x[mu]));
        }
    }
    return reach;
}

// use(the links of the sites), in their precision.
template <class Use> void with_gauge(const QudaMILCSiteArg_t &arg, int precision, int margin, const Use &use) {
    if (precision == 1)
        use(Gauge<float>(arg, margin));
    else
        use(Gauge<double>(arg, margin));
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
    const size_t slice = lattice.sites() / lattice.n(3); // any part of so many
    return sum_over_slices<double>([&](int t) {
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
    const bool has_ranks = lattice.ranks == 1 || (lattice.ranks > 1 && lattice.messenger);
    if (arg != nullptr && (precision == 1 || precision == 2) && has_ranks)
        return true;
    complain(function, lattice.ranks == 0 ? "called before qudaInit"
                       : !has_ranks       ? "several ranks, and no mpi.h was found when MILC was built"
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
        const double scale = (phase_in != 0 ? -1.0 : 1.0) / (9.0 * lattice.whole_sites());
        with_gauge(*arg, precision, 1, [&](const auto &gauge) {
            for (int k = 0; k < 2; ++k)
                plaq[1 + k] = scale * plaquettes(gauge, k == 1);
        });
        return true;
    });
    plaq[0] = 0.5 * (plaq[1] + plaq[2]);
}

void qudaPolyakovLoopPhased(int precision, double ploop[2], int dir, QudaMILCSiteArg_t *arg, int phase_in) {
    std::complex<double> loop(NAN, NAN);
    guarded(__func__, [&] {
        if (observable("qudaPolyakovLoopPhased", precision, arg) && dir >= 0 && dir < 4)
            with_gauge(*arg, precision, 0, [&](const auto &gauge) { loop = polyakov(lines(gauge, dir), dir); });
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
        with_gauge(*arg, precision, reach_of(paths, lengths, num_paths), [&](const auto &gauge) {
            for (int k = 0; k < num_paths; ++k) {
                const auto trace = trace_of_loop(gauge, paths[k], lengths[k], phase_in != 0);
                traces[2 * k] = factor * coefficients[k] * trace.real();
                traces[2 * k + 1] = factor * coefficients[k] * trace.imag();
            }
        });
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
