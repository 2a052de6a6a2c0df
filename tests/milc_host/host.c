/* The library's work on the host: memory, threads, lattice files. */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include "../generic_ks/generic_ks_includes.h"
#include "../include/fermion_links.h"
#include "../include/imp_ferm_links.h"
#include "checks.h"
#include "plugin.h"
#include <dlfcn.h>
#include <math.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static int all_are(const unsigned char *block, size_t bytes, int value) {
    size_t k;
    for (k = 0; k < bytes; k++)
        if (block[k] != value)
            return 0;
    return 1;
}

/* Page faults of a field that is allocated and filled. */
static long new_pages(size_t bytes, int value) {
    struct rusage before, after;
    unsigned char *volatile field;
    getrusage(RUSAGE_SELF, &before);
    field = malloc(bytes);
    memset(field, value, bytes);
    getrusage(RUSAGE_SELF, &after);
    check(all_are(field, bytes, value), "memset of a large block", value);
    free(field);
    return after.ru_minflt - before.ru_minflt;
}

/* Page faults of a loop over a field that is allocated. */
static long faults_of_a_loop(size_t bytes) {
    struct rusage before, after;
    unsigned char *volatile field = malloc(bytes);
    size_t k;
    getrusage(RUSAGE_SELF, &before);
    for (k = 0; k < bytes; k += 1024)
        field[k] = 1;
    getrusage(RUSAGE_SELF, &after);
    free(field);
    return after.ru_minflt - before.ru_minflt;
}

/* kept: freed fields stay in the process. */
void try_memory(int kept) {
    const size_t large = (size_t)64 << 20;
    const long least = 16; /* such a field takes 32 large pages */
#if defined(__SANITIZE_ADDRESS__)
    const int sanitized = 1; /* the sanitizer has its own allocator */
#else
    const int sanitized = 0;
#endif
    unsigned char *volatile a, *volatile b;
    long pages;
    milcgpu_plugin_touch(large);
    pages = faults_of_a_loop(large);
    check((pages < least) == kept || sanitized, "new pages of a loop after all threads have touched them", pages);
    a = malloc(large), b = malloc(large);
    memset(a, 7, large);
    memcpy(b, a, large);
    check(all_are(b, large, 7), "memcpy of a large block", 0);
    free(a);
    a = calloc(large / 8, 8);
    check(all_are(a, large, 0), "calloc's zeros", 0);
    b = realloc(b, 2 * large);
    check(all_are(b, large, 7), "what realloc keeps of a larger block", 0);
    free(a), free(b);
    new_pages(large, 1);
    pages = new_pages(large, 2);
    check((pages < least) == kept || sanitized, "new pages of a field like one that was freed", pages);
}

/* ---- gathers and generators of random numbers -------------------------------------------------------------------- */

extern int own_generators;
int gathered_from(int dir, size_t site);
const int *gathered_list(int dir, int gives, int rank, int parity, int *n);
void __real_initialize_site_prn_from_seed(milc_seed seed);

static void steps_along(int x[4], const site *s, int mu, int steps) {
    const int extent[4] = {nx, ny, nz, nt};
    x[0] = s->x, x[1] = s->y, x[2] = s->z, x[3] = s->t;
    x[mu] = (x[mu] + steps + 3 * extent[mu]) % extent[mu];
}
static int is_here(const int x[4]) { return node_number(x[0], x[1], x[2], x[3]) == mynode(); }

/* Wrong entries of the list of sites of a parity whose partner, `steps` away, is on this rank: both ranks have them in
 * the order of the lower rank. */
static int wrong_list(const int *list, int n, int rank, int parity, int mu, int steps) {
    int *const expected = (int *)malloc(sites_on_node * sizeof *expected);
    int x[4], m = 0, k, wrong;
    size_t i, j;
    for (i = 0; i < sites_on_node; i++)
        expected[i] = -1;
    for (i = 0; i < sites_on_node; i++) {
        steps_along(x, &lattice[i], mu, steps);
        if ((lattice[i].parity == ODD) == parity && node_number(x[0], x[1], x[2], x[3]) == rank) {
            j = rank < mynode() ? node_index(x[0], x[1], x[2], x[3]) : i;
            expected[j] = (int)i;
        }
    }
    for (i = 0, wrong = 0; i < sites_on_node; i++)
        if (expected[i] >= 0) {
            wrong += m >= n || list[m] != expected[i];
            m++;
        }
    for (k = m; k < n; k++)
        wrong++;
    free(expected);
    return wrong;
}

