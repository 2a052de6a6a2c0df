// The passes of tie_ups.h: fields of T_k Q at the sites of a corner, and sums over these sites.
#include "gpu_kernels/fields/full_view.h"
#include "gpu_kernels/halo/halo.h"
#include "gpu_kernels/machine/backend/launch.h"
#include "gpu_kernels/measure/quark_operators.h"
#include "gpu_kernels/measure/tie_blocks.h"
#include "gpu_kernels/measure/tie_ups.h"
#include <algorithm>

namespace milcgpu {

namespace {

constexpr int sites_together = 64;       // of a slice, summed by one thread
constexpr double most_bytes = 1 << 30;   // of the fields and sums of some slices, on a whole lattice
constexpr double most_threads = 1 << 30; // of a launch

template <class Real> MILCGPU_HD Complex<Real> load_number(const unsigned char *numbers, size_t i) {
    constexpr int bytes = sizeof(Complex<Real>);
    uint32_t words[bytes / 4];
    load_element<bytes, bytes, Reuse::keep>(numbers, 0, i, words);
    Complex<Real> z;
    memcpy(&z, words, bytes);
    return z;
}

// The sites of the corner in some slices of the box: `count` in each direction from `first` on, every second one in
// space.
struct CornerSites {
    int first[4], count[4]; // first: on the wide box
    MILCGPU_HD int of_slice() const { return count[0] * count[1] * count[2]; }
    MILCGPU_HD void place(int j, int (&x)[4]) const {
        MILCGPU_UNROLL
        for (int mu = 0; mu < 3; ++mu) {
            x[mu] = first[mu] + 2 * (j % count[mu]);
            j /= count[mu];
        }
        x[3] = first[3] + j;
    }
};

// One thread a site and source colour.
template <Precision p> struct CornerFields {
    using Real = typename LinkReal<p>::Real;
    Lattice lattice; // the wide box
    CornerSites sites;
    FullView<p> in[3]; // for each source colour; without data: 0
    unsigned char *to;
    int work, record, first_number; // sites of all slices; numbers a site, and the first one of this quark
    bool one_sided;

    MILCGPU_HD void operator()(int thread) const {
        const int j = thread % work, c = thread / work;
        int x[4], lexicographic[3][3]; // behind, here, ahead
        sites.place(j, x);
        MILCGPU_UNROLL
        for (int mu = 0; mu < 3; ++mu)
            MILCGPU_UNROLL
        for (int hop = -1; hop <= 1; ++hop) {
            const int n = lattice.extent[mu], there = x[mu] + hop;
            lexicographic[mu][hop + 1] = (there < 0    ? there + n
                                          : there >= n ? there - n
                                                       : there) *
                                         lattice.stride_lexicographic[mu];
        }
        const int slice = x[3] * lattice.stride_lexicographic[3],
                  parity = (x[0] + x[1] + x[2] + x[3] + lattice.origin_parity) & 1;
        Vector<Real> sum[cube_corners] = {};
        const FullView<p> from = c == 0 ? in[0] : c == 1 ? in[1] : in[2];
        if (from.even != nullptr) {
            MILCGPU_UNROLL
            for (int hops = 0; hops < 27; ++hops) {
                const int hx = hops % 3, hy = hops / 3 % 3, hz = hops / 9;
                const int k = (hx != 1) + 2 * (hy != 1) + 4 * (hz != 1), odd = (k ^ k >> 1 ^ k >> 2) & 1;
                if (one_sided && (hx == 0 || hy == 0 || hz == 0))
                    continue;
                const int at = lexicographic[0][hx] + lexicographic[1][hy] + lexicographic[2][hz] + slice;
                sum[k] = sum[k] + from.load(parity ^ odd, 0, at >> 1);
            }
        }
        MILCGPU_UNROLL
        for (int a = 0; a < 3; ++a)
            MILCGPU_UNROLL
        for (int k = 0; k < cube_corners; ++k) {
            const int steps = (k & 1) + (k >> 1 & 1) + (k >> 2);
            const Complex<Real> z = (one_sided ? Real(1) : Real(1) / (1 << steps)) * sum[k].c[a];
            constexpr int bytes = sizeof z;
            uint32_t words[bytes / 4];
            memcpy(words, &z, bytes);
            store_element<bytes, bytes>(to, 0, size_t(j) * record + first_number + (3 * c + a) * cube_corners + k,
                                        words);
        }
    }
};

// The sites of a chunk, which do not reach into the next slice.
struct Chunk {
    int slice, begin, end;
};
struct Chunks {
    int sites, count, record; // sites and chunks of a slice; numbers a site
    MILCGPU_HD Chunk at(int chunk) const {
        const int slice = chunk / count, begin = (chunk - slice * count) * sites_together;
        return {slice, begin, begin + sites_together < sites ? begin + sites_together : sites};
    }
    MILCGPU_HD size_t record_of(const Chunk &chunk, int site) const {
        return (size_t(chunk.slice) * sites + site) * record;
    }
};

// to[chunk][item]: sums over the sites of a chunk.
template <class Real, int n> struct TieChunks {
    const unsigned char *fields;
    const TieBlock<n> *blocks;
    const Complex<double> *factors; // of the sites of a slice; nullptr: 1
    Complex<double> *to;
    Chunks chunks;
    int count, items; // of blocks; of the list

    MILCGPU_HD static const unsigned char *first(const unsigned char *record, int number) {
        return record + number * sizeof(Complex<Real>);
    }
    MILCGPU_HD static Complex<Real> number(const unsigned char *quark, int c, int a) {
        return load_number<Real>(quark, (3 * c + a) * cube_corners);
    }
    MILCGPU_HD static Matrix<Real> quark(const unsigned char *from) {
        Matrix<Real> q;
        MILCGPU_UNROLL
        for (int c = 0; c < 3; ++c)
            MILCGPU_UNROLL
        for (int a = 0; a < 3; ++a)
            q.e[c][a] = number(from, c, a);
        return q;
    }
    MILCGPU_HD void operator()(int thread) const {
        const TieBlock<n> of = blocks[thread % count];
        const int chunk = thread / count;
        const Chunk here = chunks.at(chunk);
        Complex<double> sum[n][n] = {};
        MILCGPU_ROLLED
        for (int site = here.begin; site < here.end; ++site) {
            const unsigned char *const record = fields + chunks.record_of(here, site) * sizeof(Complex<Real>), *r[n];
            Matrix<Real> p[n], q[n];
            MILCGPU_UNROLL
            for (int i = 0; i < n; ++i) {
                p[i] = quark(first(record, of.p[i]));
                q[i] = quark(first(record, of.q[i]));
                r[i] = first(record, of.r[i]);
            }
            Complex<Real> tied[n][n] = {};
            MILCGPU_UNROLL
            for (int c = 0; c < 3; ++c)
                MILCGPU_UNROLL
            for (int a = 0; a < 3; ++a) {
                Complex<Real> third[n];
                MILCGPU_UNROLL
                for (int i = 0; i < n; ++i)
                    third[i] = number(r[i], (c + 2) % 3, (a + 2) % 3);
                MILCGPU_UNROLL
                for (int i = 0; i < n; ++i)
                    MILCGPU_UNROLL
                for (int j = 0; j < n; ++j)
                    tied[i][j] = plus(tied[i][j], minor_of(p[i], q[j], c, a), third[i ^ j]);
            }
            MILCGPU_UNROLL
            for (int i = 0; i < n; ++i)
                MILCGPU_UNROLL
            for (int j = 0; j < n; ++j) {
                const Complex<double> z = convert<double>(tied[i][j]);
                sum[i][j] = sum[i][j] + (factors != nullptr ? factors[site] * z : z);
            }
        }
        MILCGPU_UNROLL
        for (int i = 0; i < n; ++i)
            MILCGPU_UNROLL
        for (int j = 0; j < n; ++j)
            if (of.item[n * i + j] >= 0)
                to[size_t(chunk) * items + of.item[n * i + j]] = sum[i][j];
    }
};

// to[chunk][number]: the same of the fields themselves.
template <class Real> struct PlainChunks {
    const unsigned char *fields;
    Complex<double> *to;
    Chunks chunks;
    MILCGPU_HD void operator()(int thread) const {
        const Chunk here = chunks.at(thread / chunks.record);
        Complex<double> sum = {};
        MILCGPU_ROLLED
        for (int site = here.begin; site < here.end; ++site)
            sum =
                sum + convert<double>(load_number<Real>(fields, chunks.record_of(here, site) + thread % chunks.record));
        to[thread] = sum;
    }
};

// to[item][t]
struct SumSlices {
    const Complex<double> *from;
    Complex<double> *to;
    int items, chunks, slices, first;
    MILCGPU_HD void operator()(int thread) const {
        const int item = thread % items, slice = thread / items;
        Complex<double> sum = {};
        for (int chunk = 0; chunk < chunks; ++chunk)
            sum = sum + from[(size_t(slice) * chunks + chunk) * items + item];
        to[size_t(item) * slices + first + slice] = sum;
    }
};

Precision precision_of(const TiedQuark &quark) {
    for (const FullVectors &vectors : quark.colour)
        if (vectors.even)
            return vectors.even.precision;
    throw Error(Status::bad_argument, "tie-ups: a quark has no vectors");
}

struct Work {
    Device &device;
    Halo *halo;
    const WideBox &box;
    const std::vector<TiedQuark> &quarks;
    const SliceCorner &at;
    int items;

