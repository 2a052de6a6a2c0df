/* Fermion links that are deferred: the device has them, or can make them, and MILC's fields are made when somebody
 * reads them. And milcgpu_need, which asks for all that may be deferred. */
#include "links.h"
#include <string.h>

#include "routines.h"

/* ---- backward links ---------------------------------------------------------------------------------------------- */

/* Back links as MILC has them, each in a field of MILC's own making. On several ranks they come from the neighbours:
 * then MILC's routine makes them.
 *
 * Only D on the CPU reads them, so they are deferred until MILC asks for them (get_fatbacklinks, get_lngbacklinks).
 * They are made from the links as they then are. MILC's twist of links changes both alike, and skips back links that
 * are not there. */

#define MOST_BACK (MAX_NAIK + 1)
static fn_links_t *deferred_back[MOST_BACK];
static int twisting = 0;

/* Its place among these, or that of NULL, or -1. */
static int place_of(const fn_links_t *fn) {
    int k;
    for (k = 0; k < MOST_BACK; k++)
        if (deferred_back[k] == fn)
            return k;
    return -1;
}

static int defers_back(fn_links_t *fn) {
    int k = place_of(fn);
    if (k < 0)
        k = place_of(NULL);
    if (k < 0 || !milcgpu_has(get_fatbacklinks) || !milcgpu_has(get_lngbacklinks) || milcgpu_plugin_compare())
        return 0;
    deferred_back[k] = fn;
    return 1;
}

static void forget_back(const fn_links_t *fn) {
    const int k = place_of(fn);
    if (k >= 0)
        deferred_back[k] = NULL;
}

void milcgpu_load_backlinks(fn_links_t *fn, int want_back) {
    destroy_fn_backlinks(fn);
    forget_back(fn);
    if (want_back && (numnodes() > 1 || !defers_back(fn)))
        milcgpu_make_backlinks(fn);
}

/* ---- links on the device ----------------------------------------------------------------------------------------- */

static milcgpu_deferred_links deferred;
static int fill_sums(void);
static void make_back_to_read(fn_links_t *fn);

/* For tests: whoever reads what is not filled reads NaN. */
static void leave_as_it_is(su3_matrix *field) {
    if (field != NULL && milcgpu_plugin_resident() == 2)
        memset(field, 0xFF, LINK_BYTES);
}

void milcgpu_defer(const milcgpu_deferred_links *links) {
    int i;
    deferred = *links;
    deferred.of_version = milcgpu_plugin_links_version();
    for (i = 0; i < links->n; i++) {
        leave_as_it_is(links->fn[i]->fat);
        leave_as_it_is(links->fn[i]->lng);
        destroy_fn_backlinks(links->fn[i]);
        forget_back(links->fn[i]);
    }
    if (links->aux != NULL) {
        leave_as_it_is(links->aux->U_link);
        leave_as_it_is(links->aux->V_link);
        leave_as_it_is(links->aux->Y_unitlink);
        leave_as_it_is(links->aux->W_unitlink);
    }
}

static void fill_deferred(void) {
    const milcgpu_deferred_links d = deferred;
    su3_matrix *links = d.made_of;
    int i;
    memset(&deferred, 0, sizeof deferred); /* the routines below ask for links, too */
    if (links == NULL) {
        links = milcgpu_begin_links_again();
        if (milcgpu_plugin_links_changed(d.of_version)) {
            if (this_node == 0)
                fprintf(stderr,
                        "milcgpu: MILC reads fermion links that were made on the GPU alone, and they cannot be made "
                        "again: the gauge field has changed since. MILCGPU_AUTO=0 copies links back at once; please "
                        "report this\n");
            milcgpu_end_of_run();
        }
    }
    milcgpu_plugin_forget_deferred(MILCGPU_DEFERRED_ALL);
    if (d.hisq != NULL)
        milcgpu_fill_hisq(&d, links);
    else
        milcgpu_fill_asqtad(d.fn[0], d.asqtad, links);
    if (d.made_of != NULL)
        free(links);
    else
        milcgpu_end_links_again(links);
    for (i = 0; i < d.n; i++)
        if (d.fn[i] != NULL)
            milcgpu_load_backlinks(d.fn[i], d.want_back);
}

