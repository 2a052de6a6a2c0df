/* milcgpu: GPU acceleration for staggered fermions in MILC. The C interface.
 *
 * Conventions, those of MILC:
 *   - sites: MILC's order, all even sites first, within a parity lexicographic with x fastest (layout_hyper_prime);
 *     any other order through a site map.
 *   - a colour vector is 3 complex numbers (re, im), a link 3x3 complex numbers row by row; links of a site lie
 *     together, directions X Y Z T. Real numbers are float or double, stated with every field.
 *   - links carry the staggered phases, the boundary sign, all coefficients and (1 + eps_naik).
 *   - M = 2m + D; solves are of M^dag M = 4 m^2 - D D on one parity.
 *
 * Structs that may grow begin with struct_size: set it to sizeof of the struct. If the caller's header is older and its
 * struct ends before a member, the library takes 0 for that member. In a report it writes only the members that the
 * caller's header has. (All reports of an array have one size.) Any other size is refused, so that header and library
 * cannot disagree unnoticed. Functions _defaults fill a struct: struct_size with `size` (pass sizeof of the struct),
 * the members that the comment of the function names, and all others with 0. They do nothing if the struct is NULL.
 * Every function returns a status; milcgpu_last_error() explains the last failure in this thread. No function exits the
 * process. Use a context from one thread at a time; it need not be the thread that created it. If a process has created
 * a context and then calls fork(), every function with a status returns BAD_ARGUMENT in the child, and destroying a
 * handle there does nothing: threads and the GPU stay with the parent. If the parent has run OpenMP loops of its own
 * but has no context, the child's first context is refused unless loops have one thread.
 *
 * Callbacks (progress, message, and those of other headers) are called in the thread of the call. Inside one, calls
 * with the context of the running call are refused (BAD_ARGUMENT), except those that ask what it is
 * (milcgpu_context_backend, milcgpu_context_device_name), and handles of it are not destroyed. An exception that a
 * callback throws does not pass through C. The callback is not called again; the call runs to its end and then returns
 * BAD_ARGUMENT with outputs untouched. What `message` throws is dropped.
 *
 * Solves of all headers compare checksums of links, sources and site map before they return. If a source changed on the
 * device, it is loaded and solved for a second time. If it changed again, or links changed, the status is CORRUPTED.
 * Two things are not checked: a source before it has arrived on the device, and a solution after its last true
 * residual.
 *
 * "Outputs are untouched" holds for every failure before results are copied out: until then the library writes nothing
 * to the caller's memory. After that only the GPU can fail. A GPU that is lost while results are copied out gives
 * DEVICE_LOST, and an output then holds what it held before, the result, or a part of it. Links or momenta that change
 * at that time give CORRUPTED, with outputs as after DEVICE_LOST.
 *
 * Solvers and packed links are kept between calls to save time. When an allocation does not fit they are freed, the
 * least recently used one first. NO_MEMORY means that nothing idle is left to free. A later call that needs less may
 * work. On several ranks all free them together, in calls that all ranks make: milcgpu_vectors_create, which one rank
 * may call alone, frees nothing there.
 */
#ifndef MILCGPU_H
#define MILCGPU_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MILCGPU_VERSION "0.4.0"

typedef enum {
    MILCGPU_OK = 0,
    MILCGPU_NOT_CONVERGED = 1,   /* iteration limit; the solution so far is returned, and its true residual */
    MILCGPU_PRECISION_FLOOR = 2, /* the precision cannot reach the tolerance; the solution reached is returned */
    MILCGPU_NAN_OR_INF = 3,      /* in links, source or guess, or in a squared norm; outputs are untouched */
    MILCGPU_NOT_POSITIVE = 4,    /* the operator has a zero or negative eigenvalue (mass 0); outputs are untouched */
    MILCGPU_BAD_ARGUMENT = 5,    /* outputs are untouched, here and in all that follow */
    MILCGPU_NO_MEMORY = 6,       /* of the device or the host, with nothing idle left to free */
    MILCGPU_DEVICE_LOST = 7,     /* the context cannot be used any more; destroy it. For outputs see above */
    MILCGPU_COMM = 8,       /* message passing between ranks failed; the context cannot be used any more on any rank */
    MILCGPU_NOT_BUILT = 9,  /* no kernel for this combination; the message lists what is built */
    MILCGPU_CORRUPTED = 10, /* links or fields on the device are no longer what was loaded: a bit flipped, or other code
                               wrote there. Links are then empty: update them */
    MILCGPU_TIMED_OUT =
        11 /* a wait did not end; the message names it. Inside a kernel: the call can be repeated. For
              another rank: the context cannot be used any more, and every later call returns the same */
} milcgpu_status;

