/* Gathers and generators of random numbers. As in MILC, make_gather goes through all sites in their order, and
 * make_nn_gathers calls the make_gather of this file. */
#include "../generic_ks/generic_ks_includes.h"
#include "checks.h"
#include <string.h>

int own_generators;

static int **tables, directions;

int gathered_from(int dir, size_t site) { return tables[dir][site]; }

static void fill(int *table, void (*map)(int, int, int, int, int *, int, int *, int *, int *, int *), int *args,
                 int way, int parity) {
    int x, y, z, t;
    size_t i;
    for (i = 0; i < sites_on_node; i++) {
        const site *s = &lattice[i];
        map(s->x, s->y, s->z, s->t, args, way, &x, &y, &z, &t);
        if (parity == SWITCH_PARITY && (x + y + z + t + s->x + s->y + s->z + s->t) % 2 == 0) {
            printf("a gather keeps the parity of a site\n");
            terminate(1);
        }
        table[i] = (int)node_index(x, y, z, t);
    }
}

int make_gather(void (*map)(int, int, int, int, int *, int, int *, int *, int *, int *), int *args, int inverse,
                int want_even_odd, int parity) {
    const int ways = inverse == WANT_INVERSE ? 2 : 1;
    int k;
    (void)want_even_odd;
    tables = (int **)realloc(tables, (directions + ways) * sizeof(int *));
    for (k = 0; k < ways; k++) {
        tables[directions + k] = (int *)malloc(sites_on_node * sizeof(int));
        fill(tables[directions + k], map, args, k == 0 ? FORWARDS : BACKWARDS, parity);
    }
    directions += ways;
    return directions - ways;
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
