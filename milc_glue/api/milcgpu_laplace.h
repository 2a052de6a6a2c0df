/* milcgpu: the gauge Laplace operator, M = 1 - kappa D with
 *
 *   (D psi)(x) = sum_mu [ U_mu(x) psi(x+mu) + U_mu(x-mu)^dag psi(x-mu) ],
 *
 * mu = X Y Z (3 directions: each time slice by itself) or X Y Z T (4). With kappa = 1 / (2 d + m^2), M / kappa is minus
 * the lattice Laplacian in d directions, plus m^2. With D in 3 directions milcgpu_quarks_laplacian of one hop is 6 psi
 * - D psi, and a step of milcgpu_quarks_gauss_smear of one hop is (1 - 6 a) psi + a D psi.
 *
 * U are the links of a handle of milcgpu_mesons.h: the gauge field, or smeared links, without phases. All boundaries
 * are periodic; `antiperiodic` of the links is ignored. 12 and 8 reals per link hold +-SU(3) times one number for the
 * whole field. Links that do not fit are kept in 18, with a warning, and the report says so.
 *
 * Vectors are colour vectors on all sites, of the host in double or single, or on the device. They may have another
 * precision than the links of the handle.
 *
 * Both functions return a status, and milcgpu_last_error() says what failed, where, and what to do. Host outputs are
 * untouched on failure. Links have checksums, compared before results are handed over. CORRUPTED means that a bit
 * flipped there, and that the handle is empty now. Sources of solves are checked as milcgpu.h says. What is not checked
 * in milcgpu_mesons.h is not checked here. MILCGPU_VERIFY=0 turns this off.
 *
 * On several ranks these are calls of all ranks. Each rank gives the fields of its box; all other arguments must be the
 * same on all. D of one vector has the bits that one rank would compute; D of several agrees with that to rounding.
 * Solves take as many iterations as on one rank. Their reports are alike on all ranks, except seconds, bytes and rates.
 */
#ifndef MILCGPU_LAPLACE_H
#define MILCGPU_LAPLACE_H

#include "milcgpu_mesons.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    MILCGPU_LAPLACE_D = 0, /* the sum over neighbours; kappa is not read */
    MILCGPU_LAPLACE_M = 1  /* 1 - kappa D */
} milcgpu_laplace_matrix;

typedef struct {
    size_t struct_size;
    int directions; /* 3 or 4 */
    double kappa;   /* 0 < kappa < 1 / (2 directions): then M is positive, if the links are unitary */
    milcgpu_storage what;
} milcgpu_laplace_spec;
/* 3 directions, double. Still to be set: kappa. */
void milcgpu_laplace_defaults(milcgpu_laplace_spec *spec, size_t size);

/* to = D from or M from on the sites of `parity`: MILCGPU_EVEN, MILCGPU_ODD, or their sum for both; the other sites of
 * `to` keep their content. n vectors at once, links loaded once for several. D on one parity reads only the
 * other one. `to` may be `from`. A result with NaN or infinity gives NAN_OR_INF. */
milcgpu_status milcgpu_laplace_apply(milcgpu_meson_links *links, const milcgpu_laplace_spec *spec, int matrix,
                                     int parity, int n, const milcgpu_quarks *from, const milcgpu_quarks *to);

typedef struct {
    size_t struct_size;
    int directions; /* as above */
    double kappa;
    double tolerance;        /* stop when |b - M x| / |b| < tolerance, norms over all sites; at least 1e-150 */
    int max_iterations;      /* between restarts, > 0 */
    int max_restarts;        /* how often the iteration may start, the first time included; > 0 */
    milcgpu_storage precise; /* as in milcgpu_solve_spec: residuals are recomputed in this */
    milcgpu_storage sloppy;  /* iterations run in this; precision 0: as precise */
    double reliable_delta;   /* as in milcgpu_solve_spec, but 0: 0.01 for half, else 0.001 */
    double jump_limit;       /* as in milcgpu_solve_spec */
    int together; /* milcgpu_together, for several sources. If they are solved together and half is asked for, the
                     iteration is in single */
    void (*progress)(void *user, int step, double residual); /* NULL: none. residual: of the even-odd system */
    void *user;
} milcgpu_laplace_solve_spec;
/* 3 directions, double, 1000 iterations, 5 starts. Still to be set: kappa and tolerance. */
void milcgpu_laplace_solve_defaults(milcgpu_laplace_solve_spec *spec, size_t size);

/* M x = b for n sources, by conjugate gradient on the even sites: (1 - kappa^2 D_eo D_oe) x_e = b_e + kappa D b_o, then
 * x_o = b_o + kappa D x_e. solutions: the guess on entry, read on even sites; x on return when the status is OK,
 * NOT_CONVERGED or PRECISION_FLOOR, else untouched. A source that cannot be solved (NaN in it, or in its guess) does
 * not affect the others. Sources are taken 16 at a time, or one by one; their solutions are written before the next
 * ones are started. So solutions must not share memory with each other or with a source. If links are not unitary, M
 * may have a negative eigenvalue: a solve that meets it gives NOT_POSITIVE.
 *
 * reports: n of them, or NULL. true_residual is |b - M x| / |b| on all sites, in double, from the links as handed
 * over and from x before it is rounded to the vectors' precision. source_norm is |b|, relative_residual 1,
 * links_version 0. Seconds, bytes and rates of sources that were solved together are divided among them. The status is
 * that of the first source without a solution, else that of the first that is not OK. If the call as a whole fails
 * (BAD_ARGUMENT, NO_MEMORY, CORRUPTED, ..), reports stay as they were. */
milcgpu_status milcgpu_laplace_solve(milcgpu_meson_links *links, const milcgpu_laplace_solve_spec *spec, int n,
                                     const milcgpu_quarks *sources, const milcgpu_quarks *solutions,
                                     milcgpu_solve_report *reports);

/* The largest number of bytes on the device while milcgpu_laplace_solve solves `spec` for n sources, with what is in
 * use now, the handle's links among it: as milcgpu_memory_plan says it. Sources are taken as solved together unless
 * spec.together is MILCGPU_ONE_BY_ONE. The handle may be empty. A rank may call it alone. */
milcgpu_status milcgpu_laplace_plan(milcgpu_meson_links *links, const milcgpu_laplace_solve_spec *spec, int n,
                                    char *text, size_t text_size, size_t *bytes);

#ifdef __cplusplus
}
#endif
#endif
