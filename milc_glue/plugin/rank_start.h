// What the start of the plugin does for several ranks.
#pragma once
#include "milc_glue/plugin/state.h"

namespace milcgpu {

// From now on all decisions are those of all ranks. Throws Error(bad_argument) where a table cannot be used.
void join_ranks(Plugin &, const milcgpu_milc &);

// The settings of rank 0, on all ranks, but for MILCGPU_DEVICE. Returns what is wrong with one; empty: nothing.
std::string take_settings(Plugin &);

// This rank's box, into the layout for the library.
void take_lattice(Plugin &, const milcgpu_milc &);

// Why a lattice that is cut like this cannot be served, and a cut that can; empty: it can.
std::string refusal_of_cut(const milcgpu_milc &);

// The numbers of cuts of X Y Z T for so many ranks that leave boxes of at least `least` sites in every cut direction:
// the smallest faces, and of equal ones those that cut T first and X last. 0 0 0 0: there is none.
std::array<int, 4> best_cut(const int whole[4], int ranks, int least);

// A line a rank: its host, box and device. All ranks call it.
std::string rank_table(Plugin &);

} // namespace milcgpu
