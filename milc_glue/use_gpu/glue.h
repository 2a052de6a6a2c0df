/* Declarations that the files of the glue share. MILC's make compiles these files with MILC's headers and flags,
 * because the sizes of MILC's structures differ between versions and precisions. At link time each __wrap_X replaces
 * MILC's X (ld --wrap=X), and __real_X is MILC's own. routines.def has the table, routines.h the declarations. A
 * program has only some of these routines, so every __real_X is weak, and is called only through milcgpu_original. */
#ifndef MILCGPU_GLUE_H
#define MILCGPU_GLUE_H

#ifdef GF_INTEGRATOR
#include "wilson_flow_includes.h"
#elif defined(HYP_3D_SMEARING)
#include "hvy_qpot_includes.h"
#elif defined(MILCGPU_WITHOUT_FERMIONS) /* set by select.sh */
#include "../generic/generic_includes.h"
#else
#include "../generic_ks/generic_ks_includes.h"
#include "../include/fermion_links.h"
#endif
#include "plugin.h"
#include "serves.h"

#if !defined(MILCGPU_SERVES) && !defined(MILCGPU_SERVES_FLOW) && !defined(MILCGPU_SERVES_HYP) &&                       \
    !defined(MILCGPU_WITHOUT_FERMIONS)
#error "milcgpu serves the improved staggered actions with fat and long links: asqtad and HISQ"
#endif
#if defined(HAVE_QUDA) || defined(HAVE_GRID) || defined(HAVE_QOP) || defined(USE_CG_GPU) || defined(USE_FL_GPU)
#error "milcgpu takes over MILC's CPU routines: build with WANTQUDA=false, WANTGRID=false, WANTQOP=false"
#endif

/* What differs between the generations of MILC. */
#if MILCGPU_MILC == 1
typedef char *milcgpu_file_name;
typedef double milcgpu_eigenvalue;
#else
typedef const char *milcgpu_file_name;
typedef Real milcgpu_eigenvalue;
#endif
#if MILCGPU_MILC == 2
typedef Real milcgpu_eigen_residual;
#else
typedef double milcgpu_eigen_residual;
#endif

/* A weak routine that the program does not have is at address 0. These macros test for it, and call it. If it is
 * missing, the run ends with a message. milcgpu_there is for MILC's routines that are no originals and are weak for the
 * same reason. A test (milc_build) finds weak routines that are called in another way. */
#define milcgpu_has(original) (__real_##original != NULL)
#define milcgpu_original(original) (milcgpu_has(original) ? (void)0 : milcgpu_end_without(#original), __real_##original)
#define milcgpu_there(routine) ((routine) != NULL ? (void)0 : milcgpu_end_without(#routine), routine)
void milcgpu_end_without(const char *routine);

/* Whether this call may be offloaded. The first call starts the plugin. */
int milcgpu_offloads(void);

/* Returns MILC's index of every site of the box, even sites of the whole lattice first, x fastest; the caller frees it.
 * Fills the box of `milc`. NULL if MILC's layout contradicts itself, an extent is odd, or memory is short: MILC then
 * runs without the plugin. */
int *milcgpu_site_map(milcgpu_milc *milc);

/* Calls MILC's original of a routine, counts the call and its seconds as CPU work in the tables, and returns the
 * seconds. Meanwhile, routines that the original calls are not offloaded. */
#define milcgpu_by_milc(row, call) (milcgpu_enter_original(row), (void)(call), milcgpu_leave_original(row))
void milcgpu_enter_original(milcgpu_routine row);
double milcgpu_leave_original(milcgpu_routine row);

/* Number of MILC's originals that are running and work on the sites (sites.h): all of them; those that work on the
 * host's old copy for a comparison. */
typedef struct {
    int on_sites, on_old_copy, depth;
    double since[8]; /* start times of the `depth` originals that are running, which may be nested */
} milcgpu_running_originals;
extern milcgpu_running_originals milcgpu_originals;

/* ---- offload.c: the protocol of a routine that is offloaded -------------------------------------------------------
 */

/* Memory that a routine writes: fields and other variables. In compare mode the protocol copies it before the call,
 * runs MILC's original on the old content, and puts the device's result back. */
