/* load_fn_links (asqtad: fat and long links together), load_fatlinks and load_lnglinks alone, create_G_from_site, and
 * links that are on the device alone. Links carry the phases, as MILC's do. */
#include "links.h"
#include <string.h>

#include "routines.h"

milcgpu_paths milcgpu_paths_of(const ks_component_paths *p) {
    const asqtad_coeffs_t *c = &p->act_path_coeff;
    milcgpu_paths paths = {c->one_link, c->naik, c->three_staple, c->five_staple, c->seven_staple, c->lepage};
    return paths;
}

milcgpu_fatlink_spec milcgpu_spec_of(const ks_component_paths *p) {
    milcgpu_fatlink_spec spec;
    memset(&spec, 0, sizeof spec);
    spec.struct_size = sizeof spec;
    spec.unitarity = -1; /* MILC smears what it is given, and so do we */
    spec.paths = milcgpu_paths_of(p);
    return spec;
}

/* Actions given by general paths, without these coefficients, are MILC's. */
int milcgpu_has_coefficients(const ks_component_paths *p) {
#ifdef ASQ_OPTIMIZED_FATTENING
    const asqtad_coeffs_t *c = &p->act_path_coeff;
    return c->one_link != 0 || c->naik != 0 || c->three_staple != 0;
#else
    (void)p;
    return 0;
#endif
}

int milcgpu_spec_of_asqtad(const ks_component_paths *p, milcgpu_fatlink_spec *spec) {
    *spec = milcgpu_spec_of(p);
    return milcgpu_has_coefficients(p);
}

/* Whether the plugin can do this; said once where it cannot. */
int milcgpu_serves_routine(milcgpu_routine routine, int can, const char *why) {
    if (!can)
        milcgpu_plugin_leaves(routine, why);
    return can;
}

const char *milcgpu_own_links(void) {
#ifdef ASQ_OPTIMIZED_FATTENING
    return NULL;
#else
    return MILCGPU_NO_COEFFICIENTS;
#endif
}

void milcgpu_links_left(const char **left) {
    const char *general = milcgpu_own_links();
    left[MILCGPU_LOAD_FN_LINKS] = !milcgpu_has(load_fn_links_cpu) ? MILCGPU_ABSENT : general;
    left[MILCGPU_LOAD_FATLINKS] = !milcgpu_has(load_fatlinks_cpu) ? MILCGPU_ABSENT : general;
    left[MILCGPU_LOAD_LNGLINKS] = !milcgpu_has(load_lnglinks) ? MILCGPU_ABSENT : general;
    left[MILCGPU_HISQ_LINKS] = milcgpu_hisq_left();
    left[MILCGPU_BACK_LINKS] = left[MILCGPU_LOAD_FN_LINKS] != NULL && left[MILCGPU_HISQ_LINKS] != NULL
                                   ? "MILC's own, as the links are"
                               : numnodes() > 1 ? "MILC's own on several ranks: they come from the neighbours"
                                                : NULL;
    left[MILCGPU_GATHER_LINKS] = !milcgpu_has(create_G_from_site) ? MILCGPU_ABSENT : NULL;
}

double milcgpu_fat_flops(const ks_component_paths *p) {
    const asqtad_coeffs_t *c = &p->act_path_coeff;
    return (c->three_staple == 0 && c->lepage == 0 && c->five_staple == 0 ? 72.0 : 61632.0) * volume / numnodes();
}

double milcgpu_long_flops(void) { return 1728.0 * volume / numnodes(); }

/* fat and lng: NULL where not wanted. alone: for the device, as milcgpu_plugin_links has it. */
int milcgpu_make_links(milcgpu_routine routine, info_t *info, su3_matrix *fat, su3_matrix *lng,
                       const ks_component_paths *p, const su3_matrix *links, int alone) {
    milcgpu_fatlink_spec spec = milcgpu_spec_of(p);
    const double eps = 0;
    void *fats = fat, *lngs = lng;
    milcgpu_fatlink_report report;
    double seconds = -milcgpu_plugin_seconds();
    milcgpu_fill_links(); /* new links take their place on the device */
    if (fat == NULL) {    /* no staples then */
        const milcgpu_paths straight = {0, spec.paths.naik, 0, 0, 0, 0};
        spec.paths = straight;
    }
    if (!milcgpu_plugin_links(routine, &spec, milcgpu_md_lent(links) ? NULL : links, 1, &eps, &fats, &lngs, NULL, NULL,
                              NULL, alone, &report))
        return 0;
    info->final_sec = seconds + milcgpu_plugin_seconds();
    info->final_flop = (fat != NULL ? milcgpu_fat_flops(p) : 0) + (lng != NULL ? milcgpu_long_flops() : 0);
    return 1;
}

