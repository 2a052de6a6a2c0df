/* ks_meson_cont_mom, spin_taste_op(_ape_fn), shift_field, gauss_smear_v_field, laplacian_v_field. MILC's state of its
 * smeared links (phases in) is kept, and its timing lines are printed. */
#include "mesons.h"
#include "correlators.h"
#include <string.h>

#include "routines.h"

#define FIELD_BYTES (sites_on_node * sizeof(su3_vector))

/* A call that writes this field. Fermion links have few readers here, and these request them. */
static milcgpu_call call_on_field(milcgpu_routine row, const char *name, milcgpu_output *field) {
    const milcgpu_call call = MILCGPU_MEMBERS(.row = row, .name = name, .needs = MILCGPU_SOLUTIONS, .outputs = field,
                                              .n_outputs = 1, .compare = milcgpu_compare_as_quarks);
    return call;
}
void milcgpu_phases_into_ape_links(int *r0) {
#if MILCGPU_MILC == 1
    (void)r0;
#else
    if (ape_links_ks_phases != ON) {
        milcgpu_there(rephase_field_offset)(ape_links, ON, &ape_links_ks_phases, r0);
        refresh_ape_links = 1;
    }
#endif
}

/* Operators with fat links alone use the phases that the last operator left. */
int milcgpu_ape_links_have_phases(void) {
#if MILCGPU_MILC == 1
    return 0;
#else
    return ape_links_ks_phases == ON;
#endif
}

/* ---- operators --------------------------------------------------------------------------------------------------- */

typedef struct {
    int mask, negative;
    const su3_vector *src;
    su3_vector *dest;
} signs;
static int signs_part(void *what, size_t from, size_t to) {
    const signs *const w = (const signs *)what;
    size_t i;
    int c;
    for (i = from; i < to; i++) {
        const site *const s = &lattice[i];
        const int sum = (w->mask & 1 ? s->x : 0) + (w->mask & 2 ? s->y : 0) + (w->mask & 4 ? s->z : 0) +
                        (w->mask & 8 ? s->t : 0) + w->negative;
        if (sum % 2 == 0) {
            w->dest[i] = w->src[i];
            continue;
        }
        for (c = 0; c < 3; c++) {
            w->dest[i].c[c].real = -w->src[i].c[c].real;
            w->dest[i].c[c].imag = -w->src[i].c[c].imag;
        }
    }
    return 0;
}
/* A local operator, by all threads. It has every bit of MILC's own, and leaves MILC's smeared links as that does. */
static int has_done_local(int index, int *r0, su3_vector *dest, milcgpu_read_vector *src) {
    signs work = {milcgpu_plugin_signs_of_operator(index, r0), 0, src, dest};
    if (MILCGPU_IS_MASTER || work.mask < 0 || ape_links == NULL || milcgpu_plugin_compare() || !milcgpu_offloads())
        return 0;
    work.negative = work.mask / 16;
    if (milcgpu_plugin_by_all_threads(sites_on_node, signs_part, &work) < 0)
        return 0;
    milcgpu_phases_into_ape_links(r0);
    return 1;
}

static void own_operator(int with_fn, imp_ferm_links_t *fn, int index, int *r0, su3_vector *dest,
                         milcgpu_read_vector *src) {
    if (has_done_local(index, r0, dest, src))
        return;
    if (with_fn)
        milcgpu_original(spin_taste_op_ape_fn)(fn, index, r0, dest, src);
    else
        milcgpu_original(spin_taste_op)(index, r0, dest, src);
}

/* Local operators are signs, and two copies of the field would take longer. */
static const char *why_own_operator(int index, int has_fn_links, int with_fn) {
    const int links = milcgpu_plugin_links_of_operator(index);
    const int is_current = links == 2 || milcgpu_there(is_rhosfape_index)(index) ||
                           milcgpu_there(is_rhosbape_index)(index); /* spin_taste_op has none */
    return links < 0                     ? "MILC's own: this operator acts on two fields, or is unknown"
           : links == 0                  ? MILCGPU_SAID_AT_START
           : ape_links == NULL           ? "MILC's own: there are no APE links"
           : is_current && !with_fn      ? "MILC's own: this routine has no operators with fat links"
           : links == 2 && !has_fn_links ? "MILC's own: there are no fat links"
                                         : NULL;
}

