/* program FILE nx ny nz nt what: the links of a file after a trajectory (update) or in Landau gauge (fix), and back
 * there. */
#include "../generic/generic_includes.h"

#include "../include/generic_pg.h"
#include <string.h>

int main(int argc, char **argv) {
    initialize_machine(&argc, &argv);
    make_lattice(argv + 2);
    links_file(argv[1], "rb", lattice->link, sizeof(site));
    if (strcmp(argv[6], "fix") == 0)
        gaugefix(8, 1.5, 200, 1e-9);
    else
        update();
    links_file(argv[1], "wb", lattice->link, sizeof(site));
    free(lattice);
    normal_exit(0);
    return 0;
}
