/* ks_eigensolve_Kalkreuter_Ritz, ks_eigensolve_PRIMME, ks_eigensolve_ARPACK: the lowest eigenvectors of -D^2, by
 * Lanczos on the device. The vectors stay there, and solves are deflated with them (invert.c). eigVec is filled before
 * MILC's own routines read it to check, save or project. The random numbers advance as in MILC's routine. */
#include "eigen.h"

#include <math.h>
#include <string.h>

#include "random.h"
#include "routines.h"

/* Some programs do not have these. */
#pragma weak param
#pragma weak eigVec
#pragma weak eigVal
#pragma weak fn_links

/* MILC's links of the eigenvectors: the links without eps_naik. */
#if MILCGPU_MILC >= 3
static imp_ferm_links_t *links_of_vectors(void) { return milcgpu_there(get_fm_links)(fn_links, 0); }
static void give_back(imp_ferm_links_t *fn) { milcgpu_there(destroy_fn_links)(fn); }
#define own_other_parity milcgpu_original(construct_eigen_other_parity)
#define wrap_other_parity __wrap_construct_eigen_other_parity
#else
static imp_ferm_links_t *links_of_vectors(void) { return milcgpu_there(get_fm_links)(fn_links)[0]; }
static void give_back(imp_ferm_links_t *fn) { (void)fn; }
#define own_other_parity milcgpu_original(construct_eigen_odd)
#define wrap_other_parity __wrap_construct_eigen_odd
#endif

static milcgpu_plugin_eigen_call call_of(su3_vector **vectors, int count, int parity, const imp_ferm_links_t *fn) {
    milcgpu_plugin_eigen_call call;
    call.fat = fn->fat;
    call.lng = fn->lng;
    call.parity = parity;
    call.count = count;
    call.vectors = (void *const *)vectors;
    call.tolerance = 0;
    call.of_eigenvalues = 0;
    return call;
}

/* ---- MILC's fields ----------------------------------------------------------------------------------------------- */

static void fill_zeros(void *self, void *vector) {
    (void)self;
    memset(vector, 0, sizeof(su3_vector) * sites_on_node);
}
/* Zeros that MILC has requested: they are written only when somebody reads them. */
static void defer_zeros(su3_vector **vectors, int count) {
    int k;
    for (k = 0; k < count; k++) {
        const void *const field = vectors[k];
        const milcgpu_plugin_deferral zeros = {MILCGPU_ZEROS, 1, 0, &field, NULL, fill_zeros, NULL, NULL};
        if (!milcgpu_plugin_defer(&zeros))
            fill_zeros(NULL, vectors[k]);
    }
}

/* Fills MILC's fields. 0: their content is lost. */
static int fill(void) {
    milcgpu_or_end(milcgpu_plugin_fulfil(MILCGPU_ZEROS, NULL));
    return milcgpu_plugin_eigen_need();
}
/* If the present input has no eigenvectors, MILC has freed the fields of the input before. */
void milcgpu_need_eigenvectors(void) {
    if (param.eigen_param.Nvecs > 0 && !fill())
        milcgpu_end_of_run();
}

static int on_device(su3_vector **vectors) {
    return milcgpu_plugin_eigen_on_device((void *const *)vectors) && milcgpu_offloads();
}

#if EIGMODE != EIGCG
#define MILCGPU_FRESH_IS_FOLLOWED                                                                                      \
    (milcgpu_has(ks_eigensolve_Kalkreuter_Ritz) || milcgpu_has(ks_eigensolve_PRIMME) ||                                \
     milcgpu_has(ks_eigensolve_ARPACK))
#else
#define MILCGPU_FRESH_IS_FOLLOWED 0
#endif

int __wrap_reload_ks_eigen(int flag, char *file, int *n, milcgpu_eigenvalue *values, su3_vector **vectors,
                           imp_ferm_links_t *fn, int timing) {
    milcgpu_plugin_eigenvectors_drop();
    milcgpu_plugin_drop_deferred(MILCGPU_ZEROS, NULL);
    if (flag == FRESH && MILCGPU_FRESH_IS_FOLLOWED && milcgpu_offloads()) {
        defer_zeros(vectors, *n);
        return 0;
    }
    return milcgpu_original(reload_ks_eigen)(flag, file, n, values, vectors, fn, timing);
}

