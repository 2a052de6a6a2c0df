// Rows of the dslash table that take several sites at once, against the rows that take one: the same bits. Solves with
// these rows. Products of matrices, which keep rows in registers.
#include "gpu_kernels/fields/lane_links.h"
#include "gpu_kernels/fields/spinor_field.h"
#include "gpu_kernels/fields/spinor_lanes.h"
#include "gpu_kernels/machine/backend/device.h"
#include "gpu_kernels/staggered/dslash.h"
#include "milc_glue/api/context.h"
#include "milc_glue/links/links_handle.h"
#include "tests/handles.h"
#include "tests/support.h"
#include <algorithm>
#include <climits>
#include <cstring>
#include <random>

using namespace milcgpu;
using namespace tests;

namespace {

struct Bytes {
    std::vector<unsigned char> out, s;
    std::vector<double> sums;
    bool operator==(const Bytes &o) const { return out == o.out && s == o.s && sums == o.sums; }
};

// A copy of a field between bytes that are NaN in any precision and must stay.
class Guarded {
  public:
    Guarded(Device &device, const SpinorField &from) : memory_(device, from.bytes() + 2 * guard, "test"), block(from) {
        std::memset(memory_.data(), 0xff, memory_.bytes());
        block.data = memory_.data() + guard;
        std::memcpy(block.data, from.data(), from.bytes());
    }
    std::vector<unsigned char> bytes() const { return {block.data, block.data + block.bytes()}; }
    bool is_whole() const {
        const auto is_set = [](const unsigned char *from) {
            return std::all_of(from, from + guard, [](unsigned char byte) { return byte == 0xff; });
        };
        return is_set(memory_.data()) && is_set(block.data + block.bytes());
    }

  private:
    static constexpr size_t guard = 256;
    DeviceArray<unsigned char> memory_;

  public:
    SpinorBlock block;
};

// A lattice with random links, ghosts included, and the fields of a call.
struct LanesBench {
    Device device{Backend::host, 0};
    Geometry geometry;
    Precision precision;
    LinkField fat, lng;
    std::mt19937_64 random{7};

    // cuts: directions that are treated as cut, as bits.
    LanesBench(const std::array<int, 4> &n, unsigned cuts, Precision p)
        : geometry(n, {0, 0, 0, 0}, n, 3, cuts), precision(p), fat(device, p, 18, geometry, "test"),
          lng(device, p, 18, geometry, "test") {
        fill(fat.block(0, 0), fat.bytes()), fill(lng.block(0, 0), lng.bytes());
    }
    // Numbers between -1 and 1. (Normally distributed ones took most of the time of these tests.)
    void fill(unsigned char *data, size_t bytes) {
        const auto numbers = [&](auto *to) {
            for (size_t k = 0; k < bytes / sizeof *to; ++k)
                to[k] = static_cast<std::decay_t<decltype(*to)>>(static_cast<int64_t>(random()) * 0x1p-63);
        };
        if (precision == Precision::double_)
            numbers(reinterpret_cast<double *>(data));
        else
            numbers(reinterpret_cast<float *>(data));
    }
    SpinorField field(int parity, int sources = 1) {
        SpinorField x(device, precision, geometry, parity, "test", sources);
        fill(x.data(), x.bytes());
        return x;
    }
    static std::vector<unsigned char> bytes_of(const SpinorField &x) { return {x.data(), x.data() + x.bytes()}; }

