// Index arithmetic, reorder in both directions, storage formats.
#include "gpu_kernels/algebra/blas.h"
#include "gpu_kernels/fields/reconstruct.h"
#include "gpu_kernels/fields/spinor_field.h"
#include "gpu_kernels/machine/backend/device.h"
#include "gpu_kernels/machine/geometry/sites_and_parts.h"
#include "reorder/resident_links.h"
#include "tests/support.h"
#include <algorithm>
#include <numeric>

using namespace milcgpu;
using namespace tests;

TEST_CASE("checkerboard index and neighbours are right, for even and odd extents and both parities of the origin",
          "[layout][smoke]") {
    const std::array<int, 4> shapes[] = {{4, 6, 8, 10}, {2, 2, 2, 2}, {3, 6, 6, 6},  {4, 3, 5, 2}, {3, 3, 3, 3},
                                         {2, 4, 6, 8},  {6, 5, 4, 3}, {16, 2, 4, 6}, {7, 1, 2, 3}};
    for (const auto &n : shapes)
        for (int origin = 0; origin < 2; ++origin) {
            CAPTURE(n[0], n[1], n[2], n[3], origin);
            const Lattice lattice(n, origin);
            const int volume = n[0] * n[1] * n[2] * n[3];
            REQUIRE(lattice.sites(0) + lattice.sites(1) == volume);
            int wrong = 0, counts[2] = {0, 0};
            for (int l = 0; l < volume; ++l) { // walk all sites and count within each parity
                const int x[4] = {l % n[0], l / n[0] % n[1], l / (n[0] * n[1]) % n[2], l / (n[0] * n[1] * n[2])};
                const int parity = (x[0] + x[1] + x[2] + x[3] + origin) % 2;
                const int i = counts[parity]++;
                const Site s = lattice.site(parity, i);
                wrong += s.lexicographic != l || i != l / 2;
                for (int mu = 0; mu < 4; ++mu) {
                    wrong += s.x[mu] != x[mu];
                    for (const int hops : {1, lattice.third_hop[mu]}) {
                        if (hops == 0 || hops >= n[mu])
                            continue;
                        for (const int sign : {1, -1}) {
                            int y[4] = {x[0], x[1], x[2], x[3]};
                            y[mu] = (y[mu] + sign * hops + n[mu]) % n[mu];
                            const int there = y[0] + n[0] * (y[1] + n[1] * (y[2] + n[2] * y[3]));
                            const int found = sign > 0 ? lattice.forward(s, mu, hops) : lattice.backward(s, mu, hops);
                            wrong += found != there / 2;
                        }
                    }
                }
            }
            CHECK(wrong == 0);
            CHECK(counts[0] == lattice.sites(0));
        }
}

namespace {

// Writes, then reads every element of an array that has no byte to spare.
template <int bytes, int word> void check_elements() {
    for (const size_t stride : {1, 64, 192}) {
        std::vector<unsigned char> array(stride * bytes, 0xEE);
        const auto element = [](size_t i) {
            std::array<unsigned char, (bytes + 3) / 4 * 4> e{};
            for (int k = 0; k < bytes; ++k)
                e[k] = static_cast<unsigned char>(1 + (31 * i + 7 * k) % 200);
            return e;
        };
        for (size_t i = 0; i < stride; ++i) {
            uint32_t w[(bytes + 3) / 4];
            memcpy(w, element(i).data(), sizeof w);
            store_element<bytes, word>(array.data(), stride, i, w);
        }
        int wrong = 0;
        for (size_t i = 0; i < stride; ++i) {
            uint32_t w[(bytes + 3) / 4];
            load_element<bytes, word, Reuse::keep>(array.data(), stride, i, w);
            wrong += memcmp(w, element(i).data(), sizeof w) != 0;
        }
        CAPTURE(bytes, word, stride);
        CHECK(wrong == 0);
        CHECK(std::count(array.begin(), array.end(), 0xEE) == 0); // no gap
    }
}

template <int... reals> void check_links() {
    (check_elements<8 * reals, 16>(), ...);
    (check_elements<4 * reals, 16>(), ...);
    (check_elements<2 * reals, 16>(), ...);
}

} // namespace

TEST_CASE("elements of every size fill an array without gap or overlap", "[layout][smoke][sanitize]") {
    check_elements<48, 16>();
    check_elements<24, 8>();
    check_elements<16, 16>();
    check_links<18, 13, 12, 9, 8>();
}

