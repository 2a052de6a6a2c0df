/* mat_invert_field, mat_invert_uml_field, mat_invert_block, ks_dirac_adj_op_inplace; on master (MILCGPU_MILC 1)
 * mat_invert_cg_field, mat_invert_uml_field, mat_invert_block_uml, ks_dirac_adj_op_inplace; mat_invert_multi: M x = b
 * by solves of M^dag M on both parities, or mass by mass. Source and guess go to the device once, and the solution
 * comes back once; what MILC does between its solves is done there. The lines, counters and quark_invert_control are
 * those of MILC's routine with the solves of solve.c.
 *
 * Deflated solves begin with MILC's guess, and take the part of the residual that lies in the space of the eigenvectors
 * (eigen.c), on the even sites. Odd sites come from the even ones then, as UML has it, in a solve of CG, too; of CGZ
 * they are deflated with eigenvectors of their own.
 *
 * Not inv_type MG: MILC's routine then calls the solves of solve.c. */
#include "eigen.h"
#include "random.h"
#include "solve.h"

#include <string.h>

#include "routines.h"

#if MILCGPU_MILC == 1
#define MILCGPU_IS_MASTER 1 /* it prints no titles, and of CG counts the odd sites' iterations alone in final_iters */
#define own_cg_field milcgpu_original(mat_invert_cg_field)
#else
#define MILCGPU_IS_MASTER 0
#define own_cg_field milcgpu_there(mat_invert_cg_field)
#endif
#if MILCGPU_MILC >= 3 /* the links of all masses, or of each */
typedef imp_ferm_links_t *milcgpu_links_multi;
#define links_of_mass(fn_multi, i) (fn_multi)
#else
typedef imp_ferm_links_t **milcgpu_links_multi;
#define links_of_mass(fn_multi, i) (fn_multi)[i]
#endif

/* Programs without MILC's routines above are without these, too. */
#pragma weak param

/* MILC's ways: each parity begins with the guess; the odd sites with what follows from the even ones; each parity with
 * zero, for b in place of M^dag b. */
enum way { by_cg, by_uml, by_cgz };

/* Nothing is asked for without a tolerance: MILC's own routines then end at once, or, for several masses, at the limit.
 * Of by_cgz the solves are compared, one by one. */
static int offloads(const quark_invert_control *qic, enum way way, Real mass, const imp_ferm_links_t *fn) {
    const int asked =
        milcgpu_tolerance(qic->resid, MILC_PRECISION) > 0 || milcgpu_tolerance(qic->relresid, MILC_PRECISION) > 0;
#if EIGMODE == EIGCG
    if (way == by_uml || (param.eigen_param.Nvecs > 0 && qic->deflate))
        return 0;
#endif
    return asked && fn != NULL && !(way == by_uml && mass == 0) && milcgpu_offloads() &&
           !(way == by_cgz && milcgpu_plugin_compare());
}

/* cpu_dst: the guess, and then MILC's solution of what `qic` asks. */
static void compare(const milcgpu_plugin_invert_call *call, enum way way, int iterations, double seconds,
                    su3_vector *src, su3_vector *dst, su3_vector *cpu_dst, quark_invert_control qic, Real mass,
                    imp_ferm_links_t *fn) {
    const int counted = total_iters;
    su3_vector *normal = milcgpu_copy_of(src);
    if (normal != NULL) {
        milcgpu_plugin_solve_call one = call->solve;
        int cpu_iterations;
        double cpu_seconds;
        milcgpu_eigenvectors_for_milc(&qic);
        milcgpu_enter_original(MILCGPU_MAT_INVERT);
        milcgpu_there(ks_dirac_adj_op)(src, normal, mass, EVENANDODD, fn);
        cpu_iterations = way == by_uml ? milcgpu_original(mat_invert_uml_field)(src, cpu_dst, &qic, mass, fn)
                                       : own_cg_field(src, cpu_dst, &qic, mass, fn);
        cpu_seconds = milcgpu_leave_original(MILCGPU_MAT_INVERT);
        total_iters = counted;
        one.source = milcgpu_vector_field(normal);
        one.solution = milcgpu_vector_field(dst);
        milcgpu_judge(milcgpu_plugin_compare_invert(&one, call->n, iterations, seconds, milcgpu_vector_field(cpu_dst),
                                                    cpu_iterations, cpu_seconds));
    }
    free(normal);
}

