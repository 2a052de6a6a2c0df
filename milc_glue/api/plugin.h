/* The interface of the library for the glue in use_gpu: plain C, without MILC's types. The glue reads MILC's structures
 * and fills them. Everything that does not need MILC's headers is behind this interface, in residency/ and routines/:
 * the environment, sets of links and when they are stale, the ladder of precisions after an error, the comparison of
 * CPU and GPU, the tables.
 *
 * Functions that do a routine's work are in the routine's row (routines.def), or here if they serve several rows. They
 * return 1 if it is done, and 0 if MILC's own routine must do it; a line on stderr has then said why. None of them ends
 * the run. Fields and links are MILC's: MILC's site order and precision, links su3_matrix[4 * sites], a vector field as
 * milcgpu_field (its pitch is sizeof(site) for a member of `lattice`). */
#ifndef MILCGPU_PLUGIN_H
#define MILCGPU_PLUGIN_H

#include "milcgpu.h"
#include "milcgpu_baryons.h"
#include "milcgpu_dirac.h"
#include "milcgpu_eigen.h"
#include "milcgpu_flow.h"
#include "milcgpu_gauge.h"
#include "milcgpu_mesons.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rows of the tables, one for each of MILC's routines that the plugin does. */
#define MILCGPU_ROW(row, doors, name) row,
typedef enum {
#include "routines.def"
    MILCGPU_ROUTINES /* how many */
} milcgpu_routine;

/* Bytes of the reports in the header that MILC's side was compiled with. */
typedef struct {
    size_t solve, multi_mass, fatlink, force, reunitarize, gauge_fix, flow, eigen;
} milcgpu_report_sizes;
static inline milcgpu_report_sizes milcgpu_sizes_of_reports(void) {
    const milcgpu_report_sizes sizes = {sizeof(milcgpu_solve_report),       sizeof(milcgpu_multi_mass_report),
                                        sizeof(milcgpu_fatlink_report),     sizeof(milcgpu_force_report),
                                        sizeof(milcgpu_reunitarize_report), sizeof(milcgpu_gauge_fix_report),
                                        sizeof(milcgpu_flow_report),        sizeof(milcgpu_eigen_report)};
    return sizes;
}

/* What the glue tells the plugin about MILC, once. */
typedef struct {
    size_t struct_size;
    const char *header_version; /* MILCGPU_VERSION of the header that the glue was compiled with */
    const char *milc;           /* for the table: version, action */
    int precision;              /* MILC_PRECISION: 1 or 2 */
    int ranks, rank;            /* that share the lattice */
    /* With several ranks as in milcgpu_layout, for every direction. One rank: the last three are not read. */
    int extent[4], whole[4], origin[4], neighbour[4][2];
    /* Two tables of the same ranks, whose messages never mix: for the library, and for decisions of the plugin. They
     * are used until milcgpu_plugin_exit() returns. `abort` of the second ends all ranks if they have lost one another.
     * NULL: one rank, or the glue cannot pass messages. */
    const milcgpu_messages *messages, *decisions;
    int keeps_solutions; /* 1: a trajectory of this program has its solutions on the device (..._vectors_begin) */
    int own_routines;    /* 1: MILC's own routines can take over after a failure; 0: milcgpu_plugin_retreat does */
    /* Why MILC does a routine itself in this program, in a few words for the table; NULL: the plugin does it. The table
     * names routines with this reason in one row. */
#define MILCGPU_ABSENT "not in this program"
    const char *not_offloaded[MILCGPU_ROUTINES];
    const int *site_map; /* MILC's index of the k-th site in milcgpu_layout's order; NULL: the glue could not make it */
    milcgpu_report_sizes report_sizes;
} milcgpu_milc;

/* As a program begins. begin: from here on freed fields stay in the process (host_memory.h), and all threads of this
 * rank fill and copy fields; node_ranks: the ranks of this host, which share its cores. wake: a thread makes the GPU of
 * this rank ready while MILC reads its input and its lattice; node_rank: as in milcgpu_messages, or -1: no GPU. */
void milcgpu_plugin_begin(int node_ranks);
void milcgpu_plugin_wake(int node_rank);
/* All threads touch the pages that the next malloc() of so many bytes gets. */
void milcgpu_plugin_touch(size_t bytes);
/* memset and memcpy; 0: not done. */
int milcgpu_plugin_fill(void *to, int byte, size_t bytes);
int milcgpu_plugin_copy(void *to, const void *from, size_t bytes);
/* All threads call part(what, from, to) for pieces of 0 ... n - 1. Returns the results of `part`, or-ed; -1: not done,
 * because a setting forbids it. */
