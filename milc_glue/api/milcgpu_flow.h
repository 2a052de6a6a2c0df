/* milcgpu: gradient flow and stout smearing of the gauge field of a milcgpu_gauge, and measurements on it.
 *
 * Conventions are those of milcgpu_md.h: links carry staggered phases and boundary sign, before and after a call.
 * Results do not depend on them; they are those of links without phases. Links may also be loaded without phases and
 * sign. Then signs must be MILCGPU_SIGNS_OUT in each call. A wrong value is refused (milcgpu_md.h, Phases).
 *
 * Every function returns a status, unless said otherwise. milcgpu_last_error() then says what failed, where, and what
 * to do. A function that fails leaves the links as they were, if not said otherwise; CORRUPTED is as in milcgpu_md.h.
 * Momenta are not touched. On several ranks these are calls of all ranks, with the same arguments on each. Fields have
 * the bits that one rank would compute. Results are those of the whole lattice, with the same bits on each rank.
 */
#ifndef MILCGPU_FLOW_H
#define MILCGPU_FLOW_H

#include "milcgpu_md.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    MILCGPU_FLOW_WILSON = 0,  /* plaquettes */
    MILCGPU_FLOW_SYMANZIK = 1 /* plaquettes 5/3, rectangles -1/12 (Fodor et al., arXiv:1406.0827). MILC's "zeuthen" is
                                 the same */
} milcgpu_flow_action;

/* Integrators, with MILC's numbers. LUSCHER is the usual one. ADAPT_ integrators choose their steps, see `tolerance`.
 * K: fields of the size of the momenta that an integrator keeps. The sources in the literature are in
 * gpu_kernels/gauge/flow/flow_integrators.h. */
typedef enum {
    MILCGPU_FLOW_LUSCHER = 0,        /* third order, K = 1: Luescher, arXiv:1006.4518 */
    MILCGPU_FLOW_CK = 1,             /* fourth order, K = 1: Carpenter, Kennedy */
    MILCGPU_FLOW_BBB = 2,            /* fourth order, K = 1: Berland, Bogey, Bailly */
    MILCGPU_FLOW_CF3 = 3,            /* third order, K = 1: Bazavov, Chuna, arXiv:2101.05320 */
    MILCGPU_FLOW_RKMK3 = 10,         /* Runge-Kutta, Munthe-Kaas, third order, K = 3 */
    MILCGPU_FLOW_RKMK4 = 11,         /* fourth order, K = 4 */
    MILCGPU_FLOW_RKMK5 = 12,         /* fifth order, K = 6 */
    MILCGPU_FLOW_RKMK8 = 13,         /* eighth order, K = 13 */
    MILCGPU_FLOW_ADAPT_LUSCHER = 20, /* third order, K = 2: Fritzsch, Ramos, arXiv:1301.4388 */
    MILCGPU_FLOW_ADAPT_BS = 21,      /* third order, K = 4: Bogacki, Shampine */
    MILCGPU_FLOW_ADAPT_CF3 = 22      /* the same as ADAPT_LUSCHER, as in MILC */
} milcgpu_flow_integrator;

#define MILCGPU_FLOW_AUTO_STOP (-1.0)

typedef struct {
    size_t struct_size;
    int action;        /* milcgpu_flow_action */
    int integrator;    /* milcgpu_flow_integrator */
    int exp_order;     /* order of the series of the exponential, 1 to 16; 8 is usual in MILC. 0: the exponential to
                          rounding */
    double step;       /* flow time of a step, in units of a^2; of adaptive integrators the first one that is tried.
                          > 0. docs/guide.md has a table of steps that are safe: with LUSCHER Wilson flow is stable up to
                          0.157, Symanzik flow up to 0.094 */
    double stop;       /* flow time of the end, in units of a^2. The last step is shortened to fit. 0: measure only.
                          MILCGPU_FLOW_AUTO_STOP: the first measurement with t^2 E > 0.45 and t d/dt (t^2 E) > 0.35,
                          which is beyond t0 and w0 (both are where these are 0.3) */
    double tolerance;  /* adaptive integrators: each step has two solutions U and V, of different order. If |U - V| / 9
                          of any link is larger than this, |.|^2 the sum over the elements, the step is made again with
                          a shorter length */
    double anisotropy; /* xi = a_s / a_t: staples of spatial links along t get the weight xi^2. 0: 1 */
    int every;         /* measure after every so many steps, and at the end. 0: after each step */
    int most_steps;    /* 0: 100000 */
    int signs;         /* milcgpu_signs of the links */
    int as_milc;       /* 0: a step that ends at `stop` up to rounding is the last one. 1: MILC's loop, which differs in
                          the last bits: rounding may add a step of almost no length, and step lengths are rounded to
                          the precision of the links. It also takes what is refused otherwise: steps that raise the
                          action, and a last adaptive step that is shortened to end at `stop` and misses the tolerance;
                          report->message then says so, with status OK. An automatic stop never gives up */
} milcgpu_flow_spec;
/* Wilson flow, LUSCHER, exp_order 8, step 0.0625, automatic stop, tolerance 1e-4. */
void milcgpu_flow_defaults(milcgpu_flow_spec *spec, size_t size);

