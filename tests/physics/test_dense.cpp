// Gram matrices and rotations against plain sums: every precision, odd numbers of sites, memory behind the last site,
// NaN in one field, reproducible bits.
#include "gpu_kernels/algebra/dense.h"
#include "gpu_kernels/fields/spinor_field.h"
#include "gpu_kernels/machine/backend/device.h"
#include "tests/support.h"
#include <algorithm>
#include <complex>
#include <cstring>

using namespace tests;
using namespace milcgpu;

namespace {

using Number = std::complex<double>;
constexpr Precision precisions[] = {Precision::double_, Precision::single, Precision::half};

// Measured errors: of g relative to |x_i| |y_j|; of rotated fields relative to the sum of |x_i c_ij| on a site. (The
// square of an odd 24-bit number ends in ...001, so that long sums of squares are rounded down more often than up.)
double gram_error(Precision p) { return times_measured * (p == Precision::single ? 4.2e-15 : 6.7e-16); }
double rotation_error(Precision p) {
    return times_measured * (p == Precision::double_ ? 6.3e-16 : p == Precision::single ? 3.5e-7 : 2.6e-6);
}
double error_of_both(Precision p) { // rotate_twice, whose sums are in double
    return times_measured * (p == Precision::double_ ? 9.4e-16 : p == Precision::single ? 8.8e-8 : 3.7e-6);
}

// Fields on the device and their numbers: colour k of site i of source s is number (s * sites + i) * 3 + k. NaNs follow
// the last site.
class Fields {
  public:
    Fields(Device &device, Precision precision, const Geometry &geometry, int parity, int sources, unsigned long seed)
        : device_(device), field_(device, precision, geometry, parity, "test", sources), bytes_(field_.bytes(), 0xff) {
        reference::Rng rng(seed);
        std::vector<Number> random(size_t(sources) * sites() * 3);
        for (Number &x : random)
            x = reference::gaussian(rng);
        put(random);
    }
    operator const SpinorBlock &() const { return field_; }
    const SpinorBlock &block() const { return field_; }
    int sites() const { return field_.sites(); }
    int sources() const { return field_.sources(); }
    const std::vector<Number> &numbers() const { return numbers_; }
    Number at(int source, int site, int colour) const {
        return numbers_[(size_t(source) * sites() + site) * 3 + colour];
    }

    void put(const std::vector<Number> &numbers) {
        each_word([&](int source, int site, unsigned char *const *words) {
            visit([&](auto format) {
                using S = decltype(format);
                Vector<typename S::Real> v;
                for (int k = 0; k < 3; ++k) {
                    const Number x = numbers[(size_t(source) * sites() + site) * 3 + k];
                    v.c[k] = {typename S::Real(x.real()), typename S::Real(x.imag())};
                }
                uint32_t raw[S::words * S::word_bytes / 4];
                S::encode(v, raw);
                for (int w = 0; w < S::words; ++w)
                    std::memcpy(words[w], raw + w * S::word_bytes / 4, S::word_bytes);
            });
        });
        device_.copy_to_device(field_.data(), bytes_.data(), bytes_.size());
        decode();
    }
    // Copies the fields from the device and checks that the NaNs behind the last site did not change.
    const std::vector<Number> &get() {
        device_.copy_to_host(bytes_.data(), field_.data(), bytes_.size());
        decode();
        std::vector<unsigned char> outside = bytes_;
        each_word([&](int, int, unsigned char *const *words) {
            visit([&](auto format) {
                using S = decltype(format);
                for (int w = 0; w < S::words; ++w)
                    std::memset(outside.data() + (words[w] - bytes_.data()), 0xff, S::word_bytes);
            });
        });
        CHECK(std::all_of(outside.begin(), outside.end(), [](unsigned char c) { return c == 0xff; }));
        return numbers_;
    }

