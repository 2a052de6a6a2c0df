/* Which copy of the gauge field and the momenta is the newest, and rephase. Both fields stay on the device from one
 * routine to the next (updates.c, fermion_force.c). A routine that MILC does first calls milcgpu_need for the host's
 * copy, and MILC's writes are announced to the plugin. Links on the device always include the phases; phases_in says
 * whether the links in the sites do. */
#include "sites.h"
#include "reload.h"

#include "routines.h"

#ifdef MILCGPU_GLUE_md
static struct {
    int making_links; /* running calls that make fermion links of the gauge field in the sites, which may be nested */
    int were_out;     /* phases, while links are made again */
} state;
milcgpu_running_calls milcgpu_running;

milcgpu_plugin_lattice milcgpu_in_sites(void) {
    const int real = MILC_PRECISION == 1 ? MILCGPU_SINGLE : MILCGPU_DOUBLE;
    milcgpu_plugin_lattice l = {{lattice[0].link, real, sizeof(site)}, {lattice[0].mom, real, sizeof(site)}};
    return l;
}

int milcgpu_sites_stay(void) { return milcgpu_plugin_resident() && milcgpu_exponential_order() != 0; }

void milcgpu_need_sites(int fields, const char *who) {
    const int newer = milcgpu_plugin_newer_on_device(fields);
    const int phases = phases_in;
    if (milcgpu_originals.on_old_copy || fields == 0)
        return;
    if (!milcgpu_plugin_host_needs(fields, who))
        milcgpu_end_of_run();
    if ((newer & MILCGPU_LINKS) && phases == OFF) { /* they came with phases */
        phases_in = ON;
        milcgpu_host_rephase(OFF);
    }
}

int milcgpu_put_phases_in(void) {
    if (phases_in == ON || milcgpu_plugin_newer_on_device(MILCGPU_LINKS))
        return 0;
    milcgpu_host_rephase(ON);
    return 1;
}
void milcgpu_put_phases_back(int were_out) {
    if (were_out)
        milcgpu_host_rephase(OFF);
}

/* Only the host's copy has phases in or out. If that copy is old and nobody reads it, only phases_in changes. */
static void put_phases(int flag) {
    if (!milcgpu_originals.on_sites && milcgpu_running.only_offloaded_read &&
        milcgpu_plugin_newer_on_device(MILCGPU_LINKS) && flag != phases_in) {
        phases_in = flag;
        return;
    }
    milcgpu_need_sites(MILCGPU_LINKS, "rephase");
    milcgpu_host_rephase(flag);
}
void __wrap_rephase(int flag) { put_phases(flag); }

/* ---- fermion links ----------------------------------------------------------------------------------------------- */

static void fill_copy(void *self, void *links) {
    (void)self;
    milcgpu_need_sites(MILCGPU_LINKS, "create_G_from_site");
    milcgpu_plugin_gather_links(lattice[0].link, sizeof(site), links);
}
static int defers(const su3_matrix *links) {
    const milcgpu_plugin_lattice sites = milcgpu_in_sites();
    const void *const field = links, *const gauge_field = NULL;
    const milcgpu_plugin_deferral copy = {MILCGPU_GAUGE_COPY, 1, 1, &field, &gauge_field, fill_copy, NULL, NULL};
    return state.making_links && milcgpu_sites_stay() && !milcgpu_plugin_compare() && phases_in == ON &&
           milcgpu_plugin_load_links(&sites) && milcgpu_plugin_defer(&copy);
}
int milcgpu_gauge_is_deferred(const su3_matrix *links) { return milcgpu_plugin_is_deferred(MILCGPU_GAUGE_COPY, links); }
void milcgpu_fill_gauge(su3_matrix *links) {
    if (links != NULL)
        milcgpu_or_end(milcgpu_plugin_fulfil(MILCGPU_GAUGE_COPY, links));
}

void milcgpu_begin_fermion_links(void) { state.making_links++; }
/* MILC has freed its copies by now. */
void milcgpu_end_fermion_links(void) {
    state.making_links--;
    milcgpu_plugin_drop_deferred(MILCGPU_GAUGE_COPY, NULL);
}

int milcgpu_may_defer_links(void) {
    return milcgpu_running.trajectory && state.making_links && milcgpu_sites_stay() && milcgpu_reads_are_known() &&
           !milcgpu_plugin_compare();
}

su3_matrix *milcgpu_begin_links_again(void) {
    state.were_out = phases_in == OFF;
    if (state.were_out)
        put_phases(ON);
    state.making_links++;
    return milcgpu_copy_gauge();
}
void milcgpu_end_links_again(su3_matrix *links) {
    state.making_links--;
    milcgpu_plugin_drop_deferred(MILCGPU_GAUGE_COPY, links);
    free(links);
    if (state.were_out)
        put_phases(OFF);
}
#else
void milcgpu_need_sites(int fields, const char *who) { (void)fields, (void)who; }
static int defers(const su3_matrix *links) { return (void)links, 0; }
int milcgpu_gauge_is_deferred(const su3_matrix *links) { return (void)links, 0; }
void milcgpu_fill_gauge(su3_matrix *links) { (void)links; }
void milcgpu_begin_fermion_links(void) {}
void milcgpu_end_fermion_links(void) {}
int milcgpu_may_defer_links(void) { return 0; }
su3_matrix *milcgpu_begin_links_again(void) { return NULL; }
void milcgpu_end_links_again(su3_matrix *links) { (void)links; }
#endif

int milcgpu_gauge_to(su3_matrix *to, const su3_matrix *links) {
    const int deferred = milcgpu_gauge_is_deferred(links);
    if (deferred && milcgpu_plugin_newer_on_device(MILCGPU_LINKS))
        return milcgpu_plugin_save_links(to);
    milcgpu_plugin_gather_links(deferred ? lattice[0].link : links, deferred ? sizeof(site) : 4 * sizeof *links, to);
    return 1;
}

su3_matrix *milcgpu_copy_gauge(void) {
    su3_matrix *const copy = (su3_matrix *)milcgpu_room(4 * sites_on_node * sizeof(su3_matrix), "gauge links");
    if (milcgpu_offloads() && defers(copy))
        return copy;
    milcgpu_need_sites(MILCGPU_LINKS, "create_G_from_site");
    milcgpu_plugin_gather_links(lattice[0].link, sizeof(site), copy);
    return copy;
}
