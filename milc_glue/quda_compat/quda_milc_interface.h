/* The functions that MILC calls if it is built with WANTQUDA=true and WANT_FN_CG_GPU, WANT_FL_GPU, WANT_FF_GPU (HISQ),
 * WANT_GF_GPU, WANT_CL_BCG_GPU, WANT_EIG_GPU and the switches of gauge fixing and of measurements, provided by milcgpu.
 * Names, argument lists and fields of this interface were written down from MILC's calls. Functions for MILC's other
 * GPU switches are not declared, so a program that needs them does not link. docs/quda-switches.md lists the switches
 * that work, and for which MILC.
 *
 * Fields are MILC's: su3_vector[sites], su3_matrix[4 * sites], even sites first. Precision 1 is float, 2 double;
 * external_precision is the precision of MILC's fields. Errors are printed on stderr. The host backend does a call that
 * the GPU cannot do. If that fails, too, results are NaN and residuals infinite. No function ends the program. */
#ifndef MILCGPU_QUDA_MILC_INTERFACE_H
#define MILCGPU_QUDA_MILC_INTERFACE_H

#include "enum_quda.h"
#include "milcgpu_milc.h"
#include "quda.h"
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Links and momenta inside MILC's site structures: address of the first site, offsets of the members, sizeof(site). If
 * link or mom is not NULL, it is a packed array. */
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
    double tadpole, naik_epsilon; /* already in the links; naik_epsilon tells which links a file is for */
    QudaInverterType solver_type; /* of qudaCloverInvert: always BiCGstab */
    double boundary_phase[4];     /* already in the links */
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
void qudaFinalize(void); /* on several ranks: call it before MPI_Finalize */

/* On several ranks, before qudaInit: MILCGPU_QUDA_TABLES tables of type milcgpu_messages, whose messages never mix, and
 * this rank's box. All ranks call this function and all later ones together. */
enum { MILCGPU_QUDA_TABLES = 2 };
void milcgpu_quda_lend(const void *tables, const milcgpu_milc_box *box);

/* Like malloc and free, in large pages if the system has them. Nothing is pinned. */
void *qudaAllocatePinned(size_t bytes);
void qudaFreePinned(void *address);
void *qudaAllocateManaged(size_t bytes);
void qudaFreeManaged(void *address);

/* (4 m^2 - D D) solution = source on one parity; on entry solution is the guess. target_residual and
 * target_fermilab_residual are tolerance and relative_tolerance of milcgpu_solve_spec (0: not tested). final_residual:
 * the true residual. final_fermilab_residual: 1 if it is not tested, as MILC prints it. num_iters: as MILC counts. On
 * entry, -1 means that links are new. Every call compares them nevertheless, because MILC does not always report new
 * links. */
void qudaInvert(int external_precision, int quda_precision, double mass, QudaInvertArgs_t inv_args,
                double target_residual, double target_fermilab_residual, const void *fatlink, const void *longlink,
                void *source, void *solution, double *final_residual, double *final_fermilab_residual, int *num_iters);

/* The same for several sources. Residuals are those of the worst source, and NaN if one is NaN. A line on stderr names
 * each source that misses its target, with its residual. num_iters is the sum. */
void qudaInvertMsrc(int external_precision, int quda_precision, double mass, QudaInvertArgs_t inv_args,
                    double target_residual, double target_fermilab_residual, const void *fatlink, const void *longlink,
                    void **sources, void **solutions, double *final_residual, double *final_fermilab_residual,
                    int *num_iters, int num_src);

/* The same for a MILC that multiplies num_iters by num_src: num_iters is the most that one source took. */
void milcgpu_quda_invert_sources(int external_precision, int quda_precision, double mass, QudaInvertArgs_t inv_args,
                                 double target_residual, double target_fermilab_residual, const void *fatlink,
                                 const void *longlink, void **sources, void **solutions, double *final_residual,
                                 double *final_fermilab_residual, int *num_iters, int num_src);

/* Eigenvectors that deflate solves. The library reads struct_size, n_ev_deflate, n_conv, prec_eigensolver (double is
 * taken as single), tol, preserve_deflation and both file names. MILC names vec_outfile in every call, even after the
 * lattice that the file is for. So the file is written once, with what MILC's own routine would save: vectors on even
 * sites of the first links that name it with naik_epsilon 0 and without a twist. */