static int apply_operator(imp_ferm_links_t *fn, int index, int *r0, su3_vector *dest, milcgpu_read_vector *src) {
    const int fat = milcgpu_plugin_links_of_operator(index) == 2;
    if (fat)
        milcgpu_fill_links();
    else
        milcgpu_phases_into_ape_links(r0);
    return milcgpu_plugin_spin_taste(ape_links, milcgpu_ape_links_have_phases(), fat ? fn->fat : NULL,
                                     fat ? fn->lng : NULL, index, r0, milcgpu_vector_field(src),
                                     milcgpu_vector_field(dest));
}

/* with_fn: spin_taste_op_ape_fn. */
static void operator_by(int with_fn, imp_ferm_links_t *fn, int index, int *r0, su3_vector *dest,
                        milcgpu_read_vector *src) {
    milcgpu_output field = MILCGPU_MEMORY(dest, FIELD_BYTES);
    milcgpu_call call = call_on_field(MILCGPU_SPIN_TASTE, "spin_taste_op", &field);
    call.why_own = why_own_operator(index, fn != NULL, with_fn);
    milcgpu_offload(&call, apply_operator(fn, index, r0, dest, src), own_operator(with_fn, fn, index, r0, dest, src));
}

void __wrap_spin_taste_op(int index, int *r0, su3_vector *dest, milcgpu_read_vector *src) {
    operator_by(0, NULL, index, r0, dest, src);
}
void __wrap_spin_taste_op_ape_fn(imp_ferm_links_t *fn, int index, int *r0, su3_vector *dest, milcgpu_read_vector *src) {
    operator_by(1, fn, index, r0, dest, src);
}

#if MILCGPU_MILC != 1
void __wrap_shift_field(int dir, enum shift_dir fb, su3_vector *dest, const su3_vector *src, const su3_matrix *links,
                        int *refresh_links) {
    const int way = fb == SHIFT_FORWARD ? MILCGPU_FORWARD : fb == SHIFT_BACKWARD ? MILCGPU_BACKWARD : MILCGPU_SYMMETRIC;
    milcgpu_output field = MILCGPU_MEMORY(dest, FIELD_BYTES);
    milcgpu_call call = call_on_field(MILCGPU_SHIFT_FIELD, "shift_field", &field);
    call.why_own = links == NULL ? MILCGPU_NO_LINKS : dest == src ? "MILC's own: the field is shifted in place" : NULL;
    milcgpu_offload(&call, milcgpu_plugin_shift(links, dir, way, milcgpu_vector_field(src), milcgpu_vector_field(dest)),
                    milcgpu_original(shift_field)(dir, fb, dest, src, links, refresh_links));
}

#endif

/* ---- smearing ---------------------------------------------------------------------------------------------------- */

static struct {
    int tried; /* this program smears on the device, or tries to */
    int done;  /* the device has smeared, so MILC has no products of links for its Laplacian */
} smearing;

/* develop keeps products of two links for its next smearing. A rank makes them again if the links have another address
 * than last time, and then sends messages. If only some ranks of several do so, they wait for the others without limit.
 * Without products from last time, all ranks make them. */
static void smear_by_milc(su3_vector *src, su3_matrix *t_links, Real width, int iters, int t0) {
#if MILCGPU_MILC != 1
    if (smearing.tried && numnodes() > 1 && gauss_smear_delete_2link_cpu != NULL)
        milcgpu_there(gauss_smear_delete_2link_cpu)();
#endif
    milcgpu_original(gauss_smear_v_field)(src, t_links, width, iters, t0);
}

static int smear(const milcgpu_call *call, su3_vector *src, su3_matrix *t_links, Real width, int iters, int t0) {
    smearing.tried = 1;
    if (!milcgpu_plugin_gauss_smear(t_links, width, iters, t0 == ALL_T_SLICES ? -1 : t0, milcgpu_vector_field(src)))
        return 0;
    smearing.done = 1;
    if (!MILCGPU_IS_MASTER && this_node == 0) {
        printf("GSMEAR: time = %e (fn %s) iters = %d\n", milcgpu_seconds_so_far(call), MILC_PRECISION == 1 ? "F" : "D",
               iters);
        fflush(stdout);
    }
    return 1;
}
void __wrap_gauss_smear_v_field(su3_vector *src, su3_matrix *t_links, Real width, int iters, int t0) {
    milcgpu_output field = MILCGPU_MEMORY(src, FIELD_BYTES);
    milcgpu_call call = call_on_field(MILCGPU_GAUSS_SMEAR, "gauss_smear_v_field", &field);
    call.why_own = t_links == NULL ? MILCGPU_NO_LINKS : iters < 1 ? "MILC's own: there are no iterations" : NULL;
    milcgpu_offload(&call, smear(&call, src, t_links, width, iters, t0), smear_by_milc(src, t_links, width, iters, t0));
}

