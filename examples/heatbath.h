// Quenched SU(3) with Wilson's plaquette action, S = -beta/3 sum_P Re tr U_P: gauge fields that look like real ones, so
// that solver figures mean something. Every random number is a hash of (seed, sweep, link, draw): a field
// depends on its parameters alone, not on the number of threads.
#pragma once

#include <cstdint>
#include <functional>

#include "tests/reference/lattice.h"
#include "tests/reference/su3.h"

namespace examples {

// Extents must be even (two colours of sites), else std::invalid_argument.
void heatbath_sweep(const reference::Lattice &lattice, reference::Gauge &links, double beta, std::uint64_t seed,
                    int sweep_number);

// Microcanonical: the action stays as it is.
void overrelax_sweep(const reference::Lattice &lattice, reference::Gauge &links);

// Called after each sweep with its number (from 1) and the field.
using Progress = std::function<void(int sweep, const reference::Gauge &links)>;

// A field from a unit (cold) start after `sweeps` heat-bath sweeps, each with its over-relaxation sweeps after it.
reference::Gauge thermalized(const reference::Lattice &lattice, double beta, std::uint64_t seed, int sweeps,
                             int overrelax_per_sweep, const Progress &progress = {});

} // namespace examples