/* Wrong entries of the table and of the lists of a gather from the site (x, y, z, t) + steps * mu. */
static int wrong_gathers(int dir, int mu, int steps) {
    size_t i;
    int x[4], rank, parity, n, wrong = 0;
    for (i = 0; i < sites_on_node; i++) {
        steps_along(x, &lattice[i], mu, steps);
        wrong += gathered_from(dir, i) != (is_here(x) ? (int)node_index(x[0], x[1], x[2], x[3]) : -1);
    }
    for (rank = 0; rank < numnodes(); rank++)
        for (parity = 0; parity < 2 && rank != mynode(); parity++) {
            const int *list = gathered_list(dir, 0, rank, parity, &n);
            wrong += wrong_list(list, n, rank, parity, mu, steps);
            list = gathered_list(dir, 1, rank, 1 - parity, &n);
            wrong += wrong_list(list, n, rank, parity, mu, -steps);
        }
    return wrong;
}

/* Sites that MILC's loops see if all threads make the gathers: those with a neighbour on another rank, else one. */
static size_t seen_sites(int mu, int steps) {
    size_t i, n = 0;
    int x[4], y[4];
    for (i = 0; i < sites_on_node; i++) {
        steps_along(x, &lattice[i], mu, steps);
        steps_along(y, &lattice[i], mu, -steps);
        n += !is_here(x) || !is_here(y);
    }
    return n > 0 ? n : 1;
}

static void three_sites_on(int x, int y, int z, int t, int *mu, int way, int *x2, int *y2, int *z2, int *t2) {
    const int extent[4] = {nx, ny, nz, nt};
    int *const to[4] = {x2, y2, z2, t2};
    *x2 = x, *y2 = y, *z2 = z, *t2 = t;
    *to[*mu] = (*to[*mu] + 3 * way + 3 * extent[*mu]) % extent[*mu];
}
/* Promises to be its own inverse. */
static void turned(int x, int y, int z, int t, int *args, int way, int *x2, int *y2, int *z2, int *t2) {
    (void)args, (void)way;
    *x2 = (x + 2) % nx, *y2 = (y + (x == 1 && y + z + t == 0 ? 2 : 0)) % ny, *z2 = z, *t2 = t;
}
static void mirrored(int x, int y, int z, int t, int *args, int way, int *x2, int *y2, int *z2, int *t2) {
    (void)args, (void)way;
    *x2 = nx - 1 - x, *y2 = ny - 1 - y, *z2 = nz - 1 - z, *t2 = nt - 1 - t;
}

static double_prn *generators(void) {
    double_prn *all = (double_prn *)malloc(sites_on_node * sizeof *all);
    size_t i;
    for (i = 0; i < sites_on_node; i++)
        all[i] = lattice[i].site_prn;
    return all;
}

extern long steps_of_gathers;

/* by_threads: all threads make the gathers and set the generators. what: bad or turned, a gather that MILC refuses;
 * own, MILC's own makes the gathers; again: the gathers of neighbours a second time, which MILC refuses, too. On
 * several ranks MILC's own makes the mirrored one. */
void try_setup(int by_threads, const char *what) {
    double_prn *ours, *theirs;
    int mu, dir, wrong = 0;
    size_t i, expected;
    make_nn_gathers();
    for (mu = XUP; mu <= TUP; mu++)
        check(wrong_gathers(mu, mu, 1) + wrong_gathers(OPP_DIR(mu), mu, -1) == 0, "gathers of neighbours", mu);
    for (mu = XUP; mu <= TUP; mu++) {
        dir = make_gather(three_sites_on, &mu, WANT_INVERSE, ALLOW_EVEN_ODD, SWITCH_PARITY);
        check(dir == 8 + 2 * mu && wrong_gathers(dir, mu, 3) + wrong_gathers(dir + 1, mu, -3) == 0,
              "gathers of third neighbours", mu);
    }
    dir = make_gather(mirrored, NULL, OWN_INVERSE, ALLOW_EVEN_ODD, SAME_PARITY);
    for (i = 0; i < sites_on_node; i++)
        wrong += gathered_from(dir, i) < 0 ? numnodes() == 1 : gathered_from(dir, gathered_from(dir, i)) != (int)i;
    check(dir == 16 && wrong == 0, "a gather that is its own inverse", wrong);
    expected = 6 * (by_threads && numnodes() == 1 ? 1 : sites_on_node);
    for (mu = XUP; mu <= TUP; mu++)
        expected +=
            by_threads && strcmp(what, "own") != 0 ? 7 * (seen_sites(mu, 1) + seen_sites(mu, 3)) : 14 * sites_on_node;
    check(steps_of_gathers == (long)expected, "sites that MILC's own gathers see", (double)steps_of_gathers);
    for (i = 0; i < sites_on_node; i++)
        wrong += node_index(lattice[i].x, lattice[i].y, lattice[i].z, lattice[i].t) != i;
    check(wrong == 0, "coordinates of sites", wrong);
    if (strcmp(what, "bad") == 0)
        make_gather(mirrored, NULL, OWN_INVERSE, ALLOW_EVEN_ODD, SWITCH_PARITY);
    if (strcmp(what, "turned") == 0)
        make_gather(turned, NULL, OWN_INVERSE, ALLOW_EVEN_ODD, SAME_PARITY);
    if (strcmp(what, "again") == 0)
        make_nn_gathers();
    initialize_site_prn_from_seed(77);
    initialize_site_prn_from_seed(78);
    check((own_generators == 0) == by_threads, "generators that MILC's own sets", own_generators);
    ours = generators();
    __real_initialize_site_prn_from_seed(78);
    theirs = generators();
    check(memcmp(ours, theirs, sites_on_node * sizeof *ours) == 0, "generators of random numbers", 0);
    free(ours), free(theirs);
}

