/* mat_invert_field, mat_invert_uml_field, mat_invert_block, ks_dirac_adj_op_inplace; on master (MILCGPU_MILC 1)
 * mat_invert_cg_field, mat_invert_uml_field, mat_invert_block_uml, ks_dirac_adj_op_inplace; mat_invert_multi. These
 * solve M x = b by solves of M^dag M on both parities, or mass by mass. The device does all steps between MILC's
 * solves, so source and guess are copied to it once, and the solution is copied back once. Lines, counters and
 * quark_invert_control are what MILC's routine gives with the solves of solve.c.
 *
 * A deflated solve starts from MILC's guess and removes the part of the residual in the space of the eigenvectors
 * (eigen.c), on the even sites. The odd sites then follow from the even sites, as in UML; this holds for CG, too. CGZ
 * deflates the odd sites with their own eigenvectors.
 *
 * inv_type MG is not done here: MILC's routine then calls the solves of solve.c. */
#include "eigen.h"
#include "random.h"
#include "solve_call.h"

#include <string.h>

#include "routines.h"

#if MILCGPU_MILC == 1
#define MILCGPU_IS_MASTER 1 /* no titles; for CG, final_iters has only the odd sites' iterations */
#define own_cg_field milcgpu_original(mat_invert_cg_field)
#else
#define MILCGPU_IS_MASTER 0
#define own_cg_field milcgpu_there(mat_invert_cg_field)
#endif
#if MILCGPU_MILC >= 3 /* the links of all masses, or of each mass */
typedef imp_ferm_links_t *milcgpu_links_multi;
#define links_of_mass(fn_multi, i) (fn_multi)
#else
typedef imp_ferm_links_t **milcgpu_links_multi;
#define links_of_mass(fn_multi, i) (fn_multi)[i]
#endif

/* A program without MILC's routines above has none of these, either. */
#pragma weak param

/* How MILC solves. by_cg: each parity starts from the guess. by_uml: the odd sites start from what follows from the
 * even sites. by_cgz: each parity starts from zero, and solves for b in place of M^dag b. */
enum way { by_cg, by_uml, by_cgz };

static size_t field_bytes(void) { return sites_on_node * sizeof(su3_vector); }

/* M x = b for n sources, as one of MILC's routines requests it. */
typedef struct {
    int n;
    su3_vector **src, **dst;
    quark_invert_control *qic;
    Real mass;
    imp_ferm_links_t *fn;
    enum way way;
    const char *title; /* MILC's first line; NULL: no line */
    milcgpu_plugin_invert_call call;
    milcgpu_solve_report *even, *odd; /* n of them */
    int iterations;                   /* of all sources */
} inversion;

/* Without a tolerance, MILC's own routines end at once or, for several masses, at the limit. */
static const char *why_own(const quark_invert_control *qic, enum way way, Real mass, const imp_ferm_links_t *fn) {
#if EIGMODE == EIGCG
    if (way == by_uml || (param.eigen_param.Nvecs > 0 && qic->deflate))
        return "MILC's own: eigCG";
#endif
    return !milcgpu_has_tolerance(qic->resid, qic->relresid) ? MILCGPU_NO_TOLERANCE
           : fn == NULL                                      ? MILCGPU_NO_LINKS
           : way == by_uml && mass == 0                      ? "MILC's own: the mass is 0"
           : way == by_cgz && milcgpu_offloads() && milcgpu_plugin_compare()
               ? "MILC's own in compare mode: its solves are compared one by one"
               : NULL;
}

/* One of several sources, with MILC's solution for it. */
typedef struct {
    inversion *all;
    int k, cpu_iterations;
    su3_vector *normal; /* M^dag of the source */
} one_source;

static int compare(const milcgpu_call *call) {
    const one_source *const s = (const one_source *)call->details;
    const inversion *const v = s->all;
    milcgpu_plugin_solve_call one = v->call.solve;
    if (s->normal == NULL)
        return 1;
    one.source = milcgpu_vector_field(s->normal);
    one.solution = milcgpu_vector_field(v->dst[s->k]);
    return milcgpu_plugin_compare_invert(&one, v->n, v->even[s->k].iterations + v->odd[s->k].iterations, call->seconds,
                                         milcgpu_vector_field((const su3_vector *)call->outputs[0].theirs),
                                         s->cpu_iterations, call->cpu_seconds);
}

