/* select.sh compiles this to test whether MILC's headers declare the wrapped routines as routines.def does, for those
 * that they declare; with MILCGPU_DECLARED, whether they declare them at all. It also includes headers that the glue
 * does not need, because they declare some of the routines. */
#include "glue.h"

#ifdef MILCGPU_SERVES
#include "../include/imp_ferm_links.h"
#include "../include/umethod.h"
#ifdef __has_include
#if __has_include("ks_imp_includes.h") /* ks_imp_rhmc, ks_imp_dyn: update, d_action_rhmc */
#include "ks_imp_includes.h"
#endif
#if __has_include("../include/io_ks_eigen.h")
#include "../include/io_ks_eigen.h"
#endif
#if __has_include("../include/generic_clover.h")
#include "../include/generic_clover.h"
#endif
#if __has_include("../include/generic_wilson.h")
#include "../include/generic_wilson.h"
#endif
#endif
#endif
#ifdef MILCGPU_GLUE_propagators
#include <ks_spectrum_includes.h>
#endif
#ifdef MILCGPU_GLUE_gb_baryons
#include "../include/gb_ops.h"
#endif
#ifdef MILCGPU_GLUE_pure_gauge
#include "../include/generic_pg.h"
#endif
#ifdef MILCGPU_GLUE_hyp
#include "../include/hyp_coeff.h"
#endif

#ifdef MILCGPU_DECLARED
#define MILCGPU_WRAPPED(result, routine, arguments) typedef __typeof__(routine) milcgpu_type_of_##routine;
#define MILCGPU_OF_PROGRAM(result, routine, arguments)
#include "routines.def"
#else
#include "routines.h"
#endif
