/* program FILE nx ny nz nt action exp_order stepsize stoptime local_tol: the flow, twice, of links in a file, 4 a site
 * in MILC's order. The links go back there after the first one. */
#include "wilson_flow_includes.h"
#include <string.h>

static void links_and(FILE *file, int writes) {
    size_t i, moved = 0;
    for (i = 0; i < volume; i++)
        moved += writes ? fwrite(lattice[i].link, sizeof lattice[i].link, 1, file)
                        : fread(lattice[i].link, sizeof lattice[i].link, 1, file);
    if (moved != volume || fclose(file) != 0)
        terminate(2);
}

int main(int argc, char **argv) {
    int x, y, z, t;
    const Real step = atof(argv[8]);
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
    links_and(fopen(argv[1], "rb"), 0);
    stapleflag = atoi(argv[6]), exp_order = atoi(argv[7]), stepsize = step, stoptime = atof(argv[9]);
    local_tol = atof(argv[10]);
    run_gradient_flow();
    links_and(fopen(argv[1], "wb"), 1);
    printf("globals: %d steps, %d rejected, last step %g\n", total_steps, steps_rejected, stepsize);
    stepsize = step, stoptime = 0; /* the links as they are now */
    run_gradient_flow();
    normal_exit(0);
    return 0;
}
