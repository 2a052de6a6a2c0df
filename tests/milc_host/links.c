/* Links by the replaced routines beside MILC's own: fat and long links, many sets, unneeded and unread ones; gauge
 * fixing and APE smearing. */
#include "../generic_ks/generic_ks_includes.h"
#include "../include/fermion_links.h"
#include "../include/umethod.h"
#include "checks.h"
#include "plugin.h"
#include <math.h>
#include <quark_action.h>
#include <string.h>

void solve_everything(fn_links_t *fn, fn_links_t *fn_last, const char *fault); /* solves.c */
void try_measurements(fn_links_t *fn);

int __real_ks_congrad_parity_cpu(su3_vector *, su3_vector *, quark_invert_control *, Real, imp_ferm_links_t *);
void __real_dslash_fn_field(su3_vector *, su3_vector *, int, imp_ferm_links_t *);
void __real_load_fn_links_cpu(info_t *, fn_links_t *, ks_action_paths *, su3_matrix *, int);
void __real_load_fatlinks_cpu(info_t *, su3_matrix *, ks_component_paths *, su3_matrix *);
void __real_load_lnglinks(info_t *, su3_matrix *, ks_component_paths *, su3_matrix *);
void __real_gaugefix(int, Real, int, Real);
su3_matrix *__real_ape_smear_4D(Real, int);
void __real_ape_smear_dir(field_offset, int, field_offset, Real, Real, int, int, Real);
void __real_ape_smear(field_offset, field_offset, Real, Real, int, int, Real);
void __real_ape_smear_field_dir(su3_matrix *, int, su3_matrix *, Real, Real, int, int, Real);
void __real_ape_smear_field(su3_matrix *, su3_matrix *, Real, Real, int, int, Real);
void __real_create_hisq_links_milc(info_t *, fn_links_t **, fn_links_t **, hisq_auxiliary_t **, ks_action_paths_hisq *,
                                   su3_matrix *, int, int);

static const double link_limit = MILC_PRECISION == 1 ? 5e-6 : 1e-12;

static double links_differ(const su3_matrix *a, const su3_matrix *b) { return difference(a, b, 72 * sites_on_node); }

static void check_links(fn_links_t *a, fn_links_t *b) {
    const su3_matrix *const fatback = get_fatbacklinks(a), *const lngback = get_lngbacklinks(a);
    const su3_matrix *const fat = get_fatlinks(a), *const lng = get_lnglinks(a);
    check(links_differ(fat, b->fat) < link_limit, "fat links", links_differ(fat, b->fat));
    check(links_differ(lng, b->lng) < link_limit, "long links", links_differ(lng, b->lng));
    check((fatback == NULL) == (b->fatback == NULL), "whether there are back links", 0);
    if (b->fatback != NULL) {
        check(links_differ(fatback, b->fatback) < link_limit, "backward fat links", 0);
        check(links_differ(lngback, b->lngback) < link_limit, "backward long links", 0);
    }
}

static void try_links_alone(ks_component_paths *p, su3_matrix *links) {
    fn_links_t *a = create_fn_links(), *b = create_fn_links();
    info_t info = {0};
    load_fatlinks_cpu(&info, a->fat, p, links);
    check(info.final_flop == 61632.0 * volume, "flops of fat links", info.final_flop);
    load_lnglinks(&info, a->lng, p, links);
    check(info.final_flop == 1728.0 * volume, "flops of long links", info.final_flop);
    __real_load_fatlinks_cpu(&info, b->fat, p, links);
    __real_load_lnglinks(&info, b->lng, p, links);
    check_links(a, b);
    destroy_fn_links(a);
    destroy_fn_links(b);
}

/* More sets of links than the library keeps: one of the last three has the address of the oldest, the others are
 * new. */
