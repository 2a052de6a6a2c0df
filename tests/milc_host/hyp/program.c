/* program FILE nx ny nz nt dir_exclude proj_method hits alpha1 alpha2 alpha3: smears the links of a file and writes
 * them back. */
#include "hvy_qpot_includes.h"

#ifdef ORIGINALS /* MILC's own smearing copies the links and says that it ran */
#include "layout.c"
#include <string.h>

#ifndef MILC_HOST_WITHOUT
void load_hyp_links(su3_matrix *U_link, su3_matrix *hyp_link, int dir_exclude, hyp_coeffs_t *hc) {
    printf("MILC's own smearing: without %d, alpha2 %g\n", dir_exclude, hc->alpha2);
    memcpy(hyp_link, U_link, 4 * volume * sizeof(su3_matrix));
}
#endif

#else
int main(int argc, char **argv) {
    su3_matrix *links, *smeared;
    hyp_coeffs_t hc;
    initialize_machine(&argc, &argv);
    make_lattice(argv + 2);
    links = (su3_matrix *)malloc(4 * volume * sizeof(su3_matrix));
    smeared = (su3_matrix *)calloc(4 * volume, sizeof(su3_matrix));
    links_file(argv[1], "rb", links, 4 * sizeof(su3_matrix));
    hc.proj_method = atoi(argv[7]), hc.hits = atoi(argv[8]);
    hc.alpha1 = atof(argv[9]), hc.alpha2 = atof(argv[10]), hc.alpha3 = atof(argv[11]);
    load_hyp_links(links, smeared, atoi(argv[6]), &hc);
    links_file(argv[1], "wb", smeared, 4 * sizeof(su3_matrix));
    free(links), free(smeared), free(lattice);
    normal_exit(0);
    return 0;
}
#endif
