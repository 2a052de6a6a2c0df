/* MILC's own heat bath. */
#include "../generic/generic_includes.h"

#include "../include/generic_pg.h"
#include "sweeps.h"

static const double two_pi = 6.28318530717958647692;

/* 1 - a0 by Kennedy and Pendleton. Returns 1 if it is accepted. */
static int kennedy_pendleton(double alpha, double_prn *prn, double *d) {
    const double first = log(myrand(prn) + 1e-10), second = log(myrand(prn) + 1e-10);
    const double cosine = cos(two_pi * myrand(prn)), height = myrand(prn);
    *d = -(second + first * cosine * cosine) / alpha;
    return 1 - *d / 2 > height * height;
}
/* The same by Creutz. */
static int creutz(double alpha, double_prn *prn, double *d) {
    const double least = exp(-2 * alpha), at = myrand(prn), height = myrand(prn);
    const double a0 = 1 + log(least + (1 - least) * at) / alpha;
    *d = 1 - a0;
    return 1 - a0 * a0 > height * height;
}

static su2_matrix anew(su2_matrix v, double z, double_prn *prn) {
    const double alpha = beta / 3 * z;
    double d, a0, r2, a3, rho, angle;
    su2_matrix a;
    int k, accepted = kennedy_pendleton(alpha, prn, &d);
    for (k = 0; k < 20 && !accepted; k++)
        accepted = alpha > 2 ? kennedy_pendleton(alpha, prn, &d) : creutz(alpha, prn, &d);
    a0 = 1 - d;
    r2 = fabs(1 - a0 * a0);
    a3 = (2 * myrand(prn) - 1) * sqrt(r2);
    rho = sqrt(fabs(r2 - a3 * a3));
    angle = two_pi * myrand(prn);
    a.a[0] = a0, a.a[1] = rho * cos(angle), a.a[2] = rho * sin(angle), a.a[3] = a3;
    return times_inverse(a, v);
}
void monte(int sweeps) {
    printf("MILC's own monte\n");
    sweep(sweeps, anew);
}
