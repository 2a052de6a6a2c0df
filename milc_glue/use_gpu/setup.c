/* The start of a program: MILC's sites, its gathers, the generators of random numbers. A site takes kilobytes. MILC's
 * loops read or write a few bytes of each site, so the start of a program waits for memory. */
#include "glue.h"

#include "routines.h"

#ifdef _OPENMP
#include <omp.h>
#endif

/* The system clears a page at the first touch. All threads touch the pages here; MILC then allocates that memory. */
void __wrap_make_lattice(void) {
    milcgpu_plugin_touch(sites_on_node * sizeof(site));
    milcgpu_original(make_lattice)();
}

/* ---- gathers ----------------------------------------------------------------------------------------------------- */

/* MILC's function that computes the coordinates from which a site gathers. */
typedef void mapping(int, int, int, int, int *, int, int *, int *, int *, int *);

enum { AHEAD = 24 };          /* sites to fetch ahead; 16 to 64 divide the time of a loop by three */
static __thread size_t ahead; /* MILC may loop with several threads */

/* The running call of make_gather. A table has, for each site, the index of the site from which it gathers. If no site
 * of this rank gathers from another rank, all threads fill the tables as soon as MILC has allocated them. sites_on_node
 * is then 1 until MILC returns, so MILC's own loops, which also look for neighbours on other ranks, see the first site
 * alone. */
enum { NOT_MADE = -2 };
static struct {
    mapping *map;
    int *args, inverse, parity;
    size_t sites;  /* of this rank */
    int undecided; /* 1 until MILC calls the mapping */
    int allocated, *tables[2];
} gather;
static int gathers; /* calls of make_gather */

/* On several ranks a mapping without a table of its inverse may have senders that its table does not show. With
 * N_SUBL32 parities differ. */
#ifdef N_SUBL32
static int may_make_tables(void) { return 0; }
#else
static int may_make_tables(void) { return numnodes() == 1 || gather.inverse == WANT_INVERSE; }
#endif
/* Several threads: the number of steps of MILC's loop is fixed. */
static int is_one_of_several_threads(void) {
#ifdef _OPENMP
    return omp_in_parallel();
#else
    return 0;
#endif
}
static int tables_of_gather(void) { return gather.inverse == WANT_INVERSE ? 2 : 1; }

static void find_table(size_t bytes, void *block) {
    if (block == NULL || bytes != gather.sites * sizeof(int))
        return;
    if (gather.allocated < 2)
        gather.tables[gather.allocated] = (int *)block;
    gather.allocated++;
}

/* Returns MILC's index of the site from which a site gathers; NOT_MADE if this site is on another rank, or if MILC
 * refuses such a gather. */
static int gathers_from(const site *s, int way) {
    int x, y, z, t, back[4];
    gather.map(s->x, s->y, s->z, s->t, gather.args, way, &x, &y, &z, &t);
    if (x < 0 || y < 0 || z < 0 || t < 0 || x >= nx || y >= ny || z >= nz || t >= nt ||
        node_number(x, y, z, t) != mynode())
        return NOT_MADE;
    if (way == FORWARDS && gather.parity != SCRAMBLE_PARITY) {
        if (((x + y + z + t + s->x + s->y + s->z + s->t) & 1) != (gather.parity == SWITCH_PARITY))
            return NOT_MADE;
        if (gather.inverse == OWN_INVERSE) {
            gather.map(x, y, z, t, gather.args, way, &back[0], &back[1], &back[2], &back[3]);
            if (back[0] != s->x || back[1] != s->y || back[2] != s->z || back[3] != s->t)
                return NOT_MADE;
        }
    }
    return (int)node_index(x, y, z, t);
}
/* MILC allocates the table of the inverse first. */
static int way_of_table(int k) { return k == tables_of_gather() - 1 ? FORWARDS : BACKWARDS; }
static int table_part(void *unused, size_t from, size_t to) {
    size_t i;
    int k;
    (void)unused;
    for (k = 0; k < gather.allocated; k++)
        for (i = from; i < to; i++)
            if ((gather.tables[k][i] = gathers_from(&lattice[i], way_of_table(k))) == NOT_MADE)
                return 1;
    return 0;
}