int __wrap_save_ks_eigen(int flag, char *file, int n, milcgpu_eigenvalue *values, su3_vector **vectors,
                         milcgpu_eigen_residual *residuals, int timing) {
    if (flag != FORGET)
        milcgpu_need_eigenvectors();
    return milcgpu_original(save_ks_eigen)(flag, file, n, values, vectors, residuals, timing);
}

/* The part of the vectors on the other parity, D v / |D v|. While only the device has the vectors, it keeps these links
 * and makes this part when somebody reads it, because MILC twists its links before that. */
void wrap_other_parity(su3_vector **vectors, milcgpu_eigenvalue *values, ks_eigen_param *p, imp_ferm_links_t *fn) {
    milcgpu_plugin_eigen_call call = call_of(vectors, p->Nvecs, p->parity, fn);
    int k;
    if (milcgpu_offloads() && milcgpu_plugin_eigen_other_parity(&call)) {
        for (k = 0; k < p->Nvecs; k++)
            milcgpu_plugin_drop_deferred(MILCGPU_ZEROS, vectors[k]); /* MILC is about to write it */
        return;
    }
    milcgpu_need_eigenvectors();
    own_other_parity(vectors, values, p, fn);
}

void __wrap_check_eigres(double *residuals, su3_vector **vectors, milcgpu_eigenvalue *values, int n, int parity,
                         imp_ferm_links_t *fn) {
    double *const l = (double *)milcgpu_room((2 * n + 1) * sizeof(double), "eigenvalues"), *const norms = l + n;
    milcgpu_plugin_eigen_call call = call_of(vectors, n, parity, fn);
    int k;
    for (k = 0; k < n; k++)
        l[k] = values[k];
    if (on_device(vectors) && milcgpu_plugin_eigen_check(&call, l, residuals, norms)) {
        node0_printf("Checking eigensolutions\n");
        for (k = 0; k < n; k++)
            node0_printf("eigVal[%d] = %e ( resid = %e , |eigVec[%d]|-1 = %e )\n", k, l[k], residuals[k], k,
                         norms[k] - 1);
        node0_printf("End of eigensolutions\n");
    } else {
        milcgpu_need_eigenvectors();
        milcgpu_original(check_eigres)(residuals, vectors, values, n, parity, fn);
    }
    free(l);
}

/* The rest reads MILC's fields. */
void __wrap_reset_eigenvalues(su3_vector **vectors, milcgpu_eigenvalue *values, int n, int parity,
                              imp_ferm_links_t *fn) {
    milcgpu_need_eigenvectors();
    milcgpu_original(reset_eigenvalues)(vectors, values, n, parity, fn);
}
void __wrap_measure_chirality(su3_vector *vector, double *chirality, int parity) {
    milcgpu_need_eigenvectors();
    milcgpu_original(measure_chirality)(vector, chirality, parity);
}
void __wrap_print_densities(su3_vector *vector, char *tag, int y, int z, int t, int parity) {
    milcgpu_need_eigenvectors();
    milcgpu_original(print_densities)(vector, tag, y, z, t, parity);
}
/* ---- solves ------------------------------------------------------------------------------------------------------ */

int milcgpu_deflates(const quark_invert_control *qic) {
#if EIGMODE == EIGCG
    (void)qic;
    return 0;
#else
    return param.eigen_param.Nvecs > 0 && qic->deflate;
#endif
}

int milcgpu_eigenvectors_ready(milcgpu_plugin_eigen_call *vectors, imp_ferm_links_t **links) {
    *links = links_of_vectors();
    if (*links == NULL) /* MILC has dropped its links and not made others yet */
        return 0;
    *vectors = call_of(eigVec, param.eigen_param.Nvecs, EVEN, *links);
    if (milcgpu_plugin_eigen_ready(vectors))
        return 1;
    give_back(*links);
    return 0;
}
void milcgpu_give_back_links(imp_ferm_links_t *links) { give_back(links); }