int milcgpu_plugin_by_all_threads(size_t n, int (*part)(void *, size_t, size_t), void *what);
/* The same, as a call of this routine. 0: not done, because routines are not offloaded now. */
int milcgpu_plugin_routine_by_all_threads(milcgpu_routine routine, size_t n, int (*part)(void *, size_t, size_t),
                                          void *what);
/* begin_work: other threads call part(what, from, to) for pieces of 0 ... n - 1, while this one waits for the GPU. It
 * returns NULL if no thread can be started. `part` must not call the plugin. end_work frees `work`. all: 1: this thread
 * does pieces, too, and waits until all are done; 0: it waits only for the pieces that have begun. */
void *milcgpu_plugin_begin_work(size_t n, int (*part)(void *, size_t, size_t), void *what);
void milcgpu_plugin_end_work(void *work, int all);
/* Returns 1 if routines are offloaded; 0 if MILC runs by itself (MILCGPU_OFF, or an error that was logged); -1 if there
 * was no memory, which was logged: the start can be retried. */
int milcgpu_plugin_start(const milcgpu_milc *milc);
/* Whether routines are offloaded now. 0 before the start, after the device was lost, and while MILC's original runs
 * (between milcgpu_plugin_original's two calls). */
int milcgpu_plugin_active(void);
/* The same for dslash_fn_field and dslash_w_field, which move two fields for one D: on a GPU, from 8^4 sites on
 * (MILCGPU_AUTO). */
int milcgpu_plugin_takes_dslash(void);
/* All ranks call it: returns the largest of their values. 1 if they could not exchange them; the ranks then end. One
 * rank: `mine`. */
int milcgpu_plugin_agreed(int mine);
/* All ranks call it before MILC ends, while messages still pass. Prints the tables at exit, of all ranks. Without this
 * call they are printed when the process exits, for this rank alone, and say that the run did not end. No other
 * function may be called after it. Returns the status to exit with: `status`, or, if MILCGPU_TABLE has the word status,
 * MILCGPU_EXIT_BAD in place of 0 if the run's verdict is bad or MILC has left input. */
enum { MILCGPU_EXIT_BAD = 3 };
int milcgpu_plugin_exit(int status);
/* Call it before a rank ends the run after an error: rank 0 prints the tables at exit, of itself alone. 0: they are not
 * due, because milcgpu has not started. */
int milcgpu_plugin_stopped(void);
/* Call it before milcgpu_plugin_exit() if MILC stops reading its input at an error, or in the middle of a set of
 * parameters. MILC ends with status 0 in these cases, too. */
void milcgpu_plugin_input_left(void);
/* Call it around a trajectory: entering 1 before, 0 after. A long one logs how far it is. */
void milcgpu_plugin_trajectory(int entering);
/* MILC has announced the end of the run, and the tables follow when the process exits. */
void milcgpu_plugin_ended(void);
/* For the certificate of the run: plaquettes in space and in time as MILC prints them; NERSC's checksum. NULL: none. */
void milcgpu_plugin_lattice_is(const double *plaquettes, const unsigned *checksum);
/* Call it around MILC's original routine: entering 1 before, 0 after; its seconds count as CPU seconds of `routine`. */
void milcgpu_plugin_original(milcgpu_routine routine, int entering);
/* Logs what is known only at the call of a routine: why MILC does it itself, or how the plugin's result differs. Each
 * text is logged once per routine; not if it is empty, or if the table at the start has said why MILC does it. */
void milcgpu_plugin_says_once(milcgpu_routine routine, const char *text);
/* Whether the colours of a set of propagators are solved in one call; MILC would solve them one after the other
 * (MILCGPU_AUTO). Logs it once. */
int milcgpu_plugin_gathers(void);
/* Whether M x = b for these masses is solved mass by mass, on the even sites alone (UML); MILC would solve for all of
 * them together, on the even and on the odd sites (MILCGPU_AUTO). Logs it once. */
int milcgpu_plugin_mass_by_mass(int n, const double *masses);
/* MILCGPU_COMPARE: 0 not set, 1 compare, 2 strict. */
int milcgpu_plugin_compare(void);

/* If MILCGPU_PRECISION is set, it decides instead. */
typedef enum {
    MILCGPU_MIXED_AUTO = -1, /* by the size of the lattice */
    MILCGPU_MIXED_NONE = 0,
    MILCGPU_MIXED_SINGLE = 1,
    MILCGPU_MIXED_HALF = 2
} milcgpu_mixed;