typedef struct {
    size_t struct_size;
    int n_ev_deflate; /* eigenvectors of this solve */
    int n_ev, n_conv, n_kr, block_size, max_restarts, batched_rotate, check_interval, compute_evals_batch_size;
    int poly_deg;
    double a_min, a_max, tol, qr_tol, tol_restart;
    QudaEigType eig_type;
    QudaEigSpectrumType spectrum;
    QudaPrecision prec_eigensolver, save_prec;
    QudaParity vec_in_parity;
    QudaBoolean use_norm_op, use_pc, use_dagger, use_poly_acc, use_eigen_qr, compute_gamma5, compute_svd;
    QudaBoolean require_convergence, preserve_evals, preserve_deflation, arpack_check, partfile, io_parity_inflate;
    int not_used[2];
    char vec_infile[512], vec_outfile[512];
} QudaEigensolverArgs_t;

/* MILC itself writes this number into struct_size. */
enum { MILCGPU_QUDA_EIGENSOLVER_SIZE = 1192 };
typedef char milcgpu_quda_eigensolver_size[sizeof(QudaEigensolverArgs_t) == MILCGPU_QUDA_EIGENSOLVER_SIZE ? 1 : -1];

/* qudaInvert and milcgpu_quda_invert_sources, deflated with the n_conv lowest eigenvectors of these links on this
 * parity: at the start, and whenever the residual is recomputed (tol_restart is not read). The first call for links of
 * this content computes them. They are kept for the next calls unless preserve_deflation is 0. They are not computed if
 * 4 m^2 is above the last eigenvalue that other links had. n_ev_deflate 0: no deflation. With another struct_size,
 * solutions are NaN and residuals infinite, and the first such call logs it. */
void qudaInvertDeflatable(int external_precision, int quda_precision, double mass, QudaInvertArgs_t inv_args,
                          QudaEigensolverArgs_t eig_args, double target_residual, double target_fermilab_residual,
                          const void *fatlink, const void *longlink, void *source, void *solution,
                          double *final_residual, double *final_fermilab_residual, int *num_iters);
void qudaInvertMsrcDeflatable(int external_precision, int quda_precision, double mass, QudaInvertArgs_t inv_args,
                              QudaEigensolverArgs_t eig_args, double target_residual, double target_fermilab_residual,
                              const void *fatlink, const void *longlink, void **sources, void **solutions,
                              double *final_residual, double *final_fermilab_residual, int *num_iters, int num_src);

/* 1: the links of the next call with QudaEigensolverArgs_t have a momentum twist. MILC does not pass this; the macros
 * below do. */
void milcgpu_quda_twist(int is_in);

/* Obtains the n_conv lowest eigenvectors of these links on inv_args.evenodd, before the solves: computes them, loads
 * MILC's fields, or applies D to the vectors of the other parity. They are eigenvectors of -D^2: the mass is not read.
 * If this fails, stderr says so, and solves are not deflated. */
typedef enum { QUDA_MILC_EIG_COMPUTE, QUDA_MILC_EIG_LOAD, QUDA_MILC_EIG_FROM_OTHER_PARITY } QudaMilcEigLoad;
void qudaLoadDeflationSpace(int external_precision, int quda_precision, const void *fatlink, const void *longlink,
                            double mass, QudaInvertArgs_t inv_args, QudaEigensolverArgs_t eig_args, void **vectors,
                            QudaMilcEigLoad from);
/* Drops all eigenvectors that are kept. */
void qudaCleanUpDeflationSpace(void);

/* (offset_i - D D) solution_i = source from zero guesses. target_residual[i] = 0, i > 0: whatever the shared iteration
 * reaches, which is target_residual[0] or better. */
void qudaMultishiftInvert(int external_precision, int quda_precision, int num_offsets, double *offset,
                          QudaInvertArgs_t inv_args, const double *target_residual,
                          const double *target_fermilab_residual, const void *fatlink, const void *longlink,
                          void *source, void **solutions, double *final_residual, double *final_fermilab_residual,
                          int *num_iters);

/* destination (on inv_args.evenodd) = D source; both may be the same field. */
void qudaDslash(int external_precision, int quda_precision, QudaInvertArgs_t inv_args, const void *fatlink,
                const void *longlink, void *source, void *destination, int *num_iters);

