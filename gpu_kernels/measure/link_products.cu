// Products of links for operators and smearing. One thread a site and slot.
//
// Corners: the average over orders is the average over the first step, of the link along it times the average for the
// other directions from its end:
//   W_D(x; c) = 1/n sum_{a in D} U_a(x; c_a) W_{D-a}(x + c_a a; c without a),
// where U_a(x; -) = U_a(x-a)^dag. Only one of a corner and its opposite is stored: W_D(x; -c) = W_D(x - c; c)^dag. n
// products a slot: 2^(n-1) n 198 flops a site. Bytes a site, at the least: reads n and the slots of the sets with one
// direction less, writes 2^(n-1) matrices (four-link: 4 + 16 + 8 matrices of 144 bytes in double).
#include "gpu_kernels/fields/matrix_view.h"
#include "gpu_kernels/measure/quark_operators.h"

namespace milcgpu {

namespace {

struct Directions { // in ascending order
    int count = 0, mu[4] = {};
    explicit Directions(unsigned bits) {
        for (int d = 0; d < 4; ++d)
            if ((bits >> d & 1) != 0)
                mu[count++] = d;
    }
};

template <Precision p> struct CornerProducts {
    using Real = typename LinkReal<p>::Real;
    Lattice lattice;
    SitesAndParts work;
    MatrixView<p> u, without[4], to; // without[k]: for all directions but the k-th
    int count, mu[4];
    Real one_over_count;

    // Bit j of `back`: the step along the j-th direction is backward.
    MILCGPU_HD Matrix<Real> lower(const Site &x, int parity, int k, unsigned back) const {
        const unsigned others = (back & ((1u << k) - 1)) | (back >> (k + 1) << k);
        const bool opposite = (others & 1) != 0;
        const unsigned stored = opposite ? ~others & ((1u << (count - 1)) - 1) : others;
        const int slot = count == 2 ? mu[1 - k] : static_cast<int>(stored >> 1);
        if (!opposite)
            return without[k].load(parity, slot, x.index());
        Site y = x;
        MILCGPU_ROLLED
        for (int j = 0; j < count; ++j)
            if (j != k) {
                y = lattice.hop(y, mu[j], (back >> j & 1) != 0 ? -1 : 1);
                parity ^= 1;
            }
        return adjoint(without[k].load(parity, slot, y.index()));
    }

    MILCGPU_HD void operator()(int thread) const {
        const SitesAndParts::Item item = work.item(thread);
        if (!item.valid)
            return;
        const Site x = lattice.site(item.parity, item.i);
        const unsigned back = static_cast<unsigned>(item.part) << 1;
        Matrix<Real> sum = {};
        MILCGPU_ROLLED
        for (int k = 0; k < count; ++k) {
            const bool behind = (back >> k & 1) != 0;
            const Site y = lattice.hop(x, mu[k], behind ? -1 : 1);
            const Matrix<Real> link =
                behind ? adjoint(u.load(1 - item.parity, mu[k], y.index())) : u.load(item.parity, mu[k], x.index());
            multiply_add(sum, link, lower(y, 1 - item.parity, k, back));
        }
        Matrix<Real> mean = {};
        multiply_add(mean, one_over_count, sum);
        to.store(item.parity, item.part, item.i, mean);
    }
};

template <Precision p> struct TwoLinks {
    Lattice lattice;
    SitesAndParts work;
    MatrixView<p> u, to;
    MILCGPU_HD void operator()(int thread) const {
        const SitesAndParts::Item item = work.item(thread);
        if (!item.valid)
            return;
        const Site x = lattice.site(item.parity, item.i), next = lattice.hop(x, item.part, 1);
        to.store(item.parity, item.part, item.i,
                 u.load(item.parity, item.part, item.i) * u.load(1 - item.parity, item.part, next.index()));
    }
};

} // namespace

std::vector<Step> corner_steps(unsigned directions) {
    const Directions d(directions);
    std::vector<Step> steps(d.count == 0 ? 0 : 1u << (d.count - 1), Step{0, 0, 0, 0});
    for (size_t slot = 0; slot < steps.size(); ++slot)
        for (int j = 0; j < d.count; ++j)
            steps[slot][d.mu[j]] = (2 * slot >> j & 1) != 0 ? -1 : 1;
    return steps;
}

LinkField LinkProducts::allocate(int slots) const {
    LinkField field;
    queue_of(device_).collective("memory for products of links", [&] {
        field = {device_, u_.precision(), 18, geometry_.without_ghosts(), "products of links", slots};
        field.clear_behind(geometry_);
        field.keep_sum();
    });
    return field;
}

const LinkField &LinkProducts::corners(unsigned directions) {
    LinkField &made = corners_[directions];
    const Directions d(directions);
    if (d.count < 2)
        throw Error(Status::bad_argument, "products of links need two directions or more");
    if (made.bytes() > 0)
        return made;
    const LinkField *lower[4] = {&u_, &u_, &u_, &u_};
    for (int k = 0; k < d.count && d.count > 2; ++k)
        lower[k] = &corners(directions & ~(1u << d.mu[k]));
    check_(u_);
    for (int k = 0; k < d.count && d.count > 2; ++k)
        check_(*lower[k]);
    LinkField to = allocate(1 << (d.count - 1));
    const SitesAndParts work(geometry_, to.directions());
    for_real(u_.precision(), [&](auto real) {
        constexpr Precision p = decltype(real)::value;
        using Real = typename LinkReal<p>::Real;
        const auto view = [&](int k) { return MatrixView<p>(*lower[k]); };
        launch_bounded<128, 3>(device_, work.threads(),
                               CornerProducts<p>{geometry_.lattice(),
                                                 work,
                                                 MatrixView<p>(u_),
                                                 {view(0), view(1), view(2), view(3)},
                                                 MatrixView<p>(to),
                                                 d.count,
                                                 {d.mu[0], d.mu[1], d.mu[2], d.mu[3]},
                                                 Real(1) / static_cast<Real>(d.count)},
                               "products of links to corners");
    });
    return made = std::move(to);
}

void two_link_products(Device &device, const Geometry &geometry, const LinkField &u, const LinkField &to) {
    const SitesAndParts work(geometry, 3);
    for_real(u.precision(), [&](auto real) {
        constexpr Precision p = decltype(real)::value;
        launch(device, work.threads(), TwoLinks<p>{geometry.lattice(), work, MatrixView<p>(u), MatrixView<p>(to)},
               "products of two links");
    });
}

const LinkField &LinkProducts::two_links() {
    if (two_links_.bytes() == 0) {
        check_(u_);
        LinkField to = allocate(3);
        two_link_products(device_, geometry_, u_, to);
        two_links_ = std::move(to);
    }
    return two_links_;
}

bool LinkProducts::forget() {
    bool any = two_links_.bytes() > 0;
    for (LinkField &field : corners_) {
        any = any || field.bytes() > 0;
        field = LinkField();
    }
    two_links_ = LinkField();
    return any;
}

} // namespace milcgpu
