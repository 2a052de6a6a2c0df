/* Gauge force, update of the links, reunitarization, gauge action, plaquette. */
#include "reload.h"
#include "sites.h"
#include <math.h>

#include "routines.h"

#ifdef ANISOTROPY
#define COUPLING 0.0 /* unused: there are two couplings */
#else
#define COUPLING beta
#endif

/* MILC of 2025 does not free asqtad links that are marked to be kept, although no code can reach them any more. */
static void invalidate_links(fermion_links_t *fl) {
#if MILCGPU_MILC >= 3 && FERM_ACTION != HISQ
    imp_ferm_links_t *fn = milcgpu_there(get_fm_links)(fl, 0);
    if (fn != NULL)
        fn->preserve = 0;
#endif
    invalidate_fermion_links(fl);
}

/* A call on the sites, whose fields may stay on the device. */
static milcgpu_call call_on_sites(milcgpu_routine row, const char *name, int reads, int writes) {
    const milcgpu_call call = MILCGPU_MEMBERS(.row = row, .name = name, .reads = reads, .writes = writes,
                                              .stay = milcgpu_sites_stay, .compare = milcgpu_compare_gauge);
    return call;
}

static int update_links(const milcgpu_call *call, Real eps, int order) {
    const milcgpu_plugin_lattice sites = milcgpu_in_sites();
    if (!milcgpu_plugin_update_links(&sites, eps, order))
        return 0;
#ifdef GFTIME
    if (order == 8) {
        const double seconds = milcgpu_seconds_so_far(call);
        node0_printf("LINK_UPDATE: time = %e  mflops = %e\n", seconds,
                     5616.0 * volume / (1.0e6 * seconds * numnodes()));
    }
#endif
    (void)call;
    return 1;
}

void __wrap_update_u(Real eps) {
    const int order = milcgpu_exponential_order();
    milcgpu_call call = call_on_sites(MILCGPU_UPDATE_U, "update_u", MILCGPU_BOTH, MILCGPU_LINKS);
    invalidate_links(fn_links);
    call.why_own = order == 0 ? MILCGPU_UNKNOWN_ORDER : NULL;
    milcgpu_offload(&call, update_links(&call, eps, order), milcgpu_original(update_u)(eps));
}

static int gauge_force_by_device(const milcgpu_call *call, const milcgpu_loops *loops, Real eps) {
    const milcgpu_plugin_lattice sites = milcgpu_in_sites();
    const int were_out = milcgpu_put_phases_in();
    const int done = milcgpu_plugin_gauge_force(&sites, loops, COUPLING, eps);
    milcgpu_put_phases_back(were_out);
#ifdef GFTIME
    if (done) {
        const double seconds = milcgpu_seconds_so_far(call);
        node0_printf("GFTIME:   time = %e (Symanzik1) mflops = %e\n", seconds,
                     153004.0 * volume / (1e6 * seconds * numnodes()));
    }
#endif
    (void)call;
    return done;
}

static void gauge_force_by(void (*original)(Real, field_offset), Real eps, field_offset mom_off) {
    milcgpu_loops loops;
    milcgpu_call call = call_on_sites(MILCGPU_GAUGE_FORCE_KS, "imp_gauge_force", MILCGPU_BOTH, MILCGPU_MOMENTA);
    call.why_own = !milcgpu_known_action(&loops) ? MILCGPU_OTHER_LOOPS
                   : mom_off != F_OFFSET(mom)    ? "MILC's own: these momenta are not the momenta of the sites"
                                                 : NULL;
    milcgpu_offload(&call, gauge_force_by_device(&call, &loops, eps), original(eps, mom_off));
}
void __wrap_imp_gauge_force_ks(Real eps, field_offset mom_off) {
    gauge_force_by(milcgpu_original(imp_gauge_force_ks), eps, mom_off);
}
void __wrap_imp_gauge_force(Real eps, field_offset mom_off) {
    gauge_force_by(milcgpu_original(imp_gauge_force), eps, mom_off);
}

