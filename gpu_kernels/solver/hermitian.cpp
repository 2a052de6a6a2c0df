#include "gpu_kernels/solver/hermitian.h"
#include "gpu_kernels/machine/backend/host_threads.h"
#include "gpu_kernels/machine/error.h"
#include <algorithm>
#include <cmath>
#include <numeric>

namespace milcgpu {

namespace {

using Number = Complex<double>;
constexpr int few_rows = 64;   // fewer are done by one thread
constexpr int few_threads = 4; // for fewer than long_rows rows: a reflection takes 50 us, and waits for every thread
constexpr int long_rows = 1024;
constexpr int most_sweeps = 60; // of QL for one eigenvalue; 1 to 3 are usual
constexpr int lanes = 8;        // numbers that a loop computes at once
int blocks_of(int n) { return (n + lanes - 1) / lanes; }

// Numbers as two arrays, so that the compiler computes `lanes` of them at once. Padded with zeros.
struct Parts {
    std::vector<double> re, im;
    explicit Parts(size_t n) : re(n), im(n) {}
    Number at(size_t i) const { return {re[i], im[i]}; }
    void set(size_t i, Number x) { re[i] = x.re, im[i] = x.im; }
};

// A reflection 1 - tau v v^dag, with zeros in v before its first component.
struct Reflection {
    double tau = 0; // 0: none
    Parts v{0};
};

// q^dag a q is tridiagonal, with q the product of the reflections: its diagonal, and the elements below.
struct Tridiagonal {
    std::vector<double> diagonal;
    std::vector<Number> below;
    std::vector<Reflection> reflections;
};

// A row of a -= v w^dag + w v^dag: v and w are the vectors' components of this row, vs and ws the vectors.
void update_row(double *__restrict re, double *__restrict im, Number v, Number w, const Parts &vs, const Parts &ws,
                int from, int to) {
    const double *const vr = vs.re.data(), *const vi = vs.im.data(), *const wr = ws.re.data(), *const wi = ws.im.data();
    for (int j = from; j < to; ++j) {
        re[j] -= v.re * wr[j] + v.im * wi[j] + w.re * vr[j] + w.im * vi[j];
        im[j] -= v.im * wr[j] - v.re * wi[j] + w.im * vr[j] - w.re * vi[j];
    }
}
// The sum of row[j] v[j]
Number product(const double *re, const double *im, const Parts &vs, int from, int to) {
    double sum_re[lanes] = {}, sum_im[lanes] = {};
    for (int first = from; first < to; first += lanes) {
        const double *const vr = &vs.re[first], *const vi = &vs.im[first];
        for (int k = 0; k < lanes; ++k) {
            sum_re[k] += re[first + k] * vr[k] - im[first + k] * vi[k];
            sum_im[k] += re[first + k] * vi[k] + im[first + k] * vr[k];
        }
    }
    Number sum{};
    for (int k = 0; k < lanes; ++k)
        sum = sum + Number{sum_re[k], sum_im[k]};
    return sum;
}

// One pass over the matrix for each reflection: each row is updated by the previous reflection, and then multiplied by
// the vector of the present one. This vector is a column of the updated matrix, so this column is updated first.
Tridiagonal tridiagonal(const std::vector<Number> &lower, int m) {
    const int pitch = blocks_of(m) * lanes;
    Parts a(size_t(m) * pitch);
    for (int i = 0; i < m; ++i)
        for (int j = 0; j <= i; ++j) {
            const Number x = i == j ? Number{lower[size_t(i) * m + i].re, 0} : lower[size_t(i) * m + j];
            a.set(size_t(i) * pitch + j, x), a.set(size_t(j) * pitch + i, conj(x));
        }
    Tridiagonal t;
    t.diagonal.resize(m), t.below.resize(m), t.reflections.resize(m);
    const Parts zero(pitch);
    Parts w(pitch), next_w(pitch);
    const Parts *v = &zero;
    for (int k = 0; k < m; ++k) {
        const int from = k / lanes * lanes;
        const auto update = [&](int i) {
            update_row(&a.re[size_t(i) * pitch], &a.im[size_t(i) * pitch], v->at(i), w.at(i), *v, w, from, pitch);
        };
        update(k);
        const auto column = [&](int i) { return conj(a.at(size_t(k) * pitch + i)); };
        t.diagonal[k] = column(k).re;
        if (k + 1 == m)
            break;
        double rest = 0;
        for (int i = k + 2; i < m; ++i)
            rest += norm(column(i));
        const Number top = column(k + 1);
        t.below[k] = top;
        Reflection &r = t.reflections[k];
        r.v = Parts(pitch);
        if (rest > 0) {
            const double size = std::sqrt(norm(top) + rest), length = std::sqrt(norm(top));
            const Number phase = length > 0 ? (1 / length) * top : Number{1, 0};
            t.below[k] = -size * phase;
            for (int i = k + 1; i < m; ++i)
                r.v.set(i, column(i));
            r.v.set(k + 1, top + size * phase);
            r.tau = 1 / (size * (size + length));
        }
        // a -= v w^dag + w v^dag, w = tau (a v - tau <v, a v> v / 2)
        for_each_on_host(m - k - 1, m - k >= few_rows, [&](int row) {
            const int i = k + 1 + row;
            update(i);
            next_w.set(i, r.tau * product(&a.re[size_t(i) * pitch], &a.im[size_t(i) * pitch], r.v, from, pitch));
        });
        double along = 0;
        for (int i = k + 1; i < m; ++i)
            along += r.v.re[i] * next_w.re[i] + r.v.im[i] * next_w.im[i];
        for (int i = 0; i < m; ++i)
            w.set(i, i <= k ? Number{} : next_w.at(i) - (0.5 * r.tau * along) * r.v.at(i));
        v = &r.v;
    }
    return t;
}

// Of two columns, `column` and the next one.
struct Rotation {
    int column;
    double c, s;
};

// Eigenvalues of the real tridiagonal matrix, in place of its diagonal. Returns the rotations whose product has the
// eigenvectors as its columns.
std::vector<Rotation> ql(std::vector<double> &d, std::vector<double> e) {
    const int m = static_cast<int>(d.size());
    std::vector<Rotation> rotations;
    for (int low = 0; low < m; ++low)
        for (int sweep = 0;; ++sweep) {
            int high = low;
            while (high + 1 < m && !(std::fabs(e[high]) <= 1e-16 * (std::fabs(d[high]) + std::fabs(d[high + 1]))))
                ++high;
            if (high == low)
                break;
            if (sweep == most_sweeps)
                throw Error(Status::nan_or_inf, "the eigenvalues of a small matrix do not converge: NaN or infinity");
            const double half = (d[low + 1] - d[low]) / (2 * e[low]), root = std::hypot(half, 1.0);
            double g = d[high] - d[low] + e[low] / (half + std::copysign(root, half)), s = 1, c = 1, p = 0;
            int i = high - 1;
            for (; i >= low; --i) {
                const double f = s * e[i], b = c * e[i], r = std::hypot(f, g);
                e[i + 1] = r;
                if (r == 0) {
                    d[i + 1] -= p, e[high] = 0;
                    break;
                }
                s = f / r, c = g / r;
                g = d[i + 1] - p;
                const double t = (d[i] - g) * s + 2 * c * b;
                p = s * t;
                d[i + 1] = g + p;
                g = c * t - b;
                rotations.push_back({i, c, s});
            }
            if (i >= low)
                continue;
            d[low] -= p, e[low] = g, e[high] = 0;
        }
    return rotations;
}

// Rows of the product of rotations, `lanes` rows from `first` on: [column][row].
std::vector<double> rows_of(const std::vector<Rotation> &rotations, int first, int m) {
    std::vector<double> rows(size_t(m) * lanes);
    for (int k = 0; k < std::min(lanes, m - first); ++k)
        rows[size_t(first + k) * lanes + k] = 1;
    for (const Rotation &r : rotations) {
        double *const __restrict low = &rows[size_t(r.column) * lanes], *const __restrict high = low + lanes;
        for (int k = 0; k < lanes; ++k) {
            const double h = high[k];
            high[k] = r.s * low[k] + r.c * h;
            low[k] = r.c * low[k] - r.s * h;
        }
    }
    return rows;
}

// Applies the reflections to `lanes` vectors at once, [component][vector]. The last reflection comes first.
void reflect(const std::vector<Reflection> &reflections, Parts &x, int m) {
    for (int n = m - 2; n >= 0; --n) {
        const Reflection &r = reflections[n];
        if (r.tau == 0)
            continue;
        double along_re[lanes] = {}, along_im[lanes] = {};
        for (int i = n + 1; i < m; ++i) {
            const double *const re = &x.re[size_t(i) * lanes], *const im = &x.im[size_t(i) * lanes];
            for (int k = 0; k < lanes; ++k) {
                along_re[k] += r.v.re[i] * re[k] + r.v.im[i] * im[k];
                along_im[k] += r.v.re[i] * im[k] - r.v.im[i] * re[k];
            }
        }
        for (int i = n + 1; i < m; ++i) {
            double *const re = &x.re[size_t(i) * lanes], *const im = &x.im[size_t(i) * lanes];
            const double v_re = r.tau * r.v.re[i], v_im = r.tau * r.v.im[i];
            for (int k = 0; k < lanes; ++k) {
                re[k] -= v_re * along_re[k] - v_im * along_im[k];
                im[k] -= v_re * along_im[k] + v_im * along_re[k];
            }
        }
    }
}

HermitianEigen lowest_of(const std::vector<Number> &a, int m, int wanted) {
    Tridiagonal t;
    with_threads_awake([&] { t = tridiagonal(a, m); }, m < few_rows ? 1 : m < long_rows ? few_threads : all_threads);
    // Phases make it real: with them, below[k] is |below[k]|.
    std::vector<Number> phase(m, Number{1, 0});
    std::vector<double> below(m, 0);
    for (int k = 0; k + 1 < m; ++k) {
        below[k] = std::sqrt(norm(t.below[k]));
        phase[k + 1] = below[k] > 0 ? (1 / below[k]) * (phase[k] * t.below[k]) : phase[k];
    }
    const std::vector<Rotation> rotations = ql(t.diagonal, below);
    std::vector<int> order(m);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int i, int j) { return t.diagonal[i] < t.diagonal[j]; });
    HermitianEigen result;
    for (const int k : order)
        result.values.push_back(t.diagonal[k]);
    result.vectors.resize(size_t(wanted) * m);
    if (wanted == 0)
        return result;
    const auto vector = [&](int k) { return &result.vectors[size_t(k) * m]; };
    for_each_on_host(blocks_of(m), m >= few_rows, [&](int block) {
        const int first = block * lanes;
        const std::vector<double> rows = rows_of(rotations, first, m);
        for (int i = first; i < std::min(first + lanes, m); ++i)
            for (int k = 0; k < wanted; ++k)
                vector(k)[i] = rows[size_t(order[k]) * lanes + i - first] * phase[i];
    });
    for_each_on_host(blocks_of(wanted), m >= few_rows, [&](int block) {
        const int first = block * lanes, n = std::min(lanes, wanted - first);
        Parts x(size_t(m) * lanes);
        for (int k = 0; k < n; ++k)
            for (int i = 0; i < m; ++i)
                x.set(size_t(i) * lanes + k, vector(first + k)[i]);
        reflect(t.reflections, x, m);
        for (int k = 0; k < n; ++k)
            for (int i = 0; i < m; ++i)
                vector(first + k)[i] = x.at(size_t(i) * lanes + k);
    });
    return result;
}

} // namespace

