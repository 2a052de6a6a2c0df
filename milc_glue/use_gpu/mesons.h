/* MILC's routines of measurements, as develop has them, or as master has them (MILCGPU_MILC 1).
 *
 * On master, input fields are not const, the operator with fermion links has another name, and shifts are inside its
 * file. APE links have no phases between calls. Correlators sum over this rank's sites; the caller adds the ranks. */
#ifndef MILCGPU_GLUE_MESONS_H
#define MILCGPU_GLUE_MESONS_H

#include "links.h" /* needs MILC's types before it */

#include "../include/imp_ferm_links.h"

#if MILCGPU_MILC == 1
#define MILCGPU_IS_MASTER 1
#define MILCGPU_NUMBER(declared)
typedef su3_vector milcgpu_read_vector;
#define spin_taste_op_ape_fn spin_taste_op_fn
#define __real_spin_taste_op_ape_fn __real_spin_taste_op_fn
#define __wrap_spin_taste_op_ape_fn __wrap_spin_taste_op_fn
#else
#define MILCGPU_IS_MASTER 0
#define MILCGPU_NUMBER(declared) declared,
typedef const su3_vector milcgpu_read_vector;
#endif

/* As in MILC's routine: the first operator puts the phases in, and they stay. */
void milcgpu_phases_into_ape_links(int *r0);
int milcgpu_ape_links_have_phases(void);

#endif
