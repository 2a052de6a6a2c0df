/* Lends the library the message passing that this MILC was built with. The library has none of its own, so one library
 * serves every MPI. MILC's compiler finds mpi.h. With QMP, messages go through the MPI below it. */
#include "glue.h"
#include "milcgpu_milc.h"
#include <ctype.h>
#include <poll.h>
#include <string.h>

#include "routines.h"

#ifdef MILCGPU_HAS_MPI

static struct {
    int rank, size; /* on this host, of all jobs of this program */
    /* The library's messages and the plugin's have separate communicators, which MILC does not use. */
    MPI_Comm own[2];
    milcgpu_messages tables[2];
} node = {0, 1, {MPI_COMM_NULL, MPI_COMM_NULL}, {{0}}};

void milcgpu_describe_ranks(milcgpu_milc *milc) {
    const MPI_Comm *job = (const MPI_Comm *)mycomm();
    int k;
    milc->ranks = numnodes();
    milc->rank = mynode();
    if (job == NULL) /* QMP without MPI */
        return;
    for (k = 0; k < 2; k++) {
        if (node.own[k] == MPI_COMM_NULL && !milcgpu_mpi_own(*job, &node.own[k])) {
            fprintf(stderr, "milcgpu: MPI_Comm_dup failed: milcgpu cannot pass messages\n");
            return;
        }
        node.tables[k] = milcgpu_mpi_messages(&node.own[k], node.rank, node.size);
    }
    milc->messages = &node.tables[0];
    milc->decisions = &node.tables[1];
}

/* After most errors one rank alone calls MILC's terminate(), which waits for the others without limit. */
static void end_ranks_that_do_not_end(int status) {
    const double limit = MPI_Wtime() + 5;
    MPI_Request all;
    char why[100];
    int done = 0;
    if (node.own[1] == MPI_COMM_NULL || MPI_Ibarrier(node.own[1], &all) != MPI_SUCCESS)
        return;
    while (MPI_Test(&all, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done && MPI_Wtime() < limit)
        poll(NULL, 0, 1); /* sleeps for a millisecond */
    if (done)
        return;
    snprintf(why, sizeof why, "rank %d of %d has ended, status %d, and others go on: all ranks end", mynode(),
             numnodes(), status);
    node.tables[1].abort(node.tables[1].user, why);
}

/* Returns how many ranks this host has. Here all ranks of all jobs meet: they reach their first solve at different
 * times, or never. */
static int ranks_of_host(void) {
    int has_begun = 0;
    if (MPI_Initialized(&has_begun) == MPI_SUCCESS && has_begun)
        milcgpu_mpi_node(MPI_COMM_WORLD, &node.rank, &node.size);
    return node.size;
}

/* Counted over all jobs, as the library counts when it chooses a GPU; -1: no messages pass between the ranks. */
static int rank_of_host(void) { return numnodes() == 1 || mycomm() != NULL ? node.rank : -1; }

static void give_communicators_back(void) {
    int k;
    for (k = 0; k < 2; k++)
        if (node.own[k] != MPI_COMM_NULL)
            MPI_Comm_free(&node.own[k]);
}
#else

void milcgpu_describe_ranks(milcgpu_milc *milc) {
    milc->ranks = numnodes();
    milc->rank = mynode();
}

static void end_ranks_that_do_not_end(int status) { (void)status; }

static int ranks_of_host(void) {
#if !defined(MPI_COMMS) && !defined(QMP)
    /* The variables that count the copies that a launcher has started and number this one. */
    static const char *const counts[3] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"};
    static const char *const numbers[3] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};
    int k;
    for (k = 0; k < 3; k++) {
        const char *count = getenv(counts[k]), *number = getenv(numbers[k]);
        if (count == NULL || atoi(count) < 2)
            continue;
        if (number == NULL || atoi(number) == 0)
            fprintf(stderr,
                    "milcgpu: %s=%s, but this MILC was built for one rank: if %s copies of it were started, each runs "
                    "the whole job. Build it with MPP=true for several ranks\n",
                    counts[k], count, count);
        break;
    }
#endif
    return 1;
}

static int rank_of_host(void) { return numnodes() == 1 ? 0 : -1; }

static void give_communicators_back(void) {}
#endif

/* The GPU starts after MPI_Init, not beside it: Open MPI may rewrite the first bytes of munmap and madvise in
 * MPI_Init, and a thread that starts a GPU calls them all the time. */
