/* Fermion links that are deferred: the device has them or can make them, and MILC's fields are filled only when
 * somebody reads them. Also milcgpu_need, which fills everything that may be deferred. */
#include "links.h"
#include <string.h>

#include "routines.h"

/* ---- backward links ---------------------------------------------------------------------------------------------- */

/* Backward links, each in a field that MILC owns. On several ranks they come from the neighbours, so MILC's routine
 * makes them.
 *
 * Only D on the CPU reads them, so they are deferred until MILC requests them (get_fatbacklinks, get_lngbacklinks).
 * They are then made from the links as they are at that time. This is right because MILC's twist changes both alike,
 * and skips backward links that do not exist. */

static int twisting = 0;

static void make_deferred_back(void *self, void *fn) {
    (void)self;
    milcgpu_make_backlinks((fn_links_t *)fn);
}

static int defers_back(const fn_links_t *fn) {
    const void *const key = fn; /* the field is not allocated yet */
    const milcgpu_plugin_deferral back = {MILCGPU_BACKWARD_LINKS, 1, 0, &key, NULL, make_deferred_back, NULL, NULL};
    return milcgpu_has(get_fatbacklinks) && milcgpu_has(get_lngbacklinks) && !milcgpu_plugin_compare() &&
           milcgpu_plugin_defer(&back);
}

void milcgpu_load_backlinks(fn_links_t *fn, int want_back) {
    destroy_fn_backlinks(fn);
    milcgpu_plugin_drop_deferred(MILCGPU_BACKWARD_LINKS, fn);
    if (want_back && (numnodes() > 1 || !defers_back(fn)))
        milcgpu_make_backlinks(fn);
}

/* ---- links on the device ----------------------------------------------------------------------------------------- */

/* For tests: code that reads an unfilled field reads NaN. */
static void leave_as_it_is(su3_matrix *field) {
    if (field != NULL && milcgpu_plugin_resident() == 2)
        memset(field, 0xFF, LINK_BYTES);
}

/* Makes the fields of deferred links. The routines that make them also request links. */
static void fill_links(void *self, void *field) {
    const milcgpu_making_of_links *const making = (const milcgpu_making_of_links *)self;
    su3_matrix *const links = making->made_of != NULL ? making->made_of : milcgpu_begin_links_again();
    int i;
    (void)field;
    if (!milcgpu_plugin_inputs_hold()) {
        if (this_node == 0)
            fprintf(stderr, "milcgpu: MILC reads fermion links that were made on the device alone, and they cannot be "
                            "made again: the gauge field has changed since. MILCGPU_AUTO=0 copies links back at once; "
                            "please report this\n");
        milcgpu_end_of_run();
    }
    if (making->hisq != NULL)
        milcgpu_fill_hisq(making, links);
    else
        milcgpu_fill_asqtad(making->fn[0], making->asqtad, links);
    if (making->made_of == NULL)
        milcgpu_end_links_again(links);
    for (i = 0; i < making->n; i++)
        if (making->fn[i] != NULL)
            milcgpu_load_backlinks(making->fn[i], making->want_back);
}

/* MILC has freed a field, or all of them. */
static void drop_links(void *self, const void *field) {
    milcgpu_making_of_links *const making = (milcgpu_making_of_links *)self;
    int i;
    if (field == NULL) {
        free(making->made_of);
        free(making);
        return;
    }
    for (i = 0; i < making->n; i++)
        if (making->fn[i] != NULL && making->fn[i]->fat == field)
            making->fn[i] = NULL;
    if (making->aux != NULL && making->aux->U_link == field)
        making->aux = NULL;
}

void milcgpu_defer(const milcgpu_making_of_links *links) {
    milcgpu_making_of_links *const making = (milcgpu_making_of_links *)milcgpu_room(sizeof *making, "deferred links");
    const void *fields[MAX_NAIK + 2], *const gauge_field = NULL;
    milcgpu_plugin_deferral all = {
        MILCGPU_FERMION_LINKS, 0, links->made_of == NULL, fields, &gauge_field, fill_links, drop_links, making};
    int i;
    *making = *links;
    for (i = 0; i < links->n; i++) {
        leave_as_it_is(links->fn[i]->fat);
        leave_as_it_is(links->fn[i]->lng);
        destroy_fn_backlinks(links->fn[i]);
        milcgpu_plugin_drop_deferred(MILCGPU_BACKWARD_LINKS, links->fn[i]);
        fields[all.n_fields++] = links->fn[i]->fat;
    }
    if (links->aux != NULL) {
        leave_as_it_is(links->aux->U_link);
        leave_as_it_is(links->aux->V_link);
        leave_as_it_is(links->aux->Y_unitlink);
        leave_as_it_is(links->aux->W_unitlink);
        fields[all.n_fields++] = links->aux->U_link;
    }
    if (!milcgpu_plugin_defer(&all)) {
        fill_links(making, NULL);
        drop_links(making, NULL);
    }
}

