/* Calls MILC's own GPU switches like a MILC with deflation (2025 and later; -DSINCE_2025: its get_fm_links takes an
 * index) and like an older one. tests/quda/test_quda_calls.cpp compiles it both ways and reads its output. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define _GENERIC_KS_H
typedef struct {
    struct {
        int twist_in;
        double bdry_phase[4];
    } * phase;
} imp_ferm_links_t;
typedef struct all_sets fermion_links_t;
#ifdef SINCE_2025
imp_ferm_links_t *get_fm_links(fermion_links_t *links, int naik_index);
#else
imp_ferm_links_t **get_fm_links(fermion_links_t *links);
#endif
#include <quda_milc_interface.h>

enum { SITES = 4 * 4 * 4 * 4, REALS = 6 * SITES, SOURCES = 2 };

static double fat[72 * SITES], lng[72 * SITES], b[SOURCES][REALS], x[SOURCES][REALS];
static void *sources[SOURCES] = {b[0], b[1]}, *solutions[SOURCES] = {x[0], x[1]};
static double residual, relative;
static int iterations, failures;

static void expect(int right, const char *what) {
    if (!right) {
        printf("WRONG: %s\n", what);
        failures++;
    }
}

/* Counts as MILC does for its total_iters. */
static int total(void) {
#ifdef SINCE_2025
    return SOURCES * iterations;
#else
    return iterations;
#endif
}

/* All members that MILC sets, with its values. */
static QudaEigensolverArgs_t deflation(int vectors) {
    QudaEigensolverArgs_t args;
    memset(&args, 0x7f, sizeof args);
    args.struct_size = 1192;
    args.n_ev_deflate = vectors;
    args.n_ev = args.n_conv = 16;
    args.n_kr = 36;
    args.block_size = args.batched_rotate = args.max_restarts = args.poly_deg = args.check_interval = 1;
    args.compute_evals_batch_size = 16;
    args.a_min = args.a_max = args.tol = args.qr_tol = args.tol_restart = 0.01;
    args.eig_type = args.block_size > 1 ? QUDA_EIG_BLK_TR_LANCZOS : QUDA_EIG_TR_LANCZOS;
    args.spectrum = QUDA_SPECTRUM_SR_EIG;
    args.vec_in_parity = QUDA_EVEN_PARITY;
    args.save_prec = QUDA_SINGLE_PRECISION;
    args.prec_eigensolver = vectors > 0 ? QUDA_HALF_PRECISION : QUDA_DOUBLE_PRECISION;
    args.use_pc = args.use_eigen_qr = args.use_poly_acc = args.preserve_evals = args.preserve_deflation =
        args.require_convergence = QUDA_BOOLEAN_TRUE;
    args.use_norm_op = args.use_dagger = args.compute_gamma5 = args.compute_svd = args.arpack_check = args.partfile =
        args.io_parity_inflate = QUDA_BOOLEAN_FALSE;
    strcpy(args.vec_infile, "");
    memset(args.vec_outfile, 'f', 511); /* MILC copies names of any length; its own have 256 */
    args.vec_outfile[511] = 0;
    return args;
}

static imp_ferm_links_t *fn; /* MILC's routines have it as an argument */

/* A deflated solve with links f that names a file to write and a file to read. */
static void solve_for_file(const double *f, double eps_naik, double twist, const char *to, const char *from,
                           int deflate) {
    QudaInvertArgs_t args;
    QudaEigensolverArgs_t eigen = deflation(deflate ? 16 : 0);
    memset(&args, 0, sizeof args);
    args.max_iter = 5000;
    args.evenodd = QUDA_EVEN_PARITY;
    args.naik_epsilon = eps_naik;
    fn->phase->bdry_phase[0] = twist;
    strcpy(eigen.vec_outfile, to);
    strcpy(eigen.vec_infile, from);
    memset(x, 0, sizeof x);
    qudaInvertDeflatable(2, 2, 0.02, args, eigen, 1e-8, 0, f, lng, b[0], x[0], &residual, &relative, &iterations);
    expect(residual < 1e-8 && iterations > 0, "a solve that names a file");
}

