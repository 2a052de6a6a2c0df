/* milcgpu: measurements with staggered quarks, besides solving: covariant shifts, spin-taste operators, Gaussian
 * smearing, meson correlators. Conventions are those of MILC's ks_spectrum.
 *
 * Links of a measurement are the gauge field, or links smeared from it. A handle keeps them without staggered phases
 * and without boundary sign. A function that needs phases and sign multiplies them in, relative to the origin given in
 * its call. So links that are loaded once serve sources at any origin.
 *
 * Products of links are made when a call first needs them, and kept until other links are loaded. They take memory, in
 * units of one 3x3 matrix per site (144 bytes per site in double):
 *     smearing over two links                              3
 *     an operator of two links, such as GX-GY              2 for its pair of directions (12 for all six pairs)
 *     an operator of three links                           4 and those of its three pairs (28 for all)
 *     the operators of four links, such as G5-G1           36, which is all of the above but smearing
 * They are freed if memory is short, on all ranks together, and made again when they are needed.
 *
 * Quark fields are colour vectors on all sites. A call takes n of them, 1 to 1000, and loads the links once for every
 * three. Host fields must have the precision of the handle. Sums over neighbours are formed in that precision,
 * correlators are added in double.
 *
 * Every function returns a status, unless said otherwise. milcgpu_last_error() then says what failed, where, and what
 * to do. On failure, host outputs are untouched, and vectors on the device that were to be written may be empty. A
 * result with NaN or infinity gives NAN_OR_INF; it is found before anything is written to the host.
 *
 * Links have checksums from the caller's memory on, products of links from their making on, and quark fields of the
 * host from their arrival on the device. A call compares all of them after it has read them, before it returns
 * anything. CORRUPTED means that a bit flipped: in links, and the handle is then empty, or in quark fields, and the
 * call can be repeated. These are not checked: quark fields while they are smeared, results before they are copied out,
 * numbers per site, their sums and the factors of momenta, and, on lattices that are cut, links while they get their
 * margin. MILCGPU_VERIFY=0 turns this off.
 *
 * On several ranks these are calls of all ranks. Each rank gives the fields of its box; all other arguments must be the
 * same on all. Origins, slices and extents are those of the whole lattice. Fields have the bits that one rank would
 * compute. Every rank gets the correlators of all time slices, with the same bits. Memory: in directions that are cut,
 * links and products have two more layers of sites on each side, and a call needs room for the quark fields that it
 * reads with as many layers as it reads of them.
 */
#ifndef MILCGPU_MESONS_H
#define MILCGPU_MESONS_H

#include "milcgpu_md.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct milcgpu_meson_links milcgpu_meson_links; /* links of a measurement, and products of them */

/* Makes an empty handle. precision: MILCGPU_DOUBLE or MILCGPU_SINGLE. On failure *links is NULL. An empty handle is
 * enough for local operators (those that shift by no link, such as pion5) and for contractions of these alone. */
milcgpu_status milcgpu_meson_links_create(milcgpu_context *context, int precision, milcgpu_meson_links **links);
void milcgpu_meson_links_destroy(milcgpu_meson_links *links); /* before its context; NULL is legal */

typedef struct {
    size_t struct_size;
    int antiperiodic; /* the boundary sign that calls multiply in. 1: a minus sign on the t links of time slice
                         nt - 1 - origin[3], with the origin of the call, as in MILC. 0: none */
    int signs;        /* milcgpu_signs of the links that are loaded; phases are relative to origin */
    int origin[4];    /* read if signs is MILCGPU_SIGNS_IN */
} milcgpu_meson_links_spec;
void milcgpu_meson_links_defaults(milcgpu_meson_links_spec *spec, size_t size); /* links without phases, periodic */

/* Copies links to the device: 4 per site, in the handle's precision. They need not be unitary. NaN and infinity give
 * NAN_OR_INF with the place. Links that clearly carry other phases than spec->signs says give BAD_ARGUMENT with the
 * place (milcgpu_md.h, Phases); the boundary sign is not tested. After both the handle is empty. */
milcgpu_status milcgpu_meson_links_load(milcgpu_meson_links *links, const milcgpu_meson_links_spec *spec,
                                        const milcgpu_field *field);
/* The same from the links of a gauge handle of the same context and precision, on the device. They are a copy: later
 * changes of the gauge handle do not reach this one. CORRUPTED: the links of `gauge` have changed on the device, and
 * both handles are empty. */
milcgpu_status milcgpu_meson_links_load_gauge(milcgpu_meson_links *links, const milcgpu_meson_links_spec *spec,
                                              milcgpu_gauge *gauge);

/* n quark fields, on the host or on the device. One of the two pointers must be NULL. Fields that a call writes must
 * not share memory; one that it reads may be written, too. */
typedef struct {
    const milcgpu_field *host; /* n fields of colour vectors on all sites */
    milcgpu_vectors *device; /* or the vectors first, first + 1, .. of a set in the handle's precision, both parities */
    int first;
} milcgpu_quarks;

typedef enum {
    MILCGPU_FORWARD = 0,
    MILCGPU_BACKWARD = 1,
    MILCGPU_SYMMETRIC = 2
} milcgpu_shift_way; /* MILC's numbers */

/* Covariant shift by one site in direction dir, 0 (X) to 3 (T):
 *
 *     forward    to(x) = U_dir(x) from(x + dir)
 *     backward   to(x) = U_dir(x - dir)^dag from(x - dir)
 *     symmetric  half the sum of both
 *
 * With an origin, links get the staggered phases relative to it, and the boundary sign. NULL: links as they are kept.
 * `to` may be the same fields as `from`. */
