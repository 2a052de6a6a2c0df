/* For twin.c: one table of what a program does with its links, fields, momenta and eigenvectors. An operation makes
 * what it needs, or is skipped, and draws from its own seed, so that any operation can be left out of a sequence. */
#define _DEFAULT_SOURCE /* usleep */
#include "../generic_ks/generic_ks_includes.h"
#include "../include/fermion_links.h"
#include "../include/imp_ferm_links.h"
#ifndef MILC_HOST_MASTER
#include "../include/gb_ops.h"
#endif
#include "checks.h"
#include "plugin.h"
#include "test_hooks.h"
#include "twin.h"
#include <math.h>
#include <quark_action.h>
#include <string.h>
#include <unistd.h>

void new_lattice(const char *seed);                                    /* trajectory.c */
double rational(field_offset member, su3_vector **x, su3_vector *sum); /* updates.c */
void site_force(Real eps);                                             /* orders.c */
void __real_dslash_fn_field(su3_vector *, su3_vector *, int, imp_ferm_links_t *);

/* ---- the program's fields ---------------------------------------------------------------------------------------- */

enum { sources = 2, solutions = 2, terms = 3, most_own = 2 };
typedef struct {
    fn_links_t *fn[MAX_NAIK], *deps;
    hisq_auxiliary_t *aux;
    int backward; /* made with backward links, and not edited since */
} own_links;
static struct {
    int begun, without_auxiliary, has_saved, has_x, x_of, was_in_trajectory, mostly;
    su3_vector *source[sources], *solution[solutions];
    su3_vector *x[terms], *sum; /* of rational functions; in a trajectory x may be on the device alone */
    fermion_links_t other;      /* another set beside fn_links */
    fn_links_t *held;           /* links of an eps_naik of fn_links; NULL: none */
    su3_matrix *copy;           /* a copy of the gauge field */
    own_links own[most_own];    /* made from the copy */
} the;

static int always(void) { return the.begun; }
/* Of eigenvectors. */
static struct {
    int there, has_odd;
    fn_links_t of, odd; /* the twin's copies of links */
} eigen, of_file;       /* of_file: of the vectors that were saved */

static int outside(void) { return the.begun && !in_trajectory; }
static int never(void) { return 0; }
static int at_start(void) { return !in_trajectory; }
static int is_hisq(void) { return FERM_ACTION == HISQ; }

static uint64_t key_of(size_t i, size_t k) {
    const site *const s = &lattice[i];
    return k + 128 * (s->x + 64 * (s->y + 64 * (s->z + 64 * (uint64_t)s->t)));
}
static void fill_with_noise(void *first, size_t pitch, uint64_t seed) {
    size_t i, k;
    for (i = 0; i < sites_on_node; i++)
        for (k = 0; k < 6; k++)
            ((Real *)((char *)first + i * pitch))[k] = noise_of(seed + key_of(i, k));
}
static su3_vector *new_field(void) { return (su3_vector *)calloc(sites_on_node, sizeof(su3_vector)); }
/* Noise; noise of signs, whose low words are zero; or a point. */
static su3_vector *new_source(void) {
    su3_vector *f = new_field();
    const int kind = any(4), point = any((int)volume);
    const uint64_t seed = draw();
    size_t i, k;
    fill_with_noise(f, sizeof *f, seed);
    for (i = 0; i < sites_on_node && kind > 0; i++)
        for (k = 0; k < 6; k++) {
            const site *const s = &lattice[i];
            Real *const x = (Real *)&f[i] + k;
            if (kind < 3)
                *x = *x > 0 ? 0.5 : -0.5;
            else
                *x = k == seed % 3 && s->x + nx * (s->y + ny * (s->z + nz * s->t)) == point;
        }
    return f;
}

/* ---- what is compared -------------------------------------------------------------------------------------------- */

/* Rounding, and differences between solves of equal residual. */
static const double exact = MILC_PRECISION == 1 ? 1e-3 : 1e-8, rough = 1e-3;

/* The norm, and a sum with random weights, to which every number contributes. */
static void say_field(const void *first, size_t pitch, size_t reals, int parity, double tolerance) {
    double sums[2] = {0, 0};
    size_t i, k;
    for (i = 0; i < sites_on_node; i++)
        for (k = 0; k < reals && (lattice[i].parity & parity); k++) {
            const double x = ((const Real *)((const char *)first + i * pitch))[k];
            sums[0] += noise_of(key_of(i, k)) * x;
            sums[1] += x * x;
        }
    g_vecdoublesum(sums, 2);
    say(sums[0] / sqrt(sums[1] + 1e-300), tolerance);
    say(sqrt(sums[1]), tolerance);
}
static void say_vector(const su3_vector *f, int parity) { say_field(f, sizeof *f, 6, parity, exact); }
static void say_links(const su3_matrix *links) { say_field(links, 4 * sizeof *links, 72, EVENANDODD, exact); }

/* ---- the gauge field and the momenta ----------------------------------------------------------------------------- */

static void load_gauge(void) {
    char name[16];
    snprintf(name, sizeof name, "%d", any(1000));
    new_lattice(name);
}
static void warm_start(void) {
    reload_lattice(WARM, NULL);
    phases_in = OFF;
    rephase(ON);
    invalidate_fermion_links(fn_links);
}
static void links_updated(void) { update_u(0.05); }
static void gauge_force(void) { imp_gauge_force_ks(0.02, F_OFFSET(mom)); }
static void save_links(void) {
    gauge_field_copy(F_OFFSET(link[0]), F_OFFSET(old_link[0]));
    the.has_saved = 1;
}
static int has_saved(void) { return the.begun && the.has_saved; }
static void reject(void) {
    gauge_field_copy(F_OFFSET(old_link[0]), F_OFFSET(link[0]));
    invalidate_fermion_links(fn_links);
}
static void actions(void) { say(d_action_rhmc(NULL, NULL) / volume, exact); }
static void plaquette(void) {
    double space, time;
    d_plaquette(&space, &time);
    say(space, exact);
    say(time, exact);
}
static void keep_lattice(void) { reload_lattice(CONTINUE, NULL); } /* the next input of a program may say so */
static void polyakov_loop(void) {
    const complex loop = ploop();
    say(loop.real, exact);
    say(loop.imag, exact);
}
static void read_gauge(void) {
    rephase(OFF);
    say_field(lattice[0].link, sizeof(site), 72, EVENANDODD, exact);
    rephase(ON);
}
/* No routine of MILC reads the momenta in the sites, so they are requested. */
static void read_momenta(void) {
    int mu;
    milcgpu_plugin_host_needs(MILCGPU_MOMENTA, "the twin");
    for (mu = 0; mu < 4; mu++) /* without the padding */
        say_field(&lattice[0].mom[mu], sizeof(site), 9, EVENANDODD, exact);
}

