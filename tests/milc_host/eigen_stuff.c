/* Eigenvectors of -D^2 with MILC's names and lines, and the routines that read eigVec. The lowest are found by
 * powers of a Chebyshev polynomial and Rayleigh-Ritz. */
#include "../generic_ks/generic_ks_includes.h"

#include "../include/fermion_links.h"

#include "../include/imp_ferm_links.h"
#include <complex.h> /* its name for a type is also a name of MILC's */
#undef complex
#include <math.h>
#include <stdlib.h>
#include <string.h>

su3_vector **eigVec;
eigenvalue *eigVal;

/* Complex numbers of one parity: the first or the second half of a field. */
enum { most_vectors = 16, spare = 4 };
static size_t begin_of(int parity) { return parity == ODD ? 3 * even_sites_on_node : 0; }
static complex_number *part(su3_vector *f, int parity) { return f->c + begin_of(parity); }
static double _Complex dot(su3_vector *a, su3_vector *b, int parity) {
    const complex_number *x = part(a, parity), *y = part(b, parity);
    double _Complex sum = 0;
    double sums[2];
    size_t k;
    for (k = 0; k < 3 * even_sites_on_node; k++)
        sum += (x[k].real - I * x[k].imag) * (y[k].real + I * y[k].imag);
    sums[0] = creal(sum), sums[1] = cimag(sum);
    g_vecdoublesum(sums, 2);
    return sums[0] + I * sums[1];
}
/* y = factor y + a x */
static void add(double factor, su3_vector *to, double _Complex a, su3_vector *from, int parity) {
    complex_number *y = part(to, parity);
    const complex_number *x = part(from, parity);
    size_t k;
    for (k = 0; k < 3 * even_sites_on_node; k++) {
        const double _Complex sum = factor * (y[k].real + I * y[k].imag) + a * (x[k].real + I * x[k].imag);
        y[k].real = creal(sum);
        y[k].imag = cimag(sum);
    }
}
static su3_vector *field(void) { return (su3_vector *)calloc(sites_on_node, sizeof(su3_vector)); }
static void normalize(su3_vector *v, int parity) { add(1 / sqrt(creal(dot(v, v, parity))), v, 0, v, parity); }

static su3_vector *between; /* D v */
static void apply(su3_vector *in, su3_vector *out, int parity, imp_ferm_links_t *fn) {
    dslash_fn_field(in, between, EVENANDODD - parity, fn);
    dslash_fn_field(between, out, parity, fn);
    add(-1, out, 0, out, parity);
}

static Real number_after(unsigned long *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (Real)((*state >> 33) * 0x1p-31 - 0.5);
}
Real gaussian_rand_no(double_prn *prn) { return number_after(&prn->state); }
complex complex_gaussian_rand_no(double_prn *prn) {
    complex number;
    number.real = number_after(&prn->state);
    number.imag = number_after(&prn->state);
    prn->drawn++;
    return number;
}
Real z2_rand_no(double_prn *prn) { return complex_gaussian_rand_no(prn).real > 0 ? 0.5 : -0.5; }
void random_anti_hermitian(anti_hermitmat *h, double_prn *prn) {
    const complex diagonal = complex_gaussian_rand_no(prn);
    h->m00im = diagonal.real;
    h->m11im = diagonal.imag;
    h->m22im = -diagonal.real - diagonal.imag;
    h->m01 = complex_gaussian_rand_no(prn);
    h->m02 = complex_gaussian_rand_no(prn);
    h->m12 = complex_gaussian_rand_no(prn);
}
void z2rsource_plain_field(su3_vector *dest, int parity) {
    const size_t first = parity == ODD ? even_sites_on_node : 0, n = parity == EVENANDODD ? 2 : 1;
    size_t i;
    int c;
    for (i = first; i < first + n * even_sites_on_node; i++)
        for (c = 0; c < 3; c++) {
            dest[i].c[c].real = z2_rand_no(&lattice[i].site_prn);
            dest[i].c[c].imag = z2_rand_no(&lattice[i].site_prn);
        }
}
void grsource_plain_field(su3_vector *dest, int parity) {
    const size_t first = parity == ODD ? even_sites_on_node : 0, n = parity == EVENANDODD ? 2 : 1;
    size_t i;
    int c;
    for (i = first; i < first + n * even_sites_on_node; i++)
        for (c = 0; c < 3; c++)
            dest[i].c[c] = complex_gaussian_rand_no(&lattice[i].site_prn);
}