/* M solution = source on all sites, M = R - kappa D_- with the clover term R of coefficient clover_coeff = kappa c_sw /
 * u0^3 (milcgpu_wilson.h). This is MILC's matrix between gamma_5, so MILC passes gamma_5 times its vectors. link: 4 a
 * site, including boundary signs and twists; R is made from them. MILC's fields `clover` and `clover_inverse` are not
 * read. BiCGstab on the system of the even sites, from a zero guess. The targets (0: not tested) and final residuals
 * are those of this system. inv_args.evenodd is not read, because MILC does not set it. One rank only. */
void qudaCloverInvert(int external_precision, int quda_precision, double kappa, double clover_coeff,
                      QudaInvertArgs_t inv_args, double target_residual, double target_fermilab_residual,
                      const void *link, void *clover, void *clover_inverse, void *source, void *solution,
                      double *final_residual, double *final_fermilab_residual, int *num_iters);

/* path_coeff: one link, Naik, 3, 5, 7 staple, Lepage, for links that include the phases. longlink and ulink may be
 * NULL. Unitarized: V (fat links with path_coeff) into fatlink unless it is NULL, W = V (V^dag V)^(-1/2) into ulink. */
void qudaLoadKSLink(int precision, QudaFatLinkArgs_t fatlink_args, const double path_coeff[6], void *inlink,
                    void *fatlink, void *longlink);
void qudaLoadUnitarizedLink(int precision, QudaFatLinkArgs_t fatlink_args, const double path_coeff[6], void *inlink,
                            void *fatlink, void *ulink);
void qudaHisqParamsInit(QudaHisqParams_t parameters);

/* Sum over all links of |m01|^2 + |m02|^2 + |m12|^2 + (m00^2 + m11^2 + m22^2) / 2 - 4, for the momenta in use. */
double qudaMomAction(int precision, QudaMILCSiteArg_t *arg);
/* Mean Re tr / 3 of all, the space-space and the space-time plaquettes; phase_in: the links include the staggered
 * phases. */
void qudaPlaquettePhased(int precision, double plaq[3], QudaMILCSiteArg_t *arg, int phase_in);
/* Mean trace of the loop of links in direction dir, which must be 3 (time): real and imaginary part. */
void qudaPolyakovLoopPhased(int precision, double ploop[2], int dir, QudaMILCSiteArg_t *arg, int phase_in);

/* traces[2k], [2k+1]: real and imaginary part of factor coefficients[k] times the sum over all sites of the trace of
 * the loop paths[k] of lengths[k] steps, 0 to 3 along x, y, z, t and 7 - mu back along mu, for links without phases.
 * Loops must be closed. In a direction that is cut between ranks, they may reach at most two sites away from their
 * start. */
void qudaGaugeLoopTracePhased(int precision, double *traces, int **paths, int *lengths, double *coefficients,
                              int num_paths, int max_length, double factor, QudaMILCSiteArg_t *arg, int phase_in);
/* The three functions above in one call. */
void qudaGaugeMeasurementsPhased(int precision, double plaq[3], double ploop[2], int dir, double *traces, int **paths,
                                 int *lengths, double *coefficients, int num_paths, int max_length, double factor,
                                 QudaMILCSiteArg_t *arg, int phase_in);

/* Measurements: one field on all sites per call. Links that are already on the device are recognized by their content;
 * with the flag for new links, all links are compared. A call that fails leaves NaN in the result. Unless stated
 * otherwise here, the formulas are those of MILC's own routines (milcgpu_mesons.h). */

/* dest = the shift of src along dir, 0 x to 3 t: sym 1 forward, 2 backward, 3 half the sum of both; links without
 * change. */
void qudaShift(int external_precision, int quda_precision, const void *links, const void *src, void *dest, int dir,
               int sym, int reload_links);

/* dest = O src; spin, taste: sums of 1 x, 2 y, 4 z, 8 t. links include the staggered phases; local operators use no
 * links. The sign (-1)^(x+y+z+t) of the antiquark is included. Coordinates count from the origin of the last
 * milcgpu_quda_origin, which holds for one call; without such a call, from 0. MILC passes no origin; the macro below
 * does. */
void qudaSpinTaste(int external_precision, int quda_precision, const void *links, const void *src, void *dest, int spin,
                   int taste, int reload_links);
void milcgpu_quda_origin(const int origin[4]);

typedef struct {
    int n_steps;
    double width;
    int compute_2link; /* 0: the links of the last call with 1 are used, without a comparison */
    int delete_2link;  /* 1: as qudaFreeTwoLink() after the call */
    int t0;            /* a time slice, or -1: all */
    int laplaceDim;    /* only 3 is built */
} QudaTwoLinkQuarkSmearArgs_t;

