/* The source of a pseudofermion in ks_imp_rhmc (grsource_imp_rhmc): all threads draw the random vector and copy the
 * result. Numbers, generators and lines are MILC's. */
#include "random.h"

#ifdef __has_include
#if __has_include("ks_imp_includes.h")
#include "ks_imp_includes.h"
#endif
#endif

#include "routines.h"

#ifdef MILCGPU_DRAWS
typedef struct {
    size_t first;
    double *squares; /* of the vector at each site */
} drawing;
static int draw_part(void *what, size_t from, size_t to) {
    const drawing *const d = (const drawing *)what;
    size_t i;
    int c;
    for (i = from; i < to; i++) {
        site *const s = &lattice[d->first + i];
        for (c = 0; c < 3; c++)
            s->g_rand.c[c] = milcgpu_there(complex_gaussian_rand_no)(&s->site_prn);
        d->squares[i] = (double)magsq_su3vec(&s->g_rand);
    }
    return 0;
}

typedef struct {
    size_t first;
    field_offset to;
    const su3_vector *from;
} copying;
static int copy_part(void *what, size_t from, size_t to) {
    const copying *const c = (const copying *)what;
    size_t i;
    for (i = c->first + from; i < c->first + to; i++)
        *(su3_vector *)F_PT(&lattice[i], c->to) = c->from[i];
    return 0;
}

/* Returns the squared norm, summed in MILC's order. Negative: nothing was drawn, memory or threads are missing. */
static double draw(size_t first, size_t n) {
    drawing d = {first, (double *)malloc((n + 1) * sizeof(double))};
    double sum = -1;
    size_t i;
    if (d.squares != NULL && milcgpu_plugin_by_all_threads(n, draw_part, &d) >= 0)
        for (i = 0, sum = 0; i < n; i++)
            sum += d.squares[i];
    free(d.squares);
    return sum;
}

#endif

/* It sums over ranks as MILC's own routine does, so a rank may run it while another runs MILC's own. */
void __wrap_grsource_imp_rhmc(field_offset dest, params_ratfunc *rf, int parity, su3_vector **multi_x,
                              su3_vector *sumvec, Real rsqmin, int niter, int prec, imp_ferm_links_t *fn,
                              int naik_index, Real naik_epsilon) {
#ifdef MILCGPU_DRAWS
    const size_t first = parity == ODD ? even_sites_on_node : 0;
    const size_t n = (parity == EVEN ? even_sites_on_node : sites_on_node) - first;
    double seconds = -dclock(), sum = draw(first, n);
    copying c = {first, dest, sumvec};
    Real final_rsq;
    if (sum >= 0) {
        g_doublesum(&sum);
        node0_printf("GRSOURCE: sum = %.10e\n", sum);
        seconds += dclock();
        milcgpu_there(ks_ratinv)(F_OFFSET(g_rand), multi_x, rf->pole, rf->res, rf->order, niter, rsqmin, prec, parity,
                                 &final_rsq, fn, naik_index, naik_epsilon);
        seconds -= dclock();
        milcgpu_there(ks_rateval)(sumvec, F_OFFSET(g_rand), multi_x, rf->res, rf->order, parity);
        milcgpu_plugin_by_all_threads(n, copy_part, &c);
        seconds += dclock();
        node0_printf("GRSOURCETIME: time = %e\n", seconds);
        return;
    }
#endif
    milcgpu_original(grsource_imp_rhmc)(dest, rf, parity, multi_x, sumvec, rsqmin, niter, prec, fn, naik_index,
                                        naik_epsilon);
}
