// H += factor TA(U q^dag). One thread a link. Matrices a link: reads 2, and 10 reals of momentum read and written.
#include "gpu_kernels/gauge/forces/momentum_view.h"

namespace milcgpu {

namespace {

template <Precision p> struct AddForce {
    using Real = typename LinkReal<p>::Real;
    SitesAndParts work;
    MatrixView<p> u, q;
    MomentumView<p> momenta;
    Real factor;
    MILCGPU_HD void operator()(int thread) const {
        const SitesAndParts::Item item = work.item(thread);
        if (!item.valid)
            return;
        const auto link = u.template load<Reuse::stream>(item.parity, item.part, item.i);
        uint64_t weighs;
        const auto derivative = q.template take<Reuse::stream>(item.parity, item.part, item.i, weighs);
        momenta.modify(item.parity, item.part, item.i, [&](AntiHermitian<Real> &h) {
            multiply_add(h, factor, traceless_antihermitian(link * adjoint(derivative)));
        });
        q.subtract(item.i, weighs);
    }
};

} // namespace

double add_force_bytes(Precision p) { return 4 * (2 * link_bytes(p, 18) + 2 * link_bytes(p, momentum_reals)); }

void add_force(Device &device, const Geometry &geometry, const LinkField &u, const LinkField &q, double factor,
               const LinkField &momenta) {
    const SitesAndParts work(geometry, 4);
    for_real(u.precision(), [&](auto p) {
        constexpr Precision precision = decltype(p)::value;
        launch(device, work.threads(),
               AddForce<precision>{work, MatrixView<precision>(u), MatrixView<precision>(q),
                                   MomentumView<precision>(momenta),
                                   static_cast<typename LinkReal<precision>::Real>(factor)},
               "add force");
    });
}

} // namespace milcgpu
