/* gaugefix and ape_smear_4D: the links of the sites, without phases, which MILC has taken out. The other APE routines:
 * any links, in all directions or one. */
#include "site_links.h"

#include "routines.h"

/* A copy of the sites' links with their last digits changed. NULL: no room, after a line in the log. */
static su3_matrix *rounded_otherwise(void) {
    const Real rounding = sizeof(Real) == sizeof(float) ? 1.2e-7 : 2.2e-16;
    su3_matrix *const links = copy_of_links();
    size_t k;
    for (k = 0; links != NULL && k < 4 * sites_on_node; k++)
        links[k].e[k % 3][(k / 3) % 3].real += k % 2 == 0 ? rounding : -rounding;
    return links;
}

/* A trial finds how far rounding moves APE links. */
static int compare_ape_links(const milcgpu_call *call) {
    void *ours[1] = {*(su3_matrix **)call->outputs[0].data}, *theirs[1] = {*(su3_matrix **)call->outputs[0].theirs};
    const milcgpu_ape_spec *const spec = (const milcgpu_ape_spec *)call->details;
    su3_matrix *const moved = rounded_otherwise();
    uint64_t not_converged;
    const int good =
        !milcgpu_plugin_agreed(moved == NULL) &&
                milcgpu_plugin_ape_smear(milcgpu_field_of(moved), spec, milcgpu_field_of(moved), &not_converged)
            ? milcgpu_plugin_compare_smeared_links(call->row, ours[0], theirs[0], moved, call->seconds,
                                                   call->cpu_seconds)
            : milcgpu_plugin_compare_links(call->row, 1, ours, theirs, call->seconds, call->cpu_seconds);
    free(moved);
    free(theirs[0]);
    return good;
}

#define EVERY 20 /* steps from one of MILC's lines, and reunitarizations, to the next */

/* Prints a step as MILC does, except the last one. */
static void say_step(void *tolerance, int step, double mean, double change) {
    const int ends = step != 0 && change < *(Real *)tolerance && -change < *(Real *)tolerance;
    if (step % EVERY != EVERY - 1 || ends)
        return;
    node0_printf("step %d av gf action %.8e, delta %.3e\n", step, mean, change);
    fflush(stdout);
}

static int fix_gauge(const milcgpu_gauge_fix_spec *spec) {
    milcgpu_gauge_fix_report report;
    memset(&report, 0, sizeof report);
    if (!milcgpu_plugin_gauge_fix(links_of_sites(), spec, &report))
        return 0;
    node0_printf("GFIX: Ended at step %d. Av gf action %.8e, delta %.3e\n", report.steps, report.mean, report.change);
    return 1;
}

void __wrap_gaugefix(int gauge_dir, Real relax_boost, int max_gauge_iter, Real gauge_fix_tol) {
    milcgpu_gauge_fix_spec spec;
    milcgpu_output links = output_of_links();
    milcgpu_call call =
        MILCGPU_MEMBERS(.row = MILCGPU_GAUGE_FIX, .name = "gaugefix", .needs = MILCGPU_LINKS, .writes = MILCGPU_LINKS,
                        .outputs = &links, .n_outputs = 1, .compare = compare_site_links);
    call.why_own = max_gauge_iter <= 0 ? "MILC's own: no iterations are allowed"
                   : relax_boost < 1   ? "MILC's own: the boost is below 1"
                                       : NULL;
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
    milcgpu_offload(&call, fix_gauge(&spec),
                    milcgpu_original(gaugefix)(gauge_dir, relax_boost, max_gauge_iter, gauge_fix_tol));
}

/* MILC frees the links. */
static int make_ape_links(const milcgpu_call *call, const milcgpu_ape_spec *spec, su3_matrix **smeared) {
    su3_matrix *const links = (su3_matrix *)milcgpu_room(4 * sites_on_node * sizeof(su3_matrix), "APE links");
    uint64_t not_converged = 0;
    if (!milcgpu_plugin_ape_smear(links_of_sites(), spec, milcgpu_field_of(links), &not_converged)) {
        free(links);
        return 0;
    }
    *smeared = links;
    if (not_converged > 0)
        node0_printf("WARNING %lu sites report no convergence in project_su3\n", (unsigned long)not_converged);
    node0_printf("Time to APE smear %e sec\n", milcgpu_seconds_so_far(call));
    return 1;
}

