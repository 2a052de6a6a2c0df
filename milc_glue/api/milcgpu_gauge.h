/* milcgpu: gauge fixing, APE and HYP smearing of the gauge field behind a milcgpu_gauge.
 *
 * Conventions are those of milcgpu_md.h: links carry staggered phases and boundary sign, and so they do afterwards.
 * Links may also be loaded without them, if `signs` says so; a wrong value is refused (milcgpu_md.h, Phases). A
 * function that fails leaves the links as they were. Momenta are not touched; after gauge fixing they no longer belong
 * to the links. On several ranks these are calls of all ranks, with the same arguments on each.
 */
#ifndef MILCGPU_GAUGE_H
#define MILCGPU_GAUGE_H

#include "milcgpu_md.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MILCGPU_LANDAU = 8 }; /* for `direction`; MILC's number */

typedef struct {
    size_t struct_size;
    int direction;         /* Coulomb gauge: the direction whose links are left out, 0 to 3 (MILC's TUP is 3).
                              MILCGPU_LANDAU: none is */
    double boost;          /* of the overrelaxation, 1 to 1e6; 0: 1.8 */
    int most_steps;        /* 0: 500 */
    double tolerance;      /* ends when a step changes the mean by less; 0: 2e-6. Negative: ends after most_steps */
    int reunitarize_every; /* so many steps; 0: 20 */
    int signs;             /* milcgpu_signs of the links */
    /* NULL, or called after each step, on every rank. Calls with this context inside, and exceptions: milcgpu.h. */
    void (*progress)(void *user, int step, double mean, double change);
    void *user;
} milcgpu_gauge_fix_spec;
void milcgpu_gauge_fix_defaults(milcgpu_gauge_fix_spec *spec, size_t size); /* direction 3: Coulomb gauge */

typedef struct {
    size_t struct_size;
    int status;
    int steps;           /* as MILC counts: the number of the last step, from 0; most_steps if it did not end */
    double mean, change; /* mean of Re tr U / 3 over the links of the condition, 1 on unit links; its change by the last
                            step */
    uint64_t failed;     /* links that reunitarization found too far from SU(3), and left as they are */
    double seconds;      /* the whole call */
    double kernel_seconds; /* of it, without copies, by device events; includes the time of `progress` */
    double flops, gflops;  /* done; per kernel second */
    uint64_t bytes_to_device, bytes_to_host;
    char message[400];
} milcgpu_gauge_fix_report;

/* Coulomb or Landau gauge by relaxation, step by step as MILC's gaugefix: odd sites, then even ones; at each site three
 * SU(2) subgroups, overrelaxed. It ends when the mean changes by less than the tolerance, at the earliest after two
 * steps. NOT_CONVERGED: most_steps were not enough; the links are those reached. NAN_OR_INF: the mean is not finite.
 * Takes one more set of links. report may be NULL. */
milcgpu_status milcgpu_gauge_fix(milcgpu_gauge *gauge, const milcgpu_gauge_fix_spec *spec,
                                 milcgpu_gauge_fix_report *report);

typedef struct {
    size_t struct_size;
    double weight;  /* of a staple; the link itself has 1 */
    int times;      /* smeared one after the other; 0: nothing is done */
    int space_only; /* 1: spatial links are smeared with their 4 staples in space, time links with their 6, as in MILC's
                       ape_smear_4D; 0: all with 6 */
    int most_hits;  /* of the projection to SU(3). 0: 10, as MILC; negative: no projection, links are
                       (U + w staples) / (1 + n w) */
    double tolerance; /* hits end when three of them gain less than this, relatively. 0: 1e-5, as MILC; negative: always
                        most_hits */
    int signs;        /* as above */
} milcgpu_ape_spec;
void milcgpu_ape_defaults(milcgpu_ape_spec *spec, size_t size); /* all 0 */

/* APE smearing with MILC's projection: SU(2) hits, starting from the Gram-Schmidt matrix, colours 01, 12, 02 in turn.
 * not_converged (may be NULL): number of links, over all times, whose hits did not reach the tolerance. As in MILC this
 * is no failure. NAN_OR_INF: a link plus its staples is singular, because the links are far from SU(3); they stay as
 * they were. Takes one more set of links, two if times is above 1. report may be NULL. */
milcgpu_status milcgpu_gauge_ape_smear(milcgpu_gauge *gauge, const milcgpu_ape_spec *spec, uint64_t *not_converged,
                                       milcgpu_force_report *report);

typedef struct {
    size_t struct_size;
    double alpha1; /* of the outermost level; the paper's values are the defaults */
    double alpha2;
    double alpha3;  /* of the innermost level */
    int times;      /* smeared one after the other; 0: nothing is done */
    int directions; /* 4, or 3: only spatial links, with staples in space, by alpha2 and alpha3 */
    int hits;       /* of each projection to SU(3). 0: 9, as MILC's hvy_qpot */
    int signs;      /* as above */
} milcgpu_hyp_spec;
void milcgpu_hyp_defaults(milcgpu_hyp_spec *spec, size_t size); /* the paper's alphas, directions 4 */

/* HYP smearing (Hasenfratz, Knechtli, hep-lat/0103029) with MILC's projection: `hits` SU(2) hits, starting from the
 * link itself, colours 01, 12, 02 in turn. NAN_OR_INF: the smeared links are not finite; the links stay as they were.
 * Takes eight more sets of links (directions 3: five). report may be NULL. */
milcgpu_status milcgpu_gauge_hyp_smear(milcgpu_gauge *gauge, const milcgpu_hyp_spec *spec,
                                       milcgpu_force_report *report);

#ifdef __cplusplus
}
#endif
#endif
