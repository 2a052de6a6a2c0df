// One thread a link. Bytes a link: 144 (72 single) read and written by the reorder; packing reads that, writes and
// re-reads the packed form. Runs once when links change.
#include "gpu_kernels/fields/for_real.h"
#include "gpu_kernels/fields/reconstruct.h"
#include "gpu_kernels/fields/settle.h"
#include "gpu_kernels/machine/backend/device.h"
#include "gpu_kernels/machine/backend/reduce.h"
#include "gpu_kernels/machine/comm/ranks.h"
#include "gpu_kernels/machine/content_hash.h"
#include "gpu_kernels/machine/geometry/places.h"
#include "reorder/link_reorder.h"

namespace milcgpu {

namespace {

// Link j = 4 i + mu of one parity.
struct LinkArray {
    unsigned char *data; // block (parity, 0)
    size_t stride, block_bytes;
    uint32_t piece; // of the start of the block
    KeptSum sum;
    template <Precision p, int reals> MILCGPU_HD RawLink<p, reals> load(int j) const {
        return load_link<p, reals>(data + (j % 4) * block_bytes, stride, j / 4);
    }
    template <Precision p, int reals> MILCGPU_HD void store(int j, const RawLink<p, reals> &raw) const {
        store_link<p, reals>(data + (j % 4) * block_bytes, stride, j / 4, raw);
        sum.add(j / 4, sum.weight<RawLink<p, reals>::bytes>(raw.w, piece_of(j), stride, j / 4));
    }
    MILCGPU_HD uint32_t piece_of(int j) const { return piece + static_cast<uint32_t>(j % 4 * (block_bytes / 16)); }
};

// The checksums of a copy, on both sides: of the host's records as stored in the raw copy (weigh_row), and of the
// links.
struct Seen {
    uint64_t raw, links;
};
template <int bytes> MILCGPU_HD uint64_t weigh_record(const uint32_t *words, size_t record) {
    uint64_t sum = 0;
    MILCGPU_UNROLL
    for (int k = 0; k < bytes / 8; ++k)
        sum += weigh<2>(words + 2 * k, static_cast<uint32_t>(record * (bytes / 8) + k));
    return sum;
}

LinkArray array_of(const LinkField &field, int parity) {
    return {field.block(parity, 0), field.stride(), field.block_bytes(),
            static_cast<uint32_t>((field.block(parity, 0) - field.block(0, 0)) / 16), field.kept()};
}

template <Precision p> MILCGPU_HD Matrix<double> full_link(const LinkArray &links, int j) {
    return convert<double>(Link<p, 18>(links.load<p, 18>(j)).u);
}

template <Precision p, int reals> struct CopyIn {
    const typename LinkReal<p>::Real *raw;
    const int *map;
    size_t first; // first record of the parity, if there is no map
    LinkArray to;
    Seen *seen;
    MILCGPU_HD void operator()(int j) const {
        const size_t site = map != nullptr ? map[j / 4] : j / 4, record = first + site * 4 + j % 4;
        RawLink<p, reals> link;
        memcpy(link.w, raw + record * reals, sizeof link.w);
        to.store<p, reals>(j, link);
        atomic_add(&seen->raw, weigh_record<link.bytes>(link.w, record));
    }
};

template <Precision p, int reals, class HostReal> struct CopyOut {
    HostReal *raw;
    const int *map;
    size_t first;
    LinkArray from;
    Seen *seen;
    MILCGPU_HD void operator()(int j) const {
        constexpr Precision host = sizeof(HostReal) == 8 ? Precision::double_ : Precision::single;
        const size_t site = map != nullptr ? map[j / 4] : j / 4, record = first + site * 4 + j % 4;
        const RawLink<p, reals> link = from.load<p, reals>(j);
        RawLink<host, reals> made;
        if constexpr (host == p)
            made = link;
        else
            for (int k = 0; k < reals; ++k)
                made.set(k, link.get(k));
        settle(made);
        for (int k = 0; k < reals; ++k)
            raw[record * reals + k] = made.get(k); // in words of a real: bytes take six times as long on a GPU
        atomic_add(&seen->raw, weigh_record<made.bytes>(made.w, record));
        atomic_add(&seen->links, weigh_element<link.bytes>(link.w, from.piece_of(j), from.stride, j / 4));
    }
};

template <Precision p> struct ClearPadding {
    LinkArray to;
    int first; // link
    MILCGPU_HD void operator()(int j) const { to.store<p, 18>(first + j, {}); }
};

struct StatisticsTotals {
    double norm, signs[3];
    uint64_t content;
    uint32_t largest_bits, good_before_bad; // ~index of the first bad link, so that the maximum is the first one
};

// Links of one parity and their signs.
struct SignsOf {
    Lattice lattice;
    Phases phases;
    int parity;
    // Adds what LinkSigns counts for a link: against 0, against 1, turned.
    MILCGPU_HD void count(int j, const Matrix<double> &u, double *against_and_turned) const {
        const int mu = j % 4, phase = phases.sign(lattice.site(parity, j / 4), mu);
        const double det = mu == 3 && phase > 0 ? 1 : determinant(u).re; // a 0 is against all
        against_and_turned[0] = mu < 3 && !(phase * det > 0) ? 1 : 0;
        against_and_turned[1] = mu < 3 && !(det > 0) ? 1 : 0;
        against_and_turned[2] = mu == 3 && det < 0 ? 1 : 0;
    }
};

// with_signs: sums are the norm and the counts of SignsOf; otherwise only the norm.
template <Precision p, bool with_signs> struct Look {
    LinkArray links;
    StatisticsTotals *totals;
    uint32_t first; // index of link 0 of this parity
    uint64_t seed;
    SignsOf signs;
    MILCGPU_HD Sums<with_signs ? 4 : 1> operator()(int j) const {
        const RawLink<p, 18> raw = links.load<p, 18>(j);
        // Seeded by the place, so that equal links in different places hash differently.
        uint64_t hash = scrambled(seed + first + j);
        constexpr int words = raw.bytes / 8;
        const auto word = [&](int k) { return k < words ? raw.w[2 * k] | uint64_t{raw.w[2 * k + 1]} << 32 : 0; };
        MILCGPU_UNROLL
        for (int k = 0; k < words; k += 2)
            hash = hash_with(hash, word(k), word(k + 1));
        atomic_add(&totals->content, hash);
        const Matrix<double> u = convert<double>(Link<p, 18>(raw).u);
        double sum = 0, largest = 0;
        for (int k = 0; k < 9; ++k) {
            const Complex<double> e = u.e[k / 3][k % 3];
            sum += norm(e);
            largest = fmax(largest, fmax(fabs(e.re), fabs(e.im)));
        }
        if (sum < INFINITY) {
            const float rounded_up = static_cast<float>(largest) * (1 + 1e-7f);
            atomic_max(&totals->largest_bits, bit_cast<uint32_t>(rounded_up));
        } else {
            atomic_max(&totals->good_before_bad, ~(first + static_cast<uint32_t>(j)));
            sum = 0;
        }
        if constexpr (with_signs) {
            Sums<4> sums;
            sums.v[0] = sum;
            signs.count(j, u, sums.v + 1);
            return sums;
        } else {
            return {{sum}};
        }
    }
};

struct AddUp : Finish {
    StatisticsTotals *totals;
    template <int N> MILCGPU_HD void operator()(const Sums<N> &sum) const {
        totals->norm += sum.v[0];
        for (int k = 1; k < N; ++k)
            totals->signs[k - 1] += sum.v[k];
    }
};

template <Precision p> struct FirstAgainst {
    LinkArray links;
    SignsOf signs;
    int which; // 0: against phases_in, 1: against phases_out
    uint32_t first, *good_before;
    MILCGPU_HD void operator()(int j) const {
        double against_and_turned[3];
        signs.count(j, full_link<p>(links, j), against_and_turned);
        if (against_and_turned[which] != 0)
            atomic_max(good_before, ~(first + static_cast<uint32_t>(j)));
    }
};

template <Precision from_p, Precision p, int reals> struct PackLink {
    LinkArray from, to;
    double inverse_scale;
    uint32_t *worst_bits;
    MILCGPU_HD void operator()(int j) const {
        Matrix<double> v = full_link<from_p>(from, j);
        for (int k = 0; k < 9; ++k)
            v.e[k / 3][k % 3] = inverse_scale * v.e[k / 3][k % 3];
        RawLink<p, reals> raw = pack_link<p, reals>(v);
        settle(raw);
        to.store<p, reals>(j, raw);
        const Matrix<double> back = convert<double>(Link<p, reals>(raw).matrix());
        double worst = 0;
        for (int k = 0; k < 9; ++k) {
            const Complex<double> d = back.e[k / 3][k % 3] - v.e[k / 3][k % 3];
            const double error = fmax(fabs(d.re), fabs(d.im));
            worst = norm(d) < 1.0 ? fmax(worst, error) : 1.0; // also for NaN: a link that is far from unitary
        }
        atomic_max(worst_bits, bit_cast<uint32_t>(static_cast<float>(worst)));
    }
};

struct PackCall {
    Device &device;
    const LinkField &from, &to;
    int sites[2];
    double inverse_scale;
    uint32_t *worst_bits;

