/* Compiles in programs whose sites have what molecular dynamics reads: the make fragment asks. */
#include "glue.h"

long milcgpu_md_probe(void) {
    long sum = sizeof lattice[0].mom + sizeof lattice[0].link + phases_in + (fn_links != NULL);
#if FERM_ACTION == HISQ
    sum += n_orders_naik[0] + n_order_naik_total + hisq_svd_counter + hisq_force_filter_counter;
#endif
    return sum;
}
