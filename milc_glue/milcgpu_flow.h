/* milcgpu: gradient flow and stout smearing of the gauge field behind a milcgpu_gauge, and what is measured on it.
 *
 * Conventions are those of milcgpu_md.h: links carry staggered phases and boundary sign, and so they do afterwards. All
 * results are those of the links without them. Links may also be loaded without phases, if phases_out says so. Such
 * links may only be used by milcgpu_gauge_save, milcgpu_momenta_* and the functions here.
 *
 * Every function returns a status and says in milcgpu_last_error() what failed, where, and what to do. A
 * function that fails leaves the links as they were, if not said otherwise. Momenta are not touched. On several ranks
 * these are calls of all ranks, with the same numbers.
 */
#ifndef MILCGPU_FLOW_H
#define MILCGPU_FLOW_H

#include "milcgpu_md.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    MILCGPU_FLOW_WILSON = 0,
    MILCGPU_FLOW_SYMANZIK = 1 /* plaquettes 5/3, rectangles -1/12; MILC's zeuthen is the same */
} milcgpu_flow_action;

/* MILC's numbers. Orders and sources: gpu_kernels/gauge/flow_integrators.h. */
typedef enum {
    MILCGPU_FLOW_LUSCHER = 0, /* MILC's wilson_flow */
    MILCGPU_FLOW_CK = 1,
    MILCGPU_FLOW_BBB = 2,
    MILCGPU_FLOW_CF3 = 3,
    MILCGPU_FLOW_RKMK3 = 10,
    MILCGPU_FLOW_RKMK4 = 11,
    MILCGPU_FLOW_RKMK5 = 12,
    MILCGPU_FLOW_RKMK8 = 13,
    MILCGPU_FLOW_ADAPT_LUSCHER = 20,
    MILCGPU_FLOW_ADAPT_BS = 21,
    MILCGPU_FLOW_ADAPT_CF3 = 22 /* as in MILC: the same as ADAPT_LUSCHER */
} milcgpu_flow_integrator;

#define MILCGPU_FLOW_AUTO_STOP (-1.0)

typedef struct {
    size_t struct_size;
    int action, integrator;
    int exp_order;     /* order of the exponential's series, 1 to 16; MILC's input has 8. 0: the whole series */
    double step;       /* flow time of a step, in lattice spacings squared; adaptive integrators: of the first step */
    double stop;       /* flow time of the end; the last step is shortened to fit. MILCGPU_FLOW_AUTO_STOP: where
                          t^2 E > 0.45 and t d/dt (t^2 E) > 0.35, which is enough for t0 and w0. 0: no step */
    double tolerance;  /* adaptive: if the two solutions of a step differ by more (|U - V| / 9 of the worst link), the
                          step  is tried again with a shorter one. Not for the last step */
    double anisotropy; /* staples of spatial links along t are weighted by its square. 0: 1 */
    int every;         /* measure after every so many steps, and at the end. 0: after each step */
    int most_steps;    /* 0: 100000 */
    int phases_out;    /* 0: the links carry staggered phases and boundary sign; 1: they do not */
    int as_milc; /* 0: a step that ends at `stop` up to rounding is the last one. 1: MILC's loop to the last bit; there
                    rounding may add a step of almost no length, and steps are rounded to the links' precision */
} milcgpu_flow_spec;

/* MILC's defaults: Wilson, LUSCHER, exp_order 8, step 0.0625, automatic stop; tolerance 0.01. */
void milcgpu_flow_defaults(milcgpu_flow_spec *spec);

/* The numbers of MILC's GFLOW lines: means over the sites, except the charge. _t: the three planes with time; _s: the
 * three planes in space. The energy density E of t0 and w0 is clover_t + clover_s. */
typedef struct {
    double clover_t, clover_s;       /* -tr F^2, sum over three planes; F: clover, traceless */
    double plaquette_t, plaquette_s; /* Re tr / 3, sum over three planes: 3 on unit links */
    double rectangle_t, rectangle_s; /* the same of the mean of a plane's two rectangles */
    double charge;                   /* topological charge of the clover */
} milcgpu_observables;

typedef struct {
    double time, step;   /* flow time; length of the last step (before the first: that of the spec) */
    double distance;     /* between the two solutions of the last step; 0: not adaptive, or no step yet */
    int steps, rejected; /* so far */
    milcgpu_observables of;
} milcgpu_flow_point;

/* Called at the beginning, and each time the flow is measured, on every rank. If it returns anything but 0, on any
 * rank, the flow ends there. It must not call functions of milcgpu with this context. */
typedef int (*milcgpu_flow_callback)(void *user, const milcgpu_flow_point *point);

typedef struct {
    size_t struct_size;
    int status;
    int ended_by_caller;
    double seconds;        /* the whole call */
    double kernel_seconds; /* of it, without copies, by device events; includes the time of callbacks */
    double flops, gflops;  /* done; per kernel second */
    uint64_t bytes_to_device, bytes_to_host;
    double next_step; /* adaptive: the step with which the flow would continue */
    milcgpu_flow_point last;
    char message[400];
} milcgpu_flow_report;

/* The gradient flow of the links: dV/dt = -TA(V S^dag) V. callback and report may be NULL. NOT_CONVERGED: most_steps
 * were made before the end, or, with an automatic stop, sqrt(8 t) is ten times the largest extent; the links are then
 * those at the flow time reached. NAN_OR_INF: an observable is not finite. Memory: two more sets of links (adaptive
 * LUSCHER: three), the size of the momenta for each K of the integrator, and, for SYMANZIK without anisotropy, what
 * milcgpu_gauge_force takes. */
milcgpu_status milcgpu_gradient_flow(milcgpu_gauge *gauge, const milcgpu_flow_spec *spec,
                                     milcgpu_flow_callback callback, void *user, milcgpu_flow_report *report);

milcgpu_status milcgpu_measure(milcgpu_gauge *gauge, int phases_out, milcgpu_observables *observables);

typedef struct {
    size_t struct_size;
    double rho;
    int times;      /* smeared one after the other; 0: nothing is done */
    int directions; /* 4, or 3: spatial links by staples in space, time links as they are */
    int phases_out; /* as above */
} milcgpu_stout_spec;

/* U <- exp(iQ) U, with Q made of rho times the staples (Morningstar, Peardon, hep-lat/0311018). NAN_OR_INF: the smeared
 * links are not finite; the links stay as they were. report may be NULL. */
milcgpu_status milcgpu_stout(milcgpu_gauge *gauge, const milcgpu_stout_spec *spec, milcgpu_force_report *report);

/* Copies the links of one handle to another one of the same context and precision, on the device. Use it before
 * smearing or flow if the links are still needed. */
milcgpu_status milcgpu_gauge_copy(milcgpu_gauge *from, milcgpu_gauge *to);

#ifdef __cplusplus
}
#endif
#endif
