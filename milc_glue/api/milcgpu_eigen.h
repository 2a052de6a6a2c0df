/* milcgpu: the lowest eigenvectors of -D^2, and solves that are deflated with them.
 *
 * B = -D_eo D_oe on even sites, or -D_oe D_eo on odd ones, with MILC's D: B v = l v, l >= 0. A solve of mass m meets
 * l + 4 m^2. A handle holds vectors of one parity, each of norm 1, the lowest l first, on the device: 24 bytes a site
 * of the parity and vector in single precision, 16 in half, which deflates as well. They belong to the links from which
 * they were computed. Any number of handles may exist. Vectors that the host loads keep the order in which they are
 * loaded.
 *
 * milcgpu_staggered_solve, milcgpu_staggered_solve_sources and milcgpu_staggered_solve_vectors take a handle as
 * spec.eigenvectors. At the start, and wherever the residual is recomputed, they solve the part of the error that lies
 * in the space of the vectors. The rest takes the iterations of a mass with 4 m^2 = l of the last vector, in half
 * precision, too. Eigenvectors cannot make a solution wrong: its true residual is computed without them, and holds
 * whatever they are. If a solve has other links than the vectors, some vectors are tested: if |B v - l v| is larger
 * than it was, they are not used. Vectors that were loaded or read are not used either if they are no eigenvectors of
 * the links in use: if more than a fifth of an l comes from high modes, judged by |B v - l v|. A deflation that raises
 * |b - A x| by more than rounding without lessening the error of x in the norm of A is undone, and no other follows in
 * that solve. In all three cases the solve continues without vectors, and report.message says so.
 *
 * A few vectors may cost more steps than they save, because rounding in half precision counts as long as low modes are
 * left. A solve of one source then does not use them, and report.deflations is 0.
 *
 * milcgpu_staggered_multi_mass takes no eigenvectors: its masses share a Krylov space as long as their residuals are
 * parallel, so it could deflate at the start alone, which gains nothing. Solve mass by mass instead, as MILC does.
 *
 * milcgpu_memory_plan and milcgpu_sources_plan count the memory of a deflation beside the vectors, which count as in
 * use.
 *
 * Vectors have checksums. A call that solves with them compares the checksums of 32 vectors, others each time, and of
 * all vectors if a deflation did harm; milcgpu_eigenvectors_save and _write compare those of their vectors. If a bit
 * has flipped, the handle is empty from then on. The solutions of the call are valid, and the message of its first
 * report says so: until it is noticed, a flipped bit costs steps at most. MILCGPU_VERIFY=0 turns the checksums off.
 *
 * Solves that learn. With milcgpu_options.learn 1, links that many solves use get eigenvectors by themselves. This
 * applies to milcgpu_staggered_solve, _solve_sources and _solve_vectors if spec.eigenvectors is NULL. Steps are counted
 * for the content of the links, each parity by itself. After 4 sources, 4000 steps and 1e9 steps times sites of the
 * parity, the library estimates the density of eigenvalues. It computes vectors as soon as the solves so far would have
 * moved fewer bytes with them, including the bytes for computing them. One line in the log says so, with the numbers.
 * By the same rule a later call computes twice as many or more. A solve uses them if it gains; report.eigenvectors then
 * has their number. Their computation takes at most nine tenths of the free memory of a GPU, or half of the host's.
 * They are dropped when the content of the links changes, and when another allocation does not fit. Solves of several
 * masses, and solves with a loose source (milcgpu.h), do not count and are not deflated: the error of a loose solution
 * would change when vectors are computed. A context in which milcgpu_eigenvectors_compute, _create or _read was called
 * does not learn from then on.
 *
 * Solutions meet their tolerance, but do not have the bits of solves without vectors. Counts, not clocks, decide when
 * vectors are computed: a program that runs again with the same free memory gets the same bits.
 *
 * On several ranks all functions but _count, _values and _destroy are calls of all ranks, with the same arguments.
 * Names of files are read on rank 0.
 */
#ifndef MILCGPU_EIGEN_H
#define MILCGPU_EIGEN_H

#include "milcgpu.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    size_t struct_size;
    int parity;       /* MILCGPU_EVEN or MILCGPU_ODD: that of the solves */
    int count;        /* of vectors */
    double tolerance; /* of |B v - l v| relative to the largest l, at most 1. 0: what deflation needs, l to about a
                         tenth, which is far less exact, and three times faster */
    int precision;    /* of the vectors that are kept: MILCGPU_DOUBLE, MILCGPU_SINGLE or MILCGPU_HALF; 0: half */
    /* Device memory for the Krylov space, which is 1.5 times the requested vectors. 0: 95 % of what is free. If it is
     * short, the space is smaller, down to 1.13 times, and takes some more work. If that does not fit, fewer vectors
     * are computed, down to 16, which are tried whatever this says. */
    double most_bytes;
    /* NULL, or called after each block of the Krylov space, on every rank: it has `done` of its `of` vectors. */
    void (*progress)(void *user, int done, int of);
    void *user;
    /* NULL, or vectors on this parity to begin with: fewer vectors of these links, or vectors of similar links. Those
     * that are good enough cost one application of B each; the others are filtered like new ones. The start vectors are
     * not changed. */
    milcgpu_eigenvectors *start;
} milcgpu_eigen_spec;

typedef struct {
    size_t struct_size;
    int status;
    int count, left_out;  /* vectors that were computed, and those that were requested but not computed */
    int basis, degree;    /* of the Krylov space, and of the polynomial that filters it */
    double applications;  /* of B to a vector, in all */
    double highest, edge; /* an upper bound of the eigenvalues; the polynomial damps those from `edge` on */
    double seconds;       /* the whole call */
    double gflops;
    uint64_t links_version;
    char message[400]; /* why there are fewer vectors than requested; else empty */
    int restarts;      /* of the Krylov space */
} milcgpu_eigen_report;