static milcgpu_ape_spec ape_spec(Real weight, int times, int space_only, int most_hits, double tolerance) {
    milcgpu_ape_spec spec;
    memset(&spec, 0, sizeof spec);
    spec.struct_size = sizeof spec;
    spec.weight = weight;
    spec.times = times;
    spec.space_only = space_only;
    spec.most_hits = most_hits;
    spec.tolerance = tolerance;
    spec.signs = MILCGPU_SIGNS_OUT;
    return spec;
}

su3_matrix *__wrap_ape_smear_4D(Real staple_weight, int iters) {
    const milcgpu_ape_spec spec = ape_spec(staple_weight, iters, 1, 10, 1e-5);
    su3_matrix *smeared = NULL;
    milcgpu_output output[] = {MILCGPU_MEMORY(&smeared, sizeof smeared)};
    milcgpu_call call = MILCGPU_MEMBERS(.row = MILCGPU_APE_SMEAR, .name = "ape_smear_4D", .needs = MILCGPU_LINKS,
                                        MILCGPU_OUTPUTS(output), .compare = compare_ape_links, .details = &spec);
    call.why_own = iters < 0           ? "MILC's own: the number of iterations is negative, which stands for unit links"
                   : iters == 0        ? "MILC's own: there are no iterations"
                   : staple_weight < 0 ? "MILC's own: the weight is negative"
                                       : NULL;
    milcgpu_offload(&call, make_ape_links(&call, &spec, &smeared),
                    smeared = milcgpu_original(ape_smear_4D)(staple_weight, iters));
    return smeared;
}

/* ---- APE smearing of any links ----------------------------------------------------------------------------------- */

typedef struct {
    su3_matrix *from, *to;       /* to: the first link that is written */
    size_t from_pitch, to_pitch; /* bytes from one site to the next */
    int first, last;             /* directions */
    Real weight, u0;
    int space_only, hits;
    Real tolerance;
    su3_matrix *made; /* the device's links, in all directions */
} ape_smearing;

/* Without hits, u0 enters MILC's normalization. */
static const char *why_own_smearing(const ape_smearing *a) {
    return a->weight < 0                    ? "MILC's own: the weight is negative"
           : a->hits < 0 || a->hits > 10000 ? "MILC's own: the number of hits is not from 0 to 10000"
           : a->tolerance < 0               ? "MILC's own: the tolerance is negative"
           : a->hits == 0 && a->u0 != 1     ? "MILC's own: there are no hits, and u0 is not 1"
                                            : NULL;
}

static su3_matrix *asked_for(const ape_smearing *a, size_t i) {
    return (su3_matrix *)((char *)a->to + i * a->to_pitch);
}
static size_t asked_bytes(const ape_smearing *a) { return (a->last - a->first + 1) * sizeof(su3_matrix); }
static int put_part(void *what, size_t from, size_t to) {
    const ape_smearing *a = (const ape_smearing *)what;
    size_t i;
    for (i = from; i < to; i++)
        memcpy(asked_for(a, i), a->made + 4 * i + a->first, asked_bytes(a));
    return 0;
}

/* If the hits do not converge at a link, MILC's own routine does it, and prints how many did not. */
static int smear(ape_smearing *a) {
    const milcgpu_ape_spec spec =
        ape_spec(a->weight, 1, a->space_only == 1, a->hits > 0 ? a->hits : -1, a->tolerance > 0 ? a->tolerance : -1);
    milcgpu_field from = milcgpu_field_of(a->from);
    uint64_t not_converged = 0;
    a->made = (su3_matrix *)milcgpu_room(4 * sites_on_node * sizeof(su3_matrix), "APE links");
    from.pitch_bytes = a->from_pitch;
    if (!milcgpu_plugin_ape_smear(from, &spec, milcgpu_field_of(a->made), &not_converged) || not_converged != 0)
        return 0;
    if (milcgpu_plugin_by_all_threads(sites_on_node, put_part, a) < 0)
        put_part(a, 0, sites_on_node);
    return 1;
}

