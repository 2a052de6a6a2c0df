/* ks_meson_cont_mom, spin_taste_op(_ape_fn), shift_field, gauss_smear_v_field, laplacian_v_field. What MILC keeps
 * about its smeared links (phases in) is kept, and its timing lines are printed. */
#include "mesons.h"
#include "correlators.h"
#include <string.h>

#include "routines.h"

#define FIELD_BYTES (sites_on_node * sizeof(su3_vector))

/* The fermion links have few readers here, which ask for them. */
static int offloads(void) {
    milcgpu_need(MILCGPU_SOLUTIONS, "measurements");
    return milcgpu_offloads();
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

/* Operators with fat links alone find them as the last one left them. */
int milcgpu_ape_links_have_phases(void) {
#if MILCGPU_MILC == 1
    return 0;
#else
    return ape_links_ks_phases == ON;
#endif
}

static void compared(milcgpu_routine routine, const su3_vector *ours, su3_vector *theirs, double seconds,
                     double cpu_seconds) {
    milcgpu_judge(milcgpu_plugin_compare_quarks(routine, ours, theirs, seconds, cpu_seconds));
    free(theirs);
}

/* ---- operators --------------------------------------------------------------------------------------------------- */

static void own_operator(int with_fn, imp_ferm_links_t *fn, int index, int *r0, su3_vector *dest,
                         milcgpu_read_vector *src) {
    if (with_fn)
        milcgpu_original(spin_taste_op_ape_fn)(fn, index, r0, dest, src);
    else
        milcgpu_original(spin_taste_op)(index, r0, dest, src);
}

/* with_fn: spin_taste_op_ape_fn. Local operators are signs, and stay with MILC: two copies of the field take longer. */
static void operator_by(int with_fn, imp_ferm_links_t *fn, int index, int *r0, su3_vector *dest,
                        milcgpu_read_vector *src) {
    const int links = milcgpu_plugin_links_of_operator(index), fat = links == 2;
    const int current = fat || milcgpu_there(is_rhosfape_index)(index) ||
                        milcgpu_there(is_rhosbape_index)(index); /* spin_taste_op has none */
    double seconds, cpu_seconds;
    int done = 0;
    if (links < 1 || ape_links == NULL || (current && !with_fn) || (fat && fn == NULL) || !offloads()) {
        own_operator(with_fn, fn, index, r0, dest, src);
        return;
    }
    su3_vector *cpu = (su3_vector *)milcgpu_copy_to_compare(src, FIELD_BYTES);
    seconds = -milcgpu_plugin_seconds();
    if (!fat)
        milcgpu_phases_into_ape_links(r0);
    else
        milcgpu_fill_links();
    done = milcgpu_plugin_spin_taste(ape_links, milcgpu_ape_links_have_phases(), fat ? fn->fat : NULL,
                                     fat ? fn->lng : NULL, index, r0, milcgpu_vector_field(src),
                                     milcgpu_vector_field(dest));
    seconds += milcgpu_plugin_seconds();
    if (done && cpu == NULL)
        return;
    milcgpu_enter_original(MILCGPU_SPIN_TASTE);
    if (!done) {
        own_operator(with_fn, fn, index, r0, dest, src);
    } else {
        su3_vector *made = (su3_vector *)milcgpu_room(FIELD_BYTES, "a comparison");
        own_operator(with_fn, fn, index, r0, made, cpu); /* dest may have been src */
        memcpy(cpu, made, FIELD_BYTES);
        free(made);
    }
    cpu_seconds = milcgpu_leave_original(MILCGPU_SPIN_TASTE);
    if (done)
        compared(MILCGPU_SPIN_TASTE, dest, cpu, seconds, cpu_seconds);
    else
        free(cpu);
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
    double seconds, cpu_seconds;
    su3_vector *cpu;
    if (links == NULL || dest == src || !offloads()) {
        milcgpu_original(shift_field)(dir, fb, dest, src, links, refresh_links);
        return;
    }
    seconds = -milcgpu_plugin_seconds();
    if (milcgpu_plugin_shift(links, dir, way, milcgpu_vector_field(src), milcgpu_vector_field(dest))) {
        seconds += milcgpu_plugin_seconds();
        cpu = (su3_vector *)milcgpu_copy_to_compare(dest, FIELD_BYTES);
        if (cpu == NULL)
            return;
        cpu_seconds = milcgpu_by_milc(MILCGPU_SHIFT_FIELD,
                                      milcgpu_original(shift_field)(dir, fb, cpu, src, links, refresh_links));
        compared(MILCGPU_SHIFT_FIELD, dest, cpu, seconds, cpu_seconds);
        return;
    }
    milcgpu_by_milc(MILCGPU_SHIFT_FIELD, milcgpu_original(shift_field)(dir, fb, dest, src, links, refresh_links));
}

#endif

/* ---- smearing ---------------------------------------------------------------------------------------------------- */

static int smeared_on_device = 0;
static int smearing_served = 0;

/* develop keeps products of two links for its next smearing. A rank makes them again if the links have another address
 * than last time, and sends messages then. On several ranks that may be so on some ranks only, and they wait for the
 * others for ever. Without products from last time all ranks make them. */
static void smear_by_milc(su3_vector *src, su3_matrix *t_links, Real width, int iters, int t0) {
#if MILCGPU_MILC != 1
    if (smearing_served && numnodes() > 1 && gauss_smear_delete_2link_cpu != NULL)
        milcgpu_there(gauss_smear_delete_2link_cpu)();
#endif
    milcgpu_original(gauss_smear_v_field)(src, t_links, width, iters, t0);
}

void __wrap_gauss_smear_v_field(su3_vector *src, su3_matrix *t_links, Real width, int iters, int t0) {
    su3_vector *cpu;
    double seconds, cpu_seconds;
    if (t_links == NULL || iters < 1 || !offloads()) {
        smear_by_milc(src, t_links, width, iters, t0);
        return;
    }
    smearing_served = 1;
    cpu = (su3_vector *)milcgpu_copy_to_compare(src, FIELD_BYTES);
    seconds = -milcgpu_plugin_seconds();
    if (milcgpu_plugin_gauss_smear(t_links, width, iters, t0 == ALL_T_SLICES ? -1 : t0, milcgpu_vector_field(src))) {
        seconds += milcgpu_plugin_seconds();
        smeared_on_device = 1;
        if (!MILCGPU_IS_MASTER && this_node == 0) {
            printf("GSMEAR: time = %e (fn %s) iters = %d\n", seconds, MILC_PRECISION == 1 ? "F" : "D", iters);
            fflush(stdout);
        }
        if (cpu == NULL)
            return;
        cpu_seconds = milcgpu_by_milc(MILCGPU_GAUSS_SMEAR, smear_by_milc(cpu, t_links, width, iters, t0));
        compared(MILCGPU_GAUSS_SMEAR, src, cpu, seconds, cpu_seconds);
        return;
    }
    free(cpu);
    milcgpu_by_milc(MILCGPU_GAUSS_SMEAR, smear_by_milc(src, t_links, width, iters, t0));
}

/* Never compared: develop's takes the two-link products of the last smearing, whatever its links. */
void __wrap_laplacian_v_field(su3_vector *src, su3_matrix *t_links, int t0) {
    if (t_links != NULL && offloads() &&
        milcgpu_plugin_laplacian(t_links, t0 == ALL_T_SLICES ? -1 : t0, milcgpu_vector_field(src)))
        return;
    milcgpu_enter_original(MILCGPU_LAPLACIAN);
    if (!MILCGPU_IS_MASTER && t_links != NULL &&
        smeared_on_device) { /* MILC's products of links are not there: its smearing makes them */
        su3_vector *unused = (su3_vector *)milcgpu_room(FIELD_BYTES, "products of links");
        memcpy(unused, src, FIELD_BYTES);
        smear_by_milc(unused, t_links, 1, 1, ALL_T_SLICES);
        free(unused);
    }
    milcgpu_original(laplacian_v_field)(src, t_links, t0);
    milcgpu_leave_original(MILCGPU_LAPLACIAN);
}

/* ---- contractions ------------------------------------------------------------------------------------------------ */

/* MILC's groups and tables as a list of terms; milcs: NULL, or the same terms as MILC adds them, for num_corr
 * correlators behind the others. 0: there is something that MILC's routine must do, or refuse. */
static int list_terms(milcgpu_meson_term *terms, milcgpu_meson_term *milcs, int num_corr, int groups,
                      const int *num_corr_mom, int **corr_table, const int *p_index, const int *spin_taste_snk,
                      const int *meson_phase, const Real *meson_factor, const int *corr_index, int fat_of[2],
                      int *needs_ape) {
    int g, k, n = 0;
    fat_of[0] = fat_of[1] = *needs_ape = 0;
    for (g = 0; g < groups; g++) {
        const int op = num_corr_mom[g] > 0 ? spin_taste_snk[corr_table[g][0]] : 0;
        const int pair = milcgpu_there(is_rhosfn_index)(op) || milcgpu_there(is_rhosape_index)(op);
        const int links = pair ? 1 + milcgpu_there(is_rhosfn_index)(op) : milcgpu_plugin_links_of_operator(op);
        const int forward = milcgpu_there(is_rhosffn_index)(op) || milcgpu_there(is_rhosfape_index)(op);
        const int backward = milcgpu_there(is_rhosbfn_index)(op) || milcgpu_there(is_rhosbape_index)(op);
        if (links < 0 || (forward && milcgpu_there(forward_index)(op) != op) ||
            (backward && milcgpu_there(backward_index)(op) != op))
            return 0; /* the last: master ends the run */
        *needs_ape = *needs_ape || links == 1;
        fat_of[0] = fat_of[0] || (links == 2 && !milcgpu_there(is_rhosffn_index)(op));
        fat_of[1] = fat_of[1] || (links == 2 && !milcgpu_there(is_rhosbfn_index)(op));
        for (k = 0; k < num_corr_mom[g]; k++, n++) {
            const int c = corr_table[g][k];
            const milcgpu_meson_term term = {op, p_index[c], meson_phase[c], meson_factor[c], corr_index[c]};
            terms[n] = term;
            if (milcs != NULL) {
                milcs[n] = term;
                milcs[n].factor *= milcgpu_repeats(corr_table[g], num_corr_mom[g], p_index, k);
                milcs[n].correlator += num_corr;
            }
        }
    }
    return 1;
}

/* sums: num_corr times nt complex numbers, zero; twice as many where as_milc: then as MILC has them. 1: done. */
static int contract(double *sums, int as_milc, su3_vector *src1, su3_vector *src2, int no_q_momenta, int **q_momstore,
                    char **q_parity, int groups, int *num_corr_mom, int **corr_table, int *p_index,
                    imp_ferm_links_t *fn_src1, imp_ferm_links_t *fn_src2, int *spin_taste_snk, int *meson_phase,
                    Real *meson_factor, int num_corr, int *corr_index, int *r0) {
    const int n = milcgpu_entries_of(groups, num_corr_mom), times = as_milc ? 2 : 1;
    int fat_of[2], needs_ape, done = 0;
    milcgpu_momentum *momenta;
    milcgpu_meson_term *terms;
    momenta = (milcgpu_momentum *)milcgpu_room((no_q_momenta + 1) * sizeof *momenta, "momenta");
    terms = (milcgpu_meson_term *)milcgpu_room((times * n + 1) * sizeof *terms, "terms of correlators");
    if (list_terms(terms, as_milc ? terms + n : NULL, num_corr, groups, num_corr_mom, corr_table, p_index,
                   spin_taste_snk, meson_phase, meson_factor, corr_index, fat_of, &needs_ape) &&
        (ape_links != NULL || !(needs_ape || fat_of[0] || fat_of[1])) && (!fat_of[0] || fn_src1 != NULL) &&
        (!fat_of[1] || fn_src2 != NULL)) {
        const void *const fat[2] = {fat_of[0] ? fn_src1->fat : NULL, fat_of[1] ? fn_src2->fat : NULL};
        const void *const lng[2] = {fat_of[0] ? fn_src1->lng : NULL, fat_of[1] ? fn_src2->lng : NULL};
        milcgpu_meson_spec spec;
        if (fat_of[0] || fat_of[1])
            milcgpu_fill_links();
        memset(&spec, 0, sizeof spec);
        spec.struct_size = sizeof spec;
        memcpy(spec.origin, r0, sizeof spec.origin);
        spec.n_momenta = no_q_momenta;
        spec.n_terms = times * n;
        spec.n_correlators = times * num_corr;
        spec.momenta = momenta;
        spec.terms = terms;
        milcgpu_list_momenta(momenta, no_q_momenta, q_momstore, q_parity);
        if (needs_ape)
            milcgpu_phases_into_ape_links(r0);
        /* Local operators are signs: no links are looked at or loaded for them. */
        done = milcgpu_plugin_contract(needs_ape || fat_of[0] || fat_of[1] ? ape_links : NULL,
                                       milcgpu_ape_links_have_phases(), fat, lng, &spec, milcgpu_vector_field(src1),
                                       milcgpu_vector_field(src2), sums);
    }
    free(momenta);
    free(terms);
    return done;
}

void __wrap_ks_meson_cont_mom(complex **prop, su3_vector *src1, su3_vector *src2, int no_q_momenta, int **q_momstore,
                              char **q_parity, int groups, int *num_corr_mom, int **corr_table, int *p_index,
                              imp_ferm_links_t *fn_src1, imp_ferm_links_t *fn_src2, int *spin_taste_snk,
                              int *meson_phase, Real *meson_factor, MILCGPU_NUMBER(int num_corr) int *corr_index,
                              int *r0) {
#if MILCGPU_MILC == 1
    const int num_corr = milcgpu_correlators_of(groups, num_corr_mom, corr_table, corr_index);
#endif
    const size_t reals = 2 * (size_t)nt, numbers = num_corr * reals;
    const int repeats = milcgpu_most_repeats(groups, num_corr_mom, corr_table, p_index);
    const int as_milc = repeats > 1 && milcgpu_plugin_compare();
    double *sums, *theirs, seconds, cpu_seconds = 0;
    Real **rows;
    int done = 0, m;
#define MILCS_OWN                                                                                                      \
    milcgpu_original(ks_meson_cont_mom)(prop, src1, src2, no_q_momenta, q_momstore, q_parity, groups, num_corr_mom,    \
                                        corr_table, p_index, fn_src1, fn_src2, spin_taste_snk, meson_phase,            \
                                        meson_factor, MILCGPU_NUMBER(num_corr) corr_index, r0)
    if (no_q_momenta < 1 || no_q_momenta > MILCGPU_MOST_MOMENTA || num_corr < 1 || !offloads()) {
        MILCS_OWN;
        return;
    }
    sums = (double *)milcgpu_room((2 + as_milc) * numbers * sizeof(double), "correlators");
    memset(sums, 0, (2 + as_milc) * numbers * sizeof(double));
    theirs = sums + (1 + as_milc) * numbers;
    rows = (Real **)milcgpu_room(num_corr * sizeof *rows, "correlators");
    for (m = 0; m < num_corr; m++)
        rows[m] = (Real *)prop[m];
    seconds = -milcgpu_plugin_seconds();
    done = contract(sums, as_milc, src1, src2, no_q_momenta, q_momstore, q_parity, groups, num_corr_mom, corr_table,
                    p_index, fn_src1, fn_src2, spin_taste_snk, meson_phase, meson_factor, num_corr, corr_index, r0);
    seconds += milcgpu_plugin_seconds();
    if (!done || milcgpu_plugin_compare()) {
        milcgpu_rows_before(rows, num_corr, reals, theirs);
        cpu_seconds = milcgpu_by_milc(MILCGPU_MESON_CONT, MILCS_OWN);
    }
    if (done && milcgpu_plugin_compare()) {
        milcgpu_rows_after(rows, num_corr, reals, theirs);
        if (MILCGPU_IS_MASTER)
            g_vecdoublesum(theirs, numbers);
        milcgpu_judge(milcgpu_plugin_compare_correlators(
            MILCGPU_MESON_CONT, 6, num_corr * nt, as_milc ? sums + numbers : sums, theirs, src1, src2,
            milcgpu_largest_factor(groups, num_corr_mom, corr_table, meson_factor), repeats, seconds, cpu_seconds));
    }
    if (done && (!MILCGPU_IS_MASTER || this_node == 0)) /* the sums are of all ranks */
        milcgpu_add_to_rows(rows, num_corr, reals, sums);
    free(rows);
    free(sums);
#undef MILCS_OWN
}
