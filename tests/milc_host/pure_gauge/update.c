/* A trajectory of one step, in its own file, as in MILC. */
#include "../generic/generic_includes.h"

#include "../include/generic_pg.h"

int update(void) {
    const Real eps = 0.1;
    ranmom();
    d_action();
    gauge_field_copy(F_OFFSET(link[0]), F_OFFSET(old_link[0]));
    update_u(eps / 2);
    update_h(eps);
    update_u(eps / 2);
    reunitarize_cpu();
    d_action();
    return 1;
}
