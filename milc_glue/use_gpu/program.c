/* What this program of MILC's has, why some of its routines are not offloaded, and its actions in the library's terms.
 */
#include "random.h"
#include <string.h>
#ifdef MILCGPU_SERVES
#include "../include/umethod.h"
#endif

/* This file needs only to know which of MILC's routines exist. select.sh gives it the sections of all files of the
 * program. */
#define MILCGPU_WRAPPED(result, routine, arguments) void __real_##routine(void) __attribute__((weak));
#define MILCGPU_CALLED(result, routine, arguments) result routine arguments __attribute__((weak));
#include "routines.def"

const char *milcgpu_why_own_numbers(void) {
#ifdef MILCGPU_DRAWS
    return NULL;
#else
    return "MILC's own: sites of this program do not have generators of their own";
#endif
}

const char *milcgpu_why_own_sweeps(void) { return numnodes() > 1 ? "MILC's own on several ranks" : NULL; }

#ifdef MILCGPU_SERVES
/* ---- fermion links ----------------------------------------------------------------------------------------------- */

milcgpu_paths milcgpu_paths_of(const ks_component_paths *p) {
    const asqtad_coeffs_t *c = &p->act_path_coeff;
    milcgpu_paths paths = {c->one_link, c->naik, c->three_staple, c->five_staple, c->seven_staple, c->lepage};
    return paths;
}

milcgpu_fatlink_spec milcgpu_spec_of(const ks_component_paths *p) {
    milcgpu_fatlink_spec spec;
    memset(&spec, 0, sizeof spec);
    spec.struct_size = sizeof spec;
    spec.unitarity = -1; /* MILC smears the given links without a check, and so does the device */
    spec.paths = milcgpu_paths_of(p);
    return spec;
}

/* Actions that are given by general paths, without these coefficients, are done by MILC's own routines. */
int milcgpu_has_coefficients(const ks_component_paths *p) {
#ifdef ASQ_OPTIMIZED_FATTENING
    const asqtad_coeffs_t *c = &p->act_path_coeff;
    return c->one_link != 0 || c->naik != 0 || c->three_staple != 0;
#else
    (void)p;
    return 0;
#endif
}

int milcgpu_spec_of_asqtad(const ks_component_paths *p, milcgpu_fatlink_spec *spec) {
    *spec = milcgpu_spec_of(p);
    return milcgpu_has_coefficients(p);
}

static const char *own_links(void) {
#ifdef ASQ_OPTIMIZED_FATTENING
    return NULL;
#else
    return MILCGPU_NO_COEFFICIENTS;
#endif
}

/* MILC's methods for (V V^dag)^(-1/2) V, and the groups, that the device has. */
static const char *own_hisq_links(int umethod, int ugroup) {
    if (umethod != UNITARIZE_ANALYTIC && umethod != UNITARIZE_ROOT && umethod != UNITARIZE_RATIONAL)
        return "MILC's own: this UNITARIZATION_METHOD of links is not built";
    return ugroup == UNITARIZE_U3 || ugroup == UNITARIZE_SU3 ? NULL
                                                             : "MILC's own: this UNITARIZATION_GROUP is not built";
}
const char *milcgpu_own_hisq_force(int umethod, int ugroup) {
    if (umethod != UNITARIZE_ANALYTIC)
        return "MILC's own: only the force of UNITARIZE_ANALYTIC is built (UNITARIZATION_METHOD)";
    return ugroup == UNITARIZE_U3 ? NULL : "MILC's own: only the force of U(3) is built (UNITARIZATION_GROUP)";
}

static const char *own_hisq(void) {
#if FERM_ACTION == HISQ
    if (own_links() == NULL)
        return own_hisq_links(UNITARIZATION_METHOD, UNITARIZATION_GROUP);
#endif
    return own_links();
}

/* NULL: the device makes the links. */
const char *milcgpu_why_own_hisq(const ks_action_paths_hisq *ap) {
    return milcgpu_has_coefficients(&ap->p1) && milcgpu_has_coefficients(&ap->p2)
               ? own_hisq_links(ap->umethod, ap->ugroup)
               : MILCGPU_NO_COEFFICIENTS;
}

milcgpu_fatlink_spec milcgpu_spec_of_hisq_links(const ks_action_paths_hisq *ap) {
    milcgpu_fatlink_spec spec = milcgpu_spec_of(&ap->p2);
    spec.hisq = 1;
    spec.fat7 = milcgpu_paths_of(&ap->p1);
    spec.eps_one_link = ap->p3.act_path_coeff.one_link;
    spec.eps_naik = ap->p3.act_path_coeff.naik;
    spec.special_unitary = ap->ugroup == UNITARIZE_SU3;
#ifdef HISQ_REUNIT_SVD_REL_ERROR
    spec.svd_relative = HISQ_REUNIT_SVD_REL_ERROR;
#endif
#ifdef HISQ_REUNIT_SVD_ABS_ERROR
    spec.svd_absolute = HISQ_REUNIT_SVD_ABS_ERROR;
#endif
    return spec;
}