typedef struct {
    void *data;
    size_t bytes;    /* of a record */
    size_t n, pitch; /* number of records, and bytes from one to the next; n 0: one record */
    void *theirs;    /* set for compare(): MILC's records, without gaps */
} milcgpu_output;

/* Initializers. */
#define MILCGPU_MEMBERS(...)                                                                                           \
    { __VA_ARGS__ }
#define MILCGPU_MEMORY(data, bytes)                                                                                    \
    { data, bytes, 0, 0, NULL }
#define MILCGPU_OUTPUTS(array) .outputs = array, .n_outputs = sizeof array / sizeof *array

/* A call of a routine. Members of the first part are 0 unless the wrapper sets them. */
typedef struct milcgpu_call {
    milcgpu_routine row;
    const char *name;        /* of MILC's routine */
    const char *why_own;     /* why MILC's own routine does this call, logged once; NULL: it is offloaded */
    int needs;               /* fields whose host copy must be the newest in any case (milcgpu_need) */
    int reads;               /* more such fields, if MILC's own routine does the call */
    int writes;              /* MILCGPU_LINKS, MILCGPU_MOMENTA: what it writes in the sites */
    int (*stay)(void);       /* routines on the sites: whether the device may keep what it writes; else NULL. One that
                                only reads the sites sets it if it is compared */
    milcgpu_output *outputs; /* routines that do not work on the sites */
    int n_outputs;
    /* Compares outputs' `data` (the device's) with `theirs`; returns 0 if they differ too much. NULL: never compared.
     * In compare mode the host has the newest fields of the sites: a wrapper whose why_own asks which side has them
     * asks milcgpu_plugin_compare(), too, or none of its calls is compared. */
    int (*compare)(const struct milcgpu_call *);
    const void *details; /* for compare() */
    int (*again)(void);  /* after the device has failed: makes a second try possible; 0: there is none. NULL: never */
    int only_compared;   /* 1: MILC's original runs only for comparison. If the device fails, the wrapper continues */
    /* ---- set by the protocol ---- */
    int done, compares, counted;
    double seconds, cpu_seconds;
    void *copies;
} milcgpu_call;

/* Offloads a call. Evaluates by_device, which returns 1 if the device has done the call; a second time if it has not
 * and again() returns 1. Evaluates `original`, MILC's
 * own routine, if the device has not, or for a comparison. Returns whether the device has done it. A whole wrapper:
 *
 *     void __wrap_X(ARGUMENTS) {
 *         milcgpu_output output[] = {MILCGPU_MEMORY(dest, BYTES)};
 *         milcgpu_call call = MILCGPU_MEMBERS(.row = MILCGPU_X, .name = "X", .why_own = ..., MILCGPU_OUTPUTS(output),
 *                                             .compare = ...);
 *         milcgpu_offload(&call, milcgpu_plugin_X(ARGUMENTS), milcgpu_original(X)(ARGUMENTS));
 *     }
 */
#define milcgpu_offload(call, by_device, original)                                                                     \
    (milcgpu_begins_device(call) ? milcgpu_end_device(call, MILCGPU_TRIED(call, by_device)) : (void)0,                 \
     milcgpu_begins_original(call) ? ((void)(original), milcgpu_end_original(call)) : (void)0, milcgpu_end_call(call))
#define MILCGPU_TRIED(call, by_device) ((by_device) || (milcgpu_tries_again(call) && (by_device)))
int milcgpu_begins_device(milcgpu_call *call);
int milcgpu_tries_again(const milcgpu_call *call);
void milcgpu_end_device(milcgpu_call *call, int done);
int milcgpu_begins_original(milcgpu_call *call);
void milcgpu_end_original(milcgpu_call *call);
int milcgpu_end_call(milcgpu_call *call);
double milcgpu_seconds_so_far(const milcgpu_call *call); /* within by_device: for MILC's timing lines */
/* Whether MILC's own routine does a call. Logs the reason once, if there is one. */
int milcgpu_declines(milcgpu_routine row, const char *why_own);

/* After a call with only_compared that the device has not done: runs MILC's own routine. */
#define milcgpu_by_original(call, original) (milcgpu_begin_instead(call), (void)(original), milcgpu_end_instead(call))
void milcgpu_begin_instead(const milcgpu_call *call);
void milcgpu_end_instead(const milcgpu_call *call);

