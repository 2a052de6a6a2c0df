// What the multigrid prototype computes with, on both backends: fields of K sources, sums over them, and operators that
// are small dense blocks between sites. D, the inverse of the blocks of 2^4, prolongation, restriction and the coarse
// operator are all such operators.
#pragma once
#include "gpu_kernels/fields/su3.h"
#include "gpu_kernels/machine/backend/device.h"
#include "gpu_kernels/machine/backend/launch.h"

// Before the parameters of a lambda that runs on the device.
#if defined(MILCGPU_WITH_CUDA)
#define ON_DEVICE __host__ __device__
#else
#define ON_DEVICE
#endif

namespace multigrid {

using namespace milcgpu;

// The K sources of a row (a site and a component).
template <class Real, int K> struct alignas(K * 2 * sizeof(Real) % 16 == 0 ? 16 : 8) Packed { Complex<Real> s[K]; };
// Loads by 16 or 8 bytes what the launch does not write.
template <Reuse reuse, class Row> MILCGPU_HD Row load_row(const Row *from) {
#if MILCGPU_ON_DEVICE
    constexpr int word = sizeof(Row) % 16 == 0 ? 16 : 8;
    uint32_t words[sizeof(Row) / 4];
    MILCGPU_UNROLL
    for (int k = 0; k < static_cast<int>(sizeof(Row)) / word; ++k)
        load_word<word, reuse>(reinterpret_cast<const unsigned char *>(from) + k * word, words + k * word / 4);
    Row row;
    memcpy(&row, words, sizeof row);
    return row;
#else
    return *from;
#endif
}
template <class Real, int K> using Field = DeviceArray<Packed<Real, K>>; // [row]

template <class Real, int K> Field<Real, K> make_field(Device &device, int rows) {
    return Field<Real, K>(device, rows, "multigrid: field");
}
template <class Real, int K> void clear(const Field<Real, K> &x) { x.device().fill_zero(x.data(), x.bytes()); }
template <class T> void copy(const DeviceArray<T> &to, const DeviceArray<T> &from) {
    from.device().copy_on_device(to.data(), from.data(), from.bytes());
}
template <class T> DeviceArray<T> on_device(Device &device, const std::vector<T> &host) {
    DeviceArray<T> array(device, host.size(), "multigrid: table");
    device.copy_to_device(array.data(), host.data(), array.bytes());
    return array;
}

// Calls f(i) for i in [0, n), by a body that is a lambda.
template <class Body> void each(Device &device, int n, const Body &body, const char *what) {
    launch(device, n, body, what);
}

template <class To, class From, int K> void convert(const Field<To, K> &to, const Field<From, K> &from) {
    const auto *a = from.data();
    auto *b = to.data();
    each(
        from.device(), static_cast<int>(from.size()),
        [=] ON_DEVICE(int i) {
            MILCGPU_UNROLL
            for (int k = 0; k < K; ++k)
                b[i].s[k] = milcgpu::convert<To>(a[i].s[k]);
        },
        "multigrid: convert");
}

// A number in (-1, 1) that depends on all bits of its place.
MILCGPU_HD float noise(uint64_t place) {
    place = (place + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    place = (place ^ place >> 29) * 0x94d049bb133111ebu;
    place = (place ^ place >> 32) * 0xbf58476d1ce4e5b9u;
    return static_cast<float>(static_cast<int32_t>(place >> 32)) * 0x1p-31f;
}
template <class Real, int K> void fill_with_noise(const Field<Real, K> &x, uint64_t seed) {
    auto *a = x.data();
    each(
        x.device(), static_cast<int>(x.size()),
        [=] ON_DEVICE(int i) {
            for (int k = 0; k < K; ++k) {
                const uint64_t place = ((seed << 40) + uint64_t(i) * K + k) * 2;
                a[i].s[k] = {noise(place), noise(place + 1)};
            }
        },
        "multigrid: noise");
}

// ---- sums and linear combinations, each source by itself

constexpr int most_in_list = 104;
template <class Real, int K> struct List {
    const Packed<Real, K> *at[most_in_list];
    int count = 0;
    void add(const Packed<Real, K> *field) { at[count++] = field; }
};

// The last steps of sums: sums[j] of partial[j][chunk], in a fixed order. partial is overwritten.
template <class Out, int K>
void reduce(Device &device, Packed<double, K> *partial, int count, int chunks, Packed<Out, K> *sums) {
    constexpr int groups = 64;
    each(
        device, count * groups,
        [=] ON_DEVICE(int i) {
            const int group = i % groups;
            Packed<double, K> *row = partial + size_t(i / groups) * chunks;
            Packed<double, K> sum = {};
            for (int chunk = group; chunk < chunks; chunk += groups)
                MILCGPU_UNROLL
            for (int k = 0; k < K; ++k)
                sum.s[k] = sum.s[k] + row[chunk].s[k];
            row[group] = sum;
        },
        "multigrid: sums of chunks");
    each(
        device, count,
        [=] ON_DEVICE(int j) {
            Packed<double, K> sum = {};
            for (int group = 0; group < groups; ++group)
                MILCGPU_UNROLL
            for (int k = 0; k < K; ++k)
                sum.s[k] = sum.s[k] + partial[size_t(j) * chunks + group].s[k];
            for (int k = 0; k < K; ++k)
                sums[j].s[k] = milcgpu::convert<Out>(sum.s[k]);
        },
        "multigrid: sums");
}
inline int chunks_of(int rows) { return rows > 200000 ? 16384 : rows > 20000 ? 4096 : 1024; } // above 64
template <class Real, int K> DeviceArray<Packed<double, K>> room_for_sums(Device &device, int rows, int count) {
    return DeviceArray<Packed<double, K>>(device, size_t(count) * chunks_of(rows), "multigrid: sums");
}

// sums[j] = <a_j, b_j>
template <class Real, int K>
void dots(Device &device, int rows, const List<Real, K> &a, const List<Real, K> &b,
          const DeviceArray<Packed<double, K>> &room, Packed<double, K> *sums) {
    const int chunks = chunks_of(rows);
    Packed<double, K> *partial = room.data();
    each(
        device, a.count * chunks,
        [=] ON_DEVICE(int i) {
            const int chunk = i % chunks, j = i / chunks;
            const Packed<Real, K> *u = a.at[j], *v = b.at[j];
            Packed<double, K> sum = {};
            for (int row = chunk; row < rows; row += chunks) {
                const Packed<Real, K> x = load_row<Reuse::keep>(u + row), y = load_row<Reuse::keep>(v + row);
                MILCGPU_UNROLL
                for (int k = 0; k < K; ++k)
                    sum.s[k] = plus(sum.s[k], conj(milcgpu::convert<double>(x.s[k])), milcgpu::convert<double>(y.s[k]));
            }
            partial[size_t(j) * chunks + chunk] = sum;
        },
        "multigrid: dots");
    reduce(device, partial, a.count, chunks, sums);
}

template <class Real, int K> using Factors = std::common_type_t<const Packed<Real, K> *>; // nullptr may stand for it
// y = scale y + sign sum_j factors[j] a_j. Without factors or scale these are 1.
template <class Real, int K>
void combine(const Field<Real, K> &y, const List<Real, K> &a, Factors<Real, K> factors, Real sign = 1,
             Factors<Real, K> scale = nullptr) {
    Packed<Real, K> *out = y.data();
    each(
        y.device(), static_cast<int>(y.size()),
        [=] ON_DEVICE(int row) {
            Packed<Real, K> sum = out[row];
            if (scale != nullptr) {
                const Packed<Real, K> s = scale[0];
                MILCGPU_UNROLL
                for (int k = 0; k < K; ++k)
                    sum.s[k] = s.s[k] * sum.s[k];
            }
            for (int j = 0; j < a.count; ++j) {
                const Packed<Real, K> x = load_row<Reuse::keep>(a.at[j] + row);
                Packed<Real, K> f;
                if (factors != nullptr)
                    f = load_row<Reuse::keep>(factors + j);
                MILCGPU_UNROLL
                for (int k = 0; k < K; ++k)
                    sum.s[k] = factors == nullptr ? sum.s[k] + sign * x.s[k] : plus(sum.s[k], sign * f.s[k], x.s[k]);
            }
            out[row] = sum;
        },
        "multigrid: combine");
}
// y = x - y
template <class Real, int K> void subtract_from(const Field<Real, K> &x, const Field<Real, K> &y) {
    const Packed<Real, K> *const from = x.data();
    Packed<Real, K> *const to = y.data();
    each(
        x.device(), static_cast<int>(x.size()),
        [=] ON_DEVICE(int row) {
            const Packed<Real, K> a = load_row<Reuse::keep>(from + row), b = to[row];
            Packed<Real, K> difference;
            MILCGPU_UNROLL
            for (int k = 0; k < K; ++k)
                difference.s[k] = a.s[k] - b.s[k];
            to[row] = difference;
        },
        "multigrid: residual");
}
template <class Real, int K> List<Real, K> list(const Field<Real, K> &x) {
    List<Real, K> one;
    one.add(x.data());
    return one;
}

// |x|^2 of each source, on the host.
template <class Real, int K> std::vector<double> norms(const Field<Real, K> &x) {
    Device &device = x.device();
    const int rows = static_cast<int>(x.size());
    const auto room = room_for_sums<Real, K>(device, rows, 1);
    const DeviceArray<Packed<double, K>> sum(device, 1, "multigrid: sums");
    dots(device, rows, list(x), list(x), room, sum.data());
    std::vector<double> all;
    const Packed<double, K> squares = sum.to_host()[0];
    for (const Complex<double> &c : squares.s)
        all.push_back(c.re);
    return all;
}
// The largest |a - b| / |b| of a source.
template <class Real, int K> double relative_difference(const Field<Real, K> &a, const Field<Real, K> &b) {
    Field<Real, K> c = make_field<Real, K>(a.device(), static_cast<int>(a.size()));
    copy(c, a);
    subtract_from(b, c);
    const std::vector<double> difference = norms(c), size = norms(b);
    double worst = 0;
    for (int k = 0; k < K; ++k) {
        const double error = std::sqrt(difference[k] / size[k]);
        worst = error <= worst ? worst : error; // NaN stays
    }
    return worst;
}

// ---- operators of dense blocks

// Where element `column` of a row is among `width` of them: 32 rows side by side, so that a warp's loads coalesce.
MILCGPU_HD size_t place_of(int row, int width, int column) {
    return (size_t(row / 32) * width + column) * 32 + row % 32;
}

// y(site) = sum over terms of block(site, term) x(from(site, term)); a block has `rows` x `columns` elements.
template <class Real> struct Blocks {
    int sites = 0, rows = 0, columns = 0, terms = 0;
    DeviceArray<int> from;                 // [site][term]; negative: nothing
    DeviceArray<Packed<Real, 1>> elements; // [row of all sites][term][column], at place_of

    Blocks() = default;
    Blocks(Device &device, int sites, int rows, int columns, const std::vector<int> &from)
        : sites(sites), rows(rows), columns(columns), terms(static_cast<int>(from.size()) / sites),
          from(on_device(device, from)),
          elements(device, size_t((sites * rows + 31) / 32) * 32 * terms * columns, "multigrid: operator") {}
    int all_rows() const { return sites * rows; }
    int width() const { return terms * columns; }
    double bytes() const { return double(all_rows()) * width() * sizeof(Packed<Real, 1>); }
};

template <class Real, int K, int fixed_columns> struct ApplyBlocks {
    const Packed<Real, 1> *elements;
    const int *from;
    const Packed<Real, K> *x;
    Packed<Real, K> *y;
    Real diagonal;
    int rows, columns_, terms;
    MILCGPU_HD void operator()(int i) const {
        const int columns = fixed_columns > 0 ? fixed_columns : columns_;
        const int *const site = from + size_t(i / rows) * terms;
        const Packed<Real, 1> *element = elements + place_of(i, terms * columns, 0);
        Packed<Real, K> sum = {};
        for (int t = 0; t < terms; ++t, element += size_t(columns) * 32) {
            if (site[t] < 0)
                continue;
            const Packed<Real, K> *v = x + size_t(site[t]) * columns;
            if constexpr (fixed_columns > 0) {
                MILCGPU_UNROLL
                for (int c = 0; c < fixed_columns; ++c)
                    add(sum, load_row<Reuse::stream>(element + size_t(c) * 32), load_row<Reuse::keep>(v + c));
            } else if constexpr (K == 1) { // the compiler's choice of 4 at once is a good one
                for (int c = 0; c < columns; ++c)
                    add(sum, load_row<Reuse::stream>(element + size_t(c) * 32), load_row<Reuse::keep>(v + c));
            } else {
                MILCGPU_UNROLL_TWICE
                for (int c = 0; c < columns; ++c)
                    add(sum, load_row<Reuse::stream>(element + size_t(c) * 32), load_row<Reuse::keep>(v + c));
            }
        }
        if (diagonal != 0)
            add(sum, {{{diagonal, 0}}}, x[i]);
        y[i] = sum;
    }
    static MILCGPU_HD void add(Packed<Real, K> &sum, const Packed<Real, 1> &e, const Packed<Real, K> &v) {
        MILCGPU_UNROLL
        for (int k = 0; k < K; ++k)
            sum.s[k] = plus(sum.s[k], e.s[0], v.s[k]);
    }
};

// y = diagonal x + B x. from: another table of the same size, on the device.
template <class Real, int K>
void apply(const Blocks<Real> &b, const Field<Real, K> &x, const Field<Real, K> &y, Real diagonal = 0,
           const int *from = nullptr) {
    if (from == nullptr)
        from = b.from.data();
    const auto go = [&](const auto &body) { launch(x.device(), b.all_rows(), body, "multigrid: blocks"); };
    if (b.columns == 3)
        go(ApplyBlocks<Real, K, 3>{b.elements.data(), from, x.data(), y.data(), diagonal, b.rows, 3, b.terms});
    else
        go(ApplyBlocks<Real, K, 0>{b.elements.data(), from, x.data(), y.data(), diagonal, b.rows, b.columns, b.terms});
}

} // namespace multigrid