static void invert_by_milc(one_source *s, quark_invert_control qic) {
    const inversion *const v = s->all;
    s->normal = milcgpu_copy_of(v->src[s->k]);
    if (s->normal == NULL)
        return;
    milcgpu_eigenvectors_for_milc(&qic);
    milcgpu_there(ks_dirac_adj_op)(v->src[s->k], s->normal, v->mass, EVENANDODD, v->fn);
    s->cpu_iterations = v->way == by_uml
                            ? milcgpu_original(mat_invert_uml_field)(v->src[s->k], v->dst[s->k], &qic, v->mass, v->fn)
                            : own_cg_field(v->src[s->k], v->dst[s->k], &qic, v->mass, v->fn);
}

/* Returns 1 if it is done. 0: no field was written. */
static int solve(inversion *v) {
    const int n = v->n, deflated = milcgpu_has_eigenvectors(v->qic, v->way == by_cgz);
    milcgpu_plugin_invert_call *const call = &v->call;
    milcgpu_field sources[n], solutions[n];
    int k, done;
    for (k = 0; k < n; k++) {
        sources[k] = milcgpu_vector_field(v->src[k]);
        solutions[k] = milcgpu_vector_field(v->dst[k]);
    }
    call->solve = milcgpu_solve_call(MILCGPU_MAT_INVERT, sources[0], solutions[0], v->qic, v->mass, v->fn);
    call->solve.deflate = deflated ? MILCGPU_DEFLATED_BY_MILCS : MILCGPU_UNDEFLATED;
    call->odd_from_even = v->way == by_uml || (v->way == by_cg && deflated && v->mass != 0);
    call->adjoint_last = v->way == by_cgz;
    call->n = n;
    call->sources = sources;
    call->solutions = solutions;
    done = milcgpu_plugin_invert(call, v->even, v->odd) ||
           (milcgpu_fill_links() && milcgpu_offloads() && milcgpu_plugin_invert(call, v->even, v->odd));
    call->sources = call->solutions = NULL;
    return done;
}

/* Prints MILC's lines and counts, for n sources from number `first` on. */
static int account(const inversion *v, int first, int n) {
    int iterations, even_iterations;
    if (v->title != NULL && !MILCGPU_IS_MASTER)
        node0_printf(v->title, v->mass);
    iterations = milcgpu_account_parity(EVEN, n, v->even + first, v->qic);
    even_iterations = v->qic->final_iters;
    iterations += milcgpu_account_parity(ODD, n, v->odd + first, v->qic);
    if (!MILCGPU_IS_MASTER || v->way == by_uml)
        v->qic->final_iters += even_iterations;
    return iterations;
}

static int solve_and_account(inversion *v) {
    if (!solve(v))
        return 0;
    v->iterations = account(v, 0, v->n);
    return 1;
}

/* Returns 1 if it is done. 0: nothing was printed, and no field written. why: why MILC's own routine does it; NULL:
 * why_own() decides. */
static int invert(inversion v, const char *why, int *iterations) {
    const quark_invert_control asked = *v.qic;
    const int n = v.n > 0 ? v.n : 1;
    milcgpu_solve_report even[n], odd[n];
    milcgpu_call calls[n];
    milcgpu_output outputs[n][2];
    one_source sources[n];
    int k;
    v.even = even;
    v.odd = odd;
    if (why == NULL)
        why = v.n < 1 ? "MILC's own: there are no sources" : why_own(v.qic, v.way, v.mass, v.fn);
    if (milcgpu_declines(MILCGPU_MAT_INVERT, why))
        return 0;
    for (k = 0; k < n; k++) {
        const one_source source = {&v, k, 0, NULL};
        const milcgpu_output solution = MILCGPU_MEMORY(v.dst[k], field_bytes()),
                             counter = MILCGPU_MEMORY(&total_iters, sizeof total_iters);
        const milcgpu_call call =
            MILCGPU_MEMBERS(.row = MILCGPU_MAT_INVERT, .name = "mat_invert", .outputs = outputs[k], .n_outputs = 2,
                            .compare = compare, .details = &sources[k], .only_compared = 1);
        sources[k] = source;
        outputs[k][0] = solution;
        outputs[k][1] = counter;
        calls[k] = call;
    }
    milcgpu_offload_each(calls, n, k, solve_and_account(&v), invert_by_milc(&sources[k], asked));
    for (k = 0; k < n; k++)
        free(sources[k].normal);
    *iterations = v.iterations;
    return calls[0].done;
}

