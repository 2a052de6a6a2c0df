/* Compiles in programs that have smeared links for their operators, and MILC's routines as mesons.h has them: the make
 * fragment asks. */
#include "mesons.h"

long milcgpu_mesons_probe(void) {
    long any = ape_links != NULL;
#ifndef MILCGPU_MASTER
    any += ape_links_ks_phases + refresh_ape_links + SHIFT_FORWARD + SHIFT_BACKWARD + SHIFT_SYMMETRIC;
#endif
    return any;
}