/* What is measured: the numbers of MILC's GFLOW lines, in double. All are means over the sites, except the charge. _t
 * is the sum over the three planes with time, _s over the three planes in space. The energy density E of t0 and w0 is
 * clover_t + clover_s. */
typedef struct {
    double clover_t, clover_s;       /* -tr F^2. F is the clover field strength without its trace, an eighth of (four
                                        plaquettes around the site - h.c.) */
    double plaquette_t, plaquette_s; /* Re tr / 3 of the plaquette: 3 on unit links, as a sum over three planes */
    double rectangle_t, rectangle_s; /* Re tr / 3 of the rectangles, the mean of a plane's two: 3 on unit links */
    double charge;                   /* topological charge, -sum over sites of
                                        tr(F_xy F_zt - F_xz F_yt + F_yz F_xt) / (4 pi^2) */
} milcgpu_observables;

typedef struct {
    double time, step;      /* flow time so far, and the last step (before the first one: that of the spec); in a^2 */
    double distance;        /* between the two solutions of the last step; 0: not adaptive, or no step yet */
    int steps, rejected;    /* steps made; steps that were made again */
    milcgpu_observables of; /* what was measured at this flow time */
} milcgpu_flow_point;

/* Called after each measurement, the first at flow time 0, on every rank. If it returns anything but 0 on any rank, the
 * flow ends there with status OK. Calls with this context inside, and exceptions: milcgpu.h. After an exception the
 * flow ends at once. */
typedef int (*milcgpu_flow_callback)(void *user, const milcgpu_flow_point *point);

typedef struct {
    size_t struct_size;
    int status;
    int ended_by_caller;   /* 1: the callback ended the flow */
    double seconds;        /* the whole call */
    double kernel_seconds; /* from the first step to the last, by device events; callbacks are in it */
    double flops, gflops;  /* floating-point operations; 1e9 of them per kernel second */
    uint64_t bytes_to_device, bytes_to_host;
    double next_step;        /* the `step` with which another call would go on */
    milcgpu_flow_point last; /* the last measurement */
    char message[400];       /* of a failure, or what as_milc let pass; empty when all is well */
    int beyond_half_box;     /* 1: at last.time sqrt(8 t) is above half of the smallest extent. What is measured from
                                there on (t0, w0) depends on the size of the lattice */
} milcgpu_flow_report;

/* The gradient flow of the links: dV/dt = -TA(V S^dag) V, S the staples of the action,
 * TA(A) = (A - A^dag) / 2 - trace / 3 (Luescher, arXiv:1006.4518). The links of the handle become those at the end of
 * the flow. callback and report may be NULL.
 *
 * A flow lowers its action (of plaquettes, or Symanzik's). If the action rises from one measurement to the next, or
 * after a step that is longer than what is stable on smooth links, steps are too long: the call ends with BAD_ARGUMENT,
 * which names spec.step or spec.tolerance, and the links are as before.
 *
 * NOT_CONVERGED: most_steps were made before the end, or sqrt(8 t) is the largest extent and an automatic stop gives
 * up. The links are then those at the flow time reached; another call goes on from there. NAN_OR_INF: an observable or
 * a link is not finite; the links are as before the call.
 *
 * Memory beside the handle: two sets of links (ADAPT_LUSCHER: three), and K times the size of the momenta (K: see
 * milcgpu_flow_integrator). SYMANZIK with anisotropy 1 takes one more time the size of the momenta, and what
 * milcgpu_momenta_add_gauge_force takes. On several ranks links also need room for the layers around the box. */
milcgpu_status milcgpu_gauge_flow(milcgpu_gauge *gauge, const milcgpu_flow_spec *spec, milcgpu_flow_callback callback,
                                  void *user, milcgpu_flow_report *report);

/* Measures the links of the handle once, without flow. signs: milcgpu_signs. NAN_OR_INF: a result is not
 * finite. On failure *observables is untouched. */
milcgpu_status milcgpu_gauge_measure(milcgpu_gauge *gauge, int signs, milcgpu_observables *observables);

typedef struct {
    size_t struct_size;
    double rho;     /* weight of the staples, >= 0. Example: 0.1 */
    int times;      /* how often, one after the other; 0: nothing is done */
    int directions; /* 4: all links. 3: spatial links, by staples in space; time links stay */
    int signs;      /* milcgpu_signs of the links */
} milcgpu_stout_spec;
void milcgpu_stout_defaults(milcgpu_stout_spec *spec, size_t size); /* directions 4 */

/* Stout smearing: U <- exp(iQ) U, with Q made of rho times the staples (Morningstar, Peardon, hep-lat/0311018).
 * NAN_OR_INF: the smeared links are not finite; the links stay as they were. Memory beside the handle: two sets of
 * links (times 1: one). report may be NULL. */
milcgpu_status milcgpu_gauge_stout_smear(milcgpu_gauge *gauge, const milcgpu_stout_spec *spec,
                                         milcgpu_force_report *report);

/* Copies the links of one handle to another one of the same context and precision, on the device. Use it before
 * smearing or flow if the links are still needed. Momenta are not copied. If `from` is empty or its links
 * have changed (CORRUPTED), `to` stays as it is. If the copy itself fails, the links of `to` are empty. */
milcgpu_status milcgpu_gauge_copy(milcgpu_gauge *from, milcgpu_gauge *to);

#ifdef __cplusplus
}
#endif
#endif
