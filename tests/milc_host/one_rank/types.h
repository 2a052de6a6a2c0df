/* Types that all of MILC's programs have, to be included before `site`. */
#ifndef TYPES_H
#define TYPES_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { XUP, YUP, ZUP, TUP, NODIR = -1 };
#define node0_printf                                                                                                   \
    if (this_node == 0)                                                                                                \
    printf /* as in MILC: an else behind it may be its own */

typedef double Real;
typedef struct {
    Real real, imag;
} complex;
typedef struct {
    complex c[3];
} su3_vector;
typedef struct {
    complex e[3][3];
} su3_matrix;

#endif