static void try_many_sets(su3_matrix *links) {
    enum { kept = 8, last = 3 };
    fn_links_t *fn[kept + last - 1], *first[last];
    const double eps[last] = {0, -0.3, 0.2};
    milcgpu_fatlink_spec spec;
    milcgpu_fatlink_report report;
    int i, k;
    milcgpu_hisq_defaults(&spec, sizeof spec);
    spec.unitarity = -1;
    for (i = 0; i < kept + last - 1; i++)
        fn[i] = create_fn_links();
    for (i = -1; i <= kept; i++) {
        const int n = i >= 0 && i < kept ? 1 : last;
        void *fat[last], *lng[last];
        for (k = 0; k < n; k++) {
            fn_links_t *to = i >= 0 ? fn[i < kept ? i : k == 0 ? 0 : kept + k - 1] : (first[k] = create_fn_links());
            fat[k] = to->fat, lng[k] = to->lng;
        }
        const milcgpu_plugin_links_call call = {
            MILCGPU_HISQ_LINKS, &spec, links, n, eps, fat, lng, NULL, NULL, NULL, 0};
        check(milcgpu_plugin_links(call, &report), "links of many sets", i);
    }
    for (k = 0; k < last; k++) {
        check_links(fn[k == 0 ? 0 : kept + k - 1], first[k]);
        destroy_fn_links(first[k]);
    }
    try_solve(EVEN, 0.1, fn[kept]);
    for (i = 0; i < kept + last - 1; i++)
        destroy_fn_links(fn[i]);
}

/* Gauge fixing and APE smearing of the links in the sites, without phases, as MILC calls them. */
static void put_links(const su3_matrix *links) {
    size_t i;
    for (i = 0; i < volume; i++)
        memcpy(lattice[i].link, links + 4 * i, 4 * sizeof(su3_matrix));
}
static void try_gauge(int dir, int steps, Real tolerance) {
    su3_matrix *before = create_G_from_site(), *ours, *theirs;
    gaugefix(dir, 1.8, steps, tolerance);
    ours = create_G_from_site();
    put_links(before);
    __real_gaugefix(dir, 1.8, steps, tolerance);
    theirs = create_G_from_site();
    check(links_differ(ours, theirs) < (MILC_PRECISION == 1 ? 1e-4 : 1e-11), "gauge fixing", dir);
    check(links_differ(ours, before) > 0.1, "gauge fixing does nothing", dir);
    free(before), free(ours), free(theirs);
}
static void try_ape(Real weight, int iterations) {
    su3_matrix *ours = ape_smear_4D(weight, iterations), *theirs = __real_ape_smear_4D(weight, iterations);
    check(links_differ(ours, theirs) < (MILC_PRECISION == 1 ? 1e-4 : 1e-11), "APE smearing", iterations);
    destroy_G(ours), destroy_G(theirs);
}
/* dir above TUP: all directions. Other directions stay as they are. */
static void try_ape_of_field(int dir, int space_only, int hits, Real tolerance) {
    su3_matrix *links = create_G_from_site(), *ours = create_G(), *theirs = create_G();
    if (dir > TUP) {
        ape_smear_field(links, ours, 0.3, 1, space_only, hits, tolerance);
        __real_ape_smear_field(links, theirs, 0.3, 1, space_only, hits, tolerance);
    } else {
        ape_smear_field_dir(links, dir, ours, 0.3, 1, space_only, hits, tolerance);
        __real_ape_smear_field_dir(links, dir, theirs, 0.3, 1, space_only, hits, tolerance);
    }
    check(links_differ(ours, theirs) < (MILC_PRECISION == 1 ? 1e-4 : 1e-11), "APE smearing of a field", dir);
    free(links), destroy_G(ours), destroy_G(theirs);
}
static su3_matrix *smeared_sites(void) {
    su3_matrix *copy = create_G();
    size_t i;
    for (i = 0; i < sites_on_node; i++)
        memcpy(copy + 4 * i, lattice[i].old_link, 4 * sizeof(su3_matrix));
    return copy;
}
static void try_ape_of_sites(void) {
    const field_offset from = F_OFFSET(link[0]), to = F_OFFSET(old_link[0]), second = F_OFFSET(old_link[2]);
    su3_matrix *ours, *theirs;
    ape_smear(from, to, 0.3, 1, 1, 30, 1e-5);
    ape_smear_dir(from, XUP, second, 0.5, 1, 1, 150, 1e-5);
    ours = smeared_sites();
    __real_ape_smear(from, to, 0.3, 1, 1, 30, 1e-5);
    __real_ape_smear_dir(from, XUP, second, 0.5, 1, 1, 150, 1e-5);
    theirs = smeared_sites();
    check(links_differ(ours, theirs) < (MILC_PRECISION == 1 ? 1e-4 : 1e-11), "APE smearing of the sites", 0);
    destroy_G(ours), destroy_G(theirs);
}
void gauge_everything(void) {
    fill_gauge_field(200);
    rephase(OFF);
    try_ape(0.3, 2);
    try_ape(0.3, 0);
    try_ape(0.3, -1);
    try_ape(-0.1, 1); /* MILC's own does it */
    try_ape_of_field(TUP, 0, 6, 0);
    try_ape_of_field(TUP + 1, 1, 0, 0);
    try_ape_of_field(YUP, 1, 3, 1e-9); /* so few hits do not converge, which MILC's own reports, too */
    try_ape_of_sites();
    try_gauge(TUP, 500, 2e-6);
    fill_gauge_field(300);
    rephase(OFF);
    try_gauge(8, 25, 0);
    try_gauge(ZUP, 1, 2e-6);
}

