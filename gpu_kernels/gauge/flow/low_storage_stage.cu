// K' = Z + keep K, to = exp(factor K') u. One thread a link: it computes the staples, and writes the new link into
// another field, because neighbours still read the old one. Matrices a link, at the least: u read, `to` written; 10
// reals of K read and written.
#include "gpu_kernels/gauge/flow/derivative.h"

namespace milcgpu {

namespace {

template <Precision p, class GivesZ> struct LowStorageStage {
    using Real = typename LinkReal<p>::Real;
    SitesAndParts work;
    GivesZ derivative;
    MatrixView<p> u, to; // u: on the wide box
    MomentumView<p> k, next;
    Real keep, factor;
    Exponential<Real> exponential;
    bool next_wanted;
    MILCGPU_HD void operator()(int thread) const {
        const SitesAndParts::Item item = work.item(thread);
        if (!item.valid)
            return;
        const Matrix<Real> link = u.template take<Reuse::keep>(item.parity, item.part, item.i);
        AntiHermitian<Real> h = derivative(item, link);
        if (keep != 0)
            multiply_add(h, keep, k.take(item.parity, item.part, item.own));
        if (next_wanted)
            next.store(item.parity, item.part, item.own, h);
        AntiHermitian<Real> exponent = {};
        multiply_add(exponent, factor, h);
        to.store(item.parity, item.part, item.own, exponential.times(exponent, link));
    }
};

} // namespace

double low_storage_stage_bytes(Precision p, bool known) {
    return 4 * (2 * link_bytes(p, 18) + (known ? 3 : 2) * link_bytes(p, momentum_reals));
}
double low_storage_stage_flops(bool known, int order) {
    return (known ? 0 : staples_flops + 4 * 216) + exp_flops(order);
}

void low_storage_stage(Device &device, const Derivative &of, double keep, const LinkField *k, const LinkField *next,
                       double factor, int order, const LinkField &to) {
    const SitesAndParts work = of.box.work(4);
    for_derivative(of, [&](auto p, const auto &gives_z) {
        constexpr Precision precision = decltype(p)::value;
        using Real = typename LinkReal<precision>::Real;
        using Z = std::decay_t<decltype(gives_z)>;
        const MatrixView<precision> u = MatrixView<precision>(of.u).to_take(of.used_up);
        // Neither read nor written if not needed
        const LinkField &any = k != nullptr ? *k : next != nullptr ? *next : to;
        const LowStorageStage<precision, Z> body{work,
                                                 gives_z,
                                                 u,
                                                 MatrixView<precision>(to),
                                                 MomentumView<precision>(any),
                                                 MomentumView<precision>(next != nullptr ? *next : any),
                                                 static_cast<Real>(keep),
                                                 static_cast<Real>(factor),
                                                 Exponential<Real>(order),
                                                 next != nullptr};
        launch_bounded<128, precision == Precision::double_ ? 3 : 4>(device, work.threads(), body, "stage of a flow");
    });
}

} // namespace milcgpu