TEST_CASE("copies larger than the pinned buffers keep every byte in place, for rows apart or not",
          "[layout][sanitize]") {
    const size_t rows = 300000, width = 72; // 21.6 MB packed; there are 6 buffers of 4 MiB
    for (const Backend backend : backends())
        for (const size_t pitch : {width, 2 * width + 8}) {
            CAPTURE(name(backend), pitch);
            Device device(backend, 0);
            std::vector<unsigned char> from(rows * pitch), to(rows * pitch, 0xEE);
            reference::Rng rng(11);
            for (auto &byte : from)
                byte = static_cast<unsigned char>(rng());
            const DeviceArray<unsigned char> array(device, rows * width, "test");
            device.copy_rows_to_device(array.data(), from.data(), pitch, width, rows);
            device.copy_rows_to_host(to.data(), array.data(), pitch, width, rows);
            size_t wrong = 0;
            for (size_t k = 0; k < to.size(); ++k)
                wrong += to[k] != (k % pitch < width ? from[k] : 0xEE);
            CHECK(wrong == 0);
            CHECK(device.transfers().to_device_bytes == rows * width);
            CHECK(device.transfers().to_host_bytes == rows * width);
        }
}

TEST_CASE("copies to the host in a row keep every byte in place, also with copies to the device in between",
          "[layout][sanitize]") {
    const size_t sizes[] = {9 << 20, 100, 5 << 20, 1 << 18, 12 << 20}; // some are small enough to bypass the buffers
    for (const Backend backend : backends()) {
        Device device(backend, 0);
        std::vector<std::vector<unsigned char>> from, to;
        std::vector<DeviceArray<unsigned char>> arrays;
        reference::Rng rng(12);
        for (const size_t size : sizes) {
            from.emplace_back(size), to.emplace_back(size, 0xEE);
            for (auto &byte : from.back())
                byte = static_cast<unsigned char>(rng());
            arrays.emplace_back(device, size, "test");
            device.copy_to_device(arrays.back().data(), from.back().data(), size);
        }
        const auto write = [&](int k) {
            device.copy_rows_to_host(to[k].data(), arrays[k].data(), 50, 50, to[k].size() / 50);
        };
        CAPTURE(name(backend));
        device.in_a_row([&] {
            write(0), write(1), write(2);
            // The source of a copy to the host may be overwritten before the copy ends, as by the next solution.
            device.copy_to_device(arrays[2].data(), from[4].data(), to[2].size());
            write(3), write(4);
        });
        for (int k = 0; k < 5; ++k)
            CHECK(std::equal(to[k].begin(), to[k].begin() + to[k].size() / 50 * 50, from[k].begin()));
        // A failure does not affect the copies after it.
        CHECK_THROWS_AS(device.in_a_row([&] {
            write(0);
            throw Error(Status::not_converged, "a test");
        }),
                        Error);
        std::fill(to[4].begin(), to[4].end(), 0);
        write(4);
        CHECK(std::equal(to[4].begin(), to[4].begin() + to[4].size() / 50 * 50, from[4].begin()));
    }
}

TEST_CASE("a box of a larger lattice has the sites, ghosts and phases of the whole", "[layout][smoke]") {
    const std::array<int, 4> whole{6, 4, 6, 8};
    for (const std::array<int, 4> &local : {std::array<int, 4>{3, 2, 6, 4}, {3, 1, 3, 1}, {6, 4, 6, 8}, {1, 1, 1, 1}})
        for (const std::array<int, 4> &block : {std::array<int, 4>{0, 0, 0, 0}, {1, 1, 1, 1}}) {
            std::array<int, 4> origin;
            for (int mu = 0; mu < 4; ++mu)
                origin[mu] = local[mu] * block[mu] % whole[mu];
            const Geometry box(local, origin, whole, 1);
            const Phases phases(box);
            CHECK(box.global_volume() == 6 * 4 * 6 * 8);
            int sites = 0;
            size_t wrong = 0;
            for (int parity = 0; parity < 2; ++parity)
                for (int i = 0; i < box.sites(parity); ++i, ++sites) {
                    const Site s = box.lattice().site(parity, i);
                    int x[4], sum = 0;
                    for (int mu = 0; mu < 4; ++mu) {
                        x[mu] = s.x[mu] + origin[mu];
                        sum += x[mu];
                        wrong += s.x[mu] < 0 || s.x[mu] >= local[mu];
                    }
                    wrong += sum % 2 != parity || s.index() != i;
                    const int signs[] = {x[3] % 2, (x[3] + x[0]) % 2, (x[3] + x[0] + x[1]) % 2, x[3] == whole[3] - 1};
                    for (int mu = 0; mu < 4; ++mu)
                        wrong += phases.sign(s, mu) != (signs[mu] ? -1 : 1);
                }
            CHECK(sites == box.volume());
            CHECK(wrong == 0);
            // The nearest layer of the neighbours in each cut direction, half of its sites rounded up.
            size_t ghosts = 0;
            for (int mu = 0; mu < 4; ++mu)
                if (local[mu] != whole[mu])
                    ghosts += 2 * ((box.volume() / local[mu] + 1) / 2);
            CHECK(box.ghost_sites() == ghosts);
            CHECK(box.stride() >= box.most_sites() + ghosts);
            CHECK(box.stride() % 64 == 0);
        }
}

