/* Baryons, as ks_spectrum calls them, each compared with its original; where MILC's numbers are not so, with the right
 * ones. */
#define _POSIX_C_SOURCE 200112L /* setenv */
#include "../generic_ks/generic_ks_includes.h"

#include "../include/fermion_links.h"

#include "../include/imp_ferm_links.h"
#include "checks.h"
#include <math.h>
#include <string.h>

void __real_ks_baryon_nd(complex **, ks_prop_field *, ks_prop_field *, ks_prop_field *, int, int *, int *, Real *);

enum { CORNERS = 8, MOST = 16, FIRST_CURRENT = 128 };

static ks_prop_field *quark_of(su3_vector *a, su3_vector *b, su3_vector *c) {
    ks_prop_field *const made = create_ksp_field(3);
    su3_vector *fields[3] = {a, b, c};
    int k;
    for (k = 0; k < 3; k++) {
        free(made->v[k]);
        made->v[k] = fields[k];
    }
    return made;
}
static ks_prop_field *random_quark(unsigned seed) {
    return quark_of(random_field(seed), random_field(seed + 1), random_field(seed + 2));
}
static void free_quark(ks_prop_field *quark) {
    int c;
    for (c = 0; quark != NULL && c < 3; c++)
        free(quark->v[c]);
    if (quark != NULL)
        free(quark->v);
    free(quark);
}

static complex **new_rows(void) {
    complex **const rows = (complex **)malloc(MOST * sizeof *rows);
    int k;
    for (k = 0; k < MOST; k++)
        rows[k] = (complex *)calloc(nt, sizeof(complex));
    return rows;
}
static void free_rows(complex **rows) {
    int k;
    for (k = 0; k < MOST; k++)
        free(rows[k]);
    free(rows);
}
/* theirs is NULL: NaN is expected. Rows are sums over ranks here. */
static void check_row(const complex *ours, const complex *theirs, double factor, const char *what) {
    double apart = 0, size = 0, sums[4];
    int t;
    for (t = 0; t < nt; t++) {
        sums[0] = ours[t].real, sums[1] = ours[t].imag;
        sums[2] = theirs != NULL ? theirs[t].real : 0, sums[3] = theirs != NULL ? theirs[t].imag : 0;
        g_vecdoublesum(sums, 4);
        apart = fmax(apart, hypot(sums[0] - factor * sums[2], sums[1] - factor * sums[3]));
        size = fmax(size, hypot(factor * sums[2], factor * sums[3]));
        if ((sums[0] != sums[0]) != (theirs == NULL))
            apart = INFINITY;
    }
    check(theirs == NULL ? apart < INFINITY : size > 0 && apart < (MILC_PRECISION == 1 ? 1e-4 : 1e-12) * size, what,
          apart / size);
}

static int is_right(void) {
    const char *const setting = getenv("MILCGPU_BARYONS"), *const off = getenv("MILCGPU_OFF");
    return setting != NULL && strcmp(setting, "right") == 0 && off == NULL;
}

static void try_plain(void) {
    ks_prop_field *quarks[3] = {random_quark(11), random_quark(14), random_quark(17)};
    int types[4] = {0, 1, 0, 1}, phases[4] = {0, 1, 2, 3}, k;
    Real factors[4] = {1, -0.5, 2, 0.25};
    complex **ours = new_rows(), **theirs = new_rows();
    ks_baryon_nd(ours, quarks[0], quarks[0], quarks[0], 2, types, phases, factors);
    __real_ks_baryon_nd(theirs, quarks[0], quarks[0], quarks[0], 2, types, phases, factors);
    ks_baryon_nd(ours + 2, quarks[0], quarks[1], quarks[2], 2, types + 2, phases + 2, factors + 2);
    __real_ks_baryon_nd(theirs + 2, quarks[0], quarks[1], quarks[2], 2, types + 2, phases + 2, factors + 2);
    for (k = 0; k < 4; k++)
        check_row(ours[k], theirs[k], 1, types[k] ? "a delta" : "a nucleon");
    memset(ours[0], 0, nt * sizeof(complex));
    setenv("MILC_HOST_RANKS", "2", 1); /* MILC prints the sum of two ranks twice */
    ks_baryon_nd(ours, quarks[0], quarks[0], quarks[0], 1, types, phases, factors);
    unsetenv("MILC_HOST_RANKS");
    check_row(ours[0], theirs[0], is_right() ? 0.5 : 1, "a nucleon of two ranks");
    free_rows(ours), free_rows(theirs);
    for (k = 0; k < 3; k++)
        free_quark(quarks[k]);
}

