/* Sets of propagators of a spectrum program: MILC's names and fields. */
#ifndef KS_SPECTRUM_INCLUDES_H
#define KS_SPECTRUM_INCLUDES_H

#define MAXFILENAME 256
enum set_type { MULTIMASS_SET, MULTISOURCE_SET, MULTICOLORSOURCE_SET, SINGLES_SET };

typedef struct {
    int type;
} quark_source;

int solve_ksprop(enum set_type set_type, enum inv_type inv_type, int num_prop, int startflag[],
                 char startfile[][MAXFILENAME], int saveflag[], char savefile[][MAXFILENAME], ks_prop_field *ksprop[],
                 ks_prop_field *source[], quark_source *my_ksqs[], quark_invert_control my_qic[], ks_param my_ksp[],
                 Real charge, Real bdry_phase[], int r0[4], int check);

#endif