  private:
    template <class Function> void visit(const Function &function) const {
        if (field_.precision() == Precision::double_)
            function(SpinorDouble());
        else if (field_.precision() == Precision::single)
            function(SpinorSingle());
        else
            function(SpinorHalf());
    }
    template <class Function> void each_word(const Function &function) {
#if defined(MILCGPU_STRIPED)
        const bool striped = true;
#else
        const bool striped = device_.on_gpu();
#endif
        visit([&](auto format) {
            using S = decltype(format);
            for (int source = 0; source < sources(); ++source)
                for (int site = 0; site < sites(); ++site) {
                    unsigned char *words[S::words];
                    for (int w = 0; w < S::words; ++w)
                        words[w] = bytes_.data() + source * field_.block().source_bytes +
                                   (striped ? w * field_.stride() + site : size_t(site) * S::words + w) * S::word_bytes;
                    function(source, site, words);
                }
        });
    }
    void decode() {
        numbers_.resize(size_t(sources()) * sites() * 3);
        each_word([&](int source, int site, unsigned char *const *words) {
            visit([&](auto format) {
                using S = decltype(format);
                uint32_t raw[S::words * S::word_bytes / 4];
                for (int w = 0; w < S::words; ++w)
                    std::memcpy(raw + w * S::word_bytes / 4, words[w], S::word_bytes);
                const auto v = S::decode(raw);
                for (int k = 0; k < 3; ++k)
                    numbers_[(size_t(source) * sites() + site) * 3 + k] = {v.c[k].re, v.c[k].im};
            });
        });
    }
    Device &device_;
    SpinorField field_;
    std::vector<unsigned char> bytes_;
    std::vector<Number> numbers_;
};

Number product(const Fields &x, int i, const Fields &y, int j) {
    const size_t length = size_t(x.sites()) * 3;
    long double re = 0, im = 0;
    for (size_t k = 0; k < length; ++k) {
        const Number a = x.numbers()[i * length + k], b = y.numbers()[j * length + k];
        re += static_cast<long double>(a.real()) * b.real() + static_cast<long double>(a.imag()) * b.imag();
        im += static_cast<long double>(a.real()) * b.imag() - static_cast<long double>(a.imag()) * b.real();
    }
    return {static_cast<double>(re), static_cast<double>(im)};
}

std::vector<Number> gram_of(Device &device, const Fields &x, const Fields &y) {
    std::vector<Number> g;
    for (const Complex<double> &v : gram_over_ranks(device, x, y))
        g.push_back({v.re, v.im});
    return g;
}

// The largest error of <x_i, y_j>, relative to |x_i| |y_j|.
double error_of_gram(const std::vector<Number> &g, const Fields &x, const Fields &y) {
    double error = 0;
    std::vector<double> left, right;
    for (int i = 0; i < x.sources(); ++i)
        left.push_back(std::sqrt(product(x, i, x, i).real()));
    for (int j = 0; j < y.sources(); ++j)
        right.push_back(std::sqrt(product(y, j, y, j).real()));
    for (int i = 0; i < x.sources(); ++i)
        for (int j = 0; j < y.sources(); ++j)
            error = worse(error, std::abs(g[i * y.sources() + j] - product(x, i, y, j)) / (left[i] * right[j]));
    return error;
}

std::vector<Number> random_matrix(int n, int m) {
    reference::Rng rng(7);
    std::vector<Number> c(size_t(n) * m);
    for (Number &x : c)
        x = reference::gaussian(rng);
    return c;
}

void rotate_by(Device &device, const SpinorBlock &x, const std::vector<Number> &c, const SpinorBlock &y, bool add) {
    const DeviceArray<Complex<double>> on_device(device, c.size(), "test");
    device.copy_to_device(on_device.data(), c.data(), c.size() * sizeof(Number));
    block_axpy(device, x, on_device.data(), y, add ? y : SpinorBlock());
}

// std::abs guards against overflow and would take most of the time of these tests.
double size_of(const Number &x) { return std::sqrt(std::norm(x)); }

// The largest error of y = x c (+ before) on a site, relative to the sum of |x_i c_ij| there.
double error_of_rotation(const std::vector<Number> &y, const Fields &x, const std::vector<Number> &c, int m,
                         const std::vector<Number> *before) {
    double error = 0;
    for (int j = 0; j < m; ++j)
        for (int site = 0; site < x.sites(); ++site) {
            double size = 0, difference = 0;
            for (int colour = 0; colour < 3; ++colour) {
                const size_t at = (size_t(j) * x.sites() + site) * 3 + colour;
                Number sum = before != nullptr ? (*before)[at] : 0;
                double terms = size_of(sum);
                for (int i = 0; i < x.sources(); ++i) {
                    const Number term = x.at(i, site, colour) * c[i * m + j];
                    sum += term, terms += size_of(term);
                }
                size = worse(size, terms);
                difference = worse(difference, size_of(y[at] - sum));
            }
            error = worse(error, difference / size);
        }
    return error;
}

struct Shape {
    int n, m;
};
constexpr Shape shapes[] = {{1, 1},   {3, 3},   {4, 4},  {8, 8},    {12, 12},
                            {16, 16}, {32, 32}, {5, 20}, {100, 30}, {30, 100}};
const Geometry odd_box({3, 5, 3, 7}); // 158 even sites, 157 odd ones

} // namespace

