/* milcgpu: baryon correlators of staggered quarks. The nucleon and the delta of MILC's ks_baryon_nd, the operators of
 * Golterman and Bailey (MILC's gb_baryon), and the tie-ups of which all of these consist.
 *
 * A quark is a propagator from one source: three consecutive vectors on the device, one for each source colour, each
 * with both parities (milcgpu_vectors, milcgpu_md.h). milcgpu_staggered_solve_vectors can solve into them, so nothing
 * is copied. A milcgpu_vector names the first of the three.
 *
 * A corner of a unit cube is a number x + 2 y + 4 z. An octet is eight quarks; the source of quark s is at corner s. An
 * argument `octets` has three octets, one for each quark of the baryon: quark s of octet f is entry 8 f + s. If no term
 * of the call needs a quark, its `of` may be NULL. All quarks of a call have one precision. Products of quarks have
 * that precision; sums over sites are in double.
 *
 * Let Q(x)[c][a] be a quark with source colour c and sink colour a. The functions compute
 *
 *     T_k Q(x)      the mean of Q over the 2, 4 or 8 sites that differ from x by one step, ahead or behind, in each
 *                   direction that corner k has (T_0 Q is Q). With one_sided: Q at the site that is one step ahead
 *                   in each of these directions (MILC's ONE_SIDED_SHIFT_GB)
 *     E(p, q, r)    eps_{c c' c"} eps_{a a' a"} p[c][a] q[c'][a'] r[c"][a"]
 *
 * T_k has neither links nor phases: fix the gauge first. Links at the sink are not supported.
 *
 * Every function returns a status, unless said otherwise. milcgpu_last_error() then says what failed, where, and what
 * to do. Outputs are untouched on failure. Quarks have checksums from the call that filled them to the end of this one:
 * CORRUPTED means that a bit flipped, and the vector is empty then. Shifted quarks, numbers per site and their sums are
 * not checked. NaN or infinity in a result gives NAN_OR_INF.
 *
 * On several ranks these are calls of all ranks; all arguments but the vectors must be the same on all. Every rank gets
 * the numbers of all time slices, with the same bits.
 *
 * Memory: a call stores the eight fields T_k Q of each different quark at an eighth of the sites, which is as much as
 * the quark itself, for as many time slices at a time as fit in 1 GiB. On lattices that are cut it stores all time
 * slices at a time (a half, a quarter and so on if memory is short), and one quark with a layer of neighbours.
 * milcgpu_octets_plan() returns the bytes.
 */
#ifndef MILCGPU_BARYONS_H
#define MILCGPU_BARYONS_H

#include "milcgpu_mesons.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The nucleon of quarks[0], quarks[1], quarks[2]: with Q_f = quarks[f],
 *
 *     correlator[t] += sum over x, y, z all even of det(row f = 0, 1, 2: Q_f(x, t)[c = f]).
 *
 * correlator: nt complex numbers. On N ranks, MILC prints N times this number. */
milcgpu_status milcgpu_baryon_nucleon(milcgpu_context *context, const milcgpu_vector quarks[3], double *correlator);

/* The delta of three equal quarks (Golterman, Smit, Nucl. Phys. B 255 (1985) 328, eq. 6.3): with D_j(x) = Q(x + j) +
 * Q(x - j), j = x, y, z,
 *
 *     correlator[t] += sum over x, y, z all even of the real part of E(D_x, D_y, D_z). */
milcgpu_status milcgpu_baryon_delta(milcgpu_context *context, milcgpu_vector quark, double *correlator);

/* For each of the three quarks: the corner s of its source, and the corner k of its T_k at the sink. */
typedef struct {
    int source[3], sink[3];
} milcgpu_tie_up;

typedef struct {
    size_t struct_size;
    int corner;    /* the sites x, y, z with x % 2, y % 2, z % 2 equal to its bits, in coordinates of the lattice */
    int wall;      /* 1: E of the sums of T_k Q over these sites. 0: the sum of E over these sites */
    int one_sided; /* 1: the other T_k, see above */
    int origin[4]; /* X Y Z T; of the momentum */
    milcgpu_momentum momentum; /* f(x) multiplies E; f is 1 if all p are 0. A wall needs p = 0 0 0 */
    int n_list;                /* at most 262144 = 64^3, the number of different tie-ups */
    const milcgpu_tie_up *list;
} milcgpu_tie_up_spec;
void milcgpu_tie_up_defaults(milcgpu_tie_up_spec *spec, size_t size); /* all 0, momentum.parity MILCGPU_EVEN_AND_ODD */

/* Tie-ups of three octets: for entry i of the list
 *
 *     numbers[i nt + t] += sum over sites x of the corner, on time slice t, of
 *                          f(x) E(T_sink[0] Q0, T_sink[1] Q1, T_sink[2] Q2)(x),   Q_f = octets[8 f + source[f]].
 *
 * Quarks are equal if they name the same vectors. The call computes tie-ups that differ by a permutation of the three
 * quarks once. Example: 64 x 64 tie-ups have corners whose XOR is 0 at source and sink. They take 4096 computations for
 * three different octets, 2080 if two octets are equal, and 715 if all three are. */