/* MILC names the file in all calls, also for other links and later lattices. */
static void files(void) {
    static double other[3][72 * SITES];
    int i, k;
    for (k = 0; k < 3; k++)
        for (i = 0; i < 72 * SITES; i++)
            other[k][i] = (1.1 + 0.1 * k) * fat[i];
    qudaCleanUpDeflationSpace();
    puts("files:");
    fflush(stdout);
    solve_for_file(other[0], 0, 0.3, "eigA", "", 1);
    solve_for_file(other[0], 0, 0, "eigA", "", 0); /* MILC of 2025 says 0, but the links still have the twist */
    solve_for_file(other[1], -0.2, 0, "eigA", "", 1);
    solve_for_file(fat, 0, 0, "eigA", "", 1);
    solve_for_file(other[2], 0, 0, "eigA", "", 1); /* a second lattice, with the word 'forget' */
    solve_for_file(fat, 0, 0, "eigB", "", 0);
    qudaCleanUpDeflationSpace();
    solve_for_file(fat, 0, 0, "", "eigA", 1);
    solve_for_file(fat, 0, 0, "eigC", "", 1); /* writes vectors that exist already */
}

static void refused(const char *what) {
    expect(residual == INFINITY && relative == INFINITY, what);
    expect(iterations == 0 && isnan(x[0][0]) && isnan(x[0][REALS / 2 - 1]) && x[0][REALS / 2] == 2, what);
    x[0][0] = 2;
}