TEST_CASE("spinors survive the way to the device and back, in any layout of the host", "[layout][smoke][sanitize]") {
    const Geometry geometry({3, 6, 6, 6});
    const int sites = geometry.volume(), even = geometry.sites(0);
    reference::Rng rng(7);
    std::vector<int> shuffled(sites);
    std::iota(shuffled.begin(), shuffled.end(), 0);
    for (int k = sites - 1; k > 0; --k)
        std::swap(shuffled[k], shuffled[rng() % (k + 1)]);
    for (const Backend backend : backends())
        for (const Precision host : {Precision::double_, Precision::single})
            for (const Precision precision : {Precision::double_, Precision::single, Precision::half})
                for (const bool mapped : {false, true})
                    for (const int gap : {0, 5}) { // reals between records, as in a site structure
                        CAPTURE(name(backend), name(host), name(precision), mapped, gap);
                        Device device(backend, 0);
                        const SiteMap map(device, mapped ? shuffled.data() : nullptr, sites);
                        SpinorReorder reorder(device, map, geometry);
                        const size_t record = 6 + gap;
                        std::vector<double> values(sites * record);
                        for (auto &v : values)
                            v = host == Precision::single ? static_cast<float>(reference::uniform(rng) - 0.5)
                                                          : reference::uniform(rng) - 0.5;
                        std::vector<float> floats(values.begin(), values.end());
                        void *data = host == Precision::double_ ? static_cast<void *>(values.data()) : floats.data();
                        const HostField field{data, host, record * real_bytes(host)};
                        const SpinorField on_device(device, precision, geometry, 1, "test");
                        reorder.to_device(field, 1, on_device);
                        std::vector<double> before(values);
                        // Overwrite odd records, then read them back; even records and gaps must not change.
                        const auto place = [&](int k) { return static_cast<size_t>(mapped ? shuffled[k] : k); };
                        for (int k = even; k < sites; ++k)
                            for (int c = 0; c < 6; ++c)
                                values[place(k) * record + c] = floats[place(k) * record + c] = -77;
                        reorder.to_host(on_device, 1, field);
                        double worst = 0;
                        int changed = 0;
                        for (int k = 0; k < sites; ++k)
                            for (size_t c = 0; c < record; ++c) {
                                const size_t at = place(k) * record + c;
                                const double now = host == Precision::double_ ? values[at] : floats[at];
                                if (k >= even && c < 6)
                                    worst = worse(worst, std::fabs(now - before[at]));
                                else
                                    changed += now != before[at];
                            }
                        CHECK(changed == 0);
                        CHECK(worst <= (precision == Precision::half                                  ? 1e-6
                                        : precision == Precision::single || host == Precision::single ? 3e-8
                                                                                                      : 0));
                    }
}

TEST_CASE("half spinors hold zeros, denormals, huge and tiny numbers, NaN and infinity", "[su3][smoke]") {
    const auto through = [](Vector<float> x) {
        uint32_t w[4];
        SpinorHalf::encode(x, w);
        return SpinorHalf::decode(w);
    };
    const Vector<float> zero = through({});
    CHECK(norm(zero) == 0);
    for (const float size : {1.0f, 1.9999999f, 2.0f, 1e-30f, 3e-38f, 1e30f, 5e36f, 0.75f}) {
        const Vector<float> x = {{{size, -size / 3}, {size / 1000, 0}, {-size, size / 7}}};
        const Vector<float> y = through(x);
        const float tolerance = std::fmax(size * 2.0e-6f, 1.2e-38f);
        CAPTURE(size);
        for (int k = 0; k < 3; ++k) {
            CHECK(std::fabs(x.c[k].re - y.c[k].re) <= tolerance);
            CHECK(std::fabs(x.c[k].im - y.c[k].im) <= tolerance);
        }
    }
    // Beyond the range of the format: NaN, not a wrong number.
    CHECK(std::isnan(norm(through({{{1e38f, 0}, {0, 0}, {0, 0}}}))));
    const Vector<float> denormal = through({{{1e-40f, 0}, {0, 0}, {0, -1e-42f}}});
    CHECK(std::fabs(denormal.c[0].re) <= 1.2e-38f);
    for (const float bad : {NAN, INFINITY, -INFINITY})
        for (int k = 0; k < 6; ++k) {
            Vector<float> x = {{{1, 2}, {3, 4}, {5, 6}}};
            (k % 2 == 0 ? x.c[k / 2].re : x.c[k / 2].im) = bad;
            CHECK(std::isnan(norm(through(x))));
        }
}

