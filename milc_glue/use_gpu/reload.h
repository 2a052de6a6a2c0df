/* MILC's loops over the links in its sites, run by all threads of the host if possible. Results have MILC's bits; with
 * -ffast-math, reunitarized links may differ in the last bits. */
#ifndef MILCGPU_GLUE_RELOAD_H
#define MILCGPU_GLUE_RELOAD_H

#include "glue.h"

void milcgpu_host_plaquettes(double *space, double *time); /* d_plaquette */
void milcgpu_host_rephase(int flag);                       /* rephase */
/* reload_lattice calls begin, with its flag, before MILC's own, and end after it; d_plaquette, which MILC's own calls,
 * calls end before everything else. */
void milcgpu_begin_warm(int flag);
void milcgpu_end_warm(void);

/* Tells the certificate what d_plaquette has returned. */
static inline void milcgpu_note_plaquettes(double space, double time) {
    const double sign = phases_in == ON ? -1 : 1, numbers[2] = {sign * space, sign * time};
    milcgpu_plugin_lattice_is(numbers, NULL);
}

#endif