/* 1: done. 0: no field was written. */
static int solve(int n, su3_vector **src, su3_vector **dst, quark_invert_control *qic, Real mass, imp_ferm_links_t *fn,
                 enum way way, milcgpu_plugin_invert_call *call, milcgpu_solve_report *even,
                 milcgpu_solve_report *odd) {
    const int deflated = milcgpu_has_eigenvectors(qic, way == by_cgz);
    milcgpu_field sources[n], solutions[n];
    int k, done;
    for (k = 0; k < n; k++) {
        sources[k] = milcgpu_vector_field(src[k]);
        solutions[k] = milcgpu_vector_field(dst[k]);
    }
    call->solve = milcgpu_solve_call(MILCGPU_MAT_INVERT, sources[0], solutions[0], qic, mass, fn);
    call->solve.deflate = deflated ? MILCGPU_DEFLATED_BY_MILCS : MILCGPU_UNDEFLATED;
    call->odd_from_even = way == by_uml || (way == by_cg && deflated && mass != 0);
    call->adjoint_last = way == by_cgz;
    call->n = n;
    call->sources = sources;
    call->solutions = solutions;
    done = milcgpu_plugin_invert(call, even, odd) ||
           (milcgpu_fill_links() && milcgpu_offloads() && milcgpu_plugin_invert(call, even, odd));
    call->sources = call->solutions = NULL;
    return done;
}

/* MILC's lines and counters. title: its first line, or NULL. Returns the iterations. */
static int account(int n, const milcgpu_solve_report *even, const milcgpu_solve_report *odd, quark_invert_control *qic,
                   Real mass, enum way way, const char *title) {
    int iterations, even_iterations;
    if (title != NULL && !MILCGPU_IS_MASTER)
        node0_printf(title, mass);
    iterations = milcgpu_account_parity(EVEN, n, even, qic);
    even_iterations = qic->final_iters;
    iterations += milcgpu_account_parity(ODD, n, odd, qic);
    if (!MILCGPU_IS_MASTER || way == by_uml)
        qic->final_iters += even_iterations;
    return iterations;
}

/* 1: done. 0: nothing was printed, and no field written. title: as above. */
static int invert(int n, su3_vector **src, su3_vector **dst, quark_invert_control *qic, Real mass, imp_ferm_links_t *fn,
                  enum way way, const char *title, int *iterations) {
    const quark_invert_control asked = *qic;
    milcgpu_plugin_invert_call call;
    milcgpu_solve_report even[n], odd[n];
    su3_vector *cpu_dst[n];
    double seconds = -milcgpu_plugin_seconds();
    int k, done;
    for (k = 0; k < n; k++)
        cpu_dst[k] = milcgpu_copy_of(dst[k]);
    done = solve(n, src, dst, qic, mass, fn, way, &call, even, odd);
    seconds += milcgpu_plugin_seconds();
    if (done)
        *iterations = account(n, even, odd, qic, mass, way, title);
    for (k = 0; k < n; k++) {
        if (done && cpu_dst[k] != NULL)
            compare(&call, way, even[k].iterations + odd[k].iterations, seconds / n, src[k], dst[k], cpu_dst[k], asked,
                    mass, fn);
        free(cpu_dst[k]);
    }
    return done;
}

/* iterations = MILC's own with `qic`, which deflates with eigVec. */
#define by_milc(qic, iterations, call)                                                                                 \
    do {                                                                                                               \
        const int told_not_to = milcgpu_eigenvectors_for_milc(qic);                                                    \
        iterations = call;                                                                                             \
        (qic)->deflate |= told_not_to;                                                                                 \
    } while (0)

static const char uml_title[] = "UML inversion with mass %f\n";

/* ---- random sources of a condensate ------------------------------------------------------------------------------ */

/* f_meas_imp_field takes one random source after the other and solves M x = b for it. No source depends on a solution,
 * and nothing else draws random numbers there: so those that follow are drawn as the first one is, in MILC's order, and
 * all of them are solved for in one call. MILC's lines come as it asks for each. */
