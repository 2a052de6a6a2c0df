// Gram matrices and rotations of many fields, compared with cuBLAS's fastest form and with plain kernels that move the
// same bytes. cuBLAS gets the same fields as tall matrices; its strided batches omit the sum over batches that a Gram
// matrix also needs.
#include "examples/bench/bench.h"
#include "examples/bench/bench_stream.h"
#include "examples/lib/cublas.h"
#include "gpu_kernels/algebra/dense.h"
#include "gpu_kernels/fields/spinor_field.h"
#include "reorder/spinor_reorder.h"
#include "tests/reference/su3.h"
#include <algorithm>
#include <numeric>

namespace examples {
using namespace milcgpu;

namespace {

using Number = std::complex<double>;
constexpr int launches = 20; // timed together

// Measured errors, relative to the sum of the absolute values of the terms.
double tolerance(bool gram, Precision p) {
    if (gram)
        return times_measured * (p == Precision::single ? 4.2e-15 : 6.7e-16);
    return times_measured * (p == Precision::double_ ? 1.3e-15 : p == Precision::single ? 3.5e-7 : 2.6e-6);
}

class Dense {
  public:
    explicit Dense(const Bench &bench)
        : bench_(bench), device_(bench.device()), geometry_(bench.system.lattice.n), sites_(geometry_.sites(0)),
          reorder_(device_, map_, geometry_), cublas_(device_.on_gpu() ? new Cublas(device_.stream()) : nullptr),
          base_(size_t(sites_) * 3) {
        reference::Rng rng(5);
        for (Number &x : base_)
            x = {2 * reference::uniform(rng) - 1, 2 * reference::uniform(rng) - 1};
        if (!with_cublas())
            std::printf("dense: cuBLAS is missing, so nothing is compared with it\n");
    }

    void run() {
        const bool quick = bench_.settings.quick;
        for (const Precision p : {Precision::double_, Precision::single, Precision::half}) {
            if (bench_.settings.dense_precision != "all" && bench_.settings.dense_precision != name(p))
                continue;
            for (const int n : quick ? std::vector<int>{12} : std::vector<int>{4, 8, 12, 16, 32})
                one(p, n, n);
            if (!quick)
                one(p, 100, 30);
        }
    }

  private:
    bool with_cublas() const { return cublas_ && *cublas_ && geometry_.stride() == size_t(sites_); }

    SpinorField fields(Precision p, int count, int seed, std::vector<std::vector<Number>> &numbers) {
        SpinorField field(device_, p, geometry_, 0, "bench", count);
        for (int k = 0; k < count; ++k) { // all from one field, shifted
            std::vector<Number> v = base_;
            std::rotate(v.begin(), v.begin() + (1 + k + seed * most_dense) * 997 % v.size(), v.end());
            const HostField host{reinterpret_cast<double *>(v.data()), Precision::double_, 48};
            reorder_.to_device(host, 0, field[k]);
            reorder_.to_host(field[k], 0, host); // as stored
            numbers.push_back(std::move(v));
        }
        return field;
    }

    // The shortest time of `call` for all batches of the sites, and the form that took it.
    struct Fastest {
        double seconds = 0;
        std::string form = "-";
        void take(double s, const std::string &f) {
            if (seconds == 0 || s < seconds)
                seconds = s, form = f;
        }
    };
    template <class Call> void time_cublas(Fastest &fastest, const std::string &form, const Call &call) {
        bool good = true;
        const double seconds = time([&] { good = good && call(); });
        if (good)
            fastest.take(seconds, form);
    }
    template <class Launch> double time(const Launch &launch) {
        return median_seconds(device_, 5, device_.on_gpu() ? launches : 1, launch);
    }
    // Recorded as a graph, as solvers launch them: on few fields the host would take longer than a kernel.
    template <class Launch> double time_recorded(const Launch &launch) {
        launch(); // loads the kernel
        Device::Sequence sequence(device_, [&] {
            for (int k = 0; k < launches; ++k)
                launch();
        });
        return median_seconds(device_, 5, 1, [&] { sequence.run(); }) / launches;
    }

    void line(const std::string &kind, Precision p, int n, int m, double seconds, double bytes, const Fastest &cublas,
              double error) {
        bench_.table.row({"dense", format("%s %d x %d", kind.c_str(), n, m), name(p)},
                         {seconds, dense_flops(n, m, sites_), bytes, 0, cublas.seconds}, error,
                         tolerance(kind[0] == 'g', p));
    }