int milcgpu_has_eigenvectors(const quark_invert_control *qic, int both) {
    milcgpu_plugin_eigen_call call;
    imp_ferm_links_t *fn;
    if (!milcgpu_deflates(qic) || !milcgpu_eigenvectors_ready(&call, &fn))
        return 0;
    if (both)
        milcgpu_plugin_eigen_both_parities(&call);
    give_back(fn);
    return 1;
}

int milcgpu_eigenvectors_for_milc(quark_invert_control *qic) {
    if (!milcgpu_deflates(qic) || fill())
        return 0;
    qic->deflate = 0;
    return 1;
}

/* ---- the eigensolver --------------------------------------------------------------------------------------------- */

#ifdef EIGTIME
static const int prints_time = 1;
#else
static const int prints_time = 0;
#endif

/* The random numbers that MILC draws for its start vectors. Each site has its own generator, so other threads draw with
 * copies of them while the device solves; after that the sites get the copies. */
#ifdef MILCGPU_DRAWS
typedef struct {
    size_t first, sites;
    long numbers; /* complex numbers for each site */
    double_prn *copies;
    void *work; /* NULL: none has begun */
} drawing;
static drawing drawing_of(const ks_eigen_param *p) {
    const drawing d = {p->parity == EVEN ? 0 : even_sites_on_node,
                       p->parity == EVEN ? even_sites_on_node : sites_on_node - even_sites_on_node,
                       3L * (p->Nvecs - p->Nvecs_in), NULL, NULL};
    return d;
}
static void draw(double_prn *generator, long numbers) {
    long k;
    for (k = 0; k < numbers; k++)
        milcgpu_there(complex_gaussian_rand_no)(generator);
}
static int draw_copies(void *what, size_t from, size_t to) {
    const drawing *d = (const drawing *)what;
    size_t i;
    for (i = from; i < to; i++)
        draw(&d->copies[i], d->numbers);
    return 0;
}
static int draw_sites(void *what, size_t from, size_t to) {
    const drawing *d = (const drawing *)what;
    size_t i;
    for (i = d->first + from; i < d->first + to; i++)
        draw(&lattice[i].site_prn, d->numbers);
    return 0;
}
static void begin_drawing(drawing *d) {
    size_t i;
    if (d->copies == NULL)
        d->copies = (double_prn *)milcgpu_try_room(d->sites * sizeof(double_prn), "random numbers");
    if (d->copies == NULL || d->work != NULL)
        return;
    for (i = 0; i < d->sites; i++)
        d->copies[i] = lattice[d->first + i].site_prn;
    d->work = milcgpu_plugin_begin_work(d->sites, draw_copies, d);
}
/* take: the sites get the generators of the copies. Otherwise theirs stay as they were, for MILC's own solver. */
static void end_drawing(drawing *d, int take) {
    const int drawn = d->work != NULL;
    size_t i;
    milcgpu_plugin_end_work(d->work, take);
    if (take && drawn)
        for (i = 0; i < d->sites; i++)
            lattice[d->first + i].site_prn = d->copies[i];
    else if (take && milcgpu_plugin_by_all_threads(d->sites, draw_sites, d) < 0)
        draw_sites(d, 0, d->sites);
    free(d->copies);
}
#else
typedef struct {
    int parity, vectors;
} drawing;
static drawing drawing_of(const ks_eigen_param *p) {
    const drawing d = {p->parity, p->Nvecs - p->Nvecs_in};
    return d;
}
static void begin_drawing(drawing *d) { (void)d; }
static void end_drawing(drawing *d, int take) {
    su3_vector *const start =
        take ? (su3_vector *)milcgpu_room(sites_on_node * sizeof(su3_vector), "a random vector") : NULL;
    for (; take && d->vectors > 0; d->vectors--)
        milcgpu_there(grsource_plain_field)(start, d->parity);
    free(start);
}
#endif

