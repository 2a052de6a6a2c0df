/* Parameters of the eigensolver that a MILC of 2025 and later hands over: its CG switch turns its eigensolver switch
 * on. The eigensolver is not built: the members are those that MILC fills, and milcgpu_quda_no_eigenpairs says so. */
#ifndef MILCGPU_QUDA_H
#define MILCGPU_QUDA_H
#include "enum_quda.h"
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The solver inside of the eigensolver: operator, precisions, and what only iterative solvers read. */
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

static inline QudaInvertParam newQudaInvertParam(void) {
    QudaInvertParam none;
    memset(&none, 0, sizeof none);
    return none;
}

static inline QudaGaugeParam newQudaGaugeParam(void) {
    QudaGaugeParam none;
    memset(&none, 0, sizeof none);
    return none;
}

static inline QudaEigParam newQudaEigParam(void) {
    QudaEigParam none;
    memset(&none, 0, sizeof none);
    return none;
}

/* Says that there are none; values (real and imaginary parts) and vectors are NaN. precision: as in calls of MILC. */
void milcgpu_quda_no_eigenpairs(int precision, int n, void **vectors, double *values);

/* Of the eigensolver alone. */
static inline void loadGaugeQuda(void *links, QudaGaugeParam *parameters) { (void)links, (void)parameters; }

static inline void eigensolveQuda(void **vectors, void *values, QudaEigParam *parameters) {
    milcgpu_quda_no_eigenpairs(parameters->invert_param->cpu_prec == QUDA_SINGLE_PRECISION ? 1 : 2, parameters->n_conv,
                               vectors, (double *)values);
}

#ifdef __cplusplus
}
#endif
#endif
