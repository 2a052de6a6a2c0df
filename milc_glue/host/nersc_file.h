// The head of a gauge file in NERSC's archive format: lines KEY = VALUE between BEGIN_HEADER and END_HEADER, then for
// each site, x fastest, the links of x, y, z, t, row by row. A file without its third rows (DATATYPE 4D_SU3_GAUGE)
// holds 12 reals a link; the third row is the complex conjugate of the cross product of the first two.
//
// CHECKSUM is the sum of the data's words of 32 bits modulo 2^32; a number of 64 bits is two words. PLAQUETTE is the
// mean of Re tr / 3 of all plaquettes, LINK_TRACE the mean of Re tr / 3 of all links.
#pragma once
#include "milc_glue/host/gauge_file.h"
#include "milc_glue/host/lime.h"

namespace milcgpu {

constexpr char nersc_start[] = "BEGIN_HEADER\n";

// Throws Error(bad_argument) if the head is not of a gauge field of SU(3), or the file is shorter than it says.
SiteFileHead nersc_head(const FileBytes &file);

// The head, which has the same size whatever its numbers are.
std::string nersc_front(const std::array<int, 4> &extents, const GaugeForm &form, uint32_t checksum);

} // namespace milcgpu