/* Back links as MILC has them, each in a field of MILC's own making. On several ranks they come from the neighbours:
 * then MILC's routine makes them.
 *
 * Only D on the CPU reads them, so they are owed until MILC asks for them (get_fatbacklinks, get_lngbacklinks). They
 * are made from the links as they then are. MILC's twist of links changes both alike, and skips back links that are not
 * there. */

#define MOST_OWED (MAX_NAIK + 1)
static fn_links_t *owed[MOST_OWED];
static int twisting = 0;

/* Its place in `owed`, or that of NULL, or -1. */
static int place_of(const fn_links_t *fn) {
    int k;
    for (k = 0; k < MOST_OWED; k++)
        if (owed[k] == fn)
            return k;
    return -1;
}

static int owes(fn_links_t *fn) {
    int k = place_of(fn);
    if (k < 0)
        k = place_of(NULL);
    if (k < 0 || !milcgpu_has(get_fatbacklinks) || !milcgpu_has(get_lngbacklinks) || milcgpu_plugin_compare())
        return 0;
    owed[k] = fn;
    return 1;
}

static void make_backlinks(fn_links_t *fn) {
    if (numnodes() > 1 || !milcgpu_takes_over()) {
        milcgpu_there(load_fn_backlinks)(fn);
        return;
    }
    fn->fatback = (su3_matrix *)milcgpu_room(LINK_BYTES, "backward fat links");
    fn->lngback = (su3_matrix *)milcgpu_room(LINK_BYTES, "backward long links");
    milcgpu_plugin_back_links(fn->fat, 1, fn->fatback);
    milcgpu_plugin_back_links(fn->lng, 3, fn->lngback);
}

static void forget_owed(const fn_links_t *fn) {
    const int k = place_of(fn);
    if (k >= 0)
        owed[k] = NULL;
}

void milcgpu_load_backlinks(fn_links_t *fn, int want_back) {
    destroy_fn_backlinks(fn);
    forget_owed(fn);
    if (want_back && (numnodes() > 1 || !owes(fn)))
        make_backlinks(fn);
}

/* ---- links that are on the device alone -------------------------------------------------------------------------- */

static milcgpu_deferred_links deferred;
static int fill_sums(void);
su3_matrix *__wrap_get_fatbacklinks(fn_links_t *);

/* For tests: whoever reads what is not filled reads NaN. */
static void leave_unfilled(su3_matrix *field) {
    if (field != NULL && milcgpu_plugin_resident() == 2)
        memset(field, 0xFF, LINK_BYTES);
}

void milcgpu_defer(const milcgpu_deferred_links *links) {
    int i;
    deferred = *links;
    deferred.of_version = milcgpu_plugin_links_version();
    for (i = 0; i < links->n; i++) {
        leave_unfilled(links->fn[i]->fat);
        leave_unfilled(links->fn[i]->lng);
        destroy_fn_backlinks(links->fn[i]);
        forget_owed(links->fn[i]);
    }
    if (links->aux != NULL) {
        leave_unfilled(links->aux->U_link);
        leave_unfilled(links->aux->V_link);
        leave_unfilled(links->aux->Y_unitlink);
        leave_unfilled(links->aux->W_unitlink);
    }
}

static void cpu_fn_links(info_t *info, fn_links_t *fn, ks_action_paths *ap, su3_matrix *links, int want_back) {
    milcgpu_md_fill(links);
    milcgpu_plugin_original(MILCGPU_LOAD_FN_LINKS, 1);
    milcgpu_original(load_fn_links_cpu)(info, fn, ap, links, want_back);
    milcgpu_plugin_original(MILCGPU_LOAD_FN_LINKS, 0);
}

static void fill_asqtad(fn_links_t *fn, ks_action_paths *ap, su3_matrix *links) {
    info_t info;
    memset(&info, 0, sizeof info);
    if (!milcgpu_takes_over() ||
        !milcgpu_make_links(MILCGPU_LOAD_FN_LINKS, &info, fn->fat, fn->lng, &ap->p, links, 0))
        cpu_fn_links(&info, fn, ap, links, 0);
}

