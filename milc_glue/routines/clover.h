// What the comparison asks of solves with MILC's clover matrix.
#pragma once
#include "milc_glue/routines/state.h"
#include <cmath>

namespace milcgpu {

// |b - M x| / |b| of the system of the even sites, and MILC's relative residual; NaN if the solution has NaN. Throws if
// they could not be computed.
struct TrueResiduals {
    double residual = NAN, relative = NAN;
};
TrueResiduals clover_residuals(Plugin &, const milcgpu_plugin_clover_call &, const milcgpu_field &solution);

} // namespace milcgpu