TEST_CASE("Gram matrices are the sums over all sites", "[dense]") {
    for (const Backend backend : backends())
        for (const Precision precision : precisions)
            for (const Shape &shape : shapes) {
                Device device(backend, 0);
                const Fields x(device, precision, odd_box, shape.n % 2, shape.n, 1);
                const Fields y(device, precision, odd_box, shape.n % 2, shape.m, 2);
                CAPTURE(name(backend), name(precision), shape.n, shape.m);
                CHECK(error_of_gram(gram_of(device, x, y), x, y) <= gram_error(precision));
                const auto own = gram_of(device, x, x);
                CHECK(error_of_gram(own, x, x) <= gram_error(precision));
                if (shape.n <= dense_block)
                    for (int i = 0; i < shape.n; ++i)
                        for (int j = 0; j < shape.n; ++j)
                            CHECK(own[i * shape.n + j] == std::conj(own[j * shape.n + i]));
            }
}

TEST_CASE("rotations are the sums over all fields, also if they add to the output or work in place", "[dense]") {
    for (const Backend backend : backends())
        for (const Precision precision : precisions)
            for (const Shape &shape : shapes) {
                Device device(backend, 0);
                Fields x(device, precision, odd_box, shape.n % 2, shape.n, 1);
                Fields y(device, precision, odd_box, shape.n % 2, shape.m, 2);
                const auto c = random_matrix(shape.n, shape.m), before = y.numbers();
                CAPTURE(name(backend), name(precision), shape.n, shape.m);
                rotate_by(device, x, c, y, true);
                CHECK(error_of_rotation(y.get(), x, c, shape.m, &before) <= rotation_error(precision));
                rotate_by(device, x, c, y, false);
                CHECK(error_of_rotation(y.get(), x, c, shape.m, nullptr) <= rotation_error(precision));
                if (shape.n != shape.m || shape.n > dense_block)
                    continue;
                const auto elsewhere = y.numbers();
                rotate_by(device, x, c, x, false);
                CHECK(x.get() == elsewhere);
            }
}

namespace {

// Projections of few fields in single on vectors in half, and sums of such vectors.
void check_few_fields(Backend backend, const Geometry &box, const Shape &shape) {
    // The GPU rounds the projected fields to 11 bits, and its tensor cores truncate their sums.
    const auto error = [&](double on_gpu, double on_host) {
        return times_measured * (backend == Backend::host ? on_host : on_gpu);
    };
    Device device(backend, 0);
    const Fields v(device, Precision::half, box, shape.n % 2, shape.n, 1);
    const Fields r(device, Precision::single, box, shape.n % 2, shape.m, 2);
    Fields y(device, Precision::single, box, shape.n % 2, shape.m, 3);
    CAPTURE(name(backend), shape.n, shape.m);
    const DeviceArray<Complex<double>> on_device(device, size_t(shape.n) * shape.m, "test");
    const DeviceArray<double> scratch(device, project_scratch(shape.m), "test");
    const auto projected = [&](const SpinorBlock &of) {
        project(device, v, of, on_device.data(), scratch.data());
        std::vector<Number> c(size_t(shape.n) * of.sources);
        device.copy_to_host(c.data(), on_device.data(), c.size() * sizeof(Number));
        return c;
    };
    const auto c = projected(r);
    CHECK(error_of_gram(c, v, r) <= error(2e-5, 6e-16));
    const auto first = projected(r.block().first(1)); // for any M
    for (int i = 0; i < shape.n; ++i)
        CHECK(c[i * shape.m] == first[i]);
    const auto m = random_matrix(shape.n, shape.m), before = y.numbers();
    device.copy_to_device(on_device.data(), m.data(), m.size() * sizeof(Number));
    combine(device, {v}, on_device.data(), y, true);
    CHECK(error_of_rotation(y.get(), v, m, shape.m, &before) <= error(2.6e-6, 9e-8));
    combine(device, {v}, on_device.data(), y, false);
    CHECK(error_of_rotation(y.get(), v, m, shape.m, nullptr) <= error(2.6e-6, 9e-8));
}

} // namespace

