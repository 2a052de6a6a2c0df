// The derivative by the links of the long links. One thread a link, which is the first, second or third link of three
// long ones: 5 products, reads 3 of q and 4 of u, and by_u once in and out.
#include "gpu_kernels/fields/matrix_view.h"
#include "gpu_kernels/gauge/forces/forces.h"

namespace milcgpu {

namespace {

template <Precision p> struct LongAdjoint {
    using M = Matrix<typename LinkReal<p>::Real>;
    Lattice lattice;
    SitesAndParts work;
    MatrixView<p> u, q, by_u;
    typename LinkReal<p>::Real naik;
    MILCGPU_HD void operator()(int thread) const {
        const SitesAndParts::Item item = work.item(thread);
        if (!item.valid)
            return;
        const int mu = item.part, parity = item.parity, opposite = 1 - parity;
        const Site x = lattice.site(parity, item.i), next = lattice.hop(x, mu, 1), second = lattice.hop(next, mu, 1);
        const Site before = lattice.hop(x, mu, -1), second_before = lattice.hop(before, mu, -1);
        const M u_next = u.load(opposite, mu, next.index());
        M middle = q.load(opposite, mu, before.index()) * adjoint(u_next);
        multiply_add(middle, adjoint(u.load(parity, mu, second_before.index())),
                     q.load(parity, mu, second_before.index()));
        M sum = adjoint(u.load(opposite, mu, before.index())) * middle;
        uint64_t weighs;
        multiply_add(sum, q.template take<Reuse::keep>(parity, mu, item.i, weighs),
                     adjoint(u_next * u.load(parity, mu, second.index())));
        by_u.modify(parity, mu, item.i, [&](M &total) { multiply_add(total, naik, sum); });
        q.subtract(item.i, weighs);
    }
};

} // namespace

void long_links_adjoint(Device &device, const WideBox &box, const LinkField &u, double naik, const LinkField &q,
                        const LinkField &by_u) {
    const SitesAndParts work = box.work(4);
    for_real(u.precision(), [&](auto p) {
        constexpr Precision precision = decltype(p)::value;
        launch_bounded<128, precision == Precision::double_ ? 3 : 5>(
            device, work.threads(),
            LongAdjoint<precision>{box.wide().lattice(), work, MatrixView<precision>(u), MatrixView<precision>(q),
                                   MatrixView<precision>(by_u), static_cast<typename LinkReal<precision>::Real>(naik)},
            "derivative of long links");
    });
}

} // namespace milcgpu
