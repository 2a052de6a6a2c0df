/* create_qk_oct_cache, destroy_qk_oct_cache: the device needs no cache of shifted quarks. It holds the quarks as they
 * were at create_qk_oct_cache. A stand-in takes the place of MILC's cache, which MILC moves from slot to slot. MILC's
 * own cache is made if the device cannot hold the quarks, if MILC's own routine does a call, or for comparison. */
#include "gb_octets.h"
#include <string.h>

static milcgpu_octet *octets[2 * MILCGPU_SLOTS]; /* MILC has up to three, and keeps up to three for the next triplet */

int milcgpu_has_served(void) {
    static int served = 0;
    served |= milcgpu_offloads();
    return served;
}

static milcgpu_octet **place_of(int slot) {
    const mmap_cache *const there = MILCGPU_READS_CACHE ? milcgpu_there(get_qk_cache_pointer)(slot) : NULL;
    int k;
    for (k = 0; k < 2 * MILCGPU_SLOTS && there != NULL; k++)
        if (octets[k] != NULL && octets[k]->cache == there)
            return &octets[k];
    return NULL;
}
const milcgpu_octet *milcgpu_octet_of(int slot) {
    milcgpu_octet **const at = place_of(slot);
    return at != NULL ? *at : NULL;
}

static void forget(milcgpu_octet **at) {
    int s, c;
    milcgpu_plugin_drop_octet(*at);
    for (s = 0; s < MILCGPU_CORNERS; s++)
        for (c = 0; c < 3; c++)
            free((*at)->changed[s][c]);
    if ((*at)->is_stand_in)
        free((*at)->cache);
    free(*at);
    *at = NULL;
}

/* Returns 0 if a quark does not have three colours. */
static int note_fields(milcgpu_octet *o, ks_prop_field **quarks) {
    int s;
    for (s = 0; s < MILCGPU_CORNERS; s++)
        if (quarks[s] != NULL && quarks[s]->nc != 3)
            return 0;
        else if (quarks[s] != NULL)
            memcpy(o->fields[s], quarks[s]->v, sizeof o->fields[s]);
    return 1;
}

void __wrap_create_qk_oct_cache(ks_prop_field **qko, int qknum, int r0[], su3_matrix *links) {
    const int serves = milcgpu_has_served();
    milcgpu_octet **at = octets, *o;
    ks_prop_field *corners[MILCGPU_CORNERS];
    int s;
    while (at < octets + 2 * MILCGPU_SLOTS && *at != NULL)
        at++;
    milcgpu_need(MILCGPU_SOLUTIONS, "create_qk_oct_cache");
    if (MILCGPU_READS_CACHE && milcgpu_links_at_sinks() == NULL && milcgpu_offloads() &&
        at < octets + 2 * MILCGPU_SLOTS) {
        o = *at = (milcgpu_octet *)milcgpu_room(sizeof *o, "an octet");
        memset(o, 0, sizeof *o);
        if (note_fields(o, qko) && milcgpu_plugin_hold_octet(o, (const void *const *)o->fields)) {
            o->cache = (mmap_cache *)milcgpu_room(sizeof(mmap_cache), "an octet");
            memset(o->cache, 0, sizeof(mmap_cache));
            o->is_stand_in = 1;
            memcpy(o->r0, r0, sizeof o->r0);
            o->links = links;
            milcgpu_there(assign_qk_cache_pointer)(o->cache, qknum);
            return;
        }
        forget(at);
    }
    for (s = 0; s < MILCGPU_CORNERS; s++)
        corners[s] = qko[s] == NULL && serves ? milcgpu_not_a_number() : qko[s];
    milcgpu_original(create_qk_oct_cache)(corners, qknum, r0, links);
}

void __wrap_destroy_qk_oct_cache(int qknum) {
    milcgpu_octet **const at = place_of(qknum);
    if (at == NULL || !(*at)->is_stand_in)
        milcgpu_original(destroy_qk_oct_cache)(qknum);
    if (at != NULL)
        forget(at);
}

ks_prop_field *milcgpu_not_a_number(void) {
    static ks_prop_field *made = NULL;
    if (made == NULL) {
        int c;
        made = create_ksp_field(3);
        for (c = 0; c < 3; c++)
            memset(made->v[c], 0xff, sites_on_node * sizeof(su3_vector));
    }
    return made;
}

/* Returns a field with the content that the device holds. NULL: the device has lost it. */
static su3_vector *held_field(milcgpu_octet *o, int s, int c) {
    su3_vector *room;
    if (milcgpu_plugin_held_quark(o, 3 * s + c, NULL))
        return o->fields[s][c];
    room = (su3_vector *)milcgpu_room(sites_on_node * sizeof *room, "a quark that MILC has changed");
    if (!milcgpu_plugin_held_quark(o, 3 * s + c, room)) {
        free(room);
        return NULL;
    }
    free(o->changed[s][c]);
    return o->fields[s][c] = o->changed[s][c] = room;
}

static void make_cache(milcgpu_octet *o, int slot) {
    ks_prop_field quarks[MILCGPU_CORNERS], *corners[MILCGPU_CORNERS];
    su3_vector *fields[MILCGPU_CORNERS][3];
    double lost = 0;
    int s, c;
    for (s = 0; s < MILCGPU_CORNERS; s++) {
        quarks[s].nc = 3;
        quarks[s].v = fields[s];
        corners[s] = o->fields[s][0] != NULL ? &quarks[s] : milcgpu_not_a_number();
        for (c = 0; c < 3 && corners[s] == &quarks[s]; c++) {
            fields[s][c] = held_field(o, s, c);
            if (fields[s][c] == NULL) {
                corners[s] = milcgpu_not_a_number();
                lost = 1;
            }
        }
    }
    g_vecdoublesum(&lost, 1);
    if (lost > 0)
        milcgpu_plugin_says_once(MILCGPU_GB_BARYON,
                                 "a quark has changed since create_qk_oct_cache, and the device has lost its copy. "
                                 "Correlators that need the quark are NaN");
    milcgpu_original(create_qk_oct_cache)(corners, slot, o->r0, o->links);
}

void milcgpu_make_caches(void) {
    int slot, other;
    for (slot = 0; slot < MILCGPU_SLOTS; slot++) {
        milcgpu_octet **const at = place_of(slot);
        if (at != NULL && (*at)->is_stand_in) {
            mmap_cache *const stand_in = (*at)->cache;
            make_cache(*at, slot);
            (*at)->cache = milcgpu_there(get_qk_cache_pointer)(slot);
            (*at)->is_stand_in = 0;
            for (other = 0; other < MILCGPU_SLOTS; other++)
                if (milcgpu_there(get_qk_cache_pointer)(other) == stand_in)
                    milcgpu_there(assign_qk_cache_pointer)((*at)->cache, other);
            free(stand_in);
        }
    }
}
