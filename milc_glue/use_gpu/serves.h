/* Whether a program has something that milcgpu replaces: staggered solves with fat and long links by MILC's own CPU
 * routines; the gradient flow of wilson_flow, whose integrator has a number (GF_INTEGRATOR); HYP smearing of hvy_qpot
 * (HYP_3D_SMEARING). The make fragment runs the preprocessor on this file before it compiles and links anything; glue.h
 * includes it, too. A program without quark_action.h has no staggered fermions; a program with another action (EO_TYPE)
 * has other links. */
#ifndef MILCGPU_SERVES_H
#define MILCGPU_SERVES_H

#ifdef GF_INTEGRATOR
typedef int milcgpu_serves_flow;
#define MILCGPU_SERVES_FLOW 1
#endif

#ifdef HYP_3D_SMEARING
typedef int milcgpu_serves_hyp;
#define MILCGPU_SERVES_HYP 1
#endif

#ifdef FN
#ifdef __has_include
#if __has_include(<quark_action.h>)
#include <quark_action.h>
#endif
#else
#include <quark_action.h>
#endif
#endif

#ifdef FERM_ACTION
#if FERM_ACTION == HISQ || FERM_ACTION == FN_TYPE
typedef int milcgpu_serves; /* the make fragment looks for these names */
#define MILCGPU_SERVES 1
#endif
#endif

#endif
