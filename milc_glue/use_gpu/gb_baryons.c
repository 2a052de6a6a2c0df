/* gb_baryon: correlators of Golterman-Bailey operators, all of a triplet of octets in one call.
 *
 * Some numbers of MILC's are wrong (docs/milc.md, Baryons). For some of them this file gives the right ones and says so
 * once. For the others it gives MILC's, or the right ones with MILCGPU_BARYONS=right. A correlator that cannot be
 * computed becomes NaN, after a line that says why; MILC would crash, or print what is in memory. */
#include "correlators.h"

#include "gb_octets.h"

/* The library numbers its operators as MILC does. */
typedef char milcgpu_same_operators[GB_8_S_C1 == 0 && GB_8P_S_C4 == 5 && GB_16U_S_C2 == 7 && GB_16D_S_C2 == 11 &&
                                            GB_8_A_C4 == 15 && GB_16U_A_C4 == 18 && GB_8_M_I1_C2 == 22 &&
                                            GB_8P_M_I1_C4 == 28 && GB_16U_M_I1_C2 == 29 && GB_16U_M_I1_C4_2 == 32 &&
                                            GB_16D_M_I1_C2 == 36 && GB_16D_M_I1_C7 == 42 && MAX_GB_BARYON == 43
                                        ? 1
                                        : -1];

enum { CORNERS = MILCGPU_CORNERS, FIRST_CURRENT = 128, LAST_CURRENT = 383 };

typedef struct {
    ks_prop_field **octets[3];      /* may have changed or gone, if MILC reads its cache */
    const milcgpu_octet *cached[3]; /* MILC's cache; NULL: MILC reads the octets, or milcgpu does not know its cache */
    enum gb_baryon_op *sources, *sinks;
    int current;
    short *walls, *cubes;
    int *r0, *momentum;
    char *parities;
    int *flips, n, *phases;
    Real *factors;
    int serves; /* milcgpu_has_served() */
} tie_ups;

static void says(const char *text) { milcgpu_plugin_says_once(MILCGPU_GB_BARYON, text); }

/* Colour c of the quark that MILC ties up. NULL: absent, or MILC alone knows. */
static const su3_vector *field_of(const tie_ups *t, int f, int s, int c) {
    if (MILCGPU_READS_CACHE)
        return t->cached[f] != NULL ? t->cached[f]->fields[s][c] : NULL;
    return t->octets[f][s] != NULL ? t->octets[f][s]->v[c] : NULL;
}
static void name_sources(milcgpu_correlators *rows, const tie_ups *t) {
    int f, s;
    for (f = 0; f < 3; f++)
        for (s = 0; s < CORNERS; s++)
            if (field_of(t, f, s, f) != NULL)
                rows->sources[f] = field_of(t, f, s, f);
}

/* ---- what MILC's own routine would give -------------------------------------------------------------------------- */

/* -1, or whether the first point sink of the run that MILC tied up was starred: MILC keeps the sites of that one. */
static int milcs_flip = -1;
static void now_by_milc(const tie_ups *t) {
    int k;
    for (k = 0; k < t->n && milcs_flip < 0; k++)
        if (!t->walls[k])
            milcs_flip = t->flips[k] != 0;
    if (MILCGPU_READS_CACHE)
        milcgpu_make_caches();
}

static int are_equal(const tie_ups *t) {
    int f, s, c, equal = t->current == GB_2POINT_BACKPROP;
    for (f = 1; f < 3; f++)
        for (s = 0; s < CORNERS; s++)
            for (c = 0; c < 3; c++)
                equal &= field_of(t, f, s, c) == field_of(t, 0, s, c);
    return equal;
}
/* Whether the sink depends on MILCGPU_BARYONS: not if its two orderings are the whole sink. */
static int is_short(enum gb_baryon_op sink) {
    return gb_get_sym_type(sink) != GBSYM_ANTISYM && sink != GB_8_M_I1_C4 && sink != GB_16U_M_I1_C4_1 &&
           sink != GB_16D_M_I1_C4_1 && sink != GB_16U_M_I1_C7;
}