    const Geometry &geometry() const { return box.box(); }
    int slices() const { return geometry().lattice().extent[3]; }
    Precision precision() const { return precision_of(quarks[0]); }
    int record() const { return numbers_a_quark * static_cast<int>(quarks.size()); }
    int number_bytes() const { return 2 * real_bytes(precision()); }

    CornerSites sites(int first_slice, int count) const {
        const InnerBox inner = box.inner();
        CornerSites s{};
        for (int mu = 0; mu < 3; ++mu) {
            const int skipped = (geometry().origin()[mu] ^ at.corner >> mu) & 1;
            s.first[mu] = inner.first[mu] + skipped;
            s.count[mu] = (inner.extent[mu] - skipped + 1) / 2;
        }
        s.first[3] = inner.first[3] + first_slice, s.count[3] = count;
        return s;
    }
    std::vector<Complex<double>> factors() const {
        std::vector<Complex<double>> made;
        const CornerSites s = sites(0, 1);
        for (int j = 0; at.momentum && j < s.of_slice(); ++j) {
            int x[4];
            s.place(j, x);
            Complex<double> product{1, 0};
            for (int mu = 0; mu < 3; ++mu)
                product =
                    product * momentum_factor(at.momentum->p[mu], at.momentum->parity[mu],
                                              x[mu] - box.inner().first[mu] + geometry().origin()[mu] - at.origin[mu],
                                              geometry().global_extents()[mu]);
            made.push_back(product);
        }
        return made;
    }
    // The fewest parts into which the slices must be divided; the same on all ranks. On a cut lattice each part copies
    // all quarks with their margin, so there is one if it fits.
    int parts() const {
        const double all = geometry().global_volume() / 8,
                     chunks = all / sites_together + geometry().global_extents()[3],
                     bytes = all * record() * number_bytes() + chunks * items * sizeof(Complex<double>);
        return static_cast<int>(
            std::ceil(std::max(halo != nullptr ? 0 : bytes / most_bytes, chunks * items / most_threads)));
    }

