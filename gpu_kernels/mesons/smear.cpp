// Gaussian smearing: the loop over applications of the Laplacian.
#include "gpu_kernels/mesons/mesons.h"

namespace milcgpu {

Neighbours in_space(LinkProducts &products, const LinkField &u, int hop, double a, double b, int slice) {
    Neighbours what;
    what.links = hop == 2 ? &products.two_links() : &u;
    what.steps = {{hop, 0, 0, 0}, {0, hop, 0, 0}, {0, 0, hop, 0}};
    what.self = a, what.neighbours = b, what.slice = slice;
    return what;
}

bool smear(Device &device, const Geometry &geometry, LinkProducts &products, const LinkField &u, int hop, double width,
           int steps, int slice, const FullVectors &x, const FullVectors &room) {
    const double weight = width * width / (4.0 * steps * hop * hop);
    const Neighbours what = in_space(products, u, hop, 1 - 6 * weight, weight, slice);
    for (int k = 0; k < steps; ++k)
        sum_neighbours(device, geometry, what, k % 2 == 0 ? x : room, k % 2 == 0 ? room : x);
    return steps % 2 != 0;
}

} // namespace milcgpu