/* Sets iterations by MILC's own routine with `qic`, which deflates with eigVec. */
#define by_milc(qic, iterations, call)                                                                                 \
    do {                                                                                                               \
        const int told_not_to = milcgpu_eigenvectors_for_milc(qic);                                                    \
        iterations = call;                                                                                             \
        (qic)->deflate |= told_not_to;                                                                                 \
    } while (0)

static const char uml_title[] = "UML inversion with mass %f\n";

/* ---- random sources of a condensate ------------------------------------------------------------------------------ */

/* f_meas_imp_field draws one random source after the other, and solves M x = b for each. No source depends on a
 * solution, and nothing else draws random numbers in between. So the later sources are drawn with the first one, in
 * MILC's order, and one call solves for all. MILC's lines are printed when it requests each solution. */
enum { most_ahead = 12 };
static struct {
    int left;     /* sources that are not drawn yet */
    int n, asked; /* drawn sources: how many; how many MILC has requested */
    int solved;   /* 0: not yet; -1: by MILC's own routine */
    Real mass;
    su3_vector *source[most_ahead], *solution[most_ahead];
    milcgpu_solve_report even[most_ahead], odd[most_ahead];
} ahead;

static void end_of_ahead(void) {
    int k;
    for (k = 0; k < ahead.n; k++)
        free(ahead.source[k]), free(ahead.solution[k]);
    ahead.n = ahead.asked = ahead.solved = 0;
}

/* Draws none if a rank has no room. */
static void draw_those_that_follow(void (*draw)(su3_vector *, int)) {
    int k, is_short = 0;
    end_of_ahead();
    ahead.n = ahead.left < most_ahead ? ahead.left : most_ahead;
    for (k = 0; k < ahead.n; k++) {
        ahead.source[k] = (su3_vector *)milcgpu_try_room(field_bytes(), "random sources");
        ahead.solution[k] = (su3_vector *)milcgpu_try_room(field_bytes(), "solutions of random sources");
        is_short = is_short || ahead.source[k] == NULL || ahead.solution[k] == NULL;
    }
    if (milcgpu_plugin_agreed(is_short)) {
        end_of_ahead();
        ahead.left = 0;
        return;
    }
    for (k = 0; k < ahead.n; k++) {
        draw(ahead.source[k], EVENANDODD);
        memset(ahead.solution[k], 0, field_bytes());
    }
    ahead.left -= ahead.n;
}

static int from_ahead(su3_vector *to, int parity, void (*draw)(su3_vector *, int)) {
    if (parity != EVENANDODD)
        return 0;
    if (ahead.asked == ahead.n && ahead.left > 0)
        draw_those_that_follow(draw);
    if (ahead.asked == ahead.n)
        return 0;
    memcpy(to, ahead.source[ahead.asked++], field_bytes());
    return 1;
}

static int is_zero(const su3_vector *x) {
    const Real *reals = (const Real *)x;
    size_t k, n = field_bytes() / sizeof(Real);
    for (k = 0; k < n; k++)
        if (reals[k] != 0)
            return 0;
    return 1;
}

/* Returns 1 if MILC requests the solution for the source that it received last. */
static int solved_ahead(su3_vector *src, su3_vector *dst, quark_invert_control *qic, Real mass, imp_ferm_links_t *fn,
                        int *iterations) {
    const int k = ahead.asked - 1;
    inversion all = MILCGPU_MEMBERS(.n = ahead.n, .src = ahead.source, .dst = ahead.solution, .qic = qic, .mass = mass,
                                    .fn = fn, .way = by_uml, .title = uml_title, .even = ahead.even, .odd = ahead.odd);
    if (k < 0 || ahead.n < 2 || ahead.solved < 0 || why_own(qic, by_uml, mass, fn) != NULL || !milcgpu_offloads() ||
        milcgpu_plugin_agreed(!is_zero(dst) || memcmp(src, ahead.source[k], field_bytes()) != 0))
        return 0;
    if (ahead.solved == 0) {
        ahead.mass = mass;
        ahead.solved = solve(&all) ? 1 : -1;
    }
    if (ahead.solved < 0 || ahead.mass != mass)
        return 0;
    memcpy(dst, ahead.solution[k], field_bytes());
    *iterations = account(&all, k, 1);
    return 1;
}

