/* After MILC has read links into its sites, it computes plaquettes, reunitarizes in double precision and multiplies
 * phases in. In this file all threads of the host do so, and results have the bits of MILC's loops (with -ffast-math,
 * reunitarized links may differ in the last bits). lattice_file.c has the checks of a lattice. */
#include "reload.h"
#include "random.h"
#include <float.h>
#include <math.h>
#include <string.h>

#include "routines.h"

/* ---- plaquettes -------------------------------------------------------------------------------------------------- */

#ifndef SCHROED_FUN
typedef struct {
    int mu, nu;
    su3_matrix *corners; /* of each plaquette, two links */
    double *traces;
} plane;

/* gen_pt has the links nu of the neighbours in mu, and the links mu of the neighbours in nu. Compilers may contract
 * multiplications and sums of macros, so the loops and what they read and write are like MILC's. */
static int traces_part(void *what, size_t from, size_t to) {
    const plane *const p = (const plane *)what;
    su3_matrix three;
    size_t i;
    for (i = from; i < to; i++)
        mult_su3_an(&lattice[i].link[p->nu], &lattice[i].link[p->mu], &p->corners[i]);
    for (i = from; i < to; i++) {
        mult_su3_nn(&p->corners[i], (su3_matrix *)(gen_pt[0][i]), &three);
        p->traces[i] = (double)realtrace_su3((su3_matrix *)(gen_pt[1][i]), &three);
    }
    return 0;
}

/* It gathers and sums over ranks as MILC's own routine does, so a rank may run it while another runs MILC's own. */
static int by_threads(double *space, double *time) {
    plane p = {0, 0, (su3_matrix *)malloc(sites_on_node * sizeof(su3_matrix)),
               (double *)malloc(sites_on_node * sizeof(double))};
    double sums[2] = {0, 0}; /* space, time */
    if (p.corners == NULL || p.traces == NULL || milcgpu_plugin_by_all_threads(0, traces_part, &p) < 0) {
        free(p.corners), free(p.traces);
        return 0;
    }
    for (p.mu = YUP; p.mu <= TUP; p.mu++)
        for (p.nu = XUP; p.nu < p.mu; p.nu++) {
            double *const sum = &sums[p.mu == TUP];
            size_t i;
            msg_tag *const up_mu = start_gather_site(F_OFFSET(link[0]) + p.nu * sizeof(su3_matrix), sizeof(su3_matrix),
                                                     p.mu, EVENANDODD, gen_pt[0]);
            msg_tag *const up_nu = start_gather_site(F_OFFSET(link[0]) + p.mu * sizeof(su3_matrix), sizeof(su3_matrix),
                                                     p.nu, EVENANDODD, gen_pt[1]);
            wait_gather(up_mu);
            wait_gather(up_nu);
            milcgpu_plugin_by_all_threads(sites_on_node, traces_part, &p);
            for (i = 0; i < sites_on_node; i++)
                *sum += p.traces[i];
            cleanup_gather(up_mu);
            cleanup_gather(up_nu);
        }
    free(p.corners), free(p.traces);
    g_doublesum(&sums[0]);
    g_doublesum(&sums[1]);
    *space = sums[0] / ((Real)(3.0 * nx * ny * nz * nt));
    *time = sums[1] / ((double)(3.0 * nx * ny * nz * nt));
    return 1;
}
#else
static int by_threads(double *space, double *time) { return (void)space, (void)time, 0; }
#endif

void milcgpu_host_plaquettes(double *space, double *time) {
    if (!by_threads(space, time))
        milcgpu_original(d_plaquette)(space, time);
}

/* ---- phases ------------------------------------------------------------------------------------------------------ */

static int rephase_part(void *unused, size_t from, size_t to) {
    size_t i;
    int mu, k;
    (void)unused;
    for (i = from; i < to; i++)
        for (mu = XUP; mu <= TUP; mu++)
            for (k = 0; k < 9; k++) {
                complex *const z = &lattice[i].link[mu].e[k / 3][k % 3];
                z->real *= lattice[i].phase[mu];
                z->imag *= lattice[i].phase[mu];
            }
    return 0;
}

