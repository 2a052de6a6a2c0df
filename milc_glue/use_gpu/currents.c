/* f_meas_current, f_meas_current_diff. Noise, solutions, shifts and sums over time slices stay on the device. Random
 * numbers, order of solves and printed lines are MILC's. */
#include "eigen.h"
#include "mesons.h"
#include "solve_call.h"

#include <string.h>

#include "routines.h"

#pragma weak param
#pragma weak eigVec
#pragma weak eigVal

/* MILC's own routine takes the same differences of masses: MASS_UDLSC and OPT_UDLSC in its f_meas_current.c. With a
 * photon field (QED_LOOP) its currents are fields, not sums, and are not built here. */
#if MILCGPU_MILC != 1 && defined(CURRENT_DISC) && !defined(QED_LOOP) && defined(SITERAND) && EIGMODE != EIGCG

enum { most_masses = 5, together = 2, directions = 4 }; /* `together`: random fields at once, as in MILC */

/* A printed result: for one mass (second -1), or for the difference of two. index: where MILC keeps it. */
typedef struct {
    int first, second, index;
} result;
static const result results[most_masses][3] = {
    {{0, -1, 0}}, {{0, 1, 0}}, {{0, 1, 0}, {2, -1, 2}}, {{0, 1, 0}, {0, 2, 2}}, {{0, 1, 0}, {2, 3, 2}, {4, -1, 4}}};
static const int n_results[most_masses] = {1, 1, 2, 2, 3};

typedef struct {
    int n, fields, vectors, numbers; /* masses; random fields at once; vectors in a slot; sums per random field */
    const Real *mass, *charges;
    imp_ferm_links_t **fn;
    int is_difference;                  /* of precise and sloppy solves */
    const quark_invert_control *sloppy; /* n of these; NULL: no difference */
    double *j;                          /* [index of a mass][random field][direction][time slice] */
} measurement;

static double *sums_of(const measurement *m, int index) { return m->j + (size_t)index * together * m->numbers; }

static void print_sums(const measurement *m, const char *tag, int fields, int first) {
    int r, k, t, mu;
    node0_printf("BEGIN JTMU%s\n", tag);
    for (r = 0; r < n_results[m->n - 1]; r++) {
        const result *of = &results[m->n - 1][r];
        const Real second = of->second < 0 ? 0 : m->mass[of->second];
        for (k = 0; k < fields; k++) {
            const double *sums = sums_of(m, of->index) + (size_t)k * m->numbers;
            node0_printf("JTMU%s ", tag);
            if (first < 0) {
                node0_printf("LOW MODE ");
            } else {
                node0_printf("RANDOM_SOURCE %d ", first + k);
            }
            node0_printf("MASS %g CHARGE %g", m->mass[of->first], m->charges[of->first]);
            if (second != 0)
                node0_printf(" minus MASS %g CHARGE %g", second, m->charges[of->second]);
            node0_printf("\n");
            for (t = 0; t < nt; t++) {
                node0_printf("JTMU%s ", tag);
                if (first >= 0)
                    node0_printf("%d ", first + k);
                node0_printf("%d ", t);
                for (mu = 0; mu < directions; mu++)
                    node0_printf("%.10g ", sums[mu * nt + t]);
                node0_printf("\n");
            }
        }
    }
    node0_printf("END JTMU%s\n", tag);
}

/* ---- eigenvectors ------------------------------------------------------------------------------------------------ */

static double difference_of(Real a, Real b) { return 4 * (b * b - a * a); }

/* With the links of mass `of`: results for one mass, or for pairs of masses. Returns 0 if MILC's own routine is to do
 * it. */
static int low_modes(const measurement *m, const milcgpu_plugin_eigen_call *vectors, int of, int n,
                     const int (*masses)[2], const int *indices) {
    const int N = vectors->count;
    double *const weights = (double *)milcgpu_room((size_t)n * (N + m->numbers) * sizeof(double), "weights"),
                  *const sums = weights + (size_t)n * N;
    int w, k, done;
    for (w = 0; w < n; w++)
        for (k = 0; k < N; k++) {
            const Real a = m->mass[masses[w][0]], b = masses[w][1] < 0 ? 0 : m->mass[masses[w][1]];
            const double first = eigVal[k] + 4.0 * a * a;
            weights[w * N + k] =
                masses[w][1] < 0 ? 1 / first : difference_of(a, b) / (first * (eigVal[k] + 4.0 * b * b));
        }
    done = milcgpu_plugin_current_low(ape_links, milcgpu_ape_links_have_phases(), m->fn[of]->fat, m->fn[of]->lng,
                                      vectors, n, weights, sums);
    for (w = 0; done && w < n; w++)
        memcpy(sums_of(m, indices[w]), sums + (size_t)w * m->numbers, m->numbers * sizeof(double));
    free(weights);
    return done;
}

