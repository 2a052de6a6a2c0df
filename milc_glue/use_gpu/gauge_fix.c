/* gaugefix and ape_smear_4D: the links of the sites, as they are (MILC has taken the phases out). */
#include "site_links.h"

#include "routines.h"

static void compare_links(milcgpu_routine routine, su3_matrix *gpu, su3_matrix *cpu, double seconds,
                          double cpu_seconds) {
    void *ours[1] = {gpu}, *theirs[1] = {cpu};
    milcgpu_judge(milcgpu_plugin_compare_links(routine, 1, ours, theirs, seconds, cpu_seconds));
}

#define EVERY 20 /* steps: MILC says how far it is, and makes links unitary */

/* A step, as MILC prints it: not the one that it ends at. */
static void say_step(void *tolerance, int step, double mean, double change) {
    const int ends = step != 0 && change < *(Real *)tolerance && -change < *(Real *)tolerance;
    if (step % EVERY != EVERY - 1 || ends)
        return;
    node0_printf("step %d av gf action %.8e, delta %.3e\n", step, mean, change);
    fflush(stdout);
}

void __wrap_gaugefix(int gauge_dir, Real relax_boost, int max_gauge_iter, Real gauge_fix_tol) {
    milcgpu_gauge_fix_spec spec;
    milcgpu_gauge_fix_report report;
    su3_matrix *before = NULL;
    double seconds;
    milcgpu_need(MILCGPU_LINKS | MILCGPU_FERMION_LINKS, "gaugefix");
    if (!milcgpu_offloads() || max_gauge_iter <= 0 || relax_boost < 1) {
        milcgpu_original(gaugefix)(gauge_dir, relax_boost, max_gauge_iter, gauge_fix_tol);
        return;
    }
    if (milcgpu_plugin_compare())
        before = copy_of_links();
    memset(&spec, 0, sizeof spec);
    spec.struct_size = sizeof spec;
    spec.direction = gauge_dir >= XUP && gauge_dir <= TUP ? gauge_dir : MILCGPU_LANDAU;
    spec.boost = relax_boost;
    spec.most_steps = max_gauge_iter;
    spec.tolerance = gauge_fix_tol > 0 ? gauge_fix_tol : -1;
    spec.reunitarize_every = EVERY;
    spec.signs = MILCGPU_SIGNS_OUT;
    spec.progress = say_step;
    spec.user = &gauge_fix_tol;
    memset(&report, 0, sizeof report);
    seconds = -milcgpu_plugin_seconds();
    if (!milcgpu_plugin_gauge_fix(links_of_sites(), &spec, &report)) {
        free(before);
        milcgpu_by_milc(MILCGPU_GAUGE_FIX,
                        milcgpu_original(gaugefix)(gauge_dir, relax_boost, max_gauge_iter, gauge_fix_tol));
        return;
    }
    seconds += milcgpu_plugin_seconds();
    node0_printf("GFIX: Ended at step %d. Av gf action %.8e, delta %.3e\n", report.steps, report.mean, report.change);
    if (before != NULL) {
        su3_matrix *const ours = copy_of_links(), *theirs;
        put_links(before);
        const double cpu_seconds = milcgpu_by_milc(
            MILCGPU_GAUGE_FIX, milcgpu_original(gaugefix)(gauge_dir, relax_boost, max_gauge_iter, gauge_fix_tol));
        theirs = copy_of_links();
        if (ours != NULL && theirs != NULL)
            compare_links(MILCGPU_GAUGE_FIX, ours, theirs, seconds, cpu_seconds);
        if (ours != NULL)
            put_links(ours);
        free(ours), free(theirs);
    }
    free(before);
}

/* With a negative number of iterations MILC makes unit links of a kind. */
su3_matrix *__wrap_ape_smear_4D(Real staple_weight, int iters) {
    milcgpu_ape_spec spec;
    su3_matrix *smeared;
    uint64_t not_converged = 0;
    double seconds = -milcgpu_plugin_seconds();
    milcgpu_need(MILCGPU_LINKS, "ape_smear_4D");
    if (iters < 0 || staple_weight < 0 || !milcgpu_offloads())
        return milcgpu_original(ape_smear_4D)(staple_weight, iters);
    memset(&spec, 0, sizeof spec);
    spec.struct_size = sizeof spec;
    spec.weight = staple_weight;
    spec.times = iters;
    spec.space_only = 1;
    spec.most_hits = 10;
    spec.tolerance = 1e-5;
    spec.signs = MILCGPU_SIGNS_OUT;
    smeared = (su3_matrix *)milcgpu_room(4 * sites_on_node * sizeof(su3_matrix), "APE links"); /* freed by MILC */
    if (!milcgpu_plugin_ape_smear(links_of_sites(), &spec, milcgpu_field_of(smeared), &not_converged)) {
        free(smeared);
        milcgpu_by_milc(MILCGPU_APE_SMEAR, smeared = milcgpu_original(ape_smear_4D)(staple_weight, iters));
        return smeared;
    }
    seconds += milcgpu_plugin_seconds();
    if (not_converged > 0)
        node0_printf("WARNING %lu sites report no convergence in project_su3\n", (unsigned long)not_converged);
    node0_printf("Time to APE smear %e sec\n", seconds);
    if (milcgpu_plugin_compare()) {
        su3_matrix *theirs;
        const double cpu_seconds =
            milcgpu_by_milc(MILCGPU_APE_SMEAR, theirs = milcgpu_original(ape_smear_4D)(staple_weight, iters));
        compare_links(MILCGPU_APE_SMEAR, smeared, theirs, seconds, cpu_seconds);
        free(theirs);
    }
    return smeared;
}