    // along_p: a step along a direction beside the residual, not along the residual itself. A step is in place. Several
    // sources: their conjugate gradients, the second of which has ended, or no sums.
    Bytes run(Epilogue epilogue, int parity, bool along_p, const SpinorField &in0, const SpinorField &x0,
              const SpinorField &z0, const LaneLinks *lanes) {
        const Guarded in(device, in0), x(device, x0), z(device, z0), s(device, z0);
        const DeviceArray<double> sum(device, 1, "test");
        const int sources = in0.sources();
        const DeviceArray<CgState> cg(device, sources, "test");
        std::vector<CgState> states(sources);
        for (int k = 0; k < sources; ++k) {
            states[k].start(1, 1);
            states[k].shift = 0.04, states[k].alpha = 0.3 + k, states[k].carry = 0.7;
            states[k].active = k != 1;
        }
        device.copy_to_device(cg.data(), states.data(), cg.bytes());
        DslashCall call{};
        call.lattice = geometry.lattice(), call.parity = parity;
        call.fat = &fat, call.lng = &lng, call.lanes = lanes;
        call.in = in.block, call.out = z.block, call.x = x.block, call.z = z.block, call.s = s.block;
        call.a = 0.37, call.alpha = 0.61;
        call.check_convergence = false;
        if (epilogue == Epilogue::step || (sources > 1 && along_p))
            call.cg = cg.data();
        else if (sources == 1)
            call.sum = sum.data();
        if (epilogue == Epilogue::step && !along_p)
            call.x = z.block;
        dslash(device, call, epilogue);
        CHECK((in.is_whole() && x.is_whole() && z.is_whole() && s.is_whole()));
        Bytes bytes{z.bytes(), s.bytes(), {}};
        for (const CgState &state : cg.to_host())
            bytes.sums.insert(bytes.sums.end(), {state.rr_new, state.cross, state.curvature});
        if (call.sum != nullptr)
            bytes.sums = sum.to_host();
        return bytes;
    }
    // The results of an epilogue without sums, for one source after the other.
    std::vector<unsigned char> each_alone(Epilogue epilogue, int parity, const SpinorField &in, const SpinorField &x,
                                          const SpinorField &z) {
        std::vector<unsigned char> all = bytes_of(z);
        for (int k = 0; k < in.sources(); ++k) {
            const auto source = [&](const SpinorField &of, int on) {
                SpinorField own(device, precision, geometry, on, "test");
                std::memcpy(own.data(), of[k].data, own.bytes());
                return own;
            };
            const Bytes own =
                run(epilogue, parity, false, source(in, 1 - parity), source(x, parity), source(z, parity), nullptr);
            std::copy(own.out.begin(), own.out.end(), all.begin() + (z[k].data - z.data()));
        }
        return all;
    }
};

struct Storage {
    Precision vectors, links;
};
std::vector<Storage> storages_of_lanes() {
    std::vector<Storage> found;
    for (const DslashKernel &row : dslash_table())
        if (row.lanes && row.epilogue == Epilogue::plain && row.most_sources == 1)
            found.push_back({row.spinor, row.link});
    return found;
}

// Packs the links of the bench. If they are packed in half, the fields of the bench become the rounded links, so that
// rows of one site read the same numbers.
LaneLinks packed(LanesBench &bench, Precision precision) {
    LaneLinks lanes(bench.device, bench.geometry, bench.fat, bench.lng, precision);
#if MILCGPU_LANES
    if (precision != Precision::half)
        return lanes;
    const CutLattice &lattice = bench.geometry.lattice();
    LinkField fat(bench.device, bench.precision, 18, bench.geometry, "test"),
        lng(bench.device, bench.precision, 18, bench.geometry, "test");
    std::memset(fat.block(0, 0), 0, fat.bytes()), std::memset(lng.block(0, 0), 0, lng.bytes());
    fat.scale = lanes.fat_scale(), lng.scale = lanes.long_scale();
    int wrong = 0;
    for (const int parity : {0, 1})
        for (int n = 0; n < bench.geometry.sites(parity); ++n)
            for (int k = 0; k < LaneLinks::links; ++k) {
                const int lane = n % 8, i = n - lane + milcgpu::lanes::site_of(lane, float());
                const LaneLinks::Place place = LaneLinks::place(k);
                const int hops = place.is_long ? lattice.third_hop[place.mu] : 1;
                const int at = place.behind ? lattice.backward(lattice.site(parity, i), place.mu, hops) : i;
                const int of = place.behind ? 1 - parity : parity;
                const auto reals = [&](LinkField &field) {
                    return reinterpret_cast<float *>(field.block(of, place.mu)) + 18 * at;
                };
                LinkField &made = place.is_long ? lng : fat;
                float *const to = reals(made);
                const float *const from = reals(place.is_long ? bench.lng : bench.fat);
                for (int e = 0; e < 9; ++e) {
                    int32_t word;
                    std::memcpy(&word, lanes.of(parity) + ((n / 8 * LaneLinks::links + k) * 9 + e) * 32 + 4 * lane, 4);
                    const float parts[2] = {static_cast<float>(word),
                                            static_cast<float>(static_cast<int32_t>(uint32_t(word) << 16))};
                    for (int part = 0; part < 2; ++part) {
                        float &real = to[2 * e + part];
                        wrong += !(std::fabs(made.scale * parts[part] - from[2 * e + part]) <= 0.501 / 32767);
                        wrong += real != 0 && real != parts[part]; // a link is stored twice
                        real = parts[part];
                    }
                }
            }
    CHECK(wrong == 0);
    bench.fat = std::move(fat), bench.lng = std::move(lng);
#endif
    return lanes;
}

// Whether the compiler fuses a product and a sum: not under the sanitizers.
#if defined(__FMA__) && !defined(__SANITIZE_ADDRESS__)
constexpr bool fuses = true;
#else
constexpr bool fuses = false;
#endif
template <class T> T added(T c, T a, T b) {
    const volatile T product = a * b;
    return fuses ? std::fma(a, b, c) : c + product;
}
// sum += a b, by the operations of plus()
template <class T> void add_product(Matrix<T> &sum, const Matrix<T> &a, const Matrix<T> &b) {
    for (int row = 0; row < 3; ++row)
        for (int column = 0; column < 3; ++column)
            for (int k = 0; k < 3; ++k) {
                Complex<T> &c = sum.e[row][column];
                const Complex<T> x = a.e[row][k], y = b.e[k][column];
                c.re = added(added(c.re, x.re, y.re), -x.im, y.im);
                c.im = added(added(c.im, x.re, y.im), x.im, y.re);
            }
}
template <class T> int wrong_products() {
    std::mt19937_64 random{11};
    std::uniform_real_distribution<T> number(-1, 1);
    int wrong = 0;
    for (int turn = 0; turn < 100; ++turn) {
        Matrix<T> m[4];
        for (Matrix<T> &one : m)
            for (auto &row : one.e)
                for (Complex<T> &e : row)
                    e = {number(random), number(random)};
        const auto differs = [&](const auto &product, const Matrix<T> &a, const Matrix<T> &b) {
            Matrix<T> sum = m[0], wanted = m[0];
            product(sum);
            add_product(wanted, a, b);
            return std::memcmp(&sum, &wanted, sizeof sum) != 0;
        };
        Matrix<T> ab = {}, bc = {};
        add_product(ab, m[1], m[2]), add_product(bc, m[2], m[3]);
        wrong += differs([&](Matrix<T> &sum) { multiply_add(sum, m[1], m[2]); }, m[1], m[2]);
        wrong += differs([&](Matrix<T> &sum) { add_staple_up(sum, m[1], m[2], m[3]); }, ab, adjoint(m[3]));
        wrong += differs([&](Matrix<T> &sum) { add_staple_down(sum, m[1], m[2], m[3]); }, adjoint(m[1]), bc);
    }
    return wrong;
}

} // namespace

