/* Sites of this rank (ranks.c): MILC's order, or with MILC_HOST_LAYOUT=shuffled another order with even sites first,
 * or with =broken an order that node_index does not know. */
#include "../generic_ks/generic_ks_includes.h"
#include "ranks.h"
#include <string.h>

site *lattice;
char **gen_pt[2];
int nx, ny, nz, nt, this_node, total_iters, phases_in;
size_t volume, sites_on_node, even_sites_on_node;

static int is_layout(const char *name) {
    const char *asked = getenv("MILC_HOST_LAYOUT");
    return asked != NULL && strcmp(asked, name) == 0;
}

size_t node_index(int x, int y, int z, int t) {
    static int shuffled = -1;
    const int parity = (x + y + z + t) % 2;
    size_t k = (x % box_extent[0] +
                box_extent[0] * (y % box_extent[1] +
                                 box_extent[1] * (z % box_extent[2] + (size_t)box_extent[2] * (t % box_extent[3])))) /
               2;
    const size_t half = sites_on_node / 2; /* as in MILC, so a changed sites_on_node changes indices */
    if (shuffled < 0)
        shuffled = is_layout("shuffled");
    if (shuffled)
        k = half > 0 ? (5 * k + 3) % half : 0; /* half has no factor 5 */
    return k + (parity ? half : 0);
}

void make_lattice(void) {
    static const int whole[4] = {1, 1, 1, 1};
    int x, y, z, t, k;
    if (ranks == 1)
        become_rank(NULL, 0, whole);
    volume = (size_t)nx * ny * nz * nt;
    sites_on_node = volume / ranks;
    even_sites_on_node = sites_on_node / 2; /* x is even and not cut */
    lattice = (site *)calloc(sites_on_node, sizeof(site));
    for (k = 0; k < 2; k++)
        gen_pt[k] = (char **)malloc(sites_on_node * sizeof(char *));
    for (t = box_origin[3]; t < box_origin[3] + box_extent[3]; t++)
        for (z = box_origin[2]; z < box_origin[2] + box_extent[2]; z++)
            for (y = box_origin[1]; y < box_origin[1] + box_extent[1]; y++)
                for (x = box_origin[0]; x < box_origin[0] + box_extent[0]; x++) {
                    site *s = &lattice[node_index(x, y, z, t)];
                    s->x = x, s->y = y, s->z = z, s->t = t;
                    s->index = x + nx * (y + ny * (z + nz * t));
                    s->site_prn.state = x + 100 * (y + 100 * (z + 100 * t));
                    s->parity = (x + y + z + t) % 2 ? ODD : EVEN;
                    s->phase[XUP] = t % 2 ? -1 : 1;
                    s->phase[YUP] = (t + x) % 2 ? -1 : 1;
                    s->phase[ZUP] = (t + x + y) % 2 ? -1 : 1;
                    s->phase[TUP] = t == nt - 1 ? -1 : 1;
                }
    if (is_layout("broken"))
        lattice[3].x = lattice[4].x;
}

int numnodes(void) { return getenv("MILC_HOST_RANKS") != NULL ? atoi(getenv("MILC_HOST_RANKS")) : ranks; }
int mynode(void) { return this_node; }
void initialize_machine(int *argc, char ***argv) {
    const char *const input = getenv("MILC_HOST_INPUT");
    (void)argc, (void)argv;
    if (freopen(input != NULL ? input : "/dev/null", "r", stdin) == NULL)
        terminate(2);
}
void normal_exit(int status) { exit(status); }
void terminate(int status) { exit(status); }
