/* Sets of propagators in ks_spectrum (set_type in its input). MILC solves a set of several sources of one mass colour
 * by colour, in three calls of ks_congrad_block_field. One call with all colours costs less, and MILC has a set type
 * for it.
 *
 * A set of single propagators, which may differ in mass and eps_naik, is solved propagator by propagator, all colours
 * in one call: MILC goes from mass to mass, and so from links to links, for each colour. So is a set of several masses
 * if this costs less than all masses of a colour in one Krylov space (milcgpu_plugin_mass_by_mass), or if there are
 * eigenvectors, as in MILC. If propagators are read as guesses, MILC solves source by source, and the set stays as it
 * is. */
#include "glue.h"

#include "../include/imp_ferm_links.h"
#include <ks_spectrum_includes.h>

#include "routines.h"

static int all_fresh(int propagators, const int *start) {
    int k;
    for (k = 0; k < propagators; k++)
        if (start[k] != FRESH)
            return 0;
    return 1;
}

static int solves_by_cg(enum inv_type inverter) {
    return inverter == UMLTYPE || inverter == CGTYPE || inverter == CGZTYPE;
}

/* Returns the type of set that solves the same systems with all colours together, or the set's own type. */
static enum set_type gathered(enum set_type set, enum inv_type inverter, int propagators, const int *start) {
    if (!all_fresh(propagators, start) || !solves_by_cg(inverter) || (set != MULTISOURCE_SET && set != SINGLES_SET) ||
        (set == SINGLES_SET && propagators != 1))
        return set;
    return milcgpu_offloads() && milcgpu_plugin_gathers() ? MULTICOLORSOURCE_SET : set;
}

/* Otherwise MILC changes the links before and after each set. */
static int links_stay(const Real boundary_phase[4], const int origin[4]) {
    int dir;
#ifdef U1_FIELD /* links are made again for each set */
    return 0;
#endif
    for (dir = 0; dir < 4; dir++)
        if (boundary_phase[dir] != 0 || origin[dir] % 2 != 0)
            return 0;
    return origin[TUP] == 0;
}

/* Whether each propagator of a set is solved by itself. MILC ends the run if the sources of several masses differ.
 * check: 1 if the input says yes. */
static int parts(enum set_type set, enum inv_type inverter, int propagators, const int *start,
                 ks_prop_field *const *sources, const quark_invert_control *control, const ks_param *parameters,
                 int check) {
    double masses[propagators > 0 ? propagators : 1];
    const int single = set == SINGLES_SET && propagators > 1 && solves_by_cg(inverter);
    int k;
    if ((!single && (set != MULTIMASS_SET || inverter != UMLTYPE)) || check != 1 || propagators < 1 ||
        !all_fresh(propagators, start))
        return 0;
    for (k = 0; k < propagators; k++) {
        if ((!single && sources[k] != sources[0]) || control[k].inv_type != inverter)
            return 0;
        masses[k] = parameters[k].mass;
    }
    return milcgpu_offloads() && milcgpu_plugin_gathers() &&
           (single || param.eigen_param.Nvecs > 0 || milcgpu_plugin_mass_by_mass(propagators, masses));
}

int __wrap_solve_ksprop(enum set_type set, enum inv_type inverter, int propagators, int start[],
                        char start_file[][MAXFILENAME], int save[], char save_file[][MAXFILENAME],
                        ks_prop_field *solutions[], ks_prop_field *sources[], quark_source *my_sources[],
                        quark_invert_control control[], ks_param parameters[], Real charge, Real boundary_phase[],
                        int origin[4], int check) {
    const int one_by_one = parts(set, inverter, propagators, start, sources, control, parameters, check) &&
                           links_stay(boundary_phase, origin);
    const int n = one_by_one ? 1 : propagators;
    int first, iterations = 0;
    set = one_by_one ? MULTICOLORSOURCE_SET : gathered(set, inverter, propagators, start);
    for (first = 0; first == 0 || first < propagators; first += n)
        iterations +=
            milcgpu_original(solve_ksprop)(set, inverter, n, start + first, start_file + first, save + first,
                                           save_file + first, solutions + first, sources + first, my_sources + first,
                                           control + first, parameters + first, charge, boundary_phase, origin, check);
    return iterations;
}