namespace {

template <Precision p, int reals> double round_trip_error(const reference::Matrix &v) {
    Matrix<double> m;
    for (int k = 0; k < 9; ++k)
        m.e[k / 3][k % 3] = {v.e[k / 3][k % 3].real(), v.e[k / 3][k % 3].imag()};
    const Matrix<double> back = convert<double>(Link<p, reals>(pack_link<p, reals>(m)).matrix());
    double worst = 0;
    for (int k = 0; k < 9; ++k) {
        const Complex<double> d = back.e[k / 3][k % 3] - m.e[k / 3][k % 3];
        worst = worse(worst, worse(std::fabs(d.re), std::fabs(d.im)));
    }
    return worst;
}

// The largest error of a matrix element after 12, 8, 13 and 9 reals.
struct RoundTrips {
    double worst[4] = {0, 0, 0, 0};
    template <Precision p> void run(const reference::Matrix &s, const reference::Matrix &u) {
        worst[0] = worse(worst[0], round_trip_error<p, 12>(s));
        worst[1] = worse(worst[1], round_trip_error<p, 8>(s));
        worst[2] = worse(worst[2], worse(round_trip_error<p, 13>(s), round_trip_error<p, 13>(u)));
        worst[3] = worse(worst[3], worse(round_trip_error<p, 9>(s), round_trip_error<p, 9>(u)));
    }
};

} // namespace

TEST_CASE("reconstruction holds every +-SU(3) and U(3) matrix: random, unit, diagonal, permutation, nearly so",
          "[su3][smoke]") {
    reference::Rng rng(11);
    RoundTrips in[3]; // one for each precision
    for (int trial = 0; trial < 30000; ++trial) {
        reference::Matrix s = reference::random_su3(rng);
        const double angle = 2 * M_PI * reference::uniform(rng);
        if (trial % 5 == 1) // diagonal phases, exactly or nearly
            s = reference::reunitarize(reference::identity() +
                                       (trial % 2 ? 0.0 : 1e-7) * reference::random_matrix(rng));
        if (trial % 5 == 2) { // a permutation times a diagonal
            s = {};
            for (int k = 0; k < 3; ++k)
                s.e[k][(k + trial) % 3] = std::polar(1.0, k == 0 ? angle : k == 1 ? -angle : 0.0);
        }
        const double sign = trial % 2 ? -1 : 1;
        const reference::Matrix u = std::polar(1.0, trial % 7 == 0 ? M_PI : angle) * s;
        s = sign * s;
        in[0].run<Precision::double_>(s, u);
        in[1].run<Precision::single>(s, u);
        in[2].run<Precision::half>(s, u);
    }
    constexpr double measured[3][4] = {
        {2.3e-16, 3.5e-15, 1.6e-15, 3.4e-15}, {1.7e-7, 1.5e-6, 7.5e-7, 1.5e-6}, {9.2e-5, 1.3e-4, 9.5e-5, 1.6e-4}};
    for (int p = 0; p < 3; ++p)
        for (int k = 0; k < 4; ++k) {
            CAPTURE(name(static_cast<Precision>(p)), k);
            CHECK(in[p].worst[k] <= times_measured * measured[p][k]);
            CHECK(in[p].worst[k] < accepted_error(static_cast<Precision>(p)));
        }
}

