/* load_fn_links (asqtad: fat and long links together), load_fatlinks and load_lnglinks alone, create_hisq_links_milc
 * (U, V, Y, W and the links for every eps_naik), and create_G_from_site. Links carry the phases, as MILC's do. */
#include "../include/umethod.h"
#include "glue.h"
#include <string.h>

void __real_load_fn_links_cpu(info_t *, fn_links_t *, ks_action_paths *, su3_matrix *, int) MILCGPU_ORIGINAL;
void __real_load_fatlinks_cpu(info_t *, su3_matrix *, ks_component_paths *, su3_matrix *) MILCGPU_ORIGINAL;
void __real_load_lnglinks(info_t *, su3_matrix *, ks_component_paths *, su3_matrix *) MILCGPU_ORIGINAL;
void __real_create_hisq_links_milc(info_t *, fn_links_t **, fn_links_t **, hisq_auxiliary_t **, ks_action_paths_hisq *,
                                   su3_matrix *, int, int) MILCGPU_ORIGINAL;
su3_matrix *__real_create_G_from_site(void) MILCGPU_ORIGINAL;
/* Of HISQ programs alone. */
void destroy_hisq_links_milc(ks_action_paths_hisq *, hisq_auxiliary_t *, fn_links_t **, fn_links_t *)
    __attribute__((weak));

#define LINK_BYTES (4 * sites_on_node * sizeof(su3_matrix))

static milcgpu_paths paths_of(const ks_component_paths *p) {
    const asqtad_coeffs_t *c = &p->act_path_coeff;
    milcgpu_paths paths = {c->one_link, c->naik, c->three_staple, c->five_staple, c->seven_staple, c->lepage};
    return paths;
}

static milcgpu_fatlink_spec spec_of(const ks_component_paths *p) {
    milcgpu_fatlink_spec spec;
    memset(&spec, 0, sizeof spec);
    spec.struct_size = sizeof spec;
    spec.unitarity = -1; /* MILC smears what it is given, and so do we */
    spec.paths = paths_of(p);
    return spec;
}

/* Actions given by general paths, without these coefficients, are MILC's. */
static int has_coefficients(const ks_component_paths *p) {
#ifdef ASQ_OPTIMIZED_FATTENING
    const asqtad_coeffs_t *c = &p->act_path_coeff;
    return c->one_link != 0 || c->naik != 0 || c->three_staple != 0;
#else
    (void)p;
    return 0;
#endif
}

/* Whether the plugin can do this; said once where it cannot. */
static int serves(milcgpu_routine routine, int can, const char *why) {
    if (!can)
        milcgpu_plugin_leaves(routine, why);
    return can;
}

#define NO_COEFFICIENTS "MILC's own: this action's links are not made of the six coefficients"

void milcgpu_links_left(const char **left) {
#ifdef ASQ_OPTIMIZED_FATTENING
    const char *general = NULL;
#else
    const char *general = NO_COEFFICIENTS;
#endif
    left[MILCGPU_LOAD_FN_LINKS] = __real_load_fn_links_cpu == NULL ? MILCGPU_ABSENT : general;
    left[MILCGPU_LOAD_FATLINKS] = __real_load_fatlinks_cpu == NULL ? MILCGPU_ABSENT : general;
    left[MILCGPU_LOAD_LNGLINKS] = __real_load_lnglinks == NULL ? MILCGPU_ABSENT : general;
    left[MILCGPU_HISQ_LINKS] = __real_create_hisq_links_milc == NULL ? MILCGPU_ABSENT : general;
    left[MILCGPU_BACK_LINKS] =
        left[MILCGPU_LOAD_FN_LINKS] != NULL && left[MILCGPU_HISQ_LINKS] != NULL ? "MILC's own" : NULL;
    left[MILCGPU_GATHER_LINKS] = __real_create_G_from_site == NULL ? MILCGPU_ABSENT : NULL;
}

static double fat_flops(const ks_component_paths *p) {
    const asqtad_coeffs_t *c = &p->act_path_coeff;
    return (c->three_staple == 0 && c->lepage == 0 && c->five_staple == 0 ? 72.0 : 61632.0) * volume / numnodes();
}

static double long_flops(void) { return 1728.0 * volume / numnodes(); }

