/* milcgpu: contractions of Dirac (Wilson) fields with 16 gamma matrices, at momenta. MILC's meson_cont_mom and
 * meson_open_mom.
 *
 * A Dirac field is MILC's wilson_vector, 24 reals per site: 4 spins, of each 3 colours. A propagator from a source of
 * one colour is MILC's spin_wilson_vector, 96 reals per site: for each of 4 spins at the source a wilson_vector at the
 * sink. Fields are on all sites, in the order of milcgpu.h or by the site map, in double or single. All fields of a
 * call have one precision. The products over three colours are formed in that precision; sums of them, over spins,
 * sources and sites, are in double.
 *
 * Gamma matrices are numbers, 0 to 15, of one of two sets:
 *   MILCGPU_GAMMAS_MILC           MILC's gammatypes.h: GX GY GZ GT G5 GYZ GZX GXY GXT GYT GZT G5X G5Y G5Z G5T G1.
 *                                 GYZ is i GY GZ, and so on. G5X is G5 GX, and so on.
 *   MILCGPU_GAMMAS_DEGRAND_ROSSI  QUDA's contractions: I G1 G2 G3 G4 G5 G5G1 G5G2 G5G3 G5G4 S12 S13 S14 S23 S24 S34.
 *                                 Sjk = i/2 [Gj, Gk].
 * Both sets are in one basis of spins: MILC's gamma_x to gamma_t are those of DeGrand and Rossi, and gamma_5 is
 * diag(1, 1, -1, -1). S13 is -GZX. All others are the same matrices under other names.
 *
 * Every function returns a status, unless said otherwise. milcgpu_last_error() then says what failed, where, and what
 * to do. Outputs are untouched on failure. NaN or infinity in a field gives NAN_OR_INF, and so does a result that
 * overflows. Fields have checksums from their arrival on the device to the last read: CORRUPTED means that a bit
 * flipped there, and that the call can be repeated. Numbers per site, their sums and the factors of momenta are not
 * checked. MILCGPU_VERIFY=0 turns this off.
 *
 * On several ranks these are calls of all ranks. Each rank gives the fields of its box; all other arguments must be the
 * same on all. Origins and extents are those of the whole lattice. Numbers per site are those of the box. Every rank
 * gets the sums and correlators of all time slices, with the same bits.
 */
#ifndef MILCGPU_DIRAC_H
#define MILCGPU_DIRAC_H

#include "milcgpu_mesons.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum { MILCGPU_GAMMAS_MILC = 0, MILCGPU_GAMMAS_DEGRAND_ROSSI = 1 } milcgpu_gamma_basis;

/* The number of a gamma matrix by its label. A label that is not in the set gives -1, and milcgpu_last_error() lists
 * those that are. */
int milcgpu_gamma_index(int basis, const char *label);
/* The label of a number, with its final 0. 5 characters are enough; fewer than needed are BAD_ARGUMENT. */
milcgpu_status milcgpu_gamma_label(int basis, int index, char *label, size_t size);
/* The elements of a gamma matrix. Each row m has one that is not zero: i^power[m] in column[m]. Example: the unit
 * matrix has column 0 1 2 3, power 0 0 0 0. */
milcgpu_status milcgpu_gamma_matrix(int basis, int index, int column[4], int power[4]);

enum { MILCGPU_OPEN_SPIN = -1 };

/* 16 complex numbers per site, from two Dirac fields. With A_mn(x) = sum over colours a of conj(phi_ma(x)) psi_na(x),
 *
 *     numbers = MILCGPU_OPEN_SPIN                number 4 m + n is A_mn
 *     numbers = a set (milcgpu_gamma_basis)      number k is phi^dag Gamma_k psi = sum_mn Gamma_k,mn A_mn
 *
 * to: 32 reals per site, in the precision of phi and psi, in the order of milcgpu.h or by the site map. */
milcgpu_status milcgpu_dirac_sites(milcgpu_context *context, int numbers, const milcgpu_field *phi,
                                   const milcgpu_field *psi, const milcgpu_field *to);

typedef struct {
    size_t struct_size;
    int basis;     /* milcgpu_gamma_basis */
    int origin[3]; /* X Y Z, of the momenta */
    int n_momenta; /* at least 1 */
    const milcgpu_momentum *momenta;
} milcgpu_dirac_spec;
void milcgpu_dirac_defaults(milcgpu_dirac_spec *spec, size_t size); /* all 0 */

/* phi^dag Gamma_k psi for all 16 matrices of the set, times f(x) of each momentum (milcgpu_momentum), summed over each
 * time slice. sums: n_momenta times 16 times nt complex numbers in double, which replace what was there. The number for
 * momentum q, matrix k and time t is at [(16 q + k) nt + t]. */
milcgpu_status milcgpu_dirac_slices(milcgpu_context *context, const milcgpu_dirac_spec *spec, const milcgpu_field *phi,
                                    const milcgpu_field *psi, double *sums);

/* One term of a correlator:
 *     correlator[t] += factor i^phase sum_x f(x) sum over the n propagators of
 *                      tr [ Gamma_in S2 Gamma_out gamma_5 S1^dag gamma_5 ],   x on time slice t.
 * S has rows for the spin at the source and columns for spin and colour at the sink. Example: in = out = G5 with
 * S1 = S2 is the pion, the sum of |S|^2. */
typedef struct {
    int in, out;  /* numbers of the gamma matrices at the source and at the sink */
    int momentum; /* index in momenta of the spec below */
    int phase;    /* 0 to 3 */
    double factor;
    int correlator; /* index of the correlator that is added to */
} milcgpu_dirac_term;

typedef struct {
    size_t struct_size;
    int basis;     /* milcgpu_gamma_basis */
    int origin[3]; /* X Y Z, of the momenta */
    int n_momenta;
    int n_terms; /* 0: nothing is added */
    int n_correlators;
    const milcgpu_momentum *momenta;
    const milcgpu_dirac_term *terms;
} milcgpu_dirac_meson_spec;
void milcgpu_dirac_meson_defaults(milcgpu_dirac_meson_spec *spec, size_t size); /* all 0 */

/* Meson correlators, MILC's meson_cont_mom. n propagators, 1 to 1000, are summed over: usually three, one for each
 * colour at the source. src1 is the antiquark's, S1 above; src2 is the quark's. correlators: n_correlators times nt
 * complex numbers in double, the t of correlator c at [c nt + t]. Results are added to what is there. Up to 16
 * different pairs of gamma matrices share one pass over the propagators, with all their momenta. If src1[k] and src2[k]
 * are the same field, it is copied once. */
milcgpu_status milcgpu_dirac_mesons(milcgpu_context *context, const milcgpu_dirac_meson_spec *spec, int n,
                                    const milcgpu_field *src1, const milcgpu_field *src2, double *correlators);

/* The same with the indices at the sink left open, MILC's meson_open_mom: gamma_5 S1^dag gamma_5 Gamma_in S2. `out` of
 * a term is not read. correlators: n_correlators times nt times 144 complex numbers in double, which are added to.
 * Correlator c at time t, with colour c1 and spin s1 of S1, spin s2 and colour c2 of S2, is at [(c nt + t) 144 + ((c1
 * 4 + s1) 4 + s2) 3 + c2], as in MILC's wilson_propagator. */
milcgpu_status milcgpu_dirac_open_mesons(milcgpu_context *context, const milcgpu_dirac_meson_spec *spec, int n,
                                         const milcgpu_field *src1, const milcgpu_field *src2, double *correlators);

#ifdef __cplusplus
}
#endif
#endif
