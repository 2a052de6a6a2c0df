/* Lattice files: writes a gauge field in NERSC's and in MILC's format, looks at the heads, and reads both again. */
#include "cookbook.h"
#include <milcgpu/milcgpu_file.h>

static link_field links, again;

/* Prints what the head of a file says. */
static void look(const char *path) {
    const char *formats[] = {"", "MILC version 5", "SciDAC or ILDG", "NERSC archive"};
    milcgpu_gauge_file head = {.struct_size = sizeof head};
    ok(milcgpu_gauge_file_look(path, &head));
    printf("%s: %s, %d x %d x %d x %d, %s precision\n", path, formats[head.format], head.extent[0], head.extent[1],
           head.extent[2], head.extent[3], head.precision == MILCGPU_DOUBLE ? "double" : "single");
}

static double read_and_compare(milcgpu_context *context, const char *path) {
    milcgpu_field to = {again, MILCGPU_DOUBLE, 0};
    ok(milcgpu_gauge_file_read(context, path, &to, NULL)); /* fails if a checksum or the plaquette is wrong */
    return distance(&again[0][0][0][0][0], &links[0][0][0][0][0], 72 * sites);
}

int main(void) {
    milcgpu_context *context = make_context();
    make_plain_links(context, links); /* links in files have no phases */
    milcgpu_field from = {links, MILCGPU_DOUBLE, 0};

    milcgpu_nersc_spec nersc;
    milcgpu_nersc_defaults(&nersc, sizeof nersc);
    nersc.precision = MILCGPU_DOUBLE;
    nersc.ensemble_id = "cookbook";
    ok(milcgpu_gauge_file_write_nersc(context, "lattice_file.nersc", &from, &nersc, NULL));
    ok(milcgpu_gauge_file_write(context, "lattice_file.lat", &from, NULL, NULL)); /* in single precision */
    look("lattice_file.nersc");
    look("lattice_file.lat");

    const int good =
        small("NERSC: |read - written|^2 / |written|^2", read_and_compare(context, "lattice_file.nersc"), 0);
    const int well =
        small("MILC: |read - written|^2 / |written|^2", read_and_compare(context, "lattice_file.lat"), 1e-14);
    milcgpu_context_destroy(context);
    return good && well ? 0 : 1;
}
