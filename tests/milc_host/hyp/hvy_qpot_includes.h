/* The types, globals and routines of MILC's program of HYP-smeared Wilson loops that the glue uses, with MILC's names.
 */
#ifndef HVY_QPOT_INCLUDES_H
#define HVY_QPOT_INCLUDES_H

#include "types.h"

typedef struct {
    short x, y, z, t;
    char parity;
    su3_matrix link[4];
} site;

#include "layout.h"

#endif