/* ---- plain stores, without a notice
 * -------------------------------------------------------------------------------- */

/* A site of the whole lattice and another site of the same rank: any on one rank, else a neighbor, of the same or the
 * other parity. 0: another rank has them. */
static int two_sites(size_t *i, size_t *j) {
    const int s = any((int)volume), x = s % nx, y = s / nx % ny, z = s / nx / ny % nz, t = s / nx / ny / nz;
    const int same_parity = any(2), other = any((int)volume);
    if (node_number(x, y, z, t) != this_node)
        return 0;
    *i = node_index(x, y, z, t);
    *j = one_rank ? (size_t)other : (size_t)node_index(x ^ 1, same_parity ? y ^ 1 : y, z, t);
    return 1;
}
static void exchange(void *a, void *b, size_t bytes) {
    char kept[sizeof(su3_matrix)];
    memcpy(kept, a, bytes);
    memmove(a, b, bytes);
    memcpy(b, kept, bytes);
}
static void edit_links(su3_matrix *first, size_t pitch) {
    size_t i, j, k;
    const int kind = any(4), d = any(4), e = any(4);
    su3_matrix *a, *b;
    if (!two_sites(&i, &j))
        return;
    a = (su3_matrix *)((char *)first + i * pitch), b = (su3_matrix *)((char *)first + j * pitch);
    if (kind == 0)
        exchange(&a[d], &b[d], sizeof *a);
    else if (kind == 1)
        exchange(&a[d], &a[e], sizeof *a);
    else if (kind == 2)
        a[d] = b[e];
    else
        for (k = 0; k < 18; k++)
            ((Real *)&a[d])[k] *= -1;
}
static void edit_vector(su3_vector *f) {
    size_t i, j;
    const int kind = any(4), k = any(6), l = any(6);
    Real *a, *b;
    if (!two_sites(&i, &j))
        return;
    a = (Real *)&f[i], b = (Real *)&f[j];
    if (kind == 0)
        exchange(a, b, 6 * sizeof *a);
    else if (kind == 1)
        exchange(&a[k], &a[l], sizeof *a);
    else if (kind == 2)
        a[k] *= -1;
    else
        a[k] = b[l] + 0.25;
}
static void give_sum_back(void);
/* Fetches the newest fields first. Links that a trajectory has made must be filled: if a routine of MILC writes the
 * gauge field, the glue fills them; a plain store would end the run with a message. */
static void write_gauge(void) {
    fermion_links_t *const all[2] = {fn_links, &the.other};
    int k;
    for (k = 0; k < 2 && the.was_in_trajectory; k++)
        if (all[k]->fn[0] != NULL)
            get_fatlinks(LINKS_OF(all[k], 0));
    give_sum_back();
    rephase(OFF);
    rephase(ON);
    edit_links(lattice[0].link, sizeof(site));
}
static void write_momenta(void) {
    size_t i, j;
    milcgpu_plugin_host_needs(MILCGPU_MOMENTA, "the twin");
    if (two_sites(&i, &j))
        exchange(&lattice[i].mom[1], &lattice[j].mom[2], sizeof lattice[i].mom[1]);
}
static void write_member(void) {
    size_t i, j;
    if (two_sites(&i, &j))
        exchange(&lattice[i].phi, &lattice[j].phi, sizeof lattice[i].phi);
}

/* ---- fermion links ----------------------------------------------------------------------------------------------- */

static su3_vector *a_source(void);
static void say_dslash(su3_vector *src, int parity, fn_links_t *fn);
static fermion_links_t *one_of_two(void) { return any(2) ? fn_links : &the.other; }

/* Existing links, or those of fn_links, which are made if there are none. Then give_back(). In some sequences mostly
 * the same links: an error in deferring shows only if the same links are changed, used and read. */
static fn_links_t *take_links(int *taken) {
    const int drawn = (int)(draw() % 1024), mostly = any(4) != 0 && the.mostly >= 0;
    const int which = mostly ? the.mostly : drawn;
    const int choice = which % 8, k = which / 8 % most_own, set = is_hisq() ? which / 16 % 2 : 0;
    fermion_links_t *fl = which / 32 % 2 ? fn_links : &the.other;
    *taken = 0;
    if (choice <= 2 && the.held != NULL)
        return the.held;
    if (choice <= 4 && the.own[k].fn[0] != NULL)
        return the.own[k].fn[SETS(&fn_links->aph) > 1 ? set : 0];
    *taken = 1;
    if (fl->fn[0] == NULL)
        restore_fermion_links_from_site(fl = fn_links, MILC_PRECISION);
    return LINKS_OF(fl, set);
}
static void give_back(fn_links_t *fn, int taken) {
    if (taken)
        GIVE_BACK(fn);
}

