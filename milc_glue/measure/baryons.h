// Baryons of quarks whose vectors need not be consecutive, such as MILC's propagators. Otherwise these are the
// functions of milcgpu_baryons.h.
#pragma once
#include "milc_glue/api/milcgpu_baryons.h"

namespace milcgpu {

// A vector for each source colour. If `of` is NULL, the vector is absent; a function needs only the vectors that it
// reads.
struct QuarkColours {
    milcgpu_vector colour[3];
};

// Quark f needs its source colour f.
milcgpu_status baryon_nucleon(milcgpu_context *, const QuarkColours quarks[3], double *correlator);
milcgpu_status baryon_delta(milcgpu_context *, const QuarkColours &quark, double *correlator);
// flops: of the tie-ups on this rank.
milcgpu_status gb_correlate(milcgpu_context *, const milcgpu_gb_spec *, const QuarkColours octets[24],
                            double *correlators, double *flops);

// What a term reads. Bit s of source[f]: corner s of octet f; bit k of sink[f]: its shifts to corner k.
struct GbCorners {
    unsigned source[3] = {}, sink[3] = {};
};
// Throws Error(bad_argument).
GbCorners corners_of(const milcgpu_gb_spec &, const milcgpu_gb_term &);

} // namespace milcgpu