TEST_CASE("products of matrices have the operations of the loops in su3.h, in their order", "[lanes][sanitize]") {
    if (!MILCGPU_LANES)
        return;
    CHECK(wrong_products<double>() == 0);
    CHECK(wrong_products<float>() == 0);
}

TEST_CASE("D of several sites at once has the bits of D of one site, with any epilogue", "[dslash][lanes][sanitize]") {
    CHECK(storages_of_lanes().size() == (MILCGPU_LANES ? 3 : 0));
    struct Shape {
        std::array<int, 4> n;
        unsigned cuts;
    };
    // A last tile that is not full, rows of many blocks. Then every even nx with all cuts that lanes take: rows of one
    // block, of several, and blocks of several rows; odd extents.
    std::vector<Shape> shapes = {{{128, 2, 1, 2}, 0}, {{16, 4, 4, 6}, 6}, {{40, 4, 4, 2}, 12}};
    std::mt19937 random{11};
    for (int nx = 2; nx <= 34; nx += 2)
        for (unsigned cuts = long_tests() ? 0 : nx % 8; cuts < 16; cuts += long_tests() ? 2 : 8) {
            Shape shape{{nx, 1, 1, 1}, cuts};
            do
                for (int mu = 1; mu < 4; ++mu)
                    shape.n[mu] = cuts >> mu & 1 ? 2 + int(random() % 5) : 1 + int(random() % 5);
            while (nx * shape.n[1] * shape.n[2] * shape.n[3] % 16 != 0);
            shapes.push_back(shape);
        }
    for (const auto &[precision, links_in] : storages_of_lanes())
        for (const Shape &shape : shapes) {
            LanesBench bench(shape.n, shape.cuts, precision);
            REQUIRE(LaneLinks::fit(bench.geometry, links_in));
            const LaneLinks lanes = packed(bench, links_in);
            for (const int parity : {0, 1})
                for (const EpilogueTraits &end : epilogues)
                    for (const int sources : {1, 3})
                        for (const bool along_p : {false, true}) {
                            const SpinorField in = bench.field(1 - parity, sources), x = bench.field(parity, sources),
                                              z = bench.field(parity, sources);
                            const auto run = [&](const LaneLinks *links) {
                                return bench.run(end.epilogue, parity, along_p, in, x, z, links);
                            };
                            if (along_p && end.epilogue != Epilogue::step &&
                                (sources == 1 || end.epilogue != Epilogue::plain))
                                continue;
                            Bytes wanted = run(nullptr);
                            // Several sources without sums: the row of one site adds fat and long links in one sum.
                            if (links_in == Precision::half && sources > 1 && !along_p &&
                                end.epilogue != Epilogue::step)
                                wanted.out = bench.each_alone(end.epilogue, parity, in, x, z);
                            CAPTURE(name(precision), name(links_in), shape.n[0], shape.n[1], shape.n[2], shape.n[3],
                                    shape.cuts, parity, end.name, sources, along_p);
                            CHECK(wanted.out != LanesBench::bytes_of(z));
                            for (int choice = 0; choice < thread_choices(Backend::host); ++choice) {
                                const Threads threads(Backend::host, choice);
                                CHECK(run(&lanes) == wanted);
                            }
                        }
        }
}

