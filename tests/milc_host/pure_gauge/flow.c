/* program FILE nx ny nz nt action exp_order stepsize: two steps of the flow of the links of a file, as in a
 * wilson_flow without run_gradient_flow; writes them back. */
#include "../generic/generic_includes.h"

int main(int argc, char **argv) {
    int step;
    initialize_machine(&argc, &argv);
    make_lattice(argv + 2);
    links_file(argv[1], "rb", lattice->link, sizeof(site));
    stapleflag = atoi(argv[6]), exp_order = atoi(argv[7]), stepsize = atof(argv[8]);
    for (step = 0; step <= 2; step++) {
        double time, space, charge;
        if (step > 0)
            stout_step_rk();
        fmunu_fmunu(&time, &space, &charge);
        printf("WFLOW %g %.16g %.16g %.16g\n", step * stepsize, time, space, charge);
    }
    links_file(argv[1], "wb", lattice->link, sizeof(site));
    normal_exit(0);
    return 0;
}
