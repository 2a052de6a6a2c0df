// U <- exp(eps H) U, as a series (exponential.h). One thread a link. Matrices a link: U read and written, 10 reals of
// momentum read.
#include "gpu_kernels/gauge/forces/exponential.h"

namespace milcgpu {

namespace {

template <Precision p> struct UpdateLinks {
    using Real = typename LinkReal<p>::Real;
    SitesAndParts work;
    MatrixView<p> u;
    MomentumView<p> momenta;
    Real eps_over[highest_exp_order + 1]; // eps / k
    int order;

    MILCGPU_HD void operator()(int thread) const {
        const SitesAndParts::Item item = work.item(thread);
        if (!item.valid)
            return;
        u.modify(item.parity, item.part, item.i, [&](Matrix<Real> &link) {
            const Hermitian<Real> a = hermitian(momenta.load(item.parity, item.part, item.i));
            Matrix<Real> after = exp_series_minus_one(invariants(a), eps_over, order).of(a) * link;
            multiply_add(after, Real(1), link); // one rounding at the size of U
            link = after;
        });
    }
};

} // namespace

double update_links_bytes(Precision p) { return 4 * (2 * link_bytes(p, 18) + link_bytes(p, momentum_reals)); }

void update_links(Device &device, const Geometry &geometry, const LinkField &u, const LinkField &momenta, double eps,
                  int order) {
    const bool fits = u.precision() == momenta.precision() && u.reals() == 18 && momenta.reals() == momentum_reals &&
                      order >= 1 && order <= highest_exp_order;
    if (!fits)
        throw Error(Status::bad_argument, format("update of the links: needs links of 18 reals and momenta of 10, both "
                                                 "double or both single, and an order from 1 to %d; the order is %d",
                                                 highest_exp_order, order));
    const SitesAndParts work(geometry, 4);
    for_real(u.precision(), [&](auto p) {
        constexpr Precision precision = decltype(p)::value;
        using Real = typename LinkReal<precision>::Real;
        UpdateLinks<precision> body{work, MatrixView<precision>(u), MomentumView<precision>(momenta), {}, order};
        for (int k = 1; k <= order; ++k)
            body.eps_over[k] = static_cast<Real>(eps) / static_cast<Real>(k);
        launch(device, work.threads(), body, "update links");
    });
}

} // namespace milcgpu