    // sum(chunks, slices, fields, factors, to) sums over the sites of each chunk.
    template <class Real, class Sum> std::vector<Complex<double>> sums_in(int parts, const Sum &sum) const {
        constexpr Precision p = sizeof(Real) == 8 ? Precision::double_ : Precision::single;
        const int together = (slices() + parts - 1) / parts, of_slice = sites(0, 1).of_slice(),
                  chunks = (of_slice + sites_together - 1) / sites_together;
        const std::vector<Complex<double>> of_sites = factors();
        DeviceArray<unsigned char> fields;
        DeviceArray<Complex<double>> partial, sums, on_device;
        queue_of(device).collective("memory for tie-ups", [&] {
            fields = {device, std::max<size_t>(size_t(of_slice) * together * record() * number_bytes(), 16),
                      "contraction"};
            partial = {device, std::max<size_t>(size_t(items) * chunks * together, 1), "partial sums"};
            sums = {device, size_t(items) * slices(), "sums over time slices"};
            if (!of_sites.empty())
                on_device = {device, of_sites.size(), "factors of momenta"};
        });
        if (!of_sites.empty())
            queue_of(device).copy_to_device(on_device.data(), of_sites.data(), on_device.bytes());
        for (int part = 0; part < parts; ++part) {
            const int first = std::min(part * together, slices()), count = std::min(together, slices() - first);
            const CornerSites here = sites(first, count);
            const int work = of_slice * count;
            for (size_t k = 0; k < quarks.size(); ++k) {
                AroundVectors around[3];
                for (int c = 0; c < 3; ++c)
                    if (quarks[k].colour[c].even)
                        around[c] = {device, halo, box, quarks[k].colour[c], {{1, 1, 1, 0}, true}};
                const auto view = [&](int c) { return FullView<p>(around[c].vectors()); };
                launch(device, 3 * work,
                       CornerFields<p>{box.wide().lattice(),
                                       here,
                                       {view(0), view(1), view(2)},
                                       fields.data(),
                                       work,
                                       record(),
                                       static_cast<int>(k) * numbers_a_quark,
                                       at.one_sided},
                       "shifted quarks");
            }
            sum({of_slice, chunks, record()}, count, fields.data(), on_device.data(), partial.data());
            launch(device, items * count, SumSlices{partial.data(), sums.data(), items, chunks, slices(), first},
                   "sums of tie-ups");
        }
        std::vector<Complex<double>> found;
        queue_of(device).collective("sums of tie-ups", [&] { found = sums.to_host(); });
        return found;
    }
    // In more parts if memory is short.
    template <class Real, class Sum> std::vector<Complex<double>> sums(const Sum &sum) const {
        for (int in = parts();; in *= 2)
            try {
                return sums_in<Real>(in, sum);
            } catch (const Error &error) {
                if (error.status() != Status::no_memory || in >= geometry().global_extents()[3])
                    throw;
            }
    }
};

void check(const std::vector<TiedQuark> &quarks) {
    for (const TiedQuark &quark : quarks)
        for (const FullVectors &vectors : quark.colour)
            if (vectors.even && (vectors.sources() != 1 || vectors.even.precision != precision_of(quarks[0]) ||
                                 vectors.even.precision == Precision::half))
                throw Error(Status::bad_argument,
                            "tie-ups: a quark has one vector for each colour, of one precision, double or single");
    if (quarks.empty() || quarks.size() * numbers_a_quark > 65535)
        throw Error(Status::bad_argument,
                    format("tie-ups of %zu quarks: 1 to %d", quarks.size(), 65535 / numbers_a_quark));
}

} // namespace

std::vector<Complex<double>> tie_up(Device &device, Halo *halo, const WideBox &box,
                                    const std::vector<TiedQuark> &quarks, const SliceCorner &at,
                                    const std::vector<TieUp> &list) {
    check(quarks);
    const Work work{device, halo, box, quarks, at, static_cast<int>(list.size())};
    std::optional<TieBlocks> blocks;
    DeviceArray<TieBlock<2>> fours;
    DeviceArray<TieBlock<1>> ones;
    queue_of(device).collective("memory for tie-ups", [&] {
        std::vector<Three> numbers; // in the record of a site: the first one of the quark, plus the shift
        for (const TieUp &one : list) {
            numbers.emplace_back();
            for (int f = 0; f < 3; ++f)
                numbers.back()[f] = static_cast<uint16_t>(one.quark[f] * numbers_a_quark + one.shift[f]);
        }
        blocks.emplace(numbers);
        fours = {device, std::max<size_t>(blocks->fours.size(), 1), "contraction"};
        ones = {device, std::max<size_t>(blocks->ones.size(), 1), "contraction"};
    });
    const int n_fours = static_cast<int>(blocks->fours.size()), n_ones = static_cast<int>(blocks->ones.size());
    if (n_fours > 0)
        queue_of(device).copy_to_device(fours.data(), blocks->fours.data(), n_fours * sizeof(TieBlock<2>));
    if (n_ones > 0)
        queue_of(device).copy_to_device(ones.data(), blocks->ones.data(), n_ones * sizeof(TieBlock<1>));
    std::vector<Complex<double>> found;
    for_real(work.precision(), [&](auto real) {
        using Real = typename LinkReal<decltype(real)::value>::Real;
        // Four matrices of a thread are in registers: 144 of 32 bits in double.
        constexpr int threads = 128, most_blocks = sizeof(Real) == 8 ? 2 : 3;
        found = work.sums<Real>([&](const Chunks &chunks, int slices, const unsigned char *fields,
                                    const Complex<double> *factors, Complex<double> *to) {
            const int n = chunks.count * slices;
            launch_bounded<threads, most_blocks>(
                device, n_fours * n, TieChunks<Real, 2>{fields, fours.data(), factors, to, chunks, n_fours, work.items},
                "tie-ups");
            launch(device, n_ones * n, TieChunks<Real, 1>{fields, ones.data(), factors, to, chunks, n_ones, work.items},
                   "tie-ups");
        });
    });
    return found;
}

std::vector<Complex<double>> sum_quarks(Device &device, Halo *halo, const WideBox &box,
                                        const std::vector<TiedQuark> &quarks, const SliceCorner &at) {
    check(quarks);
    const Work work{device, halo, box, quarks, at, numbers_a_quark * static_cast<int>(quarks.size())};
    std::vector<Complex<double>> found;
    for_real(work.precision(), [&](auto real) {
        using Real = typename LinkReal<decltype(real)::value>::Real;
        found = work.sums<Real>([&](const Chunks &chunks, int slices, const unsigned char *fields,
                                    const Complex<double> *, Complex<double> *to) {
            launch(device, chunks.record * chunks.count * slices, PlainChunks<Real>{fields, to, chunks},
                   "sums of quarks");
        });
    });
    return found;
}

} // namespace milcgpu
