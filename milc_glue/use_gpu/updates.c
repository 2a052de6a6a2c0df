/* Gauge force, update of the links, reunitarization, gauge action, plaquette. */
#include "sites.h"
#include <math.h>

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

/* The action of a site of a random field, about. Rounding is judged relative to the action plus this, because the
 * action may vanish. */
#define ACTION_OF_SITE 16.

/* MILC's own does not mind whether phases are in: its sum is then another one. The device's links have them in, so
 * the host's need not change where theirs are. */
static double gauge_action(int of_phases_in) {
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
                if (of_phases_in)
                    rephase(OFF);
                cpu = milcgpu_original(imp_gauge_action)();
                if (of_phases_in)
                    rephase(ON);
                cpu_seconds = milcgpu_leave_old_sites(MILCGPU_GAUGE_ACTION);
                milcgpu_judge(milcgpu_plugin_compare_number(MILCGPU_GAUGE_ACTION, action + ACTION_OF_SITE * volume,
                                                            cpu + ACTION_OF_SITE * volume, seconds, cpu_seconds));
            }
            return action;
        }
    }
    if (of_phases_in)
        rephase(OFF);
    milcgpu_on_sites(MILCGPU_GAUGE_ACTION, MILCGPU_LINKS, 0, "imp_gauge_action",
                     action = milcgpu_original(imp_gauge_action)());
    if (of_phases_in)
        rephase(ON);
    return action;
}
double __wrap_imp_gauge_action(void) { return gauge_action(0); }
double milcgpu_gauge_action_phases_in(void) { return gauge_action(1); }

/* On the device where the newest links are there, or a trajectory's next routine takes them there: otherwise MILC's own
 * costs less than the copy. Its links have phases or not, as phases_in says. */
