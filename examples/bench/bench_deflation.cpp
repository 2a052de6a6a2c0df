// Deflations of 1, 12 and 16 right-hand sides with 256 vectors. A deflation reads the vectors twice and moves little
// else, so the time shows how close a pass over the vectors comes to the copy bandwidth.
#include "examples/bench/bench.h"
#include "gpu_kernels/solver/eigenvectors.h"
#include "milc_glue/links/links_handle.h"
#include "reorder/spinor_reorder.h"

namespace examples {
using namespace milcgpu;

namespace {

using Number = std::complex<double>;
constexpr int count = 256, most = 16, first_part = 7, second_part = 200;
constexpr double shift = 1e-3, error_in_single = 7e-8,
                 error_in_half = 1.3e-6; // relative error of the solution, measured

// Vector k: numbers of modulus sqrt(2) times the Walsh function k of the site, so all are orthogonal.
Number element(int k, size_t site, int colour) {
    int sign = 0;
    for (size_t bits = k & site; bits != 0; bits &= bits - 1)
        sign ^= 1;
    const size_t hash = (site * 3 + colour) * 2654435761u >> 16;
    return (sign != 0 ? -1.0 : 1.0) * Number{hash & 1 ? 1.0 : -1.0, hash & 2 ? 1.0 : -1.0};
}

} // namespace

void bench_deflation(const Bench &bench) {
    Device &device = bench.device();
    const Operator A = full_operator(*bench.connection.links(), 0);
    const Geometry &geometry = A->geometry();
    const size_t sites = geometry.sites(0);
    if (sites % count != 0) {
        std::printf("deflation: skipped, it needs a multiple of %d sites of a parity\n", count);
        return;
    }
    const SiteMap map;
    SpinorReorder reorder(device, map, geometry);
    std::vector<Number> numbers(3 * sites), wanted;
    const HostField host{reinterpret_cast<double *>(numbers.data()), Precision::double_, 48};
    const auto fill = [&](const std::function<Number(size_t, int)> &of) {
        for (size_t i = 0; i < sites; ++i)
            for (int colour = 0; colour < 3; ++colour)
                numbers[3 * i + colour] = of(i, colour);
    };
    const SpinorField r = A->vectors(device, "bench", most), x = A->vectors(device, "bench", most);
    const auto right_side = [](size_t i, int colour) {
        return 3.0 * element(first_part, i, colour) + 2.0 * element(second_part, i, colour);
    };
    double rr[most];
    int place[most];
    fill(right_side);
    for (int k = 0; k < most; ++k) {
        reorder.to_device(host, 0, r[k]);
        rr[k] = 13 * 6.0 * double(sites), place[k] = k;
    }
    const double value = 1, norm = std::sqrt(6.0 * double(sites));
    for (Number &n : wanted = numbers)
        n /= value + shift;
    for (const Precision p : {Precision::single, Precision::half}) {
        Eigenvectors vectors(device, *A, p, count);
        for (int k = 0; k < count; ++k) {
            fill([&](size_t i, int colour) { return element(k, i, colour) / norm; });
            reorder.to_device(host, 0, x[0]);
            convert_spinor(device, x[0], vectors[k], 1, nullptr);
            vectors.values[k] = value;
        }
        for (const int n : {1, 12, 16}) {
            Deflation deflation(device, vectors, *A, n);
            const auto add = [&] { deflation.add(r, place, x, place, rr, n, shift); };
            const double seconds = median_seconds(device, 5, device.on_gpu() ? 20 : 1, add);
            device.fill_zero(x.data(), x.bytes());
            add();
            reorder.to_host(x[n - 1], 0, host);
            double off = 0, size = 0;
            for (size_t k = 0; k < numbers.size(); ++k)
                off += std::norm(numbers[k] - wanted[k]), size += std::norm(wanted[k]);
            bench.table.row({"deflation", format("%d vectors, %d source%s", count, n, n == 1 ? "" : "s"), name(p)},
                            {seconds, deflation.flops(n), deflation.bytes(n)}, std::sqrt(off / size),
                            times_measured * (p == Precision::single ? error_in_single : error_in_half));
        }
    }
}

} // namespace examples