    template <class T>
    void cublas_gram(const SpinorBlock &x, const SpinorBlock &y, bool same, const DeviceArray<Number> &g,
                     Fastest &fastest) {
        const int length = 3 * sites_, n = x.sources, m = y.sources;
        for (const int part : {length, 4096, 512}) {
            if (length % part != 0 || size_t(length / part) * n * m > g.size())
                continue;
            const Cublas::Matrices a = tall(x, part), b = tall(y, part), c{g.data(), n, (long long)(n)*m};
            time_cublas(fastest, part == length ? "gemm" : format("%d", part),
                        [&] { return cublas_->multiply<T>(Cublas::adjoint, n, m, part, a, b, c, length / part); });
        }
        if (same)
            time_cublas(fastest, "herk", [&] {
                return cublas_->hermitian<T>(n, length, tall(x, 0), {g.data(), n, 0});
            });
    }
    template <class T>
    void cublas_rotate(const SpinorBlock &x, const SpinorBlock &y, const DeviceArray<Number> &c, Fastest &fastest) {
        const int length = 3 * sites_, n = x.sources, m = y.sources;
        for (const int part : {length, 4096, 512}) {
            if (length % part != 0)
                continue;
            const Cublas::Matrices a = tall(x, part), b{c.data(), n, 0}, to = tall(y, part);
            time_cublas(fastest, part == length ? "gemm" : format("%d", part),
                        [&] { return cublas_->multiply<T>(Cublas::plain, part, m, n, a, b, to, length / part); });
        }
    }
    // Fields as the columns of a matrix, cut into parts of this many rows.
    Cublas::Matrices tall(const SpinorBlock &x, int part) const {
        return {x.data, static_cast<int>(x.source_bytes / (x.precision == Precision::double_ ? 16 : 8)), part};
    }

    void one(Precision p, int n, int m) {
        std::vector<std::vector<Number>> left, right;
        const SpinorField x = fields(p, n, 0, left), y = fields(p, m, 1, right);
        const size_t length = base_.size();
        const DeviceArray<Number> g(device_, std::max(size_t(n) * m, size_t(1) << 20), "bench");
        const DeviceArray<double> scratch(device_, gram_scratch(n, m), "bench");
        Complex<double> *const to = reinterpret_cast<Complex<double> *>(g.data());
        for (const bool same : {false, true}) {
            if (same && n != m)
                continue;
            const SpinorBlock &second = same ? x.block() : y.block();
            const auto launch = [&] { gram(device_, x, second, to, scratch.data()); };
            const double seconds = time_recorded(launch);
            launch();
            const std::vector<Number> got = g.to_host();
            double error = 0;
            for (const int i : {0, n / 2, n - 1})
                for (int j = 0; j < m; ++j) {
                    const auto &a = left[i], &b = (same ? left : right)[j];
                    long double re = 0, im = 0, aa = 0, bb = 0;
#pragma omp parallel for reduction(+ : re, im, aa, bb)
                    for (size_t k = 0; k < length; ++k) {
                        const Number v = std::conj(a[k]) * b[k];
                        re += v.real(), im += v.imag(), aa += std::norm(a[k]), bb += std::norm(b[k]);
                    }
                    const Number sum(static_cast<double>(re), static_cast<double>(im));
                    const double off =
                        std::abs(got[i * m + j] - sum) / std::sqrt(static_cast<double>(aa) * static_cast<double>(bb));
                    error = off <= error || error != error ? error : off; // NaN is the worst
                }
            Fastest cublas;
            if (with_cublas() && p == Precision::double_)
                cublas_gram<Cublas::Complex>(x, second, same, g, cublas);
            else if (with_cublas() && p == Precision::single)
                cublas_gram<Cublas::ComplexFloat>(x, second, same, g, cublas);
            line(same ? "gram xx" : "gram", p, n, m, seconds, double(same ? n : n + m) * sites_ * spinor_bytes(p),
                 cublas, error);
        }
        std::vector<Number> c(size_t(n) * m);
        for (size_t k = 0; k < c.size(); ++k)
            c[k] = base_[k] / double(n);
        device_.copy_to_device(g.data(), c.data(), c.size() * sizeof(Number));
        for (const bool add : {true, false}) {
            // The launches add to the result many times; the first one is verified.
            std::vector<Number> got(length);
            block_axpy(device_, x, to, y, add ? y : SpinorBlock());
            double error = 0;
            for (int j = 0; j < m; ++j) {
                reorder_.to_host(y[j], 0, {reinterpret_cast<double *>(got.data()), Precision::double_, 48});
                for (size_t site = j; site < size_t(sites_); site += 1009) {
                    double size = 0, off[3];
                    for (size_t k = 3 * site; k < 3 * site + 3; ++k) {
                        Number v = add ? right[j][k] : 0;
                        double terms = std::abs(v);
                        for (int i = 0; i < n; ++i)
                            v += left[i][k] * c[size_t(i) * m + j],
                                terms += std::abs(left[i][k] * c[size_t(i) * m + j]);
                        off[k % 3] = std::abs(got[k] - v), size = std::max(size, terms);
                    }
                    for (const double one : off)
                        error = one / size <= error || error != error ? error : one / size; // NaN is the worst
                }
            }
            const double seconds = time_recorded([&] { block_axpy(device_, x, to, y, add ? y : SpinorBlock()); });
            Fastest cublas;
            if (with_cublas() && p == Precision::double_ && !add)
                cublas_rotate<Cublas::Complex>(x, y, g, cublas);
            else if (with_cublas() && p == Precision::single && !add)
                cublas_rotate<Cublas::ComplexFloat>(x, y, g, cublas);
            line(add ? "rotate+" : "rotate", p, n, m, seconds, double(n + (add ? 2 : 1) * m) * sites_ * spinor_bytes(p),
                 cublas, error);
        }
        if (device_.on_gpu())
            plain(p, x, y);
    }

