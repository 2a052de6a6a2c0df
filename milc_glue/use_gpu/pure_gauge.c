/* Molecular dynamics, over-relaxation and heat bath of pure_gauge with the plaquette action. Within its update(), the
 * gauge field and the momenta stay on the device from one routine to the next. The links are copied back at the end of
 * update(), or before another of MILC's routines reads them. A routine that is called outside of update() copies back
 * what it writes: MILC makes the links of a file unitary after reading them. There are no phases. */
#include "glue.h"

#include "../include/generic_pg.h"

#include "routines.h"

#include "random_momenta.h"
#include <string.h>

#if defined(ANISOTROPY) || defined(SCHROED_FUN)
#error "an anisotropic coupling, and boundaries of the Schroedinger functional, are MILC's own"
#endif

enum { BOTH = MILCGPU_LINKS | MILCGPU_MOMENTA, ORDER = 6 }; /* of the exponential in update_u */

static milcgpu_plugin_lattice sites(void) {
    milcgpu_plugin_lattice l;
    l.links = milcgpu_field_of(lattice[0].link);
    l.momenta = milcgpu_field_of(lattice[0].mom);
    l.links.pitch_bytes = l.momenta.pitch_bytes = sizeof(site);
    return l;
}

static void need(int fields, const char *who) {
    if (!milcgpu_plugin_host_needs(fields, who))
        milcgpu_end_of_run();
}

static int in_update = 0; /* running calls of MILC's update() */
static int stay_on_device(void) { return in_update && milcgpu_plugin_resident(); }

static milcgpu_call call_on_sites(milcgpu_routine row, const char *name, int reads, int writes) {
    const milcgpu_call call = MILCGPU_MEMBERS(.row = row, .name = name, .reads = reads, .writes = writes,
                                              .stay = stay_on_device, .compare = milcgpu_compare_gauge);
    return call;
}

static int update_links(Real eps) {
    const milcgpu_plugin_lattice l = sites();
    return milcgpu_plugin_update_links(&l, eps, ORDER);
}
void __wrap_update_u(Real eps) {
    milcgpu_call call = call_on_sites(MILCGPU_UPDATE_U, "update_u", BOTH, MILCGPU_LINKS);
    milcgpu_offload(&call, update_links(eps), milcgpu_original(update_u)(eps));
}

static int gauge_force_by_device(Real eps) {
    const milcgpu_plugin_lattice l = sites();
    const milcgpu_loops plaquette = {1, 0, 0, MILCGPU_SIGNS_OUT};
    return milcgpu_plugin_gauge_force(&l, &plaquette, beta, eps);
}
void __wrap_update_h(Real eps) {
    milcgpu_call call = call_on_sites(MILCGPU_GAUGE_FORCE_KS, "update_h", BOTH, MILCGPU_MOMENTA);
    milcgpu_offload(&call, gauge_force_by_device(eps), milcgpu_original(update_h)(eps));
}

/* If a link is not an SU(3) matrix, MILC's routine repeats the call and prints its message. */
static int reunitarize_links(void) {
    const milcgpu_plugin_lattice l = sites();
    milcgpu_reunitarize_report report;
    return milcgpu_plugin_reunitarize(&l, 0, &report) && !milcgpu_plugin_agreed(report.failed != 0);
}
void __wrap_reunitarize_cpu(void) {
    milcgpu_call call = call_on_sites(MILCGPU_REUNITARIZE, "reunitarize_cpu", MILCGPU_LINKS, MILCGPU_LINKS);
    milcgpu_offload(&call, reunitarize_links(), milcgpu_original(reunitarize_cpu)());
}

