/* Sites on one rank: MILC's order, or with MILC_HOST_LAYOUT=shuffled another one with even sites first, or =broken one
 * where node_index does not say where the sites are. */
#include "../generic_ks/generic_ks_includes.h"
#include <string.h>

site *lattice;
int nx, ny, nz, nt, this_node, total_iters, phases_in;
size_t volume, sites_on_node, even_sites_on_node;

static int is_layout(const char *name) {
    const char *asked = getenv("MILC_HOST_LAYOUT");
    return asked != NULL && strcmp(asked, name) == 0;
}

size_t node_index(int x, int y, int z, int t) {
    static int shuffled = -1;
    size_t k = (x + nx * (y + ny * (z + (size_t)nz * t))) / 2;
    const size_t half = volume / 2;
    if (shuffled < 0)
        shuffled = is_layout("shuffled");
    if (shuffled)
        k = (5 * k + 3) % half; /* half has no factor 5 */
    return k + ((x + y + z + t) % 2 ? half : 0);
}

void make_lattice(void) {
    int x, y, z, t;
    volume = sites_on_node = (size_t)nx * ny * nz * nt;
    even_sites_on_node = volume / 2;
    lattice = (site *)calloc(volume, sizeof(site));
    for (t = 0; t < nt; t++)
        for (z = 0; z < nz; z++)
            for (y = 0; y < ny; y++)
                for (x = 0; x < nx; x++) {
                    site *s = &lattice[node_index(x, y, z, t)];
                    s->x = x, s->y = y, s->z = z, s->t = t;
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

int numnodes(void) { return getenv("MILC_HOST_RANKS") != NULL ? atoi(getenv("MILC_HOST_RANKS")) : 1; }
void g_intsum(int *sum) { (void)sum; } /* of one rank */
int mynode(void) { return 0; }
int node_number(int x, int y, int z, int t) { return 0 * (x + y + z + t); }
void initialize_machine(int *argc, char ***argv) { (void)argc, (void)argv; }
void normal_exit(int status) { exit(status); }
void terminate(int status) { exit(status); }
