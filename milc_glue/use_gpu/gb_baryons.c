/* gb_baryon: correlators of Golterman-Bailey operators, all of a triplet of octets in one call. create_qk_oct_cache and
 * destroy_qk_oct_cache: the device needs no cache of shifted quarks. A stand-in takes its place, which MILC moves from
 * slot to slot. MILC's own cache is made if MILC's own routine does a call, or for comparison.
 *
 * Where MILC's numbers are not so (section 'Baryons' of docs/milc.md): this file gives the right ones and says it once,
 * or MILC's by default and the right ones with MILCGPU_BARYONS=right. A correlator that cannot be computed becomes NaN,
 * after a line that says why; MILC would crash, or print what is in memory there. */
#include "correlators.h"

#include "../include/gb_ops.h"
#include "../include/imp_ferm_links.h"
#include <ks_spectrum_includes.h>

#include "routines.h"

/* The library numbers its operators as MILC does. */
typedef char milcgpu_same_operators[GB_8_S_C1 == 0 && GB_8P_S_C4 == 5 && GB_16U_S_C2 == 7 && GB_16D_S_C2 == 11 &&
                                            GB_8_A_C4 == 15 && GB_16U_A_C4 == 18 && GB_8_M_I1_C2 == 22 &&
                                            GB_8P_M_I1_C4 == 28 && GB_16U_M_I1_C2 == 29 && GB_16U_M_I1_C4_2 == 32 &&
                                            GB_16D_M_I1_C2 == 36 && GB_16D_M_I1_C7 == 42 && MAX_GB_BARYON == 43
                                        ? 1
                                        : -1];

enum { CORNERS = 8, SLOTS = 3, FIRST_CURRENT = 128, LAST_CURRENT = 383 };

typedef struct {
    ks_prop_field **octets[3];
    enum gb_baryon_op *sources, *sinks;
    int current;
    short *walls, *cubes;
    int *r0, *momentum;
    char *parities;
    int *flips, n, *phases;
    Real *factors;
    int serves; /* 1: this run has been offloaded at some time; 0: it is as without milcgpu */
} tie_ups;

static int has_served(void) {
    static int served = 0;
    served |= milcgpu_offloads();
    return served;
}
static const char *links_at_sinks(void) { return MILCGPU_LINKS_AT_SINKS; }
static void says(const char *text) { milcgpu_plugin_says_once(MILCGPU_GB_BARYON, text); }

/* ---- MILC's cache of shifted quarks ------------------------------------------------------------------------------ */

typedef struct {
    mmap_cache *milcs; /* the stand-in's address is in MILC's slots */
    ks_prop_field *corners[CORNERS];
    int r0[4];
    su3_matrix *links;
} octet;
static octet *octets[2 * SLOTS]; /* MILC has up to three, and keeps up to three for the next triplet */

/* NULL: the slot has a cache of MILC's. */
static octet **octet_of(int slot) {
    const mmap_cache *const there = milcgpu_there(get_qk_cache_pointer)(slot);
    int k;
    for (k = 0; k < 2 * SLOTS; k++)
        if (octets[k] != NULL && octets[k]->milcs == there)
            return &octets[k];
    return NULL;
}
static void forget(octet **o) {
    free((*o)->milcs);
    free(*o);
    *o = NULL;
}

void __wrap_create_qk_oct_cache(ks_prop_field **qko, int qknum, int r0[], su3_matrix *links) {
    octet **at = octets;
    while (at < octets + 2 * SLOTS && *at != NULL)
        at++;
    if (links_at_sinks() != NULL || !milcgpu_offloads() || at == octets + 2 * SLOTS) {
        milcgpu_original(create_qk_oct_cache)(qko, qknum, r0, links);
        return;
    }
    *at = (octet *)milcgpu_room(sizeof **at, "an octet");
    (*at)->milcs = (mmap_cache *)milcgpu_room(sizeof(mmap_cache), "an octet");
    memset((*at)->milcs, 0, sizeof(mmap_cache));
    memcpy((*at)->corners, qko, sizeof(*at)->corners);
    memcpy((*at)->r0, r0, sizeof(*at)->r0);
    (*at)->links = links;
    milcgpu_there(assign_qk_cache_pointer)((*at)->milcs, qknum);
}

