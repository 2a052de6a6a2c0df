/* milcgpu: what tests alone call. Not installed. */
#ifndef MILCGPU_TEST_HOOKS_H
#define MILCGPU_TEST_HOOKS_H

#include "milcgpu.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    MILCGPU_FAULT_NONE = 0,
    MILCGPU_FAULT_ALLOCATION = 1,
    MILCGPU_FAULT_DEVICE_LOST = 2,
    MILCGPU_FAULT_FLIP_LINKS = 3
} milcgpu_fault;

/* For tests of error paths: the next allocation fails, even after idle memory was freed; or the next wait for the
 * device fails; or one bit of the links on the device flips as the next solve starts. */
milcgpu_status milcgpu_fault_inject(milcgpu_context *context, int fault);
void milcgpu_plugin_inject_fault(int fault); /* the same with the context of MILC's glue */
void milcgpu_plugin_fail_allocations(int n); /* the next n of MILC's glue */

#ifdef __cplusplus
}
#endif
#endif
