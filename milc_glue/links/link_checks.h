// What links are asked when they come, and arguments of the link making that other entries take, too.
#pragma once
#include "gpu_kernels/gauge/links/fermion_links.h"
#include "milc_glue/api/context.h"
#include "reorder/link_reorder.h"

namespace milcgpu {

// Throws Error(bad_argument) where all are 0.
PathCoefficients coefficients(const milcgpu_paths &paths, const char *what);
// As given, with MILC's defaults where a limit is 0.
UnitarizeSpec unitarize_spec(const milcgpu_fatlink_spec &spec);
// "site 12 (even sites first, then odd), direction Z"
std::string place_of_link(long long link);
// Throws Error(nan_or_inf) or Error(bad_argument) with the place where links are not finite or not unitary. limit: of
// an element of |U U^dag - 1|; 0: 1e-4, negative: not tested.
// phases: for the signs of the links; nullptr: these are not looked at.
LinkStatistics checked_gauge_field(Device &, const Geometry &, const LinkField &u, double limit,
                                   const Phases *phases = nullptr);

// What a call takes links for.
struct SaidSigns {
    Signs signs;
    const char *otherwise; // what to do where they are others
    // The boundary sign has to be as said, too: the call takes it out, or puts it in.
    bool boundary = false;
};
// Throws Error(bad_argument) with what was found, and where, if the links are clearly of the other kind. Fields of
// neither kind are taken as they are.
void need_signs(Device &, const Geometry &, const LinkField &u, const LinkSigns &found, const Phases &,
                const SaidSigns &);

} // namespace milcgpu
