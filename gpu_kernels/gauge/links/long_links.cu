// Long links, links plus a multiple of others, phases: one pass each. One thread a link.
#include "gpu_kernels/fields/matrix_view.h"
#include "gpu_kernels/gauge/links/fermion_links.h"

namespace milcgpu {

namespace {

// View: of u; without a checksum if u stays.
template <Precision p, class View> struct LongLinks {
    Lattice lattice;
    SitesAndParts work;
    View u;
    MatrixView<p> lng; // on the box
    typename LinkReal<p>::Real naik;
    MILCGPU_HD void operator()(int thread) const {
        const SitesAndParts::Item item = work.item(thread);
        if (!item.valid)
            return;
        const int mu = item.part;
        const Site x = lattice.site(item.parity, item.i), next = lattice.hop(x, mu, 1), last = lattice.hop(next, mu, 1);
        uint64_t weighs;
        const auto two =
            u.template take<Reuse::keep>(item.parity, mu, item.i, weighs) * u.load(1 - item.parity, mu, next.index());
        Matrix<typename LinkReal<p>::Real> three = {};
        multiply_add(three, naik, two * u.load(item.parity, mu, last.index()));
        lng.store(item.parity, mu, item.own, three);
        u.subtract(item.i, weighs);
    }
};

template <Precision p> struct AddLinks {
    SitesAndParts work;
    MatrixView<p> a, b, to; // b: on the wide box
    typename LinkReal<p>::Real factor;
    MILCGPU_HD void operator()(int thread) const {
        const SitesAndParts::Item item = work.item(thread);
        if (!item.valid)
            return;
        auto sum = a.take(item.parity, item.part, item.own);
        multiply_add(sum, factor, b.load(item.parity, item.part, item.i));
        to.store(item.parity, item.part, item.own, sum);
    }
};

template <Precision p> struct ApplyPhases {
    Lattice lattice;
    Phases phases;
    SitesAndParts work;
    MatrixView<p> links;
    MILCGPU_HD void operator()(int thread) const {
        const SitesAndParts::Item item = work.item(thread);
        if (!item.valid)
            return;
        if (phases.sign(lattice.site(item.parity, item.i), item.part) > 0)
            return;
        links.modify(item.parity, item.part, item.i, [](auto &link) {
            Matrix<typename LinkReal<p>::Real> minus = {};
            multiply_add(minus, typename LinkReal<p>::Real(-1), link);
            link = minus;
        });
    }
};

} // namespace

void long_links(Device &device, const WideBox &box, const LinkField &u, double naik, const LinkField &lng,
                bool last_use) {
    const SitesAndParts work = box.work(4);
    const Lattice &lattice = box.wide().lattice();
    for_real(u.precision(), [&](auto p) {
        constexpr Precision precision = decltype(p)::value;
        const auto factor = static_cast<typename LinkReal<precision>::Real>(naik);
        const auto make = [&](const auto &links) {
            using View = std::decay_t<decltype(links)>;
            launch(device, work.threads(),
                   LongLinks<precision, View>{lattice, work, links, MatrixView<precision>(lng), factor}, "long links");
        };
        if (u.reals() == 18 && last_use)
            make(MatrixView<precision>(u));
        else if (u.reals() == 18)
            make(MatrixView<precision, 18, NoSum>(u));
        else if (last_use)
            make(MatrixView<precision, 12>(u));
        else
            make(MatrixView<precision, 12, NoSum>(u));
    });
}

void add_links(Device &device, const WideBox &box, const LinkField &a, double factor, const LinkField &b,
               const LinkField &to) {
    const SitesAndParts work = box.work(4);
    for_real(a.precision(), [&](auto p) {
        constexpr Precision precision = decltype(p)::value;
        const MatrixView<precision> from(a);
        const bool replaced = a.block(0, 0) == to.block(0, 0);
        launch(device, work.threads(),
               AddLinks<precision>{work, from.to_take(replaced), MatrixView<precision>(b), MatrixView<precision>(to),
                                   static_cast<typename LinkReal<precision>::Real>(factor)},
               "add links");
    });
}

void apply_phases(Device &device, const Geometry &geometry, const LinkField &links) {
    const SitesAndParts work(geometry, 4);
    for_real(links.precision(), [&](auto p) {
        constexpr Precision precision = decltype(p)::value;
        launch(device, work.threads(),
               ApplyPhases<precision>{geometry.lattice(), Phases(geometry), work, MatrixView<precision>(links)},
               "phases");
    });
}

} // namespace milcgpu
