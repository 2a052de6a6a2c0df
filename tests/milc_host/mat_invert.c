/* M x = b, M = 2m + D, by solves of M^dag M on even and odd sites, with MILC's names, lines and counters. */
#include "../generic_ks/generic_ks_includes.h"

#include "../include/imp_ferm_links.h"
#include <stdlib.h>
#include <string.h>

params param;

#ifdef MILC_HOST_MASTER
enum { is_master = 1 };
#else
enum { is_master = 0 };
#endif

static double norm(const su3_vector *x, int parity) {
    const Real *reals = (const Real *)(x + (parity == EVEN ? 0 : even_sites_on_node));
    double sum = 0;
    size_t k;
    for (k = 0; k < 6 * even_sites_on_node; k++)
        sum += (double)reals[k] * reals[k];
    g_vecdoublesum(&sum, 1);
    return sum;
}

/* to = scale (a x - y) on the sites of `parity`. */
static void subtract(double scale, double a, const su3_vector *x, const su3_vector *y, su3_vector *to, int parity) {
    const size_t first = 6 * (parity == ODD ? even_sites_on_node : 0),
                 end = 6 * (parity == EVEN ? even_sites_on_node : sites_on_node);
    size_t k;
    for (k = first; k < end; k++)
        ((Real *)to)[k] = scale * (a * ((const Real *)x)[k] - ((const Real *)y)[k]);
}

static su3_vector *field(void) { return (su3_vector *)calloc(sites_on_node, sizeof(su3_vector)); }

void ks_dirac_adj_op(su3_vector *src, su3_vector *dst, Real mass, int parity, imp_ferm_links_t *fn) {
    dslash_fn_field(src, dst, parity, fn);
    subtract(1, 2 * mass, src, dst, dst, parity);
}

void ks_dirac_adj_op_inplace(su3_vector *dst, Real mass, int parity, imp_ferm_links_t *fn) {
    su3_vector *made = field();
    ks_dirac_adj_op(dst, made, mass, parity, fn);
    if (parity & EVEN)
        memcpy(dst, made, even_sites_on_node * sizeof(su3_vector));
    if (parity & ODD)
        memcpy(dst + even_sites_on_node, made + even_sites_on_node, even_sites_on_node * sizeof(su3_vector));
    free(made);
}

/* Solves for one parity of all sources. */
static int solve(int n, su3_vector **src, su3_vector **dst, int parity, quark_invert_control *qic, Real mass,
                 imp_ferm_links_t *fn) {
    double sum = 0;
    int k, iterations = 0;
    qic->parity = parity;
    for (k = 0; k < n; k++)
        sum += norm(src[k], parity);
    if (sum > 0) {
        iterations = n == 1 ? ks_congrad_parity_cpu(src[0], dst[0], qic, mass, fn)
                            : ks_congrad_block_parity_cpu(n, src, dst, qic, mass, fn);
    } else {
        for (k = 0; k < n; k++)
            memset(dst[k] + (parity == EVEN ? 0 : even_sites_on_node), 0, even_sites_on_node * sizeof(su3_vector));
        qic->final_iters = qic->final_restart = 0;
        qic->final_rsq = qic->final_relrsq = qic->size_r = 0;
        qic->converged = qic->size_relr = 1;
    }
    report_status(qic);
    return iterations;
}

/* dst becomes the exact solution in the space of the eigenvectors. */
static void deflate(su3_vector *dst, const su3_vector *src, Real mass, int parity) {
    const size_t first = parity == ODD ? even_sites_on_node : 0;
    complex_number *x = dst[first].c;
    const complex_number *b = src[first].c;
    int j;
    node0_printf("deflating\n");
    for (j = 0; j < param.eigen_param.Nvecs; j++) {
        const complex_number *v = eigVec[j][first].c;
        const double l = eigVal[j] + 4.0 * mass * mass;
        double re = 0, im = 0;
        size_t k;
        for (k = 0; k < 3 * even_sites_on_node; k++) {
            const double r = b[k].real / l - x[k].real, i = b[k].imag / l - x[k].imag;
            re += v[k].real * r + v[k].imag * i;
            im += v[k].real * i - v[k].imag * r;
        }
        for (k = 0; k < 3 * even_sites_on_node; k++) {
            x[k].real += v[k].real * re - v[k].imag * im;
            x[k].imag += v[k].real * im + v[k].imag * re;
        }
    }
}

