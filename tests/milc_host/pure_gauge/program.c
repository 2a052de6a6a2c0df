/* program FILE nx ny nz nt what: the links of a file, 4 a site in MILC's order, after a trajectory (update) or in Landau
 * gauge (fix), and back there. */
#include "../generic/generic_includes.h"

#include "../include/generic_pg.h"
#include <string.h>

static void links_of(const char *name, const char *mode) {
    FILE *const file = fopen(name, mode);
    size_t i;
    for (i = 0; i < volume; i++)
        if ((*mode == 'r' ? fread(lattice[i].link, sizeof(su3_matrix), 4, file)
                          : fwrite(lattice[i].link, sizeof(su3_matrix), 4, file)) != 4)
            terminate(2);
    fclose(file);
}

int main(int argc, char **argv) {
    int x, y, z, t;
    initialize_machine(&argc, &argv);
    nx = atoi(argv[2]), ny = atoi(argv[3]), nz = atoi(argv[4]), nt = atoi(argv[5]);
    volume = sites_on_node = (size_t)nx * ny * nz * nt;
    even_sites_on_node = volume / 2;
    lattice = (site *)calloc(volume, sizeof(site));
    for (t = 0; t < nt; t++)
        for (z = 0; z < nz; z++)
            for (y = 0; y < ny; y++)
                for (x = 0; x < nx; x++) {
                    site *s = &lattice[node_index(x, y, z, t)];
                    s->x = x, s->y = y, s->z = z, s->t = t;
                }
    links_of(argv[1], "rb");
    if (strcmp(argv[6], "fix") == 0)
        gaugefix(8, 1.5, 200, 1e-9);
    else
        update();
    links_of(argv[1], "wb");
    free(lattice);
    normal_exit(0);
    return 0;
}
