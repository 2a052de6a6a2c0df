#include "gpu_kernels/solver/hermitian.h"
#include "gpu_kernels/machine/error.h"
#include <algorithm>
#include <cmath>
#include <numeric>

namespace milcgpu {

namespace {

using Number = Complex<double>;
constexpr int few_rows = 64;     // less is done by one thread
constexpr int most_sweeps = 60;  // of QL for one eigenvalue; 1 to 3 are usual
constexpr int rows_together = 8; // of the rotations' matrix: a register of numbers

// Rows of a matrix that rotations of columns go through, `rows_together` at a time.
class Columns {
  public:
    explicit Columns(int m) : m_(m), blocks_((m + rows_together - 1) / rows_together) {
        numbers_.assign(size_t(blocks_) * m * rows_together, 0);
        for (int i = 0; i < m; ++i)
            at(i, i) = 1;
    }
    double &at(int row, int column) {
        return numbers_[(size_t(row / rows_together) * m_ + column) * rows_together + row % rows_together];
    }
    struct Rotation {
        int column; // and the next one
        double c, s;
    };
    void rotate(const std::vector<Rotation> &rotations) {
#pragma omp parallel for schedule(static) if (m_ >= few_rows)
        for (int b = 0; b < blocks_; ++b) {
            double *const block = numbers_.data() + size_t(b) * m_ * rows_together;
            for (const Rotation &r : rotations) {
                double *const low = block + r.column * rows_together, *const high = low + rows_together;
                for (int k = 0; k < rows_together; ++k) {
                    const double h = high[k];
                    high[k] = r.s * low[k] + r.c * h;
                    low[k] = r.c * low[k] - r.s * h;
                }
            }
        }
    }

  private:
    int m_, blocks_;
    std::vector<double> numbers_;
};

// A reflection 1 - tau v v^dag of the components from `first` on.
struct Reflection {
    int first = 0;
    double tau = 0; // 0: none
    std::vector<Number> v;
};

// a becomes tridiagonal, q^dag a q with q the product of the reflections: its diagonal, and the elements below.
struct Tridiagonal {
    std::vector<double> diagonal;
    std::vector<Number> below;
    std::vector<Reflection> reflections;
};

Tridiagonal tridiagonal(std::vector<Number> &a, int m) {
    Tridiagonal t;
    t.diagonal.resize(m), t.below.resize(m), t.reflections.resize(m);
    for (int i = 0; i < m; ++i) {
        a[size_t(i) * m + i].im = 0;
        for (int j = 0; j < i; ++j)
            a[size_t(j) * m + i] = conj(a[size_t(i) * m + j]);
    }
    std::vector<Number> w(m);
    for (int k = 0; k + 1 < m; ++k) {
        t.diagonal[k] = a[size_t(k) * m + k].re;
        const int first = k + 1, n = m - first;
        Reflection &r = t.reflections[k];
        r.first = first;
        double size = 0, rest = 0;
        for (int i = 0; i < n; ++i)
            (i == 0 ? size : rest) += norm(a[size_t(first + i) * m + k]);
        const Number top = a[size_t(first) * m + k];
        t.below[k] = top;
        if (rest == 0)
            continue;
        size = std::sqrt(size + rest);
        const double length = std::sqrt(norm(top));
        const Number phase = length > 0 ? (1 / length) * top : Number{1, 0};
        t.below[k] = -size * phase;
        r.v.resize(n);
        for (int i = 0; i < n; ++i)
            r.v[i] = a[size_t(first + i) * m + k];
        r.v[0] = r.v[0] + size * phase;
        r.tau = 1 / (size * (size + length));
        // a -= v w^dag + w v^dag, w = tau (a v - tau <v, a v> v / 2)
#pragma omp parallel for schedule(static) if (n >= few_rows)
        for (int i = 0; i < n; ++i) {
            const Number *const row = &a[size_t(first + i) * m + first];
            Number sum{};
            for (int j = 0; j < n; ++j)
                sum = plus(sum, row[j], r.v[j]);
            w[i] = r.tau * sum;
        }
        double along = 0;
        for (int i = 0; i < n; ++i)
            along += r.v[i].re * w[i].re + r.v[i].im * w[i].im;
        for (int i = 0; i < n; ++i)
            w[i] = w[i] - (0.5 * r.tau * along) * r.v[i];
#pragma omp parallel for schedule(static) if (n >= few_rows)
        for (int i = 0; i < n; ++i) {
            Number *const row = &a[size_t(first + i) * m + first];
            const Number v = r.v[i], x = w[i];
            for (int j = 0; j < n; ++j)
                row[j] = minus(minus(row[j], v, conj(w[j])), x, conj(r.v[j]));
        }
    }
    t.diagonal[m - 1] = a[size_t(m) * m - 1].re;
    return t;
}

// Eigenvalues of the real tridiagonal matrix, in place of its diagonal; the columns are rotated into its eigenvectors.
void ql(std::vector<double> &d, std::vector<double> e, Columns &columns) {
    const int m = static_cast<int>(d.size());
    std::vector<Columns::Rotation> rotations;
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
            rotations.clear();
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
            columns.rotate(rotations);
            if (i >= low)
                continue;
            d[low] -= p, e[low] = g, e[high] = 0;
        }
}

} // namespace

HermitianEigen eigen_of_hermitian(std::vector<Complex<double>> a, int m, int wanted) {
    HermitianEigen result;
    if (m == 0)
        return result;
    for (int i = 0; i < m; ++i)
        for (int j = 0; j <= i; ++j)
            if (!(norm(a[size_t(i) * m + j]) < INFINITY))
                throw Error(Status::nan_or_inf, "NaN or infinity in a small matrix");
    Tridiagonal t = tridiagonal(a, m);
    // Phases make it real: with them, below[k] is |below[k]|.
    std::vector<Number> phase(m, Number{1, 0});
    std::vector<double> below(m, 0);
    for (int k = 0; k + 1 < m; ++k) {
        below[k] = std::sqrt(norm(t.below[k]));
        phase[k + 1] = below[k] > 0 ? (1 / below[k]) * (phase[k] * t.below[k]) : phase[k];
    }
    Columns columns(m);
    ql(t.diagonal, below, columns);
    std::vector<int> order(m);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int i, int j) { return t.diagonal[i] < t.diagonal[j]; });
    for (const int k : order)
        result.values.push_back(t.diagonal[k]);
    wanted = std::min(wanted, m);
    result.vectors.resize(size_t(wanted) * m);
#pragma omp parallel for schedule(dynamic, 4) if (m >= few_rows)
    for (int k = 0; k < wanted; ++k) {
        Number *const x = &result.vectors[size_t(k) * m];
        for (int i = 0; i < m; ++i)
            x[i] = columns.at(i, order[k]) * phase[i];
        for (int n = m - 1; n >= 0; --n) {
            const Reflection &r = t.reflections[n];
            if (r.tau == 0)
                continue;
            Number along{};
            for (size_t i = 0; i < r.v.size(); ++i)
                along = plus(along, conj(r.v[i]), x[r.first + i]);
            along = r.tau * along;
            for (size_t i = 0; i < r.v.size(); ++i)
                x[r.first + i] = minus(x[r.first + i], r.v[i], along);
        }
    }
    return result;
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
