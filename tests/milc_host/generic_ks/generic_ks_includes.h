/* The types, globals and routines of a staggered MILC program that the glue uses, with MILC's names. */
#ifndef GENERIC_KS_INCLUDES_H
#define GENERIC_KS_INCLUDES_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

#if MILC_PRECISION == 1
typedef float Real;
#else
typedef double Real;
#endif

enum { ODD = 1, EVEN = 2, EVENANDODD = 3 };
enum { XUP, YUP, ZUP, TUP };
#define OPP_DIR(d) (7 - (d))
enum { OFF, ON };
#define MAXFILENAME 256
#define node0_printf                                                                                                   \
    if (this_node == 0)                                                                                                \
    printf /* as in MILC: an else behind it may be its own */

typedef struct {
    Real real, imag;
} complex_number;
typedef complex_number complex;
typedef struct {
    double real, imag;
} double_complex;
typedef struct {
    complex_number c[3];
} su3_vector;
typedef struct {
    complex_number e[3][3];
} su3_matrix;
#include "../include/io_lat.h"
typedef double_complex dcomplex;
typedef struct {
    int nc;
    su3_vector **v;
} ks_prop_field;
ks_prop_field *create_ksp_field(int nc);
double dclock(void);
void print_timing(double dtime, const char *str);

#ifndef MILC_HOST_MASTER /* which has no Golterman-Bailey baryons */
#define GB_BARYON
#define NO_SINK_LINKS
#ifdef MILC_HOST_NEWER
#define GB_BARYON_MMAP
#endif
typedef struct {
    ks_prop_field *corners[8];
} mmap_cache;
void create_qk_oct_cache(ks_prop_field **qko, int qknum, int r0[], su3_matrix *links);
void destroy_qk_oct_cache(int qknum);
mmap_cache *get_qk_cache_pointer(int qknum);
void assign_qk_cache_pointer(mmap_cache *qcache, int qknum);
void blind_vdcomplex(dcomplex v[], int veclen);
#endif

typedef struct {
    su3_vector d[4];
} wilson_vector;
typedef struct {
    wilson_vector d[4];
} spin_wilson_vector;
typedef struct {
    spin_wilson_vector c[3];
} wilson_propagator;

typedef struct {
    complex_number m01, m02, m12;
    Real m00im, m11im, m22im, space;
} anti_hermitmat;

#define SITERAND
typedef struct {
    unsigned long state;
    long drawn;
} double_prn;
complex complex_gaussian_rand_no(double_prn *prn);
Real gaussian_rand_no(double_prn *prn);
Real z2_rand_no(double_prn *prn);
void random_anti_hermitian(anti_hermitmat *h, double_prn *prn);
#ifdef MILC_HOST_MASTER
typedef int milc_seed;
#else
typedef uint32_t milc_seed;
#endif
void initialize_prn(double_prn *prn, milc_seed seed, milc_seed index);
void initialize_site_prn_from_seed(milc_seed seed);

enum { FORWARDS = 1, BACKWARDS = -1 };
enum { OWN_INVERSE, WANT_INVERSE, NO_INVERSE };
enum { ALLOW_EVEN_ODD, NO_EVEN_ODD };
enum { SAME_PARITY, SWITCH_PARITY, SCRAMBLE_PARITY };
void make_lattice(void);
void make_nn_gathers(void);
void sort_eight_gathers(int first);
int make_gather(void (*map)(int, int, int, int, int *, int, int *, int *, int *, int *), int *args, int inverse,
                int want_even_odd, int parity);

typedef struct msg_tag msg_tag;

typedef struct {
    short x, y, z, t;
    int index;
    char parity;
    double_prn site_prn;
    su3_matrix link[4], old_link[4];
    anti_hermitmat mom[4];
    Real phase[4];
    su3_vector phi, xxx, g_rand;
    double other[7]; /* other members of a site */
} site;
typedef int field_offset;
#define F_OFFSET(member) ((field_offset)offsetof(site, member))
#define F_PT(s, offset) ((char *)(s) + (offset))

enum inv_type { MGTYPE, CGTYPE, CGZTYPE, UMLTYPE };
typedef struct {
    int prec, max, nrestart, parity, deflate;
    enum inv_type inv_type;
    Real resid, relresid;
    Real final_rsq, final_relrsq, size_r, size_relr;
    int converged, final_iters, final_restart;
} quark_invert_control;

typedef struct {
    Real Kappa, Clov_c, U0;
} dirac_clover_param;
typedef struct {
    Real Kappa;
} dirac_wilson_param;

typedef struct {
    Real mass, offset, residue;
    int naik_term_epsilon_index;
    Real naik_term_epsilon;
} ks_param;

typedef struct {
    double bdry_phase[4];
    int r0[4];
} link_phase_info_t;

/* MILC_HOST_NEWER: MILC since 2025, which keeps links of eps_naik 0 and their derivative, and makes others on
 * demand. */
