/* gaugefix and ape_smear_4D: the links of the sites, as they are (MILC has taken the phases out). The others of APE
 * smearing: any links, in all directions or one. */
#include "site_links.h"

#include "routines.h"

static void compare_links(milcgpu_routine routine, su3_matrix *gpu, su3_matrix *cpu, double seconds,
                          double cpu_seconds) {
    void *ours[1] = {gpu}, *theirs[1] = {cpu};
    milcgpu_judge(milcgpu_plugin_compare_links(routine, 1, ours, theirs, seconds, cpu_seconds));
}

/* A copy of the sites' links with their last places changed. NULL: there is no room, which has been said. */
static su3_matrix *rounded_otherwise(void) {
    const Real rounding = sizeof(Real) == sizeof(float) ? 1.2e-7 : 2.2e-16;
    su3_matrix *const links = copy_of_links();
    size_t k;
    for (k = 0; links != NULL && k < 4 * sites_on_node; k++)
        links[k].e[k % 3][(k / 3) % 3].real += k % 2 == 0 ? rounding : -rounding;
    return links;
}

/* How far rounding moves APE links is found by trying. */
static void compare_ape_links(const milcgpu_ape_spec *spec, su3_matrix *gpu, su3_matrix *cpu, double seconds,
                              double cpu_seconds) {
    su3_matrix *const moved = rounded_otherwise();
    uint64_t not_converged;
    if (!milcgpu_plugin_agreed(moved == NULL) &&
        milcgpu_plugin_ape_smear(milcgpu_field_of(moved), spec, milcgpu_field_of(moved), &not_converged))
        milcgpu_judge(milcgpu_plugin_compare_smeared_links(MILCGPU_APE_SMEAR, gpu, cpu, moved, seconds, cpu_seconds));
    else
        compare_links(MILCGPU_APE_SMEAR, gpu, cpu, seconds, cpu_seconds);
    free(moved);
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
    milcgpu_need(MILCGPU_LINKS, "gaugefix");
    milcgpu_plugin_host_writes(MILCGPU_LINKS);
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
        compare_ape_links(&spec, smeared, theirs, seconds, cpu_seconds);
        free(theirs);
    }
    return smeared;
}

/* ---- APE smearing of any links ----------------------------------------------------------------------------------- */

typedef struct ape {
    void (*own)(const struct ape *);
    su3_matrix *from, *to, *made; /* to: the first that is made */
    size_t from_pitch, to_pitch;  /* bytes from a site to the next */
    int first, last;              /* directions */
    /* MILC's arguments */
    field_offset src, dest;
    Real weight, u0;
    int space_only, hits;
    Real tolerance;
} ape;

/* Without hits MILC's norm has u0 in it. */
static int is_offloaded(const ape *a) {
    return milcgpu_offloads() && a->weight >= 0 && a->hits >= 0 && a->hits <= 10000 && a->tolerance >= 0 &&
           (a->hits > 0 || a->u0 == 1);
}

/* By the device, in all directions. 0: MILC's own is to do it, and to say at how many links the hits did not converge.
 */
static int make_smeared(const ape *a) {
    milcgpu_field from = milcgpu_field_of(a->from);
    milcgpu_ape_spec spec;
    uint64_t not_converged = 0;
    from.pitch_bytes = a->from_pitch;
    memset(&spec, 0, sizeof spec);
    spec.struct_size = sizeof spec;
    spec.weight = a->weight;
    spec.times = 1;
    spec.space_only = a->space_only == 1;
    spec.most_hits = a->hits > 0 ? a->hits : -1;
    spec.tolerance = a->tolerance > 0 ? a->tolerance : -1;
    spec.signs = MILCGPU_SIGNS_OUT;
    return milcgpu_plugin_ape_smear(from, &spec, milcgpu_field_of(a->made), &not_converged) && not_converged == 0;
}

static su3_matrix *asked_for(const ape *a, size_t i) { return (su3_matrix *)((char *)a->to + i * a->to_pitch); }
static size_t asked_bytes(const ape *a) { return (a->last - a->first + 1) * sizeof(su3_matrix); }
static int put_part(void *what, size_t from, size_t to) {
    const ape *a = (const ape *)what;
    size_t i;
    for (i = from; i < to; i++)
        memcpy(asked_for(a, i), a->made + 4 * i + a->first, asked_bytes(a));
    return 0;
}

