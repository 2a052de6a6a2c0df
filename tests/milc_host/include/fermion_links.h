/* Links of the fermion action and the routines that make them: MILC's names and fields. */
#ifndef FERMION_LINKS_H
#define FERMION_LINKS_H

#define MAX_NAIK 4

typedef struct {
    Real one_link, naik, three_staple, five_staple, seven_staple, lepage;
} asqtad_coeffs_t;

typedef struct {
    asqtad_coeffs_t act_path_coeff;
} ks_component_paths;

typedef struct {
    ks_component_paths p;
} ks_action_paths;

typedef struct {
    int n_naiks;
    double eps_naik[MAX_NAIK];
    ks_component_paths p1, p2, p3;
    int umethod, ugroup;
} ks_action_paths_hisq;

typedef struct {
    int phases_in, WeqY;
    su3_matrix *U_link, *V_link, *Y_unitlink, *W_unitlink;
} hisq_auxiliary_t;

typedef struct {
    double final_sec, final_flop;
    int status, count1, count2;
} info_t;
#define INFO_HISQ_SVD_COUNTER(info) ((info)->count1)

void fermion_links_want_aux(int request);
fn_links_t *create_fn_links(void);
void init_ferm_links(fn_links_t *fn);
link_phase_info_t *create_link_phase_info(void);
void destroy_fn_links(fn_links_t *fn);
void load_fn_backlinks(fn_links_t *fn);
void destroy_fn_backlinks(fn_links_t *fn);
su3_matrix *get_fatlinks(fn_links_t *fn);
su3_matrix *get_lnglinks(fn_links_t *fn);
void boundary_twist_fn(fn_links_t *fn, int flag);
su3_matrix *get_fatbacklinks(fn_links_t *fn);
su3_matrix *get_lngbacklinks(fn_links_t *fn);
void load_fn_links_cpu(info_t *info, fn_links_t *fn, ks_action_paths *ap, su3_matrix *links, int want_back);
void load_fatlinks_cpu(info_t *info, su3_matrix *fat, ks_component_paths *p, su3_matrix *links);
void load_lnglinks(info_t *info, su3_matrix *lng, ks_component_paths *p, su3_matrix *links);
void create_hisq_links_milc(info_t *info, fn_links_t **fn, fn_links_t **fn_deps, hisq_auxiliary_t **aux,
                            ks_action_paths_hisq *ap, su3_matrix *links, int want_deps, int want_back);
void destroy_hisq_auxiliary_t(hisq_auxiliary_t *aux);
#ifdef MILC_HOST_NEWER
void destroy_hisq_links_milc(ks_action_paths_hisq *ap, hisq_auxiliary_t *aux, fn_links_t *fn0, fn_links_t *fn_deps);
#define ALL_SETS(fn) (fn)[0]
#define SETS(hisq) 1
void scalar_mult_fn(fn_links_t *from, Real factor, fn_links_t *to);
void add_fn(fn_links_t *a, fn_links_t *b, fn_links_t *to);
#else
void destroy_hisq_links_milc(ks_action_paths_hisq *ap, hisq_auxiliary_t *aux, fn_links_t **fn, fn_links_t *fn_deps);
#define ALL_SETS(fn) (fn)
#define SETS(hisq) (hisq)->n_naiks
#endif

/* The links of the program; made from the sites if there are none. */
typedef struct {
    ks_action_paths ap;
    ks_action_paths_hisq aph;
    struct {
        int want_back;
    } options;
    int no_aux; /* auxiliary links are destroyed right after they are made */
    fn_links_t *fn[MAX_NAIK], *fn_deps;
    hisq_auxiliary_t *aux;
} fermion_links_t;

extern fermion_links_t *fn_links;
extern int n_orders_naik[MAX_NAIK], n_order_naik_total, hisq_svd_counter, hisq_force_filter_counter;
ks_action_paths *get_action_paths(fermion_links_t *fl);
ks_action_paths_hisq *get_action_paths_hisq(fermion_links_t *fl);
hisq_auxiliary_t *get_hisq_auxiliary(fermion_links_t *fl);
#ifdef MILC_HOST_NEWER
imp_ferm_links_t *get_fm_links(fermion_links_t *fl, int i_naik);
imp_ferm_links_t *get_fn_deps_links(fermion_links_t *fl);
#define LINKS_OF(fl, set) get_fm_links(fl, set)
#define GIVE_BACK(fn) destroy_fn_links(fn)
#else
imp_ferm_links_t **get_fm_links(fermion_links_t *fl);
#define LINKS_OF(fl, set) get_fm_links(fl)[set]
#define GIVE_BACK(fn) (void)(fn)
#endif
int fermion_links_get_n_naiks(fermion_links_t *fl);
double *fermion_links_get_eps_naik(fermion_links_t *fl);
void f_meas_current(int n_masses, int nrand, int thinning, quark_invert_control *qic, Real masses[], Real charges[],
                    imp_ferm_links_t *fn_mass[], Real *u1_A, char filenames[][MAXFILENAME]);
void f_meas_current_diff(int n_masses, int nrand, int thinning, quark_invert_control *precise,
                         quark_invert_control *sloppy, Real masses[], Real charges[], imp_ferm_links_t *fn_mass[],
                         Real *u1_A, char filenames[][MAXFILENAME]);
void f_meas_imp_field(int npbp_reps, quark_invert_control *qic, Real mass, int naik_term_epsilon_index,
                      fermion_links_t *fl);
void invalidate_fermion_links(fermion_links_t *fl);
void restore_fermion_links_from_site(fermion_links_t *fl, int prec);
fermion_links_t *create_fermion_links_from_site(int prec, int n_naiks, double *eps_naik);
void eo_fermion_force_oneterm_site(Real eps, Real weight, field_offset x_off, int prec, fermion_links_t *fl);
void eo_fermion_force_twoterms_site(Real eps, Real weight1, Real weight2, field_offset x1, field_offset x2, int prec,
                                    fermion_links_t *fl);
void eo_fermion_force_twoterms_site_cpu(Real eps, Real weight1, Real weight2, field_offset x1, field_offset x2,
                                        int prec, fermion_links_t *fl);
void eo_fermion_force_multi(Real eps, Real *residues, su3_vector **xxx, int nterms, int prec, fermion_links_t *fl);

#endif
