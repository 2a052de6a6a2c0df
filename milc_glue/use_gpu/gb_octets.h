/* Octets of quarks that MILC has cached (create_qk_oct_cache). */
#ifndef MILCGPU_GB_OCTETS_H
#define MILCGPU_GB_OCTETS_H

#include "glue.h"

#include "../include/gb_ops.h"
#include "../include/imp_ferm_links.h"
#include <ks_spectrum_includes.h>

#include "routines.h"

#ifdef GB_BARYON_MMAP
enum { MILCGPU_READS_CACHE = 1 }; /* gb_baryon reads quarks as they were at create_qk_oct_cache */
#else
enum { MILCGPU_READS_CACHE = 0 };
#endif

enum { MILCGPU_CORNERS = 8, MILCGPU_SLOTS = 3 };

/* An octet. The library finds the quarks that it holds by the address of this struct. */
typedef struct {
    mmap_cache *cache;                       /* what MILC's slots point to */
    int is_stand_in;                         /* 0: it is a cache of MILC's */
    su3_vector *fields[MILCGPU_CORNERS][3];  /* of the quarks; NULL: absent */
    su3_vector *changed[MILCGPU_CORNERS][3]; /* what replaces fields that MILC has changed since; to be freed */
    int r0[4];
    su3_matrix *links;
} milcgpu_octet;

static inline const char *milcgpu_links_at_sinks(void) { return MILCGPU_LINKS_AT_SINKS; }

int milcgpu_has_served(void); /* 1: this run has been offloaded at some time; 0: it is as without milcgpu */
/* NULL: the slot has a cache of MILC's, which milcgpu does not know. */
const milcgpu_octet *milcgpu_octet_of(int slot);
/* Makes MILC's caches in place of stand-ins, for MILC's own routine. */
void milcgpu_make_caches(void);
/* A quark of NaN, which MILC's own routines read in place of a quark that is absent or lost. */
ks_prop_field *milcgpu_not_a_number(void);

#endif