/* ---- lattice files */

/* The head of a file, and the checksums of its data. */
typedef struct {
    int turned;                 /* 1: the byte order is not this machine's */
    int has_sums;               /* 0: the file has no checksums */
    unsigned says[2], found[2]; /* sum29 and sum31 of MILC's version 5, suma and sumb of SciDAC */
    char time[64];              /* of version 5 */
    char *about, *record;       /* the texts of a SciDAC file and of its field, on rank 0: for free(); else NULL */
} milcgpu_plugin_file;
/* How a file is written: version 5, with `time` as the time of writing; SciDAC if `about` is given; ILDG if `lfn` is
 * given, too. */
typedef struct {
    const char *time;           /* of version 5 */
    const char *about, *record; /* the texts of a SciDAC file and of its field */
    const char *lfn;            /* ILDG's name of the file; NULL: SciDAC */
    int precision;              /* milcgpu_precision of SciDAC's numbers */
} milcgpu_plugin_form;
/* All ranks read a gauge file into `links`, 4 per site in MILC's order of sites. They may call it before the start. It
 * reads ranks, rank, box, decisions and site_map of `milc`. lime: 0: a file of MILC's version 5. 1: a file of SciDAC or
 * ILDG; if its head is not understood, MILC's own routine reads it. 2: the same, but MILC's own cannot read it. serial:
 * only rank 0 needs to see the file. Returns 1 if done; MILC compares the checksums of version 5, those of SciDAC are
 * right. 0: MILC's own routine must read it, and nothing was written. -1: the file is wrong, which was logged: the run
 * must end. */
int milcgpu_plugin_read_lattice(const milcgpu_milc *milc, const char *name, int lime, int serial,
                                const milcgpu_field *links, milcgpu_plugin_file *file);
/* All ranks write a file; serial: rank 0 writes the sites of all. Returns 1 if done. 0: MILC's own routine must do it;
 * the reason was logged if it matters. -1: the ranks have lost one another. */
int milcgpu_plugin_write_lattice(const milcgpu_milc *milc, const char *name, const milcgpu_plugin_form *form,
                                 int serial, const milcgpu_field *links, milcgpu_plugin_file *file);

/* After a call that failed: starts the host backend for the rest of the run, and logs it. 1: it has started now, so the
 * call can be retried; 0: it was running already, or cannot be started. */
int milcgpu_plugin_retreat(void);

/* A tolerance as MILC uses it. MILC squares it in its own precision, so its sign is lost; a tolerance that is 0, or
 * whose square underflows, is not tested. NaN stays NaN: MILC then iterates to the limit. A call without a tolerance
 * above 0 is left to MILC, whose routines end at once; those for several masses iterate to the limit. */
static inline double milcgpu_tolerance(double of, int precision) {
    const double square = precision == 1 ? (double)(float)(of * of) : of * of;
    return square > 0 ? (of < 0 ? -of : of) : square;
}

/* The eigenvectors of -D^2 that a call wants. They are kept on the device for links of one content, on one parity,
 * until milcgpu_plugin_eigenvectors_drop() or until the vectors of other links need their memory. */
typedef struct {
    int count, precision; /* as in milcgpu_eigen_spec */
    double tolerance;     /* also as there, but at least what single precision reaches */
    const char *note;     /* NULL, or a line that is logged once, when they are computed */
    /* Files of MILC's (milcgpu_eigenvectors_read), of either parity; NULL or empty: none. They are read from read_from;
     * if that file does not fit, a line says so, and they are computed. write_to is written once, with the vectors on
     * even sites of the first links with `saved` whose calls name it, whether these calls are deflated or not. Vectors
     * of other links are not written; a line says so, and another line at the end if no such vectors were computed. */
    const char *read_from, *write_to;
    int saved; /* 1: links whose vectors MILC itself would save: without a twist, and with eps_naik 0 */
} milcgpu_plugin_eigenvectors;

/* The eigenvectors that deflate a solve. BY_MILCS: those that milcgpu_plugin_eigen_ready() has found, whatever the
 * links are. BY_KEPT: those that are kept for the links and the parity of the solve; if only the other parity has some,
 * and the memory suffices, D of those. */
typedef enum { MILCGPU_UNDEFLATED, MILCGPU_DEFLATED_BY_MILCS, MILCGPU_DEFLATED_BY_KEPT } milcgpu_deflation;

