/* milcgpu: measurements with staggered quarks, besides solving. Covariant shifts, spin-taste operators, Gaussian
 * smearing, meson contractions, with the conventions of MILC's ks_spectrum.
 *
 * Links of a measurement (the gauge field, or smeared links) are kept without staggered phases and boundary sign. Both
 * are multiplied in where an operator needs them, relative to the origin of the call. Products of links are made on
 * first use, and kept until other links are loaded. Each matrix takes 144 bytes per site in double. Smearing needs 3
 * matrices, a two-link operator 2 for its pair of directions, a three-link operator 4 and those of its two-link
 * operators, a four-link operator all 36.
 *
 * Local operators, and contractions of no others, need no links: an empty handle is enough.
 *
 * Quark fields are colour vectors on all sites, n of them in a call; links are loaded once for three of them. Host
 * fields must have the handle's precision, in which sums over neighbours are formed. Contractions are added in double.
 *
 * Every function returns a status and says in milcgpu_last_error() what failed, where, and what to do. Host outputs are
 * untouched on failure; vectors on the device that were to be written may be empty then. A result with NaN or infinity
 * gives NAN_OR_INF before it goes to the host, and leaves vectors on the device empty. Links and products have
 * checksums, compared before each use. CORRUPTED means that a bit flipped there, and that the handle is empty now.
 * MILCGPU_VERIFY=0 turns this off.
 *
 * On several ranks these are calls of all ranks, each with the fields of its box, and all with the same arguments.
 * Origins, slices and extents are those of the whole lattice. Fields have the bits of one rank. Every rank gets the
 * correlators of all time slices of the whole lattice, with the same bits. Memory: in directions that are cut, links
 * and products have a margin of two more sites; a call also needs room for the quark fields that it reads, with that
 * margin.
 */
#ifndef MILCGPU_MESONS_H
#define MILCGPU_MESONS_H

#include "milcgpu_md.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct milcgpu_meson_links milcgpu_meson_links;

/* Empty. precision: MILCGPU_DOUBLE or MILCGPU_SINGLE. On failure *links is NULL. */
milcgpu_status milcgpu_meson_links_create(milcgpu_context *context, int precision, milcgpu_meson_links **links);
void milcgpu_meson_links_destroy(milcgpu_meson_links *links); /* before its context; NULL is legal */

typedef struct {
    size_t struct_size;
    int antiperiodic; /* 1: t links on one time slice, nt - 1 - origin[3] with the origin of a call, have a minus sign;
                         0: none have */
    int signs_in;     /* 0: the links come without phases and sign. 1: they come with staggered phases relative to
                         `origin`, and, if antiperiodic, with that sign; both are taken out */
    int origin[4];    /* read with signs_in */
} milcgpu_meson_links_spec;

/* 4 links per site, in the handle's precision; they need not be unitary. NaN and infinity are refused with the place,
 * and the handle is empty then. */
milcgpu_status milcgpu_meson_links_load(milcgpu_meson_links *links, const milcgpu_meson_links_spec *spec,
                                        const milcgpu_field *field);

/* n colour vectors on all sites in the handle's precision: either fields of the host, or vectors that stay on the
 * device, from number `first` on. The other pointer is NULL. */
typedef struct {
    const milcgpu_field *host;
    milcgpu_vectors *device;
    int first;
} milcgpu_quarks;

typedef enum {
    MILCGPU_FORWARD = 0,
    MILCGPU_BACKWARD = 1,
    MILCGPU_SYMMETRIC = 2
} milcgpu_shift_way; /* MILC's numbers */

/* to(x) = U_dir(x) from(x + dir) (forward), U_dir(x - dir)^dag from(x - dir) (backward), or half their sum. With an
 * origin the links get staggered phases relative to it, and the boundary sign; NULL: the links as they are. dir: 0 X to
 * 3 T. `to` may be `from`. */
