/* Molecular dynamics, over-relaxation and heat bath of pure_gauge, with the plaquette action: its update(). The gauge
 * field and the momenta stay on the device from one routine to the next; at the end of update() the links come back,
 * and whatever else MILC has reads them. What is called outside of update() brings back what it writes: MILC makes the
 * links of a file unitary when it has read them. There are no phases. */
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

static int in_update = 0;

typedef struct {
    milcgpu_routine row;
    const char *name;
    int reads, writes;
    void (*own)(Real);
    int (*by_device)(const milcgpu_plugin_lattice *, Real);
} routine;

/* 1: the device has done it, and MILC's own was not called. */
static int call(const routine *r, Real eps) {
    const milcgpu_plugin_lattice l = sites();
    double seconds, cpu_seconds;
    if (milcgpu_offloads()) {
        if (milcgpu_plugin_compare())
            need(BOTH, r->name);
        seconds = -milcgpu_plugin_seconds();
        if (r->by_device(&l, eps)) {
            seconds += milcgpu_plugin_seconds();
            if (milcgpu_plugin_compare()) {
                milcgpu_enter_original(r->row);
                r->own(eps);
                cpu_seconds = milcgpu_leave_original(r->row);
                milcgpu_judge(milcgpu_plugin_compare_gauge(r->row, r->writes, NULL, NULL, 0, seconds, cpu_seconds));
                return 0;
            }
            if (!milcgpu_plugin_resident() || !in_update)
                need(r->writes, r->name);
            return 1;
        }
    }
    need(r->reads, r->name);
    milcgpu_by_milc(r->row, (r->own(eps), 0));
    milcgpu_plugin_host_wrote(r->writes);
    return 0;
}

static int update_links(const milcgpu_plugin_lattice *l, Real eps) {
    return milcgpu_plugin_update_links(l, eps, ORDER);
}
static void own_update_u(Real eps) { milcgpu_original(update_u)(eps); }
void __wrap_update_u(Real eps) {
    const routine r = {MILCGPU_UPDATE_U, "update_u", BOTH, MILCGPU_LINKS, own_update_u, update_links};
    call(&r, eps);
}

static int gauge_force(const milcgpu_plugin_lattice *l, Real eps) {
    const milcgpu_loops plaquette = {1, 0, 0, MILCGPU_SIGNS_OUT};
    return milcgpu_plugin_gauge_force(l, &plaquette, beta, eps);
}
static void own_update_h(Real eps) { milcgpu_original(update_h)(eps); }
void __wrap_update_h(Real eps) {
    const routine r = {MILCGPU_GAUGE_FORCE_KS, "update_h", BOTH, MILCGPU_MOMENTA, own_update_h, gauge_force};
    call(&r, eps);
}

/* MILC's words for links that are no SU(3) matrices are MILC's to say. */
static int reunitarize_links(const milcgpu_plugin_lattice *l, Real unused) {
    milcgpu_reunitarize_report report;
    (void)unused;
    return milcgpu_plugin_reunitarize(l, 0, &report) && !milcgpu_plugin_agreed(report.failed != 0);
}
static void own_reunitarize(Real unused) {
    (void)unused;
    milcgpu_original(reunitarize_cpu)();
}
void __wrap_reunitarize_cpu(void) {
    const routine r = {MILCGPU_REUNITARIZE, "reunitarize_cpu", MILCGPU_LINKS,
                       MILCGPU_LINKS,       own_reunitarize,   reunitarize_links};
    call(&r, 0);
}

