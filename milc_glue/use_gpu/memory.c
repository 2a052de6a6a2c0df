/* malloc, calloc, realloc and free in MILC's objects: fields come from the plugin's pool (host_pool.h); memset and
 * memcpy of fields, by which MILC clears and copies them: all threads do it. On several ranks, which share the threads
 * of a host, and before MILC has said how many there are, all is as without milcgpu. */
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
