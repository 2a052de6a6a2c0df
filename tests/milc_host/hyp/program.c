/* program FILE nx ny nz nt dir_exclude proj_method hits alpha1 alpha2 alpha3: the links of a file, 4 a site in MILC's
 * order, smeared, and back there. */
#include "hvy_qpot_includes.h"

#include "../include/hyp_coeff.h"

static su3_matrix *links_of(const char *name, su3_matrix *links, const char *mode) {
    FILE *const file = fopen(name, mode);
    const size_t n = 4 * volume;
    if ((*mode == 'r' ? fread(links, sizeof *links, n, file) : fwrite(links, sizeof *links, n, file)) != n ||
        fclose(file) != 0)
        terminate(2);
    return links;
}

int main(int argc, char **argv) {
    int x, y, z, t;
    su3_matrix *links, *smeared;
    hyp_coeffs_t hc;
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
    links = links_of(argv[1], (su3_matrix *)malloc(4 * volume * sizeof(su3_matrix)), "rb");
    smeared = (su3_matrix *)calloc(4 * volume, sizeof(su3_matrix));
    hc.proj_method = atoi(argv[7]), hc.hits = atoi(argv[8]);
    hc.alpha1 = atof(argv[9]), hc.alpha2 = atof(argv[10]), hc.alpha3 = atof(argv[11]);
    load_hyp_links(links, smeared, atoi(argv[6]), &hc);
    links_of(argv[1], smeared, "wb");
    free(links), free(smeared), free(lattice);
    normal_exit(0);
    return 0;
}