milcgpu_status milcgpu_octets_tie_up(milcgpu_context *context, const milcgpu_tie_up_spec *spec,
                                     const milcgpu_vector *octets, double *numbers);

/* The largest number of bytes on the device during a call with so many different quarks, 8 for an octet, and so many
 * different tie-ups at one corner: 715, 2080 and 4096 are all of one, two and three different octets. Walls take 72
 * for each quark instead. The plan includes the quarks, as one set of vectors that is not allocated yet, and what is in
 * use now. It leaves out messages between ranks. precision: of the quarks. `text` and `bytes` are as in
 * milcgpu_memory_plan(). If less memory is free, a call needs less: it ties up fewer time slices at a time. */
milcgpu_status milcgpu_octets_plan(milcgpu_context *context, int precision, int quarks, int tie_ups, char *text,
                                   size_t text_size, size_t *bytes);

/* MILC's operators (Bailey, hep-lat/0611023) by the three words of its input: irrep 8 8' 16+ 16-, symmetry S A M1/2,
 * and class 1 2 3 41 42 5 61 62 7. Example: "16+ M1/2 42". S and A have no class 42 and 62. Returns the number of the
 * operator, or -1 if there is none; milcgpu_last_error() then says why. The operators 8 M1/2 42 and 8' M1/2 42 are
 * equal to those of class 41, as in MILC. */
int milcgpu_gb_operator_index(const char *label);
/* The label of a number, with its final 0. 12 characters are enough; fewer than needed are BAD_ARGUMENT. */
milcgpu_status milcgpu_gb_operator_label(int index, char *label, size_t size);

enum { MILCGPU_TWO_POINT = -1 };

/* One term of a correlator: correlator[t] += factor i^phase C[t]; milcgpu_gb_correlate defines C. */
typedef struct {
    int source, sink; /* numbers of operators. Operators with symmetry A are for two light quarks and a strange one;
                         the call does not check this */
    int flip;         /* 1: complemented corners at the sink, the star of MILC's input */
    int wall, cube;   /* wall: 1 wall sink, 0 point sink. cube: 1 all corners of the cube, 0 corner 0 alone */
    int phase;        /* 0 to 3 */
    double factor;
    int correlator; /* index of the correlator, below n_correlators */
} milcgpu_gb_term;

typedef struct {
    size_t struct_size;
    int current;     /* MILCGPU_TWO_POINT, or the number of SPIN-TASTE (milcgpu_spin_taste_index("GX-G1")): the
                        third octet is then the struck quark, from a sequential source */
    int whole_sinks; /* 1: S sinks are symmetrised over all orders of the corners, M1/2 sinks are projected, as in
                        MILC until February 2024. 0: S sinks have one order, M1/2 sinks two, as in MILC since then.
                        Both give the same if the three octets are equal. If not, symmetries mix without whole_sinks */
    int one_sided;   /* 1: the other T_k, see above */
    int origin[4];   /* X Y Z T; of the momentum */
    milcgpu_momentum momentum; /* as in milcgpu_tie_up_spec, for all terms */
    int n_terms, n_correlators;
    const milcgpu_gb_term *terms;
} milcgpu_gb_spec;
void milcgpu_gb_defaults(milcgpu_gb_spec *spec, size_t size); /* two-point; all 0, momentum.parity EVEN_AND_ODD */

/* Correlators of Golterman-Bailey operators, MILC's gb_baryon for all classes. An operator is a sum of triples of
 * corners with weights: triples s = (s0, s1, s2) with weights w at the source, triples k = (k0, k1, k2) with weights v
 * at the sink. ^ is the XOR of corners.
 *
 *     C[t] = 1/36 sum over o of sigma(o) sum over s and k of w(s) v(k) S(o, s, k)[t]
 *     S(o, s, k)[t] = sum over the sites x of corner c(o), on time slice t, of
 *                     f(x) E(T_k0 Q0, T_k1 Q1, T_k2 Q2)(x),   Q_f = octets[8 f + (s_f ^ u(o))]
 *
 * The sum over o has o = 0 alone, or with cube all of 0 to 7. Two-point functions have sigma = 1 and u(o) = c(o) = o. A
 * current GA-GB has a displacement d, the directions in space in which A and B differ, and a sign sigma(o). If the sink
 * is M1/2, u(o) = o ^ d and c(o) = o; for other sinks u(o) = o and c(o) = o ^ d. flip replaces k by k ^ 7 and c(o) by
 * c(o) ^ 7. wall is as in milcgpu_tie_up_spec.
 *
 * correlators: n_correlators times nt complex numbers, the t of correlator i at [i nt + t]. t begins at time slice 0;
 * MILC prints from r_offset on. Pass all correlators of three octets in one call: tie-ups that several terms need are
 * computed once. */
milcgpu_status milcgpu_gb_correlate(milcgpu_context *context, const milcgpu_gb_spec *spec, const milcgpu_vector *octets,
                                    double *correlators);

#ifdef __cplusplus
}
#endif
#endif
