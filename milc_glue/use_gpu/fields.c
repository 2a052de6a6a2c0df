/* Copies of MILC's fields of vectors, and phases of fields of links, by all threads of the host. */
#include "glue.h"
#include <string.h>

#include "routines.h"

/* memory.c has the memcpy of all threads. */
static void copy(su3_vector *to, const su3_vector *from) {
    if (to != from)
        memcpy(to, from, sites_on_node * sizeof(su3_vector));
}
void __wrap_copy_v_from_ksp(su3_vector *v, ks_prop_field *ksp, int color) { copy(v, ksp->v[color]); }
void __wrap_insert_ksp_from_v(ks_prop_field *ksp, su3_vector *v, int color) { copy(ksp->v[color], v); }

typedef struct {
    su3_vector *v;
    const complex *c;
    int color;
} insertion;
static int insert_part(void *what, size_t from, size_t to) {
    const insertion *const in = (const insertion *)what;
    size_t i;
    for (i = from; i < to; i++)
        in->v[i].c[in->color] = in->c[i];
    return 0;
}
void __wrap_insert_v_from_c(su3_vector *v, complex *c, int color) {
    insertion in = {v, c, color};
    if (milcgpu_plugin_by_all_threads(sites_on_node, insert_part, &in) < 0)
        milcgpu_original(insert_v_from_c)(v, c, color);
}

typedef struct {
    su3_matrix *links;
    const int *origin;
} phased;
static int phase_part(void *what, size_t from, size_t to) {
    const phased *const p = (const phased *)what;
    size_t i;
    int mu, k;
    for (i = from; i < to; i++) {
        const site *const s = &lattice[i];
        const int odd_t = (s->t - p->origin[TUP]) & 1, odd_x = (s->x - p->origin[XUP]) & 1;
        const int odd_y = (s->y - p->origin[YUP]) & 1;
        const int odd[4] = {odd_t, odd_t ^ odd_x, odd_t ^ odd_x ^ odd_y, 0};
        for (mu = XUP; mu <= TUP; mu++)
            for (k = 0; k < 9; k++) {
                complex *const z = &p->links[4 * i + mu].e[k / 3][k % 3];
                const int sign = odd[mu] ? -1 : 1;
                z->real *= sign;
                z->imag *= sign;
            }
    }
    return 0;
}
/* MILC's own prints its message if the phases are that way already. */
void __wrap_rephase_field_offset(su3_matrix *links, int flag, int *status, int r0[]) {
    phased p = {links, r0};
    const int right = status == NULL || (*status + flag == ON + OFF && *status != flag);
    if (!right || milcgpu_plugin_by_all_threads(sites_on_node, phase_part, &p) < 0)
        milcgpu_original(rephase_field_offset)(links, flag, status, r0);
    else if (status != NULL)
        *status = flag;
}
