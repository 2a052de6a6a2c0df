/* Solves for a set of propagators as MILC does: calls for one source, for the sources of a colour, or for all. On even
 * sites, which is enough here. */
#include "../generic_ks/generic_ks_includes.h"
#include "../include/fermion_links.h"
#include "ks_spectrum_includes.h"

fn_links_t *set_links;    /* that it solves with */
enum set_type solved_set; /* the set type that it was last called with */

int solve_ksprop(enum set_type set_type, enum inv_type inv_type, int num_prop, int startflag[],
                 char startfile[][MAXFILENAME], int saveflag[], char savefile[][MAXFILENAME], ks_prop_field *ksprop[],
                 ks_prop_field *source[], quark_source *my_ksqs[], quark_invert_control my_qic[], ks_param my_ksp[],
                 Real charge, Real bdry_phase[], int r0[4], int check) {
    const int colors = source[0]->nc, all = set_type == MULTICOLORSOURCE_SET;
    su3_vector *src[colors * num_prop], *dst[colors * num_prop];
    int color, j, iterations = 0;
    solved_set = set_type;
    for (color = 0; color < colors; color++)
        for (j = 0; j < num_prop; j++) {
            src[num_prop * color + j] = source[j]->v[color];
            dst[num_prop * color + j] = ksprop[j]->v[color];
        }
    for (j = 0; j < (all ? 1 : colors); j++)
        iterations += ks_congrad_block_parity_cpu(all ? colors * num_prop : num_prop, src + j * num_prop,
                                                  dst + j * num_prop, my_qic, my_ksp[0].mass, set_links);
    return iterations;
}
