// to = exp(sum of stages) u, and its distance from other links. One thread a link. Matrices a link: u read, `to`
// written or v read; 10 reals read for each stage.
#include "gpu_kernels/gauge/flow/derivative.h"
#include "gpu_kernels/machine/comm/ranks.h"

namespace milcgpu {

namespace {

template <Precision p> struct MoveLinks {
    using Real = typename LinkReal<p>::Real;
    SitesAndParts work;
    MatrixView<p> u, to;
    StagesView<p> stages;
    Real with_first; // factor of the commutator of the sum with the first stage
    Exponential<Real> exponential;
    MILCGPU_HD void operator()(int thread) const {
        const SitesAndParts::Item item = work.item(thread);
        if (!item.valid)
            return;
        AntiHermitian<Real> exponent = stages.sum(item);
        if (with_first != 0)
            multiply_add(exponent, with_first, commutator(exponent, stages.stage(0, item)));
        const auto link = u.template load<Reuse::written>(item.parity, item.part, item.own);
        to.store(item.parity, item.part, item.own, exponential.times(exponent, link));
    }
};

// The largest number, by the bits of numbers, which are ordered like integers, with NaN above all.
template <Precision p> struct LargestDistance {
    using Real = typename LinkReal<p>::Real;
    SitesAndParts work;
    MatrixView<p> u, v;
    StagesView<p> stages;
    Exponential<Real> exponential;
    uint64_t *largest;
    MILCGPU_HD void operator()(int thread) const {
        const SitesAndParts::Item item = work.item(thread);
        if (!item.valid)
            return;
        const auto moved =
            exponential.times(stages.sum(item), u.template load<Reuse::stream>(item.parity, item.part, item.own));
        const auto other = v.template load<Reuse::stream>(item.parity, item.part, item.own);
        double squares = 0;
        MILCGPU_UNROLL
        for (int k = 0; k < 9; ++k)
            squares += norm(convert<double>(moved.e[k / 3][k % 3] - other.e[k / 3][k % 3]));
        atomic_max(largest, squares == squares ? bit_cast<uint64_t>(squares) : ~uint64_t(0));
    }
};

} // namespace

double sum_of_stages_bytes(Precision p, int stages) {
    return 4 * (2 * link_bytes(p, 18) + stages * link_bytes(p, momentum_reals));
}

void move_links(Device &device, const Geometry &geometry, const LinkField &u, const SumOfStages &sum, double commutator,
                int order, const LinkField &to) {
    const SitesAndParts work(geometry, 4);
    for_real(u.precision(), [&](auto p) {
        constexpr Precision precision = decltype(p)::value;
        using Real = typename LinkReal<precision>::Real;
        launch(device, work.threads(),
               MoveLinks<precision>{work, MatrixView<precision>(u), MatrixView<precision>(to),
                                    StagesView<precision>(sum), static_cast<Real>(commutator),
                                    Exponential<Real>(order)},
               "move links by stages");
    });
}

double largest_distance(Device &device, const Geometry &geometry, const LinkField &u, const SumOfStages &sum, int order,
                        const LinkField &v) {
    const SitesAndParts work(geometry, 4);
    DeviceArray<uint64_t> largest;
    queue_of(device).collective("room for a distance", [&] { largest = {device, 1, "distance of links"}; });
    queue_of(device).fill_zero(largest.data(), largest.bytes());
    for_real(u.precision(), [&](auto p) {
        constexpr Precision precision = decltype(p)::value;
        using Real = typename LinkReal<precision>::Real;
        launch(device, work.threads(),
               LargestDistance<precision>{work, MatrixView<precision>(u), MatrixView<precision>(v),
                                          StagesView<precision>(sum), Exponential<Real>(order), largest.data()},
               "distance of links");
    });
    uint64_t bits = largest.to_host()[0];
    if (queue_of(device).ranks() != nullptr)
        for (const uint64_t other : queue_of(device).ranks()->gathered("a distance of links", bits))
            bits = std::max(bits, other);
    return std::sqrt(bit_cast<double>(bits)) / 9;
}

} // namespace milcgpu