static void milcgpu_map_ahead(int x, int y, int z, int t, int *args, int way, int *to_x, int *to_y, int *to_z,
                              int *to_t) {
    if (__atomic_load_n(&gather.undecided, __ATOMIC_RELAXED) &&
        __atomic_exchange_n(&gather.undecided, 0, __ATOMIC_RELAXED)) {
        milcgpu_sees_malloc = NULL;
        if (!is_one_of_several_threads() && may_make_tables() && gather.allocated == tables_of_gather() &&
            milcgpu_plugin_by_all_threads(gather.sites, table_part, NULL) == 0) {
            gather.tables[0][0] = gather.tables[gather.allocated - 1][0] = NOT_MADE; /* MILC fills the first entries */
            sites_on_node = 1;
        }
    }
    ahead = ahead + 1 < gather.sites ? ahead + 1 : 0;
    __builtin_prefetch(&lattice[ahead]);
    gather.map(x, y, z, t, args, way, to_x, to_y, to_z, to_t);
}

/* MILC has filled the first entries while sites_on_node was 1. If they are not in these tables, MILC's tables are
 * elsewhere. The first entries are filled again, because the index of an odd site may depend on sites_on_node. */
static void end_tables(void) {
    int k, elsewhere = 0;
    for (k = 0; k < gather.allocated; k++)
        elsewhere = elsewhere || gather.tables[k][0] != gathers_from(&lattice[0], way_of_table(k));
    sites_on_node = gather.sites;
    for (k = 0; k < gather.allocated; k++)
        gather.tables[k][0] = gathers_from(&lattice[0], way_of_table(k));
    if (elsewhere) {
        fprintf(stderr, "milcgpu: make_gather of this MILC allocates other tables than milcgpu knows. With "
                        "MILCGPU_TEST=no_pool MILC's own fills them; please tell us which MILC this is\n");
        milcgpu_end_of_run();
    }
}

int __wrap_make_gather(mapping *map, int *args, int inverse, int want_even_odd, int parity) {
    int first;
    gathers++;
    gather.map = map, gather.args = args, gather.inverse = inverse, gather.parity = parity;
    gather.sites = sites_on_node;
    gather.allocated = 0;
    gather.undecided = 1;
    milcgpu_sees_malloc = find_table;
    ahead = AHEAD % gather.sites;
    first = milcgpu_original(make_gather)(milcgpu_map_ahead, args, inverse, want_even_odd, parity);
    milcgpu_sees_malloc = NULL;
    if (sites_on_node != gather.sites)
        end_tables();
    return first;
}

static void milcgpu_next_site(int x, int y, int z, int t, int *mu, int way, int *to_x, int *to_y, int *to_z,
                              int *to_t) {
    const int step = way == FORWARDS ? 1 : -1;
    *to_x = *mu == XUP ? (x + step + nx) % nx : x;
    *to_y = *mu == YUP ? (y + step + ny) % ny : y;
    *to_z = *mu == ZUP ? (z + step + nz) % nz : z;
    *to_t = *mu == TUP ? (t + step + nt) % nt : t;
}

/* MILC's own routine calls the make_gather of its own file, and the linker does not replace that call. If other gathers
 * exist already, MILC's own routine ends the run. */
void __wrap_make_nn_gathers(void) {
    const int parity = ((nx | ny | nz | nt) & 1) != 0 ? SCRAMBLE_PARITY : SWITCH_PARITY;
    int mu;
    if (gathers > 0) {
        milcgpu_original(make_nn_gathers)();
        return;
    }
    for (mu = XUP; mu <= TUP; mu++)
        __wrap_make_gather(milcgpu_next_site, &mu, WANT_INVERSE, ALLOW_EVEN_ODD, parity);
    milcgpu_there(sort_eight_gathers)(0);
}

/* ---- generators of random numbers -------------------------------------------------------------------------------- */

#if MILCGPU_MILC == 1
typedef int seed_type;
enum { WARNS_AT_FIRST = 1 };
#else
typedef uint32_t seed_type;
enum { WARNS_AT_FIRST = 0 };
#endif

#ifdef SITERAND
static int generators(void *seed, size_t from, size_t to) {
    size_t i;
    for (i = from; i < to; i++)
        milcgpu_there(initialize_prn)(&lattice[i].site_prn, *(const seed_type *)seed, lattice[i].index);
    return 0;
}
static int set_generators(seed_type seed) {
    return initialize_prn != NULL && milcgpu_plugin_by_all_threads(sites_on_node, generators, &seed) >= 0;
}
#else
static int set_generators(seed_type seed) { return (void)seed, 0; }
#endif

void __wrap_initialize_site_prn_from_seed(seed_type seed) {
    static int calls;
    if (!set_generators(seed)) {
        milcgpu_original(initialize_site_prn_from_seed)(seed);
    } else if (calls++ > 0 || WARNS_AT_FIRST) {
        node0_printf("WARNING!!: Resetting random seed\n");
    }
}