static void make_links(void) { restore_fermion_links_from_site(one_of_two(), MILC_PRECISION); }
static void drop_links(void) { invalidate_fermion_links(one_of_two()); }
static void give_sum_back(void) {
    if (the.held != NULL)
        GIVE_BACK(the.held);
    the.held = NULL;
}
static void hold_sum(void) {
#ifdef MILC_HOST_NEWER
    if (is_hisq()) {
        give_sum_back();
        if (fn_links->fn[0] == NULL)
            restore_fermion_links_from_site(fn_links, MILC_PRECISION);
        the.held = get_fm_links(fn_links, 1);
    }
#endif
}
static void say_both(fn_links_t *fn) {
    say_links(get_fatlinks(fn));
    say_links(get_lnglinks(fn));
}
static void read_links(void) {
    int taken;
    fn_links_t *fn = take_links(&taken);
    say_both(fn);
    give_back(fn, taken);
}
static void write_links(void) {
    int taken, k;
    fn_links_t *fn = take_links(&taken);
    edit_links(any(2) ? get_fatlinks(fn) : get_lnglinks(fn), 4 * sizeof(su3_matrix));
    for (k = 0; k < most_own; k++)
        the.own[k].backward = the.own[k].backward && fn != the.own[k].fn[0];
    give_back(fn, taken);
}
static void twist(void) {
    int taken;
    fn_links_t *fn = take_links(&taken);
    fn->phase->bdry_phase[TUP] = any(4) != 0;
    boundary_twist_fn(fn, any(2));
    give_back(fn, taken);
}
/* A quark with a momentum that the lattice does not have: its links are twisted, used, and twisted back. */
static void momentum_twist(void) {
    const int mu = any(3);
    int taken;
    fn_links_t *fn = take_links(&taken);
    fn->phase->bdry_phase[TUP] = any(2);
    fn->phase->bdry_phase[mu] = 0.3;
    boundary_twist_fn(fn, ON);
    say_dslash(a_source(), EVENANDODD, fn);
    boundary_twist_fn(fn, OFF);
    fn->phase->bdry_phase[mu] = 0;
    give_back(fn, taken);
}
static void read_backward_links(void) {
    fn_links_t *fn;
    int k;
    for (k = 0; k < most_own; k++)
        if (the.own[k].backward) {
            fn = the.own[k].fn[0];
            say_links(get_fatbacklinks(fn));
            say_links(get_lngbacklinks(fn));
        }
}
static void copy_gauge(void) {
    free(the.copy);
    the.copy = create_G_from_site();
}
static su3_matrix *a_copy(void) {
    if (the.copy == NULL)
        copy_gauge();
    return the.copy;
}
static void write_copy(void) { edit_links(a_copy(), 4 * sizeof(su3_matrix)); }
static void destroy_own(own_links *own) {
    if (own->fn[0] == NULL)
        return;
    if (is_hisq())
        destroy_hisq_links_milc(&fn_links->aph, own->aux, ALL_SETS(own->fn), own->deps);
    else
        destroy_fn_links(own->fn[0]);
    memset(own, 0, sizeof *own);
}
static void make_own_links(void) {
    own_links *const own = &the.own[any(most_own)];
    const int back = any(2);
    info_t info = {0};
    destroy_own(own);
    own->backward = back;
    if (!is_hisq()) {
        own->fn[0] = create_fn_links();
        load_fn_links_cpu(&info, own->fn[0], &fn_links->ap, a_copy(), back);
        return;
    }
    create_hisq_links_milc(&info, own->fn, &own->deps, &own->aux, &fn_links->aph, a_copy(), 0, back);
    if (the.without_auxiliary) {
        destroy_hisq_auxiliary_t(own->aux);
        own->aux = NULL;
    }
}
static void drop_own_links(void) { destroy_own(&the.own[any(most_own)]); }
static void fat_or_long_alone(void) {
    su3_matrix *made = create_G();
    info_t info = {0};
    (any(2) ? load_fatlinks_cpu : load_lnglinks)(&info, made, &fn_links->ap.p, a_copy());
    say_links(made);
    destroy_G(made);
}
static int has_auxiliary(void) { return the.begun && is_hisq() && !the.without_auxiliary; }
static void read_auxiliary(void) {
    fermion_links_t *const fl = one_of_two();
    hisq_auxiliary_t *aux;
    restore_fermion_links_from_site(fl, MILC_PRECISION);
    aux = get_hisq_auxiliary(fl);
    say_links(aux->U_link);
    say_links(aux->V_link);
    say_links(aux->W_unitlink);
}

/* ---- solves and D ------------------------------------------------------------------------------------------------ */

static const Real masses[3] = {0.25, 0.3, 0.5};
static quark_invert_control asked(int parity) {
    quark_invert_control qic = control(parity);
    qic.resid = MILC_PRECISION == 1 ? 1e-5 : 1e-11;
    return qic;
}
static int one_parity(void) { return any(2) ? EVEN : ODD; }
static su3_vector *a_source(void) {
    su3_vector **const f = &the.source[any(sources)], *made = *f == NULL ? new_source() : NULL;
    return made != NULL ? *f = made : *f;
}
static su3_vector *a_solution(void) {
    su3_vector **const f = &the.solution[any(solutions)];
    return *f != NULL ? *f : (*f = new_field());
}
static void write_source(void) {
    su3_vector *src = a_source();
    if (!is_twin || getenv("MILC_TWIN_FAULT") == NULL)
        edit_vector(src);
}
/* MILC draws a source where an earlier one was. */
static void draw_source(void) {
    su3_vector *src = a_source();
    (any(2) ? z2rsource_plain_field : grsource_plain_field)(src, EVENANDODD);
    say_vector(src, EVENANDODD);
}
static void free_fields(void) {
    const int k = any(sources), l = any(solutions);
    free(the.source[k]), free(the.solution[l]);
    the.source[k] = the.solution[l] = NULL;
}
static void solve(void) {
    int taken;
    fn_links_t *fn = take_links(&taken);
    su3_vector *src = a_source(), *x = a_solution();
    quark_invert_control qic = asked(one_parity());
    ks_congrad_parity_cpu(src, x, &qic, masses[any(3)], fn);
    say_vector(x, qic.parity);
    give_back(fn, taken);
}
static void solve_block(void) {
    int taken, k;
    fn_links_t *fn = take_links(&taken);
    su3_vector *src[2] = {new_source(), new_source()}, *x[2] = {new_field(), new_field()};
    quark_invert_control qic = asked(one_parity());
    ks_congrad_block_parity_cpu(2, src, x, &qic, masses[any(3)], fn);
    for (k = 0; k < 2; k++) {
        say_vector(x[k], qic.parity);
        free(src[k]), free(x[k]);
    }
    give_back(fn, taken);
}
/* One iteration and no restart: nothing converges, and both solutions are thrown away. */
static void solve_in_vain(void) {
    int taken;
    fn_links_t *fn = take_links(&taken);
    su3_vector *x = new_field();
    quark_invert_control qic = asked(one_parity());
    qic.max = qic.nrestart = 1;
    ks_congrad_parity_cpu(a_source(), x, &qic, masses[any(3)], fn);
    free(x);
    give_back(fn, taken);
}
/* The host has the links, too, and there is no odd part, which may hold links: a bit that flips in the only copy ends
 * the run. */
