/* milcgpu: baryon correlators of staggered quarks. The nucleon and the delta of MILC's ks_baryon_nd, the operators of
 * Golterman and Bailey (MILC's gb_baryon), and the numbers that all of these consist of.
 *
 * A quark is a propagator from one source: three vectors on the device, in a row, one for each source colour, on both
 * parities (milcgpu_vectors, milcgpu_md.h). So milcgpu_staggered_solve_vectors solves into it, and nothing is copied. A
 * milcgpu_vector names the first of the three. An octet is eight quarks, one from each corner of a unit cube. A corner
 * is a number x + 2 y + 4 z. Arguments `octets` have 24 quarks, quark s of octet f at [8 f + s], for the three quarks
 * of a baryon. A quark that no term of the call needs may be absent: of is NULL. All quarks of a call have one
 * precision. Products of quarks are formed in that precision; sums over sites are in double.
 *
 * With Q(x)[c][a] a quark of source colour c and sink colour a, these functions need
 *
 *     T_k Q(x)      mean of Q over the 2^|k| sites that are one step from x, ahead or behind, in each direction of
 *                   corner k. one_sided: Q one step ahead in each of these directions (ONE_SIDED_SHIFT_GB of MILC)
 *     E(p, q, r)    eps_{c c' c"} eps_{a a' a"} p[c][a] q[c'][a'] r[c"][a"]
 *
 * There are no links in it: gauges are fixed first, and sink links are not supported. There are no phases either.
 *
 * Every function returns a status, unless said otherwise. milcgpu_last_error() then says what failed, where, and what
 * to do. Outputs are untouched on failure. Quarks have checksums from the call that filled them to the end of this one:
 * CORRUPTED means that a bit flipped, and the vector is empty then. Shifted quarks, numbers per site and their sums are
 * not checked. NaN or infinity in a result gives NAN_OR_INF.
 *
 * On several ranks these are calls of all ranks; all arguments but the vectors must be the same on all. Every rank gets
 * the numbers of all time slices, with the same bits.
 *
 * Memory within a call: for each quark that differs the fields T_k Q at an eighth of the sites, as much as the quark
 * itself, for as many time slices at a time as fit in 1 GiB (on lattices that are cut: for all time slices, or for a
 * half, a quarter and so on if memory is short, and there one quark with a layer of neighbours).
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
 * correlator: nt complex numbers. MILC's is as many times larger as it has ranks. */
milcgpu_status milcgpu_baryon_nucleon(milcgpu_context *context, const milcgpu_vector quarks[3], double *correlator);

/* The delta of three equal quarks (Golterman, Smit, Nucl. Phys. B 255 (1985) 328, eq. 6.3): with D_j(x) = Q(x + j) +
 * Q(x - j), j = x, y, z,
 *
 *     correlator[t] += sum over x, y, z all even of the real part of E(D_x, D_y, D_z). */
milcgpu_status milcgpu_baryon_delta(milcgpu_context *context, milcgpu_vector quark, double *correlator);

/* Corners of the three quarks: of their sources, and of their shifts at the sink. 0 to 7 each. */
typedef struct {
    int source[3], sink[3];
} milcgpu_tie_up;

typedef struct {
    size_t struct_size;
    int corner;    /* sites whose x, y, z have the parities of its bits; coordinates are the lattice's own */
    int wall;      /* 1: E of the sums of T_k Q over these sites. 0: the sum of E over these sites */
    int one_sided; /* 1: see above */
    int origin[4]; /* X Y Z T; of the momentum */
    milcgpu_momentum momentum; /* f(x) multiplies E. All p 0: f is 1. wall: all p are 0 */
    int n_list;                /* 1 to 262144 = 64^3, which is all that there are */
    const milcgpu_tie_up *list;
} milcgpu_tie_up_spec;
void milcgpu_tie_up_defaults(milcgpu_tie_up_spec *spec, size_t size); /* all 0 but the parities */

