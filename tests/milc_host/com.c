/* Gathers, generators of random numbers, the source of a pseudofermion. As in MILC, make_gather goes through all sites
 * in their order, and make_nn_gathers calls the make_gather of this file. */
#include "../generic_ks/generic_ks_includes.h"
#include "checks.h"
#include "ks_imp_includes.h"
#include <string.h>

int own_generators;

typedef struct rank_list {
    struct rank_list *next;
    int rank, n[2], *sites[2]; /* of both parities */
} rank_list;
static struct direction {
    int *table;
    rank_list *gets, *gives; /* for each other rank: sites that gather from it, sites from which it gathers */
} * dirs;
static int directions;
long steps_of_gathers; /* sites that the loops of make_gather have seen */

int gathered_from(int dir, size_t site) { return dirs[dir].table[site]; }

const int *gathered_list(int dir, int gives, int rank, int parity, int *n) {
    const rank_list *l = gives ? dirs[dir].gives : dirs[dir].gets;
    while (l != NULL && l->rank != rank)
        l = l->next;
    *n = l != NULL ? l->n[parity] : 0;
    return l != NULL ? l->sites[parity] : NULL;
}

typedef void mapping(int, int, int, int, int *, int, int *, int *, int *, int *);

/* Whether the mapping keeps its promises. */
static void check_mapping(mapping *map, int *args, int inverse, int parity) {
    int x, y, z, t, x2, y2, z2, t2;
    size_t i;
    const site *s;
    for (i = 0, s = lattice; i < sites_on_node; i++, s++) {
        steps_of_gathers++;
        map(s->x, s->y, s->z, s->t, args, FORWARDS, &x, &y, &z, &t);
        if (parity == SWITCH_PARITY && (x + y + z + t + s->x + s->y + s->z + s->t) % 2 == 0) {
            printf("a gather keeps the parity of a site\n");
            terminate(1);
        }
        if (inverse == OWN_INVERSE) {
            map(x, y, z, t, args, FORWARDS, &x2, &y2, &z2, &t2);
            if (x2 != s->x || y2 != s->y || z2 != s->z || t2 != s->t) {
                printf("a gather is not its own inverse\n");
                terminate(1);
            }
        }
    }
}

static void fill_table(int *table, mapping *map, int *args, int way) {
    int x, y, z, t;
    size_t i;
    const site *s;
    for (i = 0, s = lattice; i < sites_on_node; i++, s++) {
        steps_of_gathers++;
        map(s->x, s->y, s->z, s->t, args, way, &x, &y, &z, &t);
        table[i] = node_number(x, y, z, t) == mynode() ? (int)node_index(x, y, z, t) : -1;
    }
}

/* By the indices that the sites' partners have on the other rank. */
static void sort_list(int *sites, int n, mapping *map, int *args, int way) {
    int *const keys = (int *)malloc(n * sizeof *keys);
    int x, y, z, t, k, m;
    for (k = 0; k < n; k++) {
        const site *const s = &lattice[sites[k]];
        map(s->x, s->y, s->z, s->t, args, way, &x, &y, &z, &t);
        keys[k] = (int)node_index(x, y, z, t);
    }
    for (k = 1; k < n; k++)
        for (m = k; m > 0 && keys[m - 1] > keys[m]; m--) {
            const int key = keys[m], site = sites[m];
            keys[m] = keys[m - 1], keys[m - 1] = key;
            sites[m] = sites[m - 1], sites[m - 1] = site;
        }
    free(keys);
}

/* For each rank other than this one, the sites whose partner it has, in the order of the lower rank. In the list of
 * gathering sites and in that of their partners the parity is a gathering site's. */
