/* Gauge force, update of the links, reunitarization, gauge action, plaquette. */
#include "md.h"

#include "routines.h"

/* The gauge action: plaquette, rectangle and bent loop, in this order, or the first of them; by lengths and numbers. */
static int known_action(milcgpu_loops *loops) {
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
    loops->phases_out = 0;
    return 1;
}
#define UNKNOWN_ORDER "MILC's own: this program's order of the exponential is not known"
#define OTHER_LOOPS "MILC's own: this gauge action has other loops, or powers of them"

/* A program may have no loops; MILC may not have made its table of them yet: their lengths are 0 then. */
static const char *own_action(void) {
    milcgpu_loops loops;
    if (get_nloop == NULL || milcgpu_there(get_nloop)() == 0 || milcgpu_there(get_loop_length)()[0] == 0)
        return NULL;
    return known_action(&loops) ? NULL : OTHER_LOOPS;
}

void milcgpu_updates_left(const char **left) {
    const int has_gauge = milcgpu_has(imp_gauge_force_ks) || milcgpu_has(imp_gauge_force);
    left[MILCGPU_UPDATE_U] = !milcgpu_has(update_u)             ? MILCGPU_ABSENT
                             : milcgpu_exponential_order() == 0 ? UNKNOWN_ORDER
                                                                : NULL;
    left[MILCGPU_GAUGE_FORCE_KS] = !has_gauge ? MILCGPU_ABSENT : own_action();
    left[MILCGPU_REUNITARIZE] = !milcgpu_has(reunitarize_ks) ? MILCGPU_ABSENT : NULL;
    left[MILCGPU_GAUGE_ACTION] = !milcgpu_has(imp_gauge_action) ? MILCGPU_ABSENT : own_action();
    left[MILCGPU_PLAQUETTE] = !milcgpu_has(d_plaquette) ? MILCGPU_ABSENT : NULL;
}

#ifdef ANISOTROPY
#define COUPLING 0.0 /* not used: two couplings */
#else
#define COUPLING beta
#endif

/* MILC of 2025 does not free asqtad links that it marks as to be kept, though nobody can reach them any more. */
static void invalidate_links(fermion_links_t *fl) {
#if MILCGPU_MILC >= 3 && FERM_ACTION != HISQ
    imp_ferm_links_t *fn = get_fm_links(fl, 0);
    if (fn != NULL)
        fn->preserve = 0;
#endif
    invalidate_fermion_links(fl);
}

void __wrap_update_u(Real eps) {
    const int order = milcgpu_exponential_order();
    const milcgpu_plugin_lattice sites = milcgpu_in_sites();
    double seconds = -milcgpu_plugin_seconds();
    invalidate_links(fn_links);
    milcgpu_need(MILCGPU_FERMION_LINKS, "update_u"); /* of others */
    if (milcgpu_md_takes(MILCGPU_UPDATE_U, order != 0, UNKNOWN_ORDER, "update_u") &&
        milcgpu_plugin_update_links(&sites, eps, order)) {
        seconds += milcgpu_plugin_seconds();
#ifdef GFTIME
        if (order == 8)
            node0_printf("LINK_UPDATE: time = %e  mflops = %e\n", seconds,
                         5616.0 * volume / (1.0e6 * seconds * numnodes()));
#endif
        if (milcgpu_finish(MILCGPU_LINKS, "update_u")) {
            const double cpu_seconds = milcgpu_begin_compare(MILCGPU_UPDATE_U);
            milcgpu_original(update_u)(eps);
            milcgpu_end_compare(MILCGPU_UPDATE_U, MILCGPU_LINKS, NULL, seconds, cpu_seconds);
        }
        return;
    }
    milcgpu_begin_own(MILCGPU_UPDATE_U, MILCGPU_BOTH, "update_u");
    milcgpu_original(update_u)(eps);
    milcgpu_end_own(MILCGPU_UPDATE_U, MILCGPU_LINKS);
}

typedef void (*gauge_force)(Real, field_offset);

