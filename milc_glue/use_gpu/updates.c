/* Gauge force, update of the links, reunitarization, gauge action, plaquette. */
#include "sites.h"

#include "routines.h"

#ifdef ANISOTROPY
#define COUPLING 0.0 /* not used: two couplings */
#else
#define COUPLING beta
#endif

/* MILC of 2025 does not free asqtad links that it marks as to be kept, though nobody can reach them any more. */
static void invalidate_links(fermion_links_t *fl) {
#if MILCGPU_MILC >= 3 && FERM_ACTION != HISQ
    imp_ferm_links_t *fn = milcgpu_there(get_fm_links)(fl, 0);
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
    if (milcgpu_offloads_sites(MILCGPU_UPDATE_U, order != 0, MILCGPU_UNKNOWN_ORDER, "update_u") &&
        milcgpu_plugin_update_links(&sites, eps, order)) {
        seconds += milcgpu_plugin_seconds();
#ifdef GFTIME
        if (order == 8)
            node0_printf("LINK_UPDATE: time = %e  mflops = %e\n", seconds,
                         5616.0 * volume / (1.0e6 * seconds * numnodes()));
#endif
        milcgpu_finish_sites(MILCGPU_UPDATE_U, MILCGPU_LINKS, "update_u", NULL, seconds,
                             milcgpu_original(update_u)(eps));
        return;
    }
    milcgpu_on_sites(MILCGPU_UPDATE_U, MILCGPU_BOTH, MILCGPU_LINKS, "update_u", milcgpu_original(update_u)(eps));
}

typedef void (*gauge_force)(Real, field_offset);

static void gauge_force_by(gauge_force original, Real eps, field_offset mom_off) {
    const milcgpu_plugin_lattice sites = milcgpu_in_sites();
    milcgpu_loops loops;
    double seconds = -milcgpu_plugin_seconds();
    if (milcgpu_offloads_sites(MILCGPU_GAUGE_FORCE_KS, milcgpu_known_action(&loops) && mom_off == F_OFFSET(mom),
                               MILCGPU_OTHER_LOOPS, "imp_gauge_force")) {
        const int were_out = milcgpu_put_phases_in();
        const int done = milcgpu_plugin_gauge_force(&sites, &loops, COUPLING, eps);
        milcgpu_put_phases_back(were_out);
        if (done) {
            seconds += milcgpu_plugin_seconds();
#ifdef GFTIME
            node0_printf("GFTIME:   time = %e (Symanzik1) mflops = %e\n", seconds,
                         153004.0 * volume / (1e6 * seconds * numnodes()));
#endif
            milcgpu_finish_sites(MILCGPU_GAUGE_FORCE_KS, MILCGPU_MOMENTA, "imp_gauge_force", NULL, seconds,
                                 original(eps, mom_off));
            return;
        }
    }
    milcgpu_on_sites(MILCGPU_GAUGE_FORCE_KS, MILCGPU_BOTH, MILCGPU_MOMENTA, "imp_gauge_force", original(eps, mom_off));
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
    if (milcgpu_offloads_sites(MILCGPU_REUNITARIZE, 1, NULL, "reunitarize_ks") &&
        milcgpu_plugin_reunitarize(&sites, 0, &report) && !milcgpu_plugin_agreed(report.failed != 0)) {
        seconds += milcgpu_plugin_seconds();
        milcgpu_finish_sites(MILCGPU_REUNITARIZE, MILCGPU_LINKS, "reunitarize_ks", NULL, seconds,
                             milcgpu_original(reunitarize_ks)());
        return;
    }
    milcgpu_on_sites(MILCGPU_REUNITARIZE, MILCGPU_LINKS, MILCGPU_LINKS, "reunitarize_ks",
                     milcgpu_original(reunitarize_ks)());
}

double __wrap_imp_gauge_action(void) {
    const milcgpu_plugin_lattice sites = milcgpu_in_sites();
    milcgpu_loops loops;
    double action = 0, seconds = -milcgpu_plugin_seconds();
    if (milcgpu_offloads_sites(MILCGPU_GAUGE_ACTION, milcgpu_known_action(&loops), MILCGPU_OTHER_LOOPS,
                               "imp_gauge_action")) {
        const int were_out = milcgpu_put_phases_in();
        const int done = milcgpu_plugin_gauge_action(&sites, &loops, &action);
        milcgpu_put_phases_back(were_out);
        if (done) {
            seconds += milcgpu_plugin_seconds();
            if (milcgpu_plugin_compare()) {
                double cpu, cpu_seconds;
                milcgpu_enter_old_sites(MILCGPU_GAUGE_ACTION);
                cpu = milcgpu_original(imp_gauge_action)();
                cpu_seconds = milcgpu_leave_old_sites(MILCGPU_GAUGE_ACTION);
                milcgpu_judge(milcgpu_plugin_compare_number(MILCGPU_GAUGE_ACTION, action, cpu, seconds, cpu_seconds));
            }
            return action;
        }
    }
    milcgpu_on_sites(MILCGPU_GAUGE_ACTION, MILCGPU_LINKS, 0, "imp_gauge_action",
                     action = milcgpu_original(imp_gauge_action)());
    return action;
}

/* On the device where the newest links are there: otherwise MILC's own costs less than the copy. Its links have phases
 * or not, as phases_in says. */
void __wrap_d_plaquette(double *space, double *time) {
    const milcgpu_plugin_lattice sites = milcgpu_in_sites();
    if (milcgpu_plugin_newer_on_device(MILCGPU_LINKS) &&
        milcgpu_offloads_sites(MILCGPU_PLAQUETTE, 1, NULL, "d_plaquette") &&
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