static void solve_with_flip(void) {
    int taken;
    fn_links_t *fn = take_links(&taken);
    su3_vector *x = new_field();
    quark_invert_control qic = asked(one_parity());
    say_both(fn);
    if (!is_twin && !eigen.has_odd)
        milcgpu_plugin_inject_fault(MILCGPU_FAULT_FLIP_LINKS);
    ks_congrad_parity_cpu(a_source(), x, &qic, masses[any(3)], fn);
    if (!is_twin)
        milcgpu_plugin_inject_fault(MILCGPU_FAULT_NONE);
    say_vector(x, qic.parity);
    free(x);
    give_back(fn, taken);
}
static void solve_masses(void) {
    int taken, k;
    fn_links_t *fn = take_links(&taken);
    su3_vector *src = a_source(), *x[3];
    const int parity = one_parity();
    ks_param ksp[3];
    quark_invert_control qic[3];
    memset(ksp, 0, sizeof ksp);
    for (k = 0; k < 3; k++) {
        x[k] = new_field();
        ksp[k].offset = 4 * masses[k] * masses[k];
        qic[k] = asked(parity);
    }
    ks_multicg_offset_field_cpu(src, x, ksp, 3, qic, fn);
    for (k = 0; k < 3; k++) {
        say_vector(x[k], parity);
        free(x[k]);
    }
    give_back(fn, taken);
}
static void solve_sites(void) {
    int taken;
    fn_links_t *fn = take_links(&taken);
    quark_invert_control qic = asked(EVENANDODD);
    ks_congrad_site(F_OFFSET(phi), F_OFFSET(xxx), &qic, masses[any(3)], fn);
    say_field(&lattice[0].xxx, sizeof(site), 6, EVENANDODD, exact);
    give_back(fn, taken);
}
#ifdef MILC_HOST_MASTER
static void invert(void) {}
#else
static void invert(void) {
    const enum inv_type types[3] = {UMLTYPE, CGTYPE, CGZTYPE};
    int taken;
    fn_links_t *fn = take_links(&taken);
    su3_vector *src = a_source(), *x = a_solution();
    quark_invert_control qic = asked(EVENANDODD);
    qic.inv_type = types[any(3)];
    qic.deflate = any(2) && !is_twin; /* the solution is the same */
    mat_invert_field(src, x, &qic, masses[any(3)], fn);
    say_vector(x, EVENANDODD);
    give_back(fn, taken);
}
#endif
static void invert_block(void) {
    int taken, k;
    fn_links_t *fn = take_links(&taken);
    su3_vector *src[2] = {the.source[0] != NULL ? the.source[0] : new_source(), new_source()},
               *x[2] = {new_field(), new_field()};
    quark_invert_control qic = asked(EVENANDODD);
    the.source[0] = src[0];
    qic.inv_type = UMLTYPE;
    MAT_INVERT_BLOCK(src, x, masses[any(3)], 2, &qic, fn);
    for (k = 0; k < 2; k++) {
        say_vector(x[k], EVENANDODD);
        free(x[k]);
    }
    free(src[1]);
    give_back(fn, taken);
}
static void invert_masses(void) {
    int taken, k;
    fn_links_t *fn = take_links(&taken), *all[3] = {fn, fn, fn};
    su3_vector *src = a_source(), *x[3];
    ks_param ksp[3];
    quark_invert_control qic[3];
    memset(ksp, 0, sizeof ksp);
    for (k = 0; k < 3; k++) {
        x[k] = new_field();
        ksp[k].mass = masses[k];
        qic[k] = asked(EVENANDODD);
        qic[k].inv_type = UMLTYPE;
    }
    mat_invert_multi(src, x, ksp, 3, qic, FIRST_AS_MULTI(all));
    for (k = 0; k < 3; k++) {
        say_vector(x[k], EVENANDODD);
        free(x[k]);
    }
    give_back(fn, taken);
}
static void say_dslash(su3_vector *src, int parity, fn_links_t *fn) {
    su3_vector *x = new_field();
    dslash_fn_field(src, x, parity, fn);
    say_vector(x, EVENANDODD);
    free(x);
}
static void apply_d(void) {
    const int parities[3] = {EVEN, ODD, EVENANDODD};
    int taken;
    fn_links_t *fn = take_links(&taken);
    su3_vector *src = a_source();
    say_dslash(src, parities[any(3)], fn);
    give_back(fn, taken);
}
/* A source of signs, two of whose sites change places before each use: a poor hash does not see all of these edits. */
static void exchanged_sites(void) {
    int taken, n;
    fn_links_t *fn = take_links(&taken);
    su3_vector *src = new_field();
    const uint64_t seed = draw();
    size_t i, j;
    for (i = 0; i < sites_on_node; i++)
        for (j = 0; j < 6; j++)
            ((Real *)&src[i])[j] = noise_of(seed + key_of(i, j)) > 0 ? 0.5 : -0.5;
    for (n = 0; n < 32; n++) {
        su3_vector *x = copy(src);
        ks_dirac_adj_op_inplace(x, 0.3, EVENANDODD, fn);
        say_vector(x, EVENANDODD);
        free(x);
        if (two_sites(&i, &j))
            exchange(&src[i], &src[j], sizeof *src);
    }
    free(src);
    give_back(fn, taken);
}
static void adjoint(void) {
    int taken;
    fn_links_t *fn = take_links(&taken);
    su3_vector *x = copy(a_source());
    ks_dirac_adj_op_inplace(x, 0.3, EVENANDODD, fn);
    say_vector(x, EVENANDODD);
    free(x);
    give_back(fn, taken);
}

/* The next allocations on a device fail, on every rank or on one. */
static void short_of_memory(void) {
    const int whose = any(2 * ranks), how_many = 1 + any(2);
    if (!is_twin && (whose >= ranks || whose == this_node))
        milcgpu_plugin_fail_allocations(how_many);
}

/* ---- measurements, on lattices with more than two sites in each direction
 * ------------------------------------------ */