/* The second set, where MILC keeps only links of eps_naik 0 and the derivative. */
typedef void (*hisq_maker)(info_t *, fn_links_t **, fn_links_t **, hisq_auxiliary_t **, ks_action_paths_hisq *,
                           su3_matrix *, int, int);
static void make_by(hisq_maker make, fn_links_t **fn, fn_links_t **deps, hisq_auxiliary_t **aux,
                    ks_action_paths_hisq *hisq, su3_matrix *links, int want_deps) {
    info_t info = {0};
    make(&info, fn, deps, aux, hisq, links, want_deps, 1);
    if (SETS(hisq) == 1)
        fn[1] = *deps;
}
static void destroy_sets(ks_action_paths_hisq *hisq, hisq_auxiliary_t *aux, fn_links_t **fn, fn_links_t *deps) {
    destroy_hisq_links_milc(hisq, aux, ALL_SETS(fn), SETS(hisq) == 1 ? fn[1] : deps);
}

/* Links of a program that needs no auxiliary links, then some, then none again. */
void auxiliary(void) {
    ks_action_paths asqtad;
    ks_action_paths_hisq hisq;
    su3_matrix *links;
    int wants;
    fill_gauge_field(600);
    fill_action(&asqtad, &hisq);
    links = create_G_from_site();
    for (wants = 0; wants < 3; wants++) {
        fn_links_t *fn[MAX_NAIK], *deps, *other[MAX_NAIK], *other_deps;
        hisq_auxiliary_t *aux, *other_aux;
        fermion_links_want_aux(wants % 2);
        make_by(create_hisq_links_milc, fn, &deps, &aux, &hisq, links, 0);
        make_by(__real_create_hisq_links_milc, other, &other_deps, &other_aux, &hisq, links, 0);
        check_links(fn[0], other[0]);
        check_links(fn[1], other[1]);
        if (wants > 0) {
            check(links_differ(aux->U_link, links) == 0, "U", wants);
            check(links_differ(aux->V_link, other_aux->V_link) < link_limit, "V", wants);
            check(links_differ(aux->W_unitlink, other_aux->W_unitlink) < link_limit, "W", wants);
        }
        destroy_sets(&hisq, aux, fn, deps);
        destroy_sets(&hisq, other_aux, other, other_deps);
    }
    free(links);
}

/* Links of a program that needs no auxiliary links: on the device alone until MILC reads them. */
typedef struct {
    fn_links_t *fn[MAX_NAIK], *deps;
    hisq_auxiliary_t *aux;
} link_sets;