#ifndef MILC_HOST_MASTER
#include "../include/gb_ops.h"

void __real_gb_baryon(ks_prop_field **, ks_prop_field **, ks_prop_field **, su3_matrix *, enum gb_baryon_op *,
                      enum gb_baryon_op *, int, short *, short *, int, int, int *, int *, char *, complex *, int *, int,
                      int *, Real *, complex **);
void right_gb_baryon(ks_prop_field **, ks_prop_field **, ks_prop_field **, int, enum gb_baryon_op *,
                     enum gb_baryon_op *, int, short *, short *, int *, int *, char *, int *, int, int *, Real *,
                     complex **);

typedef struct {
    int n, current, mom[3];
    enum gb_baryon_op sources[MOST], sinks[MOST];
    short walls[MOST], cubes[MOST];
    int flips[MOST], phases[MOST], is_absent[MOST];
    Real factors[MOST];
} input;

static void add(input *in, enum gb_baryon_op source, enum gb_baryon_op sink, int wall, int cube, int flip,
                int is_absent) {
    const int k = in->n++;
    in->sources[k] = source, in->sinks[k] = sink;
    in->walls[k] = wall, in->cubes[k] = cube, in->flips[k] = flip, in->is_absent[k] = is_absent;
    in->phases[k] = k % 4, in->factors[k] = 1 - 0.25 * k;
}

#ifdef GB_BARYON_MMAP
enum { READS_CACHE = 1 };
#else
enum { READS_CACHE = 0 };
#endif

/* before(a): what happens between MILC's cache and the call. */
static void tie_after(input *in, ks_prop_field **a, ks_prop_field **b, ks_prop_field **c,
                      void (*before)(ks_prop_field **)) {
    ks_prop_field **const octets[3] = {a, b, c};
    const int has_right = in->current >= FIRST_CURRENT || in->current == GB_2POINT_BACKPROP;
    int r0[4] = {1, 0, 3, 2}, k, f, g;
    char parities[3] = {EVENANDODD, EVEN, ODD};
    complex **ours = new_rows(), **theirs = new_rows();
    for (f = 0; f < 3; f++) { /* as MILC: equal octets share a cache */
        for (g = 0; g < f && octets[g] != octets[f]; g++)
            ;
        if (g < f)
            assign_qk_cache_pointer(get_qk_cache_pointer(g), f);
        else
            create_qk_oct_cache(octets[f], f, r0, NULL);
    }
    param.num_gb_triplet = 1, param.num_corr_b[0] = MOST, param.num_corr_gb[0] = in->n;
    for (k = 0; k < 2; k++) {
        if (k == !READS_CACHE && has_right)
            right_gb_baryon(a, b, c, is_right(), in->sources, in->sinks, in->current, in->walls, in->cubes, r0, in->mom,
                            parities, in->flips, in->n, in->phases, in->factors, theirs);
        if (k == 0 && before != NULL)
            before(a);
    }
    gb_baryon(a, b, c, NULL, in->sources, in->sinks, in->current, in->walls, in->cubes, 1, 1, r0, in->mom, parities,
              NULL, in->flips, in->n, in->phases, in->factors, ours);
    if (getenv("MILCGPU_OFF") == NULL)
        check(param.num_corr_b[0] == in->n, "MILC frees as many rows as there are", param.num_corr_b[0]);
    for (k = 0; k < in->n; k++)
        check_row(ours[k], in->is_absent[k] ? NULL : theirs[k], 1, gb_baryon_label(in->sources[k]));
    destroy_qk_oct_cache(0);
    if (b != a)
        destroy_qk_oct_cache(1);
    if (c != a && c != b)
        destroy_qk_oct_cache(2);
    free_rows(ours), free_rows(theirs);
}