static int all_low_modes(const measurement *m, const milcgpu_plugin_eigen_call *vectors) {
    static const int one[][2] = {{0, -1}, {2, -1}, {4, -1}}, pair[][2] = {{0, 1}}, of_four[][2] = {{0, 1}, {0, 2}},
                     of_five[][2] = {{0, 1}, {0, 3}}, indices[] = {0, 2, 4};
    switch (m->n) {
    case 1:
        return low_modes(m, vectors, 0, 1, one, indices);
    case 2:
        return low_modes(m, vectors, 0, 1, pair, indices);
    case 3:
        return low_modes(m, vectors, 0, 1, pair, indices) && low_modes(m, vectors, 2, 1, one + 1, indices + 1);
    case 4:
        return low_modes(m, vectors, 0, 2, of_four, indices);
    default:
        return low_modes(m, vectors, 0, 2, of_five, indices) && low_modes(m, vectors, 4, 1, one + 2, indices + 2);
    }
}

static int print_low_modes(const measurement *m, const milcgpu_plugin_eigen_call *vectors) {
    const double begin = milcgpu_plugin_seconds();
    if (!all_low_modes(m, vectors))
        return 0;
#ifdef CGTIME
    node0_printf("Time for exact low modes %g sec\n", milcgpu_plugin_seconds() - begin);
#else
    (void)begin;
#endif
    print_sums(m, "LOW", 1, -1);
    return 1;
}

/* ---- noise ------------------------------------------------------------------------------------------------------- */

static int solve(const measurement *m, int from, int to, int parity, quark_invert_control *qic, Real mass,
                 const imp_ferm_links_t *fn) {
    milcgpu_solve_report *const reports =
        (milcgpu_solve_report *)milcgpu_room(m->vectors * sizeof(milcgpu_solve_report), "reports");
    milcgpu_plugin_solve_call call;
    int done;
    qic->parity = parity;
    call = milcgpu_solve_call(MILCGPU_KS_CONGRAD_BLOCK, milcgpu_vector_field(NULL), milcgpu_vector_field(NULL), qic,
                              mass, fn);
    /* The difference is the error of the sloppy solution, so this solution must not depend on other sources. */
    call.one_by_one = m->sloppy != NULL && qic >= m->sloppy && qic < m->sloppy + m->n;
    done = milcgpu_plugin_current_solve(&call, from, to, reports);
    if (done)
        milcgpu_account_parity(parity, m->vectors, reports, qic);
    free(reports);
    return done;
}

/* Adds the currents of a slot, times weight, to the sums of `index`. */
static int add(const measurement *m, int slot, int parity, const imp_ferm_links_t *fn, int index, double weight) {
    const int n = m->fields * m->numbers;
    double *const sums = (double *)milcgpu_room(n * sizeof(double), "sums"), *const to = sums_of(m, index);
    const int done = milcgpu_plugin_current_sums(ape_links, milcgpu_ape_links_have_phases(), fn->fat, fn->lng, parity,
                                                 m->fields, slot, sums);
    int i;
    for (i = 0; done && i < n; i++)
        to[i] += weight * sums[i];
    free(sums);
    return done;
}

static const char *sites_of(int parity) { return parity == EVEN ? "EVEN" : "ODD"; }

static int of_one_mass(const measurement *m, int k, double sign, const char *how, int parity,
                       quark_invert_control *qic) {
    node0_printf("Solving %sfor all %s displacements for mass %g\n", how, sites_of(parity), m->mass[k]);
    return solve(m, 0, 1, parity, &qic[k], m->mass[k], m->fn[k]) && add(m, 1, parity, m->fn[k], k, -sign);
}

static int of_a_pair(const measurement *m, double sign, const char *how, int parity, quark_invert_control *qic) {
    node0_printf("Solving %sfor all %s displacements for mass diff %s%g %g\n", how, sites_of(parity),
                 m->is_difference || parity == ODD ? "" : " ", m->mass[0], m->mass[1]);
    return solve(m, 0, 1, parity, qic, m->mass[0], m->fn[0]) && solve(m, 1, 2, parity, qic, m->mass[1], m->fn[0]) &&
           add(m, 2, parity, m->fn[0], 0, -sign * difference_of(m->mass[0], m->mass[1]));
}

