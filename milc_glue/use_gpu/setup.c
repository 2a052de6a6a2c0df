/* The start of a program: MILC's sites, its gathers, the generators of random numbers. A site has kilobytes, so a loop
 * that reads or writes a few bytes of each site waits for memory, and with it the whole start. */
#include "glue.h"

#include "routines.h"

/* The system clears a page when it is touched first. All threads touch the pages here, and MILC then allocates them. */
void __wrap_make_lattice(void) {
    milcgpu_plugin_touch(sites_on_node * sizeof(site));
    milcgpu_original(make_lattice)();
}

/* ---- gathers ----------------------------------------------------------------------------------------------------- */

/* Fills in the coordinates that a site gathers from. */
typedef void mapping(int, int, int, int, int *, int, int *, int *, int *, int *);

enum { AHEAD = 24 }; /* sites; from 16 to 64 a loop takes a third of its time without */
static int gathers;  /* calls of make_gather */
static mapping *mapped;
static __thread size_t ahead; /* MILC may loop with several threads */

static void milcgpu_map_ahead(int x, int y, int z, int t, int *args, int way, int *to_x, int *to_y, int *to_z,
                              int *to_t) {
    ahead = ahead + 1 < sites_on_node ? ahead + 1 : 0;
    __builtin_prefetch(&lattice[ahead]);
    mapped(x, y, z, t, args, way, to_x, to_y, to_z, to_t);
}

/* MILC goes through the sites of this rank up to seven times, in their order, and maps each site once. */
int __wrap_make_gather(mapping *map, int *args, int inverse, int want_even_odd, int parity) {
    gathers++;
    mapped = map;
    ahead = AHEAD % sites_on_node;
    return milcgpu_original(make_gather)(milcgpu_map_ahead, args, inverse, want_even_odd, parity);
}

static void milcgpu_next_site(int x, int y, int z, int t, int *mu, int way, int *to_x, int *to_y, int *to_z,
                              int *to_t) {
    const int step = way == FORWARDS ? 1 : -1;
    *to_x = *mu == XUP ? (x + step + nx) % nx : x;
    *to_y = *mu == YUP ? (y + step + ny) % ny : y;
    *to_z = *mu == ZUP ? (z + step + nz) % nz : z;
    *to_t = *mu == TUP ? (t + step + nt) % nt : t;
}

/* MILC's own routine calls the make_gather of the same file, where the linker replaces no call. It ends the run if
 * there are other gathers already. */
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