void __wrap_d_plaquette(double *space, double *time) {
    const milcgpu_plugin_lattice sites = milcgpu_in_sites();
    if ((milcgpu_plugin_newer_on_device(MILCGPU_LINKS) || (milcgpu_in_trajectory && phases_in == ON)) &&
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

/* ---- measurements of the gauge field ------------------------------------------------------------------------------
 */

typedef struct {
    int n, *lengths, *steps; /* of the loops of the action */
    double plaquettes[2], polyakov[2], *traces;
} measurement;

static int gauge_measurement(const milcgpu_plugin_lattice *sites, measurement *m) {
    const int kinds = milcgpu_there(get_nloop)(), *const lengths = milcgpu_there(get_loop_length)(),
              *const numbers = milcgpu_there(get_loop_num)();
    int ***const table = milcgpu_there(get_loop_table)();
    int kind, loop, k, steps = 0, were_out, done;
    m->n = 0;
    for (kind = 0; kind < kinds; kind++) {
        m->n += numbers[kind];
        steps += numbers[kind] * lengths[kind];
    }
    m->traces = (double *)milcgpu_room(2 * m->n * sizeof(double) + (m->n + steps) * sizeof(int), "loops");
    m->lengths = (int *)(m->traces + 2 * m->n);
    m->steps = m->lengths + m->n;
    m->n = steps = 0;
    for (kind = 0; kind < kinds; kind++)
        for (loop = 0; loop < numbers[kind]; loop++) {
            m->lengths[m->n++] = lengths[kind];
            for (k = 0; k < lengths[kind]; k++)
                m->steps[steps++] = table[kind][loop][k];
        }
    were_out = milcgpu_put_phases_in();
    done = milcgpu_plugin_gauge_measure(sites, 1, m->n, m->lengths, m->steps, m->plaquettes, m->polyakov, m->traces);
    milcgpu_put_phases_back(were_out);
    return done;
}

/* MILC's lines; returns the action. */
static double print_measurement(const measurement *m) {
    const char *const average = MILC_PRECISION == 1 ? "\t%e" : "\t%.16e";
    const int kinds = milcgpu_there(get_nloop)();
    int kind, loop, k, n = 0, step = 0;
    double action = 0;
    node0_printf(MILC_PRECISION == 1 ? "PLAQ:\t%f\t%f\n" : "PLAQ:\t%.16f\t%.16f\n", m->plaquettes[0], m->plaquettes[1]);
    node0_printf("P_LOOP:\t%e\t%e\n", (Real)m->polyakov[0], (Real)m->polyakov[1]);
    for (kind = 0; kind < kinds; kind++)
        for (loop = 0; loop < milcgpu_there(get_loop_num)()[kind]; loop++, n++) {
            action += milcgpu_there(get_loop_coeff)()[kind][0] * (3 - m->traces[2 * n]);
            node0_printf("G_LOOP:  %d  %d  %d   ", kind, loop, m->lengths[n]);
            node0_printf(average, m->traces[2 * n]);
            node0_printf("\t( ");
            for (k = 0; k < m->lengths[n]; k++)
                node0_printf("%d ", m->steps[step++]);
            node0_printf(" )\n");
        }
    node0_printf("GACTION: %e\n", action);
    if (this_node == 0)
        fflush(stdout);
    return action;
}

/* The number that differs most. Of the loops their weighted sum, which is MILC's action. All may vanish, so what a
 * trace can be, or the action of a site, is added. */
static void compare_measurement(const measurement *m, double action, double seconds) {
    double ours[5] = {ACTION_OF_SITE + action, 3 + m->plaquettes[0], 3 + m->plaquettes[1], 3 + m->polyakov[0],
                      3 + m->polyakov[1]};
    double theirs[5], cpu_seconds;
    complex loop = {m->polyakov[0], m->polyakov[1]};
    int k, worst = 0;
    milcgpu_enter_old_sites(MILCGPU_GAUGE_MEASURE);
    milcgpu_original(d_plaquette)(&theirs[1], &theirs[2]);
    theirs[0] =
        ACTION_OF_SITE + (milcgpu_has(imp_gauge_action) ? milcgpu_original(imp_gauge_action)() / volume : action);
    theirs[1] += 3;
    theirs[2] += 3;
    if (ploop != NULL)
        loop = milcgpu_there(ploop)();
    cpu_seconds = milcgpu_leave_old_sites(MILCGPU_GAUGE_MEASURE);
    theirs[3] = 3 + loop.real;
    theirs[4] = 3 + loop.imag;
    for (k = 1; k < 5; k++)
        if (!(fabs(ours[k] / theirs[k] - 1) <= fabs(ours[worst] / theirs[worst] - 1)))
            worst = k;
    milcgpu_judge(
        milcgpu_plugin_compare_number(MILCGPU_GAUGE_MEASURE, ours[worst], theirs[worst], seconds, cpu_seconds));
}

/* MILC calls it with phases out. */
void __wrap_g_measure(void) {
    const milcgpu_plugin_lattice sites = milcgpu_in_sites();
    double seconds = -milcgpu_plugin_seconds(), action;
    measurement m = {0};
    if (phases_in == OFF &&
        milcgpu_offloads_sites(MILCGPU_GAUGE_MEASURE, milcgpu_measures_gauge(), MILCGPU_OTHER_MEASUREMENT,
                               "g_measure") &&
        gauge_measurement(&sites, &m)) {
        seconds += milcgpu_plugin_seconds();
        action = print_measurement(&m);
        if (milcgpu_plugin_compare())
            compare_measurement(&m, action, seconds);
        free(m.traces);
        return;
    }
    free(m.traces);
    milcgpu_on_sites(MILCGPU_GAUGE_MEASURE, MILCGPU_LINKS, 0, "g_measure", milcgpu_original(g_measure)());
}

#if MILCGPU_MILC >= 2
void __wrap_g_measure_ks(void) {
    milcgpu_only_offloaded_read++;
    milcgpu_original(g_measure_ks)();
    milcgpu_only_offloaded_read--;
}
#endif