void __wrap_destroy_qk_oct_cache(int qknum) {
    octet **const at = octet_of(qknum);
    if (at == NULL)
        milcgpu_original(destroy_qk_oct_cache)(qknum);
    else
        forget(at);
}

/* In place of a corner that is absent, for MILC's own routines: what reads it becomes NaN. */
static ks_prop_field *not_a_number(void) {
    static ks_prop_field *made = NULL;
    if (made == NULL) {
        int c;
        made = create_ksp_field(3);
        for (c = 0; c < 3; c++)
            memset(made->v[c], 0xff, sites_on_node * sizeof(su3_vector));
    }
    return made;
}
static void without_absent(ks_prop_field **to, ks_prop_field **corners) {
    int s;
    for (s = 0; s < CORNERS; s++)
        to[s] = corners[s] != NULL ? corners[s] : not_a_number();
}

static void make_caches(void) {
    int slot, other;
    for (slot = 0; slot < SLOTS; slot++) {
        octet **const at = octet_of(slot);
        if (at != NULL) {
            ks_prop_field *corners[CORNERS];
            without_absent(corners, (*at)->corners);
            milcgpu_original(create_qk_oct_cache)(corners, slot, (*at)->r0, (*at)->links);
            for (other = slot + 1; other < SLOTS; other++)
                if (octet_of(other) == at)
                    milcgpu_there(assign_qk_cache_pointer)(milcgpu_there(get_qk_cache_pointer)(slot), other);
            forget(at);
        }
    }
}

/* ---- what MILC's own routine would give -------------------------------------------------------------------------- */

#ifdef GB_BARYON_MMAP
enum { IS_CACHED = 1 };
#else
enum { IS_CACHED = 0 };
#endif

/* -1, or whether the first point sink of the run that MILC tied up was starred: MILC keeps the sites of that one. */
static int milcs_flip = -1;
static void now_by_milc(const tie_ups *t) {
    int k;
    for (k = 0; k < t->n && milcs_flip < 0; k++)
        if (!t->walls[k])
            milcs_flip = t->flips[k] != 0;
    if (IS_CACHED)
        make_caches();
}

