// The Wilson operator: every row of its table, its physics, its solvers, against tests/reference/wilson.h.
#include "gpu_kernels/blas/blas.h"
#include "gpu_kernels/operators/wilson.h"
#include "gpu_kernels/solver/multi_mass.h"
#include "tests/reference/wilson.h"
#include "tests/support.h"

using namespace milcgpu;
using namespace tests;
using reference::WilsonField;

namespace {

// Measured on the host backend, the largest over forms, epilogues, parities, signs and shapes: |error| / |result| with
// 18 or 12 reals a link, with 8, and the error of a sum relative to the sizes of its terms. By precision.
struct Measured {
    double plain, pivoted, sum;
};
constexpr Measured measured[] = {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}};

double error_of(Precision precision, int reals) {
    const Measured &m = measured[static_cast<int>(precision)];
    return times_measured * (reals == 8 ? m.pivoted : m.plain);
}

WilsonField random_wilson(const reference::Lattice &lattice, unsigned long seed) {
    return reference::random_wilson_field(lattice, seed);
}

double difference(const reference::Lattice &lattice, const WilsonField &a, const WilsonField &b, int parity) {
    const WilsonField on = reference::on_parity(lattice, b, parity);
    return std::sqrt(reference::norm2(reference::on_parity(lattice, a, parity) - on) / reference::norm2(on));
}

// A lattice on a device, with SU(3) links that are antiperiodic in time.
struct Bench {
    reference::Lattice lattice;
    Geometry geometry;
    Device device;
    SiteMap map;
    SpinorReorder reorder;
    reference::Gauge links;
    LinkField as_given;
    LinkStatistics statistics;

    Bench(const std::array<int, 4> &n, Backend backend, const reference::Gauge &gauge)
        : lattice{n}, geometry(n), device(backend, 0), reorder(device, map, geometry, 4), links(gauge),
          as_given(device, Precision::double_, 18, geometry, "test") {
        auto milc = reference::links_to_milc<double>(lattice, links);
        links_to_device(device, {milc.data(), Precision::double_, 576}, map, geometry, as_given);
        statistics = link_statistics(device, as_given, geometry);
    }
    Bench(const std::array<int, 4> &n, Backend backend)
        : Bench(n, backend,
                reference::antiperiodic_in_time(reference::Lattice{n},
                                                reference::random_gauge(reference::Lattice{n}, 3))) {}
    LinkField packed(Precision precision, int reals) {
        PackedLinks p = pack_links(device, as_given, statistics, geometry, precision, reals, "test");
        REQUIRE(p.worst_error < accepted_error(precision));
        return std::move(p.field);
    }
    SpinorField upload(const WilsonField &field, int parity, Precision precision) {
        SpinorField on_device(device, precision, geometry, parity, "test", 1, 4);
        auto milc = reference::field_to_milc<double>(lattice, field, 1);
        reorder.to_device({milc.data(), Precision::double_, 192}, parity, on_device);
        return on_device;
    }
    WilsonField download(const SpinorBlock &field, int parity) {
        std::vector<double> milc(lattice.volume() * 24, 0);
        reorder.to_host(field, parity, {milc.data(), Precision::double_, 192});
        return reference::field_from_milc<reference::WilsonVector>(lattice, milc.data(), 1);
    }
};

const std::array<int, 4> shapes[] = {{4, 6, 10, 4}, {2, 4, 4, 8}};

double real_dot(const WilsonField &a, const WilsonField &b) { return reference::dot(a, b).real(); }

} // namespace