enum { most_ahead = 12 };
static struct {
    int left;     /* sources that are not drawn yet */
    int n, asked; /* of those that are drawn: how many; how many of them MILC has asked for */
    int solved;   /* 0: not yet; -1: MILC's own way */
    Real mass;
    su3_vector *source[most_ahead], *solution[most_ahead];
    milcgpu_solve_report even[most_ahead], odd[most_ahead];
} ahead;

static size_t field_bytes(void) { return sites_on_node * sizeof(su3_vector); }

static void end_of_ahead(void) {
    int k;
    for (k = 0; k < ahead.n; k++)
        free(ahead.source[k]), free(ahead.solution[k]);
    ahead.n = ahead.asked = ahead.solved = 0;
}

/* None where there is no room on a rank. */
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

/* 1: what MILC asks for is the solution for the source that it was given last. */
static int solved_ahead(su3_vector *src, su3_vector *dst, quark_invert_control *qic, Real mass, imp_ferm_links_t *fn,
                        int *iterations) {
    const int k = ahead.asked - 1;
    milcgpu_plugin_invert_call call;
    if (k < 0 || ahead.n < 2 || ahead.solved < 0 ||
        milcgpu_plugin_agreed(!is_zero(dst) || memcmp(src, ahead.source[k], field_bytes()) != 0))
        return 0;
    if (ahead.solved == 0) {
        ahead.mass = mass;
        ahead.solved =
            solve(ahead.n, ahead.source, ahead.solution, qic, mass, fn, by_uml, &call, ahead.even, ahead.odd) ? 1 : -1;
    }
    if (ahead.solved < 0 || ahead.mass != mass)
        return 0;
    memcpy(dst, ahead.solution[k], field_bytes());
    *iterations = account(1, &ahead.even[k], &ahead.odd[k], qic, mass, by_uml, uml_title);
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
    int iterations;
    if (offloads(qic, by_uml, mass, fn) && (solved_ahead(src, dst, qic, mass, fn, &iterations) ||
                                            invert(1, &src, &dst, qic, mass, fn, by_uml, uml_title, &iterations)))
        return iterations;
    by_milc(qic, iterations, milcgpu_original(mat_invert_uml_field)(src, dst, qic, mass, fn));
    return iterations;
}

#if MILCGPU_MILC == 1
int __wrap_mat_invert_cg_field(su3_vector *src, su3_vector *dst, quark_invert_control *qic, Real mass,
                               imp_ferm_links_t *fn) {
    int iterations;
    if (offloads(qic, by_cg, mass, fn) && invert(1, &src, &dst, qic, mass, fn, by_cg, NULL, &iterations))
        return iterations;
    by_milc(qic, iterations, milcgpu_original(mat_invert_cg_field)(src, dst, qic, mass, fn));
    return iterations;
}

int __wrap_mat_invert_block_uml(su3_vector **src, su3_vector **dst, Real mass, int nsrc, quark_invert_control *qic,
                                imp_ferm_links_t *fn) {
    int iterations;
    if (nsrc > 0 && offloads(qic, by_uml, mass, fn) && invert(nsrc, src, dst, qic, mass, fn, by_uml, NULL, &iterations))
        return iterations;
    by_milc(qic, iterations, milcgpu_original(mat_invert_block_uml)(src, dst, mass, nsrc, qic, fn));
    return iterations;
}
#else
/* The way of an inv_type; 0: MILC's own. */
static int way_of(enum inv_type type, enum way *way) {
    *way = type == UMLTYPE ? by_uml : type == CGTYPE ? by_cg : by_cgz;
    return type == UMLTYPE || type == CGTYPE || type == CGZTYPE;
}

int __wrap_mat_invert_field(su3_vector *src, su3_vector *dst, quark_invert_control *qic, Real mass,
                            imp_ferm_links_t *fn) {
    static const char *const titles[] = {"Plain CG inversion from given initial guess for mass %f\n", uml_title,
                                         "Plain CG inversion from zero initial guess for mass %f\n"};
    enum way way;
    int iterations;
    if (way_of(qic->inv_type, &way) && offloads(qic, way, mass, fn) &&
        invert(1, &src, &dst, qic, mass, fn, way, titles[way], &iterations))
        return iterations;
    by_milc(qic, iterations, milcgpu_original(mat_invert_field)(src, dst, qic, mass, fn));
    return iterations;
}