static void fill_deferred(void) {
    const milcgpu_deferred_links d = deferred;
    su3_matrix *links = d.made_of;
    int i;
    memset(&deferred, 0, sizeof deferred); /* the routines below ask for links, too */
    if (links == NULL) {
        links = milcgpu_md_gauge_again();
        if (milcgpu_plugin_links_changed(d.of_version)) {
            if (this_node == 0)
                fprintf(stderr, "milcgpu: fermion links are on the GPU alone, and the gauge field that they were made of "
                                "has been written on the host since: MILC's cannot be filled. MILCGPU_RESIDENT=0 fills "
                                "them at once; please report this\n");
            milcgpu_end_of_run();
        }
    }
    milcgpu_plugin_forget_deferred();
    if (d.hisq != NULL)
        milcgpu_fill_hisq(&d, links);
    else
        fill_asqtad(d.fn[0], d.asqtad, links);
    if (d.made_of != NULL)
        free(links);
    else
        milcgpu_md_gauge_done(links);
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
            __wrap_get_fatbacklinks(parts[i]);
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
        milcgpu_plugin_forget_deferred();
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
    if (!is_summed(fn))
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
           milcgpu_reads_are_known() && milcgpu_takes_over() && milcgpu_plugin_resident() && !milcgpu_plugin_compare();
}