/* Diagonalizes a hermitian matrix; the columns of v are its eigenvectors (Jacobi). */
static void diagonalize(int n, double _Complex a[n][n], double _Complex v[n][n]) {
    int sweep, p, q, k;
    for (p = 0; p < n; p++)
        for (q = 0; q < n; q++)
            v[p][q] = p == q;
    for (sweep = 0; sweep < 20; sweep++)
        for (p = 0; p < n; p++)
            for (q = p + 1; q < n; q++) {
                const double size = cabs(a[p][q]);
                if (size < 1e-300)
                    continue;
                const double _Complex phase = a[p][q] / size;
                const double t = 0.5 * atan2(2 * size, creal(a[q][q]) - creal(a[p][p])), c = cos(t), s = sin(t);
                for (k = 0; k < n; k++) {
                    const double _Complex x = a[k][p], y = a[k][q] * conj(phase), vx = v[k][p],
                                          vy = v[k][q] * conj(phase);
                    a[k][p] = c * x - s * y, a[k][q] = s * x + c * y;
                    v[k][p] = c * vx - s * vy, v[k][q] = s * vx + c * vy;
                }
                for (k = 0; k < n; k++) {
                    const double _Complex x = a[p][k], y = a[q][k] * phase;
                    a[p][k] = c * x - s * y, a[q][k] = s * x + c * y;
                }
            }
}

/* Rayleigh-Ritz in the space of m vectors, which become orthonormal, the lowest first; w = B v. */
static void ritz(int m, su3_vector **v, su3_vector **w, double *values, int parity, imp_ferm_links_t *fn) {
    double _Complex g[m][m], u[m][m];
    su3_vector *mixed[m];
    int i, j, k, order[m];
    for (j = 0; j < 2 * m; j++) { /* twice */
        for (i = 0; i < j % m; i++)
            add(1, v[j % m], -dot(v[i], v[j % m], parity), v[i], parity);
        normalize(v[j % m], parity);
    }
    for (j = 0; j < m; j++)
        apply(v[j], w[j], parity, fn);
    for (i = 0; i < m; i++)
        for (j = 0; j < m; j++)
            g[i][j] = dot(v[i], w[j], parity);
    diagonalize(m, g, u);
    for (j = 0; j < m; j++) {
        for (k = j; k > 0 && creal(g[order[k - 1]][order[k - 1]]) > creal(g[j][j]); k--)
            order[k] = order[k - 1];
        order[k] = j;
    }
    for (j = 0; j < m; j++) {
        mixed[j] = field();
        for (i = 0; i < m; i++)
            add(1, mixed[j], u[i][order[j]], v[i], parity);
        values[j] = creal(g[order[j]][order[j]]);
    }
    for (j = 0; j < m; j++) {
        memcpy(part(v[j], parity), part(mixed[j], parity), even_sites_on_node * sizeof(su3_vector));
        free(mixed[j]);
        apply(v[j], w[j], parity, fn);
    }
}

/* v = T_degree((high + low - 2 B) / (high - low)) v */
static void filter(su3_vector *v, double low, double high, int degree, int parity, imp_ferm_links_t *fn) {
    su3_vector *before = field(), *b = field();
    int k;
    memcpy(before, v, sites_on_node * sizeof(su3_vector));
    apply(before, b, parity, fn);
    add((high + low) / (high - low), v, -2 / (high - low), b, parity);
    for (k = 1; k < degree; k++) {
        apply(v, b, parity, fn);
        add(-1, before, 2 * (high + low) / (high - low), v, parity);
        add(1, before, -4 / (high - low), b, parity);
        add(0, b, 1, v, parity);
        add(0, v, 1, before, parity);
        add(0, before, 1, b, parity);
    }
    free(before), free(b);
}