#ifndef MILC_HOST_MASTER
static int measures(void) { return outside() && nx > 2; }
static int has_ape_links(void) { return measures() && ape_links != NULL; }
static void drop_ape_links(void) {
    free(ape_links);
    ape_links = NULL;
}
static void make_ape_links(void) {
    drop_ape_links();
    rephase(OFF);
    ape_links = any(2) ? create_G_from_site() : ape_smear_4D(0.3, 1);
    rephase(ON);
    ape_links_ks_phases = OFF;
    refresh_ape_links = 1;
}
static void write_ape_links(void) { edit_links(ape_links, 4 * sizeof(su3_matrix)); }
static void fix_gauge(void) {
    invalidate_fermion_links(fn_links);
    rephase(OFF);
    gaugefix(TUP, 1.5, 3, 0);
    rephase(ON);
}
static int the_origin[4] = {1, 0, 2, 3};
static void spin_taste(void) { /* one to four links, local, currents of both kinds of links */
    const int operators[] = {128 + 15, 128 + 16 * 4 + 3, 128 + 16 * 15 + 7, 128 + 16 * 15 + 4, 128, 26, 41, 42};
    const int index = operators[any(8)];
    int taken;
    fn_links_t *fn = take_links(&taken);
    su3_vector *src = a_source(), *x = new_field();
    spin_taste_op_ape_fn(fn, index, the_origin, x, src);
    say_vector(x, EVENANDODD);
    free(x);
    give_back(fn, taken);
}
static void shift(void) {
    const int dir = any(4), way = any(3);
    su3_vector *src = a_source(), *x = new_field();
    shift_field(dir, (enum shift_dir)way, x, src, ape_links, &refresh_ape_links);
    say_vector(x, EVENANDODD);
    free(x);
}
static void smear(void) {
    const int slice = any(3) - 1;
    su3_vector *x = copy(a_source());
    if (any(2))
        gauss_smear_v_field(x, ape_links, 1.5, 2, slice);
    else
        laplacian_v_field(x, ape_links, slice);
    say_vector(x, EVENANDODD);
    free(x);
}
static void contract(void) {
    const int operators[] = {128, 128 + 4 * 17, 128 + 16 * 3 + 7, 34, 27, 44};
    int momentum[3] = {1, 0, -1}, *momenta[1] = {momentum}, table[1] = {0}, *tables[1] = {table}, how_many[1] = {1};
    int p_index[1] = {0}, sink[1] = {operators[any(6)]}, phase[1] = {1}, index[1] = {0}, t, taken;
    char parity[3] = {EVEN, EVENANDODD, EVEN}, *parities[1] = {parity};
    Real factor[1] = {0.5};
    fn_links_t *fn = take_links(&taken);
    su3_vector *a = a_source(), *b = a_source();
    complex *rows[1] = {(complex *)calloc(nt, sizeof(complex))};
    ks_meson_cont_mom(rows, a, b, 1, momenta, parities, 1, how_many, tables, p_index, fn, fn, sink, phase, factor, 1,
                      index, the_origin);
    for (t = 0; t < nt; t++) {
        say(rows[0][t].real, exact);
        say(rows[0][t].imag, exact);
    }
    free(rows[0]);
    give_back(fn, taken);
}

/* ---- baryons. MILC's cache has quarks as they were when it was made; without it MILC reads them when it ties them up.
 * Only correlators that MILC's cache has. */

enum { corners = 8, slots = 3, most_rows = 3 };
static struct {
    ks_prop_field *quark[corners];
    int turned[slots], is_cached[slots];
} octets; /* corner s of slot f is quark s + turned[f] */

static ks_prop_field *a_quark(int k) {
    int c;
    k %= corners;
    if (octets.quark[k] == NULL) {
        octets.quark[k] = create_ksp_field(3);
        for (c = 0; c < 3; c++)
            fill_with_noise(octets.quark[k]->v[c], sizeof(su3_vector), draw());
    }
    return octets.quark[k];
}
static void drop_quark(int k) {
    int c;
    if (octets.quark[k] == NULL)
        return;
    for (c = 0; c < 3; c++) {
        memset(octets.quark[k]->v[c], 0xff, sites_on_node * sizeof(su3_vector));
        free(octets.quark[k]->v[c]);
    }
    free(octets.quark[k]->v);
    free(octets.quark[k]);
    octets.quark[k] = NULL;
}
static void octet_of(int f, ks_prop_field **quarks) {
    int s;
    for (s = 0; s < corners; s++)
        quarks[s] = a_quark(s + octets.turned[f]);
}
static void drop_cache(int f) {
    int g, others = 0;
    for (g = 0; g < slots; g++)
        others += g != f && octets.is_cached[g] && get_qk_cache_pointer(g) == get_qk_cache_pointer(f);
    if (octets.is_cached[f] && others == 0)
        destroy_qk_oct_cache(f);
    octets.is_cached[f] = 0;
}
static void cache_octet(void) {
    const int f = any(slots), g = any(slots);
    ks_prop_field *quarks[corners];
    drop_cache(f);
    octets.turned[f] = 3 * any(2);
    if (octets.is_cached[g] && any(2)) {
        assign_qk_cache_pointer(get_qk_cache_pointer(g), f);
        octets.turned[f] = octets.turned[g];
    } else {
        octet_of(f, quarks);
        create_qk_oct_cache(quarks, f, the_origin, NULL);
    }
    octets.is_cached[f] = 1;
}
static int has_octets(void) { return outside() && octets.is_cached[0] && octets.is_cached[1] && octets.is_cached[2]; }
static void write_quark(void) { edit_vector(a_quark(any(corners))->v[any(3)]); }
static void renew_quark(void) { drop_quark(any(corners)); }
static void drop_octets(void) {
    int k;
    for (k = 0; k < slots; k++)
        drop_cache(k);
    for (k = 0; k < corners; k++)
        drop_quark(k);
}
static void say_rows(complex **rows, int n) {
    int k, t;
    for (k = 0; k < n; k++) {
        for (t = 0; t < nt; t++) {
            double sums[2] = {rows[k][t].real, rows[k][t].imag};
            g_vecdoublesum(sums, 2);
            say(sums[0], exact);
            say(sums[1], exact);
        }
        free(rows[k]);
    }
}
static void tie_octets(void) {
    const enum gb_baryon_op all[] = {GB_16U_M_I1_C4_2, GB_16U_M_I1_C4_1, GB_8P_S_C7, GB_8P_S_C4,
                                     GB_16D_M_I1_C7,   GB_8_A_C4,        GB_8_A_C7};
    ks_prop_field *quarks[slots][corners];
    enum gb_baryon_op from[most_rows], to[most_rows];
    short walls[most_rows], cubes[most_rows] = {0};
    int momentum[3] = {0, 0, 0}, flips[most_rows], phases[most_rows];
    char parities[3] = {EVENANDODD, ODD, EVENANDODD};
    Real factors[most_rows];
    complex *rows[most_rows];
    const int n = 1 + any(most_rows), is_wall = any(2), current = any(2) ? 128 : GB_2POINT_BACKPROP;
    int k;
    for (k = 0; k < slots; k++)
        octet_of(k, quarks[k]);
    for (k = 0; k < n; k++) {
        from[k] = all[any(7)], to[k] = all[any(7)];
        walls[k] = is_wall, flips[k] = is_wall && any(2);
        phases[k] = any(4), factors[k] = 0.01 * (1 + any(3));
        rows[k] = (complex *)calloc(nt, sizeof(complex));
    }
    momentum[0] = is_wall ? 0 : any(2), momentum[1] = momentum[0];
    gb_baryon(quarks[0], quarks[1], quarks[2], NULL, from, to, current, walls, cubes, 1, 1, the_origin, momentum,
              parities, NULL, flips, n, phases, factors, rows);
    say_rows(rows, n);
}
static void nucleon_and_delta(void) {
    int types[2] = {0, 1}, phases[2] = {any(4), any(4)};
    Real factors[2] = {0.5, -0.25};
    complex *rows[2] = {(complex *)calloc(nt, sizeof(complex)), (complex *)calloc(nt, sizeof(complex))};
    ks_baryon_nd(rows, a_quark(any(corners)), a_quark(any(corners)), a_quark(any(corners)), 2, types, phases, factors);
    say_rows(rows, 2);
}
#else
static void drop_ape_links(void) {}
static void drop_octets(void) {}
#endif