typedef struct {
    int absent;     /* 1: it reads a corner that is absent */
    int not_cached; /* 1: it reads a corner that MILC's cache does not have */
    int f, s;       /* the absent one */
} row_kind;

static row_kind kind_of(const tie_ups *t, const milcgpu_gb_spec *spec, const milcgpu_gb_term *term) {
    const unsigned cached = 0x7e; /* corners 1 to 6 */
    row_kind kind = {0, 0, 0, 0};
    unsigned sources[3] = {0, 0, 0}, sinks[3] = {0, 0, 0};
    int f, s;
    if (milcgpu_plugin_gb_corners(spec, term, sources, sinks))
        for (f = 0; f < 3; f++) {
            kind.not_cached |= MILCGPU_READS_CACHE && ((sources[f] | sinks[f]) & ~cached) != 0;
            for (s = 0; s < CORNERS; s++)
                if ((sources[f] >> s & 1) != 0 && field_of(t, f, s, 0) == NULL) {
                    kind.absent = 1;
                    kind.f = f;
                    kind.s = s;
                }
        }
    return kind;
}

/* ---- the call ---------------------------------------------------------------------------------------------------- */

static const char *why_own(const tie_ups *t) {
    int k, f, s, moves = 0;
    for (k = 0; k < 3; k++)
        moves |= t->momentum[k] != 0;
    for (k = 0; k < t->n; k++)
        if (t->walls[k] && moves)
            return "MILC's own: a wall sink with a momentum, at which MILC ends the run";
    for (f = 0; f < 3; f++)
        if (MILCGPU_READS_CACHE && t->cached[f] == NULL)
            return "MILC's own: these quarks are in a cache that MILC's own routine has made";
        else
            for (s = 0; s < CORNERS && !MILCGPU_READS_CACHE; s++)
                if (t->octets[f][s] != NULL && t->octets[f][s]->nc != 3)
                    return "MILC's own: a quark does not have three colours";
    return t->n < 1 ? "MILC's own: there are no correlators" : milcgpu_links_at_sinks();
}

static milcgpu_gb_spec spec_of(const tie_ups *t, milcgpu_gb_term *terms, int whole) {
    const int extents[3] = {nx, ny, nz};
    milcgpu_gb_spec spec;
    int k;
    memset(&spec, 0, sizeof spec);
    spec.struct_size = sizeof spec;
    spec.current = t->current == GB_2POINT_BACKPROP ? MILCGPU_TWO_POINT : t->current;
    spec.whole_sinks = whole;
#ifdef ONE_SIDED_SHIFT_GB
    spec.one_sided = 1;
#endif
    for (k = 0; k < 3; k++) {
        spec.origin[k] = (t->r0[k] % extents[k] + extents[k]) % extents[k];
        spec.momentum.p[k] = t->momentum[k];
        spec.momentum.parity[k] = t->parities[k]; /* MILC's EVEN, ODD, EVENANDODD are the library's numbers */
    }
    spec.terms = terms;
    for (k = 0; k < t->n; k++) {
        const milcgpu_gb_term term = {t->sources[k],    t->sinks[k],  t->flips[k] != 0, t->walls[k] != 0,
                                      t->cubes[k] != 0, t->phases[k], t->factors[k],    k};
        terms[k] = term;
    }
    spec.n_terms = spec.n_correlators = t->n;
    return spec;
}

static int is_absent(const tie_ups *t, const row_kind *kind, int k) {
    char text[256];
    if (kind->absent) {
        snprintf(text, sizeof text,
                 "%s to %s needs corner %d of octet %d of the triplet, counted from 0, which the input says is absent "
                 "(-1). Correlators that need it are NaN",
                 gb_baryon_label(t->sources[k]), gb_baryon_label(t->sinks[k]), kind->s, kind->f);
        says(text);
    }
    return kind->absent;
}

/* Returns 1 if MILC has a table for this number. */
static int is_current(int index) {
    char text[128];
    if (index == GB_2POINT_BACKPROP || (index >= FIRST_CURRENT && index <= LAST_CURRENT))
        return 1;
    snprintf(text, sizeof text, "spin_taste: number %d is neither 2point nor a current GA-GB. Correlators are NaN",
             index);
    says(text);
    return 0;
}

