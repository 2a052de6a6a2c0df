/* memset, memcpy and calloc in MILC's objects, with which MILC clears and copies fields: all threads of the rank do the
 * work.
 * Also the memory that the glue itself allocates. */
#include "glue.h"
#include <string.h>

#include "routines.h"

#define LARGE ((size_t)4 << 20) /* with fewer bytes, starting threads costs more than it gains */

void *__wrap_memset(void *to, int byte, size_t bytes) {
    return bytes >= LARGE && milcgpu_plugin_fill(to, byte, bytes) ? to : __real_memset(to, byte, bytes);
}

void *__wrap_memcpy(void *to, const void *from, size_t bytes) {
    return bytes >= LARGE && milcgpu_plugin_copy(to, from, bytes) ? to : __real_memcpy(to, from, bytes);
}

void (*milcgpu_sees_malloc)(size_t, void *);

void *__wrap_malloc(size_t bytes) {
    void *const block = __real_malloc(bytes);
    if (milcgpu_sees_malloc != NULL)
        milcgpu_sees_malloc(bytes, block);
    return block;
}

/* Compilers make it of malloc and memset. */
void *__wrap_calloc(size_t n, size_t size) {
    void *block;
    if (size == 0 || n > (size_t)-1 / size || n * size < LARGE)
        return __real_calloc(n, size);
    block = malloc(n * size);
    if (block == NULL || milcgpu_plugin_fill(block, 0, n * size))
        return block;
    free(block);
    return __real_calloc(n, size);
}

/* ---- memory for the glue ----------------------------------------------------------------------------------------- */

/* Aligned to large pages if possible, otherwise allocated as MILC itself would. */
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

/* If one rank has no memory, no rank gets any: MILC's own routines need all ranks. */
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