    template <Precision from_p, Precision p, int reals> void run() const {
        for (int parity = 0; parity < 2; ++parity)
            launch(device, 4 * sites[parity],
                   PackLink<from_p, p, reals>{array_of(from, parity), array_of(to, parity), inverse_scale, worst_bits},
                   "pack links");
    }
    template <Precision from_p, Precision p> void for_reals(int reals) const {
        reals == 18   ? run<from_p, p, 18>()
        : reals == 13 ? run<from_p, p, 13>()
        : reals == 12 ? run<from_p, p, 12>()
        : reals == 9  ? run<from_p, p, 9>()
                      : run<from_p, p, 8>();
    }
    template <Precision from_p> void for_precision(Precision p, int reals) const {
        p == Precision::double_  ? for_reals<from_p, Precision::double_>(reals)
        : p == Precision::single ? for_reals<from_p, Precision::single>(reals)
                                 : for_reals<from_p, Precision::half>(reals);
    }
};

// Calls launch_one(integral constant of the reals, places of the parity's sites, records to skip in the raw copy,
// links, parity).
template <class LaunchOne>
void permute(int reals, const SiteMap &map, const Geometry &geometry, const LaunchOne &launch_one) {
    for (int parity = 0; parity < 2; ++parity) {
        const size_t first = parity == 0 ? 0 : geometry.sites(0), skip = map.data() != nullptr ? 0 : first * 4;
        const int *const places = map.data() != nullptr ? map.data() + first : nullptr;
        if (reals == 18)
            launch_one(std::integral_constant<int, 18>(), places, skip, 4 * geometry.sites(parity), parity);
        else if (reals == 10)
            launch_one(std::integral_constant<int, 10>(), places, skip, 4 * geometry.sites(parity), parity);
        else
            throw Error(Status::bad_argument,
                        format("reorder: links of %d reals: must be 18 (matrices) or 10 (momenta)", reals));
    }
}

} // namespace

DeviceArray<unsigned char> scratch_for_links(Device &device, Precision host_real, int sites, int reals) {
    const size_t records = static_cast<size_t>(sites) * 4 * reals * real_bytes(host_real);
    return {device, records + sizeof(Seen), "raw copy of host links"};
}

static Seen *seen_behind(const DeviceArray<unsigned char> &scratch) {
    Seen *const seen = reinterpret_cast<Seen *>(scratch.data() + scratch.bytes() - sizeof(Seen));
    scratch.device().fill_zero(seen, sizeof *seen);
    return seen;
}
static Seen read(Device &device, const Seen *seen) {
    Seen host;
    device.copy_to_host(&host, seen, sizeof host);
    return host;
}

void links_to_device(Device &device, const HostField &host, const SiteMap &map, const Geometry &geometry,
                     const LinkField &to) {
    const int sites = geometry.volume();
    const DeviceArray<unsigned char> raw = scratch_for_links(device, host.real, sites, to.reals());
    Seen *const seen = seen_behind(raw);
    uint64_t sent;
    device.copy_rows_to_device(raw.data(), host.data, host.pitch_bytes, 4 * to.reals() * real_bytes(host.real), sites,
                               &sent);
    permute(to.reals(), map, geometry, [&](auto reals, const int *places, size_t skip, int links, int parity) {
        for_real(host.real, [&](auto p) {
            using Real = typename LinkReal<decltype(p)::value>::Real;
            launch(device, links,
                   CopyIn<decltype(p)::value, decltype(reals)::value>{reinterpret_cast<const Real *>(raw.data()),
                                                                      places, skip, array_of(to, parity), seen},
                   "reorder links");
        });
    });
    if (read(device, seen).raw != sent)
        throw Error(Status::corrupted, "links or momenta changed on their way to the device: a bit flipped, or "
                                       "other code wrote there. Load them again");
}

void links_to_host(Device &device, const LinkField &from, const SiteMap &map, const Geometry &geometry,
                   const HostField &host, const DeviceArray<unsigned char> &scratch) {
    Seen *seen;
    const auto to_raw = [&](auto reals, const int *places, size_t skip, int links, int parity) {
        for_real(from.precision(), [&](auto p) {
            const auto launch_for = [&](auto *raw) {
                using HostReal = std::remove_pointer_t<decltype(raw)>;
                launch(device, links,
                       CopyOut<decltype(p)::value, decltype(reals)::value, HostReal>{raw, places, skip,
                                                                                     array_of(from, parity), seen},
                       "reorder links");
            };
            if (host.real == Precision::double_)
                launch_for(reinterpret_cast<double *>(scratch.data()));
            else
                launch_for(reinterpret_cast<float *>(scratch.data()));
        });
    };
    const auto changed = [](const char *where) {
        throw Error(
            Status::corrupted,
            format("links or momenta changed %s: a bit flipped, or other code wrote there. Compute or load them again",
                   where));
    };
    constexpr int tries = 3;
    for (int k = 0; k < tries; ++k) {
        seen = seen_behind(scratch);
        permute(from.reals(), map, geometry, to_raw);
        const Seen sent = read(device, seen);
        if (from.keeps_sum() && from.sum_of_content() != sent.links)
            changed("on the device");
        uint64_t arrived;
        device.copy_rows_to_host(host.data, scratch.data(), host.pitch_bytes, 4 * from.reals() * real_bytes(host.real),
                                 geometry.volume(), &arrived);
        if (arrived == sent.raw)
            return;
    }
    changed("on their way to the host, in every attempt");
}

void links_to_host(Device &device, const LinkField &from, const SiteMap &map, const Geometry &geometry,
                   const HostField &host) {
    links_to_host(device, from, map, geometry, host,
                  scratch_for_links(device, host.real, geometry.volume(), from.reals()));
}

void clear_padding(Device &device, LinkField &links, const Geometry &geometry) {
    for_real(links.precision(), [&](auto p) {
        for (int parity = 0; parity < 2; ++parity) {
            const int first = 4 * geometry.sites(parity);
            launch(device, 4 * static_cast<int>(links.stride()) - first,
                   ClearPadding<decltype(p)::value>{array_of(links, parity), first}, "clear padding");
        }
    });
    links.padding_is_zero = true;
}

LinkStatistics link_statistics(Device &device, const LinkField &links, const Geometry &geometry, const Phases *phases) {
    DeviceArray<StatisticsTotals> totals;
    device.collective("memory for statistics of links", [&] { totals = {device, 1, "link statistics"}; });
    device.fill_zero(totals.data(), totals.bytes());
    for (int parity = 0; parity < 2; ++parity) {
        const int count = 4 * geometry.sites(parity);
        const uint32_t first = parity == 0 ? 0 : 4 * static_cast<uint32_t>(geometry.sites(0));
        const AddUp finish{{}, totals.data()};
        const SignsOf signs{geometry.lattice(), phases != nullptr ? *phases : Phases(geometry), parity};
        for_real(links.precision(), [&](auto p) {
            constexpr Precision precision = decltype(p)::value;
            if (phases != nullptr)
                launch_sum<4>(
                    device, count,
                    Look<precision, true>{array_of(links, parity), totals.data(), first, process_seed(), signs}, finish,
                    {"look over links"});
            else
                launch_sum<1>(
                    device, count,
                    Look<precision, false>{array_of(links, parity), totals.data(), first, process_seed(), signs},
                    finish, {"look over links"});
        });
    }
    StatisticsTotals t = totals.to_host()[0]; // sums are those of all ranks already
    if (device.ranks() != nullptr) {
        const std::vector<StatisticsTotals> all = device.ranks()->gathered("the check of links", t);
        t.content = 0;
        for (const StatisticsTotals &other : all) {
            t.largest_bits = std::max(t.largest_bits, other.largest_bits);
            t.content = hash_with(t.content, other.content);
        }
    }
    const double count = 4 * geometry.global_volume();
    const LinkSigns signs{
        0.75 * count, {t.signs[0], t.signs[1]}, geometry.global_volume() / geometry.global_extents()[3], t.signs[2]};
    return {bit_cast<float>(t.largest_bits), std::sqrt(t.norm / (3 * count)),
            t.good_before_bad != 0 ? static_cast<long long>(~t.good_before_bad) : -1, t.content,
            phases != nullptr ? signs : LinkSigns()};
}

LinkStatistics finite_statistics(Device &device, const LinkField &links, const Geometry &geometry, const char *name) {
    const LinkStatistics s = link_statistics(device, links, geometry);
    device.collective("the check of links", [&] {
        if (s.first_bad >= 0)
            throw Error(
                Status::nan_or_inf,
                format("%s: the first element that is NaN, infinite or too large to be squared is in the link of "
                       "%s. Check the gauge field, the path coefficients and eps",
                       name, place_of_link(geometry, s.first_bad).c_str()));
    });
    return s;
}

long long first_against(Device &device, const LinkField &links, const Geometry &geometry, const Phases &phases,
                        Signs signs) {
    const DeviceArray<uint32_t> found(device, 1, "signs of links");
    device.fill_zero(found.data(), found.bytes());
    for_real(links.precision(), [&](auto p) {
        for (int parity = 0; parity < 2; ++parity)
            launch(device, 4 * geometry.sites(parity),
                   FirstAgainst<decltype(p)::value>{array_of(links, parity),
                                                    {geometry.lattice(), phases, parity},
                                                    static_cast<int>(signs),
                                                    parity == 0 ? 0 : 4 * static_cast<uint32_t>(geometry.sites(0)),
                                                    found.data()},
                   "signs of links");
    });
    const uint32_t good_before = found.to_host()[0];
    return good_before != 0 ? static_cast<long long>(~good_before) : -1;
}

namespace {
PackedLinks packed_here(Device &device, const LinkField &from, const LinkStatistics &statistics,
                        const Geometry &geometry, Precision precision, int reals, const char *owner) {
    PackedLinks packed{LinkField(device, precision, reals, geometry, owner), 0};
    packed.field.clear();
    packed.field.keep_sum();
    if (reals < 18)
        packed.field.scale = statistics.mean_norm;
    else if (precision == Precision::half)
        packed.field.scale = statistics.largest * (32768.0 / 32767.0);
    if (packed.field.scale == 0)
        packed.field.scale = 1; // a field of zeros (no Naik term)
    const DeviceArray<uint32_t> worst(device, 1, "link statistics");
    device.fill_zero(worst.data(), worst.bytes());
    const PackCall call{device,      from, packed.field, {geometry.sites(0), geometry.sites(1)}, 1 / packed.field.scale,
                        worst.data()};
    if (from.precision() == Precision::double_)
        call.for_precision<Precision::double_>(precision, reals);
    else
        call.for_precision<Precision::single>(precision, reals);
    packed.worst_error = bit_cast<float>(worst.to_host()[0]);
    return packed;
}
} // namespace

PackedLinks pack_links(Device &device, const LinkField &from, const LinkStatistics &statistics,
                       const Geometry &geometry, Precision precision, int reals, const char *owner) {
    PackedLinks packed;
    device.collective("the packing of links",
                      [&] { packed = packed_here(device, from, statistics, geometry, precision, reals, owner); });
    if (device.ranks() != nullptr)
        for (const double error : device.ranks()->gathered("the packing of links", packed.worst_error))
            packed.worst_error = std::max(packed.worst_error, error);
    return packed;
}

} // namespace milcgpu