void __wrap_f_meas_imp_field(int npbp_reps, quark_invert_control *qic, Real mass, int naik_term_epsilon_index,
                             fermion_links_t *fl) {
    if (npbp_reps > 1 && milcgpu_offloads() && milcgpu_plugin_gathers() && !milcgpu_plugin_compare()) {
        ahead.left = npbp_reps;
        milcgpu_drawn_ahead = from_ahead;
    }
    milcgpu_original(f_meas_imp_field)(npbp_reps, qic, mass, naik_term_epsilon_index, fl);
    milcgpu_drawn_ahead = NULL;
    ahead.left = 0;
    end_of_ahead();
}

int __wrap_mat_invert_uml_field(su3_vector *src, su3_vector *dst, quark_invert_control *qic, Real mass,
                                imp_ferm_links_t *fn) {
    const inversion v = MILCGPU_MEMBERS(.n = 1, .src = &src, .dst = &dst, .qic = qic, .mass = mass, .fn = fn,
                                        .way = by_uml, .title = uml_title);
    int iterations;
    if (!solved_ahead(src, dst, qic, mass, fn, &iterations) && !invert(v, NULL, &iterations))
        by_milc(qic, iterations, milcgpu_original(mat_invert_uml_field)(src, dst, qic, mass, fn));
    return iterations;
}

#if MILCGPU_MILC == 1
int __wrap_mat_invert_cg_field(su3_vector *src, su3_vector *dst, quark_invert_control *qic, Real mass,
                               imp_ferm_links_t *fn) {
    const inversion v =
        MILCGPU_MEMBERS(.n = 1, .src = &src, .dst = &dst, .qic = qic, .mass = mass, .fn = fn, .way = by_cg);
    int iterations;
    if (!invert(v, NULL, &iterations))
        by_milc(qic, iterations, milcgpu_original(mat_invert_cg_field)(src, dst, qic, mass, fn));
    return iterations;
}

int __wrap_mat_invert_block_uml(su3_vector **src, su3_vector **dst, Real mass, int nsrc, quark_invert_control *qic,
                                imp_ferm_links_t *fn) {
    const inversion v =
        MILCGPU_MEMBERS(.n = nsrc, .src = src, .dst = dst, .qic = qic, .mass = mass, .fn = fn, .way = by_uml);
    int iterations;
    if (!invert(v, NULL, &iterations))
        by_milc(qic, iterations, milcgpu_original(mat_invert_block_uml)(src, dst, mass, nsrc, qic, fn));
    return iterations;
}
#else
static const char zero_guess_title[] = "Plain CG inversion from zero initial guess for mass %f\n";

static enum way way_of(enum inv_type type) { return type == UMLTYPE ? by_uml : type == CGTYPE ? by_cg : by_cgz; }
static const char *why_own_type(enum inv_type type) {
    return type == UMLTYPE || type == CGTYPE || type == CGZTYPE ? NULL : "MILC's own: this inv_type is not built";
}

int __wrap_mat_invert_field(su3_vector *src, su3_vector *dst, quark_invert_control *qic, Real mass,
                            imp_ferm_links_t *fn) {
    static const char *const titles[] = {"Plain CG inversion from given initial guess for mass %f\n", uml_title,
                                         zero_guess_title};
    const enum way way = way_of(qic->inv_type);
    const inversion v = MILCGPU_MEMBERS(.n = 1, .src = &src, .dst = &dst, .qic = qic, .mass = mass, .fn = fn,
                                        .way = way, .title = titles[way]);
    int iterations;
    if (!invert(v, why_own_type(qic->inv_type), &iterations))
        by_milc(qic, iterations, milcgpu_original(mat_invert_field)(src, dst, qic, mass, fn));
    return iterations;
}