/* MILC's has no constant in the momenta's action. */
double __wrap_d_action(void) {
    const milcgpu_plugin_lattice l = sites();
    double space, time, of_links, of_momenta, seconds, cpu, cpu_seconds;
    if (milcgpu_offloads()) {
        if (milcgpu_plugin_compare())
            need(BOTH, "d_action");
        seconds = -milcgpu_plugin_seconds();
        if (milcgpu_plugin_plaquettes(&l, &space, &time) && milcgpu_plugin_momentum_action(&l, &of_momenta)) {
            seconds += milcgpu_plugin_seconds();
            of_links = -beta * volume * (space + time);
            of_momenta += 16. * volume;
#if MILCGPU_MILC == 1
            node0_printf("PLAQUETTE ACTION: %e\n", of_links);
#endif
            node0_printf("ACTION: g,h = %e  %e  %e\n", of_links, of_momenta, of_links + of_momenta);
            if (milcgpu_plugin_compare() && hmom_action != NULL) {
                milcgpu_enter_original(MILCGPU_MOMENTUM_ACTION);
                cpu = milcgpu_there(hmom_action)();
                cpu_seconds = milcgpu_leave_original(MILCGPU_MOMENTUM_ACTION);
                milcgpu_judge(
                    milcgpu_plugin_compare_number(MILCGPU_MOMENTUM_ACTION, of_momenta, cpu, seconds, cpu_seconds));
            }
            return of_links + of_momenta;
        }
    }
    need(BOTH, "d_action");
    return milcgpu_original(d_action)();
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
    if (!draws_momenta())
        milcgpu_original(ranmom)();
    milcgpu_plugin_host_wrote(MILCGPU_MOMENTA);
}

/* ---- over-relaxation and heat bath ------------------------------------------------------------------------------- */

/* Their arguments are numbers of sweeps. */
static int overrelax_links(const milcgpu_plugin_lattice *l, Real sweeps) {
    return milcgpu_why_own_sweeps() == NULL && milcgpu_plugin_overrelax(l, (int)sweeps);
}
static void own_relax(Real sweeps) { milcgpu_original(relax)((int)sweeps); }
/* A sweep takes a rounding three times as far: so one at a time is compared. */
static int at_a_time(int sweeps) { return milcgpu_plugin_compare() && sweeps > 1 ? 1 : sweeps; }
void __wrap_relax(int sweeps) {
    const routine r = {MILCGPU_OVERRELAX, "relax", MILCGPU_LINKS, MILCGPU_LINKS, own_relax, overrelax_links};
    int done, n;
    for (done = 0; done < sweeps; done += n) {
        n = at_a_time(sweeps);
        call(&r, n);
    }
}

#if defined(MILCGPU_DRAWS) && MILC_PRECISION == 2
enum { WORDS = 15 }; /* of a generator, as milcgpu_gauge_heat_bath takes them */

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
/* MILC's own numbers are thrown away: its generators are then where they would be. */
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

/* Which bits of the state MILC's numbers take, by trying: its compiler's macros say it, and this file does not see
 * them. 0: these are other generators. */
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

static generators of_sites; /* of the call */

static int heat_links(const milcgpu_plugin_lattice *l, Real sweeps) {
    return milcgpu_plugin_heat_bath(l, beta, (int)sweeps, of_sites.words, of_sites.drawn);
}
static void own_monte(Real sweeps) { milcgpu_original(monte)((int)sweeps); }
static void heat_bath(int sweeps) {
    const routine r = {MILCGPU_HEAT_BATH, "monte", MILCGPU_LINKS, MILCGPU_LINKS, own_monte, heat_links};
    generators g = {NULL, NULL, 0};
    if (milcgpu_offloads() && milcgpu_why_own_sweeps() == NULL)
        g.shift = shift_of_numbers();
    if (g.shift != 0)
        g.words = (uint32_t *)milcgpu_try_room((WORDS + 1) * sizeof(uint32_t) * sites_on_node, "random numbers");
    if (g.words == NULL) {
        need(MILCGPU_LINKS, r.name);
        milcgpu_by_milc(r.row, (own_monte(sweeps), 0));
        milcgpu_plugin_host_wrote(MILCGPU_LINKS);
        return;
    }
    g.drawn = g.words + WORDS * sites_on_node;
    by_all_threads(words_part, &g);
    of_sites = g;
    if (call(&r, sweeps)) /* else MILC's own has drawn them */
        by_all_threads(advance_part, &g);
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
    need(MILCGPU_LINKS, "monte");
    milcgpu_original(monte)(sweeps);
    milcgpu_plugin_host_wrote(MILCGPU_LINKS);
}
#endif