int milcgpu_fill_links(void) {
    int any = deferred.n > 0;
    if (any)
        fill_deferred();
    if (fill_sums())
        any = 1;
    return any;
}

/* ---- links of one eps_naik --------------------------------------------------------------------------------------- */

#if MILCGPU_MILC >= 3 && FERM_ACTION == HISQ
/* MILC keeps links of eps_naik 0 and their derivative, makes those of another one when it wants them, and destroys them
 * soon after. Here they are not filled: the device makes them of these two. They are filled when somebody reads them,
 * and before somebody reads, and perhaps writes, what they are made of. */

typedef struct {
    fn_links_t *fn; /* NULL: destroyed since; its fields are kept for the next */
    su3_matrix *fat, *lng;
    fermion_links_t *fl;
    int naik;
    const fn_links_t *zero, *derivative; /* NULL: the device does not know them any more */
} sum_of_links;
static sum_of_links sums[MAX_NAIK];

/* MILC's sum of links reads fields by routines in its own file, where no call is replaced. */
static void read_parts(fermion_links_t *fl) {
    fn_links_t *const parts[2] = {milcgpu_original(get_fm_links)(fl, 0), get_fn_deps_links(fl)};
    int i;
    for (i = 0; i < 2; i++)
        if (parts[i] != NULL && milcgpu_has(get_fatbacklinks))
            make_back_to_read(parts[i]);
}

/* As get_fm_links of MILC does it. */
static void fill_sum(const sum_of_links *sum) {
    fn_links_t *const fn = sum->fn;
    read_parts(sum->fl);
    if (sum->fl->options.want_back) {
        fn->fatback = (su3_matrix *)milcgpu_room(LINK_BYTES, "backward fat links");
        fn->lngback = (su3_matrix *)milcgpu_room(LINK_BYTES, "backward long links");
    }
    milcgpu_there(scalar_mult_fn)(get_fn_deps_links(sum->fl), fn->eps_naik, fn);
    milcgpu_there(add_fn)(fn, milcgpu_original(get_fm_links)(sum->fl, 0), fn);
}

/* 1: there were some. Afterwards there are none. */
static int fill_sums(void) {
    sum_of_links were[MAX_NAIK];
    int i, any = 0, known = 0;
    memcpy(were, sums, sizeof were);
    for (i = 0; i < MAX_NAIK; i++) {
        known = known || sums[i].zero != NULL;
        sums[i].fn = NULL;
        sums[i].zero = sums[i].derivative = NULL;
        if (were[i].fn != NULL)
            sums[i].fat = sums[i].lng = NULL;
    }
    if (known)
        milcgpu_plugin_forget_deferred(MILCGPU_DEFERRED_SUMS);
    for (i = 0; i < MAX_NAIK; i++)
        if (were[i].fn != NULL) {
            fill_sum(&were[i]);
            any = 1;
        }
    return any;
}

static int is_sum(const fn_links_t *fn) {
    int i;
    for (i = 0; i < MAX_NAIK; i++)
        if (sums[i].fn == fn)
            return 1;
    return 0;
}
static int is_summed(const fn_links_t *fn) {
    int i;
    for (i = 0; i < MAX_NAIK; i++)
        if (sums[i].zero == fn || sums[i].derivative == fn)
            return 1;
    return 0;
}

/* MILC destroys it. 1: its fields are kept for the next. */
static int keep_fields_of(fn_links_t *fn) {
    int i;
    for (i = 0; i < MAX_NAIK; i++)
        if (sums[i].fn == fn) {
            sums[i].fn = NULL;
            fn->fat = fn->lng = NULL;
            return 1;
        }
    return 0;
}
static void forget_summed(const fn_links_t *fn) {
    int i, in_use = 0;
    if (fn == NULL || !is_summed(fn))
        return;
    for (i = 0; i < MAX_NAIK; i++)
        in_use = in_use || sums[i].fn != NULL;
    if (in_use)
        milcgpu_fill_links();
    else
        fill_sums();
}

/* The best place: with fields that were these links before, with fields, or without. NULL: all are taken. */
static sum_of_links *place_for(const fermion_links_t *fl, int naik, const fn_links_t *zero) {
    sum_of_links *best = NULL;
    int i, best_worth = 0;
    for (i = 0; i < MAX_NAIK; i++) {
        const int were = sums[i].fl == fl && sums[i].naik == naik && sums[i].zero == zero;
        const int worth = sums[i].fn != NULL ? 0 : sums[i].fat == NULL ? 1 : were ? 3 : 2;
        if (worth > best_worth) {
            best = &sums[i];
            best_worth = worth;
        }
    }
    return best;
}