/* Offloads n calls that the device does together and MILC one by one. `original` is evaluated for each k. */
#define milcgpu_offload_each(calls, n, k, by_device, original)                                                         \
    do {                                                                                                               \
        if (milcgpu_begin_devices(calls, n))                                                                           \
            milcgpu_end_devices(calls, n, MILCGPU_TRIED(calls, by_device));                                            \
        for (k = 0; k < (n); k++) {                                                                                    \
            if (milcgpu_begins_original(&(calls)[k])) {                                                                \
                (void)(original);                                                                                      \
                milcgpu_end_original(&(calls)[k]);                                                                     \
            }                                                                                                          \
            milcgpu_end_call(&(calls)[k]);                                                                             \
        }                                                                                                              \
    } while (0)
int milcgpu_begin_devices(milcgpu_call *calls, int n);
void milcgpu_end_devices(milcgpu_call *calls, int n, int done);

/* compare() functions: for a first output of links; for a first output of colour vectors; for what a routine writes in
 * the sites; for two numbers. */
int milcgpu_compare_as_links(const milcgpu_call *call);
int milcgpu_compare_as_quarks(const milcgpu_call *call);
int milcgpu_compare_gauge(const milcgpu_call *call);
int milcgpu_compare_numbers(const milcgpu_call *call, double ours, double theirs);

/* A reason that the table at the start has already printed; and whether it is the reason why MILC's own routine does D.
 */
#define MILCGPU_SAID_AT_START ""
const char *milcgpu_why_own_dslash(void);

/* ---- memory.c -----------------------------------------------------------------------------------------------------
 */

/* Allocates memory that MILC's own routine would need, too. If there is none, the run ends, as in MILC's routine. */
void *milcgpu_room(size_t bytes, const char *what);
/* NULL after a line "no room in the host's memory for `what`" if there is none. */
void *milcgpu_try_room(size_t bytes, const char *what);
/* Allocates memory that MILC's own routine does not need. All ranks call it. If one rank has none, it returns NULL on
 * all ranks, after the same line, which names what is skipped. */
void *milcgpu_spare_room(size_t bytes, const char *what);
/* Copies a field, as the starting point of MILC's own routine in a comparison. NULL outside compare mode, or if memory
 * is short, after a line in the log: the call is then not compared. */
void *milcgpu_copy_to_compare(const void *field, size_t bytes);

/* Called with the bytes and the address of every malloc in MILC's objects and in the glue; NULL: nothing is. */
extern void (*milcgpu_sees_malloc)(size_t bytes, void *block);

/* For each row of the tables: why MILC's own routine does it in this program; NULL: it is offloaded (MILCGPU_WHY in
 * routines.def). */
void milcgpu_find_not_offloaded(const char **why);
#ifdef ASQ_OPTIMIZED_FATTENING
#define MILCGPU_NO_COEFFICIENTS "MILC's own: this action's links are not made from the six coefficients"
#else
#define MILCGPU_NO_COEFFICIENTS                                                                                        \
    "MILC's own: path by path, because quark_action.h does not define ASQ_OPTIMIZED_FATTENING"
#endif

/* A field of MILC's, for the library. */
static inline milcgpu_field milcgpu_field_of(const void *f) {
    milcgpu_field field = {(void *)f, MILC_PRECISION == 1 ? MILCGPU_SINGLE : MILCGPU_DOUBLE, 0};
    return field;
}

#define MILCGPU_NO_LINKS "MILC's own: there are no links"
#define MILCGPU_NO_TOLERANCE "MILC's own: no tolerance is given"
#define MILCGPU_UNKNOWN_ORDER "MILC's own: this program's order of the exponential is not known"
#ifdef NO_SINK_LINKS
#define MILCGPU_LINKS_AT_SINKS NULL
#else
#define MILCGPU_LINKS_AT_SINKS "MILC's own: this program has links at the sinks of baryons (NO_SINK_LINKS is not set)"
#endif
#define MILCGPU_OTHER_LOOPS "MILC's own: this gauge action has other loops, or powers of them"
#define MILCGPU_OTHER_MEASUREMENT "MILC's own: it prints other numbers in this program"
/* With user-defined coefficients MILC's own routine does the flow. */
#if (defined(READ_CF3_FROM_FILE) && GF_INTEGRATOR == INTEGRATOR_CF3) ||                                                \
    (defined(READ_ADPT_CF3_FROM_FILE) && GF_INTEGRATOR == INTEGRATOR_ADAPT_CF3)