TEST_CASE("few fields in single are projected on vectors in half and summed from them", "[dense][eigen][sanitize]") {
    for (const Backend backend : backends())
        for (const Shape &shape : {Shape{1, 1}, Shape{5, 4}, Shape{100, 7}, Shape{128, 12}, Shape{30, 16}})
            check_few_fields(backend, odd_box, shape);
}

TEST_CASE("a sum of several blocks of vectors in half equals the sums of one block after the other", "[dense][eigen]") {
    for (const Backend backend : backends())
        for (const Shape &shape : {Shape{256, 1}, Shape{300, 8}, Shape{130, 16}}) {
            Device device(backend, 0);
            const Fields v(device, Precision::half, odd_box, 0, shape.n, 1);
            Fields y(device, Precision::single, odd_box, 0, shape.m, 3);
            const auto m = random_matrix(shape.n, shape.m);
            const DeviceArray<Complex<double>> c(device, m.size(), "test");
            device.copy_to_device(c.data(), m.data(), m.size() * sizeof(Number));
            std::vector<SpinorBlock> blocks;
            for (int first = 0; first < shape.n; first += most_dense) {
                blocks.push_back(v.block().from(first).first(std::min(most_dense, shape.n - first)));
                combine(device, {blocks.back()}, c.data() + first * shape.m, y, first > 0);
            }
            const auto in_turn = y.get();
            CAPTURE(name(backend), shape.n, shape.m);
            CHECK(error_of_rotation(in_turn, v, m, shape.m, nullptr) <=
                  times_measured * (backend == Backend::host ? 9e-8 : 2.6e-6));
            combine(device, blocks, c.data(), y, false);
            CHECK(y.get() == in_turn);
            std::swap(blocks.front(), blocks.back());
            if (shape.n % most_dense != 0)
                CHECK_THROWS_AS(combine(device, blocks, c.data(), y, false), Error);
        }
}

TEST_CASE("few fields are projected on vectors in half and summed from them on few sites", "[dense][eigen][race]") {
    for (const Backend backend : backends())
        for (const Shape &shape : {Shape{1, 1}, Shape{20, 12}})
            check_few_fields(backend, Geometry({4, 4, 4, 4}), shape);
}