typedef struct {
    milcgpu_routine routine;
    int mixed; /* milcgpu_mixed */
    const void *fat, *lng;
    int parity;
    double mass, tolerance, relative_tolerance; /* as in milcgpu_solve_spec */
    int max_iterations, max_restarts;
    milcgpu_field source, solution;
    int deflate; /* one of milcgpu_deflation */
    /* With MILCGPU_DEFLATED_BY_KEPT: these are computed first if there are none, unless the mass is so heavy that the
     * last eigenvector of other links would not help it. NULL, or count 0: none are computed. */
    const milcgpu_plugin_eigenvectors *eigenvectors;
    int one_by_one;   /* 1: several sources are solved one by one; 0: in the fastest way for this tolerance */
    int limit_of_all; /* 1: max_iterations limits all starts together. Each continues from the solution before it */
} milcgpu_plugin_solve_call;

/* M x = b for n sources, by MILC's solves of M^dag M on the even sites and then on the odd ones: M^dag b is computed
 * before both. Sources and guesses are copied to the device once, and solutions are copied back once, at the end. */
typedef struct {
    milcgpu_plugin_solve_call solve; /* its parity, source and solution are not read */
    int odd_from_even;               /* 1: odd sites begin with (b - D x) / 2m of the even ones; 0: with the guess */
    int adjoint_last;                /* 1: x = M^dag y instead, with M^dag M y = b solved from zero */
    int n;
    const milcgpu_field *sources, *solutions; /* on all sites */
} milcgpu_plugin_invert_call;

/* ---- eigenvectors of -D^2 in MILC's fields of all sites: the part on one parity is on the device, one set at a time.
 * The last call of eigensolve, eigen_other_parity, eigen_ready, eigen_need or eigenvectors_drop determines its state;
 * all ranks call these. */
typedef struct {
    const void *fat, *lng;
    int parity, count;
    void *const *vectors; /* MILC's fields, `count` of them */
    double tolerance;     /* of |B v - l v|, relative to the largest l */
    int of_eigenvalues;   /* 1: the tolerance is for an eigenvalue, as in MILC's Ritz */
} milcgpu_plugin_eigen_call;

/* The lowest eigenvectors and their l, on the device only: MILC's fields are not filled. residuals: |B v - l v|. 0: not
 * done; or fewer than requested are on the device, report->count of them. */
int milcgpu_plugin_eigensolve(const milcgpu_plugin_eigen_call *call, double *values, double *residuals,
                              milcgpu_eigen_report *report);
/* 1: the device has these vectors; they were loaded if the host had the newest. The tolerance is not read. */
int milcgpu_plugin_eigen_ready(const milcgpu_plugin_eigen_call *call);
/* After that: 1: the device has the part on the other parity, too, for solves there. */
int milcgpu_plugin_eigen_both_parities(const milcgpu_plugin_eigen_call *call);
/* MILC requests the part on the other parity, D v / |D v| with the links of the call. 1: only the device has the
 * vectors, and computes that part when it is needed, with these links as they are now. 0: MILC's own routine must
 * compute it, and the device no longer has that part. */
int milcgpu_plugin_eigen_other_parity(const milcgpu_plugin_eigen_call *call);
/* 1: only the device has the newest of these vectors: MILC's fields are not filled. */
int milcgpu_plugin_eigen_on_device(void *const *vectors);
/* |B v - l v| / |v| and |v| of the first `count` vectors, l from `values`, on either parity. 0: not done, for example
 * on the other parity if MILC's own routine has computed that part. */
int milcgpu_plugin_eigen_check(const milcgpu_plugin_eigen_call *call, const double *values, double *residuals,
                               double *norms);
/* Compares our eigenvectors with MILC's, both in MILC's fields. An eigenvalue must not exceed MILC's by more than both
 * errors; MILC's vectors must lie in the space of ours, up to what the residuals allow. */
typedef struct {
    int parity, count;
    double tolerance; /* of MILC's eigenvalues */
    void *const *vectors, *const *cpu_vectors;
    const double *values, *residuals, *cpu_values, *cpu_residuals;
    double seconds, cpu_seconds;
} milcgpu_plugin_eigen_comparison;
int milcgpu_plugin_compare_eigen(const milcgpu_plugin_eigen_comparison *of);
/* If this returns 1, MILC's fields have the newest vectors, also on the other parity if eigen_other_parity has returned
 * 1. 0: they are lost, which was logged. */
int milcgpu_plugin_eigen_need(void);