#define MILCGPU_FLOW_OF_A_FILE "MILC's own: the integrator's coefficients come from a file"
#else
#define MILCGPU_FLOW_OF_A_FILE NULL
#endif

/* ---- ranks.c: the ranks of MILC's job, and how a run ends -------------------------------------------------------- */

/* Fills ranks, rank, messages and decisions. All ranks call it. The tables are NULL if this MILC has no mpi.h, or if
 * memory or a communicator is missing, after a line in the log. */
void milcgpu_describe_ranks(milcgpu_milc *milc);
/* Fills this rank's box from the coordinates in the sites, and its neighbours from node_number(). 0: the sites are no
 * box. */
int milcgpu_describe_box(milcgpu_milc *milc);
/* Ends all ranks, also if only one rank calls it. */
void milcgpu_stop_all_ranks(void);
/* Prints that MILC cannot go on, and ends the run. All ranks call it. */
void milcgpu_end_of_run(void);
int milcgpu_or_end(int made); /* ends the run if made is -1: values that MILC is about to read are lost */
/* MILCGPU_COMPARE=strict: ends the run unless `good`. All ranks call it. */
void milcgpu_judge(int good);

/* ---- program.c: what this program is ----------------------------------------------------------------------------- */

/* Whether a trajectory of this program keeps its solutions on the device. */
int milcgpu_keeps_solutions(void);
/* Why MILC's own routines draw random numbers; why they do over-relaxation and heat bath. */
const char *milcgpu_why_own_numbers(void);
const char *milcgpu_why_own_sweeps(void);

#ifdef MILCGPU_SERVES

/* A field of colour vectors, for the library. */
static inline milcgpu_field milcgpu_vector_field(const su3_vector *f) { return milcgpu_field_of(f); }

/* How links are made, for the library. 0: the device cannot make them. */
milcgpu_paths milcgpu_paths_of(const ks_component_paths *p);
milcgpu_fatlink_spec milcgpu_spec_of(const ks_component_paths *p);
int milcgpu_has_coefficients(const ks_component_paths *p); /* 0: it has general paths: MILC's own */
int milcgpu_spec_of_asqtad(const ks_component_paths *p, milcgpu_fatlink_spec *spec);
milcgpu_fatlink_spec milcgpu_spec_of_hisq_links(const ks_action_paths_hisq *ap);
/* Return why MILC's own routine makes the links; NULL: the device makes them. */
const char *milcgpu_why_own_hisq(const ks_action_paths_hisq *ap);
const char *milcgpu_spec_of_hisq(const ks_action_paths_hisq *ap, milcgpu_fatlink_spec *spec);
const char *milcgpu_own_hisq_force(int umethod, int ugroup);

int milcgpu_reads_are_known(void); /* whether this program gets fields of links through get_fatlinks and get_lnglinks */
/* The order to which this program expands the exponential of the momenta; 0: not known. */
int milcgpu_exponential_order(void);
/* The gauge action. 0: it has loops that the device does not have. */
int milcgpu_known_action(milcgpu_loops *loops);
int milcgpu_measures_gauge(void); /* whether g_measure prints what the device measures */

/* The value that imp_gauge_action() has with phases out, for links with phases in (updates.c). */
double milcgpu_gauge_action_phases_in(void);

/* Makes MILC's copies of `fields` the newest; ends the run if their data are lost. fields: links and momenta of the
 * sites (MILCGPU_LINKS, MILCGPU_MOMENTA), MILCGPU_SOLUTIONS, MILCGPU_FERMION_LINKS. who: the reader, for messages. */
void milcgpu_need(int fields, const char *who);

/* Fills the fermion links that are deferred (links.h). Returns 1 if any were. */
int milcgpu_fill_links(void);
#else
/* The host has the newest, except within update() of pure_gauge. */
#define milcgpu_need(fields, who) ((void)0)
#endif

#endif
