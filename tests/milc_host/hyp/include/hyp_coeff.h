/* HYP smearing: what the glue needs of MILC's names. */
#ifndef HYP_COEFF_H
#define HYP_COEFF_H

enum { HYP_U3, HYP_SU3, HYP_SU3_TR_MAX };
typedef struct {
    Real alpha1, alpha2, alpha3;
    int proj_method, hits;
} hyp_coeffs_t;
void load_hyp_links(su3_matrix *U_link, su3_matrix *hyp_link, int dir_exclude, hyp_coeffs_t *hc);

#endif