/* ---- rational functions and forces ------------------------------------------------------------------------------- */

static void rational_of(int member) {
    rational(member ? F_OFFSET(phi) : F_OFFSET(g_rand), the.x, the.sum);
    say_vector(the.sum, EVEN);
    the.has_x = 1, the.x_of = member;
}
static void rational_function(void) { rational_of(any(2)); }
/* MILC's forces need links of the current gauge field. */
static void make_links_of_now(void) {
    invalidate_fermion_links(fn_links);
    restore_fermion_links_from_site(fn_links, MILC_PRECISION);
}
static int can_force(void) { return the.begun && (has_auxiliary() || !is_hisq()); }
static void d_of_solution(int t) {
    fn_links_t *fn = LINKS_OF(fn_links, is_hisq() && t == terms - 1);
    dslash_fn_field(the.x[t], the.x[t], ODD, fn);
    GIVE_BACK(fn);
}
static void force(void) {
    Real residues[terms] = {1, -0.3, 1.5};
    const int some = any(terms);
    int t = any(4) == 0 ? any(terms) : 0, k;
    if (!the.has_x || some > 0)
        rational_function();
    make_links_of_now();
    for (k = 0; k < some; k++)
        d_of_solution(t++ % terms);
    if (some > 0) /* other solutions; the next D is of one whose D was not requested before */
        rational_of(1 - the.x_of);
    for (k = 0; k < terms; k++)
        d_of_solution(t++ % terms);
    eo_fermion_force_multi(0.02, residues, the.x, terms, MILC_PRECISION, fn_links);
}
static void force_of_sites(void) {
    make_links_of_now();
    site_force(0.02);
}
static void both_forces(void) { update_h(0.02); }

/* ---- eigenvectors -------------------------------------------------------------------------------------------------
 * The solver chooses their phases, so the twin takes the library's vectors when they are read. It checks that they are
 * eigenvectors of the links of their eigensolve, and computes the part on odd sites with these links. */

handed_over *published;

static void keep_links(fn_links_t *to, fn_links_t *from) {
    const size_t bytes = 4 * sites_on_node * sizeof(su3_matrix);
    if (!is_twin)
        return;
    to->fat = (su3_matrix *)realloc(to->fat, bytes);
    to->lng = (su3_matrix *)realloc(to->lng, bytes);
    memcpy(to->fat, get_fatlinks(from), bytes);
    memcpy(to->lng, get_lnglinks(from), bytes);
}
static void allocate_vectors(void) {
    int k;
    if (eigVec == NULL) {
        eigVec = (su3_vector **)malloc(vectors * sizeof *eigVec);
        eigVal = (eigenvalue *)malloc(vectors * sizeof *eigVal);
        for (k = 0; k < vectors; k++)
            eigVec[k] = new_field();
    }
    param.eigen_param = (ks_eigen_param){vectors, 0, MILC_PRECISION == 1 ? 1e-8 : 1e-10, 0.3, 100, 10, 20, EVEN};
}
static void free_vectors(void) {
    int k;
    for (k = 0; eigVec != NULL && k < vectors; k++)
        free(eigVec[k]);
    free(eigVec), free(eigVal);
    eigVec = NULL, eigVal = NULL;
    param.eigen_param.Nvecs = 0;
    eigen.there = eigen.has_odd = 0;
}
static void eigensolve(void) {
    const int afresh = any(2) || eigVec == NULL; /* MILC's programs always begin with 1 */
    int k, n = vectors;
    size_t i;
    fn_links_t *fn;
    restore_fermion_links_from_site(fn_links, MILC_PRECISION);
    allocate_vectors();
    if (afresh)
        reload_ks_eigen(FRESH, NULL, &n, eigVal, eigVec, NULL, 1);
    fn = LINKS_OF(fn_links, 0);
    keep_links(&eigen.of, fn);
    GIVE_BACK(fn);
    eigen.there = 1, eigen.has_odd = 0;
    milcgpu_plugin_inject_fault(MILCGPU_FAULT_NONE); /* the original takes a second */
    if (!is_twin)
        ks_eigensolve_Kalkreuter_Ritz(eigVec, eigVal, &param.eigen_param, 1);
    for (i = 0; is_twin && i < even_sites_on_node; i++) /* for start vectors */
        for (k = 0; k < 3 * vectors; k++)
            complex_gaussian_rand_no(&lattice[i].site_prn);
}
static void odd_part(void) {
    int taken;
    fn_links_t *fn;
    if (!eigen.there)
        eigensolve();
    fn = take_links(&taken);
    keep_links(&eigen.odd, fn);
    if (!is_twin)
        CONSTRUCT_OTHER(eigVec, eigVal, &param.eigen_param, fn);
    eigen.has_odd = 1;
    give_back(fn, taken);
}

