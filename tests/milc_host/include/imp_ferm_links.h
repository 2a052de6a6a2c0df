/* Measurements: what the glue needs of MILC's names. */
#ifndef IMP_FERM_LINKS_H
#define IMP_FERM_LINKS_H

#define EIGCG 2
typedef struct {
    int Nvecs, Nvecs_in;
    Real tol, error_decr;
    int MaxIter, Restart, Kiters, parity;
} ks_eigen_param;
typedef struct {
    ks_eigen_param eigen_param;
    int num_gb_triplet, num_corr_b[2], num_corr_gb[2];
} params;
extern params param;
#ifdef MILC_HOST_MASTER
typedef double eigenvalue;
#else
typedef Real eigenvalue;
#endif
#if defined(MILC_HOST_MASTER) || defined(MILC_HOST_NEWER)
typedef double eigen_residual;
#else
typedef Real eigen_residual;
#endif
extern su3_vector **eigVec;
extern eigenvalue *eigVal;
int ks_eigensolve_Kalkreuter_Ritz(su3_vector **vectors, eigenvalue *values, ks_eigen_param *p, int init);
int ks_eigensolve_PRIMME(su3_vector **vectors, eigenvalue *values, ks_eigen_param *p, int init);
int ks_eigensolve_ARPACK(su3_vector **vectors, eigenvalue *values, ks_eigen_param *p, int init);
#ifdef MILC_HOST_NEWER
#define CONSTRUCT_OTHER construct_eigen_other_parity
#else
#define CONSTRUCT_OTHER construct_eigen_odd
#endif
void CONSTRUCT_OTHER(su3_vector **vectors, eigenvalue *values, ks_eigen_param *p, imp_ferm_links_t *fn);
void check_eigres(double *resid, su3_vector **vectors, eigenvalue *values, int n, int parity, imp_ferm_links_t *fn);
void reset_eigenvalues(su3_vector **vectors, eigenvalue *values, int n, int parity, imp_ferm_links_t *fn);
void measure_chirality(su3_vector *vector, double *chirality, int parity);
void print_densities(su3_vector *vector, char *tag, int y, int z, int t, int parity);
int reload_ks_eigen(int flag, char *file, int *n, eigenvalue *values, su3_vector **vectors, imp_ferm_links_t *fn,
                    int timing);
int save_ks_eigen(int flag, char *file, int n, eigenvalue *values, su3_vector **vectors, eigen_residual *resid,
                  int timing);
void grsource_plain_field(su3_vector *dest, int parity);
void z2rsource_plain_field(su3_vector *dest, int parity);
/* MILC_HOST_MASTER: routines of MILC's master that differ from develop. */
#ifdef MILC_HOST_MASTER
#define IF_DEVELOP(declared)
typedef su3_vector read_vector;
#define spin_taste_op_ape_fn spin_taste_op_fn
#else
#define IF_DEVELOP(declared) declared,
typedef const su3_vector read_vector;
enum shift_dir { SHIFT_FORWARD, SHIFT_BACKWARD, SHIFT_SYMMETRIC };
extern int refresh_ape_links, ape_links_ks_phases;
void shift_field(int dir, enum shift_dir fb, su3_vector *dest, const su3_vector *const src,
                 const su3_matrix *const links, int *refresh_links);
#endif
#define ALL_T_SLICES -1

extern su3_matrix *ape_links;

int is_rhosfn_index(int index);
int is_rhosape_index(int index);
int is_rhosffn_index(int index);
int is_rhosbfn_index(int index);
int is_rhosfape_index(int index);
int is_rhosbape_index(int index);
int forward_index(int index);
int backward_index(int index);
void rephase_field_offset(su3_matrix *links, int flag, int *status_now, int r0[]);
void spin_taste_op(int index, int r0[], su3_vector *dest, read_vector *src);
void spin_taste_op_ape_fn(imp_ferm_links_t *fn, int index, int r0[], su3_vector *dest, read_vector *src);
void gauss_smear_v_field(su3_vector *src, su3_matrix *t_links, Real width, int iters, int t0);
void gauss_smear_delete_2link_cpu();
void laplacian_v_field(su3_vector *src, su3_matrix *t_links, int t0);
void ks_meson_cont_mom(complex **prop, su3_vector *src1, su3_vector *src2, int no_q_momenta, int **q_momstore,
                       char **q_parity, int no_spin_taste_corr, int num_corr_mom[], int **corr_table, int p_index[],
                       imp_ferm_links_t *fn_src1, imp_ferm_links_t *fn_src2, int spin_taste_snk[], int meson_phase[],
                       Real meson_factor[], IF_DEVELOP(int num_corr) int corr_index[], int r0[]);

void ks_baryon_nd(complex *prop[], ks_prop_field *qp0, ks_prop_field *qp1, ks_prop_field *qp2, int num_corr_b,
                  int baryon_type_snk[], int phase[], Real fact[]);

void ks_dirac_adj_op(su3_vector *src, su3_vector *dst, Real mass, int parity, imp_ferm_links_t *fn);
void ks_dirac_adj_op_inplace(su3_vector *dst, Real mass, int parity, imp_ferm_links_t *fn);
#ifdef MILC_HOST_NEWER /* the links of all masses, or of each */
typedef imp_ferm_links_t *links_multi;
#define FIRST_AS_MULTI(fn_multi) (fn_multi)[0]
#define OF_MASS(fn_multi, i) (fn_multi)
#else
typedef imp_ferm_links_t **links_multi;
#define FIRST_AS_MULTI(fn_multi) (fn_multi)
#define OF_MASS(fn_multi, i) (fn_multi)[i]
#endif
int mat_invert_multi(su3_vector *src, su3_vector **dst, ks_param *ksp, int num_masses, quark_invert_control *qic,
                     links_multi fn_multi);
int mat_invert_cg_field(su3_vector *src, su3_vector *dst, quark_invert_control *qic, Real mass, imp_ferm_links_t *fn);
int mat_invert_uml_field(su3_vector *src, su3_vector *dst, quark_invert_control *qic, Real mass, imp_ferm_links_t *fn);
#ifdef MILC_HOST_MASTER
#define MAT_INVERT_BLOCK mat_invert_block_uml
#else
#define MAT_INVERT_BLOCK mat_invert_block
int mat_invert_field(su3_vector *src, su3_vector *dst, quark_invert_control *qic, Real mass, imp_ferm_links_t *fn);
#endif
int MAT_INVERT_BLOCK(su3_vector **src, su3_vector **dst, Real mass, int nsrc, quark_invert_control *qic,
                     imp_ferm_links_t *fn);

#endif
