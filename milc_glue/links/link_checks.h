// Checks of links that are loaded, and arguments that several entries for making links share.
#pragma once
#include "gpu_kernels/gauge/links/fermion_links.h"
#include "milc_glue/api/context.h"
#include "reorder/link_reorder.h"

namespace milcgpu {

// Throws Error(bad_argument) if all are 0.
PathCoefficients coefficients(const milcgpu_paths &paths, const char *what);
// The limits, with MILC's defaults for those that are 0.
UnitarizeSpec unitarize_spec(const milcgpu_fatlink_spec &spec);
// "x y z t = 0 0 0 1" of a site of the caller's fields, which the caller counts as k.
std::string place_of_record(const milcgpu_context &, size_t k);
// Throws Error(nan_or_inf) or Error(bad_argument) with the place if links are not finite or not unitary. limit: for an
// element of |U U^dag - 1|; 0: 1e-4, negative: not tested. phases: for the signs of the links; nullptr: signs are not
// tested.
LinkStatistics checked_gauge_field(Device &, const Geometry &, const LinkField &u, double limit,
                                   const Phases *phases = nullptr);

// The signs that a call assumes.
struct SaidSigns {
    Signs signs;
    const char *otherwise; // what to do if the signs differ
    // The boundary sign must be as said, too, because the call removes it or multiplies it in.
    bool boundary = false;
};
// Throws Error(bad_argument) with what was found, and where, if the links clearly have the other signs. Fields of
// neither kind are accepted.
void need_signs(Device &, const Geometry &, const LinkField &u, const LinkSigns &found, const Phases &,
                const SaidSigns &);

} // namespace milcgpu
