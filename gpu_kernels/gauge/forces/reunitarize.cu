// Projects links to SU(3) with their phase. One thread a link. Matrices a link: one read and written.
#include "gpu_kernels/gauge/forces/steps.h"
#include "gpu_kernels/gauge/links/gram_schmidt.h"
#include "gpu_kernels/machine/comm/ranks.h"

namespace milcgpu {

namespace {

// Largest deviation, by the bits of a float, which are ordered like integers, with NaN above all numbers; ~index of the
// first link that failed, 0: none.
struct Worst {
    uint32_t bits, not_link;
};

template <Precision p> struct Reunitarize {
    using Real = typename LinkReal<p>::Real;
    Lattice lattice;
    Phases phases;
    SitesAndParts work;
    MatrixView<p> u;
    double tolerance;
    bool phased;
    Worst *worst;

    MILCGPU_HD Sums<2> operator()(int thread) const {
        const SitesAndParts::Item item = work.item(thread);
        if (!item.valid)
            return {{0, 0}};
        const double sign = phased ? phases.sign(lattice.site(item.parity, item.i), item.part) : 1;
        Matrix<double> link = times(sign, convert<double>(u.take(item.parity, item.part, item.i)));
        const Deviations deviations = gram_schmidt(link);
        double largest = 0, squares = 0;
        bool good = true;
        MILCGPU_UNROLL
        for (int k = 0; k < 4; ++k) {
            const double d = deviations.d[k];
            good = good && d <= tolerance;
            largest = d > largest || d != d ? d : largest;
            squares += d * d;
        }
        atomic_max(&worst->bits, largest == largest ? bit_cast<uint32_t>(static_cast<float>(largest)) : 0x7FC00000u);
        if (good) {
            u.store(item.parity, item.part, item.i, convert<Real>(times(sign, link)));
        } else {
            u.put_back(item.parity, item.part, item.i);
            atomic_max(&worst->not_link,
                       ~static_cast<uint32_t>(4 * (item.i + item.parity * work.sites(0)) + item.part));
        }
        return {{good ? 0.0 : 1.0, squares}};
    }
};

} // namespace

double reunitarize_bytes(Precision p) { return 4 * 2 * link_bytes(p, 18); }

ReunitarizeReport reunitarize(Device &device, const Geometry &geometry, const LinkField &u, double tolerance,
                              bool phased) {
    const SitesAndParts work(geometry, 4);
    DeviceArray<Worst> worst;
    queue_of(device).collective("room for a reunitarization", [&] { worst = {device, 1, "reunitarization"}; });
    queue_of(device).fill_zero(worst.data(), worst.bytes());
    Sums<2> sums = {};
    for_real(u.precision(), [&](auto p) {
        constexpr Precision precision = decltype(p)::value;
        const Reunitarize<precision> body{geometry.lattice(), Phases(geometry), work,        MatrixView<precision>(u),
                                          tolerance,          phased,           worst.data()};
        sums = sum_to_host<2>(device, work.threads(), body, "reunitarize");
    });
    Worst found = worst.to_host()[0];
    if (queue_of(device).ranks() != nullptr)
        for (const Worst &other : queue_of(device).ranks()->gathered("a reunitarization", found))
            found.bits = std::max(found.bits, other.bits);
    return {static_cast<uint64_t>(sums.v[0]), found.not_link != 0 ? static_cast<long long>(~found.not_link) : -1,
            bit_cast<float>(found.bits), sums.v[1]};
}

} // namespace milcgpu
