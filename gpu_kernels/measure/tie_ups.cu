// The passes of tie_ups.h: fields of T_k Q at the sites of a corner, and sums over these sites.
#include "gpu_kernels/fields/full_view.h"
#include "gpu_kernels/halo/halo.h"
#include "gpu_kernels/machine/backend/launch.h"
#include "gpu_kernels/measure/quark_operators.h"
#include "gpu_kernels/measure/tie_ups.h"
#include <algorithm>
#include <array>

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

// Four threads a site: thread m has shifts m and 7 - m, so each has 9 or 6 of the 27 places around the site.
// Neighbouring threads store whole sectors of 32 bytes.
template <Precision p> struct CornerFields {
    using Real = typename LinkReal<p>::Real;
    Lattice lattice; // the wide box
    CornerSites sites;
    FullView<p> in[3]; // for each source colour; without data: 0
    unsigned char *to;
    int work, record, first_number; // sites of all slices; numbers a site, and the first one of this quark
    bool one_sided;

    MILCGPU_HD void operator()(int thread) const {
        const int m = thread % 4, j = thread / 4;
        int x[4], ahead[3], behind[3]; // in lexicographic order
        sites.place(j, x);
        int here = x[3] * lattice.stride_lexicographic[3];
        MILCGPU_UNROLL
        for (int mu = 0; mu < 3; ++mu) {
            const int n = lattice.extent[mu], stride = lattice.stride_lexicographic[mu];
            here += x[mu] * stride;
            ahead[mu] = x[mu] + 1 < n ? stride : (1 - n) * stride;
            behind[mu] = x[mu] > 0 ? -stride : (n - 1) * stride;
        }
        const int parity_here = x[0] + x[1] + x[2] + x[3] + lattice.origin_parity;
        MILCGPU_UNROLL
        for (int half = 0; half < 2; ++half) {
            const int k = half == 0 ? m : cube_corners - 1 - m, steps = (k & 1) + (k >> 1 & 1) + (k >> 2);
            Vector<Real> sum[3] = {};
            int way = one_sided ? k : 0; // a part of the bits of k: ahead
            MILCGPU_ROLLED
            do {
                int at = here;
                MILCGPU_UNROLL
                for (int mu = 0; mu < 3; ++mu)
                    at += (k >> mu & 1) == 0 ? 0 : (way >> mu & 1) != 0 ? ahead[mu] : behind[mu];
                MILCGPU_UNROLL
                for (int c = 0; c < 3; ++c)
                    if (in[c].even != nullptr)
                        sum[c] = sum[c] + in[c].load((parity_here + steps) & 1, 0, at >> 1);
                way = (way - k) & k; // the next part, 0 after the last one
            } while (way != 0 && !one_sided);
            MILCGPU_UNROLL
            for (int c = 0; c < 3; ++c)
                MILCGPU_UNROLL
            for (int a = 0; a < 3; ++a) {
                const Complex<Real> z = (one_sided ? Real(1) : Real(1) / (1 << steps)) * sum[c].c[a];
                constexpr int bytes = sizeof z;
                uint32_t words[bytes / 4];
                memcpy(words, &z, bytes);
                store_element<bytes, bytes>(to, 0, size_t(j) * record + first_number + (3 * c + a) * cube_corners + k,
                                            words);
            }
        }
    }
};