/* |B v - l v| of MILC's vectors, computed by MILC. */
static void own_residuals(su3_vector **vectors, const milcgpu_eigenvalue *values, const ks_eigen_param *p,
                          imp_ferm_links_t *fn, double *residuals) {
    su3_vector *const d = (su3_vector *)milcgpu_room(sites_on_node * sizeof(su3_vector), "a vector");
    const size_t first = 6 * (p->parity == ODD ? even_sites_on_node : 0),
                 end = 6 * (p->parity == EVEN ? even_sites_on_node : sites_on_node);
    size_t i;
    int k;
    for (k = 0; k < p->Nvecs; k++) {
        const Real *const v = (const Real *)vectors[k], *const b = (const Real *)d;
        milcgpu_there(dslash_fn_field)(vectors[k], d, EVENANDODD - p->parity, fn);
        milcgpu_there(dslash_fn_field)(d, d, p->parity, fn);
        residuals[k] = 0;
        for (i = first; i < end; i++)
            residuals[k] += (b[i] + values[k] * v[i]) * (b[i] + values[k] * v[i]);
    }
    g_vecdoublesum(residuals, p->Nvecs);
    for (k = 0; k < p->Nvecs; k++)
        residuals[k] = sqrt(residuals[k]);
    free(d);
}

/* One of MILC's eigensolvers. */
typedef int (*own_solver)(su3_vector **, milcgpu_eigenvalue *, ks_eigen_param *, int);

typedef struct {
    own_solver own; /* MILC's */
    su3_vector **vectors;
    ks_eigen_param *p;
    int init;
    imp_ferm_links_t *fn;
    milcgpu_plugin_eigen_call call;
    milcgpu_eigen_report report;
    drawing random;                     /* of Ritz */
    double *values, *residuals;         /* the device's */
    double *cpu_values, *cpu_residuals; /* MILC's */
    su3_vector **copies;                /* copies for MILC's own; NULL: no room */
} eigen_solve;

static void free_copies(eigen_solve *e) {
    int k;
    for (k = 0; e->copies != NULL && k < e->p->Nvecs; k++)
        free(e->copies[k]);
    free(e->copies);
    e->copies = NULL;
}
static void copy_vectors(eigen_solve *e) {
    const int n = e->p->Nvecs;
    int k, room = 1;
    e->copies = (su3_vector **)milcgpu_room(n * sizeof *e->copies, "vectors");
    for (k = 0; k < n; k++) {
        e->copies[k] =
            room ? (su3_vector *)milcgpu_copy_to_compare(e->vectors[k], sites_on_node * sizeof(su3_vector)) : NULL;
        room = e->copies[k] != NULL;
    }
    if (!room)
        free_copies(e);
}
/* MILC's own solver on copies of the vectors as they were. It draws the random numbers. */
static void solve_to_compare(eigen_solve *e) {
    const int n = e->p->Nvecs;
    milcgpu_eigenvalue values[n];
    int k;
    copy_vectors(e);
    if (e->copies == NULL)
        return;
    memset(values, 0, sizeof values);
    milcgpu_need_eigenvectors();
    e->own(e->copies, values, e->p, e->init);
    own_residuals(e->copies, values, e->p, e->fn, e->cpu_residuals);
    for (k = 0; k < n; k++)
        e->cpu_values[k] = values[k];
}
static int compare_eigen(const milcgpu_call *call) {
    const eigen_solve *const e = (const eigen_solve *)call->details;
    const milcgpu_plugin_eigen_comparison of = {
        e->p->parity, e->p->Nvecs,   e->p->tol,        (void *const *)e->vectors, (void *const *)e->copies, e->values,
        e->residuals, e->cpu_values, e->cpu_residuals, e->report.seconds,         call->cpu_seconds};
    return e->copies == NULL || milcgpu_plugin_compare_eigen(&of);
}

/* MILC's own solver, starting from the first `there` vectors. */
static int own_from(const eigen_solve *e, milcgpu_eigenvalue *values, int there) {
    ks_eigen_param rest = *e->p;
    if (!fill())
        there = 0;
    if (there > rest.Nvecs_in)
        rest.Nvecs_in = there;
    milcgpu_plugin_eigenvectors_drop();
    return e->own(e->vectors, values, &rest, e->init);
}

