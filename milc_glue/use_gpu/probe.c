/* Compiles in programs that have what a file of the glue reads besides MILC's routines. select.sh compiles it for each
 * file with MILCGPU_PROBE_<file>. With MILCGPU_FEATURE, the probe needs only what a program may lack. If a program
 * compiles that but not the rest, milcgpu does not know this MILC. check.c tests the prototypes. */
#include "glue.h"

#ifdef MILCGPU_PROBE_lattice_file
#ifdef MILCGPU_FEATURE
long milcgpu_probe(void) { return sizeof(gauge_file) + SAVE_CHECKPOINT; }
#else
long milcgpu_probe(void) {
    const gauge_file *const gf = NULL;
    return GAUGE_VERSION_NUMBER + sizeof gf->header->time_stamp + sizeof gf->header->dims + sizeof gf->check.sum29 +
           sizeof gf->byterevflag + sizeof gf->parallel + sizeof lattice[0].link;
}
#endif
#elif defined(MILCGPU_SERVES)

#include "../include/imp_ferm_links.h"
#endif

#ifdef MILCGPU_PROBE_reload
#ifdef MILCGPU_FEATURE
#error "MILC's own loops do it as well"
#endif
long milcgpu_probe(void) {
    return sizeof lattice[0].link + (lattice[0].phase[TUP] < 0) + phases_in + (gen_pt[0] != NULL);
}
#endif

#ifdef MILCGPU_PROBE_gauge_fix
long milcgpu_probe(void) { return sizeof lattice[0].link; }
#endif

#ifdef MILCGPU_PROBE_flow_steps
long milcgpu_probe(void) { return sizeof lattice[0].link + exp_order + (stepsize > 0) + (stapleflag == WILSON); }
#endif

#ifdef MILCGPU_PROBE_pure_gauge
#if defined(ANISOTROPY) || defined(SCHROED_FUN) || defined(N_SUBL32)
#error "MILC's own"
#endif
#include "../include/generic_pg.h"
long milcgpu_probe(void) { return sizeof lattice[0].mom + (beta != 0) + F_OFFSET(link[0]); }
#endif

#ifdef MILCGPU_PROBE_md
#ifdef MILCGPU_FEATURE
long milcgpu_probe(void) { return sizeof lattice[0].mom + (beta != 0) + phases_in; }
#else
long milcgpu_probe(void) {
    long sum = sizeof lattice[0].mom + sizeof lattice[0].link + (lattice[0].phase[TUP] < 0) + phases_in +
               (gen_pt[0] != NULL) + (fn_links != NULL);
#ifndef ANISOTROPY
    sum += beta != 0;
#endif
#if FERM_ACTION == HISQ
    sum += n_orders_naik[0] + n_order_naik_total + hisq_svd_counter + hisq_force_filter_counter;
#endif
    return sum;
}
#endif
#endif

#ifdef MILCGPU_PROBE_grsource
#ifdef MILCGPU_FEATURE
#error "MILC's own draws the same numbers"
#endif
#ifdef __has_include
#if __has_include("ks_imp_includes.h")
#include "ks_imp_includes.h"
#endif
#endif
long milcgpu_probe(void) {
    const params_ratfunc *const rf = NULL;
    return (rf->order > 0) + (rf->res != rf->pole) + sizeof lattice[0].g_rand + sizeof lattice[0].mom;
}
#endif

#ifdef MILCGPU_PROBE_mesons
#ifdef MILCGPU_FEATURE
long milcgpu_probe(void) { return ape_links_ks_phases; }
#else
long milcgpu_probe(void) { return ape_links != NULL; }
#endif
#endif

#ifdef MILCGPU_PROBE_invert
#ifdef MILCGPU_FEATURE
long milcgpu_probe(void) { return sizeof param.eigen_param; }
#else
long milcgpu_probe(void) {
    return param.eigen_param.Nvecs + param.eigen_param.Nvecs_in + (eigVec != NULL) + (fn_links != NULL);
}
#endif
#endif

#ifdef MILCGPU_PROBE_propagators
#include <ks_spectrum_includes.h>
#ifdef MILCGPU_FEATURE
long milcgpu_probe(void) { return sizeof param.eigen_param + sizeof(enum set_type); } /* master has no sets */
#else
long milcgpu_probe(void) {
    const enum set_type sets[] = {MULTIMASS_SET, MULTISOURCE_SET, MULTICOLORSOURCE_SET, SINGLES_SET};
    return sizeof sets + param.eigen_param.Nvecs;
}
#endif
#endif

#ifdef MILCGPU_PROBE_gb_baryons
#ifndef GB_BARYON
#error "there are none"
#endif
#include "../include/gb_ops.h"
#include <ks_spectrum_includes.h>
#ifdef MILCGPU_FEATURE
long milcgpu_probe(void) { return MAX_GB_BARYON; }
#else
long milcgpu_probe(void) {
    return MAX_GB_BARYON + GB_2POINT_BACKPROP + sizeof(mmap_cache) + GBSYM_ANTISYM + param.num_gb_triplet +
           param.num_corr_b[0] + param.num_corr_gb[0];
}
#endif
#endif