typedef struct {
    double of_links, of_momenta, theirs; /* the last: MILC's of_momenta */
} actions;
/* MILC's action of the momenta has no constant. */
static int sum_actions(actions *a) {
    const milcgpu_plugin_lattice l = sites();
    double space, time;
    if (!milcgpu_plugin_plaquettes(&l, &space, &time) || !milcgpu_plugin_momentum_action(&l, &a->of_momenta))
        return 0;
    a->of_links = -beta * volume * (space + time);
    a->of_momenta += 16. * volume;
#if MILCGPU_MILC == 1
    node0_printf("PLAQUETTE ACTION: %e\n", a->of_links);
#endif
    node0_printf("ACTION: g,h = %e  %e  %e\n", a->of_links, a->of_momenta, a->of_links + a->of_momenta);
    return 1;
}
static int compare_actions(const milcgpu_call *call) {
    const actions *const a = (const actions *)call->details;
    return milcgpu_compare_numbers(call, a->of_momenta, a->theirs);
}
double __wrap_d_action(void) {
    actions a = {0, 0, 0};
    double sum;
    milcgpu_call call = call_on_sites(MILCGPU_MOMENTUM_ACTION, "d_action", 0, 0);
    call.compare = hmom_action != NULL ? compare_actions : NULL;
    call.details = &a;
    call.only_compared = 1;
    if (milcgpu_offload(&call, sum_actions(&a), a.theirs = milcgpu_there(hmom_action)()))
        return a.of_links + a.of_momenta;
    call.reads = BOTH;
    call.counted = 0; /* it sums more than the action of the momenta */
    milcgpu_by_original(&call, sum = milcgpu_original(d_action)());
    return sum;
}

void __wrap_gauge_field_copy(field_offset from, field_offset to) {
    if (from == F_OFFSET(link[0]))
        need(MILCGPU_LINKS, "gauge_field_copy");
    milcgpu_original(gauge_field_copy)(from, to);
    if (to == F_OFFSET(link[0]))
        milcgpu_plugin_host_wrote(MILCGPU_LINKS);
}

int __wrap_update(void) {
    int iterations;
    in_update++;
    iterations = milcgpu_original(update)();
    in_update--;
    need(MILCGPU_LINKS, "update");
    return iterations;
}

void __wrap_ranmom(void) {
    draw_momenta();
    milcgpu_plugin_host_wrote(MILCGPU_MOMENTA);
}

/* ---- over-relaxation and heat bath ------------------------------------------------------------------------------- */

static int overrelax_links(int sweeps) {
    const milcgpu_plugin_lattice l = sites();
    return milcgpu_plugin_overrelax(&l, sweeps);
}
/* A sweep makes differences from rounding three times as large, so each sweep is compared by itself. */
static int at_a_time(int sweeps) { return milcgpu_offloads() && milcgpu_plugin_compare() && sweeps > 1 ? 1 : sweeps; }
void __wrap_relax(int sweeps) {
    int done, n;
    for (done = 0; done < sweeps; done += n) {
        milcgpu_call call = call_on_sites(MILCGPU_OVERRELAX, "relax", MILCGPU_LINKS, MILCGPU_LINKS);
        call.why_own = milcgpu_why_own_sweeps();
        n = at_a_time(sweeps);
        milcgpu_offload(&call, overrelax_links(n), milcgpu_original(relax)(n));
    }
}

#if defined(MILCGPU_DRAWS) && MILC_PRECISION == 2
enum { WORDS = 15 }; /* words of a generator, as in milcgpu_gauge_heat_bath */

typedef struct {
    uint32_t *words, *drawn;
    uint32_t shift;
} generators;