/* ---- plaquettes and reunitarization ------------------------------------------------------------------------------ */

extern int own_reloads;
double other_bits(void);
void __real_d_plaquette(double *space, double *time);
void __real_reunitarize_cpu(void);
void __real_rephase(int flag);

static su3_matrix *links_in_sites(void) {
    su3_matrix *all = (su3_matrix *)malloc(4 * sites_on_node * sizeof *all);
    size_t i;
    for (i = 0; i < sites_on_node; i++)
        memcpy(&all[4 * i], lattice[i].link, sizeof lattice[i].link);
    return all;
}

static double last_bits; /* how much our links and MILC's may differ */

static int are_equal(const su3_matrix *ours, const su3_matrix *theirs) {
    const Real *const x = &ours->e[0][0].real, *const y = &theirs->e[0][0].real;
    size_t k;
    int equal = 1;
    for (k = 0; k < 72 * sites_on_node; k++)
        equal = equal && fabs(x[k] - y[k]) <= last_bits;
    return equal;
}

/* Reunitarizes by both from the same links; returns how many calls of MILC's own ours has made. */
static int reunitarize_twice(const char *what) {
    su3_matrix *const before = links_in_sites(), *theirs, *ours;
    int own;
    size_t i;
    __real_reunitarize_cpu();
    theirs = links_in_sites();
    for (i = 0; i < sites_on_node; i++)
        memcpy(lattice[i].link, &before[4 * i], sizeof lattice[i].link);
    own = own_reloads;
    reunitarize_cpu();
    own = own_reloads - own;
    ours = links_in_sites();
    check(are_equal(ours, theirs), what, 0);
    check(memcmp(ours, before, 4 * sites_on_node * sizeof *ours) != 0, "links that reunitarization changes", 0);
    free(before), free(theirs), free(ours);
    return own;
}

static void try_phases(void) {
    su3_matrix *ours, *theirs;
    rephase(ON);
    ours = links_in_sites();
    __real_rephase(OFF);
    check(phases_in == OFF, "phases that ours put in and MILC's own takes out", phases_in);
    __real_rephase(ON);
    theirs = links_in_sites();
    check(memcmp(ours, theirs, 4 * sites_on_node * sizeof *ours) == 0, "every bit of links with phases", 0);
    rephase(OFF);
    free(ours), free(theirs);
}

void __real_rephase_field_offset(su3_matrix *links, int flag, int *status_now, int r0[]);

static void try_fields(void) {
    ks_prop_field *const ksp = create_ksp_field(3);
    su3_vector *const v = random_field(1), *const before = copy(v);
    complex *const c = (complex *)before;
    su3_matrix *ours = links_in_sites(), *theirs = links_in_sites();
    int r0[4] = {1, 2, 3, 1}, status = OFF, wrong = 0;
    size_t i;
    insert_ksp_from_v(ksp, v, 2);
    memset(v, 0, sites_on_node * sizeof *v);
    copy_v_from_ksp(v, ksp, 2);
    check(memcmp(v, before, sites_on_node * sizeof *v) == 0, "a field put into a propagator and read back", 0);
    insert_v_from_c(v, c, 1);
    for (i = 0; i < sites_on_node; i++)
        wrong += memcmp(&v[i].c[0], &before[i].c[0], sizeof(complex)) != 0 ||
                 memcmp(&v[i].c[1], &c[i], sizeof(complex)) != 0 ||
                 memcmp(&v[i].c[2], &before[i].c[2], sizeof(complex)) != 0;
    check(wrong == 0, "numbers put into a colour of a field", wrong);
    rephase_field_offset(ours, ON, &status, r0);
    __real_rephase_field_offset(theirs, ON, NULL, r0);
    check(status == ON && memcmp(ours, theirs, 4 * sites_on_node * sizeof *ours) == 0,
          "every bit of a field of links with phases from an origin", status);
    for (i = 0; i < 3; i++)
        free(ksp->v[i]);
    free(ksp->v), free(ksp), free(ours), free(theirs), free(v), free(before);
}