void __wrap_initialize_machine(int *argc, char ***argv) {
#ifdef OPEN_MPI /* without mpirun, version 4 would start a daemon for MPI_Comm_spawn, which MILC does not call */
    extern int setenv(const char *, const char *, int); /* the headers of ISO C do not declare it */
    setenv("OMPI_MCA_ess_singleton_isolated", "1", 0);
#endif
    milcgpu_original(initialize_machine)(argc, argv);
    milcgpu_plugin_begin(ranks_of_host());
    milcgpu_plugin_wake(rank_of_host());
}

/* Returns 1 if MILC's input has more than blanks and comments. MILC reads them again. A pipe cannot be rewound: there
 * they are skipped, and comments are printed as MILC prints them. */
static int input_goes_on(void) {
    const long here = ftell(stdin); /* -1: a pipe */
    int c, in_comment = 0;
    while ((c = getc(stdin)) != EOF && (in_comment || c == '#' || isspace(c))) {
        if ((in_comment || c == '#') && here < 0)
            putchar(c);
        in_comment = c != '\n' && (in_comment || c == '#');
    }
    if (here >= 0)
        fseek(stdin, here, SEEK_SET);
    else if (c != EOF)
        ungetc(c, stdin);
    return c != EOF;
}

/* Reads the next set of parameters. MILC ends with status 0 if there is none, and also if the set has an error or is
 * incomplete. */
int __wrap_readin(int prompt) {
    const int goes_on = this_node == 0 && prompt != 1 && input_goes_on(); /* 1: a person types it */
    const int ends = milcgpu_original(readin)(prompt);
    if (ends && goes_on)
        milcgpu_plugin_input_left();
    return ends;
}

/* Handlers of exit() run after message passing has ended. */
void __wrap_normal_exit(int status) {
    status = milcgpu_plugin_exit(status);
    give_communicators_back();
    milcgpu_original(normal_exit)(status);
}

/* ---- how a run ends ---------------------------------------------------------------------------------------------- */

void __wrap_terminate(int status) {
    if (milcgpu_plugin_stopped()) {
        fflush(NULL);
        if (numnodes() > 1)
            end_ranks_that_do_not_end(status);
    }
    milcgpu_original(terminate)(status);
}

void milcgpu_stop_all_ranks(void) { terminate(1); }

void milcgpu_judge(int good) {
    if (good || milcgpu_plugin_compare() != 2)
        return;
    if (this_node == 0)
        fprintf(stderr, "milcgpu: MILCGPU_COMPARE=strict ends the run at this difference\n");
    milcgpu_stop_all_ranks();
}

void milcgpu_end_of_run(void) {
    if (this_node == 0)
        fprintf(stderr,
                "milcgpu: MILC cannot go on: the run ends. Start it again from the last lattice that it saved\n");
    milcgpu_stop_all_ranks();
}

int milcgpu_or_end(int made) {
    if (made < 0)
        milcgpu_end_of_run();
    return made;
}

void milcgpu_end_without(const char *routine) {
    if (this_node == 0)
        fprintf(
            stderr,
            "milcgpu: this call needs MILC's own %s, which is not in this program: the run ends. Add the object that "
            "has it to the make target of this program\n",
            routine);
    milcgpu_stop_all_ranks();
}

/* ---- the box ----------------------------------------------------------------------------------------------------- */

static void place_of_site(int x[4], int rank, size_t i) {
    (void)rank;
    x[0] = lattice[i].x, x[1] = lattice[i].y, x[2] = lattice[i].z, x[3] = lattice[i].t;
}

/* The first and the last corner of the lattice. */
static void place_of_corner(int x[4], int rank, size_t i) {
    const int last[4] = {nx - 1, ny - 1, nz - 1, nt - 1}, first[4] = {0, 0, 0, 0};
    (void)rank;
    memcpy(x, i == 0 ? first : last, sizeof last);
}

/* The one rank of a job has all sites. milcgpu_site_map() looks at each of them, with all threads. */
int milcgpu_describe_box(milcgpu_milc *milc) {
    const int whole[4] = {nx, ny, nz, nt}, alone = numnodes() == 1 && sites_on_node == volume;
    milcgpu_milc_box box;
    const int is_box = milcgpu_find_box(whole, mynode(), alone ? 2 : sites_on_node,
                                        alone ? place_of_corner : place_of_site, node_number, &box) ||
                       alone;
    memcpy(milc->extent, box.extent, sizeof box.extent);
    memcpy(milc->whole, box.whole, sizeof box.whole);
    memcpy(milc->origin, box.origin, sizeof box.origin);
    memcpy(milc->neighbour, box.neighbour, sizeof box.neighbour);
    return is_box;
}
