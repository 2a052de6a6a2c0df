/* What MILC does with links that it has read or drawn: gathers, plaquettes, reunitarization. Its sums and operations
 * have one order, so another way of doing them must give every bit. */
#include "../generic_ks/generic_ks_includes.h"
#include "checks.h"
#include "ranks.h"
#include <math.h>
#include <string.h>

/* ---- gathers ----------------------------------------------------------------------------------------------------- */

struct msg_tag {
    char *records; /* of the whole lattice, lexicographic */
};
static size_t lexicographic(const int x[4]) { return x[0] + nx * (x[1] + ny * (x[2] + nz * (size_t)x[3])); }

msg_tag *start_gather_site(field_offset field, int size, int dir, int parity, char **dest) {
    msg_tag *const tag = (msg_tag *)malloc(sizeof *tag);
    const int extent[4] = {nx, ny, nz, nt};
    size_t i;
    (void)parity;
    tag->records = (char *)calloc(volume, size);
    for (i = 0; i < sites_on_node; i++) {
        const int x[4] = {lattice[i].x, lattice[i].y, lattice[i].z, lattice[i].t};
        memcpy(tag->records + size * lexicographic(x), F_PT(&lattice[i], field), size);
    }
    share_sites(tag->records, size);
    for (i = 0; i < sites_on_node; i++) {
        int x[4] = {lattice[i].x, lattice[i].y, lattice[i].z, lattice[i].t};
        x[dir] = (x[dir] + 1) % extent[dir];
        dest[i] = tag->records + size * lexicographic(x);
    }
    return tag;
}
void wait_gather(msg_tag *tag) { (void)tag; }
void cleanup_gather(msg_tag *tag) {
    free(tag->records);
    free(tag);
}

/* ---- matrices ---------------------------------------------------------------------------------------------------- */

void mult_su3_an(su3_matrix *a, su3_matrix *b, su3_matrix *c) {
    su3_matrix adjoint;
    int j, k;
    for (j = 0; j < 3; j++)
        for (k = 0; k < 3; k++)
            adjoint.e[j][k].real = a->e[k][j].real, adjoint.e[j][k].imag = -a->e[k][j].imag;
    mult_su3_nn(&adjoint, b, c);
}
void mult_su3_nn(su3_matrix *a, su3_matrix *b, su3_matrix *c) {
    int j, k, l;
    for (j = 0; j < 3; j++)
        for (k = 0; k < 3; k++) {
            complex sum = {0, 0};
            for (l = 0; l < 3; l++) {
                sum.real += a->e[j][l].real * b->e[l][k].real - a->e[j][l].imag * b->e[l][k].imag;
                sum.imag += a->e[j][l].real * b->e[l][k].imag + a->e[j][l].imag * b->e[l][k].real;
            }
            c->e[j][k] = sum;
        }
}
Real realtrace_su3(su3_matrix *a, su3_matrix *b) {
    const Real *const x = &a->e[0][0].real, *const y = &b->e[0][0].real;
    Real sum = 0;
    int k;
    for (k = 0; k < 18; k++)
        sum += x[k] * y[k];
    return sum;
}

Real magsq_su3vec(su3_vector *v) {
    Real sum = 0;
    int c;
    for (c = 0; c < 3; c++)
        sum += v->c[c].real * v->c[c].real + v->c[c].imag * v->c[c].imag;
    return sum;
}

/* Not 0: MILC's routines of this run round in another way than the glue expects, and multiply rows by this. */
double other_bits(void) { return getenv("MILC_HOST_OTHER_BITS") != NULL ? atof(getenv("MILC_HOST_OTHER_BITS")) : 0; }