static void say_what_differs(const tie_ups *t, const row_kind *kinds, int right) {
    static int flip = -1;
    int k, not_cached = 0, other_sites = 0, short_sinks = 0;
    for (k = 0; k < t->n; k++) {
        not_cached |= kinds[k].not_cached;
        short_sinks |= is_short(t->sinks[k]) && !are_equal(t);
        if (!t->walls[k]) {
            flip = flip < 0 ? t->flips[k] != 0 : flip;
            other_sites |= flip != (t->flips[k] != 0);
        }
    }
    if (not_cached)
        says("MILC's cache of shifted quarks (GB_BARYON_MMAP) lacks corners 0 and 7, so MILC prints 0 for classes 1, "
             "2, 3, 5, 6, and too little for cube and for some currents. Here these correlators are complete");
    if (other_sites)
        says("point sinks with and without a star are in one run: MILC sums all of them over the sites of the first. "
             "Here each has its own sites");
    if (short_sinks)
        says(right ? "sinks of S and M1/2 of unequal quarks are symmetrised, as in MILC until 2024 "
                     "(MILCGPU_BARYONS=right)"
                   : "sinks of S and M1/2 of unequal quarks are as in MILC since 2024: not symmetrised, so symmetries "
                     "mix. MILCGPU_BARYONS=right symmetrises them");
    if (t->r0[3] < 0)
        says("r_offset has a negative t: MILC prints what is in memory before the correlators");
}

static int tie_up(const milcgpu_call *call, const tie_ups *t, milcgpu_correlators *to) {
    const size_t of_rows = t->n * to->reals;
    const int right = milcgpu_plugin_right_baryons();
    milcgpu_gb_term *const terms = (milcgpu_gb_term *)milcgpu_room(t->n * sizeof *terms, "terms of correlators");
    row_kind *const kinds = (row_kind *)milcgpu_room(t->n * sizeof *kinds, "terms of correlators");
    milcgpu_gb_spec spec = spec_of(t, terms, right);
    const void *quarks[3 * 3 * CORNERS], *const cached[3] = {t->cached[0], t->cached[1], t->cached[2]};
    int k, c, n = 0, done = 1;
    for (k = 0; k < t->n; k++)
        kinds[k] = kind_of(t, &spec, &terms[k]);
    for (k = 0; k < 3 * CORNERS; k++)
        for (c = 0; c < 3; c++)
            quarks[3 * k + c] = field_of(t, k / CORNERS, k % CORNERS, c);
    for (k = 0; k < t->n; k++) {
        to->skips[k] = is_absent(t, &kinds[k], k);
        if (!to->skips[k])
            terms[n++] = terms[k];
    }
    spec.n_terms = n;
    if (n > 0)
        done = milcgpu_plugin_gb_baryon(&spec, cached, quarks, to->sums);
    if (done && n > 0 && to->times > 1) {
        spec.whole_sinks = 0;
        done = milcgpu_plugin_gb_baryon(&spec, cached, quarks, to->sums + of_rows);
    }
    if (done) {
        say_what_differs(t, kinds, right);
        for (k = 0; k < t->n; k++) {
            node0_printf("gb baryon: %s %s\n", gb_baryon_label(t->sources[k]), gb_baryon_label(t->sinks[k]));
            print_timing(milcgpu_seconds_so_far(call) / t->n - dclock(), "computing correlator");
            if (to->skips[k])
                milcgpu_no_numbers(to, k);
            to->skips[k] |= kinds[k].not_cached || (!t->walls[k] && milcs_flip >= 0 && milcs_flip != t->flips[k]);
        }
        milcgpu_add_to_rows(to);
    }
    free(terms);
    free(kinds);
    return done;
}

