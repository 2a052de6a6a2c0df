// Rows of the table. make compiles this file once for each part of the table (objects.mk): MILCGPU_ROWS is a function
// of wilson_stencil.h that adds rows, MILCGPU_WHERE the kind of lattice that they are for.
#include "gpu_kernels/wilson/wilson_stencil.h"

template void milcgpu::MILCGPU_ROWS<milcgpu::MILCGPU_WHERE>(std::vector<milcgpu::WilsonKernel> &);