/* If a link is not an SU(3) matrix, MILC's routine repeats the call and prints its message. */
static int reunitarize_by_device(void) {
    const milcgpu_plugin_lattice sites = milcgpu_in_sites();
    milcgpu_reunitarize_report report;
    return milcgpu_plugin_reunitarize(&sites, 0, &report) && !milcgpu_plugin_agreed(report.failed != 0);
}
void __wrap_reunitarize_ks(void) {
    milcgpu_call call = call_on_sites(MILCGPU_REUNITARIZE, "reunitarize_ks", MILCGPU_LINKS, MILCGPU_LINKS);
    milcgpu_offload(&call, reunitarize_by_device(), milcgpu_original(reunitarize_ks)());
}

/* Approximate action of a site of a random field. The action may vanish, so rounding is compared with the action plus
 * this. */
#define ACTION_OF_SITE 16.

static int device_action(const milcgpu_loops *loops, double *action) {
    const milcgpu_plugin_lattice sites = milcgpu_in_sites();
    const int were_out = milcgpu_put_phases_in();
    const int done = milcgpu_plugin_gauge_action(&sites, loops, action);
    milcgpu_put_phases_back(were_out);
    return done;
}
/* MILC's sum depends on whether phases are in. */
static double own_action(int of_phases_in) {
    double action;
    if (of_phases_in)
        rephase(OFF);
    action = milcgpu_original(imp_gauge_action)();
    if (of_phases_in)
        rephase(ON);
    return action;
}
static int compare_actions(const milcgpu_call *call) {
    const double *const ours_and_theirs = (const double *)call->details;
    return milcgpu_compare_numbers(call, ours_and_theirs[0] + ACTION_OF_SITE * volume,
                                   ours_and_theirs[1] + ACTION_OF_SITE * volume);
}
/* The links on the device include the phases, so the host's links need not change. */
static double action_by_device(int of_phases_in) {
    milcgpu_loops loops;
    double actions[2] = {0, 0}; /* the device's, MILC's */
    milcgpu_call call = call_on_sites(MILCGPU_GAUGE_ACTION, "imp_gauge_action", MILCGPU_LINKS, 0);
    call.why_own = milcgpu_known_action(&loops) ? NULL : MILCGPU_OTHER_LOOPS;
    call.compare = compare_actions;
    call.details = actions;
    return milcgpu_offload(&call, device_action(&loops, &actions[0]), actions[1] = own_action(of_phases_in))
               ? actions[0]
               : actions[1];
}
double __wrap_imp_gauge_action(void) { return action_by_device(0); }
double milcgpu_gauge_action_phases_in(void) { return action_by_device(1); }

/* Compares the number that differs most. Numbers may vanish, so `size` of each is added: a typical value. */
static int compare_worst(const milcgpu_call *call, int n, const double *sizes, const double *ours,
                         const double *theirs) {
    int k, worst = 0;
#define DIFFERENCE(k) fabs((sizes[k] + ours[k]) / (sizes[k] + theirs[k]) - 1)
    for (k = 0; k < n; k++)
        if (!(DIFFERENCE(k) <= DIFFERENCE(worst)))
            worst = k;
#undef DIFFERENCE
    return milcgpu_compare_numbers(call, sizes[worst] + ours[worst], sizes[worst] + theirs[worst]);
}

/* With phases in, plaquettes of smooth links are near -3. */
static int compare_plaquettes(const milcgpu_call *call) {
    const double size = phases_in == ON ? -3 : 3, sizes[2] = {size, size};
    double ours[2], theirs[2];
    int k;
    for (k = 0; k < 2; k++) {
        ours[k] = *(const double *)call->outputs[k].data;
        theirs[k] = *(const double *)call->outputs[k].theirs;
    }
    return compare_worst(call, 2, sizes, ours, theirs);
}
/* The device measures if it has the newest links, or if the next routine of the trajectory copies them there; otherwise
 * MILC's own routine costs less than the copy. */
