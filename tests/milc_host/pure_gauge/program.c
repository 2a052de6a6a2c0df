/* program FILE nx ny nz nt what: the links of a file after a trajectory or sweeps (update), in Landau gauge (fix),
 * or reunitarized after all numbers were multiplied (stretched); writes them back. */
#include "../generic/generic_includes.h"

#include "../include/generic_pg.h"
#include <string.h>

static void seed(double_prn *prn, unsigned long index) {
    unsigned long long word = 12345 + 69607 * index, *const registers = (unsigned long long *)&prn->r0;
    int k;
    for (k = 0; k < 7; k++) {
        word = word * 6364136223846793005ull + 1442695040888963407ull;
        registers[k] = word >> 40;
    }
    prn->multiplier = 100005 + 8 * index;
    prn->addend = 12345;
    prn->ic_state = word;
    prn->scale = 1.f / 0x1000000;
}

int main(int argc, char **argv) {
    unsigned long long states = 0;
    size_t i;
    initialize_machine(&argc, &argv);
    make_lattice(argv + 2);
    for (i = 0; i < volume; i++)
        seed(&lattice[i].site_prn, (unsigned long)i);
    links_file(argv[1], "rb", lattice->link, sizeof(site));
    if (strcmp(argv[6], "fix") == 0)
        gaugefix(8, 1.5, 200, 1e-9);
    else if (strcmp(argv[6], "stretched") == 0) {
        for (i = 0; i < 72 * volume; i++)
            ((Real *)lattice[i / 72].link)[i % 72] *= 1 + 1e-6;
        reunitarize_cpu();
    } else
        update();
    for (i = 0; i < volume; i++)
        states = 31 * states + lattice[i].site_prn.ic_state + lattice[i].site_prn.r0;
    printf("generators: %llu\n", states);
    links_file(argv[1], "wb", lattice->link, sizeof(site));
    free(lattice);
    normal_exit(0);
    return 0;
}
