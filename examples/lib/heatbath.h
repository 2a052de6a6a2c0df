// Quenched SU(3) with Wilson's plaquette action, S = -beta/3 sum_P Re tr U_P: realistic gauge fields, so that timings
// of solvers are meaningful. Every random number is a hash of (seed, sweep, link, draw), so a field depends only on its
// parameters, not on the number of threads or ranks.
#pragma once

#include <cstdint>
#include <functional>

#include "examples/lib/link_box.h"

namespace examples {

// All ranks that share the lattice must call these functions.
void heatbath_sweep(LinkBox &box, double beta, std::uint64_t seed, int sweep_number);
// Microcanonical: the action does not change.
void overrelax_sweep(LinkBox &box);

// Called after each sweep with its number (from 1).
using Progress = std::function<void(int sweep, const LinkBox &box)>;

// `sweeps` heat-bath sweeps, each followed by its over-relaxation sweeps.
void thermalize(LinkBox &box, double beta, std::uint64_t seed, int sweeps, int overrelax_per_sweep,
                const Progress &progress = {});
// The same from a unit (cold) start, of a whole lattice on one rank.
reference::Gauge thermalized(const reference::Lattice &lattice, double beta, std::uint64_t seed, int sweeps,
                             int overrelax_per_sweep, const Progress &progress = {});

} // namespace examples
