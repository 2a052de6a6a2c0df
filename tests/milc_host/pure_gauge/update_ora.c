/* Sweeps, in their own file, as in MILC. */
#include "../generic/generic_includes.h"

#include "../include/generic_pg.h"

int update(void) {
    relax(2);
    monte(2);
    return 1;
}