typedef enum { MILCGPU_AUTO = 0, MILCGPU_CUDA = 1, MILCGPU_HOST = 2 } milcgpu_backend;
typedef enum { MILCGPU_DOUBLE = 1, MILCGPU_SINGLE = 2, MILCGPU_HALF = 3 } milcgpu_precision;
typedef enum { MILCGPU_ODD = 1, MILCGPU_EVEN = 2 } milcgpu_parity; /* MILC's numbers */

typedef struct milcgpu_context milcgpu_context;           /* a lattice on a device */
typedef struct milcgpu_links milcgpu_links;               /* a set of fat and long links on that device */
typedef struct milcgpu_eigenvectors milcgpu_eigenvectors; /* the lowest eigenvectors of such links (milcgpu_eigen.h) */
typedef struct milcgpu_messages milcgpu_messages;         /* message passing between ranks */

/* MILCGPU_VERSION of the library that is linked. */
const char *milcgpu_version(void);

/* Text of the last failure in this thread: what, where, how much, what to do. Valid until the next call. */
const char *milcgpu_last_error(void);
/* The name of a status without its prefix, for example "NO_MEMORY"; "UNKNOWN" for other numbers. */
const char *milcgpu_status_name(int status);

/* ---- the lattice and its device */

/* The box of the lattice that this rank has. On one rank leave all members after site_map zero. */
typedef struct {
    size_t struct_size;
    int extent[4]; /* X Y Z T of the box: even, at least 2. In a cut direction (extent < whole): may be odd, at least
                      3, the depth of the halo */
    const int *site_map; /* V entries: entry k is the caller's index of the k-th site of the box in the order above,
                            with the parity of the whole lattice. It is copied. NULL: that order */
    int whole[4];        /* extents of the whole lattice, even; 0 0 0 0: this rank has it all */
    int origin[4];       /* place of the box's first site in the whole lattice */
    int neighbour[4][2]; /* in each cut direction the rank behind [0] and the rank ahead [1]; not read in others */
    const milcgpu_messages *messages; /* copied; NULL: one rank */
    int emulate; /* for tests: sum of directions (1 X, 2 Y, 4 Z, 8 T) that this rank has whole and that are treated as
                    cut; the rank is its own neighbour. 0: environment MILCGPU_TEST=cut=xyzt, else none */
} milcgpu_layout;

typedef struct {
    size_t struct_size;
    int backend; /* milcgpu_backend; AUTO: environment MILCGPU_BACKEND (auto, cuda, host), else a GPU if there is one */
    int device;  /* number of the GPU, from 0. -1: GPU 0; on several ranks layout->messages->node_rank modulo the number
                    of visible GPUs. Two ranks on one GPU are refused, unless MILCGPU_TEST=share_gpu */
    int block_size; /* threads per block for every kernel (64, 128, 256); 0: what each kernel's table says. Results do
                       not depend on it */
    int verbosity; /* 0 silent, 1 device and warnings, 2 one line per solve; -1: environment MILCGPU_VERBOSE (0, 1 or 2;
                      anything else is BAD_ARGUMENT), else 1 */
    void (*message)(void *user, const char *line); /* where lines go; NULL: stderr */
    void *user;
    /* 1: links that many solves use get eigenvectors once these pay (milcgpu_eigen.h, Solves that learn),
     * unless MILCGPU_AUTO is no_eigenvectors or 0. 0: never. The plugin for MILC says 1. */
    int learn;
} milcgpu_options;

/* options may be NULL. On failure *context is NULL. All ranks of layout->messages call it together. They first compare
 * their versions, boxes, backends and settings. If something does not fit, or fails on one rank, all ranks fail with
 * the same message, which names the rank. (If layout, table or context of a rank is NULL or unreadable, the others
 * notice after MILCGPU_TIMEOUT.) On several ranks only rank 0 writes lines. */