/* fat and lng: NULL where not wanted. alone: for the device, as milcgpu_plugin_links has it. */
static int make_links(milcgpu_routine routine, info_t *info, su3_matrix *fat, su3_matrix *lng,
                      const ks_component_paths *p, const su3_matrix *links, int alone) {
    milcgpu_fatlink_spec spec = spec_of(p);
    const double eps = 0;
    void *fats = fat, *lngs = lng;
    milcgpu_fatlink_report report;
    double seconds = -milcgpu_plugin_seconds();
    if (fat == NULL) { /* no staples then */
        const milcgpu_paths straight = {0, spec.paths.naik, 0, 0, 0, 0};
        spec.paths = straight;
    }
    if (!milcgpu_plugin_links(routine, &spec, milcgpu_md_lent(links) ? NULL : links, 1, &eps, &fats, &lngs, NULL, NULL,
                              NULL, alone, &report))
        return 0;
    info->final_sec = seconds + milcgpu_plugin_seconds();
    info->final_flop = (fat != NULL ? fat_flops(p) : 0) + (lng != NULL ? long_flops() : 0);
    return 1;
}

/* ---- links that are on the device alone -------------------------------------------------------------------------- */

/* Those that MILC has made last, where their fields are not filled. All of it is MILC's, and there until MILC makes
 * links anew. */
static struct {
    int n, want_back; /* n 0: none */
    fn_links_t *fn[MAX_NAIK];
    ks_action_paths *asqtad;
    ks_action_paths_hisq *hisq;
    hisq_auxiliary_t *aux;
} unfilled;

int milcgpu_links_unfilled(void) { return unfilled.n > 0; }

/* For tests: whoever reads what is not filled reads NaN. */
static void leave_unfilled(su3_matrix *field) {
    if (field != NULL && milcgpu_plugin_resident() == 2)
        memset(field, 0xFF, LINK_BYTES);
}
static void leave_links_unfilled(fn_links_t *fn, int want_back) {
    leave_unfilled(fn->fat);
    leave_unfilled(fn->lng);
    destroy_fn_backlinks(fn);
    unfilled.fn[unfilled.n++] = fn;
    unfilled.want_back = want_back;
}

/* Back links as MILC has them, each in a field of MILC's own making. */
static void load_backlinks(fn_links_t *fn, int want_back) {
    destroy_fn_backlinks(fn);
    if (!want_back)
        return;
    fn->fatback = (su3_matrix *)milcgpu_room(LINK_BYTES, "backward fat links");
    fn->lngback = (su3_matrix *)milcgpu_room(LINK_BYTES, "backward long links");
    milcgpu_plugin_back_links(fn->fat, 1, fn->fatback);
    milcgpu_plugin_back_links(fn->lng, 3, fn->lngback);
}

/* Whether there is room for n fields of links to compare with. MILC's routines make them, and end the run where there
 * is none. */
static int room_to_compare(int n) {
    void *room = milcgpu_spare_room(n * LINK_BYTES, "links to compare with: this call is not compared");
    free(room);
    return room != NULL;
}

static void cpu_fn_links(info_t *info, fn_links_t *fn, ks_action_paths *ap, su3_matrix *links, int want_back) {
    milcgpu_md_fill(links);
    milcgpu_plugin_original(MILCGPU_LOAD_FN_LINKS, 1);
    __real_load_fn_links_cpu(info, fn, ap, links, want_back);
    milcgpu_plugin_original(MILCGPU_LOAD_FN_LINKS, 0);
}