static int compare_smearings(const milcgpu_call *call) {
    const ape_smearing *const a = (const ape_smearing *)call->details;
    const size_t bytes = 4 * sites_on_node * sizeof(su3_matrix);
    void *ours[1] = {a->made}, *theirs[1] = {milcgpu_spare_room(bytes, "a comparison of links")};
    size_t i;
    int good = 1;
    if (theirs[0] == NULL)
        return good;
    memcpy(theirs[0], a->made, bytes);
    for (i = 0; i < sites_on_node; i++)
        memcpy((su3_matrix *)theirs[0] + 4 * i + a->first, (char *)call->outputs[0].theirs + i * asked_bytes(a),
               asked_bytes(a));
    good = milcgpu_plugin_compare_links(call->row, 1, ours, theirs, call->seconds, call->cpu_seconds);
    free(theirs[0]);
    return good;
}

static milcgpu_output output_of(const ape_smearing *a) {
    const milcgpu_output output = {a->to, asked_bytes(a), sites_on_node, a->to_pitch, NULL};
    return output;
}
#define OFFLOAD_SMEARING(a, routine, fields, original)                                                                 \
    do {                                                                                                               \
        milcgpu_output output[] = {output_of(a)};                                                                      \
        milcgpu_call call = MILCGPU_MEMBERS(.row = MILCGPU_APE_SMEAR, .name = routine, .needs = fields,                \
                                            .why_own = why_own_smearing(a), MILCGPU_OUTPUTS(output),                   \
                                            .compare = compare_smearings, .details = a);                               \
        milcgpu_offload(&call, smear(a), original);                                                                    \
        free((a)->made);                                                                                               \
    } while (0)

void __wrap_ape_smear_dir(field_offset src, int dir1, field_offset dest, Real staple_weight, Real link_u0,
                          int space_only, int nhits, Real tol) {
    const size_t pitch = sizeof(site);
    su3_matrix *const from = (su3_matrix *)F_PT(lattice, src), *const to = (su3_matrix *)F_PT(lattice, dest);
    ape_smearing a = {from, to, pitch, pitch, dir1, dir1, staple_weight, link_u0, space_only, nhits, tol, NULL};
    OFFLOAD_SMEARING(&a, "ape_smear", MILCGPU_LINKS,
                     milcgpu_original(ape_smear_dir)(src, dir1, dest, staple_weight, link_u0, space_only, nhits, tol));
}
void __wrap_ape_smear(field_offset src, field_offset dest, Real staple_weight, Real link_u0, int space_only, int nhits,
                      Real tol) {
    const size_t pitch = sizeof(site);
    su3_matrix *const from = (su3_matrix *)F_PT(lattice, src), *const to = (su3_matrix *)F_PT(lattice, dest);
    ape_smearing a = {from, to, pitch, pitch, XUP, TUP, staple_weight, link_u0, space_only, nhits, tol, NULL};
    OFFLOAD_SMEARING(&a, "ape_smear", MILCGPU_LINKS,
                     milcgpu_original(ape_smear)(src, dest, staple_weight, link_u0, space_only, nhits, tol));
}
void __wrap_ape_smear_field_dir(su3_matrix *src, int dir1, su3_matrix *dest, Real staple_weight, Real link_u0,
                                int space_only, int nhits, Real tol) {
    const size_t pitch = 4 * sizeof(su3_matrix);
    ape_smearing a = {src, dest + dir1, pitch, pitch, dir1, dir1, staple_weight, link_u0, space_only, nhits, tol, NULL};
    OFFLOAD_SMEARING(
        &a, "ape_smear_field", 0,
        milcgpu_original(ape_smear_field_dir)(src, dir1, dest, staple_weight, link_u0, space_only, nhits, tol));
}
void __wrap_ape_smear_field(su3_matrix *src, su3_matrix *dest, Real staple_weight, Real link_u0, int space_only,
                            int nhits, Real tol) {
    const size_t pitch = 4 * sizeof(su3_matrix);
    ape_smearing a = {src, dest, pitch, pitch, XUP, TUP, staple_weight, link_u0, space_only, nhits, tol, NULL};
    OFFLOAD_SMEARING(&a, "ape_smear_field", 0,
                     milcgpu_original(ape_smear_field)(src, dest, staple_weight, link_u0, space_only, nhits, tol));
}