TEST_CASE("NaN and infinity at one site reach the neighbours of this site alone if several sites are taken at once",
          "[dslash][lanes]") {
    for (const auto &[precision, links_in] : storages_of_lanes())
        for (const int nx : {2, 4, 6, 8, 10, 16, 20, 34}) {
            LanesBench bench({nx, 4, 8, 8}, 0, precision);
            const LaneLinks lanes = packed(bench, links_in);
            const Geometry &geometry = bench.geometry;
            for (const float planted : {NAN, INFINITY})
                for (const int at : {0, 3, nx / 2 - 1, geometry.sites(1) - 1}) {
                    const SpinorField in = bench.field(1), z = bench.field(0);
                    const size_t site_bytes = spinor_bytes(precision);
                    const size_t real = real_bytes(precision);
                    if (precision == Precision::double_)
                        reinterpret_cast<double *>(in.data() + at * site_bytes)[1] = planted;
                    else
                        reinterpret_cast<float *>(in.data() + at * site_bytes)[1] = planted;
                    const Bytes got = bench.run(Epilogue::plain, 0, false, in, z, z, &lanes),
                                wanted = bench.run(Epilogue::plain, 0, false, in, z, z, nullptr);
                    CHECK(!(got.sums[0] < INFINITY));
                    const auto same = [&](int i) {
                        return std::memcmp(&got.out[i * site_bytes], &wanted.out[i * site_bytes], site_bytes) == 0;
                    };
                    const auto finite = [&](int i) {
                        bool all = true;
                        for (const unsigned char *part = &got.out[i * site_bytes], *end = part + site_bytes; part < end;
                             part += real)
                            all = all && (precision == Precision::double_
                                              ? std::isfinite(*reinterpret_cast<const double *>(part))
                                              : std::isfinite(*reinterpret_cast<const float *>(part)));
                        return all;
                    };
                    const CutLattice &lattice = geometry.lattice();
                    const Site site = lattice.site(1, at);
                    std::vector<bool> near(geometry.sites(0));
                    for (int mu = 0; mu < 4; ++mu)
                        for (const int hops : {1, lattice.third_hop[mu]})
                            near[lattice.forward(site, mu, hops)] = near[lattice.backward(site, mu, hops)] = true;
                    CAPTURE(nx, at, planted);
                    int wrong = 0;
                    for (int i = 0; i < geometry.sites(0); ++i)
                        wrong += finite(i) == near[i] || (!near[i] && !same(i));
                    CHECK(wrong == 0);
                }
        }
}