int __wrap_mat_invert_block(su3_vector **src, su3_vector **dst, Real mass, int nsrc, quark_invert_control *qic,
                            imp_ferm_links_t *fn) {
    const enum way way = way_of(qic->inv_type);
    const inversion v = MILCGPU_MEMBERS(.n = nsrc, .src = src, .dst = dst, .qic = qic, .mass = mass, .fn = fn,
                                        .way = way, .title = way == by_uml ? NULL : zero_guess_title);
    int iterations;
    if (!invert(v, why_own_type(qic->inv_type), &iterations))
        by_milc(qic, iterations, milcgpu_original(mat_invert_block)(src, dst, mass, nsrc, qic, fn));
    return iterations;
}
#endif

/* For solutions of several masses: mat_invert_multi calls it. */
void __wrap_ks_dirac_adj_op_inplace(su3_vector *dst, Real mass, int parity, imp_ferm_links_t *fn) {
    milcgpu_output output[] = {MILCGPU_MEMORY(dst, field_bytes())};
    milcgpu_call call = MILCGPU_MEMBERS(.row = MILCGPU_MAT_INVERT, .name = "mat_invert", .reads = MILCGPU_SOLUTIONS,
                                        .why_own = milcgpu_why_own_dslash(), MILCGPU_OUTPUTS(output),
                                        .compare = milcgpu_compare_as_quarks);
    if (fn == NULL)
        call.why_own = MILCGPU_NO_LINKS;
    else if (parity != EVENANDODD)
        call.why_own = "MILC's own: M^dag on one parity is not built";
    milcgpu_offload(&call, milcgpu_plugin_adjoint(fn->fat, fn->lng, mass, milcgpu_vector_field(dst)),
                    milcgpu_original(ks_dirac_adj_op_inplace)(dst, mass, parity, fn));
}

/* Solves each mass by itself on the even sites, from zero, as MILC does for two masses. */
static int mass_by_mass(su3_vector *src, su3_vector **dst, const ks_param *ksp, int num_masses,
                        quark_invert_control *qic, milcgpu_links_multi fn_multi) {
    int i, iterations = 0;
    for (i = 0; i < num_masses; i++) {
        memset(dst[i], 0, even_sites_on_node * sizeof(su3_vector));
        iterations += __wrap_mat_invert_uml_field(src, dst[i], &qic[i], ksp[i].mass, links_of_mass(fn_multi, i));
    }
    return iterations;
}

/* Used if the input selects UML and if this needs fewer steps in all. */
static int mass_by_mass_pays(const ks_param *ksp, int num_masses, const quark_invert_control *qic,
                             milcgpu_links_multi fn_multi) {
    double masses[num_masses > 0 ? num_masses : 1];
    int i;
    if (param.eigen_param.Nvecs > 0) /* as MILC does */
        return 0;
    for (i = 0; i < num_masses; i++) {
#if MILCGPU_MILC != 1 /* programs whose input has no such choice */
        if (qic[i].inv_type != UMLTYPE)
            return 0;
#endif
        if (why_own(&qic[i], by_uml, ksp[i].mass, links_of_mass(fn_multi, i)) != NULL || !milcgpu_offloads())
            return 0;
        masses[i] = ksp[i].mass;
    }
    return num_masses > 2 && milcgpu_plugin_mass_by_mass(num_masses, masses);
}

/* Otherwise MILC's own routine does it. The solutions of several masses then stay on the device until M^dag of each is
 * copied back. */
int __wrap_mat_invert_multi(su3_vector *src, su3_vector **dst, ks_param *ksp, int num_masses, quark_invert_control *qic,
                            milcgpu_links_multi fn_multi) {
    const int stay = num_masses > 0 && milcgpu_offloads() && milcgpu_plugin_takes_dslash();
    const int counted = total_iters;
    int iterations;
    if (mass_by_mass_pays(ksp, num_masses, qic, fn_multi))
        return mass_by_mass(src, dst, ksp, num_masses, qic, fn_multi);
    if (stay)
        milcgpu_plugin_vectors_begin(num_masses, 1);
    iterations = milcgpu_original(mat_invert_multi)(src, dst, ksp, num_masses, qic, fn_multi);
    if (stay) {
        milcgpu_need(MILCGPU_SOLUTIONS, "mat_invert");
        if (milcgpu_plugin_vectors_end()) { /* the device was lost, and solutions with it */
            total_iters = counted;
            iterations = milcgpu_original(mat_invert_multi)(src, dst, ksp, num_masses, qic, fn_multi);
        }
    }
    return iterations;
}