int milcgpu_fill_links(void) { return milcgpu_or_end(milcgpu_plugin_fulfil(MILCGPU_FERMION_LINKS, NULL)); }

/* ---- links of one eps_naik --------------------------------------------------------------------------------------- */

static void make_back_to_read(fn_links_t *fn);

#if MILCGPU_MILC >= 3 && FERM_ACTION == HISQ
/* MILC keeps the links of eps_naik 0 and their derivative. It makes links of another eps_naik when it needs them, and
 * destroys them soon after. Here such links are deferred: the device makes them from the two. Fields and value of links
 * that MILC has destroyed are kept for the next request for the same links. */

typedef struct {
    fn_links_t *fn; /* NULL: destroyed since */
    su3_matrix *fat, *lng;
    fermion_links_t *fl;
    int naik;
    const fn_links_t *zero; /* the first part of the sum; NULL: its parts have changed, so it has no value */
} sum_of_links;
static sum_of_links sums[MAX_NAIK];

/* MILC's sum of links reads fields by routines in its own file, where the linker replaces no call. */
static void read_parts(fermion_links_t *fl) {
    fn_links_t *const parts[2] = {milcgpu_original(get_fm_links)(fl, 0), get_fn_deps_links(fl)};
    int i;
    for (i = 0; i < 2; i++)
        if (parts[i] != NULL && milcgpu_has(get_fatbacklinks))
            make_back_to_read(parts[i]);
}

/* As in MILC's get_fm_links. From here on MILC owns the fields. */
static void fill_sum(void *self, void *field) {
    sum_of_links *const sum = (sum_of_links *)self;
    fn_links_t *const fn = sum->fn;
    (void)field;
    sum->zero = NULL;
    if (fn == NULL)
        return;
    sum->fn = NULL;
    sum->fat = sum->lng = NULL;
    read_parts(sum->fl);
    if (sum->fl->options.want_back) {
        fn->fatback = (su3_matrix *)milcgpu_room(LINK_BYTES, "backward fat links");
        fn->lngback = (su3_matrix *)milcgpu_room(LINK_BYTES, "backward long links");
    }
    milcgpu_there(scalar_mult_fn)(get_fn_deps_links(sum->fl), fn->eps_naik, fn);
    milcgpu_there(add_fn)(fn, milcgpu_original(get_fm_links)(sum->fl, 0), fn);
}

/* MILC destroys the links. Returns 1 if their fields are kept for the next request. */
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

/* The best place: one whose fields were these links before, otherwise one with fields, otherwise an empty one. NULL:
 * all are in use. */
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
    const void *const inputs[4] = {a.fat, a.lng, b.fat, b.lng};
    milcgpu_plugin_link_fields links;
    const void *field;
    if (place->fat == NULL) {
        place->fat = (su3_matrix *)milcgpu_room(LINK_BYTES, "fat links");
        place->lng = (su3_matrix *)milcgpu_room(LINK_BYTES, "long links");
        leave_as_it_is(place->fat);
        leave_as_it_is(place->lng);
    }
    links.fat = field = place->fat;
    links.lng = place->lng;
    const milcgpu_plugin_deferral sum = {MILCGPU_FERMION_LINKS, 1, 4, &field, inputs, fill_sum, NULL, place};
    if (milcgpu_plugin_links_sum(links, a, eps, b) && milcgpu_plugin_defer(&sum))
        return 1;
    milcgpu_plugin_drop_deferred(MILCGPU_FERMION_LINKS, field);
    return 0;
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
    return fn;
}
#else
#if MILCGPU_MILC >= 3
imp_ferm_links_t *__wrap_get_fm_links(fermion_links_t *fl, int naik) {
    return milcgpu_original(get_fm_links)(fl, naik);
}
#endif
static int keep_fields_of(fn_links_t *fn) { return (void)fn, 0; }
#endif