/* draws: random numbers for start vectors. */
static int eigensolve(int draws, su3_vector **vectors, eigenvalue *values, ks_eigen_param *p) {
    const int n = p->Nvecs, m = n + spare, parity = p->parity;
    const double wanted = fmax(0.3 * sqrt(p->tol), MILC_PRECISION == 1 ? 2e-5 : 0);
    su3_vector *v[most_vectors], *w[most_vectors];
    double l[most_vectors], high = 0, worst = 1;
    double_prn other_numbers = {7, 0};
    imp_ferm_links_t *fn = LINKS_OF(fn_links, 0);
    size_t i;
    int j, turn;
    between = field();
    for (j = 0; j < m; j++) {
        v[j] = j < n ? vectors[j] : field();
        w[j] = field();
        for (i = 0; (j >= n || !draws) && i < sites_on_node; i++)
            v[j][i].c[i % 3] = complex_gaussian_rand_no(&other_numbers);
        if (j < n && draws && j >= p->Nvecs_in)
            grsource_plain_field(v[j], parity);
    }
    for (turn = 0; turn < 20; turn++) {
        memcpy(w[1], turn == 0 ? v[n] : w[0], sites_on_node * sizeof(su3_vector));
        normalize(w[1], parity);
        apply(w[1], w[0], parity, fn);
        high = sqrt(creal(dot(w[0], w[0], parity)));
    }
    l[m - 1] = high / 10;
    for (turn = 0; turn < 40 && worst > wanted; turn++) {
        for (j = 0; j < m; j++)
            filter(v[j], l[m - 1], 1.2 * high, 24, parity, fn);
        ritz(m, v, w, l, parity, fn);
        for (j = 0, worst = 0; j < n; j++) {
            add(1, w[j], -l[j], v[j], parity);
            worst = fmax(worst, sqrt(creal(dot(w[j], w[j], parity))));
        }
    }
    node0_printf("BEGIN RESULTS\n");
    for (j = 0; j < m; j++) {
        if (j < n) {
            values[j] = l[j];
            node0_printf("Eigenvalue(%i) = %.16g +/- %8e\t cvg? %d  \n", j, (double)values[j], worst, worst <= wanted);
        } else
            free(v[j]);
        free(w[j]);
    }
    free(between);
    GIVE_BACK(fn);
    return turn;
}

int ks_eigensolve_Kalkreuter_Ritz(su3_vector **vectors, eigenvalue *values, ks_eigen_param *p, int init) {
    (void)init;
    return eigensolve(1, vectors, values, p);
}
int ks_eigensolve_PRIMME(su3_vector **vectors, eigenvalue *values, ks_eigen_param *p, int init) {
    (void)init;
    return eigensolve(0, vectors, values, p);
}
int ks_eigensolve_ARPACK(su3_vector **vectors, eigenvalue *values, ks_eigen_param *p, int init) {
    return ks_eigensolve_PRIMME(vectors, values, p, init);
}

void CONSTRUCT_OTHER(su3_vector **vectors, eigenvalue *values, ks_eigen_param *p, imp_ferm_links_t *fn) {
    int k;
    (void)values;
    for (k = 0; k < p->Nvecs; k++) {
        dslash_fn_field(vectors[k], vectors[k], EVENANDODD - p->parity, fn);
        normalize(vectors[k], EVENANDODD - p->parity);
    }
}