static double *numbers_of(int k, size_t i) {
    const site *const s = &lattice[i];
    return published->vector[k][s->x + nx * (s->y + ny * (s->z + nz * s->t))];
}
static void publish(void) { /* each rank writes its sites */
    size_t i, c;
    int k;
    while (__atomic_load_n(&published->taken, __ATOMIC_ACQUIRE) < published->step)
        usleep(20);
    wait_for_all_ranks();
    for (k = 0; k < vectors; k++) {
        published->value[k] = eigVal[k];
        for (i = 0; i < even_sites_on_node; i++)
            for (c = 0; c < 6; c++)
                numbers_of(k, i)[c] = ((const Real *)&eigVec[k][i])[c];
    }
    wait_for_all_ranks();
    __atomic_store_n(&published->step, this_step, __ATOMIC_RELEASE);
    for (k = 0; k < vectors; k++)
        say(1, 0);
}
static double norm(const su3_vector *f, int parity) {
    const Real *const x = (const Real *)(f + (parity == ODD ? even_sites_on_node : 0));
    double sum = 0;
    size_t k;
    for (k = 0; k < 6 * even_sites_on_node; k++)
        sum += x[k] * x[k];
    return sqrt(sum);
}
static void take_published(void) {
    su3_vector *d = new_field();
    size_t i, c;
    int k;
    while (__atomic_load_n(&published->step, __ATOMIC_ACQUIRE) < this_step)
        usleep(20);
    for (k = 0; k < vectors; k++) {
        Real *const v = (Real *)eigVec[k], *const dd = (Real *)d;
        const size_t half = 6 * even_sites_on_node;
        double size;
        eigVal[k] = published->value[k];
        for (i = 0; i < even_sites_on_node; i++)
            for (c = 0; c < 6; c++)
                v[6 * i + c] = numbers_of(k, i)[c];
        __real_dslash_fn_field(eigVec[k], d, ODD, &eigen.of);
        __real_dslash_fn_field(d, d, EVEN, &eigen.of);
        for (c = 0; c < half; c++)
            dd[c] += eigVal[k] * v[c];
        say(norm(d, EVEN) < 1e-3 && fabs(norm(eigVec[k], EVEN) - 1) < 1e-3, 0);
        __real_dslash_fn_field(eigVec[k], eigVec[k], ODD, &eigen.odd);
        size = norm(eigVec[k], ODD);
        for (c = half; c < 2 * half; c++)
            v[c] /= size;
    }
    __atomic_store_n(&published->taken, this_step, __ATOMIC_RELEASE);
    free(d);
}
static void read_vectors(void) {
    double chirality;
    int k;
    if (!eigen.has_odd)
        odd_part();
    if (is_twin)
        take_published();
    else {
        measure_chirality(eigVec[0], &chirality, EVEN);
        publish();
    }
    for (k = 0; k < vectors; k++)
        say_field(eigVec[k], sizeof *eigVec[k], 6, EVENANDODD, rough);
}

static void save_vectors(void) {
    static eigen_residual residuals[vectors];
    read_vectors();
    save_ks_eigen(SAVE_SERIAL, NULL, vectors, eigVal, eigVec, residuals, 1);
    keep_links(&of_file.of, &eigen.of);
    keep_links(&of_file.odd, &eigen.odd);
    of_file.there = 1;
}
static int has_saved_vectors(void) { return outside() && of_file.there; }
static void reload_vectors(void) {
    int n = vectors;
    fn_links_t *fn;
    restore_fermion_links_from_site(fn_links, MILC_PRECISION);
    allocate_vectors();
    fn = LINKS_OF(fn_links, 0);
    reload_ks_eigen(RELOAD_SERIAL, NULL, &n, eigVal, eigVec, fn, 1);
    GIVE_BACK(fn);
    keep_links(&eigen.of, &of_file.of);
    keep_links(&eigen.odd, &of_file.odd);
    eigen.there = eigen.has_odd = 1;
}

/* ---- a sequence -------------------------------------------------------------------------------------------------- */

/* Reads everything that exists, because the sequence itself may not have read it. */
static void read_all(void) {
    fermion_links_t *const links[2] = {fn_links, &the.other};
    const int sets = is_hisq() ? 2 : 1;
    int k, set;
    for (k = 0; k < sources; k++)
        if (the.source[k] != NULL && fn_links->fn[0] != NULL) {
            fn_links_t *const fn = LINKS_OF(fn_links, 0);
            say_dslash(the.source[k], EVENANDODD, fn);
            GIVE_BACK(fn);
        }
    if (eigen.has_odd)
        read_vectors();
    for (k = 0; k < 2; k++)
        for (set = 0; set < sets && links[k]->fn[0] != NULL; set++) {
            fn_links_t *const fn = LINKS_OF(links[k], set);
            say_both(fn);
            GIVE_BACK(fn);
        }
    if (the.held != NULL)
        say_both(the.held);
    for (k = 0; k < most_own; k++)
        if (the.own[k].fn[0] != NULL)
            say_both(the.own[k].fn[0]);
    read_gauge();
    read_momenta();
}
/* Frees everything; the library may keep what it likes. */
static void begin(void) {
    size_t i;
    int k;
    if (the.begun && any(4))
        read_all();
    give_sum_back();
    for (k = 0; k < most_own; k++)
        destroy_own(&the.own[k]);
    invalidate_fermion_links(fn_links);
    invalidate_fermion_links(&the.other);
    for (k = 0; k < sources; k++)
        free(the.source[k]), the.source[k] = NULL;
    for (k = 0; k < solutions; k++)
        free(the.solution[k]), the.solution[k] = NULL;
    free(the.copy);
    the.copy = NULL;
    drop_ape_links();
    drop_octets();
    free_vectors();
    of_file.there = 0;
    the.has_saved = the.has_x = the.was_in_trajectory = 0;
    the.begun = 1;
    the.mostly = any(3) != 0 ? any(1024) : -1;
    for (i = 0; i < sites_on_node; i++)
        lattice[i].site_prn.state = key_of(i, 0);
    fill_with_noise(&lattice[0].phi, sizeof(site), 1);
    fill_with_noise(&lattice[0].g_rand, sizeof(site), 2);
    fill_with_noise(&lattice[0].xxx, sizeof(site), 3);
    load_gauge();
    ranmom();
}
static void without_auxiliary_links(void) {
    the.without_auxiliary = fn_links->no_aux = the.other.no_aux = 1;
    fermion_links_want_aux(0);
}

