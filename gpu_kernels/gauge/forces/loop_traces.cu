// Means of the traces of closed loops. One thread a site. Matrices a site, at the least: 4 read; one loaded a step.
#include "gpu_kernels/gauge/forces/steps.h"
#include <algorithm>

namespace milcgpu {

namespace {

template <Precision p> struct LoopTrace {
    Lattice lattice;
    SitesAndParts work;
    MatrixView<p> u;
    LoopPath path;
    MILCGPU_HD Sums<2> operator()(int thread) const {
        const SitesAndParts::Item item = work.item(thread);
        if (!item.valid)
            return {{0, 0}};
        int parity = item.parity;
        Site x = lattice.site(parity, item.i);
        auto product = link_along(lattice, u, x, parity, path.steps[0]);
        for (int k = 1; k < path.length; ++k) {
            x = walk(lattice, x, path.steps[k - 1]), parity = 1 - parity;
            product = product * link_along(lattice, u, x, parity, path.steps[k]);
        }
        return {{product.e[0][0].re + product.e[1][1].re + product.e[2][2].re,
                 product.e[0][0].im + product.e[1][1].im + product.e[2][2].im}};
    }
};

} // namespace

std::array<int, 4> LoopPath::end() const {
    std::array<int, 4> x{};
    for (int k = 0; k < length; ++k)
        x[axis(steps[k])] += is_back(steps[k]) ? -1 : 1;
    return x;
}

int LoopPath::reach(int mu) const {
    int x = 0, reach = 0;
    for (int k = 0; k < length; ++k)
        if (axis(steps[k]) == mu) {
            x += is_back(steps[k]) ? -1 : 1;
            reach = std::max(reach, std::abs(x));
        }
    return reach;
}

// Equal at all sites: phases give -1 for each plaquette that the loop encloses, and for each turn around the time
// direction.
int LoopPath::sign(const std::array<int, 4> &whole) const {
    int x[4] = {}, odd = 0;
    for (int k = 0; k < length; ++k) {
        const int mu = axis(steps[k]);
        if (is_back(steps[k]))
            x[mu] = (x[mu] + whole[mu] - 1) % whole[mu];
        odd += mu == 3 ? x[3] == whole[3] - 1 : mu == 0 ? x[3] : mu == 1 ? x[3] + x[0] : x[3] + x[0] + x[1];
        if (!is_back(steps[k]))
            x[mu] = (x[mu] + 1) % whole[mu];
    }
    return odd % 2 != 0 ? -1 : 1;
}

Complex<double> loop_trace(Device &device, const WideBox &box, const LinkField &u, const LoopPath &path, Signs signs) {
    const SitesAndParts work = box.work(1);
    Sums<2> sums = {};
    for_real(u.precision(), [&](auto p) {
        constexpr Precision precision = decltype(p)::value;
        const LoopTrace<precision> body{box.wide().lattice(), work, MatrixView<precision>(u), path};
        sums = sum_to_host<2>(device, work.threads(), body, "loop traces");
    });
    const int sign = signs == Signs::phases_in ? path.sign(box.box().global_extents()) : 1;
    const double all = sign * box.box().global_volume();
    return {sums.v[0] / all, sums.v[1] / all};
}

} // namespace milcgpu