/* In place: n_steps of smearing by two links. The products of links stay on the device until their memory is needed.
 * After qudaFreeTwoLink() the next call must have compute_2link 1. If a call with compute_2link 0 finds its products
 * lost, it makes them again if it has the address of their links; otherwise the result is NaN. */
void qudaTwoLinkGaussianSmear(int external_precision, int quda_precision, const void *links, void *quark,
                              QudaTwoLinkQuarkSmearArgs_t arguments);
void qudaFreeTwoLink(void);

typedef enum { QUDA_FFT_SYMM_ODD = 1, QUDA_FFT_SYMM_EVEN = 2, QUDA_FFT_SYMM_EO = 3 } QudaFFTSymmType;

typedef struct {
    int n_mom;
    int *mom_modes;            /* 4 per momentum; the last one, of t, must be 0 */
    QudaFFTSymmType *fft_type; /* 4 per momentum, the last one is not read: i sin, cos, e^(+i) */
    int *source_position;      /* the origin of the phases */
    double flops, dtime;       /* filled by the call */
} QudaContractArgs_t;

/* correlators[n_mom][nt][2] += the sum over each time slice of f(x) quark1^dag quark2. */
void qudaContractFT(int external_precision, QudaContractArgs_t *arguments, const void *quark1, const void *quark2,
                    double *correlators);

/* Molecular dynamics. phase_in: the links include the phases. A call that changes links writes them to the sites. Links
 * that are already on the device are recognized by a hash of all of them. Before qudaMomLoad, every call reads and
 * writes the momenta in the sites. From qudaMomLoad on the library has the momenta, and those in the sites are not
 * read; qudaMomSave writes them there. If a force could not be computed, everything that follows from the momenta is
 * NaN until the next qudaMomLoad. If momenta were lost with a device, it is NaN to the end. */
void qudaMomLoad(int precision, QudaMILCSiteArg_t *arg);
void qudaMomSave(int precision, QudaMILCSiteArg_t *arg);

/* Coulomb gauge (gauge_dir 3) or Landau gauge (4) of the links in the sites, which have no phases then. Steps and lines
 * are those of MILC's own routine: at most Nsteps steps, until one changes the mean by less than the tolerance, with a
 * line every verbose_interval steps. stopWtheta other than 0 is not built: a line says so, and the fixing ends in the
 * same way. */
void qudaGaugeFixingOVR(int precision, unsigned gauge_dir, int Nsteps, int verbose_interval, double relax_boost,
                        double tolerance, unsigned reunit_interval, unsigned stopWtheta, QudaMILCSiteArg_t *arg);

/* H <- H - eb3 TA(U P), as in milcgpu_momenta_add_gauge_force. milc_loop_coeff: coefficients of plaquettes, rectangles,
 * bent loops (num_loop_types of them), for links without phases. */
void qudaGaugeForcePhased(int precision, int num_loop_types, double milc_loop_coeff[3], double eb3,
                          QudaMILCSiteArg_t *arg, int phase_in);

/* The force of HISQ quarks. quark_field: num_terms vectors, the solution on even sites, D of it on odd sites. coeff[t]
 * = {2 residue, Naik coefficient of level 2 times 2 residue}; num_naik_terms more rows, for the last terms again, have
 * what eps_naik adds. level2_coeff, fat7_coeff: like path_coeff. u_link: 4 a site, packed; w_link and v_link are not
 * used. milc_momentum: 40 reals a site, filled with what the force adds to the momenta; after qudaMomLoad it does not
 * change. Limits of the unitarization and the filter are those of qudaHisqParamsInit, although QUDA uses its own
 * defaults. reunit_allow_svd is taken as 1. */
void qudaHisqForce(int precision, int num_terms, int num_naik_terms, double dt, double **coeff, void **quark_field,
                   const double level2_coeff[6], const double fat7_coeff[6], const void *w_link, const void *v_link,
                   const void *u_link, void *milc_momentum);

/* U <- exp(eps H) U, the series to order 8. want_gaugepipe is not used. */
void qudaUpdateUPhased(int precision, double eps, QudaMILCSiteArg_t *arg, int phase_in);
void qudaUpdateUPhasedPipeline(int precision, double eps, QudaMILCSiteArg_t *arg, int phase_in, int want_gaugepipe);