/* Tie-ups of three octets: for entry i of the list
 *
 *     numbers[i nt + t] += sum over sites x of the corner, on time slice t, of
 *                          f(x) E(T_sink[0] Q0, T_sink[1] Q1, T_sink[2] Q2)(x),   Q_f = octets[8 f + source[f]].
 *
 * Equal quarks are recognized by their vectors, and tie-ups that differ by a permutation of the three are computed
 * once: the 64 x 64 tie-ups whose corners XOR to 0 at both ends are 715 for one octet, 2080 for two, 4096 for three. */
milcgpu_status milcgpu_octets_tie_up(milcgpu_context *context, const milcgpu_tie_up_spec *spec,
                                     const milcgpu_vector *octets, double *numbers);

/* MILC's operators (Bailey, hep-lat/0611023) by the three words of its input: irrep 8 8' 16+ 16-, symmetry S A M1/2,
 * and class 1 2 3 41 42 5 61 62 7. Example: "16+ M1/2 42". S and A have no class 42 and 62. The number of the operator,
 * or -1 if there is none, and milcgpu_last_error() says so. (8 M1/2 42 and 8' M1/2 42 are 41 there, as in MILC.) */
int milcgpu_gb_operator_index(const char *label);
/* The label of a number, with its final 0. 12 characters are enough; fewer than needed are BAD_ARGUMENT. */
milcgpu_status milcgpu_gb_operator_label(int index, char *label, size_t size);

#define MILCGPU_TWO_POINT (-1)

/* One term of a correlator: correlator[t] += factor i^phase C[t], below. */
typedef struct {
    int source, sink; /* numbers of operators. A needs two light quarks and a strange one; that is not checked */
    int flip;         /* 1: complemented corners at the sink, the star of MILC's input */
    int wall, cube;   /* 1: wall, cube; 0: point, corner */
    int phase;        /* 0 to 3 */
    double factor;
    int correlator; /* index of the correlator that is added to */
} milcgpu_gb_term;

typedef struct {
    size_t struct_size;
    int current;     /* MILCGPU_TWO_POINT, or the number of SPIN-TASTE (milcgpu_spin_taste_index("GX-G1")): the
                        third octet is then the struck quark, from a sequential source */
    int whole_sinks; /* 1: sinks are symmetrised (S) and projected (M1/2), as in MILC until February 2024. 0: as
                        in MILC since then, S with the corners of one order, M1/2 with two. Equal if the three
                        octets are; if they are not, only whole sinks leave the symmetries unmixed */
    int one_sided;   /* 1: see above */
    int origin[4];   /* X Y Z T; of the momentum */
    milcgpu_momentum momentum;  /* as above */
    int n_terms, n_correlators; /* at least 1 */
    const milcgpu_gb_term *terms;
} milcgpu_gb_spec;
void milcgpu_gb_defaults(milcgpu_gb_spec *spec, size_t size); /* a two-point function; the rest as above */

/* Correlators of Golterman-Bailey operators, MILC's gb_baryon for all classes:
 *
 *     C[t] = 1/36 sum_o sigma(o) sum over (w, s) of the source, (v, k) of the sink of w v
 *            sum over x in corner c(o) of slice t of f(x) E(T_k0 Q0_{s0 ^ u(o)}, T_k1 Q1_{s1 ^ u(o)}, T_k2 Q2_{s2 ^
 * u(o)})
 *
 * with weights w, v and corners s, k of the operators, o = 0 (corner) or 0 to 7 (cube), u and c equal to o, but for o
 * XOR the displacement of a current in one of them, and sigma the sign of a current. correlators: n_correlators times
 * nt complex numbers, the t of correlator i at [i nt + t], from time slice 0. MILC prints them from r_offset on.
 * milcgpu_octets_tie_up is called once for each corner c that occurs, with all tie-ups that the terms need. */
milcgpu_status milcgpu_gb_correlate(milcgpu_context *context, const milcgpu_gb_spec *spec, const milcgpu_vector *octets,
                                    double *correlators);

#ifdef __cplusplus
}
#endif
#endif