int __wrap_mat_invert_block(su3_vector **src, su3_vector **dst, Real mass, int nsrc, quark_invert_control *qic,
                            imp_ferm_links_t *fn) {
    enum way way;
    int iterations;
    if (nsrc > 0 && way_of(qic->inv_type, &way) && offloads(qic, way, mass, fn) &&
        invert(nsrc, src, dst, qic, mass, fn, way,
               way == by_uml ? NULL : "Plain CG inversion from zero initial guess for mass %f\n", &iterations))
        return iterations;
    by_milc(qic, iterations, milcgpu_original(mat_invert_block)(src, dst, mass, nsrc, qic, fn));
    return iterations;
}

#endif

/* Of solutions of several masses: MILC calls it from mat_invert_multi. */
void __wrap_ks_dirac_adj_op_inplace(su3_vector *dst, Real mass, int parity, imp_ferm_links_t *fn) {
    su3_vector *cpu_dst;
    double seconds, cpu_seconds;
    if (fn == NULL || parity != EVENANDODD || !milcgpu_offloads() || !milcgpu_plugin_takes_dslash()) {
        milcgpu_need(MILCGPU_SOLUTIONS, "mat_invert");
        milcgpu_original(ks_dirac_adj_op_inplace)(dst, mass, parity, fn);
        return;
    }
    cpu_dst = milcgpu_copy_of(dst);
    seconds = -milcgpu_plugin_seconds();
    if (!milcgpu_plugin_adjoint(fn->fat, fn->lng, mass, milcgpu_vector_field(dst))) {
        milcgpu_need(MILCGPU_SOLUTIONS, "mat_invert");
        milcgpu_original(ks_dirac_adj_op_inplace)(dst, mass, parity, fn);
    } else if (cpu_dst != NULL) {
        seconds += milcgpu_plugin_seconds();
        cpu_seconds =
            milcgpu_by_milc(MILCGPU_MAT_INVERT, milcgpu_original(ks_dirac_adj_op_inplace)(cpu_dst, mass, parity, fn));
        milcgpu_judge(milcgpu_plugin_compare_quarks(MILCGPU_MAT_INVERT, dst, cpu_dst, seconds, cpu_seconds));
    }
    free(cpu_dst);
}

/* Each mass by itself on the even sites, from zero, as MILC does it for two. */
static int mass_by_mass(su3_vector *src, su3_vector **dst, const ks_param *ksp, int num_masses,
                        quark_invert_control *qic, milcgpu_links_multi fn_multi) {
    int i, iterations = 0;
    for (i = 0; i < num_masses; i++) {
        memset(dst[i], 0, even_sites_on_node * sizeof(su3_vector));
        iterations += __wrap_mat_invert_uml_field(src, dst[i], &qic[i], ksp[i].mass, links_of_mass(fn_multi, i));
    }
    return iterations;
}

/* Where the input asks for UML and fewer steps are needed in all. */
static int mass_by_mass_pays(const ks_param *ksp, int num_masses, const quark_invert_control *qic,
                             milcgpu_links_multi fn_multi) {
    double masses[num_masses > 0 ? num_masses : 1];
    int i;
    if (param.eigen_param.Nvecs > 0) /* MILC does it so */
        return 0;
    for (i = 0; i < num_masses; i++) {
#if MILCGPU_MILC != 1 /* whose input has no such choice */
        if (qic[i].inv_type != UMLTYPE)
            return 0;
#endif
        if (!offloads(&qic[i], by_uml, ksp[i].mass, links_of_mass(fn_multi, i)))
            return 0;
        masses[i] = ksp[i].mass;
    }
    return num_masses > 2 && milcgpu_plugin_mass_by_mass(num_masses, masses);
}

/* Else MILC's own, in which the solutions of several masses stay on the device until M^dag of each comes back. */
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
