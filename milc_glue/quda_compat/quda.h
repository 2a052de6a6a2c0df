/* Structs that MILC of 2025 and later passes, with the members that MILC fills.
 *
 * The eigensolver reads n_conv, tol, spectrum and use_pc of QudaEigParam, and cpu_prec, mass and matpc_type (the
 * parity) of its invert_param. The gradient flow is for the program wilson_flow. */
#ifndef MILCGPU_QUDA_H
#define MILCGPU_QUDA_H
#include "enum_quda.h"
#include <stddef.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The operator of the eigensolver, precisions, and members of iterative solvers. */
typedef struct {
    double mass, kappa;
    double tol, tol_restart, tol_hq, tol_precondition, reliable_delta, ca_lambda_min, ca_lambda_max;
    int dslash_type, solution_type, solve_type, matpc_type, dagger, mass_normalization, laplace3D, Ls;
    int cpu_prec, cuda_prec, cuda_prec_sloppy, cuda_prec_refinement_sloppy, cuda_prec_precondition,
        cuda_prec_eigensolver;
    int preserve_source, gamma_basis, dirac_order, input_location, output_location, sp_pad, native_blas_lapack;
    int inv_type, inv_type_precondition, maxiter, maxiter_precondition, residual_type, heavy_quark_check, Nsteps;
    int use_alternative_reliable, use_sloppy_partial_accumulator, solution_accumulator_pipeline, pipeline, gcrNkrylov,
        ca_basis;
    int verbosity, verbosity_precondition;
} QudaInvertParam;

/* Links. */
typedef struct {
    size_t struct_size;
    double anisotropy, tadpole_coeff, scale;
    int X[4];
    int type, gauge_order, t_boundary, gauge_fix, staggered_phase_type, ga_pad, mom_ga_pad;
    int cpu_prec, cuda_prec, cuda_prec_sloppy, cuda_prec_precondition, cuda_prec_eigensolver,
        cuda_prec_refinement_sloppy;
    int reconstruct, reconstruct_sloppy, reconstruct_precondition, reconstruct_eigensolver,
        reconstruct_refinement_sloppy;
} QudaGaugeParam;

typedef struct {
    QudaInvertParam *invert_param;
    double tol, qr_tol, a_min, a_max;
    int n_conv, n_ev, n_ev_deflate, n_kr, block_size, max_restarts, batched_rotate, check_interval, poly_deg;
    int eig_type, spectrum, use_norm_op, use_pc, use_dagger, use_poly_acc, use_eigen_qr, compute_gamma5, compute_svd;
    int require_convergence, arpack_check, save_prec, io_parity_inflate, partfile;
    char arpack_logfile[512], vec_infile[512], vec_outfile[512];
} QudaEigParam;

/* A flow of n_steps steps of length epsilon, in units of a^2, with a measurement after every meas_interval steps. */
typedef struct {
    size_t struct_size;
    double epsilon, t0;
    unsigned n_steps;
    int meas_interval, smear_type, restart;
} QudaGaugeSmearParam;

/* One measurement. Filled: qcharge; plaquette {mean, spatial, temporal}; energy {sum, spatial, temporal} a site, from
 * the clover field strength, -tr F^2. ploop becomes NaN. traces do not change; the GFLOW lines have the rectangles. */
typedef struct {
    size_t struct_size;
    double plaquette[3], energy[3], qcharge, ploop[2], factor;
    double *loop_coeff;
    void *traces;
    int **input_path_buff, *path_length;
    int num_paths, max_length;
    int su_project, compute_plaquette, compute_polyakov_loop, compute_qcharge, compute_qcharge_density,
        compute_gauge_loop_trace;
} QudaGaugeObservableParam;

static inline QudaInvertParam newQudaInvertParam(void) {
    QudaInvertParam none;
    memset(&none, 0, sizeof none);
    return none;
}

static inline QudaGaugeParam newQudaGaugeParam(void) {
    QudaGaugeParam none;
    memset(&none, 0, sizeof none);
    none.struct_size = sizeof none;
    return none;
}

static inline QudaEigParam newQudaEigParam(void) {
    QudaEigParam none;
    memset(&none, 0, sizeof none);
    return none;
}

static inline QudaGaugeSmearParam newQudaGaugeSmearParam(void) {
    QudaGaugeSmearParam none;
    memset(&none, 0, sizeof none);
    none.struct_size = sizeof none;
    none.meas_interval = 1;
    return none;
}

static inline QudaGaugeObservableParam newQudaGaugeObservableParam(void) {
    QudaGaugeObservableParam none;
    memset(&none, 0, sizeof none);
    none.struct_size = sizeof none;
    return none;
}

/* Stores the address of the links: 4 matrices a site, without phases, in MILC's order of sites. The caller keeps the
 * memory. */
void milcgpu_quda_links_of_flow(void *links, int precision);
/* The same for fat links (0) and long links (1), with phases, for the eigensolver. */
void milcgpu_quda_links_of_eigensolver(int three_links, const void *links);
static inline void loadGaugeQuda(void *links, QudaGaugeParam *parameters) {
    if (parameters->type == QUDA_ASQTAD_FAT_LINKS || parameters->type == QUDA_ASQTAD_LONG_LINKS)
        milcgpu_quda_links_of_eigensolver(parameters->type == QUDA_ASQTAD_LONG_LINKS, links);
    else
        milcgpu_quda_links_of_flow(links, parameters->cpu_prec == QUDA_SINGLE_PRECISION ? 1 : 2);
}

/* The flow of these links by Luescher's integrator (third order) or by the integrator of Berland, Bogey, Bailly (fourth
 * order). The links become those at the end of the flow. Prints MILC's GFLOW lines on stdout. observables[0] is before
 * the first step, followed by one for each measurement. If the flow fails, stderr says so, and links and observables
 * are NaN. */
void performWFlowQuda(QudaGaugeSmearParam *flow, QudaGaugeObservableParam *observables);
void performWFlowFourthOrderQuda(QudaGaugeSmearParam *flow, QudaGaugeObservableParam *observables);

/* The n_conv lowest eigenvectors of 4 m^2 - D^2 on one parity, for the links that were loaded. vectors: MILC's fields,
 * filled on that parity. values: the eigenvalues, real and imaginary parts. The vectors also stay on the device, and
 * solves with these links are deflated with them. If fewer than n_conv are found, values and vectors are NaN, and
 * stderr says why. */
void milcgpu_quda_eigensolve(void **vectors, double *values, const QudaEigParam *parameters);
static inline void eigensolveQuda(void **vectors, void *values, QudaEigParam *parameters) {
    milcgpu_quda_eigensolve(vectors, (double *)values, parameters);
}

#ifdef __cplusplus
}
#endif
#endif
