// Molecular dynamics of the links: forces of the fermions and of the gauge action, momenta, updates. The formulas are
// MILC's (its RHMC: Clark, Kennedy, hep-lat/0409134; forces by differentiation of the link construction).
//
// Links U_mu(x) carry the staggered phases and the boundary sign; e(x) is 1 on even and -1 on odd sites. Momenta H are
// traceless and anti-Hermitian, dU/dt = H U.
//
// A derivative q of a real function S by a field of links V is stored as a link is, from x to x+mu:
//   dS = 2 Re sum tr(q^dag dV).
// In this form the derivative by the middle link of a staple is a staple of q, so that the kernels of the fat links
// serve both ways.
//
// All fields: both parities, 4 directions, double or single, one precision a call; matrices have 18 reals. Every
// operation here is one file, with its bytes and flops a site beside it.
#pragma once
#include "gpu_kernels/links/links.h"
#include <vector>

namespace milcgpu {

// ---- momenta: 4 a site, 10 reals each (momentum_view.h)
constexpr int momentum_reals = 10;
inline LinkField momenta(Device &device, Precision precision, const Geometry &geometry) {
    return LinkField(device, precision, momentum_reals, geometry, "momenta");
}

// H += factor TA(U q^dag), TA(A) = (A - A^dag) / 2 - trace / 3: what a derivative by the links does to the momenta.
void add_force(Device &, const Geometry &, const LinkField &u, const LinkField &q, double factor,
               const LinkField &momenta);
double add_force_bytes(Precision);
constexpr double add_force_flops = 4 * (198 + 24 + 20); // a site

} // namespace milcgpu