TEST_CASE("neighbours of several sites whose bits have flipped in memory are sites of the field", "[lanes][sanitize]") {
    for (const auto &[precision, links_in] : storages_of_lanes())
        for (const int planted : {INT_MAX, INT_MIN, -1, 0x40000000}) {
            LanesBench bench({6, 2, 2, 4}, 0, precision);
            const LaneLinks lanes = packed(bench, links_in);
            int *const neighbours = const_cast<int *>(lanes.neighbours(0));
            const int count = LaneLinks::links * bench.geometry.sites(0);
            for (int first = 0; first < 3; ++first) {
                for (int k = first; k < count; k += 3)
                    neighbours[k] = planted;
                const SpinorField in = bench.field(1), z = bench.field(0);
                CHECK(bench.run(Epilogue::plain, 0, false, in, z, z, &lanes).out !=
                      bench.run(Epilogue::plain, 0, false, in, z, z, nullptr).out);
            }
        }
}

TEST_CASE("a solve that iterates in single below residuals in double takes links in half, but not at light masses",
          "[lanes][cg]") {
    const reference::Lattice lattice{{16, 4, 4, 4}};
    const AsqtadLinks links = asqtad_links(lattice, 51);
    const auto b = random_fermion(lattice, 52);
    struct Solved {
        milcgpu_solve_report report;
        std::vector<double> x;
    };
    const auto solve = [&](double mass, bool short_of_memory, std::vector<Precision> packed) {
        Session<double> session(lattice, Backend::host, links);
        Device &device = *session.context->device;
        if (short_of_memory)
            device.set_memory_limit(2 * device.used_bytes() - 1);
        Solved s{sized<milcgpu_solve_report>(), std::vector<double>(6 * lattice.volume())};
        auto milc_b = reference::vector_to_milc<double>(lattice, b);
        const milcgpu_field from = session.field(milc_b), to = session.field(s.x);
        const milcgpu_solve_spec spec = solve_spec(mass, 1e-10, MILCGPU_DOUBLE, MILCGPU_SINGLE);
        CAPTURE(mass, short_of_memory);
        CHECK(milcgpu_staggered_solve(session.links, &spec, &from, &to, &s.report) == MILCGPU_OK);
        CAPTURE(milcgpu_last_error());
        const auto ax = reference::normal_operator(lattice, links.fat, links.lng, mass, 0,
                                                   reference::vector_from_milc<double>(lattice, s.x));
        CHECK(parity_difference(lattice, ax, b, 0) < 1e-10);
        for (const Precision p : {Precision::double_, Precision::single, Precision::half})
            CHECK(session.links->links->has_lanes(p) ==
                  (MILCGPU_LANES && std::count(packed.begin(), packed.end(), p) > 0));
        return s;
    };
    constexpr Precision of_single = Precision::single, of_half = Precision::half;
    // most: steps divided by the steps with links in single. 1, 1.08 and 1.19 were measured on these random links.
    for (const auto &[mass, most] : {std::pair(0.5, 1.03), std::pair(0.05, 1.15), std::pair(0.02, 1.3)}) {
        const Solved with = solve(mass, false, {of_half}), without = solve(mass, true, {});
        CAPTURE(mass, with.report.steps, without.report.steps, with.report.reliable_updates,
                without.report.reliable_updates, with.report.largest_jump);
        CHECK(with.report.steps_in_half == (MILCGPU_LANES ? with.report.steps : 0));
        CHECK(without.report.steps_in_half == 0);
        CHECK(with.report.steps <= most * without.report.steps);
        CHECK((with.report.largest_jump > 30 * without.report.largest_jump) == (MILCGPU_LANES != 0));
        for (int threads = 0; threads < thread_choices(Backend::host); ++threads) {
            const Threads of_host(Backend::host, threads);
            CHECK(solve(mass, false, {of_half}).x == with.x);
        }
    }
    const Solved light = solve(0.005, false, {of_half, of_single});
    CHECK(light.report.steps_in_half == 0);
}
