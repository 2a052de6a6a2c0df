/* Solves for a set of propagators like MILC's: calls for one source, for the sources of a colour, or for all, on
 * even sites alone. And for several masses of a source, on both parities. */
#include "../generic_ks/generic_ks_includes.h"
#include "../include/fermion_links.h"
#include "../include/imp_ferm_links.h"
#include "checks.h"
#include "ks_spectrum_includes.h"
#include "plugin.h"
#include "test_hooks.h"
#include <math.h>

fn_links_t *set_links;
double condensate[most_condensates];
long drawn_for_first;
enum set_type solved_set; /* the set type of the last call */

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

void f_meas_imp_field(int npbp_reps, quark_invert_control *qic, Real mass, int naik_term_epsilon_index,
                      fermion_links_t *fl) {
    size_t i;
    int rep, c;
    (void)naik_term_epsilon_index, (void)fl;
    for (rep = 0; rep < npbp_reps; rep++) {
        su3_vector *source = (su3_vector *)calloc(sites_on_node, sizeof(su3_vector)),
                   *x = (su3_vector *)calloc(sites_on_node, sizeof(su3_vector));
        grsource_plain_field(source, EVENANDODD);
        drawn_for_first = rep == 0 ? lattice[0].site_prn.drawn : drawn_for_first;
        mat_invert_uml_field(source, x, qic, mass, set_links);
        condensate[rep] = 0;
        for (i = 0; i < sites_on_node; i++)
            for (c = 0; c < 3; c++)
                condensate[rep] += source[i].c[c].real * x[i].c[c].real + source[i].c[c].imag * x[i].c[c].imag;
        node0_printf("PBP: mass %e %e ( %d of %d )\n", mass, condensate[rep], rep + 1, npbp_reps);
        free(source), free(x);
    }
}

/* The shared iteration, a refinement for each mass, and M^dag of each solution. */
int mat_invert_multi(su3_vector *src, su3_vector **dst, ks_param *ksp, int num_masses, quark_invert_control *qic,
                     links_multi fn_multi) {
    int i, parity, iterations = 0;
    for (i = 0; i < num_masses; i++)
        ksp[i].offset = 4 * ksp[i].mass * ksp[i].mass;
    for (parity = EVEN; parity >= ODD; parity--) {
        for (i = 0; i < num_masses; i++)
            qic[i].parity = parity;
        iterations += ks_multicg_offset_field_cpu(src, dst, ksp, num_masses, qic, OF_MASS(fn_multi, 0));
        for (i = 0; i < num_masses; i++)
            iterations += ks_congrad_parity_cpu(src, dst[i], &qic[i], 0.5 * sqrt(ksp[i].offset), OF_MASS(fn_multi, i));
    }
    if (getenv("MILC_HOST_LOSE_SOLUTIONS") != NULL)
        milcgpu_plugin_inject_fault(MILCGPU_FAULT_DEVICE_LOST);
    for (i = 0; i < num_masses; i++)
        ks_dirac_adj_op_inplace(dst[i], ksp[i].mass, EVENANDODD, OF_MASS(fn_multi, i));
    return iterations;
}
