// Multiplies links by signs that depend on coordinates: staggered phases and boundary sign of any origin, to put them
// in or take them out. One thread a link; 2 matrices for each link whose sign changes.
#include "gpu_kernels/fields/matrix_view.h"
#include "gpu_kernels/measure/quark_operators.h"

namespace milcgpu {

namespace {

template <Precision p> struct TurnLinks {
    Lattice lattice;
    SitesAndParts work;
    MatrixView<p> links;
    SignPattern sign[4];
    int t_sign;
    MILCGPU_HD void operator()(int thread) const {
        const SitesAndParts::Item item = work.item(thread);
        if (!item.valid)
            return;
        const int mu = item.part;
        const Site x = lattice.site(item.parity, item.i);
        const bool at_boundary = mu == 3 && x.x[3] == t_sign;
        if ((odd_coordinates(x, sign[mu].mask) != 0) == (sign[mu].negative != at_boundary))
            return;
        links.modify(item.parity, mu, item.i, [](auto &link) {
            Matrix<typename LinkReal<p>::Real> minus = {};
            multiply_add(minus, typename LinkReal<p>::Real(-1), link);
            link = minus;
        });
    }
};

} // namespace

void turn_links(Device &device, const Geometry &geometry, const SignPattern (&sign)[4], int t_sign,
                const LinkField &links) {
    const SitesAndParts work(geometry, 4);
    for_real(links.precision(), [&](auto real) {
        constexpr Precision p = decltype(real)::value;
        const auto here = [&](int mu) { return relative_to(sign[mu], geometry.origin().data()); };
        // A negative slice (-1: no slice) is not in this box.
        const int slice = t_sign - geometry.origin()[3];
        launch(
            device, work.threads(),
            TurnLinks<p>{geometry.lattice(), work, MatrixView<p>(links), {here(0), here(1), here(2), here(3)}, slice},
            "signs of links");
    });
}

} // namespace milcgpu
