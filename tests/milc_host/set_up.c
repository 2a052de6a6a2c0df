/* What MILC does as it begins: tables of neighbours, the sites' random numbers, and its lattice from a file. */
#define _XOPEN_SOURCE 700 /* ftruncate */
#include "../generic_ks/generic_ks_includes.h"
#include <string.h>
#include <unistd.h>

void check(int good, const char *what, double value);

extern size_t sites_tabulated, sites_seeded, sites_read; /* by MILC's own */

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

/* A link's number: others for each site, matrix and element, and exact as a float. */
static float number_of(int site_number, int k) { return (float)((site_number * 72 + k) * 37 % 65521) / 1024 - 20; }

static void put(FILE *f, uint32_t w, int turned_round) {
    unsigned char b[4];
    memcpy(b, &w, 4);
    if (turned_round)
        fputc(b[3], f), fputc(b[2], f), fputc(b[1], f), fputc(b[0], f);
    else
        fwrite(b, 1, 4, f);
}

/* The k-th site of the file. */
static int in_file(int k, int listed) { return listed ? (int)((7 * (size_t)k + 5) % volume) : k; }

/* what: reversed or listed, or both; short: by a float; bad: a checksum; else natural. */
static void write_file(const char *name, const char *what) {
    const int turned_round = strstr(what, "reversed") != NULL, listed = strstr(what, "listed") != NULL;
    const int extents[4] = {nx, ny, nz, nt};
    char stamp[64] = "of a test";
    uint32_t sums[2] = {0, 0};
    FILE *f = fopen(name, "wb");
    size_t rank, n = 0;
    int k, pass;
    put(f, GAUGE_VERSION_NUMBER, turned_round);
    for (k = 0; k < 4; k++)
        put(f, extents[k], turned_round);
    fwrite(stamp, 1, sizeof stamp, f);
    put(f, listed, turned_round);
    for (rank = 0; listed && rank < volume; rank++)
        put(f, in_file((int)rank, 1), turned_round);
    for (pass = 0; pass < 2; pass++) {
        for (rank = n = 0; rank < volume; rank++)
            for (k = 0; k < 72; k++, n++) {
                const float value = number_of(in_file((int)rank, listed), k);
                uint32_t w, i;
                memcpy(&w, &value, 4);
                if (pass == 1)
                    put(f, w, turned_round);
                for (i = 0; pass == 0 && i < 2; i++) {
                    const int turn = (int)(n % (i == 0 ? 29 : 31));
                    sums[i] ^= turn == 0 ? w : w << turn | w >> (32 - turn);
                }
            }
        if (pass == 0)
            put(f, sums[0] + (strcmp(what, "bad") == 0), turned_round), put(f, sums[1], turned_round);
        if (pass == 1 && strcmp(what, "short") == 0 && fseek(f, -4, SEEK_CUR) == 0)
            fflush(f), check(ftruncate(fileno(f), ftell(f)) == 0, "a short file", 0);
    }
    fclose(f);
}

void try_lattice_file(const char *name, const char *what) {
    gauge_file *gf;
    size_t i;
    int k, wrong = 0;
    write_file(name, what);
    for (i = 0; i < volume; i++)
        memset(lattice[i].link, 0, sizeof lattice[i].link);
    gf = restore_serial((file_name)name);
    remove(name);
    for (i = 0; i < volume; i++)
        for (k = 0; k < 72; k++)
            wrong += ((const Real *)lattice[i].link)[k] != number_of((int)lattice[i].index, k);
    check(wrong == 0, "links of a file", wrong);
    check(gf->header->dims[1] == ny && gf->rank2rcv == NULL, "the header that MILC keeps", gf->header->dims[1]);
    printf("MILC's own: %lu sites\n", (unsigned long)sites_read);
    free(gf->header), free(gf);
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
