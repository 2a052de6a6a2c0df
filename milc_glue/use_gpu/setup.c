/* The start of a program: MILC's sites, its gathers, the generators of random numbers. A site takes kilobytes. MILC's
 * loops read or write a few bytes of each site, so the start of a program waits for memory. */
#include "glue.h"
#include <string.h>

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

/* The running call of make_gather. A table has, for each site, the index of the site from which it gathers, or
 * ELSEWHERE if that site is on another rank. All threads fill the tables as soon as MILC has allocated them. Lists have
 * the sites at a cut: those that gather from another rank, and those from which another rank gathers. Until MILC
 * returns, its loops see these sites alone: sites_on_node is their number, the first sites have their coordinates, and
 * MILC writes their positions into its lists. At the end indices replace the positions. If no site is at a cut, MILC's
 * loops see the first site. */
enum { ELSEWHERE = -1 /* MILC's NOWHERE */, NOT_MADE = -2 };
typedef struct {
    int index;        /* of the site whose coordinates the site at this position has */
    short x, y, z, t; /* its own */
} seen_site;
typedef struct {
    int *sites, way;
    size_t n;
} site_list;
static struct {
    mapping *map;
    int *args, inverse, even_odd, parity;
    size_t sites;  /* of this rank */
    int undecided; /* 1 until MILC calls the mapping */
    int allocated, *tables[2];
    seen_site *seen;                   /* NULL: MILC's loops see all sites */
    size_t calls_forwards, calls_back; /* of the mapping */
    size_t listed;                     /* entries that MILC's lists must have */
    int blocks, n_lists;
    site_list *lists;
} gather;
static int gathers; /* calls of make_gather */

/* On several ranks a mapping without a table of its inverse may have senders that its table does not show. With
 * N_SUBL32 parities differ. */
