/* Drawing of random numbers for other files (random.h). */
#include "random.h"
#include <string.h>

#ifdef MILCGPU_DRAWS
/* Compares every bit of the numbers and of the generators. */
static int compare_draws(const milcgpu_call *call) {
    int k, differ = 0;
    size_t i;
    for (k = 0; k < call->n_outputs; k++) {
        const milcgpu_output *const o = &call->outputs[k];
        for (i = 0; i < o->n; i++)
            differ = differ || memcmp((const char *)o->data + i * o->pitch, (const char *)o->theirs + i * o->bytes,
                                      o->bytes) != 0;
    }
    return milcgpu_compare_numbers(call, differ, 0);
}

void milcgpu_draw(const milcgpu_drawing *drawing, milcgpu_output field, const char *why_own) {
    milcgpu_output outputs[2] = {
        field, {&lattice[drawing->first].site_prn, sizeof(double_prn), drawing->n, sizeof(site), NULL}};
    milcgpu_call call = MILCGPU_MEMBERS(.row = drawing->row, .name = drawing->name, .why_own = why_own,
                                        MILCGPU_OUTPUTS(outputs), .compare = compare_draws);
    milcgpu_offload(&call,
                    milcgpu_plugin_routine_by_all_threads(drawing->row, drawing->n, drawing->part, drawing->what),
                    drawing->own(drawing->what));
}
#endif