/* develop's routine takes the two-link products of its last smearing, whatever the links. If there was none, it makes
 * products first. */
static void laplacian_by_milc(su3_vector *src, su3_matrix *t_links, int t0) {
    if (!MILCGPU_IS_MASTER && t_links != NULL && smearing.done) {
        su3_vector *unused = (su3_vector *)milcgpu_room(FIELD_BYTES, "products of links");
        memcpy(unused, src, FIELD_BYTES);
        smear_by_milc(unused, t_links, 1, 1, ALL_T_SLICES);
        free(unused);
    }
    milcgpu_original(laplacian_v_field)(src, t_links, t0);
}
/* Never compared, because of these products. */
void __wrap_laplacian_v_field(su3_vector *src, su3_matrix *t_links, int t0) {
    milcgpu_output field = MILCGPU_MEMORY(src, FIELD_BYTES);
    milcgpu_call call = call_on_field(MILCGPU_LAPLACIAN, "laplacian_v_field", &field);
    call.why_own = t_links == NULL ? MILCGPU_NO_LINKS : NULL;
    call.compare = NULL;
    milcgpu_offload(&call, milcgpu_plugin_laplacian(t_links, t0 == ALL_T_SLICES ? -1 : t0, milcgpu_vector_field(src)),
                    laplacian_by_milc(src, t_links, t0));
}

/* ---- contractions ------------------------------------------------------------------------------------------------ */

typedef struct {
    const milcgpu_tables *tables;
    su3_vector *src1, *src2;
    imp_ferm_links_t *fn[2]; /* of the two quarks */
    const int *operators;
} contraction;

/* Whether the operators need fat links of either quark, and APE links; and whether MILC leaves phases in APE links: all
 * operators without fat links do, also local ones. */
typedef struct {
    int fat_of[2], ape, phases_stay;
} links_needed;

/* Converts MILC's groups and tables to a list of terms. milcs: NULL, or gets the same terms as MILC adds them, for
 * num_corr correlators after the others. Returns 0 if there is something that MILC's routine must do or refuses. */
static int list_terms(const contraction *c, milcgpu_meson_term *terms, milcgpu_meson_term *milcs, int num_corr,
                      links_needed *needed) {
    const milcgpu_tables *const t = c->tables;
    int g, k, n = 0;
    memset(needed, 0, sizeof *needed);
    for (g = 0; g < t->groups; g++) {
        const int op = t->num_corr_mom[g] > 0 ? c->operators[t->corr_table[g][0]] : 0;
        const int pair = milcgpu_there(is_rhosfn_index)(op) || milcgpu_there(is_rhosape_index)(op);
        const int links = pair ? 1 + milcgpu_there(is_rhosfn_index)(op) : milcgpu_plugin_links_of_operator(op);
        const int forward = milcgpu_there(is_rhosffn_index)(op) || milcgpu_there(is_rhosfape_index)(op);
        const int backward = milcgpu_there(is_rhosbfn_index)(op) || milcgpu_there(is_rhosbape_index)(op);
        if (links < 0 || (forward && milcgpu_there(forward_index)(op) != op) ||
            (backward && milcgpu_there(backward_index)(op) != op))
            return 0; /* the last: master ends the run */
        needed->ape |= links == 1;
        needed->phases_stay |= links != 2;
        needed->fat_of[0] |= links == 2 && !milcgpu_there(is_rhosffn_index)(op);
        needed->fat_of[1] |= links == 2 && !milcgpu_there(is_rhosbfn_index)(op);
        for (k = 0; k < t->num_corr_mom[g]; k++, n++) {
            const int m = t->corr_table[g][k];
            const milcgpu_meson_term term = {op, t->p_index[m], t->meson_phase[m], t->meson_factor[m],
                                             t->corr_index[m]};
            terms[n] = term;
            if (milcs != NULL) {
                milcs[n] = term;
                milcs[n].factor *= milcgpu_repeats(t, g, k);
                milcs[n].correlator += num_corr;
            }
        }
    }
    return 1;
}