static int sums_are_served(fermion_links_t *fl, int naik, const fn_links_t *zero, const fn_links_t *derivative) {
    return zero != NULL && derivative != NULL && naik > 0 && naik < fermion_links_get_n_naiks(fl) &&
           milcgpu_reads_are_known() && milcgpu_offloads() && milcgpu_plugin_resident() && !milcgpu_plugin_compare();
}

static int make_sum(sum_of_links *place, const fn_links_t *zero, const fn_links_t *derivative, double eps) {
    const milcgpu_plugin_link_fields a = {zero->fat, zero->lng}, b = {derivative->fat, derivative->lng};
    milcgpu_plugin_link_fields links;
    if (place->fat == NULL) {
        place->fat = (su3_matrix *)milcgpu_untouched_room(LINK_BYTES, "fat links");
        place->lng = (su3_matrix *)milcgpu_untouched_room(LINK_BYTES, "long links");
        leave_as_it_is(place->fat);
        leave_as_it_is(place->lng);
    }
    links.fat = place->fat;
    links.lng = place->lng;
    return milcgpu_plugin_links_sum(links, a, eps, b);
}

imp_ferm_links_t *__wrap_get_fm_links(fermion_links_t *fl, int naik) {
    fn_links_t *const zero = milcgpu_original(get_fm_links)(fl, 0), *fn;
    const fn_links_t *const derivative = get_fn_deps_links(fl);
    sum_of_links *place = NULL;
    if (naik == 0)
        return zero;
    if (sums_are_served(fl, naik, zero, derivative))
        place = place_for(fl, naik, zero);
    if (place == NULL || !make_sum(place, zero, derivative, fermion_links_get_eps_naik(fl)[naik])) {
        read_parts(fl);
        return milcgpu_original(get_fm_links)(fl, naik);
    }
    fn = (fn_links_t *)milcgpu_room(sizeof *fn, "fn links");
    init_ferm_links(fn);
    fn->preserve = 0;
    fn->phase = create_link_phase_info();
    fn->eps_naik = fermion_links_get_eps_naik(fl)[naik];
    fn->fat = place->fat;
    fn->lng = place->lng;
    place->fn = fn;
    place->fl = fl;
    place->naik = naik;
    place->zero = zero;
    place->derivative = derivative;
    return fn;
}
#else
#if MILCGPU_MILC >= 3
imp_ferm_links_t *__wrap_get_fm_links(fermion_links_t *fl, int naik) {
    return milcgpu_original(get_fm_links)(fl, naik);
}
#endif
static int fill_sums(void) { return 0; }
static int is_sum(const fn_links_t *fn) {
    (void)fn;
    return 0;
}
static int is_summed(const fn_links_t *fn) { return is_sum(fn); }
static int keep_fields_of(fn_links_t *fn) { return is_sum(fn); }
static void forget_summed(const fn_links_t *fn) { (void)fn; }
#endif

static int place_among_deferred(const fn_links_t *fn) {
    int i;
    for (i = 0; i < deferred.n; i++)
        if (fn != NULL && deferred.fn[i] == fn)
            return i;
    return -1;
}
static void fill_to_read(const fn_links_t *fn) {
    if (fn != NULL && !twisting && (place_among_deferred(fn) >= 0 || is_sum(fn) || is_summed(fn)))
        milcgpu_fill_links();
}

/* MILC destroys them. Others may have their addresses next. */
static void forget_deferred(const fn_links_t *fn) {
    const int place = place_among_deferred(fn);
    int i;
    if (place < 0)
        return;
    deferred.fn[place] = NULL;
    for (i = 0; i < deferred.n; i++)
        if (deferred.fn[i] != NULL)
            return;
    free(deferred.made_of);
    memset(&deferred, 0, sizeof deferred);
    milcgpu_plugin_forget_deferred(MILCGPU_DEFERRED_LINKS); /* sums of others stay */
}
static void forget_auxiliary(const hisq_auxiliary_t *aux) {
    if (deferred.aux == aux)
        deferred.aux = NULL;
}
void milcgpu_before_hisq_is_destroyed(const hisq_auxiliary_t *aux, const fn_links_t *zero,
                                      const fn_links_t *derivative) {
    forget_summed(zero);
    forget_summed(derivative);
    forget_auxiliary(aux);
}

