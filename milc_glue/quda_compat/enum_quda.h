/* Constants of the interface in quda_milc_interface.h, with the names that MILC uses. */
#ifndef MILCGPU_ENUM_QUDA_H
#define MILCGPU_ENUM_QUDA_H

typedef enum { QUDA_EVEN_PARITY = 0, QUDA_ODD_PARITY = 1 } QudaParity;
typedef enum { QUDA_SILENT = 0, QUDA_SUMMARIZE = 1, QUDA_VERBOSE = 2, QUDA_DEBUG_VERBOSE = 3 } QudaVerbosity;
typedef enum { QUDA_CG_INVERTER = 0, QUDA_BICGSTAB_INVERTER = 1, QUDA_INVALID_INVERTER = -1 } QudaInverterType;
typedef enum { QUDA_BOOLEAN_FALSE = 0, QUDA_BOOLEAN_TRUE = 1 } QudaBoolean;

/* Bytes of a real. */
typedef enum {
    QUDA_HALF_PRECISION = 2,
    QUDA_SINGLE_PRECISION = 4,
    QUDA_DOUBLE_PRECISION = 8,
    QUDA_INVALID_PRECISION = -1
} QudaPrecision;

/* Of the eigensolver. The spectrum always starts from the lowest real eigenvalue. */
typedef enum { QUDA_EIG_TR_LANCZOS = 0, QUDA_EIG_BLK_TR_LANCZOS = 1 } QudaEigType;
typedef enum { QUDA_SPECTRUM_SR_EIG = 3 } QudaEigSpectrumType;

/* Of the gradient flow. */
typedef enum { QUDA_GAUGE_SMEAR_WILSON_FLOW = 3, QUDA_GAUGE_SMEAR_SYMANZIK_FLOW = 4 } QudaGaugeSmearType;

/* Values of members in quda.h that the library does not read. */
enum {
    QUDA_STAGGERED_DSLASH,
    QUDA_ASQTAD_DSLASH,
    QUDA_LAPLACE_DSLASH,
    QUDA_MAT_SOLUTION,
    QUDA_MATPC_SOLUTION,
    QUDA_DIRECT_SOLVE,
    QUDA_NORMOP_PC_SOLVE,
    QUDA_MATPC_EVEN_EVEN,
    QUDA_MATPC_ODD_ODD,
    QUDA_DAG_NO,
    QUDA_MASS_NORMALIZATION,
    QUDA_PRESERVE_SOURCE_YES,
    QUDA_DEGRAND_ROSSI_GAMMA_BASIS,
    QUDA_DIRAC_ORDER,
    QUDA_CPU_FIELD_LOCATION,
    QUDA_L2_RELATIVE_RESIDUAL,
    QUDA_POWER_BASIS,
    QUDA_SU3_LINKS,
    QUDA_ASQTAD_FAT_LINKS,
    QUDA_ASQTAD_LONG_LINKS,
    QUDA_RECONSTRUCT_NO,
    QUDA_MILC_GAUGE_ORDER,
    QUDA_PERIODIC_T,
    QUDA_GAUGE_FIXED_NO,
    QUDA_STAGGERED_PHASE_NO,
    QUDA_STAGGERED_PHASE_MILC
};

#endif