milcgpu_status milcgpu_shift_quarks(milcgpu_meson_links *links, int dir, int way, const int origin[4], int n,
                                    const milcgpu_quarks *from, const milcgpu_quarks *to);

/* MILC's number of a spin-taste operator by its label. Labels: SPIN-TASTE, such as G5-GXT, with number
 * 128 + 16 spin + taste and 0 to 15 for GX GY GZ GT G5 GYZ GZX GXY GXT GYT GZT G5X G5Y G5Z G5T G1; and MILC's names
 * (pion5, rhoxs, rhoxsfape, ..), with numbers below 46. -1: there is no such label, see milcgpu_last_error(). */
int milcgpu_spin_taste_index(const char *label);
milcgpu_status milcgpu_spin_taste_label(int index, char *label, size_t size); /* 16 characters are enough */

/* to = O from, MILC's spin_taste_op_ape_fn, with the sign (-1)^(x+y+z+t) of the antiquark. fat: the fat links, for the
 * operators rho..fn; NULL for others. Operators of two fields (rhoxsfn, rhoxsape, ..) are refused: milcgpu_contract
 * takes them. Their halves (rhoxsffn, rhoxsbfn, ..) work here. `to` may be `from`. */
milcgpu_status milcgpu_spin_taste(milcgpu_meson_links *links, milcgpu_links *fat, int spin_taste, const int origin[4],
                                  int n, const milcgpu_quarks *from, const milcgpu_quarks *to);

/* In place, on one time slice or on all (-1):
 *   steps times  psi <- (1 - 6 a) psi + a sum_k [W_k psi(x + hop k) + W_k^dag(x - hop k) psi(x - hop k)],
 * k = x, y, z, a = width^2 / (4 steps hop^2). hop 2: W_k = U_k(x) U_k(x + k), MILC's gauss_smear_v_field; hop 1: W = U.
 */
milcgpu_status milcgpu_gauss_smear(milcgpu_meson_links *links, int hop, double width, int steps, int slice, int n,
                                   const milcgpu_quarks *quarks);

/* In place: psi <- 6 psi - the sum above. This is minus the Laplacian, as in MILC's laplacian_v_field. */
milcgpu_status milcgpu_laplacian(milcgpu_meson_links *links, int hop, int slice, int n, const milcgpu_quarks *quarks);

#define MILCGPU_EVEN_AND_ODD 3

/* f(x) = product over x, y, z of cos th (MILCGPU_EVEN), i sin th (MILCGPU_ODD) or e^(i th) (MILCGPU_EVEN_AND_ODD),
 * th = 2 pi p (x - origin) / extent. */
typedef struct {
    int p[3], parity[3];
} milcgpu_momentum;

/* One term: correlator[t] += factor i^phase sum_x f(x) sum over the n sources of (O src1)^dag src2 */
typedef struct {
    int spin_taste; /* O. For rho..sfn and rho..sape: half of [(backward src1)^dag src2 + src1^dag (forward src2)]. For
                       rho..sf..: forward, on src2. For rho..sb..: backward, on src1 */
    int momentum;   /* its number in the table of momenta */
    int phase;      /* 0 to 3 */
    double factor;
    int correlator; /* the number of the correlator that is added to */
} milcgpu_meson_term;

typedef struct {
    size_t struct_size;
    int origin[4];
    int n_momenta, n_terms, n_correlators;
    const milcgpu_momentum *momenta;
    const milcgpu_meson_term *terms;
} milcgpu_meson_spec;

/* MILC's ks_meson_cont_mom. correlators: n_correlators times nt complex numbers, which are added to. Each operator is
 * applied once, however many terms use it; local ones share one pass. fat1, fat2: as `fat` above, for src1 and src2. */
milcgpu_status milcgpu_contract(milcgpu_meson_links *links, const milcgpu_meson_spec *spec, milcgpu_links *fat1,
                                milcgpu_links *fat2, int n, const milcgpu_quarks *src1, const milcgpu_quarks *src2,
                                double *correlators);

#ifdef __cplusplus
}
#endif
#endif