/* MILC's result is where ours is to be. */
static void compare_smeared(const ape *a, double seconds, double cpu_seconds) {
    const size_t bytes = 4 * sites_on_node * sizeof(su3_matrix);
    su3_matrix *const theirs = (su3_matrix *)milcgpu_spare_room(bytes, "a comparison of links");
    size_t i;
    if (theirs == NULL)
        return;
    memcpy(theirs, a->made, bytes);
    for (i = 0; i < sites_on_node; i++)
        memcpy(theirs + 4 * i + a->first, asked_for(a, i), asked_bytes(a));
    compare_links(MILCGPU_APE_SMEAR, a->made, theirs, seconds, cpu_seconds);
    free(theirs);
}

static void smear(ape a) {
    double seconds = -milcgpu_plugin_seconds(), cpu_seconds;
    int done;
    if (!is_offloaded(&a)) {
        a.own(&a);
        return;
    }
    a.made = (su3_matrix *)milcgpu_room(4 * sites_on_node * sizeof(su3_matrix), "APE links");
    done = make_smeared(&a);
    seconds += milcgpu_plugin_seconds();
    if (!done || milcgpu_plugin_compare()) {
        cpu_seconds = milcgpu_by_milc(MILCGPU_APE_SMEAR, a.own(&a));
        if (done)
            compare_smeared(&a, seconds, cpu_seconds);
    }
    if (done && milcgpu_plugin_by_all_threads(sites_on_node, put_part, &a) < 0)
        put_part(&a, 0, sites_on_node);
    free(a.made);
}

static void own_of_sites(const ape *a) {
    if (a->first == a->last)
        milcgpu_original(ape_smear_dir)(a->src, a->first, a->dest, a->weight, a->u0, a->space_only, a->hits,
                                        a->tolerance);
    else
        milcgpu_original(ape_smear)(a->src, a->dest, a->weight, a->u0, a->space_only, a->hits, a->tolerance);
}
static void smear_sites(field_offset src, int first, int last, field_offset dest, Real weight, Real u0, int space_only,
                        int hits, Real tolerance) {
    const ape a = {own_of_sites,
                   (su3_matrix *)F_PT(lattice, src),
                   (su3_matrix *)F_PT(lattice, dest),
                   NULL,
                   sizeof(site),
                   sizeof(site),
                   first,
                   last,
                   src,
                   dest,
                   weight,
                   u0,
                   space_only,
                   hits,
                   tolerance};
    milcgpu_need(MILCGPU_LINKS, "ape_smear");
    smear(a);
}
void __wrap_ape_smear_dir(field_offset src, int dir1, field_offset dest, Real staple_weight, Real link_u0,
                          int space_only, int nhits, Real tol) {
    smear_sites(src, dir1, dir1, dest, staple_weight, link_u0, space_only, nhits, tol);
}
void __wrap_ape_smear(field_offset src, field_offset dest, Real staple_weight, Real link_u0, int space_only, int nhits,
                      Real tol) {
    smear_sites(src, XUP, TUP, dest, staple_weight, link_u0, space_only, nhits, tol);
}

static void own_of_field(const ape *a) {
    su3_matrix *const to = a->to - a->first;
    if (a->first == a->last)
        milcgpu_original(ape_smear_field_dir)(a->from, a->first, to, a->weight, a->u0, a->space_only, a->hits,
                                              a->tolerance);
    else
        milcgpu_original(ape_smear_field)(a->from, to, a->weight, a->u0, a->space_only, a->hits, a->tolerance);
}
static void smear_field(su3_matrix *src, int first, int last, su3_matrix *dest, Real weight, Real u0, int space_only,
                        int hits, Real tolerance) {
    const size_t pitch = 4 * sizeof(su3_matrix);
    const ape a = {own_of_field, src, dest + first, NULL, pitch,    pitch, first, last, 0, 0,
                   weight,       u0,  space_only,   hits, tolerance};
    smear(a);
}
void __wrap_ape_smear_field_dir(su3_matrix *src, int dir1, su3_matrix *dest, Real staple_weight, Real link_u0,
                                int space_only, int nhits, Real tol) {
    smear_field(src, dir1, dir1, dest, staple_weight, link_u0, space_only, nhits, tol);
}
void __wrap_ape_smear_field(su3_matrix *src, su3_matrix *dest, Real staple_weight, Real link_u0, int space_only,
                            int nhits, Real tol) {
    smear_field(src, XUP, TUP, dest, staple_weight, link_u0, space_only, nhits, tol);
}