milcgpu_status milcgpu_context_create(const milcgpu_layout *layout, const milcgpu_options *options,
                                      milcgpu_context **context);
void milcgpu_context_destroy(milcgpu_context *context); /* destroy all its handles before; NULL is legal */
/* The device in words, for a log. Valid until the context is destroyed. */
const char *milcgpu_context_device_name(const milcgpu_context *context);
/* *backend: MILCGPU_CUDA or MILCGPU_HOST. */
milcgpu_status milcgpu_context_backend(const milcgpu_context *context, int *backend);

/* ---- fields, links, solves */

/* A field in MILC's memory. pitch_bytes: distance from one site's record to the next; 0: packed. For a member of site
 * structures, data is the address of the first site's member and pitch_bytes is sizeof(site). */
typedef struct {
    void *data;
    int precision;      /* of its reals: MILCGPU_DOUBLE or MILCGPU_SINGLE */
    size_t pitch_bytes; /* at most 2^31 */
} milcgpu_field;

/* Copies fat and long links (4 links per site each) to the device. The two fields have one precision. NaN and infinity
 * give NAN_OR_INF with the place. On failure *links is NULL. Checksums are taken of the caller's memory, and of the
 * packed versions that solves make of the links; a solve compares them before it returns a solution. A field that
 * changes on its way to the device gives CORRUPTED. On lattices that are cut, checksums begin when the fields have
 * their ghosts. */
milcgpu_status milcgpu_links_create(milcgpu_context *context, const milcgpu_field *fat, const milcgpu_field *lng,
                                    milcgpu_links **links);
/* New content for the handle, in the same precision or another. The version grows exactly when the content changed, by
 * a checksum of all bits. `changed` may be NULL. Arguments that are refused leave the handle as it is. After any other
 * failure it is empty, and solves with it are refused until an update succeeds. */
milcgpu_status milcgpu_links_update(milcgpu_links *links, const milcgpu_field *fat, const milcgpu_field *lng,
                                    int *changed);
uint64_t milcgpu_links_version(const milcgpu_links *links); /* 0: empty, or NULL */
void milcgpu_links_destroy(milcgpu_links *links);           /* before its context; NULL is legal */

/* The precision and the storage that D is computed with. reconstruct is the number of reals of a long link in memory:
 * 18, 13, 12, 9 or 8. 12 and 8 hold c * (+-SU(3)) (asqtad), 13 and 9 hold c * U(3) (HISQ, twisted boundaries). Links
 * are checked when they are packed. Links that do not fit are kept in 18 reals, with a warning, and the report says
 * so. */
typedef struct {
    int precision;   /* of vectors and links */
    int reconstruct; /* 0: 18 */
} milcgpu_storage;

typedef struct {
    size_t struct_size;
    int parity;                /* milcgpu_parity: the sites that x and b live on */
    double mass;               /* m of M = 2m + D; 4 m^2 is finite; zero is legal */
    double tolerance;          /* stop when |b - A x| / |b| < tolerance; at least 1e-150; 0: not tested */
    double relative_tolerance; /* and MILC's relative ("Fermilab") residual is below this; 0: not tested. One of the two
                                  must be set */
    int max_iterations;        /* between restarts, > 0 */
    int max_restarts;          /* how often the iteration may start, the first time included; > 0. The product of both
                                  is at most 2e9 */
    milcgpu_storage precise;   /* the solution is kept and residuals are recomputed in this */
    milcgpu_storage sloppy;    /* iterations run in this; precision 0: as precise. On the host, single below precise
                                  double may have links in half */
    /* The residual is recomputed when the iteration's residual has fallen by this factor, below 1. 0: 0.3 for half, or
     * 0.03 on heavy masses, where its rounding is small; else 0.1, or less for links in half beside vectors in single;
     * for several sources together 0.3 while rounding of the sloppy precision is larger than the tolerance, then
     * 0.03. */
    double reliable_delta;
    /* For links in half on light masses: the largest |recomputed residual - the iteration's residual| /
     * |recomputed residual| with which half goes on. Above it the rest of the solve runs in single. If that is certain
     * beforehand, the whole solve runs in single. 0: 0.5; 1e9: always half. */
    double jump_limit;
    uint64_t links_version; /* the links that this solve is meant for (milcgpu_links_version); 0: the present ones */
    void (*progress)(void *user, int step, double residual); /* NULL: none. residual: |r|/|b| of the recursion */
    void *user;
    /* For several sources: one value per source, in place of tolerance and max_iterations. NULL: those two hold for all
     * sources. */
    const double *source_tolerances;
    const int *source_max_iterations;
    milcgpu_eigenvectors *eigenvectors; /* to deflate with, of this parity; NULL: none. With them reliable_delta 0 is
                                           0.03, or 0.3 where few vectors leave eigenvalues that rounding reaches; and
                                           jump_limit counts at the start alone */
} milcgpu_solve_spec;
/* Even sites, double, 1000 iterations, 5 starts. Still to be set: mass, and a tolerance. */
void milcgpu_solve_defaults(milcgpu_solve_spec *spec, size_t size);