static int are_equal(const tie_ups *t) {
    const size_t bytes = CORNERS * sizeof(ks_prop_field *);
    return t->current == GB_2POINT_BACKPROP && memcmp(t->octets[0], t->octets[1], bytes) == 0 &&
           memcmp(t->octets[0], t->octets[2], bytes) == 0;
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
            kind.not_cached |= IS_CACHED && ((sources[f] | sinks[f]) & ~cached) != 0;
            for (s = 0; s < CORNERS; s++)
                if ((sources[f] >> s & 1) != 0 && t->octets[f][s] == NULL) {
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
        for (s = 0; s < CORNERS; s++)
            if (t->octets[f][s] != NULL && t->octets[f][s]->nc != 3)
                return "MILC's own: a quark has not three colours";
    return t->n < 1 ? "MILC's own: there are no correlators" : links_at_sinks();
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

/* What MILC has a table for. */
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
    const void *quarks[3 * 3 * CORNERS];
    int k, c, n = 0, done = 1;
    for (k = 0; k < t->n; k++)
        kinds[k] = kind_of(t, &spec, &terms[k]);
    for (k = 0; k < 3 * CORNERS; k++)
        for (c = 0; c < 3; c++)
            quarks[3 * k + c] =
                t->octets[k / CORNERS][k % CORNERS] != NULL ? t->octets[k / CORNERS][k % CORNERS]->v[c] : NULL;
    for (k = 0; k < t->n; k++) {
        to->skips[k] = is_absent(t, &kinds[k], k);
        if (!to->skips[k])
            terms[n++] = terms[k];
    }
    spec.n_terms = n;
    if (n > 0)
        done = milcgpu_plugin_gb_baryon(&spec, quarks, to->sums);
    if (done && n > 0 && to->times > 1) {
        spec.whole_sinks = 0;
        done = milcgpu_plugin_gb_baryon(&spec, quarks, to->sums + of_rows);
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

/* MILC's own routine reads every corner, also where nothing needs it. */
static void own(const tie_ups *t, int num_d, int num_s, complex *momfld, su3_matrix *links, complex **prop) {
    ks_prop_field *corners[3][CORNERS], **given[3];
    int f;
    for (f = 0; f < 3; f++) {
        given[f] = t->octets[f];
        if (t->serves) {
            without_absent(corners[f], t->octets[f]);
            given[f] = corners[f];
        }
    }
    now_by_milc(t);
    milcgpu_original(gb_baryon)(given[0], given[1], given[2], links, t->sources, t->sinks, t->current, t->walls,
                                t->cubes, num_d, num_s, t->r0, t->momentum, t->parities, momfld, t->flips, t->n,
                                t->phases, t->factors, prop);
}

/* MILC frees the rows of a triplet by the number of nucleons and deltas of the triplet of this number. These are done
 * when this runs. */
static void let_all_rows_be_freed(void) {
    int k;
    for (k = 0; k < param.num_gb_triplet; k++)
        param.num_corr_b[k] = param.num_corr_gb[k];
}

void __wrap_gb_baryon(ks_prop_field *qko0[], ks_prop_field *qko1[], ks_prop_field *qko2[], su3_matrix *links,
                      enum gb_baryon_op src_op[], enum gb_baryon_op snk_op[], int stIdx, short dowall[], short docube[],
                      int num_d, int num_s, int r0[], int mom[], char par[], complex *momfld, int flip_snk[],
                      int num_corr_gb, int phase[], Real fact[], complex *prop[]) {
    const tie_ups t = {{qko0, qko1, qko2}, src_op,      snk_op, stIdx, dowall,      docube, r0, mom, par,
                       flip_snk,           num_corr_gb, phase,  fact,  has_served()};
    const int n = num_corr_gb > 0 ? num_corr_gb : 0,
              times = milcgpu_offloads() && milcgpu_plugin_compare() && milcgpu_plugin_right_baryons() ? 2 : 1;
    milcgpu_correlators rows = milcgpu_new_rows(n, 2 * (size_t)nt, times);
    milcgpu_call call = MILCGPU_MEMBERS(.row = MILCGPU_GB_BARYON, .name = "gb_baryon", .needs = MILCGPU_SOLUTIONS,
                                        .why_own = why_own(&t), .outputs = rows.rows, .n_outputs = n,
                                        .compare = milcgpu_compare_rows, .details = &rows);
    int k, f;
    rows.of_all_ranks = 1;
    rows.reals_of_source = 6;
    for (f = 0; f < 3; f++)
        for (k = 0; k < CORNERS; k++)
            if (t.octets[f][k] != NULL)
                rows.sources[f] = t.octets[f][k]->v[f];
    for (k = 0; k < n; k++)
        milcgpu_set_row(&rows, k, prop[k], fact[k]);
    if (t.serves)
        let_all_rows_be_freed();
    if (t.serves && !is_current(stIdx)) {
        for (k = 0; k < n; k++)
            milcgpu_no_numbers(&rows, k);
        milcgpu_add_to_rows(&rows);
    } else
        milcgpu_offload(&call, tie_up(&call, &t, &rows), own(&t, num_d, num_s, momfld, links, prop));
    milcgpu_free_correlators(&rows);
}

/* MILC passes its numbers as double, also with PRECISION=1: it would blind what is not there, and write behind them. */
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
         "and "
         "blinded by MILC's factor");
}
