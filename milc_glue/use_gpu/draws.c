/* What draws random numbers for other files (random.h). */
#include "random.h"
#include <string.h>

#ifdef MILCGPU_DRAWS
/* What is drawn, and the generators after it: of each site, one behind the other. */
static char *drawn(size_t first, size_t n, const char *field, size_t pitch, size_t bytes) {
    const size_t each = bytes + sizeof(double_prn);
    char *all = (char *)milcgpu_spare_room(n * each, "a comparison of random numbers");
    size_t i;
    for (i = 0; all != NULL && i < n; i++) {
        memcpy(all + i * each, field + (first + i) * pitch, bytes);
        memcpy(all + i * each + bytes, &lattice[first + i].site_prn, sizeof(double_prn));
    }
    return all;
}

int milcgpu_draws(milcgpu_routine row, size_t first, size_t n, int (*part)(void *, size_t, size_t), void (*own)(void *),
                  void *what, void *field, size_t pitch, size_t bytes) {
    char *before = NULL, *ours, *theirs;
    double seconds, cpu_seconds;
    size_t i;
    if (!milcgpu_offloads())
        return 0;
    if (milcgpu_plugin_compare())
        before = drawn(first, n, (char *)field, pitch, bytes);
    seconds = -milcgpu_plugin_seconds();
    if (!milcgpu_plugin_routine_by_all_threads(row, n, part, what)) {
        free(before);
        return 0;
    }
    seconds += milcgpu_plugin_seconds();
    if (before == NULL)
        return 1;
    ours = drawn(first, n, (char *)field, pitch, bytes);
    for (i = 0; ours != NULL && i < n; i++)
        memcpy(&lattice[first + i].site_prn, before + i * (bytes + sizeof(double_prn)) + bytes, sizeof(double_prn));
    free(before);
    if (ours == NULL)
        return 1;
    milcgpu_enter_original(row);
    own(what);
    cpu_seconds = milcgpu_leave_original(row);
    theirs = drawn(first, n, (char *)field, pitch, bytes);
    if (theirs != NULL) /* every bit */
        milcgpu_judge(milcgpu_plugin_compare_number(row, memcmp(ours, theirs, n * (bytes + sizeof(double_prn))) != 0, 0,
                                                    seconds, cpu_seconds));
    free(ours);
    free(theirs);
    return 1;
}
#endif