typedef struct {
    size_t struct_size;
    int status;
    int iterations; /* as MILC counts: steps, and one for each true residual at a (re)start */
    int steps;      /* conjugate gradient steps */
    int restarts;   /* starts of the iteration, the first included */
    int reliable_updates;
    double source_norm;        /* |b| */
    double true_residual;      /* |b - A x| / |b|, recomputed in double from the links as handed over, and from x before
                                  it is rounded to the precision of the caller's field (single: 1e-8 to 1e-7 more) */
    double relative_residual;  /* MILC's relative residual; 1 when relative_tolerance is 0, as MILC prints it */
    double recursion_residual; /* the iteration's own residual at its end */
    int steps_in_half;         /* steps with links in half: fewer than `steps` if the solve changed to single. On the
                                  host also those with vectors in single */
    /* The largest |recomputed residual - the iteration's residual| / |recomputed residual|: the error of the sloppy
     * precision. 0 for several sources together, and while a solve is deflated. */
    double largest_jump;
    double seconds;                          /* the whole call */
    double solver_seconds;                   /* without copies and reordering of source, guess and solution */
    double gflops, gbytes_per_second;        /* of solver_seconds; compulsory bytes */
    int reconstruct, sloppy_reconstruct;     /* reals of a long link that were used */
    uint64_t bytes_to_device, bytes_to_host; /* over the bus in this call */
    uint64_t links_version;
    char message[400]; /* empty when all is well */
    int deflations;    /* how often the solve was deflated. 0 beside spec.eigenvectors: they were not used */
    int deflation_off; /* 1: the eigenvectors do not fit the links, or did harm; the message says so. true_residual
                          holds either way */
    int eigenvectors;  /* how many this solve was deflated with: those of the spec, or of the library's own */
} milcgpu_solve_report;

/* Solves (4 m^2 - D D) x = b on spec->parity. solution: initial guess on entry, always honoured; x on return when the
 * status is OK, NOT_CONVERGED or PRECISION_FLOOR, untouched otherwise. Sites of the other parity are neither used nor
 * changed. A source that is 0 on spec->parity gives x = 0 and OK, and report->message says so. report may be NULL; it
 * is filled whenever the solve was run. */
milcgpu_status milcgpu_staggered_solve(milcgpu_links *links, const milcgpu_solve_spec *spec,
                                       const milcgpu_field *source, const milcgpu_field *solution,
                                       milcgpu_solve_report *report);

/* destination (on `parity`) = D source (on the other parity); the other sites of destination keep their content. source
 * and destination may be the same field. On failure destination is untouched. NAN_OR_INF: in source, with the place, or
 * in the result. This call compares no checksums of the links: the next solve does. A bit that flips in the vectors on
 * the device is not noticed. */
milcgpu_status milcgpu_staggered_dslash(milcgpu_links *links, const milcgpu_storage *what, int parity,
                                        const milcgpu_field *source, const milcgpu_field *destination);

/* Residual of any solution: |b - (4 m^2 - D D) x| / |b| on `parity`, computed in double from the links as handed over.
 * 0 if b and x are 0, infinite if only b is 0. NAN_OR_INF: NaN or infinity in source or solution, with the place; or a
 * squared norm that double cannot hold. On failure *residual is untouched. */
milcgpu_status milcgpu_staggered_residual(milcgpu_links *links, int parity, double mass, const milcgpu_field *source,
                                          const milcgpu_field *solution, double *residual);