static void gauge_force_by(gauge_force original, Real eps, field_offset mom_off) {
    const milcgpu_plugin_lattice sites = milcgpu_in_sites();
    milcgpu_loops loops;
    double seconds = -milcgpu_plugin_seconds();
    if (milcgpu_md_takes(MILCGPU_GAUGE_FORCE_KS, known_action(&loops) && mom_off == F_OFFSET(mom), OTHER_LOOPS,
                         "imp_gauge_force")) {
        const int were_out = milcgpu_put_phases_in();
        const int done = milcgpu_plugin_gauge_force(&sites, &loops, COUPLING, eps);
        milcgpu_put_phases_back(were_out);
        if (done) {
            seconds += milcgpu_plugin_seconds();
#ifdef GFTIME
            node0_printf("GFTIME:   time = %e (Symanzik1) mflops = %e\n", seconds,
                         153004.0 * volume / (1e6 * seconds * numnodes()));
#endif
            if (milcgpu_finish(MILCGPU_MOMENTA, "imp_gauge_force")) {
                const double cpu_seconds = milcgpu_begin_compare(MILCGPU_GAUGE_FORCE_KS);
                original(eps, mom_off);
                milcgpu_end_compare(MILCGPU_GAUGE_FORCE_KS, MILCGPU_MOMENTA, NULL, seconds, cpu_seconds);
            }
            return;
        }
    }
    milcgpu_begin_own(MILCGPU_GAUGE_FORCE_KS, MILCGPU_BOTH, "imp_gauge_force");
    original(eps, mom_off);
    milcgpu_end_own(MILCGPU_GAUGE_FORCE_KS, MILCGPU_MOMENTA);
}

void __wrap_imp_gauge_force_ks(Real eps, field_offset mom_off) {
    gauge_force_by(milcgpu_original(imp_gauge_force_ks), eps, mom_off);
}
void __wrap_imp_gauge_force(Real eps, field_offset mom_off) {
    gauge_force_by(milcgpu_original(imp_gauge_force), eps, mom_off);
}

/* MILC's words for links that are no SU(3) matrices are MILC's to say. */
void __wrap_reunitarize_ks(void) {
    const milcgpu_plugin_lattice sites = milcgpu_in_sites();
    milcgpu_reunitarize_report report;
    double seconds = -milcgpu_plugin_seconds();
    milcgpu_need(MILCGPU_FERMION_LINKS, "reunitarize_ks");
    if (milcgpu_md_takes(MILCGPU_REUNITARIZE, 1, NULL, "reunitarize_ks") &&
        milcgpu_plugin_reunitarize(&sites, 0, &report) && !milcgpu_plugin_agreed(report.failed != 0)) {
        seconds += milcgpu_plugin_seconds();
        if (milcgpu_finish(MILCGPU_LINKS, "reunitarize_ks")) {
            const double cpu_seconds = milcgpu_begin_compare(MILCGPU_REUNITARIZE);
            milcgpu_original(reunitarize_ks)();
            milcgpu_end_compare(MILCGPU_REUNITARIZE, MILCGPU_LINKS, NULL, seconds, cpu_seconds);
        }
        return;
    }
    milcgpu_begin_own(MILCGPU_REUNITARIZE, MILCGPU_LINKS, "reunitarize_ks");
    milcgpu_original(reunitarize_ks)();
    milcgpu_end_own(MILCGPU_REUNITARIZE, MILCGPU_LINKS);
}

double __wrap_imp_gauge_action(void) {
    const milcgpu_plugin_lattice sites = milcgpu_in_sites();
    milcgpu_loops loops;
    double action = 0, seconds = -milcgpu_plugin_seconds();
    if (milcgpu_md_takes(MILCGPU_GAUGE_ACTION, known_action(&loops), OTHER_LOOPS, "imp_gauge_action")) {
        const int were_out = milcgpu_put_phases_in();
        const int done = milcgpu_plugin_gauge_action(&sites, &loops, &action);
        milcgpu_put_phases_back(were_out);
        if (done) {
            seconds += milcgpu_plugin_seconds();
            if (milcgpu_plugin_compare()) {
                double cpu_seconds = milcgpu_begin_compare(MILCGPU_GAUGE_ACTION);
                const double cpu = milcgpu_original(imp_gauge_action)();
                cpu_seconds = milcgpu_end_original(MILCGPU_GAUGE_ACTION, cpu_seconds);
                milcgpu_judge(milcgpu_plugin_compare_number(MILCGPU_GAUGE_ACTION, action, cpu, seconds, cpu_seconds));
            }
            return action;
        }
    }
    milcgpu_begin_own(MILCGPU_GAUGE_ACTION, MILCGPU_LINKS, "imp_gauge_action");
    action = milcgpu_original(imp_gauge_action)();
    milcgpu_end_own(MILCGPU_GAUGE_ACTION, 0);
    return action;
}

/* On the device where the newest links are there: otherwise MILC's own costs less than the copy. Its links have phases
 * or not, as phases_in says. */
void __wrap_d_plaquette(double *space, double *time) {
    const milcgpu_plugin_lattice sites = milcgpu_in_sites();
    if (milcgpu_plugin_newer_on_device(MILCGPU_LINKS) && milcgpu_md_takes(MILCGPU_PLAQUETTE, 1, NULL, "d_plaquette") &&
        milcgpu_plugin_plaquettes(&sites, space, time)) {
        if (phases_in == OFF) {
            *space = -*space;
            *time = -*time;
        }
        return;
    }
    milcgpu_need(MILCGPU_LINKS, "d_plaquette");
    milcgpu_original(d_plaquette)(space, time);
}
