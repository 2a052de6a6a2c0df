/* MILC's random numbers, drawn by all threads of the host. Each site has its own generator (site_prn), so the order of
 * the sites does not matter. The device does not draw them, because the logarithm in a normal number must have the last
 * bit of the C library's. */
#ifndef MILCGPU_GLUE_RANDOM_H
#define MILCGPU_GLUE_RANDOM_H

#include "glue.h"

#if defined(SITERAND) && !defined(OLD_GAUSSRAND) && !defined(SCHROED_FUN)
#define MILCGPU_DRAWS 1
#endif

/* Random sources that were drawn before MILC requests them: copies the next one to dest. If none is left, draw(dest,
 * parity) draws more. Returns 0 if there is none. NULL: each source is drawn when MILC requests it. */
extern int (*milcgpu_drawn_ahead)(su3_vector *dest, int parity, void (*draw)(su3_vector *, int));

typedef struct {
    milcgpu_routine row;
    const char *name;
    size_t first, n;                                 /* the sites first ... first + n - 1 */
    int (*part)(void *what, size_t from, size_t to); /* draws for the sites first + from ... first + to - 1 */
    void (*own)(void *what);                         /* MILC's routine */
    void *what;
} milcgpu_drawing;

/* Draws into `field` with all threads, or with MILC's own routine if why_own gives a reason. */
void milcgpu_draw(const milcgpu_drawing *drawing, milcgpu_output field, const char *why_own);

#endif
