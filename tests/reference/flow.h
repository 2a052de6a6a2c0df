// Gradient flow, stout smearing and the observables of the flow, straight from their definitions. All links are without
// phases.
#pragma once

#include "tests/reference/lattice.h"
#include "tests/reference/su3.h"

namespace reference {

struct FlowObservables {
    double clover_t, clover_s, plaquette_t, plaquette_s, rectangle_t, rectangle_s, charge;
};
// Each leaf, plaquette and rectangle is a product of its own links.
FlowObservables flow_observables(const Lattice &lattice, const Gauge &links);

// The action of the flow: plaquettes and rectangles, and a weight for loops of spatial links that extend along t.
struct FlowAction {
    double plaquette, rectangle, time_weight;
};
inline FlowAction wilson_flow() { return {1, 0, 1}; }
inline FlowAction symanzik_flow() { return {5.0 / 3, -1.0 / 12, 1}; }

// Z = TA(U S^dagger) with S the sum over all staples, each a product of its three or five links.
Gauge flow_derivative(const Lattice &lattice, const Gauge &links, const FlowAction &action);

// exp of any matrix: Taylor's series for a / 2^k, squared k times.
Matrix exponential(const Matrix &a);
// exp(factor z) u for each link
Gauge move(const Gauge &links, const Gauge &z, double factor);

// Luescher's step in his own form, arXiv:1006.4518, appendix C.
Gauge luescher_step(const Lattice &lattice, const Gauge &links, const FlowAction &action, double eps);

// Morningstar, Peardon, hep-lat/0311018, eqs. (1) to (3), with rho in `directions` directions (3: space, 4: all).
Gauge stout(const Lattice &lattice, const Gauge &links, double rho, int directions);

// A constant Abelian field on the torus: n_xy and n_zt quanta of flux in the third Pauli matrix of the first two
// colours. Every plaquette turns by 2 pi n / area, and the flow leaves the field as it is.
Gauge constant_flux(const Lattice &lattice, int n_xy, int n_zt);

// An instanton of radius rho in the first two colours, in singular gauge, centred between sites. A link integrates the
// potential along itself, by the midpoints of eight parts.
Gauge instanton(const Lattice &lattice, double rho);

} // namespace reference