/* MILC gets the address of these links, so they are filled, and so are links that are made of them. */
static void hand_out(const fn_links_t *fn) {
    if (fn != NULL && fn->fat != NULL && !twisting)
        milcgpu_or_end(milcgpu_plugin_hand_out(MILCGPU_FERMION_LINKS, fn->fat));
}

void milcgpu_before_hisq_is_destroyed(const hisq_auxiliary_t *aux, const fn_links_t *zero,
                                      const fn_links_t *derivative) {
    if (zero != NULL)
        milcgpu_or_end(milcgpu_plugin_before_change(zero->fat));
    if (derivative != NULL)
        milcgpu_or_end(milcgpu_plugin_before_change(derivative->fat));
    if (aux != NULL)
        milcgpu_plugin_drop_deferred(MILCGPU_FERMION_LINKS, aux->U_link);
}

void milcgpu_need(int fields, const char *who) {
    if (fields & (MILCGPU_SOURCE | MILCGPU_GAUGE_COPY))
        milcgpu_or_end(milcgpu_plugin_fulfil(fields & (MILCGPU_SOURCE | MILCGPU_GAUGE_COPY), NULL));
    if ((fields & MILCGPU_SOLUTIONS) && !milcgpu_plugin_vectors_need())
        milcgpu_end_of_run();
    if (fields & MILCGPU_FERMION_LINKS)
        milcgpu_fill_links();
    milcgpu_need_sites(fields & (MILCGPU_LINKS | MILCGPU_MOMENTA), who);
}

/* ---- what MILC reads, twists and destroys ------------------------------------------------------------------------ */

static void make_back_to_read(fn_links_t *fn) {
    if (twisting || fn == NULL)
        return;
    hand_out(fn);
    if (fn->fatback == NULL)
        milcgpu_or_end(milcgpu_plugin_fulfil(MILCGPU_BACKWARD_LINKS, fn));
}
su3_matrix *__wrap_get_fatlinks(fn_links_t *fn) {
    hand_out(fn);
    return milcgpu_original(get_fatlinks)(fn);
}
su3_matrix *__wrap_get_lnglinks(fn_links_t *fn) {
    hand_out(fn);
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
        if (fn->fat != NULL) {
            milcgpu_or_end(milcgpu_plugin_before_change(fn->fat));
            milcgpu_plugin_drop_deferred(MILCGPU_FERMION_LINKS, fn->fat);
        }
        milcgpu_plugin_drop_deferred(MILCGPU_BACKWARD_LINKS, fn);
    }
    milcgpu_original(destroy_fn_links)(fn);
}
/* No phase, and an origin that keeps MILC's signs: MILC requests such links and leaves them unchanged. */
static int twists_nothing(const fn_links_t *fn) {
    const link_phase_info_t *phase = fn != NULL ? fn->phase : NULL;
    int dir, nothing = phase != NULL && phase->r0[TUP] == 0;
    for (dir = 0; nothing && dir < 4; dir++)
        nothing = phase->bdry_phase[dir] == 0 && phase->r0[dir] % 2 == 0;
    return nothing;
}
/* MILC reduces x + extent - origin with C's %, which gives a negative number for such an origin. It then twists some of
 * the forward links and different backward links, and its own CG diverges. */
static void say_origin_is_beyond(const fn_links_t *fn) {
    const int extent[4] = {nx, ny, nz, nt};
    int dir;
    for (dir = 0; fn != NULL && fn->phase != NULL && dir < 4; dir++)
        if (fn->phase->r0[dir] > extent[dir])
            milcgpu_plugin_says_once(
                MILCGPU_BACK_LINKS,
                "coordinate_origin is outside the lattice, so MILC twists the wrong links: the results "
                "have another boundary than the input requests. Give an origin inside the lattice");
}
void __wrap_boundary_twist_fn(fn_links_t *fn, int flag) {
    say_origin_is_beyond(fn);
    if (!twists_nothing(fn))
        hand_out(fn);
    twisting++;
    milcgpu_original(boundary_twist_fn)(fn, flag);
    twisting--;
}

/* MILC's fermion force reads it. */
hisq_auxiliary_t *__wrap_get_hisq_auxiliary(fermion_links_t *fl) {
    milcgpu_fill_links();
    return milcgpu_original(get_hisq_auxiliary)(fl);
}
void __wrap_destroy_hisq_auxiliary_t(hisq_auxiliary_t *aux) {
    milcgpu_before_hisq_is_destroyed(aux, NULL, NULL);
    milcgpu_original(destroy_hisq_auxiliary_t)(aux);
}
