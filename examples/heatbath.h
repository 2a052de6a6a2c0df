// Quenched SU(3) with Wilson's plaquette action, S = -beta/3 sum_P Re tr U_P: gauge fields that look like real ones, so
// that solver figures mean something. Every random number is a hash of (seed, sweep, link, draw): a field
// depends on its parameters alone, not on the number of threads or ranks.
#pragma once

#include <cstdint>
#include <functional>

#include "examples/link_box.h"

namespace examples {

// Each is a call of all ranks that share the lattice.
void heatbath_sweep(LinkBox &box, double beta, std::uint64_t seed, int sweep_number);
// Microcanonical: the action stays as it is.
void overrelax_sweep(LinkBox &box);

// Called after each sweep with its number (from 1).
using Progress = std::function<void(int sweep, const LinkBox &box)>;

// `sweeps` heat-bath sweeps, each with its over-relaxation sweeps after it.
void thermalize(LinkBox &box, double beta, std::uint64_t seed, int sweeps, int overrelax_per_sweep,
                const Progress &progress = {});
// The same from a unit (cold) start, of a whole lattice on one rank.
reference::Gauge thermalized(const reference::Lattice &lattice, double beta, std::uint64_t seed, int sweeps,
                             int overrelax_per_sweep, const Progress &progress = {});

} // namespace examples
