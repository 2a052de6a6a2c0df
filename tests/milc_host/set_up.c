/* What MILC does as it begins: tables of neighbours, and the sites' random numbers. */
#include "../generic_ks/generic_ks_includes.h"
#include <string.h>

void check(int good, const char *what, double value);

extern size_t sites_tabulated, sites_seeded; /* by MILC's own */

static void third(int x, int y, int z, int t, int *args, int fb, int *x2, int *y2, int *z2, int *t2) {
    const int extent[4] = {nx, ny, nz, nt};
    int at[4] = {x, y, z, t};
    at[*args] = (at[*args] + 4 * extent[*args] + 3 * fb) % extent[*args];
    *x2 = at[0], *y2 = at[1], *z2 = at[2], *t2 = at[3];
}

/* x and y change places where they can. */
static void mirrored(int x, int y, int z, int t, int *args, int fb, int *x2, int *y2, int *z2, int *t2) {
    (void)args, (void)fb;
    *x2 = y < nx ? y : x, *y2 = y < nx ? x : y, *z2 = z, *t2 = t;
}

static void halved(int x, int y, int z, int t, int *args, int fb, int *x2, int *y2, int *z2, int *t2) {
    (void)fb;
    *x2 = x / *args, *y2 = y, *z2 = z, *t2 = t;
}

static void outside(int x, int y, int z, int t, int *args, int fb, int *x2, int *y2, int *z2, int *t2) {
    third(x, y, z, t, args, fb, x2, y2, z2, t2);
    *t2 = z == 1 ? nt : *t2;
}

static int gathers(int index, neighbour_map map, int *args, int fb) {
    char **from = (char **)calloc(sites_on_node, sizeof(char *));
    char *field = (char *)calloc(sites_on_node, 8);
    size_t i;
    int good = 1;
    start_gather_field(field, 8, index, EVENANDODD, from);
    for (i = 0; i < sites_on_node; i++) {
        const site *s = &lattice[i];
        int x, y, z, t;
        map(s->x, s->y, s->z, s->t, args, fb, &x, &y, &z, &t);
        good &= from[i] == field + 8 * node_index(x, y, z, t);
    }
    free(from), free(field);
    return good;
}

static void try_seeds(void) {
    size_t i;
    int wrong = 0;
    for (i = 0; i < sites_on_node; i++)
        memset(&lattice[i].site_prn, 0, sizeof lattice[i].site_prn);
    initialize_site_prn_from_seed(1234);
    for (i = 0; i < sites_on_node; i++) {
        double_prn expected;
        initialize_prn(&expected, 1234, lattice[i].index);
        wrong += memcmp(&expected, &lattice[i].site_prn, sizeof expected) != 0;
    }
    check(wrong == 0, "random numbers of the sites", wrong);
    initialize_site_prn_from_seed(77); /* MILC warns */
}

void try_set_up(const char *what) {
    int d, k, two = 2, at;
    make_nn_gathers();
    for (d = XUP; d <= TUP; d++) {
        at = make_gather(third, &d, WANT_INVERSE, ALLOW_EVEN_ODD, SWITCH_PARITY);
        check(at == 8 + 2 * d, "number of a gather", at);
        check(gathers(at, third, &d, FORWARDS) && gathers(at + 1, third, &d, BACKWARDS), "three steps", d);
    }
    at = make_gather(mirrored, NULL, OWN_INVERSE, ALLOW_EVEN_ODD, SAME_PARITY);
    check(gathers(at, mirrored, NULL, FORWARDS), "a map that is its inverse", at);
    at = make_gather(halved, &two, NO_INVERSE, NO_EVEN_ODD, SCRAMBLE_PARITY);
    check(gathers(at, halved, &two, FORWARDS), "a map without an inverse", at);
    for (k = 0; k < 8; k++) {
        /* the nearest neighbours, by what they are of the site */
        char **from = (char **)calloc(sites_on_node, sizeof(char *));
        size_t i;
        int good = 1;
        start_gather_field(lattice, sizeof(site), k, EVENANDODD, from);
        for (i = 0; i < sites_on_node; i++) {
            const int extent[4] = {nx, ny, nz, nt}, along = k < 4 ? k : OPP_DIR(k);
            const site *to = (const site *)from[i];
            int here[4] = {lattice[i].x, lattice[i].y, lattice[i].z, lattice[i].t};
            here[along] = (here[along] + extent[along] + (k < 4 ? 1 : -1)) % extent[along];
            good &= to->x == here[0] && to->y == here[1] && to->z == here[2] && to->t == here[3];
        }
        check(good, "nearest neighbours", k);
        free(from);
    }
    try_seeds();
    printf("MILC's own: %lu entries, %lu seeds\n", (unsigned long)sites_tabulated, (unsigned long)sites_seeded);
    d = TUP;
    if (strcmp(what, "outside") == 0)
        make_gather(outside, &d, WANT_INVERSE, ALLOW_EVEN_ODD, SWITCH_PARITY);
    if (strcmp(what, "parity") == 0)
        make_gather(third, &d, WANT_INVERSE, ALLOW_EVEN_ODD, SAME_PARITY);
    if (strcmp(what, "inverse") == 0)
        make_gather(third, &d, OWN_INVERSE, ALLOW_EVEN_ODD, SWITCH_PARITY);
}
