/* Tables of neighbours on one rank: static, and made for all sites of this rank by a routine that hands out a number.
 * MILC_HOST_TABLES=swapped: the map's table is asked for before its inverse's, =more: a table more than MILC has. */
#include "../generic_ks/generic_ks_includes.h"
#include <string.h>

static struct { int *neighbour; } * tables;
static int n_tables;
size_t sites_tabulated; /* by this file */

static int tables_are(const char *what) {
    const char *name = getenv("MILC_HOST_TABLES");
    return name != NULL && strcmp(name, what) == 0;
}

static void nearest(int x, int y, int z, int t, int *args, int fb, int *x2, int *y2, int *z2, int *t2) {
    const int extent[4] = {nx, ny, nz, nt};
    int at[4] = {x, y, z, t};
    at[*args] = (at[*args] + extent[*args] + fb) % extent[*args];
    *x2 = at[0], *y2 = at[1], *z2 = at[2], *t2 = at[3];
}

static void new_table(int k) { tables[k].neighbour = (int *)malloc(sites_on_node * sizeof(int)); }

static void fill(int k, neighbour_map map, int *args, int fb) {
    size_t i;
    for (i = 0; i < sites_on_node; i++, sites_tabulated++) {
        const site *s = &lattice[i];
        int x, y, z, t;
        map(s->x, s->y, s->z, s->t, args, fb, &x, &y, &z, &t);
        tables[k].neighbour[i] = (int)node_index(x, y, z, t);
    }
}

static void judge(neighbour_map map, int *args, int inverse, int parity_conserve) {
    const char *wrong = NULL;
    size_t i;
    for (i = 0; i < sites_on_node; i++) {
        const site *s = &lattice[i];
        int x, y, z, t, back[4];
        map(s->x, s->y, s->z, s->t, args, FORWARDS, &x, &y, &z, &t);
        if (x < 0 || x >= nx || y < 0 || y >= ny || z < 0 || z >= nz || t < 0 || t >= nt) {
            wrong = "leaves the lattice";
            break;
        }
        if (parity_conserve == SAME_PARITY && (x + y + z + t + s->x + s->y + s->z + s->t) % 2 != 0)
            wrong = "changes the parity";
        if (parity_conserve == SWITCH_PARITY && (x + y + z + t + s->x + s->y + s->z + s->t) % 2 == 0)
            wrong = "keeps the parity";
        map(x, y, z, t, args, FORWARDS, &back[0], &back[1], &back[2], &back[3]);
        if (inverse == OWN_INVERSE && (back[0] != s->x || back[1] != s->y || back[2] != s->z || back[3] != s->t))
            wrong = "is not its inverse";
    }
    if (wrong == NULL)
        return;
    printf("a map %s\n", wrong);
    terminate(1);
}

int make_gather(neighbour_map map, int *args, int inverse, int want_even_odd, int parity_conserve) {
    const int first = n_tables;
    (void)want_even_odd;
    n_tables += inverse == WANT_INVERSE ? 2 : 1;
    tables = realloc(tables, n_tables * sizeof *tables);
    if (inverse == WANT_INVERSE && !tables_are("swapped"))
        new_table(first + 1);
    new_table(first);
    if (inverse == WANT_INVERSE && tables_are("swapped"))
        new_table(first + 1);
    if (tables_are("more"))
        free(malloc(sites_on_node * sizeof(int)));
    judge(map, args, inverse, parity_conserve);
    fill(first, map, args, FORWARDS);
    if (inverse == WANT_INVERSE)
        fill(first + 1, map, args, BACKWARDS);
    return first;
}

void make_nn_gathers(void) {
    int d, *made[8];
    for (d = XUP; d <= TUP; d++)
        make_gather(nearest, &d, WANT_INVERSE, ALLOW_EVEN_ODD, SWITCH_PARITY);
    for (d = XUP; d <= TUP; d++) {
        made[d] = tables[2 * d].neighbour;
        made[OPP_DIR(d)] = tables[2 * d + 1].neighbour;
    }
    for (d = 0; d < 8; d++)
        tables[d].neighbour = made[d];
}

msg_tag *start_gather_field(void *field, size_t size, int index, int parity, char **dest) {
    const size_t from = parity == ODD ? even_sites_on_node : 0,
                 to = parity == EVEN ? even_sites_on_node : sites_on_node;
    size_t i;
    for (i = from; i < to; i++)
        dest[i] = (char *)field + tables[index].neighbour[i] * size;
    return NULL;
}
