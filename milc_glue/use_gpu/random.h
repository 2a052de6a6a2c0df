/* MILC's random numbers, drawn by all threads of the host: those of a site are its own (site_prn), so the order of the
 * sites does not matter. Not on the device: the logarithm of a normal number has the C library's last bit. */
#ifndef MILCGPU_GLUE_RANDOM_H
#define MILCGPU_GLUE_RANDOM_H

#include "glue.h"

#if defined(SITERAND) && !defined(OLD_GAUSSRAND) && !defined(SCHROED_FUN)
#define MILCGPU_DRAWS 1
#endif

/* Where random sources are drawn before they are asked for: dest becomes the next one. 0: none is there, and none was
 * drawn. draw(dest, parity) draws one. NULL: each is drawn as it is asked for. */
extern int (*milcgpu_drawn_ahead)(su3_vector *dest, int parity, void (*draw)(su3_vector *, int));

/* part(what, from, to) draws those of the sites first + from ... first + to - 1, into `bytes` bytes of each site of
 * `field`, which are `pitch` bytes apart. 0: MILC's own is to draw them. In compare mode it has been called, too, with
 * `own`. */
int milcgpu_draws(milcgpu_routine row, size_t first, size_t n, int (*part)(void *, size_t, size_t), void (*own)(void *),
                  void *what, void *field, size_t pitch, size_t bytes);

#endif
