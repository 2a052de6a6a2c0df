/* MILC's routines of measurements, as this glue knows them: develop's, or master's with MILCGPU_MASTER. MILC's own
 * headers declare them, too: where a version of MILC has others, this does not compile, and the make fragment leaves
 * them to MILC (mesons_probe.c).
 *
 * On master fields that are read are not const, the operator with fermion links has another name, and shifts are inside
 * its file. APE links have no phases between calls. Correlators are of this rank's sites: the caller adds ranks up. */
#ifndef MILCGPU_GLUE_MESONS_H
#define MILCGPU_GLUE_MESONS_H

#include "links.h" /* with MILC's types, before */

#include "../include/imp_ferm_links.h"

#ifdef MILCGPU_MASTER
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
void shift_field(int dir, enum shift_dir fb, su3_vector *dest, const su3_vector *const src,
                 const su3_matrix *const links, int *refresh_links);
#endif

void ks_meson_cont_mom(complex **prop, su3_vector *src1, su3_vector *src2, int no_q_momenta, int **q_momstore,
                       char **q_parity, int no_spin_taste_corr, int num_corr_mom[], int **corr_table, int p_index[],
                       imp_ferm_links_t *fn_src1, imp_ferm_links_t *fn_src2, int spin_taste_snk[], int meson_phase[],
                       Real meson_factor[], MILCGPU_NUMBER(int num_corr) int corr_index[], int r0[]);
void spin_taste_op(int index, int r0[], su3_vector *dest, milcgpu_read_vector *src);
void spin_taste_op_ape_fn(imp_ferm_links_t *fn, int index, int r0[], su3_vector *dest, milcgpu_read_vector *src);
void gauss_smear_v_field(su3_vector *src, su3_matrix *t_links, Real width, int iters, int t0);
void laplacian_v_field(su3_vector *src, su3_matrix *t_links, int t0);
void rephase_field_offset(su3_matrix *links, int flag, int *status_now, int r0[]);

#endif
