// What the start of the plugin does for several ranks.
#pragma once
#include "milc_glue/routines/state.h"

namespace milcgpu {

// From now on all ranks decide together. Throws Error(bad_argument) if a table cannot be used.
void join_ranks(Plugin &, const milcgpu_milc &);

// Gives all ranks the settings of rank 0, except MILCGPU_DEVICE. Returns what is wrong with one; empty: nothing.
std::string take_settings(Plugin &);

// Fills the layout of the library with this rank's box.
void take_lattice(Plugin &, const milcgpu_milc &);

// Why this cut of the lattice cannot be served, and a cut that can; empty: this cut can.
std::string refusal_of_cut(const milcgpu_milc &);

// Into how many boxes X Y Z T are cut for so many ranks, with at least `least` sites in every cut direction: the cut
// with the smallest faces; among equal ones T is cut first and X last. 0 0 0 0: there is no such cut.
std::array<int, 4> best_cut(const int whole[4], int ranks, int least);

// One line for each rank: its host, box and device. All ranks call it.
std::string rank_table(Plugin &);

} // namespace milcgpu