/* MILC's own routine reads every corner, even if no correlator needs it. */
static void own(const tie_ups *t, int num_d, int num_s, complex *momfld, su3_matrix *links, complex **prop,
                milcgpu_correlators *rows) {
    ks_prop_field *corners[3][CORNERS], **given[3];
    int f, s;
    for (f = 0; f < 3; f++) {
        given[f] = t->octets[f];
        for (s = 0; s < CORNERS && t->serves; s++)
            corners[f][s] = t->octets[f][s] != NULL ? t->octets[f][s] : milcgpu_not_a_number();
        if (t->serves)
            given[f] = corners[f];
    }
    now_by_milc(t);
    name_sources(rows, t); /* the caches may have been made of copies */
    milcgpu_original(gb_baryon)(given[0], given[1], given[2], links, t->sources, t->sinks, t->current, t->walls,
                                t->cubes, num_d, num_s, t->r0, t->momentum, t->parities, momfld, t->flips, t->n,
                                t->phases, t->factors, prop);
}

/* MILC frees the rows of Golterman-Bailey triplet k by num_corr_b[k], the number of nucleons and deltas in their
 * triplet k. Nucleons and deltas are finished by now. */
static void let_all_rows_be_freed(void) {
    int k;
    for (k = 0; k < param.num_gb_triplet; k++)
        param.num_corr_b[k] = param.num_corr_gb[k];
}

void __wrap_gb_baryon(ks_prop_field *qko0[], ks_prop_field *qko1[], ks_prop_field *qko2[], su3_matrix *links,
                      enum gb_baryon_op src_op[], enum gb_baryon_op snk_op[], int stIdx, short dowall[], short docube[],
                      int num_d, int num_s, int r0[], int mom[], char par[], complex *momfld, int flip_snk[],
                      int num_corr_gb, int phase[], Real fact[], complex *prop[]) {
    const tie_ups t = {{qko0, qko1, qko2},
                       {milcgpu_octet_of(0), milcgpu_octet_of(1), milcgpu_octet_of(2)},
                       src_op,
                       snk_op,
                       stIdx,
                       dowall,
                       docube,
                       r0,
                       mom,
                       par,
                       flip_snk,
                       num_corr_gb,
                       phase,
                       fact,
                       milcgpu_has_served()};
    const int n = num_corr_gb > 0 ? num_corr_gb : 0,
              times = milcgpu_offloads() && milcgpu_plugin_compare() && milcgpu_plugin_right_baryons() ? 2 : 1;
    milcgpu_correlators rows = milcgpu_new_rows(n, 2 * (size_t)nt, times);
    milcgpu_call call = MILCGPU_MEMBERS(.row = MILCGPU_GB_BARYON, .name = "gb_baryon", .needs = MILCGPU_SOLUTIONS,
                                        .why_own = why_own(&t), .outputs = rows.rows, .n_outputs = n,
                                        .compare = milcgpu_compare_rows, .details = &rows);
    int k;
    rows.of_all_ranks = 1;
    rows.reals_of_source = 6;
    for (k = 0; k < n; k++)
        milcgpu_set_row(&rows, k, prop[k], fact[k]);
    if (t.serves)
        let_all_rows_be_freed();
    if (t.serves && !is_current(stIdx)) {
        for (k = 0; k < n; k++)
            milcgpu_no_numbers(&rows, k);
        milcgpu_add_to_rows(&rows);
    } else
        milcgpu_offload(&call, tie_up(&call, &t, &rows), own(&t, num_d, num_s, momfld, links, prop, &rows));
    milcgpu_free_correlators(&rows);
}

/* MILC passes its numbers as double, even with PRECISION=1. Its own routine would write behind them. */
void __wrap_blind_vdcomplex(dcomplex v[], int veclen) {
    complex *const milcs = (complex *)v;
    dcomplex *copy;
    int k;
    if (MILC_PRECISION == 2 || !milcgpu_offloads()) {
        milcgpu_original(blind_vdcomplex)(v, veclen);
        return;
    }
    copy = (dcomplex *)milcgpu_room(veclen * sizeof *copy, "correlators");
    for (k = 0; k < veclen; k++) {
        copy[k].real = milcs[k].real;
        copy[k].imag = milcs[k].imag;
    }
    milcgpu_original(blind_vdcomplex)(copy, veclen);
    for (k = 0; k < veclen; k++) {
        milcs[k].real = copy[k].real;
        milcs[k].imag = copy[k].imag;
    }
    free(copy);
    says("MILC blinds correlators as numbers in double, which they are not with PRECISION=1. Here they are converted, "
         "and blinded by MILC's factor");
}
