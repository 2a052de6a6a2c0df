// Gaussian smearing: the loop over applications of the Laplacian.
#include "gpu_kernels/halo/halo.h"
#include "gpu_kernels/measure/quark_operators.h"

namespace milcgpu {

Neighbours in_space(LinkProducts &products, const LinkField &u, int hop, double a, double b, int slice) {
    Neighbours what;
    what.links = hop == 2 ? &products.two_links() : &u;
    what.steps = {{hop, 0, 0, 0}, {0, hop, 0, 0}, {0, 0, hop, 0}};
    what.self = a, what.neighbours = b, what.slice = slice;
    return what;
}

namespace {

// All steps are on the wide box, and the last one writes to the box.
void smear_cut(Device &device, Halo &halo, const WideBox &box, const Neighbours &what, int steps,
               const FullVectors &x) {
    const MarginPart part = margin_of(what, box.box());
    const AroundVectors first(device, &halo, box, x, part),
        second = steps > 1 ? AroundVectors(device, box, x) : AroundVectors();
    for (int k = 0; k < steps; ++k) {
        const FullVectors &from = (k % 2 == 0 ? first : second).vectors(),
                          &to = (k % 2 == 0 ? second : first).vectors();
        const bool last = k + 1 == steps;
        sum_neighbours(device, box, what, from, last ? x : to, !last);
        if (!last)
            halo.fill_margin(to, box, part);
    }
}

} // namespace

bool smear(Device &device, Halo *halo, const WideBox &box, LinkProducts &products, const LinkField &u,
           const Smearing &how, const FullVectors &x, const FullVectors &scratch) {
    const int steps = how.steps;
    const double weight = how.width * how.width / (4.0 * steps * how.hop * how.hop);
    const Neighbours what = in_space(products, u, how.hop, 1 - 6 * weight, weight, how.slice);
    if (halo != nullptr) {
        smear_cut(device, *halo, box, what, steps, x);
        return false;
    }
    for (int k = 0; k < steps; ++k)
        sum_neighbours(device, box, what, k % 2 == 0 ? x : scratch, k % 2 == 0 ? scratch : x);
    return steps % 2 != 0;
}

} // namespace milcgpu