int main(void) {
    const int size[4] = {4, 4, 4, 4}, ranks[4] = {1, 1, 1, 1};
    const QudaInitArgs_t start = {QUDA_SILENT, {size, ranks, 0}};
    QudaInvertArgs_t args;
    QudaEigensolverArgs_t none = deflation(0), some = deflation(16);
    QudaInvertParam inverter = newQudaInvertParam();
    QudaGaugeParam gauge = newQudaGaugeParam();
    QudaEigParam eigen = newQudaEigParam();
    double values[2 * SOURCES] = {1, 1, 1, 1};
    int i, k, block;

    imp_ferm_links_t links;
    links.phase = calloc(1, sizeof *links.phase);
    links.phase->twist_in = 1;
    fn = &links;
    memset(&args, 0, sizeof args);
    args.max_iter = 500;
    args.evenodd = QUDA_EVEN_PARITY;
    srand(1);
    for (i = 0; i < 4 * SITES; i++)
        for (k = 0; k < 3; k++)
            fat[18 * i + 8 * k] = 0.5 + (double)rand() / RAND_MAX;
    for (i = 0; i < REALS; i++)
        for (k = 0; k < SOURCES; k++)
            b[k][i] = (double)rand() / RAND_MAX - 0.5;
    qudaInit(start);

    qudaInvertMsrc(2, 2, 0.1, args, 1e-10, 0, fat, lng, sources, solutions, &residual, &relative, &iterations, SOURCES);
    expect(residual < 1e-10 && relative == 1, "qudaInvertMsrc");
    block = total();
    printf("total iterations %d\n", block);

    memset(x, 0, sizeof x);
    qudaInvertMsrcDeflatable(2, 2, 0.1, args, none, 1e-10, 0, fat, lng, sources, solutions, &residual, &relative,
                             &iterations, SOURCES);
    expect(residual < 1e-10 && relative == 1, "qudaInvertMsrcDeflatable without eigenvectors");
    /* the most of a source, of sources that take about as many */
    expect(SOURCES * iterations >= block && iterations <= 0.52 * block, "its iterations, as those of qudaInvertMsrc");
    memset(x, 0, sizeof x);
    qudaInvertDeflatable(2, 2, 0.1, args, none, 1e-10, 0, fat, lng, b[0], x[0], &residual, &relative, &iterations);
    expect(residual < 1e-10 && iterations > 0, "qudaInvertDeflatable without eigenvectors");

    /* The solution of the second source is known. */
    qudaInvert(2, 2, 0.1, args, 1e-11, 0, fat, lng, b[1], x[1], &residual, &relative, &iterations);
    memset(x[0], 0, sizeof x[0]);
    args.max_iter = 3;
    qudaInvertMsrc(2, 2, 0.1, args, 1e-10, 0, fat, lng, sources, solutions, &residual, &relative, &iterations, SOURCES);
    expect(residual > 1e-10, "a source that does not converge");
    args.max_iter = 500;

    /* Links that MILC has not filled: D is zero. */
    for (k = 0; k < 2; k++)
        qudaInvert(2, 2, 0.1, args, 1e-10, 0, lng, lng, b[1], x[1], &residual, &relative, &iterations);
    expect(fabs(x[1][0] - b[1][0] / 0.04) < 1e-9, "the solution for links of zero");

    /* The other source does not hide NaN. */
    b[0][0] = NAN;
    memset(x, 0, sizeof x);
    qudaInvertMsrc(2, 2, 0.1, args, 1e-10, 0, fat, lng, sources, solutions, &residual, &relative, &iterations, SOURCES);
    expect(!(residual < 1e-10), "a source with a NaN");
    b[0][0] = 0;

    puts("deflation:");
    fflush(stdout);
    memset(x, 0, sizeof x);
    qudaLoadDeflationSpace(2, 2, fat, lng, 0.1, args, some, NULL, QUDA_MILC_EIG_COMPUTE);
    qudaInvertDeflatable(2, 2, 0.1, args, some, 1e-10, 0, fat, lng, b[0], x[0], &residual, &relative, &iterations);
    expect(residual < 1e-10 && relative == 1 && iterations > 0, "qudaInvertDeflatable");
    memset(x, 0, sizeof x);
    qudaInvertMsrcDeflatable(2, 2, 0.1, args, some, 1e-10, 0, fat, lng, sources, solutions, &residual, &relative,
                             &iterations, SOURCES);
    expect(residual < 1e-10 && relative == 1 && iterations > 0, "qudaInvertMsrcDeflatable");
    qudaCleanUpDeflationSpace();
    for (k = 0; k < SOURCES; k++)
        for (i = 0; i < REALS; i++)
            x[k][i] = 2;
    none.struct_size = 8;
    qudaInvertDeflatable(2, 2, 0.1, args, none, 1e-10, 0, fat, lng, b[0], x[0], &residual, &relative, &iterations);
    refused("a struct of another size");

    inverter.cpu_prec = QUDA_DOUBLE_PRECISION;
    inverter.matpc_type = QUDA_MATPC_EVEN_EVEN;
    eigen.invert_param = &inverter;
    eigen.n_conv = SOURCES;
    eigen.spectrum = QUDA_SPECTRUM_SR_EIG;
    eigen.use_pc = QUDA_BOOLEAN_TRUE;
    eigen.tol = 1e-12;
    gauge.cpu_prec = QUDA_DOUBLE_PRECISION;
    gauge.type = QUDA_ASQTAD_FAT_LINKS;
    loadGaugeQuda(fat, &gauge);
    gauge.type = QUDA_ASQTAD_LONG_LINKS;
    loadGaugeQuda(lng, &gauge);
    eigensolveQuda(solutions, values, &eigen);
    expect(values[0] >= 0 && values[1] == 0 && x[0][0] != 2 && x[0][REALS / 2] == 2, "eigensolveQuda");
    eigen.n_conv = 1;
    eigen.use_pc = QUDA_BOOLEAN_FALSE;
    eigensolveQuda(solutions, values, &eigen);
    expect(isnan(values[0]) && isnan(values[1]) && isnan(x[0][0]) && isnan(x[0][REALS - 1]),
           "eigensolveQuda on both parities");
    expect(!isnan(x[1][0]), "eigensolveQuda: more vectors than were asked for");
    files();
    qudaFinalize();
    puts(failures == 0 ? "all right" : "not right");
    return failures != 0;
}
