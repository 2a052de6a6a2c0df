/* make_nn_gathers, make_gather, initialize_site_prn_from_seed: as it begins, MILC makes tables of neighbours and random
 * numbers of the sites on one thread. Here all threads of the host make them, with MILC's own maps and generator.
 *
 * The tables are static in MILC's communication for one rank (com_vanilla.c). So MILC's own makes each for a lattice
 * without sites: it then asks malloc for no bytes, and is handed a table that is filled already. Where it keeps tables
 * in another way, which is tested for each, the run ends.
 */
#include "glue.h"

#include "routines.h"

#if defined(SINGLE) && !defined(N_SUBL32) /* com_vanilla.c, with two sublattices */
#define TABLES_ARE_KNOWN 1
#else
#define TABLES_ARE_KNOWN 0
#endif

#ifdef WANT_INVERSE /* MILC's headers have it, those of a test program may not */

/* In the order in which MILC asks for them: of the inverse before the map. */
#define MOST_TABLES 8
static int *tables[MOST_TABLES];
static int n_tables = 0, handed = 0;

void *milcgpu_next_table(void) { return handed < n_tables ? tables[handed++] : NULL; }

static int make_room(int n) {
    for (n_tables = 0; n_tables < n; n_tables++) {
        tables[n_tables] = (int *)malloc(sites_on_node * sizeof(int));
        if (tables[n_tables] == NULL)
            return 0;
    }
    return 1;
}

static void give_room_back(void) {
    while (n_tables > 0)
        free(tables[--n_tables]);
}

typedef struct {
    milcgpu_site_map map;
    int *arguments;
    int direction, own_inverse, parity_rule;
    int *table;
} table_work;

static int parity_of(int x, int y, int z, int t) { return (x + y + z + t) & 1; }

/* 1: the map breaks one of the rules that MILC tests. */
static int fill_part(void *what, size_t from, size_t to) {
    const table_work *w = (const table_work *)what;
    int broken = 0;
    size_t i;
    for (i = from; i < to; i++) {
        const site *s = &lattice[i];
        int x, y, z, t;
        w->map(s->x, s->y, s->z, s->t, w->arguments, w->direction, &x, &y, &z, &t);
        w->table[i] = (int)node_index(x, y, z, t);
        if (w->direction == BACKWARDS) /* MILC tests no inverse */
            continue;
        if (x < 0 || y < 0 || z < 0 || t < 0 || x >= nx || y >= ny || z >= nz || t >= nt)
            broken = 1;
        else if (w->parity_rule != SCRAMBLE_PARITY &&
                 (parity_of(x, y, z, t) == parity_of(s->x, s->y, s->z, s->t)) != (w->parity_rule == SAME_PARITY))
            broken = 1;
        else if (w->own_inverse) {
            int x2, y2, z2, t2;
            w->map(x, y, z, t, w->arguments, w->direction, &x2, &y2, &z2, &t2);
            broken |= x2 != s->x || y2 != s->y || z2 != s->z || t2 != s->t;
        }
    }
    return broken;
}

/* Whether MILC gathers from where table k says. It is asked for one site, which writes nothing else. */
static int is_table(int direction, int k) {
    char *from[1] = {NULL};
    start_gather_field(lattice, 1, direction, EVENANDODD, from);
    return from[0] == (char *)lattice + tables[k][0];
}

static void end_unless(int all_as_known) {
    if (all_as_known && handed == n_tables) {
        handed = n_tables = 0;
        return;
    }
    fprintf(stderr, "milcgpu: MILC keeps its tables of neighbours in another way than milcgpu knows: the run ends. "
                    "MILCGPU_POOL=0 leaves them to MILC\n");
    terminate(1);
}

int __wrap_make_gather(milcgpu_site_map map, int *arguments, int inverse, int want_even_odd, int parity_rule) {
    const int n = inverse == WANT_INVERSE ? 2 : 1;
    table_work work = {map, arguments, FORWARDS, inverse == OWN_INVERSE, parity_rule, NULL};
    size_t sites = sites_on_node;
    int direction, ready = TABLES_ARE_KNOWN && make_room(n);
    if (ready) {
        work.table = tables[n - 1];
        ready = milcgpu_plugin_by_all_threads(sites, fill_part, &work) == 0;
    }
    if (ready && n == 2) {
        work.direction = BACKWARDS;
        work.table = tables[0];
        ready = milcgpu_plugin_by_all_threads(sites, fill_part, &work) == 0;
    }
    if (!ready) { /* also where MILC ends the run, and says why */
        give_room_back();
        return milcgpu_original(make_gather)(map, arguments, inverse, want_even_odd, parity_rule);
    }
    sites_on_node = 0;
    direction = milcgpu_original(make_gather)(map, arguments, inverse, want_even_odd, parity_rule);
    sites_on_node = 1;
    ready = is_table(direction, n - 1) && (n == 1 || is_table(direction + 1, 0));
    sites_on_node = sites;
    end_unless(ready);
    return direction;
}

static void nearest(int x, int y, int z, int t, int *direction, int sign, int *x2, int *y2, int *z2, int *t2) {
    const int extents[4] = {nx, ny, nz, nt};
    int to[4] = {x, y, z, t};
    const int d = *direction, n = extents[d];
    to[d] = (to[d] + n + (sign == FORWARDS ? 1 : -1)) % n;
    *x2 = to[0], *y2 = to[1], *z2 = to[2], *t2 = to[3];
}

void __wrap_make_nn_gathers(void) {
    const size_t sites = sites_on_node;
    int d, ready = TABLES_ARE_KNOWN && make_room(8);
    for (d = XUP; ready && d <= TUP; d++) {
        table_work work = {nearest, &d, BACKWARDS, 0, SCRAMBLE_PARITY, tables[2 * d]};
        ready = milcgpu_plugin_by_all_threads(sites, fill_part, &work) == 0;
        work.direction = FORWARDS;
        work.table = tables[2 * d + 1];
        ready = ready && milcgpu_plugin_by_all_threads(sites, fill_part, &work) == 0;
    }
    if (!ready) {
        give_room_back();
        milcgpu_original(make_nn_gathers)();
        return;
    }
    sites_on_node = 0;
    milcgpu_original(make_nn_gathers)();
    sites_on_node = 1;
    for (d = XUP; d <= TUP; d++)
        ready = ready && is_table(d, 2 * d + 1) && is_table(OPP_DIR(d), 2 * d);
    sites_on_node = sites;
    end_unless(ready);
}
#else
void *milcgpu_next_table(void) { return NULL; }
#endif

#ifdef SITERAND
static int seed_part(void *seed, size_t from, size_t to) {
    size_t i;
    for (i = from; i < to; i++)
        initialize_prn(&lattice[i].site_prn, *(const uint32_t *)seed, lattice[i].index);
    return 0;
}
#else
static int seed_part(void *seed, size_t from, size_t to) { return seed != NULL && from < to; } /* none to seed */
#endif

/* MILC's own still warns of a second seed: it is called for a lattice without time slices. */
void __wrap_initialize_site_prn_from_seed(milcgpu_seed seed) {
    const int slices = nt;
    if (numnodes() == 1 && milcgpu_plugin_by_all_threads(sites_on_node, seed_part, &seed) == 0)
        nt = 0;
    milcgpu_original(initialize_site_prn_from_seed)(seed);
    nt = slices;
}