/* If the phases are already as `flag` says, MILC's own routine prints its message. */
void milcgpu_host_rephase(int flag) {
    if (phases_in + flag == ON + OFF && phases_in != flag &&
        milcgpu_plugin_by_all_threads(sites_on_node, rephase_part, NULL) >= 0)
        phases_in = flag;
    else
        milcgpu_original(rephase)(flag);
}

/* ---- reunitarization --------------------------------------------------------------------------------------------- */

#define TOLERANCE 0.0001 /* MILC's: it reports a link that is off by more */

static Real norm(const complex row[3]) {
    return row[0].real * row[0].real + row[0].imag * row[0].imag + row[1].real * row[1].real +
           row[1].imag * row[1].imag + row[2].real * row[2].real + row[2].imag * row[2].imag;
}
static void scale(complex row[3], Real by) {
    int c;
    for (c = 0; c < 3; c++) {
        row[c].real *= by;
        row[c].imag *= by;
    }
}
/* The complex conjugate of a[j] b[k] - a[k] b[j]. */
static complex cross(const complex *a, const complex *b, int j, int k) {
    Real re = a[j].real * b[k].real - a[j].imag * b[k].imag, im = a[j].real * b[k].imag + a[j].imag * b[k].real;
    complex z;
    re = re - a[k].real * b[j].real + a[k].imag * b[j].imag;
    im = im - a[k].real * b[j].imag - a[k].imag * b[j].real;
    z.real = re;
    z.imag = -im;
    return z;
}

/* Gram and Schmidt on two rows; the third is their cross product. Operations in the order of MILC's reunit_su3, which
 * cannot run on several threads, because it counts in global variables. Returns 0 if MILC would report the link. */
static int make_su3(su3_matrix *m) {
    complex *const a = m->e[0], *const b = m->e[1], *const third = m->e[2], old[3] = {third[0], third[1], third[2]};
    Real re, im, deviation;
    int c, good;

    re = norm(a);
    deviation = fabs(re - 1.);
    good = deviation < TOLERANCE;
    re = 1.0 / sqrt((double)re);
    scale(a, re);

    re = a[0].real * b[0].real + a[0].imag * b[0].imag + a[1].real * b[1].real + a[1].imag * b[1].imag +
         a[2].real * b[2].real + a[2].imag * b[2].imag;
    im = a[0].real * b[0].imag - a[0].imag * b[0].real + a[1].real * b[1].imag - a[1].imag * b[1].real +
         a[2].real * b[2].imag - a[2].imag * b[2].real;
    deviation = re * re + im * im;
    good = good && deviation < TOLERANCE;
    for (c = 0; c < 3; c++) {
        b[c].real -= re * a[c].real - im * a[c].imag;
        b[c].imag -= re * a[c].imag + im * a[c].real;
    }
    re = norm(b);
    deviation = fabs(re - 1.);
    good = good && deviation < TOLERANCE;
    re = 1.0 / sqrt((double)re);
    scale(b, re);

    third[0] = cross(a, b, 1, 2);
    third[1] = cross(a, b, 2, 0);
    third[2] = cross(a, b, 0, 1);
    deviation = 0;
    for (c = 0; c < 3; c++)
        deviation += (old[c].real - third[c].real) * (old[c].real - third[c].real) +
                     (old[c].imag - third[c].imag) * (old[c].imag - third[c].imag);
    return good && deviation < TOLERANCE;
}

/* Returns 1 if MILC would report one of these links. */
static int try_part(void *unused, size_t from, size_t to) {
    size_t k;
    (void)unused;
    for (k = 4 * from; k < 4 * to; k++) {
        su3_matrix link = lattice[k / 4].link[k % 4];
        if (!make_su3(&link))
            return 1;
    }
    return 0;
}
static int write_part(void *unused, size_t from, size_t to) {
    size_t k;
    (void)unused;
    for (k = 4 * from; k < 4 * to; k++)
        make_su3(&lattice[k / 4].link[k % 4]);
    return 0;
}

/* With -ffast-math, compilers round make_su3 and MILC's routine differently in the last bits. */
#ifdef __FAST_MATH__
#define ALLOWED (8 * (MILC_PRECISION == 1 ? FLT_EPSILON : DBL_EPSILON))
#else
#define ALLOWED 0
#endif