static int sum_correlators(const contraction *c, const links_needed *needed, milcgpu_meson_spec *spec,
                           milcgpu_correlators *to) {
    const int *const fat_of = needed->fat_of;
    const void *fat[2] = {NULL, NULL}, *lng[2] = {NULL, NULL};
    int q;
    for (q = 0; q < 2; q++)
        if (fat_of[q]) {
            fat[q] = c->fn[q]->fat;
            lng[q] = c->fn[q]->lng;
        }
    if (fat_of[0] || fat_of[1])
        milcgpu_fill_links();
    if (needed->phases_stay && ape_links != NULL)
        milcgpu_phases_into_ape_links(c->tables->r0);
    /* Local operators are signs: no links are compared or loaded for them. */
    return milcgpu_plugin_contract(needed->ape || fat_of[0] || fat_of[1] ? ape_links : NULL,
                                   milcgpu_ape_links_have_phases(), fat, lng, spec, milcgpu_vector_field(c->src1),
                                   milcgpu_vector_field(c->src2), to->sums);
}

static int contract(const contraction *c, milcgpu_correlators *to) {
    const milcgpu_tables *const t = c->tables;
    const int n = milcgpu_entries_of(t);
    milcgpu_momentum *momenta = (milcgpu_momentum *)milcgpu_room((t->no_q_momenta + 1) * sizeof *momenta, "momenta");
    milcgpu_meson_term *terms =
        (milcgpu_meson_term *)milcgpu_room((to->times * n + 1) * sizeof *terms, "terms of correlators");
    links_needed needed;
    int done = list_terms(c, terms, to->times > 1 ? terms + n : NULL, to->n, &needed) &&
               (ape_links != NULL || !(needed.ape || needed.fat_of[0] || needed.fat_of[1])) &&
               (!needed.fat_of[0] || c->fn[0] != NULL) && (!needed.fat_of[1] || c->fn[1] != NULL);
    if (!done) {
        milcgpu_plugin_says_once(MILCGPU_MESON_CONT, "MILC's own: an operator is unknown, or its links are missing");
    } else {
        milcgpu_meson_spec spec;
        memset(&spec, 0, sizeof spec);
        spec.struct_size = sizeof spec;
        memcpy(spec.origin, t->r0, sizeof spec.origin);
        spec.n_momenta = t->no_q_momenta;
        spec.n_terms = to->times * n;
        spec.n_correlators = to->times * to->n;
        spec.momenta = momenta;
        spec.terms = terms;
        milcgpu_list_momenta(momenta, t);
        done = sum_correlators(c, &needed, &spec, to);
    }
    free(momenta);
    free(terms);
    if (done)
        milcgpu_add_to_rows(to);
    return done;
}

void __wrap_ks_meson_cont_mom(complex **prop, su3_vector *src1, su3_vector *src2, int no_q_momenta, int **q_momstore,
                              char **q_parity, int groups, int *num_corr_mom, int **corr_table, int *p_index,
                              imp_ferm_links_t *fn_src1, imp_ferm_links_t *fn_src2, int *spin_taste_snk,
                              int *meson_phase, Real *meson_factor, MILCGPU_NUMBER(int num_corr) int *corr_index,
                              int *r0) {
    const milcgpu_tables t = {no_q_momenta, q_momstore,   q_parity,   groups, num_corr_mom, corr_table, p_index,
                              meson_phase,  meson_factor, corr_index, r0};
    const contraction c = {&t, src1, src2, {fn_src1, fn_src2}, spin_taste_snk};
#if MILCGPU_MILC == 1
    const int num_corr = milcgpu_correlators_of(&t);
#endif
    const int n = num_corr > 0 ? num_corr : 0;
    milcgpu_correlators rows = milcgpu_new_correlators(&t, n, 2 * (size_t)nt);
    milcgpu_call call =
        MILCGPU_MEMBERS(.row = MILCGPU_MESON_CONT, .name = "ks_meson_cont_mom", .needs = MILCGPU_SOLUTIONS,
                        .why_own = milcgpu_has_tables(&t, n) ? NULL : MILCGPU_WITHOUT_TABLES, .outputs = rows.rows,
                        .n_outputs = n, .compare = milcgpu_compare_rows, .details = &rows);
    int m;
    rows.of_all_ranks = MILCGPU_IS_MASTER;
    rows.sources[0] = src1, rows.sources[1] = src2, rows.reals_of_source = 6;
    for (m = 0; m < n; m++)
        rows.rows[m].data = prop[m], rows.rows[m].bytes = nt * sizeof(complex);
    milcgpu_offload(&call, contract(&c, &rows),
                    milcgpu_original(ks_meson_cont_mom)(prop, src1, src2, no_q_momenta, q_momstore, q_parity, groups,
                                                        num_corr_mom, corr_table, p_index, fn_src1, fn_src2,
                                                        spin_taste_snk, meson_phase, meson_factor,
                                                        MILCGPU_NUMBER(num_corr) corr_index, r0));
    milcgpu_free_correlators(&rows);
}