static int plaquettes(double *space, double *time) {
    const milcgpu_plugin_lattice sites = milcgpu_in_sites();
    const int sign = phases_in == ON ? 1 : -1, were_out = milcgpu_put_phases_in();
    const int done = milcgpu_plugin_plaquettes(&sites, space, time);
    milcgpu_put_phases_back(were_out);
    if (done) {
        *space *= sign;
        *time *= sign;
    }
    return done;
}
/* A comparison is with MILC's routine itself. */
static void own_plaquettes(double *space, double *time) {
    if (milcgpu_plugin_compare())
        milcgpu_original(d_plaquette)(space, time);
    else
        milcgpu_host_plaquettes(space, time);
}
void __wrap_d_plaquette(double *space, double *time) {
    milcgpu_output output[] = {MILCGPU_MEMORY(space, sizeof *space), MILCGPU_MEMORY(time, sizeof *time)};
    milcgpu_call call = MILCGPU_MEMBERS(.row = MILCGPU_PLAQUETTE, .name = "d_plaquette", .reads = MILCGPU_LINKS,
                                        MILCGPU_OUTPUTS(output), .compare = compare_plaquettes);
    milcgpu_end_warm();
    if (!milcgpu_plugin_newer_on_device(MILCGPU_LINKS) && !(milcgpu_running.trajectory && phases_in == ON) &&
        !milcgpu_plugin_compare())
        call.why_own = MILCGPU_SAID_AT_START;
    milcgpu_offload(&call, plaquettes(space, time), own_plaquettes(space, time));
    milcgpu_note_plaquettes(*space, *time);
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

/* Prints MILC's lines; returns the action. */
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

/* MILC's routine prints what it measures, so its parts are called instead. */
static void own_measurement(const measurement *m, double action, double *numbers) {
    complex loop = {m->polyakov[0], m->polyakov[1]};
    milcgpu_original(d_plaquette)(&numbers[1], &numbers[2]);
    numbers[0] = milcgpu_has(imp_gauge_action) ? milcgpu_original(imp_gauge_action)() / volume : action;
    if (ploop != NULL)
        loop = milcgpu_there(ploop)();
    numbers[3] = loop.real;
    numbers[4] = loop.imag;
}

/* The loops are compared by their weighted sum, which is MILC's action. */
enum { NUMBERS = 5 };
typedef struct {
    measurement m;
    double action, theirs[NUMBERS];
} gauge_numbers;
static int compare_measurement(const milcgpu_call *call) {
    const gauge_numbers *const all = (const gauge_numbers *)call->details;
    const measurement *const m = &all->m;
    const double ours[NUMBERS] = {all->action, m->plaquettes[0], m->plaquettes[1], m->polyakov[0], m->polyakov[1]};
    static const double sizes[NUMBERS] = {ACTION_OF_SITE, 3, 3, 3, 3};
    return compare_worst(call, NUMBERS, sizes, ours, all->theirs);
}

static int measure_by_device(gauge_numbers *all) {
    const milcgpu_plugin_lattice sites = milcgpu_in_sites();
    if (!gauge_measurement(&sites, &all->m))
        return 0;
    all->action = print_measurement(&all->m);
    return 1;
}
static void measure_by_milc(const milcgpu_call *call, gauge_numbers *all) {
    if (call->done)
        own_measurement(&all->m, all->action, all->theirs);
    else
        milcgpu_original(g_measure)();
}
/* MILC calls it with phases out. */
void __wrap_g_measure(void) {
    gauge_numbers all = {{0}};
    milcgpu_call call = call_on_sites(MILCGPU_GAUGE_MEASURE, "g_measure", MILCGPU_LINKS, 0);
    call.why_own = phases_in != OFF            ? "MILC's own: the links have phases"
                   : !milcgpu_measures_gauge() ? MILCGPU_OTHER_MEASUREMENT
                                               : NULL;
    call.compare = compare_measurement;
    call.details = &all;
    milcgpu_offload(&call, measure_by_device(&all), measure_by_milc(&call, &all));
    free(all.m.traces);
}

#if MILCGPU_MILC >= 2
void __wrap_g_measure_ks(void) {
    milcgpu_running.only_offloaded_read++;
    milcgpu_original(g_measure_ks)();
    milcgpu_running.only_offloaded_read--;
}
#endif
