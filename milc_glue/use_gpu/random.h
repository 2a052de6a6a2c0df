/* MILC's random numbers, drawn by all threads of the host. Each site has a generator of its own (site_prn), so the
 * order of the sites does not matter. Not on the device: the logarithm of a normal number has the C library's last bit.
 */
#ifndef MILCGPU_GLUE_RANDOM_H
#define MILCGPU_GLUE_RANDOM_H

#include "glue.h"

#if defined(SITERAND) && !defined(OLD_GAUSSRAND) && !defined(SCHROED_FUN)
#define MILCGPU_DRAWS 1
#endif

/* Random sources that were drawn before MILC asks for them: copies the next one to dest, and draws more by
 * draw(dest, parity) if none is left. Returns 0 if there is none. NULL: each is drawn when MILC asks for it. */
extern int (*milcgpu_drawn_ahead)(su3_vector *dest, int parity, void (*draw)(su3_vector *, int));

typedef struct {
    milcgpu_routine row;
    const char *name;
    size_t first, n;                                 /* the sites first ... first + n - 1 */
    int (*part)(void *what, size_t from, size_t to); /* draws for the sites first + from ... first + to - 1 */
    void (*own)(void *what);                         /* MILC's routine */
    void *what;
} milcgpu_drawing;

/* Draws into `field`, by all threads or, for a reason (why_own), by MILC's own routine. */
void milcgpu_draw(const milcgpu_drawing *drawing, milcgpu_output field, const char *why_own);

#endif