static void make_sets(link_sets *ours, link_sets *milcs, ks_action_paths_hisq *hisq, unsigned long seed) {
    su3_matrix *links;
    fill_gauge_field(seed);
    links = create_G_from_site();
    make_by(create_hisq_links_milc, ours->fn, &ours->deps, &ours->aux, hisq, links, 0);
    make_by(__real_create_hisq_links_milc, milcs->fn, &milcs->deps, &milcs->aux, hisq, links, 0);
    memset(links, 0, 4 * sites_on_node * sizeof(su3_matrix));
    free(links);
    fill_gauge_field(seed + 1000); /* the sites' links, from which no more are made */
}

static void drop_sets(link_sets *sets, const ks_action_paths_hisq *hisq) {
    ks_action_paths_hisq of_those = *hisq;
    while (of_those.n_naiks > 0 && sets->fn[of_those.n_naiks - 1] == NULL)
        of_those.n_naiks--;
    destroy_sets(&of_those, sets->aux, sets->fn, sets->deps);
}

/* With MILCGPU_TEST=nan an unfilled field holds NaN. */
static int wait(const link_sets *sets) {
    const Real a = sets->fn[0]->fat[5].e[1][2].imag, b = sets->fn[1]->lng[7].e[0][0].real;
    return a != a && b != b;
}

static void solve_with(const link_sets *ours, const link_sets *milcs) {
    su3_vector *src = random_field(801), *x = random_field(802), *y = copy(x);
    const Real mass = 0.3;
    int k;
    for (k = 0; k < 2; k++) {
        quark_invert_control qic = control(EVEN), other = qic;
        ks_congrad_parity_cpu(src, x, &qic, mass, ours->fn[k]);
        __real_ks_congrad_parity_cpu(src, y, &other, mass, milcs->fn[k]);
        check(difference(x, y, 6 * sites_on_node) < allowed(mass), "a solve with them", k);
        dslash_fn_field(src, x, EVENANDODD, ours->fn[k]);
        __real_dslash_fn_field(src, y, EVENANDODD, milcs->fn[k]);
        check(difference(x, y, 6 * sites_on_node) < (MILC_PRECISION == 1 ? 1e-5 : 1e-13), "D with them", k);
    }
    free(src), free(x), free(y);
}

static void check_sets(link_sets *ours, link_sets *milcs) {
    check_links(ours->fn[0], milcs->fn[0]);
    check_links(ours->fn[1], milcs->fn[1]);
}

void waiting(const char *fault) {
    ks_action_paths asqtad;
    ks_action_paths_hisq hisq;
    link_sets ours, milcs, later, milcs_later;
    fermion_links_want_aux(0);
    fill_action(&asqtad, &hisq);
    make_sets(&ours, &milcs, &hisq, 800);
    boundary_twist_fn(ours.fn[0], 1); /* no phase */
    printf("made: they wait %d\n", wait(&ours));
    inject(fault);
    solve_with(&ours, &milcs);
    printf("used: they wait %d\n", wait(&ours));
    check_sets(&ours, &milcs);
    printf("read: they wait %d\n", wait(&ours));
    solve_with(&ours, &milcs);
    drop_sets(&ours, &hisq);
    drop_sets(&milcs, &hisq);
    make_sets(&later, &milcs_later, &hisq, 810); /* the first ones are still unfilled when the next are made */
    make_sets(&ours, &milcs, &hisq, 820);
    check_sets(&later, &milcs_later);
    drop_sets(&later, &hisq);
    drop_sets(&milcs_later, &hisq);
    ours.fn[0]->phase->bdry_phase[TUP] = milcs.fn[0]->phase->bdry_phase[TUP] = 1;
    boundary_twist_fn(ours.fn[0], 1);
    boundary_twist_fn(milcs.fn[0], 1);
    solve_with(&ours, &milcs);
    check_sets(&ours, &milcs);           /* backward links, made only now, are twisted, too */
    ours.fn[0]->phase->r0[TUP] = nt + 2; /* which a line reports */
    boundary_twist_fn(ours.fn[0], 0);
    ours.fn[0]->phase->r0[TUP] = 0;
    boundary_twist_fn(milcs.fn[0], 0);
    check_sets(&ours, &milcs);
    drop_sets(&ours, &hisq);
    drop_sets(&milcs, &hisq);
    make_sets(&ours, &milcs, &hisq, 830);
    destroy_fn_links(ours.fn[1]);
    ours.fn[1] = NULL;
    check_links(ours.fn[0], milcs.fn[0]);
    drop_sets(&ours, &hisq);
    drop_sets(&milcs, &hisq);
    make_sets(&ours, &milcs, &hisq, 840); /* unread */
    drop_sets(&ours, &hisq);
    drop_sets(&milcs, &hisq);
}