    // The plain kernels, in the fastest of their launch shapes. They come last because they overwrite y.
    void plain(Precision p, const SpinorBlock &x, const SpinorBlock &y) {
        const Stream all_x{x.data, x.bytes()}, all_y{y.data, y.bytes()};
        const DeviceArray<uint32_t> sums(device_, most_stream_blocks, "bench");
        const auto row = [&](const std::string &kind, int n, int m, int spinors, double error, const auto &launch) {
            double seconds = 0;
            for (int shape = 0; shape < stream_shapes; ++shape) {
                const double s = time_recorded([&] { launch(shape); });
                seconds = shape == 0 ? s : std::min(seconds, s);
            }
            bench_.table.row({"plain", format("%s %d x %d", kind.c_str(), n, m), name(p)},
                             {seconds, 0, double(spinors) * sites_ * spinor_bytes(p)}, error, 0);
        };
        const auto sum = [&](const Stream &a, const Stream &b, int shape) {
            const int count = plain_read(device_, shape, a, b, sums.data());
            const std::vector<uint32_t> of_block = sums.to_host();
            return std::accumulate(of_block.begin(), of_block.begin() + count, uint32_t(0));
        };
        const auto sum_on_host = [&](const Stream &a) {
            std::vector<uint32_t> words(a.bytes / sizeof(uint32_t));
            device_.copy_to_host(words.data(), a.data, a.bytes);
            return std::accumulate(words.begin(), words.end(), uint32_t(0));
        };
        const uint32_t right_x = sum_on_host(all_x), right_y = sum_on_host(all_y);
        double errors[2] = {}, copied = 0, twice = 0;
        for (int shape = 0; shape < stream_shapes; ++shape) {
            errors[0] += sum(all_x, all_y, shape) != right_x + right_y;
            errors[1] += sum(all_x, {}, shape) != right_x;
        }
        const int n = x.sources, m = y.sources;
        row("read", n, m, n + m, errors[0], [&](int shape) { plain_read(device_, shape, all_x, all_y, sums.data()); });
        if (n == m)
            row("read xx", n, n, n, errors[1], [&](int shape) { plain_read(device_, shape, all_x, {}, sums.data()); });
        const uint32_t beginning = sum_on_host({all_x.data, all_y.bytes});
        for (int shape = 0; shape < stream_shapes; ++shape) {
            device_.fill_zero(all_y.data, all_y.bytes);
            plain_write(device_, shape, all_x, all_y, false, sums.data());
            copied += sum_on_host(all_y) != beginning;
            plain_write(device_, shape, all_x, all_y, true, sums.data());
            twice += sum_on_host(all_y) != 0;
        }
        row("copy", n, m, n + m, copied,
            [&](int shape) { plain_write(device_, shape, all_x, all_y, false, sums.data()); });
        row("copy+", n, m, n + 2 * m, twice,
            [&](int shape) { plain_write(device_, shape, all_x, all_y, true, sums.data()); });
    }

    const Bench &bench_;
    Device &device_;
    const Geometry geometry_;
    const int sites_;
    const SiteMap map_;
    SpinorReorder reorder_;
    std::unique_ptr<Cublas> cublas_;
    std::vector<Number> base_;
};

} // namespace

void bench_dense(const Bench &bench) { Dense(bench).run(); }

} // namespace examples