/* ====================================================================================================================
 * Advanced. A first program (README.md has one) needs only the functions above.
 * ================================================================================================================== */

/* ---- several ranks */

/* An exchange with one rank: `bytes` bytes are sent from `send`, and as many are received into `receive`. If one is
 * NULL, nothing travels in that direction. A message is received by the peer's entry with the same tag; messages of one
 * tag in the order of their start. */
typedef struct {
    int peer;
    const void *send;
    void *receive;
    size_t bytes; /* 1 to 2^30 */
    int tag;      /* 0 to 32767 */
} milcgpu_message;

/* Message passing that the caller provides (by milcgpu_mpi.h for MPI). The library has none of its own, so that one
 * library serves every MPI. All ranks that share a lattice pass such a table. The library calls these functions only
 * inside its own functions, in their thread, and never after milcgpu_context_destroy. They must not wait. The library
 * waits, and fails after MILCGPU_TIMEOUT seconds (default 60). */
struct milcgpu_messages {
    size_t struct_size;
    int rank, size;           /* among the ranks that share the lattice */
    int node_rank, node_size; /* among all ranks of the program (of all its jobs) on this host */
    void *user;               /* passed to each function */
    /* Starts `count` messages and sets *handle. The array `messages` may be freed after the call; the memory that its
     * entries point to stays valid until they are done. Returns 0 if all are started. Any other code gives COMM, and
     * the library does not use the table again. Exception: the test pattern in GPU memory, below, may fail. */
    int (*start)(void *user, int count, const milcgpu_message *messages, void **handle);
    /* Sets *done to 1 if all messages of a handle are done, and then frees the handle. Returns 0 for no error. */
    int (*test)(void *user, void *handle, int *done);
    /* Ends all ranks; may return. Only the glue for MILC calls it, where MILC itself would end. NULL: none. */
    void (*abort)(void *user, const char *why);
    /* 1: the message passing states that it accepts addresses in GPU memory as `send` and `receive`. 0: it states that
     * it does not, or nothing. If 1 (or MILCGPU_GPU_MPI=1), milcgpu_context_create sends a test pattern from GPU memory
     * into GPU memory. If it arrives whole on all ranks, later messages travel like that. For a table of an older
     * header, which ends before this member (struct_size), it is 0. */
    int gpu_memory;
    const char *gpu_memory_by; /* the function or variable that says so, for a line at the start; a string that stays.
                                  NULL: none */
};

/* ---- memory of the host */

/* Pins a field's memory (`bytes` bytes from `address` on), so that the GPU reads and writes it directly, which is
 * faster than pageable memory. This pays for memory that is used many times: pinning itself takes longer than a copy.
 * Unpin it before you free it. Without a GPU both functions do nothing. */
milcgpu_status milcgpu_memory_pin(milcgpu_context *context, void *address, size_t bytes);
milcgpu_status milcgpu_memory_unpin(milcgpu_context *context, void *address);

/* ---- several sources, several masses */

/* How several sources are solved. */
typedef enum {
    MILCGPU_TOGETHER_AUTO = 0, /* block or one by one, by number of sources, lattice and precision; lock-step in half
                                  where a block on these links has saved no steps. Loose solutions one by one: below */
    MILCGPU_BLOCK = 1,     /* one Krylov space for all: fewer steps, the more so with many sources and light masses */
    MILCGPU_LOCK_STEP = 2, /* at once, each in a Krylov space of its own, with the steps of a solve by itself */
    MILCGPU_ONE_BY_ONE = 3 /* milcgpu_staggered_solve for each */
} milcgpu_together;

