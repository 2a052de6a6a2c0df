/* The types, globals and routines of a staggered MILC program that the glue uses, with MILC's names. */
#ifndef GENERIC_KS_INCLUDES_H
#define GENERIC_KS_INCLUDES_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#if MILC_PRECISION == 1
typedef float Real;
#else
typedef double Real;
#endif

enum { ODD = 1, EVEN = 2, EVENANDODD = 3 };
enum { XUP, YUP, ZUP, TUP };

typedef struct {
    Real real, imag;
} complex_number;
typedef struct {
    complex_number c[3];
} su3_vector;
typedef struct {
    complex_number e[3][3];
} su3_matrix;

typedef struct {
    short x, y, z, t;
    char parity;
    su3_matrix link[4];
    su3_vector phi, xxx;
    double other[7]; /* what else a site holds */
} site;
typedef int field_offset;
#define F_OFFSET(member) ((field_offset)offsetof(site, member))
#define F_PT(s, offset) ((char *)(s) + (offset))

typedef struct {
    int prec, max, nrestart, parity;
    Real resid, relresid;
    Real final_rsq, final_relrsq, size_r, size_relr;
    int converged, final_iters, final_restart;
} quark_invert_control;

typedef struct {
    Real mass, offset, residue;
    int naik_term_epsilon_index;
    Real naik_term_epsilon;
} ks_param;

typedef struct {
    double bdry_phase[4];
} link_phase_info_t;

typedef struct {
    link_phase_info_t *phase;
    su3_matrix *fat, *lng, *fatback, *lngback;
    double eps_naik;
} fn_links_t;
typedef fn_links_t imp_ferm_links_t;

extern site *lattice;
extern int nx, ny, nz, nt, this_node, total_iters, phases_in;
extern size_t volume, sites_on_node, even_sites_on_node;

size_t node_index(int x, int y, int z, int t);
int numnodes(void);
int mynode(void);
void terminate(int status);

void report_status(quark_invert_control *qic);
int ks_congrad_parity_cpu(su3_vector *src, su3_vector *dest, quark_invert_control *qic, Real mass,
                          imp_ferm_links_t *fn);
int ks_congrad_block_parity_cpu(int nsrc, su3_vector **src, su3_vector **dest, quark_invert_control *qic, Real mass,
                                imp_ferm_links_t *fn);
int ks_congrad_site(field_offset src, field_offset dest, quark_invert_control *qic, Real mass, imp_ferm_links_t *fn);
int ks_congrad(field_offset src, field_offset dest, Real mass, int niter, int nrestart, Real rsqmin, int prec,
               int parity, Real *final_rsq, imp_ferm_links_t *fn);
int ks_multicg_offset_field_cpu(su3_vector *src, su3_vector **psim, ks_param *ksp, int num_offsets,
                                quark_invert_control *qic, imp_ferm_links_t *fn);
void dslash_fn_field(su3_vector *src, su3_vector *dest, int parity, imp_ferm_links_t *fn);
su3_matrix *create_G_from_site(void);

#endif