/* ---- eigenvectors that are in no fields of MILC: of these links on this parity. They are computed unless as many are
 * kept. values: l of each, the lowest first. vectors: MILC's fields, filled on the parity. Either may be NULL; if both
 * are, D of the other parity's vectors suffices. 0: not done. */
int milcgpu_plugin_eigenvectors_get(const void *fat, const void *lng, int parity,
                                    const milcgpu_plugin_eigenvectors *wanted, double *values, void *const *vectors);
/* Takes the vectors from MILC's fields, which are orthogonal, the lowest first. Only count and precision are read. */
int milcgpu_plugin_eigenvectors_set(const void *fat, const void *lng, int parity,
                                    const milcgpu_plugin_eigenvectors *wanted, void *const *vectors);
/* Drops all of them: they are no longer needed, or MILC has written its fields of vectors, or may have. */
void milcgpu_plugin_eigenvectors_drop(void);

/* x <- M^dag x on all sites, as MILC does with solutions of several masses. */
int milcgpu_plugin_adjoint(const void *fat, const void *lng, double mass, milcgpu_field x);

typedef struct {
    int mixed;
    const void *fat, *lng;
    int parity, n_shifts;
    const double *offsets, *tolerances, *relative_tolerances; /* of each shift */
    int max_iterations, max_restarts;
    milcgpu_field source;
    const milcgpu_field *solutions;
} milcgpu_plugin_multi_mass_call;

/* n sets of links from the gauge field. Sets with both fat and long links stay on the device for later solves, at most
 * MILCGPU_MOST_LINK_SETS of them. */
enum { MILCGPU_MOST_LINK_SETS = 8 }; /* HISQ with three eps_naik, their derivative, and twisted copies */
typedef struct {
    milcgpu_routine routine;
    const milcgpu_fatlink_spec *spec; /* with `derivative` the last set is the derivative by eps */
    const void *gauge;                /* NULL: the newest, on the device */
    int n;
    const double *eps;
    void *const *fat, *const *lng; /* each may be NULL */
    void *v, *y, *w;               /* HISQ's, or NULL */
    /* 1: the links are on the device only, and MILC's fields are not filled. A solve that no longer finds them there is
     * not done, and the caller makes the links again. With several eps only the first set and the derivative are made
     * now; the others are made from these two when a call needs them. */
    int device_only;
} milcgpu_plugin_links_call;
int milcgpu_plugin_links(milcgpu_plugin_links_call call, milcgpu_fatlink_report *report);

/* links = a + factor b, on the device only: MILC's fields are not filled. Returns 1 if done. The device makes the sum
 * again if it was dropped, so a and b must stay as they are. All ranks call it. */
typedef struct {
    const void *fat, *lng;
} milcgpu_plugin_link_fields;
int milcgpu_plugin_links_sum(milcgpu_plugin_link_fields links, milcgpu_plugin_link_fields a, double factor,
                             milcgpu_plugin_link_fields b);

/* ---- values that MILC has requested and that are made later: a table of fields that are not filled, in
 * residency/deferred.h. All ranks make the same calls. */
enum { /* of fields, beside MILCGPU_LINKS and MILCGPU_MOMENTA */
       MILCGPU_SOLUTIONS = 4,
       MILCGPU_FERMION_LINKS = 8,
       MILCGPU_BACKWARD_LINKS = 16,
       MILCGPU_GAUGE_COPY = 32,
       MILCGPU_SOURCE = 64,
       MILCGPU_ZEROS = 128,
       MILCGPU_EIGENVECTORS = 256
};
typedef struct {
    int kind; /* one of these */
    int n_fields, n_inputs;
    const void *const *fields;             /* MILC's; links that milcgpu_plugin_links() has deferred: the fat links */
    const void *const *inputs;             /* what the fields are made of; NULL: the gauge field of the sites */
    void (*make)(void *self, void *field); /* fills all of the fields, of which this is the first */
    void (*drop)(void *self, const void *field); /* MILC has freed this field; NULL: drops make() and self */
    void *self;
} milcgpu_plugin_deferral;
/* 0: no memory for the entry: the caller must make the values now. */
int milcgpu_plugin_defer(const milcgpu_plugin_deferral *deferral);
/* Whether this field is deferred as one of these kinds; and its `self`, NULL if it is not. */
int milcgpu_plugin_is_deferred(int kinds, const void *field);
void *milcgpu_plugin_deferred_self(int kinds, const void *field);
/* Makes the values of these kinds for this field; NULL: for all. Returns 1 if there were some. Like the next two it
 * returns -1 if the values are lost: a line has said why, and MILC must not read the fields. */
