/* The protocol of an offloaded routine (milcgpu_offload in glue.h). The device does the call. MILC's own routine does
 * it if the device cannot, and for comparison. */
#include "glue.h"
#include <string.h>

#ifdef MILCGPU_SERVES
#define need milcgpu_need
#else
static void need(int fields, const char *who) {
    if (!milcgpu_plugin_host_needs(fields & (MILCGPU_LINKS | MILCGPU_MOMENTA), who))
        milcgpu_end_of_run();
}
#endif

/* ---- what a routine writes --------------------------------------------------------------------------------------- */

static size_t records_of(const milcgpu_output *output) { return output->n != 0 ? output->n : 1; }
static size_t room_of(const milcgpu_output *output) {
    const size_t alignment = 64;
    return (output->bytes * records_of(output) + alignment - 1) / alignment * alignment;
}

static void swap_bytes(char *a, char *b, size_t bytes) {
    char piece[1024];
    while (bytes > 0) {
        const size_t n = bytes < sizeof piece ? bytes : sizeof piece;
        memcpy(piece, a, n);
        memcpy(a, b, n);
        memcpy(b, piece, n);
        a += n, b += n, bytes -= n;
    }
}
static void swap_outputs(const milcgpu_call *call) {
    int k;
    size_t i;
    for (k = 0; k < call->n_outputs; k++) {
        const milcgpu_output *const o = &call->outputs[k];
        for (i = 0; i < records_of(o); i++)
            swap_bytes((char *)o->data + i * o->pitch, (char *)o->theirs + i * o->bytes, o->bytes);
    }
}

/* 0: a rank has no room, after a line in the log. */
static int copy_outputs(milcgpu_call *call) {
    size_t bytes = 0, i;
    char *at;
    int k;
    for (k = 0; k < call->n_outputs; k++)
        bytes += room_of(&call->outputs[k]);
    at = (char *)milcgpu_spare_room(bytes, "a comparison");
    call->copies = at;
    for (k = 0; at != NULL && k < call->n_outputs; k++) {
        milcgpu_output *const o = &call->outputs[k];
        o->theirs = at;
        for (i = 0; i < records_of(o); i++)
            memcpy(at + i * o->bytes, (const char *)o->data + i * o->pitch, o->bytes);
        at += room_of(o);
    }
    return at != NULL;
}

/* ---- a call ------------------------------------------------------------------------------------------------------ */

int milcgpu_declines(milcgpu_routine row, const char *why_own) {
    if (milcgpu_offloads() && why_own == NULL)
        return 0;
    if (milcgpu_plugin_active())
        milcgpu_plugin_says_once(row, why_own);
    return 1;
}

int milcgpu_begins_device(milcgpu_call *call) {
    if (call->needs != 0)
        need(call->needs, call->name);
    if (call->stay == NULL && call->writes != 0)
        milcgpu_plugin_host_writes(call->writes);
    call->done = call->compares = call->counted = 0;
    call->copies = NULL;
    if (milcgpu_declines(call->row, call->why_own))
        return 0;
    if (call->compare != NULL && milcgpu_plugin_compare()) {
        if (call->stay != NULL) /* MILC's own routine works on the host's copy, the device on its own copy */
            need(MILCGPU_LINKS | MILCGPU_MOMENTA, call->name);
        call->compares = call->stay != NULL || copy_outputs(call);
    }
    call->counted = 1;
    call->seconds = -milcgpu_plugin_seconds();
    return 1;
}

int milcgpu_tries_again(const milcgpu_call *call) { return call->again != NULL && call->again(); }

double milcgpu_seconds_so_far(const milcgpu_call *call) { return call->seconds + milcgpu_plugin_seconds(); }

void milcgpu_end_device(milcgpu_call *call, int done) {
    call->seconds += milcgpu_plugin_seconds();
    call->done = done;
}

int milcgpu_begin_devices(milcgpu_call *calls, int n) {
    int k, all = n > 0;
    for (k = 0; k < n; k++)
        all = milcgpu_begins_device(&calls[k]) && all;
    for (k = 0; k < n; k++)
        calls[k].seconds = -milcgpu_plugin_seconds();
    return all;
}
void milcgpu_end_devices(milcgpu_call *calls, int n, int done) {
    int k;
    for (k = 0; k < n; k++) {
        milcgpu_end_device(&calls[k], done);
        calls[k].seconds /= n;
    }
}

int milcgpu_begins_original(milcgpu_call *call) {
    const int on_sites = call->stay != NULL;
    if (call->done && !call->compares) {
        if (on_sites && !call->stay())
            need(call->writes, call->name);
        return 0;
    }
    if (!call->done && call->only_compared)
        return 0;
    if (!call->done && call->reads != 0)
        need(call->reads, call->name);
    if (!call->done && on_sites)
        milcgpu_plugin_host_writes(call->writes);
    milcgpu_originals.on_sites += on_sites;
    milcgpu_originals.on_old_copy += on_sites && call->done;
    if (call->done && !on_sites)
        swap_outputs(call);
    if (!call->done && on_sites)
        call->counted = milcgpu_plugin_active();
    if (call->counted)
        milcgpu_enter_original(call->row);
    return 1;
}

void milcgpu_end_original(milcgpu_call *call) {
    const int on_sites = call->stay != NULL;
    if (call->counted)
        call->cpu_seconds = milcgpu_leave_original(call->row);
    milcgpu_originals.on_sites -= on_sites;
    milcgpu_originals.on_old_copy -= on_sites && call->done;
    if (call->done) {
        if (!on_sites)
            swap_outputs(call);
        milcgpu_judge(call->compare(call));
    } else if (on_sites) {
        milcgpu_plugin_host_wrote(call->writes);
    }
}

void milcgpu_begin_instead(const milcgpu_call *call) {
    if (call->reads != 0)
        need(call->reads, call->name);
    if (call->counted)
        milcgpu_enter_original(call->row);
}
void milcgpu_end_instead(const milcgpu_call *call) {
    if (call->counted)
        milcgpu_leave_original(call->row);
}

int milcgpu_end_call(milcgpu_call *call) {
    free(call->copies);
    call->copies = NULL;
    return call->done;
}

/* ---- what several routines share --------------------------------------------------------------------------------- */

int milcgpu_compare_as_links(const milcgpu_call *call) {
    void *ours[1] = {call->outputs[0].data}, *theirs[1] = {call->outputs[0].theirs};
    return milcgpu_plugin_compare_links(call->row, 1, ours, theirs, call->seconds, call->cpu_seconds);
}
int milcgpu_compare_as_quarks(const milcgpu_call *call) {
    return milcgpu_plugin_compare_quarks(call->row, call->outputs[0].data, call->outputs[0].theirs, call->seconds,
                                         call->cpu_seconds);
}
int milcgpu_compare_gauge(const milcgpu_call *call) {
    return milcgpu_plugin_compare_gauge(call->row, call->writes, NULL, NULL, 0, call->seconds, call->cpu_seconds);
}
int milcgpu_compare_numbers(const milcgpu_call *call, double ours, double theirs) {
    return milcgpu_plugin_compare_number(call->row, ours, theirs, call->seconds, call->cpu_seconds);
}

const char *milcgpu_why_own_dslash(void) {
    return milcgpu_offloads() && !milcgpu_plugin_takes_dslash() ? MILCGPU_SAID_AT_START : NULL;
}