#ifdef N_SUBL32
static int may_make_tables(void) { return 0; }
#else
static int may_make_tables(void) { return numnodes() == 1 || gather.inverse == WANT_INVERSE; }
#endif
/* Otherwise MILC makes four lists in place of two, or sorts both parities of a list at once. */
static int may_make_lists(void) { return gather.even_odd == ALLOW_EVEN_ODD && gather.parity != SCRAMBLE_PARITY; }
/* In a parallel loop, which may have one thread: the number of MILC's steps is fixed. */
static int is_in_parallel_loop(void) {
#ifdef _OPENMP
    return omp_get_level() > 0;
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
/* MILC allocates the table of the inverse first. */
static int *table(int way) { return gather.tables[way == FORWARDS ? gather.allocated - 1 : 0]; }

static int parity_of(const site *s) { return (s->x + s->y + s->z + s->t) & 1; }

/* Returns MILC's entry for a site; NOT_MADE if MILC refuses such a gather. */
static int gathers_from(const site *s, int way) {
    int x, y, z, t, back[4];
    gather.map(s->x, s->y, s->z, s->t, gather.args, way, &x, &y, &z, &t);
    if (x < 0 || y < 0 || z < 0 || t < 0 || x >= nx || y >= ny || z >= nz || t >= nt)
        return NOT_MADE;
    if (way == FORWARDS && gather.parity != SCRAMBLE_PARITY) {
        if (((x + y + z + t + parity_of(s)) & 1) != (gather.parity == SWITCH_PARITY))
            return NOT_MADE;
        if (gather.inverse == OWN_INVERSE) {
            gather.map(x, y, z, t, gather.args, way, &back[0], &back[1], &back[2], &back[3]);
            if (back[0] != s->x || back[1] != s->y || back[2] != s->z || back[3] != s->t)
                return NOT_MADE;
        }
    }
    return node_number(x, y, z, t) == mynode() ? (int)node_index(x, y, z, t) : ELSEWHERE;
}
static int table_part(void *unused, size_t from, size_t to) {
    size_t i;
    (void)unused;
    for (i = from; i < to; i++) {
        __builtin_prefetch(&lattice[i + AHEAD < gather.sites ? i + AHEAD : i]);
        if (gather.inverse == WANT_INVERSE && (table(BACKWARDS)[i] = gathers_from(&lattice[i], BACKWARDS)) == NOT_MADE)
            return 1;
        if ((table(FORWARDS)[i] = gathers_from(&lattice[i], FORWARDS)) == NOT_MADE ||
            parity_of(&lattice[i]) != (i >= even_sites_on_node))
            return 1;
    }
    return 0;
}

/* ---- what MILC's loops see --------------------------------------------------------------------------------------- */

static void exchange_coordinates(site *s, seen_site *with) {
    const seen_site before = *with;
    with->x = s->x, with->y = s->y, with->z = s->z, with->t = s->t;
    s->x = before.x, s->y = before.y, s->z = before.z, s->t = before.t;
}

static int is_at_cut(size_t i) { return table(FORWARDS)[i] == ELSEWHERE || table(BACKWARDS)[i] == ELSEWHERE; }

static void see_few_sites(void) {
    size_t i, k, at_cut[2] = {0, 0};
    gather.listed = 0;
    for (i = 0; i < gather.sites; i++) {
        at_cut[i >= even_sites_on_node] += is_at_cut(i);
        gather.listed += (table(FORWARDS)[i] == ELSEWHERE) + (table(BACKWARDS)[i] == ELSEWHERE);
    }
    /* MILC's loops must see both parities, to learn which parity each gathers from. */
    if (gather.listed > 0 && (!may_make_lists() || at_cut[0] == 0 || at_cut[1] == 0))
        return;
    gather.seen = (seen_site *)malloc((at_cut[0] + at_cut[1] + 1) * sizeof *gather.seen);
    gather.lists = (site_list *)malloc(2 * numnodes() * sizeof *gather.lists);
    if (gather.seen == NULL || gather.lists == NULL) {
        free(gather.seen), free(gather.lists);
        gather.seen = NULL;
        return;
    }
    for (i = k = 0; i < gather.sites; i++)
        if (is_at_cut(i) || (gather.listed == 0 && i == 0)) {
            const seen_site s = {(int)i, lattice[i].x, lattice[i].y, lattice[i].z, lattice[i].t};
            gather.seen[k] = s;
            exchange_coordinates(&lattice[k], &gather.seen[k]);
            table(FORWARDS)[k] = table(BACKWARDS)[k] = NOT_MADE;
            k++;
        }
    sites_on_node = k;
}

/* MILC goes through the sites to check the mapping and to fill the table; then twice for the lists of sites that
 * gather, and twice, backwards, for the lists of sites from which other ranks gather. Between these two times it
 * allocates a structure and a list for each other rank. */
static void find_list(size_t bytes, void *block) {
    const int way = gather.calls_back == 0 ? FORWARDS : BACKWARDS;
    if (way == FORWARDS ? gather.calls_forwards != 3 * sites_on_node : gather.calls_back != sites_on_node)
        return;
    if (gather.blocks++ % 2 == 1 && gather.n_lists < 2 * numnodes()) {
        const site_list list = {(int *)block, way, bytes / sizeof(int)};
        gather.lists[gather.n_lists++] = list;
    }
}

static void milcgpu_map_ahead(int x, int y, int z, int t, int *args, int way, int *to_x, int *to_y, int *to_z,
                              int *to_t) {
    if (__atomic_load_n(&gather.undecided, __ATOMIC_RELAXED) &&
        __atomic_exchange_n(&gather.undecided, 0, __ATOMIC_RELAXED)) {
        milcgpu_sees_malloc = NULL;
        if (!is_in_parallel_loop() && may_make_tables() && gather.allocated == tables_of_gather() &&
            milcgpu_plugin_by_all_threads(gather.sites, table_part, NULL) == 0)
            see_few_sites();
        if (gather.seen != NULL && gather.listed > 0)
            milcgpu_sees_malloc = find_list;
    }
    if (gather.seen != NULL)
        __atomic_add_fetch(way == FORWARDS ? &gather.calls_forwards : &gather.calls_back, 1, __ATOMIC_RELAXED);
    ahead = ahead + 1 < sites_on_node ? ahead + 1 : 0;
    __builtin_prefetch(&lattice[ahead]);
    gather.map(x, y, z, t, args, way, to_x, to_y, to_z, to_t);
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

/* Returns the rank of the site from which a site gathers, and MILC's index of it there. */
static int rank_and_index(int of, int way, size_t *index) {
    const site *const s = &lattice[of];
    int x, y, z, t;
    gather.map(s->x, s->y, s->z, s->t, gather.args, way, &x, &y, &z, &t);
    *index = (size_t)node_index(x, y, z, t);
    return node_number(x, y, z, t);
}
static int is_out_of_order(int a, int b, int way) {
    size_t of_a, of_b;
    rank_and_index(a, way, &of_a);
    rank_and_index(b, way, &of_b);
    return parity_of(&lattice[a]) == parity_of(&lattice[b]) && of_a > of_b;
}
/* A list has the sites of one parity, then those of the other. If the other rank is lower, MILC sorts each parity by
 * the indices there. These depend on sites_on_node, so they are sorted again. */
static void end_list(const site_list *list) {
    int *const sites = list->sites;
    size_t k, m;
    for (k = 0; k < list->n; k++)
        sites[k] = gather.seen[sites[k]].index;
    if (rank_and_index(sites[0], list->way, &k) > mynode())
        return;
    for (k = 1; k < list->n; k++)
        for (m = k; m > 0 && is_out_of_order(sites[m - 1], sites[m], list->way); m--) {
            const int site = sites[m];
            sites[m] = sites[m - 1], sites[m - 1] = site;
        }
}

/* If MILC has not filled these tables and all lists, it has others. */
static void end_gather(void) {
    const int filled = table(FORWARDS)[0] != NOT_MADE && table(BACKWARDS)[0] != NOT_MADE;
    const size_t seen = sites_on_node;
    size_t k;
    int l;
    sites_on_node = gather.sites;
    for (k = 0; k < seen; k++)
        exchange_coordinates(&lattice[k], &gather.seen[k]);
    for (l = 0; l < gather.n_lists; l++)
        gather.listed -= gather.lists[l].n;
    if (!filled || gather.listed != 0) {
        fprintf(stderr, "milcgpu: make_gather of this MILC allocates other tables than milcgpu knows. With "
                        "MILCGPU_TEST=no_pool MILC's own fills them; please tell us which MILC this is\n");
        milcgpu_end_of_run();
    }
    for (l = 0; l < gather.n_lists; l++)
        end_list(&gather.lists[l]);
    milcgpu_plugin_by_all_threads(seen, table_part, NULL);
    free(gather.seen);
    free(gather.lists);
}

int __wrap_make_gather(mapping *map, int *args, int inverse, int want_even_odd, int parity) {
    int first;
    gathers++;
    memset(&gather, 0, sizeof gather);
    gather.map = map, gather.args = args;
    gather.inverse = inverse, gather.even_odd = want_even_odd, gather.parity = parity;
    gather.sites = sites_on_node;
    gather.undecided = 1;
    milcgpu_sees_malloc = find_table;
    ahead = AHEAD % gather.sites;
    first = milcgpu_original(make_gather)(milcgpu_map_ahead, args, inverse, want_even_odd, parity);
    milcgpu_sees_malloc = NULL;
    if (gather.seen != NULL)
        end_gather();
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
