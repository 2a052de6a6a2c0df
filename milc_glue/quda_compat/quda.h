/* MILC includes this header and uses nothing of it. */
#ifndef MILCGPU_QUDA_H
#define MILCGPU_QUDA_H
#include "enum_quda.h"
#endif