milcgpu_status milcgpu_quarks_shift(milcgpu_meson_links *links, int dir, int way, const int origin[4], int n,
                                    const milcgpu_quarks *from, const milcgpu_quarks *to);

/* MILC's number of a spin-taste operator, by its label. There are two kinds of labels.
 *   SPIN-TASTE, for example G5-GXT: the number is 128 + 16 spin + taste. Spin and taste are 0 to 15 for
 *   GX GY GZ GT G5 GYZ GZX GXY GXT GYT GZT G5X G5Y G5Z G5T G1.
 *   MILC's names, for example pion5, rhoxs, rhoxsfape: numbers 0 to 45. (rhots has a name in MILC and no definition;
 *   its number is refused.)
 * A label that does not exist gives -1, and milcgpu_last_error() says so. */
int milcgpu_spin_taste_index(const char *label);
/* The label of a number, with its final 0. 16 characters are enough; fewer than needed are BAD_ARGUMENT. */
milcgpu_status milcgpu_spin_taste_label(int index, char *label, size_t size);

/* Applies a spin-taste operator: to = O from, as MILC's spin_taste_op_ape_fn (Golterman, Smit, Nucl. Phys. B 245 (1984)
 * 61). O contains the sign (-1)^(x+y+z+t) of the antiquark. fat: the fat links, for the operators rho..fn; NULL for
 * others. An operator that acts on two fields (rhoxsfn, rhoxsape, ..) is refused here and taken by
 * milcgpu_quarks_contract; its two halves (for rhoxsfn these are rhoxsffn and rhoxsbfn) work here. `to` may be `from`.
 */
milcgpu_status milcgpu_quarks_spin_taste(milcgpu_meson_links *links, milcgpu_links *fat, int spin_taste,
                                         const int origin[4], int n, const milcgpu_quarks *from,
                                         const milcgpu_quarks *to);

/* Gaussian smearing of n fields, in place, on one time slice or on all (-1). `steps` times
 *
 *     psi <- (1 - 6 a) psi + a sum_k [W_k(x) psi(x + hop k) + W_k(x - hop k)^dag psi(x - hop k)],
 *
 * k = x, y, z, a = width^2 / (4 steps hop^2), width in lattice spacings. hop 2: W_k(x) = U_k(x) U_k(x + k), which keeps
 * the taste of staggered quarks (MILC's gauss_smear_v_field). hop 1: W = U. steps 0 changes nothing. Guesken et al.,
 * Phys. Lett. B 227 (1989) 266. */
milcgpu_status milcgpu_quarks_gauss_smear(milcgpu_meson_links *links, int hop, double width, int steps, int slice,
                                          int n, const milcgpu_quarks *quarks);

/* Minus the covariant Laplacian in space, in place: psi <- 6 psi - the sum above, MILC's laplacian_v_field. There is no
 * factor 1 / hop^2. Slices as above; the others stay as they are. */
milcgpu_status milcgpu_quarks_laplacian(milcgpu_meson_links *links, int hop, int slice, int n,
                                        const milcgpu_quarks *quarks);

enum { MILCGPU_EVEN_AND_ODD = 3 };

/* A momentum at the sink: f(x) is the product over X, Y, Z of one factor each. With theta = 2 pi p (x - origin) /
 * extent the factor is cos(theta) for MILCGPU_EVEN, i sin(theta) for MILCGPU_ODD, e^(i theta) for MILCGPU_EVEN_AND_ODD.
 * These are MILC's letters E, O and EO. Example: p = {1, 0, 0} with three times MILCGPU_EVEN. */
typedef struct {
    int p[3];      /* X Y Z */
    int parity[3]; /* the factor in each of these directions */
} milcgpu_momentum;

/* One term of a correlator:
 *     correlator[t] += factor i^phase sum_x f(x) sum over the n fields of (O src1)^dag src2,   x on time slice t. */
typedef struct {
    int spin_taste; /* number of O. Vector currents with names act differently: rho..sf.. shifts src2 forward,
                       rho..sb.. shifts src1 backward, and rho..sfn, rho..sape are half the sum of both */
    int momentum;   /* index in milcgpu_meson_spec.momenta */
    int phase;      /* 0 to 3 */
    double factor;
    int correlator; /* index of the correlator that is added to */
} milcgpu_meson_term;

typedef struct {
    size_t struct_size;
    int origin[4]; /* X Y Z T: of phases, signs and momenta */
    int n_momenta;
    int n_terms; /* 0: nothing is added */
    int n_correlators;
    const milcgpu_momentum *momenta;
    const milcgpu_meson_term *terms;
} milcgpu_meson_spec;
void milcgpu_meson_defaults(milcgpu_meson_spec *spec, size_t size); /* all 0 */

/* Meson correlators at momenta, MILC's ks_meson_cont_mom. correlators: n_correlators times nt complex numbers in
 * double, the t of correlator c at [c nt + t]. Results are added to what is there. Each operator is applied once,
 * however many terms use it, and all local operators share one pass. fat1, fat2: fat links for rho..fn, as above: fat1
 * if src1 is shifted, fat2 if src2 is. */
milcgpu_status milcgpu_quarks_contract(milcgpu_meson_links *links, const milcgpu_meson_spec *spec, milcgpu_links *fat1,
                                       milcgpu_links *fat2, int n, const milcgpu_quarks *src1,
                                       const milcgpu_quarks *src2, double *correlators);

#ifdef __cplusplus
}
#endif
#endif