void __wrap_load_fn_links_cpu(info_t *info, fn_links_t *fn, ks_action_paths *ap, su3_matrix *links, int want_back) {
    const int alone = milcgpu_md_links_alone();
    double seconds;
    memset(&unfilled, 0, sizeof unfilled);
    if (!milcgpu_takes_over() || !serves(MILCGPU_LOAD_FN_LINKS, has_coefficients(&ap->p), NO_COEFFICIENTS)) {
        milcgpu_md_fill(links);
        __real_load_fn_links_cpu(info, fn, ap, links, want_back);
        return;
    }
    seconds = -milcgpu_plugin_seconds();
    if (!make_links(MILCGPU_LOAD_FN_LINKS, info, fn->fat, fn->lng, &ap->p, links, alone)) {
        cpu_fn_links(info, fn, ap, links, want_back);
        return;
    }
    if (alone) {
        leave_links_unfilled(fn, want_back);
        unfilled.asqtad = ap;
    } else
        load_backlinks(fn, want_back);
    seconds += milcgpu_plugin_seconds();
    info->final_sec = seconds;
    if (milcgpu_plugin_compare() && room_to_compare(want_back ? 4 : 2)) {
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
    if (make_links(routine, info, fat ? out : NULL, fat ? NULL : out, p, links, 0)) {
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
    if (!milcgpu_takes_over() || !serves(MILCGPU_LOAD_FATLINKS, has_coefficients(p), NO_COEFFICIENTS))
        milcgpu_md_fill(links), __real_load_fatlinks_cpu(info, fat, p, links);
    else
        load_alone(MILCGPU_LOAD_FATLINKS, __real_load_fatlinks_cpu, info, fat, p, links);
}

void __wrap_load_lnglinks(info_t *info, su3_matrix *lng, ks_component_paths *p, su3_matrix *links) {
    if (!milcgpu_takes_over() || !serves(MILCGPU_LOAD_LNGLINKS, has_coefficients(p), NO_COEFFICIENTS))
        milcgpu_md_fill(links), __real_load_lnglinks(info, lng, p, links);
    else
        load_alone(MILCGPU_LOAD_LNGLINKS, __real_load_lnglinks, info, lng, p, links);
}

/* create_fn_links without filling the fields with zeros. */
static fn_links_t *new_fn_links(void) {
    fn_links_t *fn = (fn_links_t *)milcgpu_room(sizeof(fn_links_t), "fn links");
    init_ferm_links(fn);
    fn->phase = create_link_phase_info();
    fn->fat = (su3_matrix *)milcgpu_room(LINK_BYTES, "fat links");
    fn->lng = (su3_matrix *)milcgpu_room(LINK_BYTES, "long links");
    return fn;
}

/* ---- HISQ ------------------------------------------------------------------------------------------------------- */

static hisq_auxiliary_t *create_auxiliary(const ks_action_paths_hisq *ap) {
    hisq_auxiliary_t *aux = (hisq_auxiliary_t *)milcgpu_room(sizeof(hisq_auxiliary_t), "HISQ auxiliary links");
    memset(aux, 0, sizeof *aux);
    aux->phases_in = 1;
    aux->WeqY = ap->ugroup == UNITARIZE_U3;
    aux->U_link = (su3_matrix *)milcgpu_room(LINK_BYTES, "U links");
    aux->V_link = (su3_matrix *)milcgpu_room(LINK_BYTES, "V links");
    aux->Y_unitlink = (su3_matrix *)milcgpu_room(LINK_BYTES, "Y links");
    aux->W_unitlink = aux->WeqY ? aux->Y_unitlink : (su3_matrix *)milcgpu_room(LINK_BYTES, "W links");
    return aux;
}

/* MILC's ways to (V V^dag)^(-1/2) V, and the groups, that the device has. */
static int can_make(const ks_action_paths_hisq *ap) {
    return (ap->umethod == UNITARIZE_ANALYTIC || ap->umethod == UNITARIZE_ROOT || ap->umethod == UNITARIZE_RATIONAL) &&
           (ap->ugroup == UNITARIZE_U3 || ap->ugroup == UNITARIZE_SU3) && has_coefficients(&ap->p1) &&
           has_coefficients(&ap->p2);
}

static milcgpu_fatlink_spec hisq_spec_of(const ks_action_paths_hisq *ap) {
    milcgpu_fatlink_spec spec = spec_of(&ap->p2);
    spec.hisq = 1;
    spec.fat7 = paths_of(&ap->p1);
    spec.eps_one_link = ap->p3.act_path_coeff.one_link;
    spec.eps_naik = ap->p3.act_path_coeff.naik;
    spec.special_unitary = ap->ugroup == UNITARIZE_SU3;
#ifdef HISQ_REUNIT_SVD_REL_ERROR
    spec.svd_relative = HISQ_REUNIT_SVD_REL_ERROR;
#endif
#ifdef HISQ_REUNIT_SVD_ABS_ERROR
    spec.svd_absolute = HISQ_REUNIT_SVD_ABS_ERROR;
#endif
    return spec;
}

int milcgpu_spec_of_hisq(const ks_action_paths_hisq *ap, milcgpu_fatlink_spec *spec) {
    *spec = hisq_spec_of(ap);
    return can_make(ap);
}
int milcgpu_spec_of_asqtad(const ks_component_paths *p, milcgpu_fatlink_spec *spec) {
    *spec = spec_of(p);
    return has_coefficients(p);
}

static int make_hisq(info_t *info, fn_links_t **fn, fn_links_t *fn_deps, hisq_auxiliary_t *aux,
                     const ks_action_paths_hisq *ap, const su3_matrix *links, int alone) {
    milcgpu_fatlink_spec spec = hisq_spec_of(ap);
    milcgpu_fatlink_report report;
    void *fat[MAX_NAIK], *lng[MAX_NAIK];
    double eps[MAX_NAIK];
    int i;
    for (i = 0; i < ap->n_naiks; i++) {
        fat[i] = fn[i]->fat;
        lng[i] = fn[i]->lng;
        eps[i] = i == 0 ? 0 : ap->eps_naik[i];
        fn[i]->eps_naik = eps[i];
    }
    if (!milcgpu_md_lent(links) && !alone) /* read by MILC's fermion force alone */
        milcgpu_plugin_gather_links(links, 4 * sizeof(su3_matrix), aux->U_link);
    if (!milcgpu_plugin_links(MILCGPU_HISQ_LINKS, &spec, milcgpu_md_lent(links) ? NULL : links, ap->n_naiks, eps, fat,
                              lng, alone ? NULL : aux->V_link, alone ? NULL : aux->Y_unitlink,
                              alone || aux->WeqY ? NULL : aux->W_unitlink, alone, &report))
        return 0;
    INFO_HISQ_SVD_COUNTER(info) += (int)report.svd_links;
    info->final_flop = fat_flops(&ap->p1) + fat_flops(&ap->p2) + long_flops();
    if (ap->n_naiks > 1)
        info->final_flop += fat_flops(&ap->p3) + long_flops() + 2 * 18.0 * (ap->n_naiks - 1) * volume / numnodes();
    if (fn_deps != NULL) {
        const double flops = info->final_flop;
        if (!make_links(MILCGPU_HISQ_LINKS, info, fn_deps->fat, fn_deps->lng, &ap->p3, aux->W_unitlink, 0))
            return 0;
        info->final_flop = flops + (ap->n_naiks > 1 ? 0 : fat_flops(&ap->p3) + long_flops());
    }
    return 1;
}

static void cpu_hisq(info_t *info, fn_links_t **fn, fn_links_t **fn_deps, hisq_auxiliary_t **aux,
                     ks_action_paths_hisq *ap, su3_matrix *links, int want_deps, int want_back) {
    milcgpu_md_fill(links);
    milcgpu_plugin_original(MILCGPU_HISQ_LINKS, 1);
    __real_create_hisq_links_milc(info, fn, fn_deps, aux, ap, links, want_deps, want_back);
    milcgpu_plugin_original(MILCGPU_HISQ_LINKS, 0);
}

static void compare_hisq(info_t *info, fn_links_t **fn, fn_links_t *fn_deps, const hisq_auxiliary_t *aux,
                         ks_action_paths_hisq *ap, su3_matrix *links, int want_back, double seconds) {
    fn_links_t *cpu_fn[MAX_NAIK], *cpu_deps;
    hisq_auxiliary_t *cpu_aux;
    void *ours[4 * MAX_NAIK + 8], *theirs[4 * MAX_NAIK + 8];
    info_t cpu_info = *info;
    int i, n = 0;
    cpu_hisq(&cpu_info, cpu_fn, &cpu_deps, &cpu_aux, ap, links, fn_deps != NULL, want_back);
    ours[n] = aux->U_link, theirs[n++] = cpu_aux->U_link;
    ours[n] = aux->V_link, theirs[n++] = cpu_aux->V_link;
    ours[n] = aux->Y_unitlink, theirs[n++] = cpu_aux->Y_unitlink;
    ours[n] = aux->W_unitlink, theirs[n++] = cpu_aux->W_unitlink;
    for (i = 0; i <= ap->n_naiks; i++) {
        const fn_links_t *a = i < ap->n_naiks ? fn[i] : fn_deps, *b = i < ap->n_naiks ? cpu_fn[i] : cpu_deps;
        if (a == NULL || b == NULL)
            continue;
        ours[n] = a->fat, theirs[n++] = b->fat;
        ours[n] = a->lng, theirs[n++] = b->lng;
        ours[n] = a->fatback, theirs[n++] = b->fatback;
        ours[n] = a->lngback, theirs[n++] = b->lngback;
    }
    milcgpu_judge(milcgpu_plugin_compare_links(MILCGPU_HISQ_LINKS, n, ours, theirs, seconds, cpu_info.final_sec));
    destroy_hisq_links_milc(ap, cpu_aux, cpu_fn, cpu_deps);
}

void __wrap_create_hisq_links_milc(info_t *info, fn_links_t **fn, fn_links_t **fn_deps, hisq_auxiliary_t **aux,
                                   ks_action_paths_hisq *ap, su3_matrix *links, int want_deps, int want_back) {
    const int alone = milcgpu_md_links_alone() && !want_deps;
    double seconds;
    int i, done;
    memset(&unfilled, 0, sizeof unfilled);
    if (!milcgpu_takes_over() ||
        !serves(MILCGPU_HISQ_LINKS, can_make(ap),
                "MILC's own: this action's links, or its way to unitary ones, are none that the device makes")) {
        milcgpu_md_fill(links);
        __real_create_hisq_links_milc(info, fn, fn_deps, aux, ap, links, want_deps, want_back);
        return;
    }
    seconds = -milcgpu_plugin_seconds();
    *aux = create_auxiliary(ap);
    for (i = 0; i < ap->n_naiks; i++)
        fn[i] = new_fn_links();
    *fn_deps = want_deps ? new_fn_links() : NULL;
    done = make_hisq(info, fn, *fn_deps, *aux, ap, links, alone);
    if (!done) {
        destroy_hisq_links_milc(ap, *aux, fn, *fn_deps);
        cpu_hisq(info, fn, fn_deps, aux, ap, links, want_deps, want_back);
        return;
    }
    for (i = 0; i < ap->n_naiks; i++)
        alone ? leave_links_unfilled(fn[i], want_back) : load_backlinks(fn[i], want_back);
    if (want_deps)
        load_backlinks(*fn_deps, want_back);
    if (alone) {
        su3_matrix *const fields[4] = {(*aux)->U_link, (*aux)->V_link, (*aux)->Y_unitlink, (*aux)->W_unitlink};
        unfilled.hisq = ap;
        unfilled.aux = *aux;
        for (i = 0; i < 4; i++)
            leave_unfilled(fields[i]);
    }
    seconds += milcgpu_plugin_seconds();
    info->final_sec = seconds;
    if (this_node == 0)
        printf("Combined fattening and long-link calculation time: %lf\n", seconds);
    if (milcgpu_plugin_compare() && room_to_compare(4 + (want_back ? 4 : 2) * (ap->n_naiks + want_deps)))
        compare_hisq(info, fn, *fn_deps, *aux, ap, links, want_back, seconds);
}

/* ---- filling what is on the device alone --------------------------------------------------------------------------
 */

/* By MILC's routine, which makes fields of its own. */
static void fill_hisq_by_cpu(su3_matrix *links) {
    info_t info;
    fn_links_t *fn[MAX_NAIK], *deps = NULL;
    hisq_auxiliary_t *aux = unfilled.aux, *made;
    int i;
    memset(&info, 0, sizeof info);
    cpu_hisq(&info, fn, &deps, &made, unfilled.hisq, links, 0, 0);
    for (i = 0; i < unfilled.n; i++) {
        memcpy(unfilled.fn[i]->fat, fn[i]->fat, LINK_BYTES);
        memcpy(unfilled.fn[i]->lng, fn[i]->lng, LINK_BYTES);
    }
    memcpy(aux->U_link, made->U_link, LINK_BYTES);
    memcpy(aux->V_link, made->V_link, LINK_BYTES);
    memcpy(aux->Y_unitlink, made->Y_unitlink, LINK_BYTES);
    memcpy(aux->W_unitlink, made->W_unitlink, LINK_BYTES);
    destroy_hisq_links_milc(unfilled.hisq, made, fn, deps);
}

void milcgpu_fill_links_from(su3_matrix *links) {
    info_t info;
    int i, done;
    memset(&info, 0, sizeof info);
    if (unfilled.hisq != NULL) {
        done = milcgpu_takes_over() && make_hisq(&info, unfilled.fn, NULL, unfilled.aux, unfilled.hisq, links, 0);
        if (!done)
            fill_hisq_by_cpu(links);
    } else {
        fn_links_t *fn = unfilled.fn[0];
        done = milcgpu_takes_over() &&
               make_links(MILCGPU_LOAD_FN_LINKS, &info, fn->fat, fn->lng, &unfilled.asqtad->p, links, 0);
        if (!done)
            cpu_fn_links(&info, fn, unfilled.asqtad, links, 0);
    }
    for (i = 0; i < unfilled.n; i++)
        load_backlinks(unfilled.fn[i], unfilled.want_back);
    memset(&unfilled, 0, sizeof unfilled);
}

/* ---- gauge links out of the sites ------------------------------------------------------------------------------- */

su3_matrix *__wrap_create_G_from_site(void) {
    su3_matrix *links;
    if (!milcgpu_takes_over()) { /* also after the device was lost */
        milcgpu_md_need(MILCGPU_LINKS, "create_G_from_site");
        return __real_create_G_from_site();
    }
    links = (su3_matrix *)milcgpu_room(LINK_BYTES, "gauge links");
    if (milcgpu_md_lends(links))
        return links;
    milcgpu_md_need(MILCGPU_LINKS, "create_G_from_site");
    milcgpu_plugin_gather_links(lattice[0].link, sizeof(site), links);
    return links;
}