/* normal = M^dag src. */
static int invert(int n, su3_vector **src, su3_vector **dst, quark_invert_control *qic, Real mass, imp_ferm_links_t *fn,
                  int uml) {
    su3_vector *normal[n], *d = field();
    const int deflates = param.eigen_param.Nvecs > 0 && qic->deflate;
    int k, even, iterations;
    for (k = 0; k < n; k++)
        ks_dirac_adj_op(src[k], normal[k] = field(), mass, EVENANDODD, fn);
    for (k = 0; deflates && k < n; k++)
        deflate(dst[k], normal[k], mass, EVEN);
    iterations = solve(n, normal, dst, EVEN, qic, mass, fn);
    even = qic->final_iters;
    for (k = 0; uml && k < n; k++) {
        dslash_fn_field(dst[k], d, ODD, fn);
        subtract(0.5 / mass, 1, src[k], d, dst[k], ODD);
    }
    for (k = 0; deflates && k < n; k++)
        deflate(dst[k], normal[k], mass, ODD);
    iterations += solve(n, normal, dst, ODD, qic, mass, fn);
    if (uml || !is_master)
        qic->final_iters += even;
    for (k = 0; k < n; k++)
        free(normal[k]);
    free(d);
    return iterations;
}

int mat_invert_cg_field(su3_vector *src, su3_vector *dst, quark_invert_control *qic, Real mass, imp_ferm_links_t *fn) {
    if (!is_master)
        node0_printf("Plain CG inversion from given initial guess for mass %f\n", mass);
    return invert(1, &src, &dst, qic, mass, fn, 0);
}

int mat_invert_uml_field(su3_vector *src, su3_vector *dst, quark_invert_control *qic, Real mass, imp_ferm_links_t *fn) {
    if (!is_master)
        node0_printf("UML inversion with mass %f\n", mass);
    return invert(1, &src, &dst, qic, mass, fn, 1);
}

#ifdef MILC_HOST_MASTER
int mat_invert_block_uml(su3_vector **src, su3_vector **dst, Real mass, int nsrc, quark_invert_control *qic,
                         imp_ferm_links_t *fn) {
    return invert(nsrc, src, dst, qic, mass, fn, 1);
}
#else
/* dst = M^dag (M M^dag)^-1 src */
static int cgz(int n, su3_vector **src, su3_vector **dst, quark_invert_control *qic, Real mass, imp_ferm_links_t *fn) {
    su3_vector *x[n];
    const int deflates = param.eigen_param.Nvecs > 0 && qic->deflate;
    int k, even, iterations;
    node0_printf("Plain CG inversion from zero initial guess for mass %f\n", mass);
    for (k = 0; k < n; k++)
        x[k] = field();
    for (k = 0; deflates && k < n; k++)
        deflate(x[k], src[k], mass, EVEN);
    iterations = solve(n, src, x, EVEN, qic, mass, fn);
    even = qic->final_iters;
    for (k = 0; deflates && k < n; k++)
        deflate(x[k], src[k], mass, ODD);
    iterations += solve(n, src, x, ODD, qic, mass, fn);
    qic->final_iters += even;
    for (k = 0; k < n; k++) {
        ks_dirac_adj_op(x[k], dst[k], mass, EVENANDODD, fn);
        free(x[k]);
    }
    return iterations;
}

int mat_invert_field(su3_vector *src, su3_vector *dst, quark_invert_control *qic, Real mass, imp_ferm_links_t *fn) {
    return qic->inv_type == CGTYPE    ? mat_invert_cg_field(src, dst, qic, mass, fn)
           : qic->inv_type == CGZTYPE ? cgz(1, &src, &dst, qic, mass, fn)
                                      : mat_invert_uml_field(src, dst, qic, mass, fn);
}

int mat_invert_block(su3_vector **src, su3_vector **dst, Real mass, int nsrc, quark_invert_control *qic,
                     imp_ferm_links_t *fn) {
    if (qic->inv_type == CGZTYPE)
        return cgz(nsrc, src, dst, qic, mass, fn);
    if (qic->inv_type == CGTYPE)
        node0_printf("Plain CG inversion from zero initial guess for mass %f\n", mass);
    return invert(nsrc, src, dst, qic, mass, fn, qic->inv_type == UMLTYPE);
}
#endif