/* Only paths of one link and of three: which copy is the newest does not depend on the paths, and MILC's own sums of
 * the longer paths take most of the time. */
static void short_paths(ks_component_paths *paths) {
    asqtad_coeffs_t *const c = &paths->act_path_coeff;
    c->five_staple = c->seven_staple = c->lepage = 0;
}
void begin_program(void) {
    int k;
    fill_action(&fn_links->ap, &fn_links->aph);
    short_paths(&fn_links->ap.p), short_paths(&fn_links->aph.p1), short_paths(&fn_links->aph.p2);
    the.other = *fn_links;
    for (k = 0; k < terms; k++)
        the.x[k] = new_field();
    the.sum = new_field();
}
void leave_trajectory(void) {
    the.has_x = 0;
    the.was_in_trajectory = 1;
}

const operation operations[] = {
    /* For the driver. */
    {"begin", '-', 0, at_start, begin},
    {"without_auxiliary_links", '-', 0, at_start, without_auxiliary_links},
    {"enter_trajectory", 'g', 4, never, begin},
    {"leave_trajectory", 'g', 2, never, begin},
    /* The gauge field and the momenta. */
    {"load_gauge", 'g', 2, always, load_gauge},
    {"warm_start", 'g', 1, outside, warm_start},
    {"update_u", 'g', 5, always, links_updated},
    {"gauge_force", 'g', 3, always, gauge_force},
    {"ranmom", 'g', 1, always, ranmom},
    {"reunitarize", 'g', 2, always, reunitarize_ks},
    {"save_links", 'g', 2, always, save_links},
    {"reject", 'g', 2, has_saved, reject},
    {"actions", 'g', 2, always, actions},
    {"plaquette", 'g', 2, always, plaquette},
    {"polyakov_loop", 'g', 1, always, polyakov_loop},
    {"keep_lattice", 'g', 1, outside, keep_lattice},
    {"read_gauge", 'g', 2, always, read_gauge},
    {"read_momenta", 'g', 2, always, read_momenta},
    /* Plain stores. */
    {"write_gauge", 'w', 3, outside, write_gauge},
    {"write_momenta", 'w', 1, outside, write_momenta},
    {"write_member", 'w', 2, always, write_member},
    {"write_source", 'w', 4, always, write_source},
    {"write_links", 'w', 3, outside, write_links},
    {"write_copy", 'w', 2, outside, write_copy},
    /* Fermion links. */
    {"make_links", 'l', 6, always, make_links},
    {"drop_links", 'l', 4, always, drop_links},
    {"hold_sum", 'l', 3, always, hold_sum},
    {"give_sum_back", 'l', 2, always, give_sum_back},
    {"read_links", 'l', 3, always, read_links},
    {"twist", 'l', 5, outside, twist},
    {"momentum_twist", 'l', 2, outside, momentum_twist},
    {"copy_gauge", 'l', 3, outside, copy_gauge},
    {"make_own_links", 'l', 5, outside, make_own_links},
    {"drop_own_links", 'l', 3, outside, drop_own_links},
    {"read_backward_links", 'l', 2, outside, read_backward_links},
    {"fat_or_long_alone", 'l', 1, outside, fat_or_long_alone},
    {"read_auxiliary", 'l', 1, has_auxiliary, read_auxiliary},
    /* Solves and D. */
    {"solve", 's', 8, always, solve},
    {"solve_block", 's', 2, always, solve_block},
    {"solve_masses", 's', 3, outside, solve_masses},
    {"solve_sites", 's', 2, always, solve_sites},
    {"solve_in_vain", 's', 1, always, solve_in_vain},
    {"solve_with_flip", 's', 1, outside, solve_with_flip},
    {"draw_source", 's', 2, always, draw_source},
    {"invert", 's', 5, always, invert},
    {"invert_block", 's', 2, always, invert_block},
    {"invert_masses", 's', 2, outside, invert_masses},
    {"apply_d", 's', 5, always, apply_d},
    {"adjoint", 's', 2, always, adjoint},
    {"exchanged_sites", 's', 1, always, exchanged_sites},
    {"free_fields", 's', 3, always, free_fields},
    {"short_of_memory", '*', 2, always, short_of_memory},
#ifndef MILC_HOST_MASTER
    /* Measurements. */
    {"make_ape_links", 'm', 6, measures, make_ape_links},
    {"write_ape_links", 'm', 5, has_ape_links, write_ape_links},
    {"fix_gauge", 'm', 2, measures, fix_gauge},
    {"spin_taste", 'm', 8, has_ape_links, spin_taste},
    {"shift", 'm', 5, has_ape_links, shift},
    {"smear", 'm', 6, has_ape_links, smear},
    {"contract", 'm', 6, has_ape_links, contract},
    /* Baryons. */
    {"cache_octet", 'b', 8, outside, cache_octet},
    {"write_quark", 'b', 4, outside, write_quark},
    {"renew_quark", 'b', 2, outside, renew_quark},
    {"drop_octets", 'b', 1, outside, drop_octets},
    {"tie_octets", 'b', 8, has_octets, tie_octets},
    {"nucleon_and_delta", 'b', 3, outside, nucleon_and_delta},
#endif
    /* Rational functions and forces. */
    {"rational", 'f', 4, always, rational_function},
    {"force", 'f', 16, can_force, force},
    {"force_of_sites", 'f', 1, can_force, force_of_sites},
    {"both_forces", 'f', 1, can_force, both_forces},
    /* Eigenvectors. */
    {"eigensolve", 'e', 2, outside, eigensolve},
    {"odd_part", 'e', 4, outside, odd_part},
    {"read_vectors", 'e', 2, outside, read_vectors},
    {"save_vectors", 'e', 1, outside, save_vectors},
    {"reload_vectors", 'e', 2, has_saved_vectors, reload_vectors},
    {"free_vectors", 'e', 1, outside, free_vectors},
};
const int n_operations = sizeof operations / sizeof *operations;