/* The lines of MILC's Ritz. An eigenvalue is off by its residual at most, and by about the square of its residual. */
static void print_results(int n, const double *values, const double *residuals, double tolerance,
                          const milcgpu_eigen_report *report) {
    int k;
    if (prints_time)
        node0_printf("KAULKRITER: time = %e iters = %d iters/vec = %e\n", report->seconds, (int)report->applications,
                     report->applications / n);
    node0_printf("Eigenvalues after diagonalization at iteration %i\n", 1);
    node0_printf("BEGIN RESULTS\n");
    for (k = 0; k < n; k++)
        node0_printf("Eigenvalue(%i) = %.16g +/- %8e\t cvg? %d  \n", k, values[k], residuals[k],
                     residuals[k] * residuals[k] <= fabs(tolerance));
}

static int solve_on_device(eigen_solve *e, int is_ritz) {
    e->fn = links_of_vectors();
    e->call = call_of(e->vectors, e->p->Nvecs, e->p->parity, e->fn);
    e->call.tolerance = e->p->tol;
    e->call.of_eigenvalues = is_ritz;
    if (is_ritz && !milcgpu_plugin_compare())
        begin_drawing(&e->random);
    return milcgpu_plugin_eigensolve(&e->call, e->values, e->residuals, &e->report) ||
           /* links that only the device had may be lost */
           (milcgpu_fill_links() && milcgpu_offloads() &&
            milcgpu_plugin_eigensolve(&e->call, e->values, e->residuals, &e->report));
}

static int eigensolve(own_solver own, int is_ritz, su3_vector **vectors, milcgpu_eigenvalue *values, ks_eigen_param *p,
                      int init) {
    const int n = p->Nvecs;
    double *const numbers = (double *)milcgpu_room((4 * (n > 0 ? n : 0) + 1) * sizeof(double), "eigenvalues");
    eigen_solve e =
        MILCGPU_MEMBERS(.own = own, .vectors = vectors, .p = p, .init = init, .values = numbers,
                        .residuals = numbers + n, .cpu_values = numbers + 2 * n, .cpu_residuals = numbers + 3 * n);
    milcgpu_call call = MILCGPU_MEMBERS(.row = MILCGPU_EIGENSOLVE, .name = "ks_eigensolve", .compare = compare_eigen,
                                        .details = &e, .only_compared = 1);
    int k, iterations;
    call.why_own = n < 1                                   ? "MILC's own: there are no vectors"
                   : p->parity != EVEN && p->parity != ODD ? "MILC's own: vectors on both parities are not built"
                                                           : NULL;
    e.random = drawing_of(p);
    milcgpu_offload(&call, solve_on_device(&e, is_ritz), solve_to_compare(&e));
    end_drawing(&e.random, call.done && is_ritz && e.copies == NULL); /* MILC's own solver draws by itself */
    for (k = 0; k < e.report.count; k++)
        values[k] = e.values[k];
    if (call.done && is_ritz)
        print_results(n, e.values, e.residuals, p->tol, &e.report);
    if (e.fn != NULL)
        give_back(e.fn);
    free_copies(&e);
    free(numbers);
    if (call.done)
        return is_ritz && MILCGPU_MILC != 1 ? 0 : (int)e.report.applications;
    milcgpu_by_original(&call, iterations = own_from(&e, values, e.report.count));
    return iterations;
}

int __wrap_ks_eigensolve_Kalkreuter_Ritz(su3_vector **vectors, milcgpu_eigenvalue *values, ks_eigen_param *p,
                                         int init) {
    return eigensolve(milcgpu_original(ks_eigensolve_Kalkreuter_Ritz), 1, vectors, values, p, init);
}
int __wrap_ks_eigensolve_PRIMME(su3_vector **vectors, milcgpu_eigenvalue *values, ks_eigen_param *p, int init) {
    return eigensolve(milcgpu_original(ks_eigensolve_PRIMME), 0, vectors, values, p, init);
}
int __wrap_ks_eigensolve_ARPACK(su3_vector **vectors, milcgpu_eigenvalue *values, ks_eigen_param *p, int init) {
    return eigensolve(milcgpu_original(ks_eigensolve_ARPACK), 0, vectors, values, p, init);
}