#ifdef MILC_HOST_NEWER
/* Unread links outlive other links that were part of a sum. */
static void try_other_than_summed(fermion_links_t *other, su3_vector *src, su3_vector *ours, su3_vector *milcs) {
    fn_links_t *own[MAX_NAIK], *own_deps;
    hisq_auxiliary_t *own_aux;
    su3_matrix *links;
    fill_gauge_field(852);
    restore_fermion_links_from_site(fn_links, MILC_PRECISION);
    fill_gauge_field(853);
    restore_fermion_links_from_site(other, MILC_PRECISION);
    destroy_fn_links(get_fm_links(fn_links, 1));
    invalidate_fermion_links(fn_links);
    links = create_G_from_site();
    make_by(__real_create_hisq_links_milc, own, &own_deps, &own_aux, &other->aph, links, 0);
    free(links);
    dslash_fn_field(src, ours, EVENANDODD, get_fm_links(other, 0));
    __real_dslash_fn_field(src, milcs, EVENANDODD, own[0]);
    check(difference(ours, milcs, 6 * sites_on_node) < (MILC_PRECISION == 1 ? 1e-5 : 1e-13),
          "D of links that are no part of a sum", 0);
    destroy_sets(&other->aph, own_aux, own, own_deps);
    invalidate_fermion_links(other);
}
#endif

/* A sum of links of one eps_naik is in use while other, unread links are destroyed, and then its own. */
void sums_of_links(void) {
#ifdef MILC_HOST_NEWER
    su3_vector *src = random_field(803), *ours = copy(src), *milcs = copy(src);
    int with_aux, when;
    for (with_aux = 0; with_aux < 2; with_aux++) {
        fermion_links_t other;
        fn_links_t *own[MAX_NAIK], *own_deps, *sum;
        hisq_auxiliary_t *own_aux;
        su3_matrix *links;
        size_t k;
        fermion_links_want_aux(with_aux);
        fill_action(&fn_links->ap, &fn_links->aph);
        fn_links->no_aux = !with_aux;
        other = *fn_links;
        fill_gauge_field(850);
        restore_fermion_links_from_site(fn_links, MILC_PRECISION);
        sum = get_fm_links(fn_links, 1); /* of unfilled links */
        links = create_G_from_site();
        make_by(__real_create_hisq_links_milc, own, &own_deps, &own_aux, &fn_links->aph, links, 0);
        free(links);
        __real_dslash_fn_field(src, milcs, EVENANDODD, own[0]);
        __real_dslash_fn_field(src, ours, EVENANDODD, own_deps);
        for (k = 0; k < 6 * sites_on_node; k++)
            ((Real *)milcs)[k] += fn_links->aph.eps_naik[1] * ((Real *)ours)[k];
        destroy_sets(&fn_links->aph, own_aux, own, own_deps);
        for (when = 0; when < 4; when++) {
            if (when == 1) { /* the other links are unfilled */
                destroy_fn_links(sum);
                fill_gauge_field(851);
                restore_fermion_links_from_site(&other, MILC_PRECISION);
                sum = get_fm_links(fn_links, 1);
            } else if (when == 2)
                invalidate_fermion_links(&other);
            else if (when == 3)
                invalidate_fermion_links(fn_links);
            if (sum->fat[0].e[0][0].real != sum->fat[0].e[0][0].real) /* unfilled: it may hold anything */
                memset(sum->fat, 0, 4 * sites_on_node * sizeof(su3_matrix)),
                    memset(sum->lng, 0, 4 * sites_on_node * sizeof(su3_matrix));
            dslash_fn_field(src, ours, EVENANDODD, sum);
            check(difference(ours, milcs, 6 * sites_on_node) < (MILC_PRECISION == 1 ? 1e-5 : 1e-13), "D of a sum",
                  when);
        }
        destroy_fn_links(sum);
        try_other_than_summed(&other, src, ours, milcs);
    }
    free(src), free(ours), free(milcs);
#endif
}

