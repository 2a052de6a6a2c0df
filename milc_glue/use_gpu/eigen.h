/* Eigenvectors of -D^2 in MILC's eigVec, and on the device: eigen.c; what solves ask of them. */
#ifndef MILCGPU_GLUE_EIGEN_H
#define MILCGPU_GLUE_EIGEN_H

#include "glue.h"

#include "../include/imp_ferm_links.h"

/* Whether the input asks for deflation. */
int milcgpu_deflates(const quark_invert_control *qic);
/* The same, and the device has the vectors; they are loaded where MILC has read them from a file. both: for odd sites,
 * too, if there is room. */
int milcgpu_has_eigenvectors(const quark_invert_control *qic, int both);
/* MILC's own routine is next, with this control: MILC's eigVec is filled if it reads it. Where vectors are lost it is
 * told not to deflate: 1. */
int milcgpu_eigenvectors_for_milc(quark_invert_control *qic);

/* The device has those of the input, on even sites. Their links, to be given back where this returns 1. */
int milcgpu_eigenvectors_ready(milcgpu_plugin_eigen_call *vectors, imp_ferm_links_t **links);
void milcgpu_give_back_links(imp_ferm_links_t *links);

/* MILC's eigVec is filled; ends the run where what belongs there is lost. */
void milcgpu_need_eigenvectors(void);

#endif