// Three quarks, each as one number: the first number of the quark in the record of a site, plus the shift.
struct Places {
    uint16_t at[3];
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
template <class Real> struct TieChunks {
    const unsigned char *fields;
    const Places *places;
    const Complex<double> *factors; // of the sites of a slice; nullptr: 1
    Complex<double> *to;
    Chunks chunks;
    int items;

    // Offsets of numbers are constants: a site has few instructions beside the multiply-adds.
    MILCGPU_HD static Matrix<Real> quark(const unsigned char *record, int at) {
        const unsigned char *const from = record + at * sizeof(Complex<Real>);
        Matrix<Real> q;
        MILCGPU_UNROLL
        for (int c = 0; c < 3; ++c)
            MILCGPU_UNROLL
        for (int a = 0; a < 3; ++a)
            q.e[c][a] = load_number<Real>(from, (3 * c + a) * cube_corners);
        return q;
    }
    MILCGPU_HD void operator()(int thread) const {
        const Places of = places[thread % items];
        const Chunk here = chunks.at(thread / items);
        Complex<double> sum = {};
        MILCGPU_ROLLED
        for (int site = here.begin; site < here.end; ++site) {
            const unsigned char *const record = fields + chunks.record_of(here, site) * sizeof(Complex<Real>);
            const Complex<double> z =
                convert<double>(tie(quark(record, of.at[0]), quark(record, of.at[1]), quark(record, of.at[2])));
            sum = sum + (factors != nullptr ? factors[site] * z : z);
        }
        to[thread] = sum;
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

// How much a call allocates.
struct Sizes {
    const Geometry &box;
    bool is_cut;
    int quarks, items;
    Precision precision;

    int record() const { return numbers_a_quark * quarks; }
    int number_bytes() const { return 2 * real_bytes(precision); }
    // The fewest parts into which the slices must be divided; the same on all ranks. On a cut lattice each part copies
    // all quarks with their margin, so there is one if it fits.
    int parts() const {
        const double all = box.global_volume() / 8, chunks = all / sites_together + box.global_extents()[3],
                     bytes = all * record() * number_bytes() + chunks * items * sizeof(Complex<double>);
        return static_cast<int>(std::ceil(std::max(is_cut ? 0 : bytes / most_bytes, chunks * items / most_threads)));
    }
    int together(int parts) const { return (box.lattice().extent[3] + parts - 1) / parts; } // slices
    static int chunks(int of_slice) { return (of_slice + sites_together - 1) / sites_together; }
    size_t bytes_of_fields(int of_slice, int together) const {
        return std::max<size_t>(size_t(of_slice) * together * record() * number_bytes(), 16);
    }
    size_t partial_sums(int of_slice, int together) const {
        return std::max<size_t>(size_t(items) * chunks(of_slice) * together, 1);
    }
    size_t sums() const { return size_t(items) * box.lattice().extent[3]; }
};

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
    Sizes sizes() const { return {geometry(), halo != nullptr, static_cast<int>(quarks.size()), items, precision()}; }
    int record() const { return sizes().record(); }

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

    // sum(chunks, slices, fields, factors, to) sums over the sites of each chunk.
    template <class Real, class Sum> std::vector<Complex<double>> sums_in(int parts, const Sum &sum) const {
        constexpr Precision p = sizeof(Real) == 8 ? Precision::double_ : Precision::single;
        const Sizes size = sizes();
        const int together = size.together(parts), of_slice = sites(0, 1).of_slice(), chunks = Sizes::chunks(of_slice);
        const std::vector<Complex<double>> of_sites = factors();
        DeviceArray<unsigned char> fields;
        DeviceArray<Complex<double>> partial, sums, on_device;
        queue_of(device).collective("memory for tie-ups", [&] {
            fields = {device, size.bytes_of_fields(of_slice, together), "contraction"};
            partial = {device, size.partial_sums(of_slice, together), "partial sums"};
            sums = {device, size.sums(), "sums over time slices"};
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
                launch(device, cube_corners / 2 * work,
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
        for (int in = sizes().parts();; in *= 2)
            try {
                return sums_in<Real>(in, sum);
            } catch (const Error &error) {
                if (error.status() != Status::no_memory || in >= geometry().global_extents()[3])
                    throw;
            }
    }
};

// The order in which threads take tie-ups: 256 neighbours have two first and two second quarks, with all shifts. So a
// block of threads reads 48 T_k Q of a site, where the order of the list would make it read up to 132.
std::vector<int> tiles(const std::vector<TieUp> &list) {
    std::vector<std::pair<std::array<int, 8>, int>> keys;
    for (size_t i = 0; i < list.size(); ++i) {
        const auto &[q, k] = list[i];
        keys.push_back({{q[0] / 2, q[1] / 2, q[0], q[1], k[0], k[1], q[2], k[2]}, static_cast<int>(i)});
    }
    std::sort(keys.begin(), keys.end());
    std::vector<int> order;
    for (const auto &key : keys)
        order.push_back(key.second);
    return order;
}

constexpr int most_quarks = 65535 / numbers_a_quark;

void check(const std::vector<TiedQuark> &quarks) {
    for (const TiedQuark &quark : quarks)
        for (const FullVectors &vectors : quark.colour)
            if (vectors.even && (vectors.sources() != 1 || vectors.even.precision != precision_of(quarks[0]) ||
                                 vectors.even.precision == Precision::half))
                throw Error(Status::bad_argument,
                            "tie-ups: a quark has one vector for each colour, of one precision, double or single");
    if (quarks.empty() || quarks.size() > most_quarks)
        throw Error(Status::bad_argument, format("tie-ups of %zu quarks: 1 to %d", quarks.size(), most_quarks));
}

} // namespace

std::vector<Complex<double>> tie_up(Device &device, Halo *halo, const WideBox &box,
                                    const std::vector<TiedQuark> &quarks, const SliceCorner &at,
                                    const std::vector<TieUp> &list) {
    check(quarks);
    const Work work{device, halo, box, quarks, at, static_cast<int>(list.size())};
    const std::vector<int> order = tiles(list);
    std::vector<Places> places;
    for (const int i : order) {
        Places of{};
        for (int f = 0; f < 3; ++f)
            of.at[f] = static_cast<uint16_t>(list[i].quark[f] * numbers_a_quark + list[i].shift[f]);
        places.push_back(of);
    }
    DeviceArray<Places> on_device;
    queue_of(device).collective("memory for tie-ups", [&] { on_device = {device, places.size(), "contraction"}; });
    queue_of(device).copy_to_device(on_device.data(), places.data(), on_device.bytes());
    std::vector<Complex<double>> found;
    for_real(work.precision(), [&](auto real) {
        using Real = typename LinkReal<decltype(real)::value>::Real;
        found = work.sums<Real>([&](const Chunks &chunks, int slices, const unsigned char *fields,
                                    const Complex<double> *factors, Complex<double> *to) {
            launch(device, work.items * chunks.count * slices,
                   TieChunks<Real>{fields, on_device.data(), factors, to, chunks, work.items}, "tie-ups");
        });
    });
    std::vector<Complex<double>> sums(found.size());
    const int slices = work.slices();
    for (size_t i = 0; i < order.size(); ++i)
        std::copy_n(found.begin() + i * slices, slices, sums.begin() + order[i] * slices);
    return sums;
}

std::vector<size_t> tie_up_arrays(const Geometry &box, bool is_cut, Precision precision, int quarks, int items) {
    constexpr size_t number = sizeof(Complex<double>);
    const Sizes size{box, is_cut, quarks, items, precision};
    const auto &n = box.lattice().extent;
    const int together = size.together(size.parts()), of_slice = (n[0] + 1) / 2 * ((n[1] + 1) / 2) * ((n[2] + 1) / 2);
    std::vector<size_t> arrays = {items * sizeof(Places), size.bytes_of_fields(of_slice, together),
                                  size.partial_sums(of_slice, together) * number, size.sums() * number,
                                  of_slice * number};
    if (is_cut) {
        Geometry::Extents wide;
        for (int mu = 0; mu < 4; ++mu)
            wide[mu] = n[mu] + (box.cut(mu) ? 2 : 0);
        arrays.push_back(2 * box.most_sites() * sizeof(int)); // of the WideBox
        arrays.insert(arrays.end(), 3 * 2, SpinorField::bytes_of(precision, Geometry(wide), 1));
    }
    return arrays;
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