static void hisq_step(ks_action_paths_hisq *hisq, su3_matrix *links, int step, const char *fault) {
    fn_links_t *fn[MAX_NAIK], *deps, *other[MAX_NAIK], *other_deps;
    hisq_auxiliary_t *aux, *other_aux;
    make_by(create_hisq_links_milc, fn, &deps, &aux, hisq, links, 1);
    make_by(__real_create_hisq_links_milc, other, &other_deps, &other_aux, hisq, links, 1);
    check_links(fn[0], other[0]);
    check_links(fn[1], other[1]);
    check_links(deps, other_deps);
    check(fn[0]->eps_naik == 0 && fn[1]->eps_naik == (fn[1] == deps ? 0 : hisq->eps_naik[1]), "eps_naik",
          fn[1]->eps_naik);
    check(links_differ(aux->U_link, links) == 0, "U", 0);
    check(links_differ(aux->V_link, other_aux->V_link) < link_limit, "V", 0);
    check(links_differ(aux->W_unitlink, other_aux->W_unitlink) < link_limit, "W", 0);
    check(aux->WeqY && aux->W_unitlink == aux->Y_unitlink, "W is Y", 0);
    if (step == 0 && milcgpu_plugin_active())
        try_many_sets(links);
    solve_everything(fn[0], fn[1], fault);
    try_measurements(fn[0]);
    destroy_sets(hisq, aux, fn, deps);
    destroy_sets(hisq, other_aux, other, other_deps);
}

static void asqtad_step(ks_action_paths *asqtad, su3_matrix *links, const char *fault) {
    info_t info = {0};
    fn_links_t *fn = create_fn_links(), *other = create_fn_links();
    load_fn_links_cpu(&info, fn, asqtad, links, 1);
    check(info.final_flop == (61632.0 + 1728.0) * volume, "flops of links", info.final_flop);
    __real_load_fn_links_cpu(&info, other, asqtad, links, 1);
    check_links(fn, other);
    try_links_alone(&asqtad->p, links);
    solve_everything(fn, fn, fault);
    try_measurements(fn);
    destroy_fn_links(fn);
    destroy_fn_links(other);
}

/* A short sequence in MILC's order: new gauge links, fat and long links, solves, a boundary twist edited into the
 * links, the next step. */
void in_steps(const char *fault) {
    ks_action_paths asqtad;
    ks_action_paths_hisq hisq;
    int step;
    fill_action(&asqtad, &hisq);
    for (step = 0; step < (strcmp(fault, "sets") == 0 ? 1 : 2); step++) {
        su3_matrix *links;
        fill_gauge_field(100 + step);
        links = create_G_from_site();
        check(memcmp(&links[4 * 5 + 2], &lattice[5].link[2], sizeof(su3_matrix)) == 0, "gauge links from the sites", 0);
        if (step == 1)
            inject(fault);
        if (FERM_ACTION == HISQ)
            hisq_step(&hisq, links, step, fault);
        else
            asqtad_step(&asqtad, links, fault);
        free(links);
    }
}