static int alike(const su3_matrix *ours, const su3_matrix *theirs) {
    int j, k;
    for (j = 0; j < 3; j++)
        for (k = 0; k < 3; k++)
            if (!(fabs(ours->e[j][k].real - theirs->e[j][k].real) <= ALLOWED &&
                  fabs(ours->e[j][k].imag - theirs->e[j][k].imag) <= ALLOWED))
                return 0;
    return 1;
}

/* Returns 1 if make_su3 and MILC's routine make the same of some links. */
static int as_milc_does(void) {
    const size_t step = 1 + sites_on_node / 64;
    size_t i;
    int mu;
    if (reunit_su3 == NULL)
        return 0;
    for (i = 0; i < sites_on_node; i += step)
        for (mu = XUP; mu <= TUP; mu++) {
            su3_matrix ours = lattice[i].link[mu], theirs = ours;
            make_su3(&ours);
            milcgpu_there(reunit_su3)(&theirs);
            if (!alike(&ours, &theirs))
                return 0;
        }
    return 1;
}

void __wrap_reunitarize_cpu(void) {
#ifndef SCHROED_FUN
    if (as_milc_does() && milcgpu_plugin_by_all_threads(sites_on_node, try_part, NULL) == 0) {
        milcgpu_plugin_by_all_threads(sites_on_node, write_part, NULL);
        return;
    }
#endif
    milcgpu_original(reunitarize_cpu)();
}

/* ---- a warm start ------------------------------------------------------------------------------------------------ */

/* MILC draws links near unity, each site's with the generator of the site, and reunitarizes them. All threads do so
 * before MILC's own routine. sites_on_node is then 1 until MILC computes plaquettes, so MILC's loop sees the first site
 * alone. If its links are not ours, compilers round the two loops differently, and MILC's own draws all links again. */
#if defined(MILCGPU_DRAWS) && defined(WARM) && !defined(SCHROED_FUN)
static struct {
    size_t sites;        /* 0: MILC's loop sees all sites */
    double_prn *before;  /* the generators */
    su3_matrix first[4]; /* the first site's links */
} warm;

static int warm_part(void *unused, size_t from, size_t to) {
    size_t i;
    int mu, j, k;
    (void)unused;
    for (i = from; i < to; i++) {
        double_prn *const generator = &lattice[i].site_prn;
        warm.before[i] = *generator;
        for (mu = XUP; mu <= TUP; mu++) {
            su3_matrix *const m = &lattice[i].link[mu];
            for (j = 0; j < 3; j++)
                for (k = 0; k < 3; k++) {
                    Real x = 0.7 * milcgpu_there(gaussian_rand_no)(generator);
                    Real y = 0.7 * milcgpu_there(gaussian_rand_no)(generator);
                    m->e[j][k].real = j != k ? x : 1.0 + x;
                    m->e[j][k].imag = y;
                }
            make_su3(m);
        }
    }
    return 0;
}

void milcgpu_begin_warm(int flag) {
    if (flag != WARM || warmlat == NULL || sites_on_node == 0)
        return;
    warm.before = (double_prn *)malloc(sites_on_node * sizeof(double_prn));
    if (warm.before == NULL || milcgpu_plugin_by_all_threads(sites_on_node, warm_part, NULL) < 0) {
        free(warm.before);
        return;
    }
    memcpy(warm.first, lattice[0].link, sizeof warm.first);
    lattice[0].site_prn = warm.before[0];
    warm.sites = sites_on_node;
    sites_on_node = 1;
}

void milcgpu_end_warm(void) {
    size_t i;
    int mu, good = 1;
    if (warm.sites == 0)
        return;
    sites_on_node = warm.sites;
    warm.sites = 0;
    for (mu = XUP; mu <= TUP; mu++)
        good = good && alike(&warm.first[mu], &lattice[0].link[mu]);
    if (!good) {
        for (i = 0; i < sites_on_node; i++)
            lattice[i].site_prn = warm.before[i];
        milcgpu_there(warmlat)();
    }
    free(warm.before);
}
#else
void milcgpu_begin_warm(int flag) { (void)flag; }
void milcgpu_end_warm(void) {}
#endif