void check_eigres(double *resid, su3_vector **vectors, eigenvalue *values, int n, int parity, imp_ferm_links_t *fn) {
    su3_vector *b = field();
    int k;
    between = field();
    node0_printf("Checking eigensolutions\n");
    for (k = 0; k < n; k++) {
        const double size = sqrt(creal(dot(vectors[k], vectors[k], parity)));
        apply(vectors[k], b, parity, fn);
        add(1, b, -values[k], vectors[k], parity);
        resid[k] = sqrt(creal(dot(b, b, parity))) / size;
        node0_printf("eigVal[%d] = %e ( resid = %e , |eigVec[%d]|-1 = %e )\n", k, (double)values[k], resid[k], k,
                     size - 1);
    }
    node0_printf("End of eigensolutions\n");
    free(b), free(between);
}

void reset_eigenvalues(su3_vector **vectors, eigenvalue *values, int n, int parity, imp_ferm_links_t *fn) {
    su3_vector *b = field();
    int k;
    between = field();
    for (k = 0; k < n; k++) {
        apply(vectors[k], b, parity, fn);
        values[k] = creal(dot(vectors[k], b, parity)) / creal(dot(vectors[k], vectors[k], parity));
    }
    free(b), free(between);
}

void measure_chirality(su3_vector *vector, double *chirality, int parity) {
    *chirality = creal(dot(vector, vector, parity));
}

/* The sum over all sites. */
static void add_densities(Real *sum) {
    int k;
    for (k = 0; k < param.eigen_param.Nvecs; k++)
        *sum += creal(dot(eigVec[k], eigVec[k], EVEN) + dot(eigVec[k], eigVec[k], ODD));
}

#ifndef MILC_HOST_MASTER
/* sums[t][mu] += scale Im a^dag U_mu b on the sites of a parity, with MILC's two operators. */
static void add_currents(double (*sums)[4], su3_vector *a, su3_vector *b, int parity, double scale,
                         imp_ferm_links_t *fn) {
    enum { rhoxsfape = 38, pion05 = 128 + 16 * 15 + 15 };
    su3_vector *made = field();
    int r0[4] = {0, 0, 0, 0}, mu, x, y, z, t, c;
    for (mu = 0; mu < 4; mu++) {
        spin_taste_op_ape_fn(fn, rhoxsfape + mu, r0, made, b);
        spin_taste_op_ape_fn(fn, pion05, r0, made, made);
        for (t = 0; t < nt; t++)
            for (z = 0; z < nz; z++)
                for (y = 0; y < ny; y++)
                    for (x = (y + z + t + (parity == ODD)) % 2; x < nx; x += 2) {
                        const int i = node_index(x, y, z, t);
                        for (c = 0; c < 3; c++)
                            sums[t][mu] +=
                                scale * (a[i].c[c].real * made[i].c[c].imag - a[i].c[c].imag * made[i].c[c].real);
                    }
    }
    free(made);
}
static void print_currents(const char *tag, double (*sums)[4]) {
    int t;
    for (t = 0; t < nt; t++)
        node0_printf("JTMU%s %d %.10g %.10g %.10g %.10g \n", tag, t, sums[t][0], sums[t][1], sums[t][2], sums[t][3]);
}
/* Noise on every `thinning`th site of a parity from the k-th on, without its part along eigenvectors. */
static void thin(su3_vector *to, su3_vector *noise, int thinning, int k, int parity) {
    int x, y, z, t, n;
    memset(to, 0, sites_on_node * sizeof(su3_vector));
    for (t = 0; t < nt; t++)
        for (z = 0; z < nz; z++)
            for (y = 0; y < ny; y++)
                for (x = (y + z + t + (parity == ODD)) % 2; x < nx; x += 2) {
                    const int place = ((x % thinning * thinning + y % thinning) * thinning + z % thinning) * thinning;
                    if ((place + t % thinning) / 2 == k)
                        to[node_index(x, y, z, t)] = noise[node_index(x, y, z, t)];
                }
    for (n = param.eigen_param.Nvecs - 1; n >= 0; n--)
        add(1, to, -dot(eigVec[n], to, parity), eigVec[n], parity);
}
static void currents(int nrand, int thinning, quark_invert_control *qic, Real mass, imp_ferm_links_t *fn) {
    su3_vector *noise = field(), *source = field(), *x = field();
    double sums[nt][4];
    int k, r, parity;
    memset(sums, 0, sizeof sums);
    for (k = 0; k < param.eigen_param.Nvecs; k++) {
        const double weight = 1 / (eigVal[k] + 4.0 * mass * mass);
        dslash_fn_field(eigVec[k], x, ODD, fn);
        add_currents(sums, eigVec[k], x, EVEN, -weight, fn);
        add_currents(sums, x, eigVec[k], ODD, weight, fn);
    }
    print_currents("LOW", sums);
    for (r = 0; r < nrand; r++) {
        memset(sums, 0, sizeof sums);
        grsource_plain_field(noise, EVENANDODD);
        for (parity = EVEN; parity >= ODD; parity--)
            for (k = 0; k < thinning * thinning * thinning * thinning / 2; k++) {
                thin(source, noise, thinning, k, parity);
                memset(x, 0, sites_on_node * sizeof(su3_vector));
                qic->parity = parity;
                ks_congrad_block_parity_cpu(1, &source, &x, qic, mass, fn);
                dslash_fn_field(x, x, EVENANDODD - parity, fn);
                add_currents(sums, source, x, parity, -1, fn);
            }
        print_currents(r == 0 ? "HI 0" : "HI 1", sums);
    }
    free(noise), free(source), free(x);
}
#endif