TEST_CASE("two rotations in one launch equal two in a row", "[dense][sanitize]") {
    for (const Backend backend : backends())
        for (const Precision precision : precisions)
            for (const int n : {1, 3, 4, 8, 9, 12, 16}) {
                Device device(backend, 0);
                const Geometry box = n == 9 ? Geometry({8, 16, 16, backend == Backend::cuda ? 23 : 3}) : odd_box;
                const Fields x(device, precision, box, n % 2, n, 1), p(device, precision, box, n % 2, n, 2);
                Fields y(device, precision, box, n % 2, n, 3), z(device, precision, box, n % 2, n, 4);
                // both: what y and x, as fields of one block, give where y is taken by a matrix, too
                Fields both(device, precision, box, n % 2, 2 * n, 5);
                const auto matrices = random_matrix(3 * n, n);
                const auto part = [&](int k) {
                    return std::vector<Number>(matrices.begin() + k * n * n, matrices.begin() + (k + 1) * n * n);
                };
                const auto c = part(1), d = part(2);
                const std::vector<Number> mixed(matrices.begin(), matrices.begin() + 2 * n * n);
                const DeviceArray<Complex<double>> on_device(device, matrices.size(), "test");
                device.copy_to_device(on_device.data(), matrices.data(), matrices.size() * sizeof(Number));
                const DeviceArray<int> gate(device, 1, "test");
                const auto rotate_them = [&](bool mix, int open) {
                    device.copy_to_device(gate.data(), &open, sizeof open);
                    TwoRotations of{x, y, p, z};
                    of.c = on_device.data() + n * n, of.d = on_device.data() + 2 * n * n;
                    of.m = mix ? on_device.data() : nullptr;
                    rotate_twice(device, of, gate.data());
                };
                CAPTURE(name(backend), name(precision), n);
                const auto before = y.numbers(), untouched = z.numbers();
                rotate_them(false, 0);
                CHECK(y.get() == before);
                CHECK(z.get() == untouched);
                rotate_them(false, 1);
                const auto after = y.get();
                CHECK(error_of_rotation(after, x, c, n, &before) <= error_of_both(precision));
                CHECK(error_of_rotation(z.get(), p, d, n, &after) <= error_of_both(precision));
                auto numbers = after;
                numbers.insert(numbers.end(), x.numbers().begin(), x.numbers().end());
                both.put(numbers);
                rotate_them(true, 1);
                const auto last = y.get();
                CHECK(error_of_rotation(last, both, mixed, n, nullptr) <= error_of_both(precision));
                CHECK(error_of_rotation(z.get(), p, d, n, &last) <= error_of_both(precision));
            }
}

TEST_CASE("dense algebra works on more sites than one pass takes", "[dense]") {
    // Fields with and without gaps between their stripes. On a GPU alone: the host always has 64 slices of sites.
    for (const Backend backend : backends())
        for (const Geometry &large : {Geometry({16, 16, 16, backend == Backend::cuda ? 23 : 3}),
                                      Geometry({17, 16, 17, backend == Backend::cuda ? 21 : 3})})
            for (const Precision precision : precisions)
                for (const Shape &shape : {Shape{3, 3}, Shape{9, 9}, Shape{2, 17}}) {
                    Device device(backend, 0);
                    const Fields x(device, precision, large, 0, shape.n, 3);
                    Fields y(device, precision, large, 0, shape.m, 4);
                    CAPTURE(name(backend), name(precision), large.stride(), shape.n, shape.m);
                    CHECK(error_of_gram(gram_of(device, x, y), x, y) <= gram_error(precision));
                    CHECK(error_of_gram(gram_of(device, x, x), x, x) <= gram_error(precision));
                    const auto c = random_matrix(shape.n, shape.m), before = y.numbers();
                    rotate_by(device, x, c, y, true);
                    CHECK(error_of_rotation(y.get(), x, c, shape.m, &before) <= rotation_error(precision));
                    rotate_by(device, x, c, y, false);
                    CHECK(error_of_rotation(y.get(), x, c, shape.m, nullptr) <= rotation_error(precision));
                }
}

TEST_CASE("NaN in one field stays in its rows and columns", "[dense]") {
    for (const Backend backend : backends())
        for (const Precision precision : precisions)
            for (const int n : {3, 12, 32, 40}) {
                Device device(backend, 0);
                Fields x(device, precision, odd_box, 0, n, 1);
                auto numbers = x.numbers();
                const int spoiled = n - 2, site = 77;
                numbers[(size_t(spoiled) * x.sites() + site) * 3 + 1] = {1, NAN};
                x.put(numbers);
                CAPTURE(name(backend), name(precision), n);
                const auto g = gram_of(device, x, x);
                for (int i = 0; i < n; ++i)
                    for (int j = 0; j < n; ++j)
                        CHECK(std::isnan(std::abs(g[i * n + j])) == (i == spoiled || j == spoiled));
                // A rotation that leaves the field with NaN out has NaN on no site.
                Fields y(device, precision, odd_box, 0, n, 2);
                rotate_by(device, x, random_matrix(n, n), y, false);
                const auto &rotated = y.get();
                for (int j = 0; j < n; ++j)
                    for (int i = 0; i < y.sites(); ++i)
                        for (int colour = 0; colour < 3; ++colour) {
                            const bool is_nan = std::isnan(std::abs(rotated[(size_t(j) * y.sites() + i) * 3 + colour]));
                            if (is_nan != (i == site && (colour == 1 || precision == Precision::half)))
                                FAIL_CHECK("field " << j << " site " << i << " colour " << colour);
                        }
            }
}