int milcgpu_plugin_fulfil(int kinds, const void *field);
/* Call it before MILC writes or frees this field: makes the values that depend on it. */
int milcgpu_plugin_before_change(const void *field);
/* The same, and fills the field itself if it is one of these kinds: call it before MILC gets its address to read or
 * write it. */
int milcgpu_plugin_hand_out(int kinds, const void *field);
/* Drops values of these kinds: MILC has freed this field, or overwrites all of it; NULL: all values. */
void milcgpu_plugin_drop_deferred(int kinds, const void *field);
/* For make(): returns 0 if an input has changed since without an announcement. */
int milcgpu_plugin_inputs_hold(void);

/* back(x, mu) = links(x - hops mu, mu)^dag, by all threads of the host. */
void milcgpu_plugin_back_links(const void *links, int hops, void *back);
/* to[4 * site + dir] = the links of all sites, found `pitch` bytes apart from `first` on, by all threads. */
void milcgpu_plugin_gather_links(const void *first, size_t pitch, void *to);
/* Memory for a field of links, for free(); NULL if there is none. In large pages if the system has them: the first
 * touch of small pages costs more than making the links. */
void *milcgpu_plugin_allocate(size_t bytes);

/* Each comparison logs a line and adds to the summary. 1: within tolerance. For a solve, the residuals of both
 * solutions are recomputed in double and compared with the tolerance, and their difference with what the residuals
 * allow. sources: as many were solved in this call; if there are several, one that the iteration limit ended is not
 * compared with MILC's solution. */
int milcgpu_plugin_compare_solve(const milcgpu_plugin_solve_call *call, int sources, int iterations, double seconds,
                                 milcgpu_field cpu_solution, int cpu_iterations, double cpu_seconds);
/* Both parities. source: M^dag b by MILC, the source of the call's solves; iterations of both solves. */
int milcgpu_plugin_compare_invert(const milcgpu_plugin_solve_call *call, int sources, int iterations, double seconds,
                                  milcgpu_field cpu_solution, int cpu_iterations, double cpu_seconds);
int milcgpu_plugin_compare_multi_mass(const milcgpu_plugin_multi_mass_call *call, int iterations, double seconds,
                                      const milcgpu_field *cpu_solutions, int cpu_iterations, double cpu_seconds);
/* n fields of links of GPU and CPU; NULL pairs are skipped. */
int milcgpu_plugin_compare_links(milcgpu_routine routine, int n, void *const *gpu, void *const *cpu, double seconds,
                                 double cpu_seconds);
/* The same for one field whose computation may amplify rounding. moved: the GPU's result of one more call (not counted)
 * with links that differ in their last places; ten times its distance is allowed in addition. */
int milcgpu_plugin_compare_smeared_links(milcgpu_routine routine, void *gpu, void *cpu, void *moved, double seconds,
                                         double cpu_seconds);
/* The same for links from the unitarization of V, with the rounding of MILC's routine: the ratio of the largest
 * eigenvalue of V^dag V to the smallest, in units of the last place. */
int milcgpu_plugin_compare_hisq_links(int n, void *const *gpu, void *const *cpu, const void *v,
                                      const milcgpu_fatlink_spec *spec, double seconds, double cpu_seconds);
/* source: the field whose other parity was read. The difference is relative to it. */
int milcgpu_plugin_compare_dslash(int parity, const void *source, const void *gpu, const void *cpu, double seconds,
                                  double cpu_seconds);

/* ---- molecular dynamics. The gauge field and the momenta stay on the device. When a routine has written there, the
 * host's copy is out of date; with MILCGPU_AUTO=0 the caller copies the field back. The caller must announce what MILC
 * itself reads or writes. `what` below is a sum of these. */
enum { MILCGPU_LINKS = 1, MILCGPU_MOMENTA = 2 };

/* Members of the sites, 4 links and 4 momenta each, pitch_bytes sizeof(site). Links carry phases. */
typedef struct {
    milcgpu_field links, momenta;
} milcgpu_plugin_lattice;

/* Between begin and end the solutions of multi-mass solves may stay on the device (then MILC's fields are not filled),
 * also D of them; their sums and the fermion force use them there. Any other function of milcgpu that reads one copies
 * it back first. most: at most this many at a time. again: 1: if the device is lost, and solutions with it, the caller
 * computes them again: `end` then returns 1, and until then MILC's routines continue with what their fields hold. */
