/* Molecular dynamics of pure_gauge, with the plaquette action: its update(). The gauge field and the momenta stay on
 * the device from one routine to the next; at the end of update() the links come back, and whatever else MILC has reads
 * them. There are no phases. */
#include "glue.h"

#include "../include/generic_pg.h"

#include "routines.h"

#include "random_momenta.h"

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

typedef struct {
    milcgpu_routine row;
    const char *name;
    int reads, writes;
    void (*own)(Real);
    int (*by_device)(const milcgpu_plugin_lattice *, Real);
} routine;

static void call(const routine *r, Real eps) {
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
                milcgpu_judge(milcgpu_plugin_compare_gauge(r->row, r->writes, NULL, seconds, cpu_seconds));
            } else if (!milcgpu_plugin_resident()) {
                need(r->writes, r->name);
            }
            return;
        }
    }
    need(r->reads, r->name);
    milcgpu_by_milc(r->row, (r->own(eps), 0));
    milcgpu_plugin_host_wrote(r->writes);
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
    const int iterations = milcgpu_original(update)();
    need(MILCGPU_LINKS, "update");
    return iterations;
}

void __wrap_ranmom(void) {
    if (!draws_momenta())
        milcgpu_original(ranmom)();
    milcgpu_plugin_host_wrote(MILCGPU_MOMENTA);
}
