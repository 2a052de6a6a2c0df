/* create_hisq_links_milc: U, V, Y, W and the links for every eps_naik. Links carry the phases, as MILC's do. */
#include "../include/umethod.h"
#include "links.h"
#include <string.h>

#include "routines.h"

/* What MILC keeps: a set of links for every eps_naik; since 2025 the set for 0 and the derivative by eps_naik. */
#if MILCGPU_MILC >= 3
static int n_sets(const ks_action_paths_hisq *ap) {
    (void)ap;
    return 1;
}
static int makes_deps(const ks_action_paths_hisq *ap, int want_deps) { return want_deps || ap->n_naiks > 1; }
static void destroy_hisq(ks_action_paths_hisq *ap, hisq_auxiliary_t *aux, fn_links_t **fn, fn_links_t *deps) {
    milcgpu_there(destroy_hisq_links_milc)(ap, aux, fn[0], deps);
}
#else
static int n_sets(const ks_action_paths_hisq *ap) { return ap->n_naiks; }
static int makes_deps(const ks_action_paths_hisq *ap, int want_deps) {
    (void)ap;
    return want_deps;
}
static void destroy_hisq(ks_action_paths_hisq *ap, hisq_auxiliary_t *aux, fn_links_t **fn, fn_links_t *deps) {
    milcgpu_there(destroy_hisq_links_milc)(ap, aux, fn, deps);
}
#endif

/* MILC destroys the auxiliary links at once where a program has said that it does not want them: measurements. They are
 * not filled then, unless links were made that keep theirs, which a program may make anew at any time. */
static int aux_wanted = 1, aux_ever_kept = 0;
void __wrap_fermion_links_want_aux(int request) {
    aux_wanted = request;
    milcgpu_original(fermion_links_want_aux)(request);
}
static int fills_auxiliary(void) {
    aux_ever_kept = aux_ever_kept || aux_wanted;
    return aux_ever_kept || milcgpu_plugin_compare();
}

/* MILC's ways to (V V^dag)^(-1/2) V, and the groups, that the device has. */
const char *milcgpu_own_hisq_links(int umethod, int ugroup) {
    if (umethod != UNITARIZE_ANALYTIC && umethod != UNITARIZE_ROOT && umethod != UNITARIZE_RATIONAL)
        return "MILC's own: the device has no such way to unitary links (UNITARIZATION_METHOD)";
    return ugroup == UNITARIZE_U3 || ugroup == UNITARIZE_SU3 ? NULL : "MILC's own: this UNITARIZATION_GROUP";
}
const char *milcgpu_own_hisq_force(int umethod, int ugroup) {
    if (umethod != UNITARIZE_ANALYTIC)
        return "MILC's own: the device has the force of UNITARIZE_ANALYTIC alone (UNITARIZATION_METHOD)";
    return ugroup == UNITARIZE_U3 ? NULL : "MILC's own: the device has the force of U(3) alone (UNITARIZATION_GROUP)";
}

const char *milcgpu_hisq_left(void) {
    if (!milcgpu_has(create_hisq_links_milc))
        return MILCGPU_ABSENT;
#if FERM_ACTION == HISQ
    if (milcgpu_own_links() == NULL)
        return milcgpu_own_hisq_links(UNITARIZATION_METHOD, UNITARIZATION_GROUP);
#endif
    return milcgpu_own_links();
}

/* create_fn_links without filling the fields with zeros. */
static fn_links_t *new_fn_links_by(void *(*make)(size_t, const char *)) {
    fn_links_t *fn = (fn_links_t *)milcgpu_room(sizeof(fn_links_t), "fn links");
    init_ferm_links(fn);
#if MILCGPU_MILC >= 3
    fn->preserve = 0;
#endif
    fn->phase = create_link_phase_info();
    fn->fat = (su3_matrix *)make(LINK_BYTES, "fat links");
    fn->lng = (su3_matrix *)make(LINK_BYTES, "long links");
    return fn;
}
static fn_links_t *new_fn_links(void) { return new_fn_links_by(milcgpu_room); }