void milcgpu_plugin_vectors_begin(int most, int again);
int milcgpu_plugin_vectors_end(void);
/* to = constant source + sum of weights[k] x[k] on one parity. 0: these solutions are not all on the device. */
int milcgpu_plugin_vectors_sum(const milcgpu_field *x, int n, const double *weights, int parity, double constant,
                               milcgpu_field source, milcgpu_field to);
/* Call it before MILC's own routine. 1: MILC's fields have the solutions, and the device no longer has them. 0: they
 * are lost, which was logged, and MILC cannot continue. */
int milcgpu_plugin_vectors_need(void);

/* 0: MILCGPU_AUTO=0, or no device; 2: fields that are not filled become NaN, for tests. */
int milcgpu_plugin_resident(void);
/* The part of `what` whose newest content the device has. */
int milcgpu_plugin_newer_on_device(int what);
/* Whether the device's links are these, 4 per site, packed: milcgpu_plugin_links can then use the device's. */
int milcgpu_plugin_has_links(const void *links);
/* If this returns 1, the host has the newest of `what`. 0: it is lost, which was logged, and MILC cannot continue. who:
 * the routine that needs it, for the table at exit. */
int milcgpu_plugin_host_needs(int what, const char *who);
/* writes: a routine of MILC is about to write `what`; makes deferred values that depend on it. wrote: it has written
 * it, or may have. */
void milcgpu_plugin_host_writes(int what);
void milcgpu_plugin_host_wrote(int what);
/* to[4 * site + dir] = the device's gauge links, with phases. 0: that failed, which was logged. */
int milcgpu_plugin_save_links(void *to);

/* Loads MILC's gauge links. 0: that failed, which is logged where they are needed. */
int milcgpu_plugin_load_links(const milcgpu_plugin_lattice *lattice);

/* Logs a line as above: compares the device's newest `one` (MILCGPU_LINKS or MILCGPU_MOMENTA) with what MILC's routine
 * made from the host's old copy. The device's field then replaces MILC's. expected: why both must differ, or NULL. v:
 * NULL, or the links V of HISQ whose unitary parts the force goes through, 4 a site; filter: as in
 * milcgpu_force_spec. */
int milcgpu_plugin_compare_gauge(milcgpu_routine routine, int one, const char *expected, const void *v, double filter,
                                 double seconds, double cpu_seconds);
int milcgpu_plugin_compare_number(milcgpu_routine routine, double ours, double theirs, double seconds,
                                  double cpu_seconds);

/* ---- measurements. As the functions of milcgpu_mesons.h, of one field; fields on all sites. `links`: MILC's field of
 * 4 links a site, with staggered phases relative to the origin of the call (`phased`), or without; smearing works with
 * both, and shift uses them as they are. They stay on the device, and are loaded again if their content changed: every
 * call checks all of them. NULL: for an operator, or a contraction, that needs none. */

/* What the caller knows of these links before the next call that uses them. are_new 1: all of them are checked; 0: the
 * device's copy is used, without a check. Returns whether the device has any links of this address. */
int milcgpu_plugin_expect_links(const void *links, int are_new);

/* The links that the operator of this index needs: 0 none, 1 `links`, 2 fat links; -1: no such operator, or one of two
 * fields. */
int milcgpu_plugin_links_of_operator(int spin_taste);
/* The signs of a local operator, (-1)^(negative + sum of x_mu over mask): mask + 16 negative, mask: bits 1 x, 2 y, 4 z,
 * 8 t. -1: the operator is not local. */
int milcgpu_plugin_signs_of_operator(int spin_taste, const int *origin);
/* Logs a line as above, for fields on all sites. */
int milcgpu_plugin_compare_quarks(milcgpu_routine routine, const void *gpu, const void *cpu, double seconds,
                                  double cpu_seconds);

/* Correlators of GPU and CPU: n complex numbers, each a sum of products of two or three fields. They may vanish, so
 * their difference is relative to factor times the norms of the first two fields times the largest number of the third,
 * or to the largest correlator, if this is more. */
typedef struct {
    milcgpu_routine routine;
    int n;
    const double *gpu, *cpu;
    const void *sources[3]; /* the third: NULL if there are two */
    int reals;              /* of a source, a site */
    double factor;          /* the largest, by which products are multiplied */
    /* MILC's numbers are at most this many times too large, and the GPU's were multiplied by as much; 1: neither. */
    int repeats;
    double seconds, cpu_seconds;
} milcgpu_plugin_correlators;
int milcgpu_plugin_compare_correlators(const milcgpu_plugin_correlators *of);

/* ---- baryons. Quarks: three fields for each propagator, NULL: absent --------------------------------------------- */