TEST_CASE("links load, count their statistics, fall back to 18 reals, and name the site of a NaN", "[links][smoke]") {
    const reference::Lattice lattice{{4, 6, 2, 4}};
    for (const Backend backend : backends()) {
        CAPTURE(name(backend));
        Device device(backend, 0);
        const SiteMap map;
        std::vector<std::string> said;
        ResidentLinks links(device, map, Geometry(lattice.n), Precision::double_, 0, nullptr,
                            [&](const std::string &line) { said.push_back(line); });
        auto fat = reference::links_to_milc<double>(lattice, random_links(lattice, 1));
        auto lng = reference::links_to_milc<double>(lattice, unitary_links(lattice, 2, 0.13, true));
        const HostField f{fat.data(), Precision::double_, 576}, l{lng.data(), Precision::double_, 576};
        CHECK(links.update(f, l));
        CHECK(links.generation() == 1);
        const LinkField *const packed = links.version(Precision::single, 18).fat;
        CHECK_FALSE(links.update(f, l)); // the content is the same, so nothing is packed
        CHECK(links.generation() == 1);
        CHECK(links.version(Precision::single, 18).fat == packed);
        CHECK(std::fabs(links.long_scale() - 0.13) < 1e-16);
        CHECK(links.version(Precision::single, 13).lng->reals() == 13);
        CHECK(links.version(Precision::single, 12).lng->reals() == 18); // U(3) does not fit 12 reals
        CHECK(links.version(Precision::single, 12).lng->reals() == 18);
        REQUIRE(said.size() == 1); // once
        CHECK(said[0].find("long links: 12 reals") == 0);
        const uint64_t tag = links.tag();
        // If one link is slightly off the group, 13 reals no longer hold it.
        lng[18 * 5 + 3] += 1e-3;
        CHECK(links.update(f, l));
        CHECK(links.generation() == 2);
        CHECK(links.tag() != tag);
        CHECK(links.version(Precision::single, 13).lng->reals() == 18);
        for (const double bad : {double(NAN), double(INFINITY)}) {
            auto broken = fat;
            broken[18 * (4 * 37 + 2) + 11] = bad;
            const HostField b{broken.data(), Precision::double_, 576};
            const std::string refusal = refusal_by(Status::nan_or_inf, [&] { links.update(b, l); });
            for (const char *part : {"fat links: ", "x y z t = 2 0 1 1, direction Z"})
                CHECK(has(refusal, part));
            CHECK(links.empty());
        }
        CHECK(links.update(f, l));
    }
}

TEST_CASE("sums over many groups of tiles are right, with the same bits for any number of threads",
          "[blas][determinism][smoke]") {
    for (const int sites : {1, 63, 64, 65, 16384, 16385, 50001, 600000}) {
        reference::Rng rng(sites);
        std::vector<double> values(6 * static_cast<size_t>(sites));
        long double expected = 0;
        for (auto &v : values) {
            v = reference::uniform(rng) - 0.5;
            expected += v * v;
        }
        for (const Backend backend : backends()) {
            double first = 0;
            for (int choice = 0; choice < thread_choices(backend); ++choice) {
                const Threads threads(backend, choice);
                Device device(backend, 0);
                device.set_block(threads.block);
                const SiteMap map;
                const Geometry geometry({2 * sites, 1, 1, 1}); // `sites` of each parity
                SpinorReorder reorder(device, map, geometry);
                const SpinorField x(device, Precision::double_, geometry, 0, "test");
                const DeviceArray<double> sum(device, 1, "test");
                reorder.to_device({values.data(), Precision::double_, 48}, 0, x);
                for (int repeat = 0; repeat < 3; ++repeat) {
                    norm_squared(device, x, sum.data());
                    const double got = sum.to_host()[0];
                    if (first == 0)
                        first = got;
                    CAPTURE(name(backend), sites, choice);
                    CHECK(got == first);
                    CHECK(std::fabs(got / static_cast<double>(expected) - 1) <= times_measured * 2.3e-16);
                }
            }
        }
    }
}

TEST_CASE("work on sites and parts gives each part of each site to one thread, on any lattice", "[layout][sanitize]") {
    const std::array<std::array<int, 4>, 10> sizes{{{4, 4, 4, 4},
                                                    {8, 8, 8, 6},
                                                    {16, 16, 4, 8},
                                                    {32, 16, 3, 8}, // two parts of a plane
                                                    {24, 8, 2, 12},
                                                    {8, 8, 12, 12},
                                                    {6, 6, 6, 8},
                                                    {3, 5, 3, 7},
                                                    {2, 2, 2, 2},
                                                    {5, 6, 7, 8}}};
    for (const auto &size : sizes)
        for (const int parts : {1, 3, 4, 6}) {
            const Geometry geometry(size);
            const SitesAndParts work(geometry, parts);
            std::vector<int> threads(size_t(2) * parts * geometry.most_sites());
            int outside = 0;
            for (int thread = 0; thread < work.threads(); ++thread) {
                const SitesAndParts::Item item = work.item(thread);
                if (!item.valid)
                    continue;
                outside += item.i >= geometry.sites(item.parity);
                ++threads[(size_t(item.parity) * parts + item.part) * geometry.most_sites() + item.i];
            }
            CHECK(outside == 0);
            const auto once = std::count(threads.begin(), threads.end(), 1);
            CHECK(once == std::count_if(threads.begin(), threads.end(), [](int n) { return n > 0; }));
            CHECK(once == geometry.volume() * parts);
        }
}