/* Projects back to SU(3) as MILC does. A line on stderr names links that are further from SU(3) than tol; these do not
 * change. If there are more than 100 (MILC's own limit), all links become NaN. phase_in 0 is not built: all links
 * become NaN. */
void qudaUnitarizeSU3Phased(int precision, double tol, QudaMILCSiteArg_t *arg, int phase_in);

#ifdef __cplusplus
}
#endif

#ifdef _GENERIC_KS_H
/* A MILC whose get_fm_links takes an index (2025 and later) multiplies num_iters by num_src. A MILC whose get_fm_links
 * returns all sets of links does not. */
#ifndef __cplusplus
#define qudaInvertMsrc                                                                                                 \
    _Generic(&get_fm_links, imp_ferm_links_t * *(*)(fermion_links_t *)                                                 \
             : qudaInvertMsrc, default                                                                                 \
             : milcgpu_quda_invert_sources)
#endif

/* In MILC's routines that call these functions, fn has the links. */
#define MILCGPU_QUDA_TWIST                                                                                             \
    milcgpu_quda_twist(fn->phase->twist_in && (fn->phase->bdry_phase[0] != 0 || fn->phase->bdry_phase[1] != 0 ||       \
                                               fn->phase->bdry_phase[2] != 0))
#define qudaInvertDeflatable(...) (MILCGPU_QUDA_TWIST, qudaInvertDeflatable(__VA_ARGS__))
#define qudaInvertMsrcDeflatable(...) (MILCGPU_QUDA_TWIST, qudaInvertMsrcDeflatable(__VA_ARGS__))

/* In MILC's routine that calls it, r0 is the origin. */
#define qudaSpinTaste(external_precision, quda_precision, links, src, dest, spin, taste, reload_links)                 \
    (milcgpu_quda_origin(r0),                                                                                          \
     qudaSpinTaste(external_precision, quda_precision, links, src, dest, spin, taste, reload_links))
#endif

/* If MILC has MPI, it lends its message passing in the one call that passes its communicator: *(MPI_Comm
 * *)communicator, the communicator of the job. */
#ifdef MILCGPU_HAS_MPI
static inline void milcgpu_quda_lend_mpi(void *communicator, const int whole[4], size_t sites,
                                         void (*place)(int x[4], int rank, size_t i),
                                         int (*node_number)(int x, int y, int z, int t)) {
    /* This rank's number on its host, among all jobs; the launchers know it. Slurm's variable comes last, because it is
     * 0 for everything that another launcher starts from a batch script. */
    static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PALS_LOCAL_RANKID",
                                        "SLURM_LOCALID"};
    static MPI_Comm own[MILCGPU_QUDA_TABLES];
    milcgpu_messages tables[MILCGPU_QUDA_TABLES];
    milcgpu_milc_box box;
    int node_rank, node_size, rank, k;
    if (communicator == NULL) /* QMP without MPI */
        return;
    milcgpu_mpi_node(*(MPI_Comm *)communicator, &node_rank, &node_size);
    for (k = 3; k >= 0; k--)
        if (getenv(names[k]) != NULL)
            node_rank = atoi(getenv(names[k]));
    node_size = node_size > node_rank ? node_size : node_rank + 1;
    for (k = 0; k < MILCGPU_QUDA_TABLES; k++) {
        if (!milcgpu_mpi_own(*(MPI_Comm *)communicator, &own[k])) {
            fprintf(stderr, "milcgpu: MPI_Comm_dup failed: milcgpu cannot pass messages\n");
            return;
        }
        tables[k] = milcgpu_mpi_messages(&own[k], node_rank, node_size);
    }
    MPI_Comm_rank(own[0], &rank);
    if (milcgpu_find_box(whole, rank, sites, place, node_number, &box))
        milcgpu_quda_lend(tables, &box);
    else
        fprintf(stderr, "milcgpu: rank %d: its sites are no box of the lattice: choose another cut (-geom)\n", rank);
}
/* The macros use MILC's names at the place of the call. */
#define qudaSetMPICommHandle(communicator)                                                                             \
    do {                                                                                                               \
        const int milcgpu_whole[4] = {nx, ny, nz, nt};                                                                 \
        milcgpu_quda_lend_mpi((communicator), milcgpu_whole, sites_on_node, get_coords, node_number);                  \
    } while (0)
#endif
#endif