/* The same as milcgpu_staggered_solve for n sources, up to a million, with the links loaded once for up to 16 of them.
 * Each source has its own guess, status and residuals, and may have its own tolerance and limit. A source that is done
 * is left out of the steps of the others. A source that cannot be solved (NaN in it) does not affect them. Sources are
 * solved 16 at a time, or fewer if memory is short; their solutions are copied out before the next sources start. So
 * solutions must not share memory with each other or with a source.
 *
 * Loose solutions. A source is loose if all its tolerances that are set are above 1e-5. In a block the error of a loose
 * solution depends on the other sources of the call. All-mode averaging and truncated solvers need a loose solution
 * that is a function of its own source, the same in every call. So MILCGPU_TOGETHER_AUTO solves one by one if any
 * source is loose: a solution then has the bits of milcgpu_staggered_solve, whatever else is in the call. In
 * MILCGPU_LOCK_STEP, if all sources are loose, solutions do not depend on the other sources either, up to rounding of
 * the iteration, but they differ from solutions of single solves. If max_iterations ends the solves (a truncated solver
 * of so many steps), or if the bias of a tolerance of 1e-5 or less is to be corrected, ask for MILCGPU_ONE_BY_ONE.
 * Eigenvectors of the library's own (milcgpu_options.learn) do not deflate a call with a loose source.
 * milcgpu_laplace_solve and milcgpu_wilson_solve_sources do the same.
 *
 * A relative tolerance is tested one source after the other. reports: n of them, or NULL. The status is the status of
 * the first source without a solution, else of the first source that is not OK. Several sources in a block or in
 * lock-step have solutions in double, and residuals from the links as loaded, whatever spec.precise is; a single source
 * is solved as spec says. If spec.sloppy is half, a block and MILCGPU_LOCK_STEP iterate in single, which is faster
 * there. Eight sources and more in one Krylov space start in double at very light masses (below about 0.0027), if the
 * memory suffices for that. */
milcgpu_status milcgpu_staggered_solve_sources(milcgpu_links *links, const milcgpu_solve_spec *spec, int together,
                                               int n, const milcgpu_field *sources, const milcgpu_field *solutions,
                                               milcgpu_solve_report *reports);

/* Several masses at once: (offset_i - D D) x_i = b. offset_i is 4 m_i^2 or a pole of a rational function. Any order;
 * equal ones are legal. */
typedef struct {
    double offset;    /* > 0 */
    double tolerance; /* as in milcgpu_solve_spec; one of the two must be set */
    double relative_tolerance;
} milcgpu_pole;

typedef struct {
    size_t struct_size;
    int parity;
    int n_shifts; /* 0 to 32; 0: nothing to do */
    const milcgpu_pole *shifts;
    const double *residues; /* NULL, or those of a rational function: then tolerance_i becomes |residue_0 / residue_i|
                               tolerance_0, but at least 1e-14; if residue_i is 0, tolerance_i is kept */
    int max_iterations;     /* of the shared iteration, and between restarts of each refinement */
    int max_restarts; /* of each refinement; 0: no refinement, and a shift that misses its tolerance is NOT_CONVERGED */
    milcgpu_storage shared;  /* the shared iteration. Double is what MILC does. If it starts in single or half, it ends
                                at shared_tolerance, and the refinement does the rest */
    milcgpu_storage sloppy;  /* the coarsest precision that the shared iteration goes down to as its residual falls
                                 (double, then single, then half), and what refinements iterate in. precision 0: as
                                 shared. Fastest: shared double, sloppy single or half */
    milcgpu_storage precise; /* of the refinement, as in milcgpu_solve_spec; precision 0: double */
    double leave_tolerance;  /* a shift leaves the shared iteration at its own tolerance, but not before its residual is
                                below this. 0: at its own. 1e-16: all stay to the end, as in MILC's CPU routine */
    double shared_tolerance; /* residual at which the shared iteration ends at the latest; 0: 0 in double, 1e-6 in
                                single, 1e-3 in half */
    uint64_t links_version;  /* this and the next two as in milcgpu_solve_spec */
    void (*progress)(void *user, int step, double residual);
    void *user;
} milcgpu_multi_mass_spec;
/* Even sites, all in double, 1000 iterations, 5 starts. Still to be set: shifts. */
void milcgpu_multi_mass_defaults(milcgpu_multi_mass_spec *spec, size_t size);

typedef struct {
    int status;            /* milcgpu_status of this shift */
    int shared_steps;      /* steps until it left the shared iteration */
    int iterations, steps; /* of its refinement, as in milcgpu_solve_report; steps 0: none was needed */
    double true_residual, relative_residual; /* recomputed in double, as those of milcgpu_solve_report */
} milcgpu_shift_report;