const char *milcgpu_spec_of_hisq(const ks_action_paths_hisq *ap, milcgpu_fatlink_spec *spec) {
    *spec = milcgpu_spec_of_hisq_links(ap);
    return milcgpu_why_own_hisq(ap);
}

int milcgpu_reads_are_known(void) { return milcgpu_has(get_fatlinks) && milcgpu_has(get_lnglinks); }

/* ---- molecular dynamics ------------------------------------------------------------------------------------------ */

#ifdef MILCGPU_GLUE_md
int milcgpu_exponential_order(void) { return milcgpu_has(d_action_rhmc) ? 8 : milcgpu_has(update_h) ? 6 : 0; }

/* True for ks_imp_rhmc; ks_imp_dyn reads links and solutions itself. */
int milcgpu_keeps_solutions(void) { return milcgpu_has(d_action_rhmc); }

/* Recognizes the gauge action by lengths and numbers of its loops: plaquette, rectangle and bent loop, in this order,
 * or only the first of them. */
int milcgpu_known_action(milcgpu_loops *loops) {
    const int lengths[3] = {4, 6, 6}, numbers[3] = {6, 12, 16};
    double coefficients[3] = {0, 0, 0};
    int k, n;
#ifdef ANISOTROPY
    return 0;
#endif
    n = milcgpu_there(get_nloop)();
    if (milcgpu_there(get_nreps)() != 1 || n > 3)
        return 0;
    for (k = 0; k < n; k++) {
        if (milcgpu_there(get_loop_length)()[k] != lengths[k] || milcgpu_there(get_loop_num)()[k] != numbers[k])
            return 0;
        coefficients[k] = milcgpu_there(get_loop_coeff)()[k][0];
    }
    loops->plaquette = coefficients[0];
    loops->rectangle = coefficients[1];
    loops->bent = coefficients[2];
    loops->signs = MILCGPU_SIGNS_IN;
    return 1;
}

int milcgpu_measures_gauge(void) {
#if defined(ANISOTROPY) || defined(BPCORR) || defined(SCHROED_FUN)
    return 0;
#else
    return get_nloop != NULL && get_loop_table != NULL && milcgpu_there(get_nreps)() == 1;
#endif
}
static const char *own_measurement(void) { return milcgpu_measures_gauge() ? NULL : MILCGPU_OTHER_MEASUREMENT; }

/* A program may have no loops. If MILC has not filled its table of loops yet, their lengths are 0. */
static const char *own_action(void) {
    milcgpu_loops loops;
    if (get_nloop == NULL || milcgpu_there(get_nloop)() == 0 || milcgpu_there(get_loop_length)()[0] == 0)
        return NULL;
    return milcgpu_known_action(&loops) ? NULL : MILCGPU_OTHER_LOOPS;
}

static const char *own_force(void) {
    const char *why = own_links();
#if FERM_ACTION == HISQ
    if (milcgpu_exponential_order() == 6) /* ks_imp_dyn */
        return "MILC's own: the device has no HISQ force of vectors in the sites";
    if (why == NULL)
        why = own_hisq_links(UNITARIZATION_METHOD, UNITARIZATION_GROUP);
    if (why == NULL)
        why = milcgpu_own_hisq_force(UNITARIZATION_METHOD, UNITARIZATION_GROUP);
#endif
    return why;
}
#endif

/* Call it last: it reads the reasons of other rows. */
static const char *own_back_links(const char *const *why) {
    return why[MILCGPU_LOAD_FN_LINKS] != NULL && why[MILCGPU_HISQ_LINKS] != NULL
               ? "MILC's own, because MILC makes the links"
           : numnodes() > 1 ? "MILC's own on several ranks: they come from the neighbours"
                            : NULL;
}
#endif

#ifndef MILCGPU_GLUE_md
int milcgpu_keeps_solutions(void) { return 0; }
#endif

void milcgpu_find_not_offloaded(const char **why) {
    int row;
    for (row = 0; row < MILCGPU_ROUTINES; row++)
        why[row] = MILCGPU_ABSENT;
#define MILCGPU_WHY(row, reason) why[row] = reason;
#define IF_HAS(routine, reason) (milcgpu_has(routine) ? (reason) : MILCGPU_ABSENT)
#include "routines.def"
}