static rank_list *make_lists(mapping *map, int *args, int way, int gives) {
    int(*const n)[2] = (int(*)[2])malloc(numnodes() * sizeof *n);
    rank_list **const of = (rank_list **)malloc(numnodes() * sizeof *of), *first = NULL, **last = &first;
    const int longer = getenv("MILC_HOST_LONGER_LISTS") != NULL;
    int pass, r, x, y, z, t, parity;
    size_t i;
    const site *s;
    memset(n, 0, numnodes() * sizeof *n);
    for (pass = 0; pass < 2; pass++) {
        for (i = 0, s = lattice; i < sites_on_node; i++, s++) {
            steps_of_gathers++;
            map(s->x, s->y, s->z, s->t, args, way, &x, &y, &z, &t);
            parity = (gives ? x + y + z + t : s->x + s->y + s->z + s->t) % 2;
            r = node_number(x, y, z, t);
            if (r != mynode() && pass == 1)
                of[r]->sites[parity][n[r][parity]] = (int)i;
            n[r][parity] += r != mynode();
        }
        for (r = 0; r < numnodes() && pass == 0; r++) {
            if (n[r][0] + n[r][1] == 0)
                continue;
            of[r] = *last = (rank_list *)malloc(sizeof **last);
            last = &of[r]->next;
            of[r]->next = NULL;
            of[r]->rank = r;
            of[r]->n[0] = n[r][0], of[r]->n[1] = n[r][1];
            of[r]->sites[0] = (int *)malloc((n[r][0] + n[r][1] + longer) * sizeof(int));
            of[r]->sites[1] = of[r]->sites[0] + n[r][0];
            n[r][0] = n[r][1] = 0;
        }
    }
    for (r = 0; r < mynode(); r++)
        for (parity = 0; parity < 2; parity++)
            if (n[r][parity] > 0)
                sort_list(of[r]->sites[parity], n[r][parity], map, args, way);
    free(of), free(n);
    return first;
}

/* The same sites, by the parity of their partners. */
static rank_list *switched(const rank_list *from) {
    rank_list *first = NULL, **last = &first;
    for (; from != NULL; from = from->next) {
        *last = (rank_list *)malloc(sizeof **last);
        (*last)->next = NULL;
        (*last)->rank = from->rank;
        (*last)->n[0] = from->n[1], (*last)->n[1] = from->n[0];
        (*last)->sites[0] = from->sites[1], (*last)->sites[1] = from->sites[0];
        last = &(*last)->next;
    }
    return first;
}

/* Allocates before it loops, the table of the inverse first. With MILC_HOST_OTHER_GATHERS it allocates this table last.
 */
int make_gather(mapping *map, int *args, int inverse, int want_even_odd, int parity) {
    const int ways = inverse == WANT_INVERSE ? 2 : 1, late = getenv("MILC_HOST_OTHER_GATHERS") != NULL;
    const size_t bytes = sites_on_node * sizeof(int);
    const int dir = directions;
    struct direction *there, *back;
    (void)want_even_odd;
    directions += ways;
    dirs = (struct direction *)realloc(dirs, directions * sizeof *dirs);
    there = &dirs[dir], back = &dirs[dir + ways - 1];
    if (ways == 2 && !late)
        back->table = (int *)malloc(bytes);
    there->table = (int *)malloc(bytes);
    check_mapping(map, args, inverse, parity);
    fill_table(there->table, map, args, FORWARDS);
    there->gets = make_lists(map, args, FORWARDS, 0);
    there->gives = make_lists(map, args, BACKWARDS, 1);
    if (ways == 1)
        return dir;
    if (late)
        back->table = (int *)malloc(bytes);
    fill_table(back->table, map, args, BACKWARDS);
    back->gets = parity == SWITCH_PARITY ? switched(there->gives) : there->gives;
    back->gives = parity == SWITCH_PARITY ? switched(there->gets) : there->gets;
    return dir;
}

void sort_eight_gathers(int first) {
    struct direction unsorted[8];
    int k;
    memcpy(unsorted, dirs + first, sizeof unsorted);
    for (k = 0; k < 4; k++) {
        dirs[first + k] = unsorted[2 * k];
        dirs[first + OPP_DIR(k)] = unsorted[2 * k + 1];
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
