/* Random sources. */
#include "random.h"

#include "routines.h"

#ifdef MILCGPU_DRAWS
typedef struct {
    su3_vector *dest;
    int parity;
    size_t first;
} source;

static int normal_part(void *what, size_t from, size_t to) {
    const source *s = (const source *)what;
    size_t i;
    int c;
    for (i = s->first + from; i < s->first + to; i++)
        for (c = 0; c < 3; c++)
            s->dest[i].c[c] = milcgpu_there(complex_gaussian_rand_no)(&lattice[i].site_prn);
    return 0;
}
static void own_normal(void *what) {
    const source *s = (const source *)what;
    milcgpu_original(grsource_plain_field)(s->dest, s->parity);
}

static int z2_part(void *what, size_t from, size_t to) {
    const source *s = (const source *)what;
    size_t i;
    int c;
    for (i = s->first + from; i < s->first + to; i++)
        for (c = 0; c < 3; c++) {
            s->dest[i].c[c].real = milcgpu_there(z2_rand_no)(&lattice[i].site_prn);
            s->dest[i].c[c].imag = milcgpu_there(z2_rand_no)(&lattice[i].site_prn);
        }
    return 0;
}
static void own_z2(void *what) {
    const source *s = (const source *)what;
    milcgpu_original(z2rsource_plain_field)(s->dest, s->parity);
}

static void draw_source(source s, const char *name, int (*part)(void *, size_t, size_t), void (*own)(void *)) {
    const size_t n = (s.parity == EVEN ? even_sites_on_node : sites_on_node) - s.first;
    const milcgpu_drawing drawing = {MILCGPU_RANDOM_SOURCE, name, s.first, n, part, own, &s};
    const milcgpu_output field = {s.dest + s.first, sizeof(su3_vector), n, sizeof(su3_vector), NULL};
    milcgpu_draw(&drawing, field, NULL);
}
static source source_of(su3_vector *dest, int parity) {
    const source s = {dest, parity, parity == ODD ? even_sites_on_node : 0};
    return s;
}
static void draw_normal(su3_vector *dest, int parity) {
    draw_source(source_of(dest, parity), "grsource_plain_field", normal_part, own_normal);
}
static void draw_z2(su3_vector *dest, int parity) {
    draw_source(source_of(dest, parity), "z2rsource_plain_field", z2_part, own_z2);
}
#else
static void draw_normal(su3_vector *dest, int parity) { milcgpu_original(grsource_plain_field)(dest, parity); }
static void draw_z2(su3_vector *dest, int parity) { milcgpu_original(z2rsource_plain_field)(dest, parity); }
#endif

int (*milcgpu_drawn_ahead)(su3_vector *, int, void (*)(su3_vector *, int));

static void draw_next(su3_vector *dest, int parity, void (*draw)(su3_vector *, int)) {
    if (milcgpu_drawn_ahead == NULL || !milcgpu_drawn_ahead(dest, parity, draw))
        draw(dest, parity);
}
void __wrap_grsource_plain_field(su3_vector *dest, int parity) { draw_next(dest, parity, draw_normal); }
void __wrap_z2rsource_plain_field(su3_vector *dest, int parity) { draw_next(dest, parity, draw_z2); }