HermitianEigen eigen_of_hermitian(const std::vector<Complex<double>> &a, int m, int wanted) {
    for (int i = 0; i < m; ++i)
        for (int j = 0; j <= i; ++j)
            if (!(norm(a[size_t(i) * m + j]) < INFINITY))
                throw Error(Status::nan_or_inf, "NaN or infinity in a small matrix");
    return m > 0 ? lowest_of(a, m, std::min(wanted, m)) : HermitianEigen{};
}

std::vector<Complex<double>> inverse_of_root(const std::vector<Complex<double>> &g, int m, double weakest) {
    std::vector<Number> r(size_t(m) * m), inverse(size_t(m) * m);
    for (int i = 0; i < m; ++i) {
        double pivot = g[i * m + i].re;
        for (int k = 0; k < i; ++k)
            pivot -= norm(r[k * m + i]);
        if (!(pivot > weakest * g[i * m + i].re) || !(pivot < INFINITY))
            return {};
        r[i * m + i] = {std::sqrt(pivot), 0};
        for (int j = i + 1; j < m; ++j) {
            Number sum = g[i * m + j];
            for (int k = 0; k < i; ++k)
                sum = minus(sum, conj(r[k * m + i]), r[k * m + j]);
            r[i * m + j] = (1 / r[i * m + i].re) * sum;
        }
    }
    for (int j = 0; j < m; ++j)
        for (int i = j; i >= 0; --i) {
            Number sum = i == j ? Number{1, 0} : Number{};
            for (int k = i + 1; k <= j; ++k)
                sum = minus(sum, r[i * m + k], inverse[k * m + j]);
            inverse[i * m + j] = (1 / r[i * m + i].re) * sum;
        }
    return inverse;
}

} // namespace milcgpu