static void tie(input *in, ks_prop_field **a, ks_prop_field **b, ks_prop_field **c) { tie_after(in, a, b, c, NULL); }

static void try_blinding(void) {
    complex row[4];
    int k;
    for (k = 0; k < 4; k++)
        row[k].real = 1 + k, row[k].imag = -k;
    if (MILC_PRECISION == 1 && getenv("MILCGPU_OFF") != NULL)
        return; /* MILC writes behind the row */
    blind_vdcomplex((dcomplex *)row, 4);
    check(row[0].real == 3 && row[1].imag == -3, "blinded", row[0].real);
}

/* What MILC's cache does not have; sites of the other kind of sink; absent corners; a current that is none. */
static void try_faults_of_milc(ks_prop_field **a, ks_prop_field **b) {
    ks_prop_field *absent[CORNERS];
    input in;
    memcpy(absent, b, sizeof absent);
    absent[5] = NULL;
    memset(&in, 0, sizeof in);
    in.current = GB_2POINT_BACKPROP;
    add(&in, GB_8_S_C2, GB_8_S_C1, 0, 0, 1, 0);
    add(&in, GB_16U_S_C4, GB_16U_S_C4, 0, 1, 0, 1); /* the cube needs all corners of the source */
    add(&in, GB_8_S_C1, GB_8_S_C5, 0, 0, 0, 0);     /* of corner 0 alone */
    add(&in, GB_8_S_C3, GB_8_S_C3, 0, 0, 0, 1);
    tie(&in, a, b, absent);
    memset(&in, 0, sizeof in);
    in.current = 128 + 15; /* GX-G1 */
    add(&in, GB_8_M_I1_C4, GB_16D_M_I1_C4_2, 0, 0, 0, 0);
    add(&in, GB_8P_S_C4, GB_8P_S_C7, 0, 1, 0, 0);
    tie(&in, a, a, b);
    in.current = 12; /* no current of the form GA-GB */
    in.is_absent[0] = in.is_absent[1] = 1;
    tie(&in, a, a, a);
}

static void change(ks_prop_field **quarks) {
    size_t i;
    int s;
    for (s = 0; s < CORNERS; s++)
        for (i = 0; i < sites_on_node; i++)
            quarks[s]->v[1][i].c[0].real += 1;
}
static void free_all(ks_prop_field **quarks) {
    int s, c;
    for (s = 0; s < CORNERS && READS_CACHE; s++) {
        for (c = 0; c < 3; c++)
            memset(quarks[s]->v[c], 0xff, sites_on_node * sizeof(su3_vector));
        free_quark(quarks[s]);
    }
}
static void lose_device(ks_prop_field **quarks) {
    (void)quarks;
    inject("device");
}
static void change_and_lose(ks_prop_field **quarks) {
    change(quarks);
    inject("device");
}
/* MILC's cache has the quarks as they were when it was made. */
static void try_changed_quarks(const char *fault) {
    ks_prop_field *quarks[CORNERS];
    input in;
    int s;
    for (s = 0; s < CORNERS; s++)
        quarks[s] = random_quark(200 + 3 * s);
    memset(&in, 0, sizeof in);
    in.current = GB_2POINT_BACKPROP;
    add(&in, GB_16U_M_I1_C4_2, GB_16U_M_I1_C4_1, 0, 0, 0, 0);
    add(&in, GB_8P_S_C7, GB_8P_S_C4, 1, 0, 0, 0);
    tie(&in, quarks, quarks, quarks);
    if (strcmp(fault, "none") == 0) {
        tie_after(&in, quarks, quarks, quarks, change);
        tie_after(&in, quarks, quarks, quarks, free_all);
    } else if (strcmp(fault, "lost") == 0) {
        tie_after(&in, quarks, quarks, quarks, lose_device);
    } else {
        in.is_absent[0] = in.is_absent[1] = READS_CACHE && getenv("MILCGPU_OFF") == NULL;
        tie_after(&in, quarks, quarks, quarks, change_and_lose);
    }
    for (s = 0; s < CORNERS && !(READS_CACHE && strcmp(fault, "none") == 0); s++)
        free_quark(quarks[s]);
}