extern size_t own_warm_sites;

static void try_warm(int by_threads) {
    const size_t n = sites_on_node, expected = !by_threads ? n : other_bits() != 0 && last_bits == 0 ? 1 + n : 1;
    double_prn *const before = generators(), *ours_after, *theirs_after;
    su3_matrix *ours, *theirs;
    size_t i;
    reload_lattice(WARM, NULL);
    check(own_warm_sites == expected && sites_on_node == n, "sites whose links MILC's own draws", own_warm_sites);
    ours = links_in_sites(), ours_after = generators();
    for (i = 0; i < n; i++)
        lattice[i].site_prn = before[i];
    warmlat();
    theirs = links_in_sites(), theirs_after = generators();
    check(are_equal(ours, theirs), "every bit of a warm start", 0);
    check(memcmp(ours_after, theirs_after, n * sizeof *before) == 0, "generators after a warm start", 0);
    free(before), free(ours_after), free(theirs_after), free(ours), free(theirs);
}

/* by_threads: all threads do it. again: phases that are out already, which MILC refuses. fast: the glue was compiled
 * with -ffast-math, so the last bits may differ. */
void try_reload(int by_threads, int again, int fast) {
    double ours[2], theirs[2];
    size_t i;
    int own;
    last_bits = fast ? 1e-15 : 0;
    fill_gauge_field(3);
    rephase(OFF);
    if (again)
        rephase(OFF);
    for (i = 0; i < sites_on_node * 72; i++) { /* as in a file */
        Real *x = (Real *)lattice[i / 72].link + i % 72;
        *x = (float)(*x * (1 + 1e-7 * (i % 5)));
    }
    own = own_reloads;
    try_phases();
    try_fields();
    d_plaquette(&ours[0], &ours[1]);
    check(own_reloads == own + !by_threads, "plaquettes that MILC's own measured", own_reloads - own);
    __real_d_plaquette(&theirs[0], &theirs[1]);
    check(memcmp(ours, theirs, sizeof ours) == 0, "every bit of the plaquettes", ours[0] - theirs[0]);
    check(reunitarize_twice("every bit of reunitarized links") == (!by_threads || (other_bits() != 0 && !fast)),
          "links that MILC's own reunitarized", 0);
    lattice[7].link[2].e[0][1].real += 0.1;
    check(reunitarize_twice("links of which MILC reports one") == 1, "MILC's own, which reports a link", 0);
    try_warm(by_threads);
}

/* The number of threads in MILC's loops. */
static int openmp_threads(void) {
    int (*const asked)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "omp_get_max_threads");
    return asked != NULL ? asked() : 0;
}

void try_threads(void) {
    printf("threads while the GPU starts: %d\n", openmp_threads());
    fill_gauge_field(900);
    free(create_G_from_site()); /* the first routine */
    printf("threads then: %d\n", openmp_threads());
}

void try_pauses(void) {
    const struct timespec pause = {0, 10000000};
    char *const volatile block = malloc((size_t)64 << 20);
    double spent = 0;
    int k;
    fill_gauge_field(900);
    free(create_G_from_site()); /* the first routine */
    for (k = 0; k < 30; k++) {
        clock_t before;
        memset(block, k, (size_t)64 << 20); /* by all threads */
        before = clock();
        nanosleep(&pause, NULL);
        spent += 1e3 * (clock() - before) / CLOCKS_PER_SEC;
    }
    free(block);
    printf("spent %.3f ms\n", spent);
}

Real __real_check_unitarity(void);
u_int32type __real_nersc_cksum(void);
void __real_d_linktrsum(double_complex *mean);
extern int own_checks, sums_over_ranks;

/* Checks of freshly loaded links: MILC's numbers, the mean trace but for rounding. MILC must name a link that is not
 * SU(3). */
