/* Whether a program has what milcgpu takes over: staggered solves with fat and long links, of MILC's own CPU routines.
 * It is asked twice: by the make fragment, through the preprocessor, before it compiles and links anything, and by
 * glue.h. A program without quark_action.h has no staggered fermions; one of another action (EO_TYPE) has other links.
 */
#ifndef MILCGPU_SERVES_H
#define MILCGPU_SERVES_H

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
typedef int milcgpu_serves; /* the fragment looks for this name */
#define MILCGPU_SERVES 1
#endif
#endif

#endif
