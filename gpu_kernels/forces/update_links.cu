// U <- exp(eps H) U, as a series. One thread a link. Matrices a link: U read and written, 10 reals of momentum read.
#include "gpu_kernels/forces/momentum_view.h"

namespace milcgpu {

namespace {

constexpr int highest_order = 16;

template <Precision p> struct UpdateLinks {
    using Real = typename LinkReal<p>::Real;
    SitesAndParts work;
    MatrixView<p> u;
    MomentumView<p> momenta;
    Real eps_over[highest_order + 1]; // eps / k
    int order;

    // a + s h b. 66 flops a column: the diagonal of h is imaginary.
    static MILCGPU_HD Matrix<Real> step(const Matrix<Real> &a, Real s, const AntiHermitian<Real> &h,
                                        const Matrix<Real> &b) {
        const Matrix<Real> full = matrix(h);
        Matrix<Real> sum = a;
        MILCGPU_UNROLL
        for (int row = 0; row < 3; ++row)
            MILCGPU_UNROLL
        for (int column = 0; column < 3; ++column) {
            const Complex<Real> along = b.e[row][column];
            Complex<Real> product = {-h.diagonal[row] * along.im, h.diagonal[row] * along.re};
            MILCGPU_UNROLL
            for (int other = 1; other < 3; ++other) {
                const int k = (row + other) % 3;
                product = plus(product, full.e[row][k], b.e[k][column]);
            }
            sum.e[row][column].re += s * product.re;
            sum.e[row][column].im += s * product.im;
        }
        return sum;
    }

    MILCGPU_HD void operator()(int thread) const {
        const SitesAndParts::Item item = work.item(thread);
        if (!item.valid)
            return;
        const Matrix<Real> before = u.template load<Reuse::written>(item.parity, item.part, item.i);
        const AntiHermitian<Real> h = momenta.load(item.parity, item.part, item.i);
        Matrix<Real> sum = before;
        for (int k = order; k > 0; --k)
            sum = step(before, eps_over[k], h, sum);
        u.store(item.parity, item.part, item.i, sum);
    }
};

} // namespace

double update_links_bytes(Precision p) { return 4 * (2 * link_bytes(p, 18) + link_bytes(p, momentum_reals)); }

void update_links(Device &device, const Geometry &geometry, const LinkField &u, const LinkField &momenta, double eps,
                  int order) {
    const bool fits = u.precision() == momenta.precision() && u.reals() == 18 && momenta.reals() == momentum_reals &&
                      order >= 1 && order <= highest_order;
    if (!fits)
        throw Error(Status::bad_argument,
                    format("update of the links: links of 18 reals and momenta of 10, both double or both single, and "
                           "an order from 1 to %d are needed; the order is %d",
                           highest_order, order));
    const SitesAndParts work(geometry, 4);
    for_link_precision(u.precision(), [&](auto p) {
        constexpr Precision precision = decltype(p)::value;
        using Real = typename LinkReal<precision>::Real;
        UpdateLinks<precision> body{work, MatrixView<precision>(u), MomentumView<precision>(momenta), {}, order};
        for (int k = 1; k <= order; ++k)
            body.eps_over[k] = static_cast<Real>(eps) / static_cast<Real>(k);
        launch(device, work.threads(), body, "update links");
    });
}

} // namespace milcgpu
