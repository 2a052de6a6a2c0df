/* check_unitarity, reunitarize_cpu, nersc_cksum: after a lattice was read MILC makes a checksum, tests all links,
 * brings them to double precision, and tests them again, on one thread or on threads that wait for each other. Here all
 * threads of the host do it. Where a link fails, MILC's own says which one, and ends the run. */
#include "glue.h"

#include "routines.h"

#define MOST_DEVIATION 1e-4 /* that MILC goes on with */

Real __wrap_check_unitarity(void) {
    double worst = 1;
    if (numnodes() == 1) /* else the ranks of a host share its threads, and have not said yet how */
        worst = milcgpu_plugin_unitarity(lattice[0].link, sizeof(site), sites_on_node, MILC_PRECISION == 2);
    return worst <= MOST_DEVIATION ? (Real)worst : milcgpu_original(check_unitarity)();
}

void __wrap_reunitarize_cpu(void) {
    if (numnodes() > 1 || MILC_PRECISION != 2 ||
        !milcgpu_plugin_make_unitary(lattice[0].link, sizeof(site), sites_on_node))
        milcgpu_original(reunitarize_cpu)();
}

uint32_t __wrap_nersc_cksum(void) {
    uint32_t sum;
    return numnodes() == 1 &&
                   milcgpu_plugin_nersc_sum(lattice[0].link, sizeof(site), sites_on_node, MILC_PRECISION == 2, &sum)
               ? sum
               : milcgpu_original(nersc_cksum)();
}
