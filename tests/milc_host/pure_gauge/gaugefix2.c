/* MILC's own routines, of all targets, say that they ran. */
#include "../generic/generic_includes.h"

void gaugefix(int gauge_dir, Real relax_boost, int max_gauge_iter, Real gauge_fix_tol) {
    printf("MILC's own gaugefix, %d %g %d %g\n", gauge_dir, relax_boost, max_gauge_iter, gauge_fix_tol);
}
void reunitarize_cpu(void) { printf("MILC's own reunitarize_cpu\n"); }
