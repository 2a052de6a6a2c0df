/* Every file of the glue includes this last: for its section of routines.def, MILC's own routines __real_X, and the
 * replacements __wrap_X. X itself is declared, too, so the compiler stops if MILC declares it otherwise. */
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
#define MILCGPU_CALLED(result, routine, arguments) result routine arguments __attribute__((weak));
#include "routines.def"

#endif
