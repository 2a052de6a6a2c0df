/* malloc, calloc, realloc and free in MILC's objects: fields come from the plugin's pool (host_pool.h); memset and
 * memcpy of fields, by which MILC clears and copies them: all threads do it. On several ranks, which share the threads
 * of a host, and before MILC has said how many there are, all is as without milcgpu. And the memory that the glue
 * itself asks for. */
#include "glue.h"
#include <stdint.h>
#include <string.h>

#include "routines.h"

#define LARGE ((size_t)4 << 20) /* the plugin has no smaller blocks */

void *__wrap_malloc(size_t bytes) {
    void *p = bytes >= LARGE ? milcgpu_plugin_block(bytes, 0) : NULL;
    return p != NULL ? p : __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t size) {
    void *p = size > 0 && n >= LARGE / size && n <= SIZE_MAX / size ? milcgpu_plugin_block(n * size, 1) : NULL;
    return p != NULL ? p : __real_calloc(n, size);
}

void *__wrap_realloc(void *old, size_t bytes) {
    const size_t had = milcgpu_plugin_block_bytes(old);
    void *p;
    if (had == 0)
        return __real_realloc(old, bytes);
    p = __wrap_malloc(bytes);
    if (p != NULL) {
        memcpy(p, old, had < bytes ? had : bytes);
        milcgpu_plugin_block_free(old);
    }
    return p;
}

void __wrap_free(void *p) {
    if (!milcgpu_plugin_block_free(p))
        __real_free(p);
}

void *__wrap_memset(void *to, int byte, size_t bytes) {
    return bytes >= LARGE && milcgpu_plugin_fill(to, byte, bytes) ? to : __real_memset(to, byte, bytes);
}

void *__wrap_memcpy(void *to, const void *from, size_t bytes) {
    return bytes >= LARGE && milcgpu_plugin_copy(to, from, bytes) ? to : __real_memcpy(to, from, bytes);
}

/* ---- memory for the glue ----------------------------------------------------------------------------------------- */

/* Aligned to large pages where that can be had; else as MILC itself would ask for it. */
static void *room(size_t bytes) {
    void *p = milcgpu_plugin_allocate(bytes);
    return p != NULL ? p : malloc(bytes);
}

static void say_no_room(size_t bytes, const char *what, const char *then) {
    char who[40] = "";
    if (numnodes() > 1)
        snprintf(who, sizeof who, "rank %d of %d: ", mynode(), numnodes());
    fprintf(stderr, "milcgpu: %sno room in the host's memory for %s (%lu bytes)%s\n", who, what, (unsigned long)bytes,
            then);
}

void *milcgpu_try_room(size_t bytes, const char *what) {
    void *p = room(bytes);
    if (p == NULL)
        say_no_room(bytes, what, "");
    return p;
}

/* If one rank has no memory, none gets any: MILC's own routines need all of them. */
void *milcgpu_spare_room(size_t bytes, const char *what) {
    void *p = room(bytes);
    if (p == NULL)
        say_no_room(bytes, what, ": this call is not compared");
    if (milcgpu_plugin_agreed(p == NULL)) {
        free(p);
        return NULL;
    }
    return p;
}

void *milcgpu_copy_to_compare(const void *field, size_t bytes) {
    void *copy = milcgpu_plugin_compare() ? milcgpu_spare_room(bytes, "a comparison") : NULL;
    if (copy != NULL)
        memcpy(copy, field, bytes);
    return copy;
}

static void *or_end(void *p, size_t bytes, const char *what) {
    if (p == NULL) {
        say_no_room(bytes, what, ", which MILC needs, too: the run ends");
        milcgpu_stop_all_ranks();
    }
    return p;
}
void *milcgpu_room(size_t bytes, const char *what) { return or_end(room(bytes), bytes, what); }
void *milcgpu_untouched_room(size_t bytes, const char *what) {
    return or_end(milcgpu_plugin_allocate_untouched(bytes), bytes, what);
}