/* As ks_spectrum: quarks are copies of propagators. What the solver left on the device is not loaded again. */
void try_solved_quarks(fn_links_t *fn) {
    ks_prop_field *solved[CORNERS], *quarks[CORNERS];
    input in;
    int s;
    for (s = 0; s < CORNERS; s++) {
        solved[s] = quark_of(solved_field(6 * s, fn), solved_field(6 * s + 2, fn), solved_field(6 * s + 4, fn));
        quarks[s] = quark_of(copy(solved[s]->v[0]), copy(solved[s]->v[1]), copy(solved[s]->v[2]));
    }
    memset(&in, 0, sizeof in);
    in.current = GB_2POINT_BACKPROP;
    add(&in, GB_16U_M_I1_C4_2, GB_16U_M_I1_C4_1, 0, 0, 0, 0);
    tie(&in, quarks, quarks, quarks);
    for (s = 0; s < CORNERS; s++) {
        free_quark(solved[s]);
        free_quark(quarks[s]);
    }
}

static void try_golterman_bailey(const char *fault) {
    const int by_milc = strcmp(fault, "none") != 0 || getenv("MILCGPU_OFF") != NULL;
    ks_prop_field *octets[2][CORNERS];
    input in;
    int f, s;
    for (f = 0; f < 2; f++)
        for (s = 0; s < CORNERS; s++)
            octets[f][s] = random_quark(100 + 24 * f + 3 * s);
    memset(&in, 0, sizeof in);
    in.current = GB_2POINT_BACKPROP;
    inject(fault);
    /* A triplet of which MILC's numbers are right, also from its cache. */
    add(&in, GB_16U_M_I1_C4_2, GB_16U_M_I1_C4_1, 0, 0, 0, 0);
    add(&in, GB_8P_S_C7, GB_8P_S_C4, 0, 0, 0, 0);
    add(&in, GB_16D_M_I1_C7, GB_16D_M_I1_C4_2, 1, 0, 1, 0);
    add(&in, GB_8_A_C4, GB_8_A_C7, 0, 0, 0, 0);
    tie(&in, octets[0], octets[0], octets[0]);
    in.mom[0] = 1, in.mom[2] = -1;
    in.n = 2;
    tie(&in, octets[0], octets[1], octets[0]);
    if (!by_milc)
        try_faults_of_milc(octets[0], octets[1]);
    for (f = 0; f < 2; f++)
        for (s = 0; s < CORNERS; s++)
            free_quark(octets[f][s]);
}
#else
void try_solved_quarks(fn_links_t *fn) { (void)fn; }
#endif

void try_baryons(const char *fault) {
    const int between = strcmp(fault, "lost") == 0 || strcmp(fault, "changed") == 0;
    if (!between)
        try_plain();
#ifndef MILC_HOST_MASTER
    if (!between) {
        try_blinding();
        try_golterman_bailey(fault);
    }
    if (between || strcmp(fault, "none") == 0)
        try_changed_quarks(fault);
#else
    (void)fault;
#endif
}