/* With one mass MILC's currents, else a sum that shows if eigVec is filled. */
void f_meas_current(int n_masses, int nrand, int thinning, quark_invert_control *qic, Real masses[], Real charges[],
                    imp_ferm_links_t *fn_mass[], Real *u1_A, char filenames[][MAXFILENAME]) {
    (void)charges, (void)filenames;
#ifndef MILC_HOST_MASTER
    if (n_masses == 1) {
        currents(nrand, thinning, qic, masses[0], fn_mass[0]);
        return;
    }
#else
    (void)n_masses, (void)nrand, (void)thinning, (void)qic, (void)masses, (void)fn_mass;
#endif
    add_densities(u1_A);
}
void f_meas_current_diff(int n_masses, int nrand, int thinning, quark_invert_control *precise,
                         quark_invert_control *sloppy, Real masses[], Real charges[], imp_ferm_links_t *fn_mass[],
                         Real *u1_A, char filenames[][MAXFILENAME]) {
    (void)sloppy;
    f_meas_current(n_masses, nrand, thinning, precise, masses, charges, fn_mass, u1_A, filenames);
}
void print_densities(su3_vector *vector, char *tag, int y, int z, int t, int parity) {
    (void)y, (void)z, (void)t;
    node0_printf("%s: %e\n", tag, creal(dot(vector, vector, parity)));
}

/* A file that the program keeps in memory. */
static struct {
    su3_vector *vectors[most_vectors];
    eigenvalue values[most_vectors];
} saved;

int reload_ks_eigen(int flag, char *file, int *n, eigenvalue *values, su3_vector **vectors, imp_ferm_links_t *fn,
                    int timing) {
    int k;
    (void)file, (void)fn, (void)timing;
    for (k = 0; k < *n; k++)
        if (flag == FRESH)
            memset(vectors[k], 0, sites_on_node * sizeof(su3_vector));
        else {
            memcpy(vectors[k], saved.vectors[k], sites_on_node * sizeof(su3_vector));
            values[k] = saved.values[k];
        }
    return 0;
}

int save_ks_eigen(int flag, char *file, int n, eigenvalue *values, su3_vector **vectors, eigen_residual *resid,
                  int timing) {
    int k;
    (void)file, (void)resid, (void)timing;
    for (k = 0; k < n && flag == SAVE_SERIAL; k++) {
        free(saved.vectors[k]);
        saved.vectors[k] = field();
        memcpy(saved.vectors[k], vectors[k], sites_on_node * sizeof(su3_vector));
        saved.values[k] = values[k];
    }
    return 0;
}