/* 256 vectors, even sites. */
void milcgpu_eigen_defaults(milcgpu_eigen_spec *spec, size_t size);

/* Makes a handle with the lowest eigenvectors of the links. Block Lanczos with a Chebyshev filter, whose bounds it
 * finds. The Krylov space has the precision of the vectors that are kept. B is applied in single precision, or in
 * double for vectors in double. |B v - l v| is at least about 1e-6 of the largest l in half precision, 1e-7 in single
 * and 1e-15 in double. At most a quarter of the modes of the parity are computed. All vectors with an l below the last
 * one's are found, however many there are, as on free links. Fewer vectors than requested are OK: see report->left_out.
 * NOT_CONVERGED: no vector is good enough. On failure *eigenvectors is NULL. report may be NULL. */
milcgpu_status milcgpu_eigenvectors_compute(milcgpu_links *links, const milcgpu_eigen_spec *spec,
                                            milcgpu_eigenvectors **eigenvectors, milcgpu_eigen_report *report);
/* The largest number of bytes on the device that this computation takes beside what is in use, including the links that
 * are packed for it in the precision that B is applied in. */
milcgpu_status milcgpu_eigenvectors_plan(milcgpu_context *context, const milcgpu_eigen_spec *spec, size_t *bytes);

/* Creates a handle with room for `count` vectors on a parity, of the present links; precision: double, single, half,
 * or 0 for half. Vectors are empty until they are loaded. */
milcgpu_status milcgpu_eigenvectors_create(milcgpu_links *links, int parity, int precision, int count,
                                           milcgpu_eigenvectors **eigenvectors);
/* Vector `index` becomes the host's field, divided by its norm if that differs from 1 by more than 1e-6. l is computed.
 * They may come in any order, and must be orthogonal: the load of the last one gives BAD_ARGUMENT, with the numbers of
 * two, where |<u, v>| sums to more than a half over all others. (Load these again, then the last one.) The links must
 * be the handle's. A load that fails after its arguments were accepted leaves this vector empty. */
milcgpu_status milcgpu_eigenvectors_load(milcgpu_eigenvectors *eigenvectors, milcgpu_links *links, int index,
                                         const milcgpu_field *from);
/* Copies vector `index` to the host. Sites of the other parity keep their content. CORRUPTED: this vector is no longer
 * what was computed or loaded, and the handle is empty then; or it changed on its way, as the message says, and
 * what `to` holds is wrong. */
milcgpu_status milcgpu_eigenvectors_save(milcgpu_eigenvectors *eigenvectors, int index, const milcgpu_field *to);

/* Files of MILC's, as it writes and reads them without QIO (save_serial_ks_eigen, reload_serial_ks_eigen). Rank 0 has
 * the file; each rank has one vector on its host at a time. A damaged or foreign file gives BAD_ARGUMENT, with the byte
 * and the reason: another lattice, both parities, a size that does not fit its count of vectors, wrong checksums, a
 * vector that is 0, more vectors than a parity has, or a file of QIO. Numbers that are not finite give NAN_OR_INF.
 * Device memory is taken as vectors are read. */

/* Makes a handle with the lowest `most` vectors of a file, all if most is 0, the lowest l first, whatever the order in
 * the file. The parity is that of the file. precision: of the vectors that are kept, double, single, half, or 0 for
 * half. l is computed in double; if the file's l is right to 1e-6, that one is kept. BAD_ARGUMENT also if a vector does
 * not belong to the links (its l differs from the file's by more than a hundredth, and |B v - l v| is more than a tenth
 * of l), and if vectors are not orthogonal, as with _load. NO_MEMORY, before the first is read, if they do not fit. On
 * failure *eigenvectors is NULL. */
milcgpu_status milcgpu_eigenvectors_read(milcgpu_links *links, const char *path, int precision, int most,
                                         milcgpu_eigenvectors **eigenvectors);
/* Writes all vectors. precision: of the file, MILCGPU_DOUBLE or MILCGPU_SINGLE: the precision of the MILC that will
 * read it. time: the time of writing for the file, up to 63 characters; NULL: now. The file gets its name when it is
 * whole; until then an older one of that name stays. BAD_ARGUMENT if it cannot be written, or the disk is full.
 * CORRUPTED: as with _save.
 *
 * A file that is read and written again has the same bytes, apart from its time, if the handle holds its vectors
 * without rounding: files that this library wrote from vectors of the same or a lower precision, and MILC's files in
 * single precision, read into single. Wrong values l of the file are corrected. (MILC's develop of 2024 and 2025 writes
 * wrong l in single precision.) Vectors in double are rounded to `precision` when they are read. */
milcgpu_status milcgpu_eigenvectors_write(milcgpu_eigenvectors *eigenvectors, const char *path, int precision,
                                          const char *time);

int milcgpu_eigenvectors_count(const milcgpu_eigenvectors *eigenvectors); /* 0: empty, or NULL */
/* l and |B v - l v| of all vectors; values and residuals have room for them. Either may be NULL. */
milcgpu_status milcgpu_eigenvectors_values(const milcgpu_eigenvectors *eigenvectors, double *values, double *residuals);
void milcgpu_eigenvectors_destroy(milcgpu_eigenvectors *eigenvectors); /* before its context; NULL is legal */

#ifdef __cplusplus
}
#endif
#endif