int milcgpu_plugin_right_baryons(void); /* MILCGPU_BARYONS=right */
/* What a term reads: bit s of sources[f]: corner s of octet f; bit k of sinks[f]: its shift to corner k. 0: the term is
 * refused, after a line in the log. */
int milcgpu_plugin_gb_corners(const milcgpu_gb_spec *spec, const milcgpu_gb_term *term, unsigned sources[3],
                              unsigned sinks[3]);
/* The quarks of an octet as they are now, for later calls of milcgpu_plugin_gb_baryon, whatever becomes of MILC's
 * fields. octet: any address that names them. fields: three for each corner, NULL: absent. 0: the device cannot hold
 * them. All ranks call it. */
int milcgpu_plugin_hold_octet(const void *octet, const void *const fields[24]);
void milcgpu_plugin_drop_octet(const void *octet);
/* For MILC's own routine. 1: field k still has the content that was held. 2: `room`, of a field, now has this content,
 * and is field k from here on. 0: the content is lost. */
int milcgpu_plugin_held_quark(const void *octet, int k, void *room);

/* ---- disconnected currents: vectors that stay on the device between these calls, and sums of all ranks over time
 * slices (solve/currents.h). `links`, `phased`: as above, for the origin 0 0 0 0. */

/* Allocates `slots` slots of `vectors` vectors; 0: there is no memory. */
int milcgpu_plugin_current_begin(int vectors, int slots);
/* Slot 0 becomes noise: n random fields, thinned to step^4 / 2 vectors each, on both parities; if there are
 * eigenvectors (`of`, which are ready, else NULL), without its part along them. */
int milcgpu_plugin_current_sources(int n, const milcgpu_field *random, int step, const milcgpu_plugin_eigen_call *of);
/* Slot `to` (1 to 3) becomes the solutions for slot `from`, on the parity of the call, from zero. */
int milcgpu_plugin_current_solve(const milcgpu_plugin_solve_call *call, int from, int to,
                                 milcgpu_solve_report *reports);
/* sums[(k 4 + mu) T + t]: with D of `slot`, of the k-th of `groups` groups of vectors. */
int milcgpu_plugin_current_sums(const void *links, int phased, const void *fat, const void *lng, int parity, int groups,
                                int slot, double *sums);
/* sums[(w 4 + mu) T + t]: of the eigenvectors, weights[w count + n] of the n-th. */
int milcgpu_plugin_current_low(const void *links, int phased, const void *fat, const void *lng,
                               const milcgpu_plugin_eigen_call *of, int n_weights, const double *weights, double *sums);
void milcgpu_plugin_current_end(void);

/* ---- clover fermions: M x = b with MILC's clover matrix (milcgpu_wilson.h), as bicgilu_cl_field: by the system of the
 * even sites, for which the tolerances are. The links stay on the device, and are loaded again if their content
 * changed: every call checks all of them. */
typedef struct {
    int mixed;                            /* milcgpu_mixed */
    milcgpu_field links;                  /* a member of the sites, or packed, without phases */
    double kappa, clover;                 /* as in milcgpu_wilson_spec */
    double tolerance, relative_tolerance; /* as in milcgpu_wilson_solve */
    int max_iterations, max_restarts;
    milcgpu_field source, solution; /* of wilson_vectors, on all sites; the source is not changed */
    int limit_of_all;               /* as in milcgpu_plugin_solve_call */
} milcgpu_plugin_clover_call;
int milcgpu_plugin_compare_clover(const milcgpu_plugin_clover_call *call, int iterations, double seconds,
                                  milcgpu_field cpu_solution, int cpu_iterations, double cpu_seconds);

/* Fields of wilson_vectors on all sites. source: the field that was read; differences are relative to it. */
int milcgpu_plugin_compare_wilson_dslash(const void *source, const void *gpu, const void *cpu, double seconds,
                                         double cpu_seconds);

/* ---- contractions of Dirac fields, as milcgpu_dirac_mesons and, open, milcgpu_dirac_open_mesons, of one propagator
 * each: sums over all ranks. flops: of this rank, for the table. */
int milcgpu_plugin_dirac_mesons(int open, const milcgpu_dirac_meson_spec *spec, milcgpu_field src1, milcgpu_field src2,
                                double flops, double *correlators);

double milcgpu_plugin_seconds(void); /* of a steady clock */

/* The function of each row that has one of its own. */
#define MILCGPU_FUNCTION(function, arguments) int function arguments;
#include "routines.def"

#ifdef __cplusplus
}
#endif
#endif
