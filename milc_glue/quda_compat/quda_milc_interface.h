/* What a MILC built with WANTQUDA=true, WANT_FN_CG_GPU=true and WANT_FL_GPU=true calls, served by milcgpu: the names,
 * argument lists and fields of that interface, written down from MILC's calls. What MILC's other GPU switches would
 * call is not declared, so a program that wants it does not link. docs/quda-switches.md says which switches work.
 *
 * Fields are MILC's: su3_vector[sites], su3_matrix[4 * sites], even sites first; precision 1 is float, 2 double.
 * external: of MILC's fields. Errors are said on stderr; a call that cannot be done on the GPU is done by the host
 * backend; where that cannot be either, results are NaN and residuals infinite. No function ends the program. */
#ifndef MILCGPU_QUDA_MILC_INTERFACE_H
#define MILCGPU_QUDA_MILC_INTERFACE_H

#include "enum_quda.h"
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Links and momenta inside MILC's site structures: address of the first, offsets of the members, sizeof(site); or
 * packed arrays where link or mom is not NULL. */
typedef struct {
    void *site, *link;
    size_t link_offset;
    void *mom;
    size_t mom_offset, size;
} QudaMILCSiteArg_t;

typedef struct {
    int max_iter;
    QudaParity evenodd;           /* of the sites that are written */
    int mixed_precision;          /* 0: none, 1: double with single, 2: double with half */
    double tadpole, naik_epsilon; /* in the links already; not needed here */
} QudaInvertArgs_t;

typedef struct {
    const int *latsize;  /* of the whole lattice */
    const int *machsize; /* ranks in each direction */
    int device;
} QudaLayout_t;

typedef struct {
    QudaVerbosity verbosity;
    QudaLayout_t layout;
} QudaInitArgs_t;

typedef struct {
    int su3_source;
} QudaFatLinkArgs_t;

typedef struct {
    int reunit_allow_svd, reunit_svd_only;
    double reunit_svd_abs_error, reunit_svd_rel_error, force_filter;
} QudaHisqParams_t;

void qudaSetMPICommHandle(void *communicator);
void qudaInit(QudaInitArgs_t input);
void qudaFinalize(void);

/* Memory that transfers are fast with; like malloc and free otherwise. */
void *qudaAllocatePinned(size_t bytes);
void qudaFreePinned(void *address);
void *qudaAllocateManaged(size_t bytes);
void qudaFreeManaged(void *address);

/* (4 m^2 - D D) solution = source on one parity; solution is the guess on entry. target_residual and
 * target_fermilab_residual as in milcgpu_solve_spec (0: not tested). final_residual: the true one; the Fermilab
 * residual is 1 where it is not tested, as MILC prints it. num_iters: as MILC counts. On entry -1 means that links are
 * new; they are looked at in every call anyway, because MILC does not say it always. */
void qudaInvert(int external_precision, int quda_precision, double mass, QudaInvertArgs_t inv_args,
                double target_residual, double target_fermilab_residual, const void *fatlink, const void *longlink,
                void *source, void *solution, double *final_residual, double *final_fermilab_residual, int *num_iters);

/* The same for several sources; residuals are the worst, num_iters the sum. */
void qudaInvertMsrc(int external_precision, int quda_precision, double mass, QudaInvertArgs_t inv_args,
                    double target_residual, double target_fermilab_residual, const void *fatlink, const void *longlink,
                    void **sources, void **solutions, double *final_residual, double *final_fermilab_residual,
                    int *num_iters, int num_src);

/* (offset_i - D D) solution_i = source from zero guesses. target_residual[i] = 0, i > 0: as accurate as the shared
 * iteration makes it, at least target_residual[0]. */
void qudaMultishiftInvert(int external_precision, int quda_precision, int num_offsets, double *offset,
                          QudaInvertArgs_t inv_args, const double *target_residual,
                          const double *target_fermilab_residual, const void *fatlink, const void *longlink,
                          void *source, void **solutions, double *final_residual, double *final_fermilab_residual,
                          int *num_iters);

/* destination (on inv_args.evenodd) = D source; they may be the same field. */
void qudaDslash(int external_precision, int quda_precision, QudaInvertArgs_t inv_args, const void *fatlink,
                const void *longlink, void *source, void *destination, int *num_iters);

/* path_coeff: one link, Naik, 3, 5, 7 staple, Lepage, for links with the phases in. longlink, ulink: may be NULL.
 * Unitarized: V (fat links with path_coeff) into fatlink where it is not NULL, W = V (V^dag V)^(-1/2) into ulink. */
void qudaLoadKSLink(int precision, QudaFatLinkArgs_t fatlink_args, const double path_coeff[6], void *inlink,
                    void *fatlink, void *longlink);
void qudaLoadUnitarizedLink(int precision, QudaFatLinkArgs_t fatlink_args, const double path_coeff[6], void *inlink,
                            void *fatlink, void *ulink);
void qudaHisqParamsInit(QudaHisqParams_t parameters);

/* Sum over all links of |m01|^2 + |m02|^2 + |m12|^2 + (m00^2 + m11^2 + m22^2) / 2 - 4. */
double qudaMomAction(int precision, QudaMILCSiteArg_t *arg);
/* Mean Re tr / 3 of all, the space-space and the space-time plaquettes; phase_in: staggered phases are in the links. */
void qudaPlaquettePhased(int precision, double plaq[3], QudaMILCSiteArg_t *arg, int phase_in);
/* Mean trace of the loop of links in direction dir (3: time), real and imaginary part. */
void qudaPolyakovLoopPhased(int precision, double ploop[2], int dir, QudaMILCSiteArg_t *arg, int phase_in);

#ifdef __cplusplus
}
#endif
#endif