typedef struct {
    size_t struct_size;
    int status;     /* of the first shift without a solution, else of the first that is not OK */
    int iterations; /* as MILC counts the shared iteration: steps + 1 */
    int steps;      /* of the shared iteration */
    double source_norm;
    double seconds, shared_seconds, solver_seconds; /* the call, the shared iteration, all without copies of fields */
    double gflops, gbytes_per_second;               /* of solver_seconds; compulsory bytes */
    uint64_t bytes_to_device, bytes_to_host, links_version;
    milcgpu_shift_report *shifts; /* the caller's array of n_shifts, or NULL */
    char message[400];
} milcgpu_multi_mass_report;

/* solutions: n_shifts fields that share no memory; guesses are not read. What milcgpu_staggered_solve says holds for
 * each. A shift that cannot be solved (NAN_OR_INF, NOT_POSITIVE) does not affect the others; its solution is untouched.
 * A solution depends on the other offsets of the call, not on other sources. All solutions are copied out at the end.
 * report may be NULL. */
milcgpu_status milcgpu_staggered_multi_mass(milcgpu_links *links, const milcgpu_multi_mass_spec *spec,
                                            const milcgpu_field *source, const milcgpu_field *solutions,
                                            milcgpu_multi_mass_report *report);

/* ---- fat and long links from a gauge field */

/* Coefficients of the paths of fat and long links in MILC's order (act_path_coeff), with tadpole factors. Signs are for
 * links that carry the staggered phases: 3-staple, 7-staple and Lepage are negative. */
typedef struct {
    double one_link, naik, three_staple, five_staple, seven_staple, lepage;
} milcgpu_paths;

/* Staggered phases and boundary sign of links. The library finds a wrong value by the determinants (milcgpu_md.h). */
typedef enum {
    MILCGPU_SIGNS_IN = 0,         /* the links carry them */
    MILCGPU_SIGNS_OUT = 1,        /* they do not */
    MILCGPU_SIGNS_AS_THEY_ARE = 2 /* links of a measurement alone: whatever they carry stays in them; not tested */
} milcgpu_signs;

typedef struct {
    size_t struct_size;
    int precision;   /* of the arithmetic and of the resulting links: MILCGPU_DOUBLE or MILCGPU_SINGLE; 0: as the gauge
                        field */
    int reconstruct; /* reals of a gauge link while staples are made, 18 or 12; 0: 18. 12 needs links that are +-SU(3)
                        to rounding, and is only used for the first level */
    int signs;       /* milcgpu_signs of the gauge links; if they are out, phases and boundary sign are multiplied in */
    double unitarity;    /* gauge links with an element of |U U^dag - 1| above this are refused; 0: 1e-4; negative: not
                            tested */
    milcgpu_paths paths; /* of fat and long links, made from U (asqtad) or from W (HISQ, level 2) */
    double eps_one_link, eps_naik; /* for each set, eps_naik times these is added to the coefficients one_link (without
                                      its Lepage part) and naik; in HISQ 1/8 and -1/24 */
    int hisq;                      /* 1: V = fat links of U with `fat7`; W = V made unitary; then `paths` of W */
    milcgpu_paths fat7;
    int special_unitary; /* 1: W in SU(3), by the principal cube root of the determinant (without phases); 0: U(3), as
                            MILC */
    double svd_relative, svd_absolute; /* limits for singular values (MILC's HISQ_REUNIT_SVD_*_ERROR); 0: 1e-8 */
    int svd_only;                      /* 1: singular values for every link (slow, for tests) */
    int derivative; /* 1: the last set is the derivative of fat and long links by eps_naik; its eps is not read */
} milcgpu_fatlink_spec;
/* All 0; or MILC's coefficients of asqtad with tadpole factor u0, or of HISQ, and 0 in all other members. */
void milcgpu_fatlink_defaults(milcgpu_fatlink_spec *spec, size_t size);
void milcgpu_asqtad_defaults(double u0, milcgpu_fatlink_spec *spec, size_t size);
void milcgpu_hisq_defaults(milcgpu_fatlink_spec *spec, size_t size);

/* One set of results. fat, lng: where to copy them to (4 links per site); NULL: not wanted on the host. links: NULL, or
 * the address of a handle that gets the set on the device; if the handle is NULL, the call creates it. A solve with
 * this handle copies no link. */
typedef struct {
    double eps;
    const milcgpu_field *fat, *lng;
    milcgpu_links **links;
} milcgpu_fatlink_set;

