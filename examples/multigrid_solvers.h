// The solvers of the multigrid prototype: flexible GCR for K sources in lock-step, the modes that deflate the coarse
// operator, and the K-cycle.
#pragma once
#include "examples/multigrid_levels.h"
#include "gpu_kernels/machine/error.h"
#include "gpu_kernels/solver/hermitian.h"
#include <algorithm>
#include <chrono>

namespace multigrid {

// Generalized conjugate residuals: x += sum_j y_j p_j with p_j = pre(r), so that |r| is the least. Each source has its
// own numbers. Starts again after `most` directions.
template <class Real, int K> class Gcr {
  public:
    Gcr(Device &device, int rows, int most)
        : device_(device), rows_(rows), most_(most), room_(room_for_sums<Real, K>(device, rows, std::max(3, most))),
          sums_(device, std::max(3, most), "multigrid: sums"), ww_(device, most, "multigrid: sums"),
          squares_(device, 1, "multigrid: sums"), factors_(device, size_t(most) * most, "multigrid: sums"),
          alpha_(device, most, "multigrid: sums") {
        for (int j = 0; j < most; ++j) {
            p_.push_back(make_field<Real, K>(device, rows));
            w_.push_back(make_field<Real, K>(device, rows));
        }
    }

    // r: the residual of x at the start and at the end. op(p, w): w = A p; pre(r, p). Until every |r| is below
    // `tolerance` |b|; with 0 it is not looked at. Returns the iterations.
    template <class Operator, class Preconditioner>
    int run(const Field<Real, K> &x, const Field<Real, K> &r, const Field<Real, K> &b, int iterations, double tolerance,
            const Operator &op, const Preconditioner &pre) {
        std::vector<double> start;
        if (tolerance > 0)
            start = norms(b);
        int done = 0;
        for (bool converged = false; done < iterations && !converged;) {
            int j = 0;
            for (; j < most_ && done < iterations && !converged; ++j, ++done) {
                pre(r, p_[j]);
                op(p_[j], w_[j]);
                orthogonalize(j);
                step(j, r);
                converged = tolerance > 0 && has_converged(start, tolerance);
            }
            finish(x, j);
        }
        return done;
    }

    // Its steps. They are public only because nvcc takes lambdas for the device from nowhere else.
    void orthogonalize(int j) {
        if (j == 0)
            return;
        List<Real, K> before, same;
        for (int i = 0; i < j; ++i)
            before.add(w_[i].data()), same.add(w_[j].data());
        dots(device_, rows_, before, same, room_, sums_.data());
        const Packed<double, K> *const sum = sums_.data(), *const ww = ww_.data();
        Packed<Real, K> *const factor = factors_.data() + size_t(j) * most_;
        each(
            device_, j * K,
            [=] ON_DEVICE(int i) {
                const double square = ww[i / K].s[i % K].re;
                factor[i / K].s[i % K] = milcgpu::convert<Real>((square > 0 ? 1 / square : 0.0) * sum[i / K].s[i % K]);
            },
            "multigrid: GCR factors");
        combine(w_[j], before, factor, Real(-1));
    }
    void step(int j, const Field<Real, K> &r) {
        List<Real, K> w = list(w_[j]), right = list(w_[j]);
        w.add(w_[j].data()), right.add(r.data());
        w.add(r.data()), right.add(r.data());
        dots(device_, rows_, w, right, room_, sums_.data());
        const Packed<double, K> *const sum = sums_.data();
        Packed<double, K> *const ww = ww_.data() + j, *const square = squares_.data();
        Packed<Real, K> *const alpha = alpha_.data() + j;
        each(
            device_, K,
            [=] ON_DEVICE(int k) {
                ww[0].s[k] = sum[0].s[k];
                const double inverse = sum[0].s[k].re > 0 ? 1 / sum[0].s[k].re : 0.0;
                alpha[0].s[k] = milcgpu::convert<Real>(inverse * sum[1].s[k]);
                square[0].s[k] = {sum[2].s[k].re - inverse * norm(sum[1].s[k]), 0};
            },
            "multigrid: GCR step");
        combine(r, list(w_[j]), alpha, Real(-1));
    }
    bool has_converged(const std::vector<double> &start, double tolerance) const {
        const Packed<double, K> now = squares_.to_host()[0];
        bool all = true;
        for (int k = 0; k < K; ++k) {
            if (!std::isfinite(now.s[k].re))
                throw std::runtime_error("GCR: the residual is not finite");
            all = all && now.s[k].re <= tolerance * tolerance * start[k];
        }
        return all;
    }
    // w_j = A p_j - sum_(i < j) factor_ji w_i, so the y of sum_j y_j p_j follow from alpha by substitution.
    void finish(const Field<Real, K> &x, int count) {
        Packed<Real, K> *const alpha = alpha_.data();
        const Packed<Real, K> *const factors = factors_.data();
        const int most = most_;
        each(
            device_, K,
            [=] ON_DEVICE(int k) {
                for (int j = count - 1; j >= 0; --j)
                    for (int l = j + 1; l < count; ++l)
                        alpha[j].s[k] = minus(alpha[j].s[k], factors[size_t(l) * most + j].s[k], alpha[l].s[k]);
            },
            "multigrid: GCR solution");
        List<Real, K> directions;
        for (int j = 0; j < count; ++j)
            directions.add(p_[j].data());
        combine(x, directions, alpha);
    }

  private:
    Device &device_;
    int rows_, most_;
    std::vector<Field<Real, K>> p_, w_;
    DeviceArray<Packed<double, K>> room_, sums_, ww_, squares_;
    DeviceArray<Packed<Real, K>> factors_, alpha_;
};

// ---- many coarse vectors: [vector][row]

using Vectors = DeviceArray<Packed<float, 1>>;

// sums[i] = <v_i, x>
template <int K>
void gram(const Vectors &v, int count, const Field<float, K> &x, const DeviceArray<Packed<double, K>> &room,
          Packed<float, K> *sums) {
    constexpr int at_once = 2, chunks = 1024;
    const int rows = static_cast<int>(x.size());
    const Packed<float, 1> *const a = v.data();
    const Packed<float, K> *const b = x.data();
    Packed<double, K> *const partial = room.data();
    each(
        x.device(), (count + at_once - 1) / at_once * chunks,
        [=] ON_DEVICE(int i) {
            const int chunk = i % chunks, first = i / chunks * at_once;
            const size_t second = first + 1 < count ? rows : 0;
            Packed<float, K> sum[at_once] = {};
            for (int row = chunk; row < rows; row += chunks) {
                const Packed<float, K> y = load_row<Reuse::keep>(b + row);
                const Packed<float, 1> *const at = a + size_t(first) * rows + row;
                ApplyBlocks<float, K, 0>::add(sum[0], {{conj(at[0].s[0])}}, y);
                ApplyBlocks<float, K, 0>::add(sum[1], {{conj(at[second].s[0])}}, y);
            }
            for (int l = 0; l < at_once && first + l < count; ++l)
                for (int k = 0; k < K; ++k)
                    partial[size_t(first + l) * chunks + chunk].s[k] = milcgpu::convert<double>(sum[l].s[k]);
        },
        "multigrid: gram");
    reduce(x.device(), partial, count, chunks, sums);
}
template <int K> DeviceArray<Packed<double, K>> room_for_gram(Device &device, int count) {
    return DeviceArray<Packed<double, K>>(device, size_t(count) * 1024, "multigrid: sums");
}

// x += sign sum_i factors[i] v_i
template <int K>
void add_vectors(const Field<float, K> &x, const Vectors &v, int count, const Packed<float, K> *factors, float sign) {
    const int rows = static_cast<int>(x.size());
    const Packed<float, 1> *const a = v.data();
    Packed<float, K> *const out = x.data();
    each(
        x.device(), rows,
        [=] ON_DEVICE(int row) {
            Packed<float, K> sum = out[row];
            for (int i = 0; i < count; ++i)
                ApplyBlocks<float, K, 0>::add(sum, {{sign * a[size_t(i) * rows + row].s[0]}},
                                              load_row<Reuse::keep>(factors + i));
            out[row] = sum;
        },
        "multigrid: add vectors");
}
template <int K> void store_vectors(const Vectors &v, int first, const Field<float, K> &x) {
    const int rows = static_cast<int>(x.size());
    Packed<float, 1> *const a = v.data();
    const Packed<float, K> *const b = x.data();
    each(
        x.device(), rows,
        [=] ON_DEVICE(int row) {
            for (int k = 0; k < K; ++k)
                a[size_t(first + k) * rows + row].s[0] = b[row].s[k];
        },
        "multigrid: store vectors");
}
template <int K> void load_vectors(const Vectors &v, int first, const Field<float, K> &x) {
    const int rows = static_cast<int>(x.size());
    const Packed<float, 1> *const a = v.data();
    Packed<float, K> *const b = x.data();
    each(
        x.device(), rows,
        [=] ON_DEVICE(int row) {
            for (int k = 0; k < K; ++k)
                b[row].s[k] = a[size_t(first + k) * rows + row].s[0];
        },
        "multigrid: load vectors");
}

// The lowest singular values of the coarse operator A: A V = U S, with the Ritz vectors V of A^dag A in a Krylov space
// of blocks of 16, each filtered by a Chebyshev polynomial. U is orthonormal, however well V has converged.
struct CoarseModes {
    int count = 0;
    Vectors u, v_by_s; // V S^-1
    std::vector<double> values;
    double seconds = 0;
};

inline CoarseModes coarse_modes(const Blocks<float> &a, int wanted) {
    constexpr int K = 16, moments = 150;
    const auto clock = [] { return std::chrono::steady_clock::now(); };
    Device &device = a.elements.device();
    device.synchronize();
    const auto start = clock();
    const int rows = a.all_rows();
    CoarseModes modes;
    modes.count = std::min(wanted, rows / 4 / K * K);
    const int n = modes.count, size = 2 * n;
    const Blocks<float> adjoint = adjoint_of(a);
    const auto room = room_for_sums<float, K>(device, rows, 1);
    const auto gram_room = room_for_gram<K>(device, size);
    const DeviceArray<Packed<double, K>> sum(device, 1, "multigrid: sums");
    const DeviceArray<Packed<float, K>> factors(device, size, "multigrid: sums");
    Field<float, K> x = make_field<float, K>(device, rows), y = make_field<float, K>(device, rows),
                    z = make_field<float, K>(device, rows), aside = make_field<float, K>(device, rows);
    const auto normal = [&](const Field<float, K> &from, const Field<float, K> &to) {
        apply(a, from, aside);
        apply(adjoint, aside, to);
    };
    const auto dot = [&](const Field<float, K> &left, const Field<float, K> &right) { // over all sources
        dots(device, rows, list(left), list(right), room, sum.data());
        const Packed<double, K> of_each = sum.to_host()[0];
        double all = 0;
        for (const Complex<double> &c : of_each.s)
            all += c.re;
        return all;
    };
    // to = scale (2 A^dag A - low - high) / (high - low) from - to, or without the last term.
    const auto chebyshev = [&](const Field<float, K> &from, const Field<float, K> &to, double low, double high,
                               double scale, bool first) {
        const Field<float, K> image = make_field<float, K>(device, rows);
        normal(from, image);
        const float slope = static_cast<float>(2 * scale / (high - low)),
                    shift = static_cast<float>(-scale * (high + low) / (high - low));
        const Packed<float, K> *const f = from.data(), *const i = image.data();
        Packed<float, K> *const t = to.data();
        each(
            device, rows,
            [=] ON_DEVICE(int row) {
                for (int k = 0; k < K; ++k) {
                    const Complex<float> next = slope * i[row].s[k] + shift * f[row].s[k];
                    t[row].s[k] = first ? next : next - t[row].s[k];
                }
            },
            "multigrid: Chebyshev");
    };

    // The largest value of A^dag A, by powers.
    fill_with_noise(x, 77);
    double high = 0, before = dot(x, x);
    for (int k = 0; k < 30; ++k) {
        normal(x, y);
        const double after = dot(y, y);
        high = std::sqrt(after / before);
        before = after;
        std::swap(x, y);
        if (k % 8 == 7) { // keeps numbers in range
            const float scale = static_cast<float>(1 / std::sqrt(before));
            const Packed<float, K> *const from = x.data();
            Packed<float, K> *const to = x.data();
            each(
                device, rows,
                [=] ON_DEVICE(int row) {
                    for (int s = 0; s < K; ++s)
                        to[row].s[s] = scale * from[row].s[s];
                },
                "multigrid: scale");
            before = 1;
        }
    }
    high *= 1.2;

    // How many values are below a bound, by moments of Chebyshev polynomials in random vectors.
    std::vector<double> mu(2 * moments + 2, 0.0);
    fill_with_noise(x, 78);
    mu[0] = dot(x, x);
    chebyshev(x, y, 0, high, 1, true);
    mu[1] = dot(x, y);
    for (int k = 1; k <= moments; ++k) { // y = T_k of the start, x = T_(k-1)
        mu[2 * k] = 2 * dot(y, y) - mu[0];
        chebyshev(y, x, 0, high, 2, false);
        std::swap(x, y);
        mu[2 * k + 1] = 2 * dot(x, y) - mu[1];
    }
    const auto count_below = [&](double bound) {
        const double pi = std::acos(-1.0), theta = std::acos(2 * bound / high - 1);
        const int all = 2 * moments + 2;
        double below = pi - theta;
        for (int k = 1; k < all; ++k) {
            const double q = pi / (all + 1),
                         jackson = ((all - k + 1) * std::cos(k * q) + std::sin(k * q) / std::tan(q)) / (all + 1);
            below -= 2 * jackson * mu[k] / mu[0] * std::sin(k * theta) / k;
        }
        return rows * below / pi;
    };
    double lower = 0, upper = high;
    for (int k = 0; k < 60; ++k) {
        const double middle = 0.5 * (lower + upper);
        (count_below(middle) < n ? lower : upper) = middle;
    }
    const double low = 1.3 * upper;
    const int degree = std::max(4, static_cast<int>(2 * std::sqrt(high / low)));

    // The basis, and A of it.
    const Vectors basis(device, size_t(size) * rows, "multigrid: basis"),
        image(device, size_t(size) * rows, "multigrid: basis");
    fill_with_noise(x, 79);
    for (int first = 0; first < size; first += K) {
        chebyshev(x, y, low, high, 1, true); // T_1
        for (int k = 2; k <= degree; ++k) {
            chebyshev(y, x, low, high, 2, false);
            std::swap(x, y);
        }
        std::swap(x, y);
        for (int pass = 0; pass < 2; ++pass) {
            if (first > 0) {
                gram(basis, first, x, gram_room, factors.data());
                add_vectors(x, basis, first, factors.data(), -1);
            }
            // x R^-1 with x^dag x = R^dag R
            store_vectors(basis, first, x);
            Vectors own(device, size_t(K) * rows, "multigrid: basis");
            store_vectors(own, 0, x);
            gram(own, K, x, gram_room, factors.data());
            std::vector<Packed<float, K>> host(size);
            device.copy_to_host(host.data(), factors.data(), factors.bytes());
            std::vector<Complex<double>> g(K * K);
            for (int i = 0; i < K * K; ++i)
                g[i] = milcgpu::convert<double>(host[i / K].s[i % K]);
            const std::vector<Complex<double>> root = inverse_of_root(g, K, 1e-12);
            if (root.empty())
                throw std::runtime_error("coarse modes: the Krylov space is exhausted; ask for fewer");
            for (int i = 0; i < K * K; ++i)
                host[i / K].s[i % K] = milcgpu::convert<float>(root[i]);
            device.copy_to_device(factors.data(), host.data(), K * sizeof host[0]);
            clear(x);
            add_vectors(x, own, K, factors.data(), 1);
        }
        store_vectors(basis, first, x);
        apply(a, x, y);
        store_vectors(image, first, y);
    }

    // Rayleigh and Ritz.
    std::vector<Complex<double>> h(size_t(size) * size);
    std::vector<Packed<float, K>> host(size);
    for (int first = 0; first < size; first += K) {
        load_vectors(image, first, x);
        gram(image, size, x, gram_room, factors.data());
        device.copy_to_host(host.data(), factors.data(), factors.bytes());
        for (int i = 0; i < size; ++i)
            for (int k = 0; k < K; ++k)
                h[size_t(i) * size + first + k] = milcgpu::convert<double>(host[i].s[k]);
    }
    const HermitianEigen ritz = eigen_of_hermitian(std::move(h), size, n);
    modes.u = Vectors(device, size_t(n) * rows, "multigrid: coarse modes");
    modes.v_by_s = Vectors(device, size_t(n) * rows, "multigrid: coarse modes");
    for (int first = 0; first < n; first += K)
        for (const bool left : {true, false}) {
            for (int i = 0; i < size; ++i)
                for (int k = 0; k < K; ++k)
                    host[i].s[k] = milcgpu::convert<float>((1 / std::sqrt(ritz.values[first + k])) *
                                                           ritz.vectors[size_t(first + k) * size + i]);
            device.copy_to_device(factors.data(), host.data(), factors.bytes());
            clear(x);
            add_vectors(x, left ? image : basis, size, factors.data(), 1); // A V S^-1 or V S^-1
            store_vectors(left ? modes.u : modes.v_by_s, first, x);
        }
    for (int i = 0; i < n; ++i)
        modes.values.push_back(std::sqrt(ritz.values[i]));
    device.synchronize();
    modes.seconds = std::chrono::duration<double>(clock() - start).count();
    return modes;
}

// ---- the cycle

struct Shape {
    int level1 = 4, smooth1 = 2, smooth0 = 4; // GCR iterations
    double coarse_tolerance = 0.1;
    int coarse_limit = 1000, coarse_restart = 32;
};
struct Work { // applications for all sources together, seconds
    long m = 0, a = 0, coarse = 0, coarse_solves = 0, coarse_most = 0;
    double coarse_seconds = 0;
};

template <int K> class Cycle {
  public:
    using F = Field<float, K>;
    Cycle(Device &device, const Fine &fine, const Transfer &transfer, const Blocks<float> &coarse,
          const CoarseModes *modes, const Shape &shape)
        : device_(device), fine_(fine), transfer_(transfer), coarse_(coarse), modes_(modes), shape_(shape),
          level1_(device, fine.d.all_rows(), shape.level1), smooth1_(device, fine.d.all_rows(), shape.smooth1),
          smooth0_(device, fine.d.all_rows(), shape.smooth0), solver_(device, coarse.all_rows(), shape.coarse_restart),
          r1_(fine_field()), s1_(fine_field()), aside_(fine_field()), r0_(fine_field()), rc_(coarse_field()),
          ec_(coarse_field()), ac_(coarse_field()) {
        if (modes != nullptr) {
            room_ = room_for_gram<K>(device, modes->count);
            factors_ = DeviceArray<Packed<float, K>>(device, modes->count, "multigrid: sums");
        }
    }
    // z = approximately M^-1 r
    void operator()(const F &r, const F &z) {
        apply(fine_.inverse, r, r1_);
        clear(z);
        level1_.run(
            z, r1_, r1_, shape_.level1, 0, [&](const F &p, const F &w) { a(p, w); },
            [&](const F &v, const F &p) { correct(v, p); });
        m(z, r0_);
        subtract_from(r, r0_);
        smooth0_.run(
            z, r0_, r0_, shape_.smooth0, 0, [&](const F &p, const F &w) { m(p, w); }, plain);
    }
    Work work;

  private:
    static void plain(const F &r, const F &p) { copy(p, r); }
    F fine_field() const { return make_field<float, K>(device_, fine_.d.all_rows()); }
    F coarse_field() const { return make_field<float, K>(device_, coarse_.all_rows()); }
    void m(const F &x, const F &y) {
        fine_.m(x, y);
        ++work.m;
    }
    void a(const F &x, const F &y) {
        fine_.a(x, y, aside_);
        ++work.a;
    }
    // p = P A_c^-1 P^dag v, then smoothed.
    void correct(const F &v, const F &p) {
        apply(transfer_.restrict, v, rc_);
        solve_coarse();
        apply(transfer_.prolong, ec_, p);
        a(p, s1_);
        subtract_from(v, s1_);
        smooth1_.run(
            p, s1_, s1_, shape_.smooth1, 0, [&](const F &x, const F &w) { a(x, w); }, plain);
    }
    // ec = A_c^-1 rc to the tolerance. With modes, in the complement of U: (1 - U U^dag) A_c; their part of the
    // solution follows from the residual.
    void solve_coarse() {
        device_.synchronize();
        const auto start = std::chrono::steady_clock::now();
        clear(ec_);
        const auto without_modes = [&](const F &x) {
            gram(modes_->u, modes_->count, x, room_, factors_.data());
            add_vectors(x, modes_->u, modes_->count, factors_.data(), -1);
        };
        copy(ac_, rc_);
        if (modes_ != nullptr)
            without_modes(rc_);
        const int done = solver_.run(
            ec_, rc_, ac_, shape_.coarse_limit, shape_.coarse_tolerance,
            [&](const F &x, const F &w) {
                apply(coarse_, x, w);
                if (modes_ != nullptr)
                    without_modes(w);
            },
            plain);
        if (modes_ != nullptr) {
            apply(coarse_, ec_, rc_);
            subtract_from(ac_, rc_);
            gram(modes_->u, modes_->count, rc_, room_, factors_.data());
            add_vectors(ec_, modes_->v_by_s, modes_->count, factors_.data(), 1);
        }
        device_.synchronize();
        work.coarse_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        work.coarse += done;
        work.coarse_most = std::max<long>(work.coarse_most, done);
        ++work.coarse_solves;
    }

    Device &device_;
    const Fine &fine_;
    const Transfer &transfer_;
    const Blocks<float> &coarse_;
    const CoarseModes *modes_;
    Shape shape_;
    Gcr<float, K> level1_, smooth1_, smooth0_, solver_;
    F r1_, s1_, aside_, r0_, rc_, ec_, ac_;
    DeviceArray<Packed<double, K>> room_;
    DeviceArray<Packed<float, K>> factors_;
};

} // namespace multigrid