typedef struct {
#ifdef MILC_HOST_NEWER
    int preserve;
#endif
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
void g_intsum(int *sum);
void g_uint32sum(uint32_t *sum);
void g_dcomplexsum(double_complex *sum);
void g_vecdoublesum(double *sums, int n);
void g_doublesum(double *sum);
int mynode(void);
void *mycomm(void);
int node_number(int x, int y, int z, int t);
void initialize_machine(int *argc, char ***argv);
void normal_exit(int status);
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
int bicgilu_cl_field_cpu(wilson_vector *src, wilson_vector *dest, quark_invert_control *qic, void *dmp);
int bicgilu_w_field(wilson_vector *src, wilson_vector *dest, quark_invert_control *qic, void *dmp);
void dslash_w_field(wilson_vector *src, wilson_vector *dest, int isign, int parity);
void meson_cont_mom(complex_number **prop, spin_wilson_vector *src1, spin_wilson_vector *src2, int no_q_momenta,
                    int **q_momstore, char **q_parity, int no_gamma_corr, int num_corr_mom[], int **corr_table,
                    int p_index[], int gout[], int gin[], int meson_phase[], Real meson_factor[], int corr_index[],
                    int r0[]);
void meson_open_mom(wilson_propagator **prop, spin_wilson_vector *src1, spin_wilson_vector *src2, int no_q_momenta,
                    int **q_momstore, char **q_parity, int no_gamma_corr, int num_corr_mom[], int **corr_table,
                    int p_index[], int gout[], int gin[], int meson_phase[], Real meson_factor[], int corr_index[],
                    int r0[]);
su3_matrix *create_G_from_site(void);
su3_matrix *create_G(void);
void destroy_G(su3_matrix *links);
Real check_su3(su3_matrix *link), check_unitarity(void);
void d_linktrsum(double_complex *mean);
void gaugefix(int gauge_dir, Real relax_boost, int max_gauge_iter, Real gauge_fix_tol);
su3_matrix *ape_smear_4D(Real staple_weight, int iters);
void ape_smear_dir(field_offset src, int dir1, field_offset dest, Real staple_weight, Real link_u0, int space_only,
                   int nhits, Real tol);
void ape_smear(field_offset src, field_offset dest, Real staple_weight, Real link_u0, int space_only, int nhits,
               Real tol);
void ape_smear_field_dir(su3_matrix *src, int dir1, su3_matrix *dest, Real staple_weight, Real link_u0, int space_only,
                         int nhits, Real tol);
void ape_smear_field(su3_matrix *src, su3_matrix *dest, Real staple_weight, Real link_u0, int space_only, int nhits,
                     Real tol);

/* Molecular dynamics. */
extern Real beta;
int get_nreps(void), get_nloop(void);
int *get_loop_length(void), *get_loop_num(void);
Real **get_loop_coeff(void);
int update(void);
su3_vector *create_v_field_from_site_member(field_offset member);
int ks_ratinv(field_offset src, su3_vector **psim, Real *roots, Real *residues, int order, int max_iterations,
              Real rsqmin, int prec, int parity, Real *final_rsq, imp_ferm_links_t *fn, int naik_index,
              Real naik_epsilon);
int ks_rateval(su3_vector *dest, field_offset src, su3_vector **psim, Real *residues, int order, int parity);
void update_u(Real eps);
int update_h_fermion(Real eps, su3_vector **multi_x);
void update_h(Real eps);
void imp_gauge_force(Real eps, field_offset mom_off);
void imp_gauge_force_cpu(Real eps, field_offset mom_off);
void imp_gauge_force_ks(Real eps, field_offset mom_off);
void reunitarize_cpu(void);
void reunitarize(void); /* generic.h declares it, so the glue must not use the name */
void reunitarize_ks(void);
double imp_gauge_action(void);
void d_plaquette(double *space, double *time);
void warmlat(void); /* MILC declares it in one file alone */
complex ploop(void);
int ***get_loop_table(void);
void g_measure(void);
#ifndef MILC_HOST_MASTER
void g_measure_ks(void);
#endif
double hmom_action(void);
double fermion_action(su3_vector **multi_x, su3_vector *sumvec);
double d_action_rhmc(su3_vector **multi_x, su3_vector *sumvec);
void rephase(int flag);
void gauge_field_copy(field_offset src, field_offset dest);
extern char **gen_pt[2];
msg_tag *start_gather_site(field_offset field, int size, int dir, int parity, char **dest);
void wait_gather(msg_tag *tag);
void cleanup_gather(msg_tag *tag);
void mult_su3_an(su3_matrix *a, su3_matrix *b, su3_matrix *c);
void mult_su3_nn(su3_matrix *a, su3_matrix *b, su3_matrix *c);
Real realtrace_su3(su3_matrix *a, su3_matrix *b);
Real magsq_su3vec(su3_vector *v);
void copy_v_from_ksp(su3_vector *v, ks_prop_field *ksp, int color);
void insert_ksp_from_v(ks_prop_field *ksp, su3_vector *v, int color);
void insert_v_from_c(su3_vector *v, complex *c, int color);
int reunit_su3(su3_matrix *m);
void ranmom(void);

#endif
