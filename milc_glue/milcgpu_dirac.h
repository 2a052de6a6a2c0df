/* milcgpu: contractions of Dirac fields, with 16 gamma matrices, at momenta. MILC's meson_cont_mom and meson_open_mom.
 *
 * A Dirac field is MILC's wilson_vector, 24 reals per site: spin, then colour. A propagator from a source of one colour
 * is MILC's spin_wilson_vector, 96 reals per site: spin at the source, spin at the sink, colour. Fields are on all
 * sites, in the order of milcgpu.h, double or single, both of a call in the same precision. Products of three colours
 * are formed in that precision, sums of them in double.
 *
 * Gamma matrices are numbers of a set:
 *   MILCGPU_GAMMAS_MILC           MILC's gammatypes.h: GX GY GZ GT G5 GYZ GZX GXY GXT GYT GZT G5X G5Y G5Z G5T G1 are
 *                                 0 to 15. GYZ is i GY GZ and so on, G5X is G5 GX and so on
 *   MILCGPU_GAMMAS_DEGRAND_ROSSI  QUDA's contractions: I G1 G2 G3 G4 G5 G5G1 G5G2 G5G3 G5G4 S12 S13 S14 S23 S24 S34,
 *                                 Sjk = i/2 [Gj, Gk]
 * Both are in one basis of spins: MILC's gamma_x to gamma_t are those of DeGrand and Rossi, and gamma_5 is
 * diag(1, 1, -1, -1). S13 is -GZX; all others are the same matrices under other names.
 *
 * Every function returns a status and says in milcgpu_last_error() what failed, where, and what to do. Outputs are
 * untouched on failure. NaN and infinity in fields are NAN_OR_INF.
 *
 * On several ranks these are calls of all ranks, each with the fields of its box, and otherwise with the same
 * arguments. Origins and extents are those of the whole lattice. Numbers a site are those of the box. Every rank gets
 * the correlators of all time slices of the whole lattice, with the same bits.
 */
#ifndef MILCGPU_DIRAC_H
#define MILCGPU_DIRAC_H

#include "milcgpu_mesons.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum { MILCGPU_GAMMAS_MILC = 0, MILCGPU_GAMMAS_DEGRAND_ROSSI = 1 } milcgpu_gamma_basis;

/* The number of a gamma matrix by its label (above); -1: there is no such label, see milcgpu_last_error(). */
int milcgpu_gamma_index(int basis, const char *label);
milcgpu_status milcgpu_gamma_label(int basis, int index, char *label, size_t size); /* 5 characters are enough */
/* Row m of the matrix has one element, i^power[m] in column[m]. */
milcgpu_status milcgpu_gamma_matrix(int basis, int index, int column[4], int power[4]);

#define MILCGPU_OPEN_SPIN (-1)

/* 16 complex numbers per site, made of A_mn = sum_a conj(phi_ma) psi_na. With numbers = MILCGPU_OPEN_SPIN, number 4 m +
 * n is A_mn. With numbers = a basis, number k is sum_mn Gamma_k,mn A_mn. to: 32 reals per site, in the precision of phi
 * and psi. */
milcgpu_status milcgpu_dirac_sites(milcgpu_context *context, int numbers, const milcgpu_field *phi,
                                   const milcgpu_field *psi, const milcgpu_field *to);

typedef struct {
    size_t struct_size;
    int basis;
    int origin[3]; /* X Y Z, of the momenta */
    int n_momenta;
    const milcgpu_momentum *momenta;
} milcgpu_dirac_spec;

/* Sums over time slices: sums[(momentum 16 + k) nt + t], complex, = sum over the slice of f(x) phi^dag Gamma_k psi. */
milcgpu_status milcgpu_dirac_slices(milcgpu_context *context, const milcgpu_dirac_spec *spec, const milcgpu_field *phi,
                                    const milcgpu_field *psi, double *sums);

/* correlator[t] += factor i^phase sum_x f(x) sum over the n propagators of
 *     tr [ Gamma_in S2 Gamma_out gamma_5 S1^dag gamma_5 ],   S with rows for the source and columns for the sink */
typedef struct {
    int in, out;  /* gamma matrices at the source and at the sink */
    int momentum; /* of the table */
    int phase;    /* 0 to 3 */
    double factor;
    int correlator;
} milcgpu_dirac_term;

typedef struct {
    size_t struct_size;
    int basis;
    int origin[3];
    int n_momenta, n_terms, n_correlators;
    const milcgpu_momentum *momenta;
    const milcgpu_dirac_term *terms;
} milcgpu_dirac_meson_spec;

/* MILC's meson_cont_mom for n propagators, one for each colour at the source. src1 is that of the antiquark.
 * correlators: n_correlators times nt complex numbers, which are added to. Up to 16 pairs of gamma matrices take one
 * pass over the propagators, with all their momenta. If src1[k] and src2[k] are the same field it is copied once. */
milcgpu_status milcgpu_dirac_mesons(milcgpu_context *context, const milcgpu_dirac_meson_spec *spec, int n,
                                    const milcgpu_field *src1, const milcgpu_field *src2, double *correlators);

/* MILC's meson_open_mom: gamma_5 S1^dag gamma_5 Gamma_in S2 with the indices at the sink open; `out` is not read.
 * correlators: n_correlators times nt times 144 complex numbers, which are added to:
 * [(correlator nt + t) 144 + ((c1 4 + s1) 4 + s2) 3 + c2], colour and spin of S1, spin and colour of S2: MILC's
 * wilson_propagator. */
milcgpu_status milcgpu_dirac_open_mesons(milcgpu_context *context, const milcgpu_dirac_meson_spec *spec, int n,
                                         const milcgpu_field *src1, const milcgpu_field *src2, double *correlators);

#ifdef __cplusplus
}
#endif
#endif