TEST_CASE("every row of the Wilson table, both signs and parities, against the reference", "[operators]") {
    double worst[3][3] = {};
    for (const Backend backend : backends())
        for (const auto &shape : shapes) {
            Bench bench(shape, backend);
            const reference::Lattice &lattice = bench.lattice;
            const WilsonField in = random_wilson(lattice, 4), own = random_wilson(lattice, 5),
                              x = random_wilson(lattice, 6), z = random_wilson(lattice, 7),
                              s = random_wilson(lattice, 8);
            const double factor = 0.21, a = 0.37, alpha = 0.61, beta = 0.7;
            for (const int sign : {1, -1}) {
                const WilsonField d = reference::wilson_dslash(lattice, bench.links, in, sign);
                const WilsonField matrix = own - reference::Complex(factor) * d;
                const WilsonField image = reference::Complex(a) * x + matrix;
                for (const int parity : {0, 1})
                    for (const WilsonKernel &row : wilson_table())
                        for (const WilsonEnd &end : wilson_ends) {
                            const LinkField links = bench.packed(row.precision, row.reals);
                            const auto on_device = [&](const WilsonField &field, int on) {
                                return bench.upload(field, on, row.precision);
                            };
                            const auto on = [&](const WilsonField &field) {
                                return reference::on_parity(lattice, field, parity);
                            };
                            const SpinorField in_d = on_device(in, 1 - parity), own_d = on_device(own, parity),
                                              x_d = on_device(x, parity), z_d = on_device(z, parity),
                                              s_d = on_device(s, parity), out = on_device(x, parity);
                            const DeviceArray<double> sums(bench.device, 3, "test");
                            CgState state{};
                            state.start(1, 1);
                            state.shift = a, state.alpha = alpha, state.carry = beta;
                            const DeviceArray<CgState> cg(bench.device, 1, "test");
                            bench.device.copy_to_device(cg.data(), &state, sizeof state);
                            WilsonCall call{};
                            call.lattice = bench.geometry.lattice();
                            call.parity = parity;
                            call.links = &links;
                            call.form = end.form;
                            call.sign = sign;
                            call.factor = factor;
                            call.own = own_d;
                            call.in = in_d, call.out = out, call.x = x_d, call.z = z_d, call.s = s_d;
                            call.a = a, call.alpha = alpha;
                            const bool hop = end.form == WilsonForm::hop, step = end.epilogue == Epilogue::step;
                            if (step)
                                call.cg = cg.data();
                            else if (end.dot)
                                call.with = z_d, call.dots = sums.data();
                            else if (!hop)
                                call.sum = sums.data();
                            wilson(bench.device, call, end.epilogue);
                            const WilsonField expected = hop                               ? d
                                                         : end.epilogue == Epilogue::plain ? matrix
                                                         : end.epilogue == Epilogue::normal
                                                             ? image
                                                             : z - reference::Complex(alpha) * image;
                            const double error = difference(lattice, bench.download(out, parity), expected, parity);
                            const double size = reference::norm2(on(expected));
                            double sum_error = 0;
                            if (step) {
                                const CgState after = cg.to_host()[0];
                                const double cross = real_dot(on(expected), on(image));
                                sum_error = worse(std::fabs(after.rr - size) / size,
                                                  std::fabs(after.cross - cross) /
                                                      std::sqrt(size * reference::norm2(on(image))));
                                sum_error = worse(sum_error,
                                                  difference(lattice, bench.download(s_d, parity), image, parity) / 10);
                            } else if (!hop) {
                                const std::vector<double> got = sums.to_host();
                                if (end.dot) {
                                    const reference::Complex dot = reference::dot(on(z), on(expected));
                                    sum_error = worse(std::fabs(got[2] - size) / size,
                                                      std::abs(reference::Complex(got[0], got[1]) - dot) /
                                                          std::sqrt(size * reference::norm2(on(z))));
                                } else if (end.epilogue == Epilogue::normal) {
                                    const double dot = real_dot(on(x), on(image));
                                    sum_error = std::fabs(got[0] - dot) / std::sqrt(size * reference::norm2(on(x)));
                                } else {
                                    sum_error = std::fabs(got[0] - size) / size;
                                }
                            }
                            double(&w)[3] = worst[static_cast<int>(row.precision)];
                            w[row.reals == 8] = worse(w[row.reals == 8], error);
                            w[2] = worse(w[2], sum_error);
                            CAPTURE(name(backend), shape, name(row.precision), row.reals, name(end.form),
                                    name(end.epilogue), end.dot, sign, parity);
                            CHECK(error <= error_of(row.precision, row.reals));
                            CHECK(sum_error <= times_measured * measured[static_cast<int>(row.precision)].sum);
                        }
            }
        }
    for (const auto &w : worst)
        std::printf("measured {%.2g, %.2g, %.2g}\n", w[0], w[1], w[2]);
}