/* used: whether they will be filled. */
static hisq_auxiliary_t *create_auxiliary(const ks_action_paths_hisq *ap, int used) {
    void *(*const make)(size_t, const char *) = used ? milcgpu_room : milcgpu_untouched_room;
    hisq_auxiliary_t *aux = (hisq_auxiliary_t *)milcgpu_room(sizeof(hisq_auxiliary_t), "HISQ auxiliary links");
    memset(aux, 0, sizeof *aux);
    aux->phases_in = 1;
    aux->WeqY = ap->ugroup == UNITARIZE_U3;
    aux->U_link = (su3_matrix *)make(LINK_BYTES, "U links");
    aux->V_link = (su3_matrix *)make(LINK_BYTES, "V links");
    aux->Y_unitlink = (su3_matrix *)make(LINK_BYTES, "Y links");
    aux->W_unitlink = aux->WeqY ? aux->Y_unitlink : (su3_matrix *)make(LINK_BYTES, "W links");
    return aux;
}

/* NULL: the device makes them. */
static const char *why_own(const ks_action_paths_hisq *ap) {
    return milcgpu_has_coefficients(&ap->p1) && milcgpu_has_coefficients(&ap->p2)
               ? milcgpu_own_hisq_links(ap->umethod, ap->ugroup)
               : MILCGPU_NO_COEFFICIENTS;
}

