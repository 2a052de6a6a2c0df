/* Staples, SU(2) subgroups, random numbers. */
#include "../generic/generic_includes.h"

#include "sweeps.h"
#include <string.h>

/* c += a b, with each factor or its adjoint. */
static void multiply(su3_matrix *c, const su3_matrix *a, int a_adjoint, const su3_matrix *b, int b_adjoint) {
    int i, j, k;
    for (i = 0; i < 3; i++)
        for (j = 0; j < 3; j++)
            for (k = 0; k < 3; k++) {
                const complex x = a_adjoint ? a->e[k][i] : a->e[i][k], y = b_adjoint ? b->e[j][k] : b->e[k][j];
                const Real x_imag = a_adjoint ? -x.imag : x.imag, y_imag = b_adjoint ? -y.imag : y.imag;
                c->e[i][j].real += x.real * y.real - x_imag * y_imag;
                c->e[i][j].imag += x.real * y_imag + x_imag * y.real;
            }
}

static site *neighbour(const site *s, int mu, int hops) {
    const int n[4] = {nx, ny, nz, nt};
    int x[4] = {s->x, s->y, s->z, s->t};
    x[mu] = (x[mu] + hops + n[mu]) % n[mu];
    return &lattice[node_index(x[0], x[1], x[2], x[3])];
}

/* The sum over the six plaquettes of a link is Re tr(link staples). */
static su3_matrix staples(const site *s, int mu) {
    su3_matrix sum, two;
    int nu;
    memset(&sum, 0, sizeof sum);
    for (nu = XUP; nu <= TUP; nu++) {
        const site *ahead = neighbour(s, mu, 1), *up = neighbour(s, nu, 1), *down = neighbour(s, nu, -1);
        if (nu == mu)
            continue;
        memset(&two, 0, sizeof two);
        multiply(&two, &ahead->link[nu], 0, &up->link[mu], 1);
        multiply(&sum, &two, 0, &s->link[nu], 1);
        memset(&two, 0, sizeof two);
        multiply(&two, &neighbour(ahead, nu, -1)->link[nu], 1, &down->link[mu], 1);
        multiply(&sum, &two, 0, &down->link[nu], 0);
    }
    return sum;
}

static void turn_rows(su3_matrix *m, su2_matrix h, int p, int q) {
    const complex u[2][2] = {{{h.a[0], h.a[3]}, {h.a[2], h.a[1]}}, {{-h.a[2], h.a[1]}, {h.a[0], -h.a[3]}}};
    int row, k;
    for (k = 0; k < 3; k++) {
        const complex x[2] = {m->e[p][k], m->e[q][k]};
        for (row = 0; row < 2; row++) {
            complex *to = &m->e[row == 0 ? p : q][k];
            to->real = u[row][0].real * x[0].real - u[row][0].imag * x[0].imag + u[row][1].real * x[1].real -
                       u[row][1].imag * x[1].imag;
            to->imag = u[row][0].real * x[0].imag + u[row][0].imag * x[0].real + u[row][1].real * x[1].imag +
                       u[row][1].imag * x[1].real;
        }
    }
}

su2_matrix times_inverse(su2_matrix a, su2_matrix v) {
    const su2_matrix h = {{a.a[0] * v.a[0] + a.a[1] * v.a[1] + a.a[2] * v.a[2] + a.a[3] * v.a[3],
                           a.a[1] * v.a[0] - a.a[0] * v.a[1] + a.a[2] * v.a[3] - a.a[3] * v.a[2],
                           a.a[2] * v.a[0] - a.a[0] * v.a[2] + a.a[3] * v.a[1] - a.a[1] * v.a[3],
                           a.a[3] * v.a[0] - a.a[0] * v.a[3] + a.a[1] * v.a[2] - a.a[2] * v.a[1]}};
    return h;
}

static void hit_link(site *s, int mu, su2_matrix (*hit)(su2_matrix, double, double_prn *)) {
    static const int rows[3][2] = {{1, 2}, {0, 2}, {0, 1}};
    const su3_matrix around = staples(s, mu);
    int k;
    for (k = 0; k < 3; k++) {
        const int p = rows[k][0], q = rows[k][1];
        su3_matrix w;
        su2_matrix v;
        double z;
        memset(&w, 0, sizeof w);
        multiply(&w, &s->link[mu], 0, &around, 0);
        v.a[0] = w.e[p][p].real + w.e[q][q].real;
        v.a[1] = w.e[p][q].imag + w.e[q][p].imag;
        v.a[2] = w.e[p][q].real - w.e[q][p].real;
        v.a[3] = w.e[p][p].imag - w.e[q][q].imag;
        z = sqrt(v.a[0] * v.a[0] + v.a[1] * v.a[1] + v.a[2] * v.a[2] + v.a[3] * v.a[3]);
        v.a[0] /= z, v.a[1] /= z, v.a[2] /= z, v.a[3] /= z;
        turn_rows(&s->link[mu], hit(v, z, &s->site_prn), p, q);
    }
}

void sweep(int sweeps, su2_matrix (*hit)(su2_matrix, double, double_prn *)) {
    int odd, mu;
    size_t i;
    for (; sweeps > 0; sweeps--)
        for (odd = 1; odd >= 0; odd--)
            for (mu = XUP; mu <= TUP; mu++)
                for (i = odd ? even_sites_on_node : 0; i < (odd ? sites_on_node : even_sites_on_node); i++)
                    hit_link(&lattice[i], mu, hit);
}

Real myrand(double_prn *prn) {
    const uint32_t t = (uint32_t)((prn->r5 >> 7 | prn->r6 << 17) ^ (prn->r4 >> 1 | prn->r5 << 23)) & 0xffffff;
    prn->r6 = prn->r5, prn->r5 = prn->r4, prn->r4 = prn->r3, prn->r3 = prn->r2, prn->r2 = prn->r1, prn->r1 = prn->r0;
    prn->r0 = t;
    prn->ic_state = prn->ic_state * prn->multiplier + prn->addend;
    return prn->scale * (float)(t ^ (uint32_t)(prn->ic_state >> 40 & 0xffffff));
}
