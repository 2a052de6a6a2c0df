/* Sets of propagators of ks_spectrum (set_type in its input). MILC solves a set of several sources of one mass colour
 * by colour, three calls of ks_congrad_block_field; all colours in one call cost less, and it has a set type for that.
 * Compiles in programs that have that set type: the make fragment asks.
 *
 * Not for sets of several masses: one call has all masses of a source already. Not where propagators are read as
 * guesses: MILC then solves source by source. */
#include "glue.h"
#include <ks_spectrum_includes.h>

typedef int solve_set(enum set_type, enum inv_type, int, int[], char[][MAXFILENAME], int[], char[][MAXFILENAME],
                      ks_prop_field *[], ks_prop_field *[], quark_source *[], quark_invert_control[], ks_param[], Real,
                      Real[], int[4], int);
solve_set __real_solve_ksprop MILCGPU_ORIGINAL;
solve_set __wrap_solve_ksprop;

/* The set with all colours of its sources that does the same, or the set itself. */
static enum set_type gathered(enum set_type set, enum inv_type inverter, int propagators, const int *start) {
    int k;
    for (k = 0; k < propagators; k++)
        if (start[k] != FRESH)
            return set;
    if ((inverter != UMLTYPE && inverter != CGTYPE) || (set != MULTISOURCE_SET && set != SINGLES_SET) ||
        (set == SINGLES_SET && propagators != 1))
        return set;
    return milcgpu_takes_over() && milcgpu_plugin_gathers() ? MULTICOLORSOURCE_SET : set;
}

int __wrap_solve_ksprop(enum set_type set, enum inv_type inverter, int propagators, int start[],
                        char start_file[][MAXFILENAME], int save[], char save_file[][MAXFILENAME],
                        ks_prop_field *solutions[], ks_prop_field *sources[], quark_source *my_sources[],
                        quark_invert_control control[], ks_param parameters[], Real charge, Real boundary_phase[],
                        int origin[4], int check) {
    return __real_solve_ksprop(gathered(set, inverter, propagators, start), inverter, propagators, start, start_file,
                               save, save_file, solutions, sources, my_sources, control, parameters, charge,
                               boundary_phase, origin, check);
}