/* Four masses are u d s c, five are u d l s c. Computes u - d, and u - s or l - s, from one solve for u or l. */
static int of_two_pairs(const measurement *m, double sign, const char *how, int parity, quark_invert_control *qic) {
    const int light = m->n == 4 ? 0 : 2, strange = m->n == 4 ? 2 : 3, down = m->n == 4 ? 1 : 2;
    node0_printf("Solving %sfor all %s displacements for mass diff %g %g and %g %g\n", how, sites_of(parity),
                 m->mass[0], m->mass[1], m->mass[light], m->mass[strange]);
    return solve(m, 0, 1, parity, qic, m->mass[light], m->fn[2]) &&
           solve(m, 1, 2, parity, qic, m->mass[down], m->fn[0]) &&
           solve(m, 1, 3, parity, qic, m->mass[strange], m->fn[2]) &&
           add(m, 3, parity, m->fn[2], 2, -sign * difference_of(m->mass[light], m->mass[strange])) &&
           add(m, 2, parity, m->fn[0], 0, -sign * difference_of(m->mass[0], m->mass[1]));
}

/* All solves with one of MILC's two controls. */
static int all_of(const measurement *m, double sign, const char *how, quark_invert_control *qic) {
    int parity, done = 1;
    for (parity = EVEN; done && parity >= ODD; parity--) {
        if (m->n == 1)
            done = of_one_mass(m, 0, sign, how, parity, qic);
        else if (m->n <= 3)
            done = of_a_pair(m, sign, how, parity, qic);
        else
            done = of_two_pairs(m, sign, how, parity, qic);
        /* With four masses, MILC has the last mass on odd sites only if it takes a difference. */
        if (done && m->n >= 3 && !(m->n == 4 && parity == ODD && !m->is_difference))
            done = of_one_mass(m, m->n - 1, sign, how, parity, qic);
    }
    return done;
}

static int high_modes(const measurement *m, quark_invert_control *qic, quark_invert_control *sloppy) {
    memset(m->j, 0, (size_t)m->n * together * m->numbers * sizeof(double));
    if (m->is_difference)
        return all_of(m, -1, "sloppily ", sloppy) && all_of(m, 1, "precisely ", qic);
    return all_of(m, 1, m->n < 4 ? "" : "sloppily ", qic);
}

/* Draws MILC's noise. 0: it is not on the device. */
static int make_noise(su3_vector *const *noise, int fields, int thinning, const milcgpu_plugin_eigen_call *vectors) {
    milcgpu_field random[together];
    int k;
    for (k = 0; k < fields; k++) {
#ifdef Z2RSOURCE
        milcgpu_there(z2rsource_plain_field)(noise[k], EVENANDODD);
#else
        milcgpu_there(grsource_plain_field)(noise[k], EVENANDODD);
#endif
        random[k] = milcgpu_vector_field(noise[k]);
    }
    return milcgpu_plugin_current_sources(fields, random, thinning, vectors);
}

static double_prn *random_state(void) {
    double_prn *const state = (double_prn *)milcgpu_room(sites_on_node * sizeof(double_prn), "random numbers");
    size_t i;
    for (i = 0; i < sites_on_node; i++)
        state[i] = lattice[i].site_prn;
    return state;
}
static void back_to(const double_prn *state) {
    size_t i;
    for (i = 0; i < sites_on_node; i++)
        lattice[i].site_prn = state[i];
}

static const char *why_own_currents(int n, int nrand, int thinning, int vectors) {
    return n < 1 || n > most_masses            ? "MILC's own: more than five masses, or none"
           : nrand < 1                         ? "MILC's own: there are no random sources"
           : thinning < 2 || thinning % 2 != 0 ? "MILC's own: source_spacing is odd, or below 2"
           : vectors > 1000                    ? "MILC's own: more than 1000 sources at once"
           : ape_links == NULL                 ? "MILC's own: there are no APE links"
           : milcgpu_offloads() && milcgpu_plugin_compare()
               ? "MILC's own in compare mode: its solves, D and shifts are compared one by one"
               : NULL;
}

/* f_meas_current or, with `sloppy`, f_meas_current_diff. Returns the number of random sources that are done. The random
 * numbers are then as they were before the remaining sources. */
