/* Gathers, generators of random numbers, the source of a pseudofermion. As in MILC, make_gather goes through all sites
 * in their order, and make_nn_gathers calls the make_gather of this file. */
#include "../generic_ks/generic_ks_includes.h"
#include "checks.h"
#include "ks_imp_includes.h"
#include <string.h>

int own_generators;

static int **tables, directions;
long steps_of_gathers, elsewhere; /* sites that the loops of make_gather have seen; with neighbours on other ranks */

int gathered_from(int dir, size_t site) { return tables[dir][site]; }

typedef void mapping(int, int, int, int, int *, int, int *, int *, int *, int *);

/* A loop over the sites. table: where the neighbour's index goes; NULL: it looks whether the mapping keeps its
 * promises, or for neighbours of other ranks. */
static void go_through(int *table, mapping *map, int *args, int way, int inverse, int parity) {
    int x, y, z, t, x2, y2, z2, t2;
    size_t i;
    const site *s;
    for (i = 0, s = lattice; i < sites_on_node; i++, s++) {
        steps_of_gathers++;
        map(s->x, s->y, s->z, s->t, args, way, &x, &y, &z, &t);
        if (table != NULL)
            table[i] = node_number(x, y, z, t) == mynode() ? (int)node_index(x, y, z, t) : -1;
        else if (parity == SWITCH_PARITY && (x + y + z + t + s->x + s->y + s->z + s->t) % 2 == 0) {
            printf("a gather keeps the parity of a site\n");
            terminate(1);
        } else if (parity == SCRAMBLE_PARITY && node_number(x, y, z, t) != mynode())
            elsewhere++;
        if (inverse == OWN_INVERSE) {
            map(x, y, z, t, args, way, &x2, &y2, &z2, &t2);
            if (x2 != s->x || y2 != s->y || z2 != s->z || t2 != s->t) {
                printf("a gather is not its own inverse\n");
                terminate(1);
            }
        }
    }
}

/* Allocates before it loops, the table of the inverse first. With MILC_HOST_OTHER_GATHERS it allocates this table last.
 */
int make_gather(mapping *map, int *args, int inverse, int want_even_odd, int parity) {
    const int ways = inverse == WANT_INVERSE ? 2 : 1, late = getenv("MILC_HOST_OTHER_GATHERS") != NULL;
    const size_t bytes = sites_on_node * sizeof(int);
    const int dir = directions;
    int pass;
    (void)want_even_odd;
    directions += ways;
    tables = (int **)realloc(tables, directions * sizeof(int *));
    if (ways == 2 && !late)
        tables[dir + 1] = (int *)malloc(bytes);
    tables[dir] = (int *)malloc(bytes);
    go_through(NULL, map, args, FORWARDS, inverse, parity);
    go_through(tables[dir], map, args, FORWARDS, NO_INVERSE, parity);
    for (pass = 0; pass < 4; pass++)
        go_through(NULL, map, args, pass < 2 ? FORWARDS : BACKWARDS, NO_INVERSE, SCRAMBLE_PARITY);
    if (ways == 2 && late)
        tables[dir + 1] = (int *)malloc(bytes);
    if (ways == 2)
        go_through(tables[dir + 1], map, args, BACKWARDS, NO_INVERSE, parity);
    return dir;
}

void sort_eight_gathers(int first) {
    int *unsorted[8], k;
    memcpy(unsorted, tables + first, sizeof unsorted);
    for (k = 0; k < 4; k++) {
        tables[first + k] = unsorted[2 * k];
        tables[first + OPP_DIR(k)] = unsorted[2 * k + 1];
    }
}

static void neighbour(int x, int y, int z, int t, int *mu, int way, int *x2, int *y2, int *z2, int *t2) {
    const int extent[4] = {nx, ny, nz, nt};
    int *const to[4] = {x2, y2, z2, t2};
    *x2 = x, *y2 = y, *z2 = z, *t2 = t;
    *to[*mu] = (*to[*mu] + way + extent[*mu]) % extent[*mu];
}

void make_nn_gathers(void) {
    int mu;
    if (directions != 0) {
        printf("make_nn_gathers must come first\n");
        terminate(1);
    }
    for (mu = XUP; mu <= TUP; mu++)
        make_gather(neighbour, &mu, WANT_INVERSE, ALLOW_EVEN_ODD, SWITCH_PARITY);
    sort_eight_gathers(0);
}

/* A set of parameters is: mass NUMBER. */
int readin(int prompt) {
    char word[80];
    double mass;
    int found;
    (void)prompt;
    do
        found = scanf("%79s", word);
    while (found == 1 && *word == '#' && fgets(word, sizeof word, stdin) != NULL);
    return found != 1 || strcmp(word, "mass") != 0 || scanf("%lf", &mass) != 1;
}

void initialize_prn(double_prn *prn, milc_seed seed, milc_seed index) { prn->state = 1000003ul * seed + index; }

void initialize_site_prn_from_seed(milc_seed seed) {
    static int calls;
    size_t i;
    own_generators++;
#ifdef MILC_HOST_MASTER
    calls++;
#endif
    if (calls++ > 0)
        printf("WARNING!!: Resetting random seed\n");
    for (i = 0; i < sites_on_node; i++)
        initialize_prn(&lattice[i].site_prn, seed, lattice[i].index);
}

int own_sources;

/* As in MILC, the sum of squares is printed, and it is summed in the order of the sites. */
void grsource_imp_rhmc(field_offset dest, params_ratfunc *rf, int parity, su3_vector **multi_x, su3_vector *sumvec,
                       Real rsqmin, int niter, int prec, imp_ferm_links_t *fn, int naik_index, Real naik_epsilon) {
    const size_t first = parity == ODD ? even_sites_on_node : 0;
    const size_t end = parity == EVEN ? even_sites_on_node : sites_on_node;
    double sum = 0;
    Real rsq;
    size_t i;
    int c;
    own_sources++;
    for (i = first; i < end; i++) {
        for (c = 0; c < 3; c++)
            lattice[i].g_rand.c[c] = complex_gaussian_rand_no(&lattice[i].site_prn);
        sum += (double)magsq_su3vec(&lattice[i].g_rand);
    }
    g_doublesum(&sum);
    node0_printf("GRSOURCE: sum = %.10e\n", sum);
    ks_ratinv(F_OFFSET(g_rand), multi_x, rf->pole, rf->res, rf->order, niter, rsqmin, prec, parity, &rsq, fn,
              naik_index, naik_epsilon);
    ks_rateval(sumvec, F_OFFSET(g_rand), multi_x, rf->res, rf->order, parity);
    for (i = first; i < end; i++)
        *(su3_vector *)F_PT(&lattice[i], dest) = sumvec[i];
    node0_printf("GRSOURCETIME: time = %e\n", 0.);
}
