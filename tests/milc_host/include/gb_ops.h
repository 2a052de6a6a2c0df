/* Golterman-Bailey operators, with MILC's names. */
#ifndef GB_OPS_H
#define GB_OPS_H
#include "../generic_ks/generic_ks_includes.h"

enum gb_sym_type { GBSYM_UNDEF = -1, GBSYM_SYM, GBSYM_MIXED, GBSYM_ANTISYM };
enum gb_baryon_op {
    GB_UNDEFINED = -1,
    GB_8_S_C1, GB_8_S_C2, GB_8_S_C3, GB_8_S_C5, GB_8_S_C6, GB_8P_S_C4, GB_8P_S_C7, GB_16U_S_C2, GB_16U_S_C3,
    GB_16U_S_C4, GB_16U_S_C6, GB_16D_S_C2, GB_16D_S_C3, GB_16D_S_C4, GB_16D_S_C6, GB_8_A_C4, GB_8_A_C6, GB_8_A_C7,
    GB_16U_A_C4, GB_16U_A_C6, GB_16D_A_C4, GB_16D_A_C6, GB_8_M_I1_C2, GB_8_M_I1_C3, GB_8_M_I1_C4, GB_8_M_I1_C5,
    GB_8_M_I1_C6_1, GB_8_M_I1_C6_2, GB_8P_M_I1_C4, GB_16U_M_I1_C2, GB_16U_M_I1_C3, GB_16U_M_I1_C4_1, GB_16U_M_I1_C4_2,
    GB_16U_M_I1_C6_1, GB_16U_M_I1_C6_2, GB_16U_M_I1_C7, GB_16D_M_I1_C2, GB_16D_M_I1_C3, GB_16D_M_I1_C4_1,
    GB_16D_M_I1_C4_2, GB_16D_M_I1_C6_1, GB_16D_M_I1_C6_2, GB_16D_M_I1_C7,
    MAX_GB_BARYON
};
#define GB_2POINT_BACKPROP 127
void gb_baryon(ks_prop_field *qko0[], ks_prop_field *qko1[], ks_prop_field *qko2[], su3_matrix *links,
               enum gb_baryon_op src_op[], enum gb_baryon_op snk_op[], int stIdx, short dowall[], short docube[],
               int num_d, int num_s, int r0[], int mom[], char par[], complex *momfld, int flip_snk[], int num_corr_gb,
               int phase[], Real fact[], complex *prop[]);
char *gb_baryon_label(enum gb_baryon_op gbop);
enum gb_sym_type gb_get_sym_type(enum gb_baryon_op gbop);

#endif