static milcgpu_fatlink_spec hisq_spec_of(const ks_action_paths_hisq *ap) {
    milcgpu_fatlink_spec spec = milcgpu_spec_of(&ap->p2);
    spec.hisq = 1;
    spec.fat7 = milcgpu_paths_of(&ap->p1);
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

const char *milcgpu_spec_of_hisq(const ks_action_paths_hisq *ap, milcgpu_fatlink_spec *spec) {
    *spec = hisq_spec_of(ap);
    return why_own(ap);
}
/* fn: n_sets, and the derivative by eps_naik if `deps`. fill: the auxiliary links, too. */
static int make_hisq(info_t *info, fn_links_t **fn, int deps, hisq_auxiliary_t *aux, const ks_action_paths_hisq *ap,
                     const su3_matrix *links, int alone, int fill) {
    milcgpu_fatlink_spec spec = hisq_spec_of(ap);
    milcgpu_fatlink_report report;
    void *fat[MAX_NAIK + 1], *lng[MAX_NAIK + 1];
    double eps[MAX_NAIK + 1];
    int i;
    spec.derivative = deps;
    for (i = 0; i < n_sets(ap) + deps; i++) {
        fat[i] = fn[i]->fat;
        lng[i] = fn[i]->lng;
        eps[i] = i == 0 || i == n_sets(ap) ? 0 : ap->eps_naik[i];
        fn[i]->eps_naik = eps[i];
    }
    if (fill && !milcgpu_md_lent(links))
        milcgpu_plugin_gather_links(links, 4 * sizeof(su3_matrix), aux->U_link);
    if (fill && milcgpu_md_lent(links) && !milcgpu_plugin_save_links(aux->U_link))
        return 0;
    if (!milcgpu_plugin_links(MILCGPU_HISQ_LINKS, &spec, milcgpu_md_lent(links) ? NULL : links, n_sets(ap) + deps, eps,
                              fat, lng, fill ? aux->V_link : NULL, fill ? aux->Y_unitlink : NULL,
                              fill && !aux->WeqY ? aux->W_unitlink : NULL, alone, &report))
        return 0;
    INFO_HISQ_SVD_COUNTER(info) += (int)report.svd_links;
    info->final_flop = milcgpu_fat_flops(&ap->p1) + milcgpu_fat_flops(&ap->p2) + milcgpu_long_flops();
    if (ap->n_naiks > 1 || deps)
        info->final_flop +=
            milcgpu_fat_flops(&ap->p3) + milcgpu_long_flops() + 2 * 18.0 * (n_sets(ap) - 1) * volume / numnodes();
    return 1;
}

static void cpu_hisq(info_t *info, fn_links_t **fn, fn_links_t **fn_deps, hisq_auxiliary_t **aux,
                     ks_action_paths_hisq *ap, su3_matrix *links, int want_deps, int want_back) {
    milcgpu_md_fill(links);
    milcgpu_plugin_original(MILCGPU_HISQ_LINKS, 1);
    milcgpu_original(create_hisq_links_milc)(info, fn, fn_deps, aux, ap, links, want_deps, want_back);
    milcgpu_plugin_original(MILCGPU_HISQ_LINKS, 0);
}

static void compare_hisq(info_t *info, fn_links_t **fn, fn_links_t *fn_deps, const hisq_auxiliary_t *aux,
                         ks_action_paths_hisq *ap, su3_matrix *links, int want_back, double seconds) {
    fn_links_t *cpu_fn[MAX_NAIK], *cpu_deps;
    hisq_auxiliary_t *cpu_aux;
    void *ours[4 * MAX_NAIK + 8], *theirs[4 * MAX_NAIK + 8];
    const milcgpu_fatlink_spec spec = hisq_spec_of(ap);
    info_t cpu_info = *info;
    int i, n = 0;
    cpu_hisq(&cpu_info, cpu_fn, &cpu_deps, &cpu_aux, ap, links, fn_deps != NULL, want_back);
    ours[n] = aux->U_link, theirs[n++] = cpu_aux->U_link;
    ours[n] = aux->V_link, theirs[n++] = cpu_aux->V_link;
    ours[n] = aux->Y_unitlink, theirs[n++] = cpu_aux->Y_unitlink;
    ours[n] = aux->W_unitlink, theirs[n++] = cpu_aux->W_unitlink;
    for (i = 0; i <= n_sets(ap); i++) {
        const fn_links_t *a = i < n_sets(ap) ? fn[i] : fn_deps, *b = i < n_sets(ap) ? cpu_fn[i] : cpu_deps;
        if (a == NULL || b == NULL)
            continue;
        ours[n] = a->fat, theirs[n++] = b->fat;
        ours[n] = a->lng, theirs[n++] = b->lng;
        ours[n] = a->fatback, theirs[n++] = b->fatback;
        ours[n] = a->lngback, theirs[n++] = b->lngback;
    }
    milcgpu_judge(
        milcgpu_plugin_compare_hisq_links(n, ours, theirs, cpu_aux->V_link, &spec, seconds, cpu_info.final_sec));
    destroy_hisq(ap, cpu_aux, cpu_fn, cpu_deps);
}

/* By MILC's routine, which makes fields of its own. aux: NULL where nobody wants them. */
static void fill_by_cpu(fn_links_t **to, int deps_too, hisq_auxiliary_t *aux, ks_action_paths_hisq *ap,
                        su3_matrix *links) {
    info_t info;
    fn_links_t *fn[MAX_NAIK], *deps = NULL;
    hisq_auxiliary_t *made;
    int i;
    memset(&info, 0, sizeof info);
    cpu_hisq(&info, fn, &deps, &made, ap, links, deps_too, 0);
    for (i = 0; i < n_sets(ap) + deps_too; i++) {
        const fn_links_t *from = i < n_sets(ap) ? fn[i] : deps;
        memcpy(to[i]->fat, from->fat, LINK_BYTES);
        memcpy(to[i]->lng, from->lng, LINK_BYTES);
    }
    if (aux != NULL) {
        memcpy(aux->U_link, made->U_link, LINK_BYTES);
        memcpy(aux->V_link, made->V_link, LINK_BYTES);
        memcpy(aux->Y_unitlink, made->Y_unitlink, LINK_BYTES);
        memcpy(aux->W_unitlink, made->W_unitlink, LINK_BYTES);
    }
    destroy_hisq(ap, made, fn, deps);
}

/* A copy of the gauge links, for links that can be made again later. NULL: these are filled at once. They are deferred
 * on one rank, where fields may stay on the device and where MILC's reads of links are known. With auxiliary links that
 * is in ks_imp_rhmc, where the device applies D: measurements read no links then. */
static su3_matrix *copy_to_defer(const su3_matrix *links, int with_aux) {
    su3_matrix *copy = NULL;
    if (with_aux && (!milcgpu_keeps_solutions() || !milcgpu_plugin_takes_dslash() || milcgpu_plugin_compare()))
        return NULL;
    if (numnodes() == 1 && milcgpu_plugin_resident() && milcgpu_reads_are_known())
        copy = (su3_matrix *)milcgpu_plugin_allocate(LINK_BYTES);
    if (copy == NULL)
        return NULL;
    if (!milcgpu_md_lent(links)) {
        memcpy(copy, links, LINK_BYTES);
    } else if (!milcgpu_plugin_save_links(copy)) {
        free(copy);
        return NULL;
    }
    return copy;
}

void milcgpu_fill_hisq(const milcgpu_deferred_links *deferred, su3_matrix *links) {
    const int deps = deferred->n - n_sets(deferred->hisq);
    fn_links_t *fn[MAX_NAIK + 1];
    info_t info;
    int i;
    memset(&info, 0, sizeof info);
    for (i = 0; i < deferred->n; i++)
        fn[i] = deferred->fn[i] != NULL ? deferred->fn[i] : new_fn_links();
    if (!milcgpu_takes_over() ||
        !make_hisq(&info, fn, deps, deferred->aux, deferred->hisq, links, 0, deferred->aux != NULL))
        fill_by_cpu(fn, deps, deferred->aux, deferred->hisq, links);
    for (i = 0; i < deferred->n; i++)
        if (deferred->fn[i] == NULL)
            destroy_fn_links(fn[i]);
}

/* Read by MILC's fermion force. */
hisq_auxiliary_t *__wrap_get_hisq_auxiliary(fermion_links_t *fl) {
    milcgpu_fill_links();
    return milcgpu_original(get_hisq_auxiliary)(fl);
}
void __wrap_destroy_hisq_auxiliary_t(hisq_auxiliary_t *aux) {
    milcgpu_forget_auxiliary(aux);
    milcgpu_original(destroy_hisq_auxiliary_t)(aux);
}

void __wrap_create_hisq_links_milc(info_t *info, fn_links_t **fn, fn_links_t **fn_deps, hisq_auxiliary_t **aux,
                                   ks_action_paths_hisq *ap, su3_matrix *links, int want_deps, int want_back) {
    const int deps = makes_deps(ap, want_deps), n = n_sets(ap) + deps;
    milcgpu_deferred_links these = {n, want_back, {NULL}, NULL, ap, NULL, NULL, 0};
    double seconds;
    int i, alone, with_aux, done;
    milcgpu_fill_links(); /* these take their place on the device */
    if (!milcgpu_takes_over() || !milcgpu_serves_routine(MILCGPU_HISQ_LINKS, why_own(ap) == NULL, why_own(ap))) {
        milcgpu_md_fill(links);
        milcgpu_original(create_hisq_links_milc)(info, fn, fn_deps, aux, ap, links, want_deps, want_back);
        return;
    }
    seconds = -milcgpu_plugin_seconds();
    with_aux = fills_auxiliary();
    alone = milcgpu_md_defers();
    if (!alone)
        alone = (these.made_of = copy_to_defer(links, with_aux)) != NULL;
    *aux = create_auxiliary(ap, with_aux && these.made_of == NULL);
    for (i = 0; i < n; i++)
        these.fn[i] = these.made_of != NULL ? new_fn_links_by(milcgpu_untouched_room) : new_fn_links();
    memcpy(fn, these.fn, n_sets(ap) * sizeof *fn);
    *fn_deps = deps ? these.fn[n_sets(ap)] : NULL;
    done = make_hisq(info, these.fn, deps, *aux, ap, links, alone, with_aux && !alone);
    if (!done) {
        free(these.made_of);
        destroy_hisq(ap, *aux, fn, *fn_deps);
        cpu_hisq(info, fn, fn_deps, aux, ap, links, want_deps, want_back);
        return;
    }
    if (alone) {
        these.aux = with_aux ? *aux : NULL;
        milcgpu_defer(&these);
    }
    for (i = 0; i < n && !alone; i++)
        milcgpu_load_backlinks(these.fn[i], want_back);
    seconds += milcgpu_plugin_seconds();
    info->final_sec = seconds;
    if (this_node == 0)
        printf("Combined fattening and long-link calculation time: %lf\n", seconds);
    if (milcgpu_plugin_compare() && milcgpu_room_to_compare(4 + (want_back ? 4 : 2) * n))
        compare_hisq(info, fn, *fn_deps, *aux, ap, links, want_back, seconds);
}
