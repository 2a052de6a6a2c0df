/* The types, globals and routines of MILC's pure gauge program that the glue uses, with MILC's names. */
#ifndef GENERIC_INCLUDES_H
#define GENERIC_INCLUDES_H

#include "types.h"
#include <math.h>

#define SITERAND

typedef struct {
    complex m01, m02, m12;
    Real m00im, m11im, m22im, space;
} anti_hermitmat;
typedef struct {
    long drawn; /* random numbers of the momenta */
    unsigned long r0, r1, r2, r3, r4, r5, r6;
    unsigned long long multiplier, addend, ic_state;
    float scale;
} double_prn;
typedef struct {
    short x, y, z, t;
    char parity;
    double_prn site_prn;
    su3_matrix link[4], old_link[4];
    anti_hermitmat mom[4];
} site;
typedef int field_offset;
#define F_OFFSET(member) ((field_offset)offsetof(site, member))
#define F_PT(s, offset) ((char *)(s) + (offset))

#include "layout.h"

extern Real beta;

/* From wilson_flow. */
enum { WILSON, SYMANZIK };
extern int exp_order, stapleflag;
extern Real stepsize;
void stout_step_rk(void);
void fmunu_fmunu(double *time, double *space, double *charge);

void ranmom(void);
void reunitarize_cpu(void);
Real myrand(double_prn *prn);
void random_anti_hermitian(anti_hermitmat *h, double_prn *prn);
void gaugefix(int gauge_dir, Real relax_boost, int max_gauge_iter, Real gauge_fix_tol);

#endif
