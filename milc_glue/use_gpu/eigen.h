/* Eigenvectors of -D^2 in MILC's eigVec and on the device (eigen.c): what solves need of them. */
#ifndef MILCGPU_GLUE_EIGEN_H
#define MILCGPU_GLUE_EIGEN_H

#include "glue.h"

#include "../include/imp_ferm_links.h"

/* Whether the input requests deflation. */
int milcgpu_deflates(const quark_invert_control *qic);
/* Whether the input requests deflation and the device has the vectors. Vectors that MILC has read from a file are
 * loaded. both: also on odd sites, if memory allows. */
int milcgpu_has_eigenvectors(const quark_invert_control *qic, int both);
/* Call it before one of MILC's own routines with this control: fills MILC's eigVec if the routine reads it. If the
 * vectors are lost, it switches deflation off in `qic` and returns 1. */
int milcgpu_eigenvectors_for_milc(quark_invert_control *qic);

/* Whether the device has the input's vectors, on even sites. If it returns 1, the caller gives `links` back. */
int milcgpu_eigenvectors_ready(milcgpu_plugin_eigen_call *vectors, imp_ferm_links_t **links);
void milcgpu_give_back_links(imp_ferm_links_t *links);

/* Fills MILC's eigVec; ends the run if its content is lost. */
void milcgpu_need_eigenvectors(void);

#endif
