/* Constants of the interface in quda_milc_interface.h, with the names that MILC uses. */
#ifndef MILCGPU_ENUM_QUDA_H
#define MILCGPU_ENUM_QUDA_H

typedef enum { QUDA_EVEN_PARITY = 0, QUDA_ODD_PARITY = 1 } QudaParity;
typedef enum { QUDA_SILENT = 0, QUDA_SUMMARIZE = 1, QUDA_VERBOSE = 2, QUDA_DEBUG_VERBOSE = 3 } QudaVerbosity;
typedef enum { QUDA_BICGSTAB_INVERTER = 1 } QudaInverterType; /* the one that MILC names */

#endif
