/* What each file of the glue includes last: MILC's own routines of its section of routines.def, __real_X, and those
 * that take their place, __wrap_X. X itself is declared here, too: a compiler that has seen MILC's declaration stops
 * where the two differ. */
#ifndef MILCGPU_GLUE_ROUTINES_H
#define MILCGPU_GLUE_ROUTINES_H

#include "glue.h"

#define MILCGPU_OF_LIBC(result, routine, arguments)                                                                    \
    result __real_##routine arguments;                                                                                 \
    result __wrap_##routine arguments;
#define MILCGPU_WRAPPED(result, routine, arguments)                                                                    \
    result routine arguments;                                                                                          \
    result __real_##routine arguments __attribute__((weak));                                                           \
    result __wrap_##routine arguments;
#define MILCGPU_OF_PROGRAM MILCGPU_WRAPPED
#define MILCGPU_WHY(row, reason)
#define MILCGPU_CALLED(result, routine, arguments) result routine arguments __attribute__((weak));
#include "routines.def"

#endif