static int make_sum(sum_of_links *place, const fn_links_t *zero, const fn_links_t *derivative, double eps) {
    const milcgpu_plugin_link_fields a = {zero->fat, zero->lng}, b = {derivative->fat, derivative->lng};
    milcgpu_plugin_link_fields links;
    if (place->fat == NULL) {
        place->fat = (su3_matrix *)milcgpu_untouched_room(LINK_BYTES, "fat links");
        place->lng = (su3_matrix *)milcgpu_untouched_room(LINK_BYTES, "long links");
        leave_unfilled(place->fat);
        leave_unfilled(place->lng);
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
    milcgpu_plugin_forget_deferred();
}
void milcgpu_forget_auxiliary(const hisq_auxiliary_t *aux) {
    if (deferred.aux == aux)
        deferred.aux = NULL;
}

void milcgpu_need(int fields, const char *who) {
    if ((fields & MILCGPU_SOLUTIONS) && !milcgpu_plugin_vectors_need())
        milcgpu_end_of_run();
    if (fields & MILCGPU_FERMION_LINKS)
        milcgpu_fill_links();
    milcgpu_need_sites(fields & (MILCGPU_LINKS | MILCGPU_MOMENTA), who);
}

/* ---- what MILC reads, twists and destroys ------------------------------------------------------------------------ */

static void pay(fn_links_t *fn) {
    if (twisting)
        return;
    fill_to_read(fn);
    if (fn == NULL || fn->fatback != NULL || place_of(fn) < 0)
        return;
    forget_owed(fn);
    make_backlinks(fn);
}
int milcgpu_reads_are_known(void) { return milcgpu_has(get_fatlinks) && milcgpu_has(get_lnglinks); }
su3_matrix *__wrap_get_fatlinks(fn_links_t *fn) {
    fill_to_read(fn);
    return milcgpu_original(get_fatlinks)(fn);
}
su3_matrix *__wrap_get_lnglinks(fn_links_t *fn) {
    fill_to_read(fn);
    return milcgpu_original(get_lnglinks)(fn);
}
su3_matrix *__wrap_get_fatbacklinks(fn_links_t *fn) {
    pay(fn);
    return milcgpu_original(get_fatbacklinks)(fn);
}
su3_matrix *__wrap_get_lngbacklinks(fn_links_t *fn) {
    pay(fn);
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
        forget_owed(fn);
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
void __wrap_boundary_twist_fn(fn_links_t *fn, int flag) {
    if (!twists_nothing(fn))
        fill_to_read(fn);
    twisting++;
    milcgpu_original(boundary_twist_fn)(fn, flag);
    twisting--;
}

/* Whether there is room for n fields of links to compare with. MILC's routines make them, and end the run where there
 * is none. */
int milcgpu_room_to_compare(int n) {
    void *room = milcgpu_spare_room(n * LINK_BYTES, "links to compare with: this call is not compared");
    free(room);
    return room != NULL;
}

void __wrap_load_fn_links_cpu(info_t *info, fn_links_t *fn, ks_action_paths *ap, su3_matrix *links, int want_back) {
    const int alone = milcgpu_md_defers();
    double seconds;
    milcgpu_fill_links();
    if (!milcgpu_takes_over() ||
        !milcgpu_serves_routine(MILCGPU_LOAD_FN_LINKS, milcgpu_has_coefficients(&ap->p), MILCGPU_NO_COEFFICIENTS)) {
        milcgpu_md_fill(links);
        milcgpu_original(load_fn_links_cpu)(info, fn, ap, links, want_back);
        return;
    }
    seconds = -milcgpu_plugin_seconds();
    if (!milcgpu_make_links(MILCGPU_LOAD_FN_LINKS, info, fn->fat, fn->lng, &ap->p, links, alone)) {
        cpu_fn_links(info, fn, ap, links, want_back);
        return;
    }
    if (alone) {
        const milcgpu_deferred_links these = {1, want_back, {fn}, ap, NULL, NULL, NULL, 0};
        milcgpu_defer(&these);
    } else
        milcgpu_load_backlinks(fn, want_back);
    seconds += milcgpu_plugin_seconds();
    info->final_sec = seconds;
    if (milcgpu_plugin_compare() && milcgpu_room_to_compare(want_back ? 4 : 2)) {
        fn_links_t *cpu = create_fn_links();
        info_t cpu_info = *info;
        cpu_fn_links(&cpu_info, cpu, ap, links, want_back);
        void *const ours[4] = {fn->fat, fn->lng, fn->fatback, fn->lngback};
        void *const theirs[4] = {cpu->fat, cpu->lng, cpu->fatback, cpu->lngback};
        milcgpu_judge(
            milcgpu_plugin_compare_links(MILCGPU_LOAD_FN_LINKS, 4, ours, theirs, seconds, cpu_info.final_sec));
        destroy_fn_links(cpu);
    }
}

typedef void (*load_one)(info_t *, su3_matrix *, ks_component_paths *, su3_matrix *);

/* Fat links alone or long links alone. */
static void load_alone(milcgpu_routine routine, load_one original, info_t *info, su3_matrix *out, ks_component_paths *p,
                       su3_matrix *links) {
    const int fat = routine == MILCGPU_LOAD_FATLINKS;
    double seconds = -milcgpu_plugin_seconds();
    void *cpu = NULL;
    if (milcgpu_make_links(routine, info, fat ? out : NULL, fat ? NULL : out, p, links, 0)) {
        void *const ours = out;
        seconds += milcgpu_plugin_seconds();
        if (milcgpu_plugin_compare())
            cpu = milcgpu_spare_room(LINK_BYTES, "links to compare with: this call is not compared");
        if (cpu == NULL)
            return;
        double cpu_seconds = -milcgpu_plugin_seconds();
        info_t cpu_info = *info;
        milcgpu_plugin_original(routine, 1);
        original(&cpu_info, (su3_matrix *)cpu, p, links);
        milcgpu_plugin_original(routine, 0);
        cpu_seconds += milcgpu_plugin_seconds();
        milcgpu_judge(milcgpu_plugin_compare_links(routine, 1, &ours, &cpu, seconds, cpu_seconds));
        free(cpu);
        return;
    }
    milcgpu_md_fill(links);
    milcgpu_plugin_original(routine, 1);
    original(info, out, p, links);
    milcgpu_plugin_original(routine, 0);
}

void __wrap_load_fatlinks_cpu(info_t *info, su3_matrix *fat, ks_component_paths *p, su3_matrix *links) {
    if (!milcgpu_takes_over() ||
        !milcgpu_serves_routine(MILCGPU_LOAD_FATLINKS, milcgpu_has_coefficients(p), MILCGPU_NO_COEFFICIENTS))
        milcgpu_md_fill(links), milcgpu_original(load_fatlinks_cpu)(info, fat, p, links);
    else
        load_alone(MILCGPU_LOAD_FATLINKS, milcgpu_original(load_fatlinks_cpu), info, fat, p, links);
}

void __wrap_load_lnglinks(info_t *info, su3_matrix *lng, ks_component_paths *p, su3_matrix *links) {
    if (!milcgpu_takes_over() ||
        !milcgpu_serves_routine(MILCGPU_LOAD_LNGLINKS, milcgpu_has_coefficients(p), MILCGPU_NO_COEFFICIENTS))
        milcgpu_md_fill(links), milcgpu_original(load_lnglinks)(info, lng, p, links);
    else
        load_alone(MILCGPU_LOAD_LNGLINKS, milcgpu_original(load_lnglinks), info, lng, p, links);
}

/* ---- gauge links out of the sites ------------------------------------------------------------------------------- */

su3_matrix *__wrap_create_G_from_site(void) {
    su3_matrix *links;
    if (!milcgpu_takes_over()) { /* also after the device was lost */
        milcgpu_need_sites(MILCGPU_LINKS, "create_G_from_site");
        return milcgpu_original(create_G_from_site)();
    }
    links = (su3_matrix *)milcgpu_room(LINK_BYTES, "gauge links");
    if (milcgpu_md_lends(links))
        return links;
    milcgpu_need_sites(MILCGPU_LINKS, "create_G_from_site");
    milcgpu_plugin_gather_links(lattice[0].link, sizeof(site), links);
    return links;
}