static int currents(int n, int nrand, int thinning, quark_invert_control *qic, quark_invert_control *sloppy,
                    const Real *mass, const Real *charges, imp_ferm_links_t **fn) {
    int origin[4] = {0, 0, 0, 0};
    const int fields = nrand < together ? nrand : together, each = thinning * thinning * thinning * thinning / 2;
    const int slots = n == 1 ? 2 : n < 4 ? 3 : 4, Nvecs = param.eigen_param.Nvecs;
    const int with_low = Nvecs > 0 && sloppy == NULL;
    measurement m = {n, fields, fields * each, directions * nt, mass, charges, fn, sloppy != NULL, sloppy, NULL};
    milcgpu_plugin_eigen_call vectors;
    imp_ferm_links_t *of_vectors = NULL;
    su3_vector *noise[together] = {NULL, NULL};
    int k, first = 0, printed = 0, done;
    if (milcgpu_declines(MILCGPU_MEAS_CURRENT, why_own_currents(n, nrand, thinning, m.vectors)))
        return 0;
    milcgpu_need(MILCGPU_SOLUTIONS, "f_meas_current");
    milcgpu_phases_into_ape_links(origin);
    if (Nvecs > 0 && !milcgpu_eigenvectors_ready(&vectors, &of_vectors))
        return 0;
    done = milcgpu_plugin_current_begin(m.vectors, slots);
    m.j = (double *)milcgpu_room((size_t)n * together * m.numbers * sizeof(double), "currents");
    for (k = 0; done && k < fields; k++)
        noise[k] = (su3_vector *)milcgpu_room(sites_on_node * sizeof(su3_vector), "a random field");
    for (; done && first < nrand; first += fields) {
        double_prn *const state = random_state();
        double seconds = -milcgpu_plugin_seconds();
        done = make_noise(noise, fields, thinning, Nvecs > 0 ? &vectors : NULL);
        seconds += milcgpu_plugin_seconds();
        if (done && first == 0 && with_low) /* after the noise: otherwise MILC's own would print them again */
            printed = done = print_low_modes(&m, &vectors);
#ifdef CGTIME
        for (k = 0; done && Nvecs > 0 && k < 2 * m.vectors; k++)
            node0_printf("Time to project out low modes %g sec\n", seconds / (2 * m.vectors));
#else
        (void)seconds;
#endif
        done = done && high_modes(&m, qic, sloppy);
        if (done)
            print_sums(&m, m.is_difference ? "DIFF" : "HI", fields, first);
        else
            back_to(state);
        free(state);
        if (!done)
            break;
    }
    if (!done && (first > 0 || printed) && this_node == 0)
        fprintf(stderr,
                "milcgpu: f_meas_current: %d of %d random sources are done. MILC's own routine does the others%s%s\n",
                first, nrand, first > 0 ? ", and numbers them from 0" : "",
                printed ? ". It prints the lines of low modes (JTMULOW) a second time" : "");
    milcgpu_plugin_current_end();
    for (k = 0; k < together; k++)
        free(noise[k]);
    free(m.j);
    if (of_vectors != NULL)
        milcgpu_give_back_links(of_vectors);
    fflush(stdout);
    return first < nrand ? first : nrand;
}

#else

static int currents(int n, int nrand, int thinning, quark_invert_control *qic, quark_invert_control *sloppy,
                    const Real *mass, const Real *charges, imp_ferm_links_t **fn) {
    (void)n, (void)nrand, (void)thinning, (void)qic, (void)sloppy, (void)mass, (void)charges, (void)fn;
    milcgpu_declines(MILCGPU_MEAS_CURRENT, "MILC's own: this program was built with QED_LOOP, with eigCG, without "
                                           "CURRENT_DISC or without SITERAND");
    return 0;
}

#endif

/* Number of sources that are left for MILC's own routine. */
static int left_of_currents(int masses, int nrand, int thinning, quark_invert_control *qic,
                            quark_invert_control *sloppy, Real *mass, Real *charges, imp_ferm_links_t **fn) {
    const int done = currents(masses, nrand, thinning, qic, sloppy, mass, charges, fn);
    if (done < nrand || nrand < 1)
        milcgpu_need_eigenvectors();
    return nrand - done;
}
void __wrap_f_meas_current(int masses, int nrand, int thinning, quark_invert_control *qic, Real *mass, Real *charges,
                           imp_ferm_links_t **fn, Real *u1, char (*files)[MAXFILENAME]) {
    const int left = left_of_currents(masses, nrand, thinning, qic, NULL, mass, charges, fn);
    if (left > 0 || nrand < 1)
        milcgpu_original(f_meas_current)(masses, left, thinning, qic, mass, charges, fn, u1, files);
}
void __wrap_f_meas_current_diff(int masses, int nrand, int thinning, quark_invert_control *precise,
                                quark_invert_control *sloppy, Real *mass, Real *charges, imp_ferm_links_t **fn,
                                Real *u1, char (*files)[MAXFILENAME]) {
    const int left = left_of_currents(masses, nrand, thinning, precise, sloppy, mass, charges, fn);
    if (left > 0 || nrand < 1)
        milcgpu_original(f_meas_current_diff)(masses, left, thinning, precise, sloppy, mass, charges, fn, u1, files);
}