void milcgpu_need(int fields, const char *who) {
    if ((fields & MILCGPU_SOLUTIONS) && !milcgpu_plugin_vectors_need())
        milcgpu_end_of_run();
    if (fields & MILCGPU_FERMION_LINKS)
        milcgpu_fill_links();
    milcgpu_need_sites(fields & (MILCGPU_LINKS | MILCGPU_MOMENTA), who);
}

/* ---- what MILC reads, twists and destroys ------------------------------------------------------------------------ */

static void make_back_to_read(fn_links_t *fn) {
    if (twisting)
        return;
    fill_to_read(fn);
    if (fn == NULL || fn->fatback != NULL || place_of(fn) < 0)
        return;
    forget_back(fn);
    milcgpu_make_backlinks(fn);
}
su3_matrix *__wrap_get_fatlinks(fn_links_t *fn) {
    fill_to_read(fn);
    return milcgpu_original(get_fatlinks)(fn);
}
su3_matrix *__wrap_get_lnglinks(fn_links_t *fn) {
    fill_to_read(fn);
    return milcgpu_original(get_lnglinks)(fn);
}
su3_matrix *__wrap_get_fatbacklinks(fn_links_t *fn) {
    make_back_to_read(fn);
    return milcgpu_original(get_fatbacklinks)(fn);
}
su3_matrix *__wrap_get_lngbacklinks(fn_links_t *fn) {
    make_back_to_read(fn);
    return milcgpu_original(get_lngbacklinks)(fn);
}
/* Links that MILC keeps when they are given back (get_fm_links since 2025). */
static int are_kept(const fn_links_t *fn) {
#if MILCGPU_MILC >= 3
    return fn->preserve == 1;
#else
    (void)fn;
    return 0;
#endif
}
void __wrap_destroy_fn_links(fn_links_t *fn) {
    if (fn != NULL && !are_kept(fn) && !keep_fields_of(fn)) {
        forget_summed(fn);
        forget_back(fn);
        forget_deferred(fn);
    }
    milcgpu_original(destroy_fn_links)(fn);
}
/* No phase, and an origin that keeps MILC's signs: MILC asks for the links and leaves them as they are. */
static int twists_nothing(const fn_links_t *fn) {
    const link_phase_info_t *phase = fn != NULL ? fn->phase : NULL;
    int dir, nothing = phase != NULL && phase->r0[TUP] == 0;
    for (dir = 0; nothing && dir < 4; dir++)
        nothing = phase->bdry_phase[dir] == 0 && phase->r0[dir] % 2 == 0;
    return nothing;
}
/* MILC reduces x + extent - origin by C's %, which is negative for such an origin: it then twists some of the forward
 * links and others of the backward links, and its own CG diverges. */
static void say_origin_is_beyond(const fn_links_t *fn) {
    const int extent[4] = {nx, ny, nz, nt};
    int dir;
    for (dir = 0; fn != NULL && fn->phase != NULL && dir < 4; dir++)
        if (fn->phase->r0[dir] > extent[dir])
            milcgpu_plugin_says_once(MILCGPU_BACK_LINKS,
                                     "coordinate_origin is beyond the lattice, so MILC twists the wrong links: results "
                                     "are of another boundary than the input says. Give an origin inside the lattice");
}
void __wrap_boundary_twist_fn(fn_links_t *fn, int flag) {
    say_origin_is_beyond(fn);
    if (!twists_nothing(fn))
        fill_to_read(fn);
    twisting++;
    milcgpu_original(boundary_twist_fn)(fn, flag);
    twisting--;
}

/* Read by MILC's fermion force. */
hisq_auxiliary_t *__wrap_get_hisq_auxiliary(fermion_links_t *fl) {
    milcgpu_fill_links();
    return milcgpu_original(get_hisq_auxiliary)(fl);
}
void __wrap_destroy_hisq_auxiliary_t(hisq_auxiliary_t *aux) {
    forget_auxiliary(aux);
    milcgpu_original(destroy_hisq_auxiliary_t)(aux);
}