TEST_CASE("Gram matrices and rotations have the same bits each time", "[dense]") {
    const Geometry box({7, 9, 5, 4}); // more sites than one thread of the host works on
    for (const Backend backend : backends())
        for (const Precision precision : precisions)
            for (const int n : {4, 12, 32}) {
                std::vector<Number> g, rotated;
                for (int choice = 0; choice < thread_choices(backend); ++choice) {
                    const Threads threads(backend, choice);
                    Device device(backend, 0);
                    device.set_block(threads.block);
                    const Fields x(device, precision, box, 0, n, 1);
                    Fields y(device, precision, box, 0, n, 2);
                    const auto again = gram_of(device, x, y);
                    rotate_by(device, x, random_matrix(n, n), y, true);
                    CAPTURE(name(backend), name(precision), n, choice);
                    CHECK((g.empty() || g == again));
                    CHECK((rotated.empty() || rotated == y.get()));
                    g = again, rotated = y.get();
                }
            }
}

TEST_CASE("dense algebra refuses sizes that no kernel has", "[dense]") {
    Device device(Backend::host, 0);
    const Fields x(device, Precision::single, odd_box, 0, 40, 1), half(device, Precision::half, odd_box, 0, 2, 1),
        odd(device, Precision::single, odd_box, 1, 2, 1);
    const SpinorBlock &all = x;
    SpinorBlock none = all;
    none.sources = 0;
    const DeviceArray<Complex<double>> c(device, 40 * 40, "test");
    CHECK_THROWS_AS(gram_over_ranks(device, x, half), Error);
    CHECK_THROWS_AS(gram_over_ranks(device, x, odd), Error);
    CHECK_THROWS_AS(gram_over_ranks(device, x, none), Error);
    CHECK_THROWS_AS(block_axpy(device, x, c.data(), half), Error);
    CHECK_THROWS_AS(block_axpy(device, x, c.data(), odd), Error);
    CHECK_THROWS_AS(block_axpy(device, none, c.data(), x), Error);
    CHECK_THROWS_AS(block_axpy(device, x, c.data(), x), Error);              // too many fields to work in place
    CHECK_THROWS_AS(block_axpy(device, all.from(30), c.data(), all), Error); // they overlap
    CHECK_THROWS_AS(project(device, x, half, c.data(), nullptr), Error);
    CHECK_THROWS_AS(combine(device, {half}, c.data(), odd, false), Error);
    CHECK_THROWS_AS(combine(device, {half}, c.data(), all.first(17), false), Error);
    const auto twice = [&](const SpinorBlock &a, const SpinorBlock &y, const SpinorBlock &p, const SpinorBlock &z) {
        rotate_twice(device, {a, y, p, z, c.data(), nullptr, c.data()});
    };
    const SpinorBlock a = all.first(2), b = all.from(2).first(2), e = all.from(4).first(2), f = all.from(6).first(2);
    CHECK_NOTHROW(twice(a, b, e, f));
    // Too many fields.
    CHECK_THROWS_AS(twice(all.first(17), all.first(17), all.first(17), all.from(20).first(17)), Error);
    CHECK_THROWS_AS(twice(none, none, none, none), Error);
    CHECK_THROWS_AS(twice(a, b, e, odd), Error);
    CHECK_THROWS_AS(twice(a, b, half, f), Error);
    CHECK_THROWS_AS(twice(a, all.first(3), e, f), Error);
    for (const SpinorBlock &overlapped : {a, b, e})
        CHECK_THROWS_AS(twice(a, b, e, overlapped), Error);
}