static void try_checks_of_lattice(void) {
    double_complex mean, own;
    Real *const some = &lattice[5].link[2].e[1][0].real;
    const Real was = *some;
    const int before = own_checks, sums = sums_over_ranks;
    check(check_unitarity() == __real_check_unitarity(), "deviation from unitarity", check_unitarity());
    check(nersc_cksum() == __real_nersc_cksum(), "checksum of a lattice", nersc_cksum());
    d_linktrsum(&mean);
    __real_d_linktrsum(&own);
    check(fabs(mean.real - own.real) < 1e-13 && fabs(mean.imag - own.imag) < 1e-13, "mean trace", mean.real - own.real);
    check(own_checks == before + 3, "what MILC's own checked", own_checks - before);
    check(sums_over_ranks == sums + 8, "sums over ranks, as many as MILC's own make", sums_over_ranks - sums);
    *some = 3;
    check(check_unitarity() > 1 && own_checks == before + 4, "a link that is not unitary", own_checks - before);
    *some = was;
}

/* Writes links to a file by the pair of routines. ILDG: of a field, in double. */
static gauge_file *write_links(const char *routines, file_name name, su3_matrix *field) {
#ifdef MILC_HOST_MASTER
    if (strcmp(routines, "scidac") == 0)
        return save_parallel_scidac(name);
    if (strcmp(routines, "ildg") == 0)
        return save_serial_ildg(name, (file_name) "lfn://host/links");
#else
    if (strcmp(routines, "scidac") == 0)
        return save_parallel_scidac(NULL, name, 1);
    if (strcmp(routines, "ildg") == 0)
        return save_serial_ildg(field, name, 2, "lfn://host/links");
#endif
    return (strcmp(routines, "mpiio") == 0      ? save_mpiio
            : strcmp(routines, "parallel") == 0 ? save_parallel
                                                : save_serial)(name);
}
static gauge_file *read_links(const char *routines, file_name name, su3_matrix *field) {
#ifdef MILC_HOST_MASTER
    if (strcmp(routines, "scidac") == 0 || strcmp(routines, "ildg") == 0)
        return restore_parallel_scidac(name);
#else
    if (strcmp(routines, "scidac") == 0 || strcmp(routines, "read_scidac") == 0)
        return restore_parallel_scidac(NULL, name);
    if (strcmp(routines, "ildg") == 0)
        return restore_serial_scidac(field, name);
#endif
    return (strncmp(routines, "mpiio", 5) == 0  ? restore_mpiio
            : strcmp(routines, "parallel") == 0 ? restore_parallel
                                                : restore_serial)(name);
}

/* Work of MILC's own shows in the first link. */
void try_lattice_file(const char *routines, const char *name) {
    const int scidac = strcmp(routines, "scidac") == 0 || strcmp(routines, "ildg") == 0;
    gauge_file *written, *read;
    su3_matrix *links, *field;
    size_t i;
    fill_gauge_field(3);
    rephase(OFF);
    for (i = 0; i < sites_on_node * 72; i++) { /* as in a file */
        Real *x = (Real *)lattice[i / 72].link + i % 72;
        *x = (float)*x;
    }
    links = create_G_from_site(), field = create_G_from_site();
    written = strstr(routines, "read") != NULL ? NULL : write_links(routines, (file_name)name, field);
    if (written != NULL)
        for (i = 0; i < sites_on_node; i++) {
            memset(lattice[i].link, 0, sizeof lattice[i].link);
            memset(&field[4 * i], 0, sizeof lattice[i].link);
        }
    read = read_links(routines, (file_name)name, field);
    if (read == NULL) {
        destroy_G(links), destroy_G(field);
        return;
    }
    for (i = 0; i < sites_on_node; i++) {
#ifndef MILC_HOST_MASTER
        if (strcmp(routines, "ildg") == 0) /* a field was written: the sites keep their links */
            memcpy(lattice[i].link, &field[4 * i], sizeof lattice[i].link);
#endif
        check(memcmp(lattice[i].link, &links[4 * i], sizeof lattice[i].link) == 0, "links of a site", (double)i);
    }
    check(scidac ? read->filename == name
                 : read->parallel == (strcmp(routines, "serial") != 0 && strcmp(routines, "read") != 0) &&
                       read->header->dims[1] == ny && read->rank2rcv == NULL && read->fp == NULL &&
                       read->header->header_bytes == 88 && read->header->order == 0 && read->filename == name,
          "what MILC keeps of a file", read->header->header_bytes);
    check(scidac || written == NULL ||
              (strcmp(read->header->time_stamp, written->header->time_stamp) == 0 &&
               read->check.sum29 == written->check.sum29 && read->check.sum31 == written->check.sum31),
          "stamp and sums", read->check.sum29);
    try_checks_of_lattice();
    if (written != NULL)
        free_output_gauge_file(written);
    free_output_gauge_file(read);
    destroy_G(links), destroy_G(field);
}