static void wide_word(uint32_t *to, unsigned long long word) {
    to[0] = (uint32_t)word;
    to[1] = (uint32_t)(word >> 32);
}
static void words_of(const double_prn *prn, uint32_t shift, uint32_t *words) {
    const unsigned long long registers[7] = {prn->r0, prn->r1, prn->r2, prn->r3, prn->r4, prn->r5, prn->r6};
    const float scale = prn->scale;
    int k;
    for (k = 0; k < 7; k++)
        words[k] = (uint32_t)registers[k];
    wide_word(words + 7, prn->multiplier);
    wide_word(words + 9, prn->addend);
    wide_word(words + 11, prn->ic_state);
    memcpy(words + 13, &scale, sizeof scale);
    words[14] = shift;
}
static int words_part(void *what, size_t from, size_t to) {
    const generators *g = (const generators *)what;
    size_t i;
    for (i = from; i < to; i++)
        words_of(&lattice[i].site_prn, g->shift, g->words + WORDS * i);
    return 0;
}
/* Advances MILC's generators by discarding MILC's own numbers. */
static int advance_part(void *what, size_t from, size_t to) {
    const generators *g = (const generators *)what;
    size_t i;
    uint32_t k;
    for (i = from; i < to; i++)
        for (k = 0; k < g->drawn[i]; k++)
            milcgpu_there(myrand)(&lattice[i].site_prn);
    return 0;
}
static void by_all_threads(int (*part)(void *, size_t, size_t), generators *g) {
    if (milcgpu_plugin_by_all_threads(sites_on_node, part, g) < 0)
        part(g, 0, sites_on_node);
}

/* Finds by trial which bits of the state MILC's numbers use. Macros of MILC's compilation choose them, and this file
 * does not see these macros. 0: these are other generators. */
static uint32_t shift_of_numbers(void) {
    static const uint32_t shifts[2] = {40, 8};
    double_prn prn = lattice[0].site_prn;
    uint32_t words[WORDS], bits;
    unsigned long long state;
    double number;
    int k;
    words_of(&prn, 0, words);
    number = milcgpu_there(myrand)(&prn);
    state =
        lattice[0].site_prn.ic_state * (unsigned long long)lattice[0].site_prn.multiplier + lattice[0].site_prn.addend;
    for (k = 0; k < 2; k++) {
        bits = (words[5] >> 7 | words[6] << 17) ^ (words[4] >> 1 | words[5] << 23) ^ (uint32_t)(state >> shifts[k]);
        bits &= 0xFFFFFF;
        if ((double)(lattice[0].site_prn.scale * (float)bits) == number)
            return shifts[k];
    }
    return 0;
}

/* 0: no room, after a line in the log. */
static int room_for(generators *g) {
    if (g->shift == 0)
        return 0;
    g->words = (uint32_t *)milcgpu_try_room((WORDS + 1) * sizeof(uint32_t) * sites_on_node, "random numbers");
    g->drawn = g->words != NULL ? g->words + WORDS * sites_on_node : NULL;
    return g->words != NULL;
}
static int heat_links(generators *g, int sweeps) {
    const milcgpu_plugin_lattice l = sites();
    if (!room_for(g))
        return 0;
    by_all_threads(words_part, g);
    return milcgpu_plugin_heat_bath(&l, beta, sweeps, g->words, g->drawn);
}
static void heat_bath(int sweeps) {
    generators g = {NULL, NULL, 0};
    milcgpu_call call = call_on_sites(MILCGPU_HEAT_BATH, "monte", MILCGPU_LINKS, MILCGPU_LINKS);
    call.why_own = milcgpu_why_own_sweeps();
    if (milcgpu_offloads() && call.why_own == NULL && (g.shift = shift_of_numbers()) == 0)
        call.why_own = "MILC's own: the generators of this MILC are not known";
    if (milcgpu_offload(&call, heat_links(&g, sweeps), milcgpu_original(monte)(sweeps)) && !call.compares)
        by_all_threads(advance_part, &g); /* otherwise MILC's own routine has drawn the numbers */
    free(g.words);
}
void __wrap_monte(int sweeps) {
    int done, n;
    for (done = 0; done < sweeps; done += n) {
        n = at_a_time(sweeps);
        heat_bath(n);
    }
}
#else
void __wrap_monte(int sweeps) {
    milcgpu_call call = call_on_sites(MILCGPU_HEAT_BATH, "monte", MILCGPU_LINKS, MILCGPU_LINKS);
    call.why_own = MILCGPU_SAID_AT_START;
    milcgpu_offload(&call, 0, milcgpu_original(monte)(sweeps));
}
#endif