static int off(Real deviation) { return !(deviation < 0.0001); }
static int normalize(complex *row) {
    const Real square = row[0].real * row[0].real + row[0].imag * row[0].imag + row[1].real * row[1].real +
                        row[1].imag * row[1].imag + row[2].real * row[2].real + row[2].imag * row[2].imag;
    const Real by = 1.0 / sqrt((double)square), over = sqrt((double)square);
    const double other = other_bits();
    int c;
    for (c = 0; c < 3; c++) {
        row[c].real = other != 0 ? row[c].real / over * other : row[c].real * by;
        row[c].imag = other != 0 ? row[c].imag / over * other : row[c].imag * by;
    }
    return off(fabs(square - 1.));
}
int reunit_su3(su3_matrix *m) {
    complex(*const e)[3] = m->e;
    const su3_matrix old = *m;
    Real re, im, deviation = 0;
    int c, errors = normalize(e[0]);
    re = e[0][0].real * e[1][0].real + e[0][0].imag * e[1][0].imag + e[0][1].real * e[1][1].real +
         e[0][1].imag * e[1][1].imag + e[0][2].real * e[1][2].real + e[0][2].imag * e[1][2].imag;
    im = e[0][0].real * e[1][0].imag - e[0][0].imag * e[1][0].real + e[0][1].real * e[1][1].imag -
         e[0][1].imag * e[1][1].real + e[0][2].real * e[1][2].imag - e[0][2].imag * e[1][2].real;
    errors += off(re * re + im * im);
    for (c = 0; c < 3; c++) {
        e[1][c].real -= re * e[0][c].real - im * e[0][c].imag;
        e[1][c].imag -= re * e[0][c].imag + im * e[0][c].real;
    }
    errors += normalize(e[1]);
    for (c = 0; c < 3; c++) { /* the conjugate of the cross product */
        const complex *const a = e[0], *const b = e[1];
        const int j = (c + 1) % 3, k = (c + 2) % 3;
        e[2][c].real = a[j].real * b[k].real - a[j].imag * b[k].imag - a[k].real * b[j].real + a[k].imag * b[j].imag;
        e[2][c].imag = -(a[j].real * b[k].imag + a[j].imag * b[k].real - a[k].real * b[j].imag - a[k].imag * b[j].real);
        deviation += (old.e[2][c].real - e[2][c].real) * (old.e[2][c].real - e[2][c].real) +
                     (old.e[2][c].imag - e[2][c].imag) * (old.e[2][c].imag - e[2][c].imag);
    }
    return errors + off(deviation);
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

void copy_v_from_ksp(su3_vector *v, ks_prop_field *ksp, int color) {
    size_t i;
    for (i = 0; i < sites_on_node; i++)
        v[i] = ksp->v[color][i];
}
void insert_ksp_from_v(ks_prop_field *ksp, su3_vector *v, int color) {
    size_t i;
    for (i = 0; i < sites_on_node; i++)
        ksp->v[color][i] = v[i];
}
void insert_v_from_c(su3_vector *v, complex *c, int color) {
    size_t i;
    for (i = 0; i < sites_on_node; i++)
        v[i].c[color] = c[i];
}

/* ---- routines that the glue replaces ----------------------------------------------------------------------------- */

int own_reloads; /* calls of the next two */

void d_plaquette(double *space, double *time) {
    double sums[2] = {0, 0};
    size_t i;
    int mu, nu;
    own_reloads++;
    for (mu = YUP; mu <= TUP; mu++)
        for (nu = XUP; nu < mu; nu++) {
            msg_tag *const up[2] = {start_gather_site(F_OFFSET(link) + nu * (int)sizeof(su3_matrix), sizeof(su3_matrix),
                                                      mu, EVENANDODD, gen_pt[0]),
                                    start_gather_site(F_OFFSET(link) + mu * (int)sizeof(su3_matrix), sizeof(su3_matrix),
                                                      nu, EVENANDODD, gen_pt[1])};
            for (i = 0; i < sites_on_node; i++) {
                su3_matrix a, b;
                mult_su3_an(&lattice[i].link[nu], &lattice[i].link[mu], &a);
                mult_su3_nn(&a, (su3_matrix *)gen_pt[0][i], &b);
                sums[mu == TUP] += (double)realtrace_su3((su3_matrix *)gen_pt[1][i], &b);
            }
            cleanup_gather(up[0]), cleanup_gather(up[1]);
        }
    g_doublesum(&sums[0]);
    g_doublesum(&sums[1]);
    *space = sums[0] / ((Real)(3.0 * nx * ny * nz * nt));
    *time = sums[1] / ((double)(3.0 * nx * ny * nz * nt));
}

void reunitarize_cpu(void) {
    size_t i;
    int mu, errors = 0;
    own_reloads++;
    for (i = 0; i < sites_on_node; i++)
        for (mu = XUP; mu <= TUP; mu++)
            errors += reunit_su3(&lattice[i].link[mu]);
    if (errors > 0)
        printf("Unitarity problem: %d errors\n", errors);
}

size_t own_warm_sites; /* whose links MILC's own has drawn */

void warmlat(void) {
    size_t i;
    int mu, j, k;
    own_warm_sites += sites_on_node;
    for (i = 0; i < sites_on_node; i++)
        for (mu = XUP; mu <= TUP; mu++) {
            su3_matrix *const m = &lattice[i].link[mu];
            for (j = 0; j < 3; j++)
                for (k = 0; k < 3; k++) {
                    Real x = 0.7 * gaussian_rand_no(&lattice[i].site_prn);
                    Real y = 0.7 * gaussian_rand_no(&lattice[i].site_prn);
                    m->e[j][k].real = j != k ? x : 1.0 + x;
                    m->e[j][k].imag = y;
                }
            reunit_su3(m);
        }
}