/* HISQ's intermediate links, each NULL if not wanted: V, its U(3) part Y, and W (= Y unless special_unitary). */
typedef struct {
    const milcgpu_field *v, *y, *w;
} milcgpu_hisq_links;

typedef struct {
    size_t struct_size;
    int status;
    double seconds;           /* the whole call */
    double kernel_seconds;    /* the part of it that makes links, by device events */
    double flops, gflops;     /* MILC's count, 61632 per site and level of staples that was made (none for a derivative)
                                 + 1728 per site and set; per kernel second */
    double gbytes_per_second; /* compulsory bytes of the passes of the fat links, per kernel second */
    uint64_t bytes_to_device, bytes_to_host;
    uint64_t svd_links; /* links that were made unitary by singular values */
    uint64_t workspace_bytes;
    int reconstruct; /* that was used */
    int lean;        /* 1: memory was short, so a slower way with less workspace was used */
    char message[400];
} milcgpu_fatlink_report;

/* Fat and long links from the gauge field (4 links per site), n_sets of them. hisq and report may be NULL. n_sets may
 * be 0 (sets NULL) if one of HISQ's V, Y and W is wanted. A handle may be in one set only. Fields that are written must
 * not share memory. Everything is made on the device, which holds all results at once, and then copied out. Until then
 * fields on the host are untouched. If the call is refused before the gauge field is read, handles of the sets are left
 * as they are. After any other failure, for example gauge links that are not unitary, all of them are empty, and those
 * that were NULL are NULL again.
 *
 * Results with NaN or infinity, from coefficients or an eps that are too large, give NAN_OR_INF. Gauge links, HISQ's V,
 * W and Y, and all results have checksums; if one changed, the call gives CORRUPTED. Both are tested for all results
 * before the first one is copied out, so fields on the host are untouched then. Only a bit that flips later, while
 * results are copied out, gives CORRUPTED with some of the fields written. Workspace for staples is not checked; on
 * lattices that are cut, copies with a margin are not checked either. */
milcgpu_status milcgpu_links_make(milcgpu_context *context, const milcgpu_fatlink_spec *spec,
                                  const milcgpu_field *gauge, const milcgpu_fatlink_set *sets, int n_sets,
                                  const milcgpu_hisq_links *hisq, milcgpu_fatlink_report *report);

/* to = a + factor b, fat and long links, on the device: the links of an eps_naik from those of 0 and the derivative,
 * with factor = eps_naik. If the handle `to` is NULL, the call creates it; it must be neither a nor b. If the call is
 * refused, or the device was lost earlier, `to` is left as it is. After any other failure it is empty, or NULL again.
 * CORRUPTED: a or b has changed on the device. The message says which; that one is empty now: load or make it again. On
 * lattices that are cut this is not tested. */
milcgpu_status milcgpu_links_add(milcgpu_links *a, double factor, milcgpu_links *b, milcgpu_links **to);

/* ---- what a solve takes, and what is built */

/* The largest number of bytes on the device while links of host_precision are loaded and `spec` is solved. It includes
 * what is in use now. *bytes is the total; `text` gets a table of it, cut to text_size with its final 0. Either may be
 * NULL. A solve that changes its precision on the way takes more: the last line of the table says how much, and the
 * total does not include it. Links that do not fit into fewer reals are kept in 18; the table does not foresee that. */
milcgpu_status milcgpu_memory_plan(milcgpu_context *context, int host_precision, const milcgpu_solve_spec *spec,
                                   char *text, size_t text_size, size_t *bytes);

/* The same for n sources, solved together unless `together` is MILCGPU_ONE_BY_ONE. If less memory is free, a solve
 * takes fewer sources at a time. */
milcgpu_status milcgpu_sources_plan(milcgpu_context *context, int host_precision, const milcgpu_solve_spec *spec,
                                    int together, int n, char *text, size_t text_size, size_t *bytes);

/* The same for a multi-mass solve. */
milcgpu_status milcgpu_multi_mass_plan(milcgpu_context *context, int host_precision,
                                       const milcgpu_multi_mass_spec *spec, char *text, size_t text_size,
                                       size_t *bytes);

/* Calls `line` with a line for every kernel that is built. line must not be NULL. */
void milcgpu_kernels_list(void (*line)(void *user, const char *text), void *user);

#ifdef __cplusplus
}
#endif
#endif
