/* The library beside a twin that keeps nothing. Random sequences of operations (operations.c) run twice: by the
 * library, on ranks that are processes, and in one more process by MILC's originals alone (MILCGPU_OFF=1). Both must
 * get the same numbers, whatever the library keeps, defers, or finds at an address that it knows.
 *
 *   program twin SEQUENCES [FIRST SEED]     prints how many differed; exit status 0: none
 *   program twin steps STEP ...             runs these steps alone
 *
 *   MILC_TWIN_RANKS=1, 2, 4                        ranks of the library
 *   MILC_TWIN_ADDRESSES=libc, again, never, odd    a new field gets the last freed block of its size (again), never a
 *                                                  freed block, or the former on even ranks and the latter on odd ones
 *   MILC_TWIN_MEASURES=1                           a larger lattice, which measurements need
 *   MILC_TWIN_SHOW=1                               prints the numbers of both, and the library's output
 *   MILC_TWIN_FAULT=1                              the twin does not edit its sources: the numbers differ
 *
 * A seed determines a sequence. The sequences of a group run one after the other in the same processes, so that the
 * library meets what it kept from earlier ones. If a sequence differs, crashes or hangs, the driver leaves out steps as
 * long as the failure stays, and prints the command that runs the rest. */
#define _GNU_SOURCE
#include "twin.h"
#include "../generic_ks/generic_ks_includes.h"
#include "../include/fermion_links.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <quark_action.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern void (*instead_of_update)(void); /* update.c */

typedef struct {
    int operation;
    uint64_t seed;
} step;
enum { group = 25, longest = 40, most_steps = 2 * group * longest, most_numbers = 100000 };
static struct {
    int n;
    step steps[most_steps];
} script;

/* Output of a process, in memory that it shares with the driver. */
typedef struct {
    int n, done; /* numbers; steps */
    struct {
        int step;
        float tolerance;
        double value;
    } numbers[most_numbers];
} record;
static record *records[2], *mine; /* of the library's rank 0, and of the twin */
static run_memory *shared;

int is_twin, one_rank, in_trajectory, this_step;

void say(double value, double tolerance) {
    if (mine == NULL)
        return;
    if (mine->n == most_numbers)
        abort();
    mine->numbers[mine->n].step = this_step;
    mine->numbers[mine->n].tolerance = tolerance;
    mine->numbers[mine->n++].value = value;
}

static uint64_t mixed(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}
static uint64_t state;
uint64_t draw(void) { return mixed(state += 0x9E3779B97F4A7C15u); }
int any(int n) { return (int)(draw() % (uint64_t)n); }
double noise_of(uint64_t key) { return (double)(mixed(key + 0x9E3779B97F4A7C15u) >> 11) * 0x1p-52 - 1; }

/* ---- a run of the script, in each process ------------------------------------------------------------------------ */

static int next;
static void run_steps(void);
static void run_inside(void) {
    in_trajectory = 1;
    run_steps();
    in_trajectory = 0;
    leave_trajectory();
}
/* Runs steps to the end of the script, or of the trajectory. */
static void run_steps(void) {
    while (next < script.n) {
        const step *const s = &script.steps[next];
        if (in_trajectory && (s->operation == LEAVE || s->operation == BEGIN))
            return;
        this_step = next++;
        state = s->seed;
        if (s->operation == ENTER && !in_trajectory && operations[LEAVE + 1].can()) {
            instead_of_update = run_inside;
            update();
        } else if (operations[s->operation].can())
            operations[s->operation].run();
        if (mine != NULL)
            mine->done = next;
    }
}

static int asked_ranks(void) { return getenv("MILC_TWIN_RANKS") != NULL ? atoi(getenv("MILC_TWIN_RANKS")) : 1; }
static enum address_rule addresses_of(int rank) {
    const char *const word = getenv("MILC_TWIN_ADDRESSES");
    if (word == NULL || strcmp(word, "libc") == 0)
        return as_libc;
    if (strcmp(word, "odd") == 0)
        return rank % 2 == 0 ? reuse_last : reuse_never;
    return strcmp(word, "never") == 0 ? reuse_never : reuse_last;
}

/* rank: -1: the twin. */
static void be_process(int rank) {
    const int n = asked_ranks();
    const int cut[4] = {1, 1, n == 4 ? 2 : 1, n > 1 ? 2 : 1}, whole[4] = {1, 1, 1, 1};
    static char name[] = "program", *words[] = {name, NULL}, **argv = words;
    int argc = 1;
    if (getenv("MILC_TWIN_SHOW") == NULL) {
        const int nowhere = open("/dev/null", O_WRONLY);
        dup2(nowhere, 1), dup2(nowhere, 2);
    }
    is_twin = rank < 0;
    one_rank = n == 1;
    mine = rank < 0 ? records[1] : rank == 0 ? records[0] : NULL;
    if (is_twin)
        setenv("MILCGPU_OFF", "1", 1);
    else
        use_addresses(addresses_of(rank));
    become_rank(shared, is_twin ? 0 : rank, is_twin ? whole : cut);
    initialize_machine(&argc, &argv);
    make_lattice();
    begin_program();
    next = 0;
    run_steps();
    normal_exit(0);
}

/* ---- the driver -------------------------------------------------------------------------------------------------- */

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

typedef struct {
    int step; /* the first wrong step; -1: none */
    char what[200];
} verdict;
static double closest; /* the largest difference, relative to its tolerance */

static void compare(verdict *v, int ended) {
    const record *const a = records[0], *const b = records[1];
    int k;
    for (k = 0; k < a->n && k < b->n; k++) {
        const double x = a->numbers[k].value, y = b->numbers[k].value,
                     part = fabs(x - y) / (fmax(1, fabs(y)) * (a->numbers[k].tolerance + 1e-300));
        if (a->numbers[k].step != b->numbers[k].step || !(part <= 1 || x == y)) {
            v->step = a->numbers[k].step < b->numbers[k].step ? a->numbers[k].step : b->numbers[k].step;
            snprintf(v->what, sizeof v->what, "%.12g, the twin %.12g", x, y);
            return;
        }
        closest = x != y && part > closest ? part : closest;
    }
    if (ended && a->n != b->n) {
        v->step = (a->n < b->n ? b : a)->numbers[k].step;
        snprintf(v->what, sizeof v->what, "%d numbers, the twin %d", a->n, b->n);
    }
}

static verdict run_script(void) {
    enum { longest_wait = 120 }; /* seconds for a step */
    const int n = asked_ranks();
    pid_t children[most_ranks + 1];
    int k, left = n + 1, bad = 0, status;
    double stopped = 0, progress = seconds();
    int done = 0;
    verdict v = {-1, ""};
    memset(shared, 0, bytes_of_run_memory);
    records[0]->n = records[0]->done = records[1]->n = records[1]->done = 0;
    published->step = published->taken = -1;
    fflush(NULL);
    for (k = 0; k <= n; k++)
        if ((children[k] = fork()) == 0)
            be_process(k == n ? -1 : k);
    while (left > 0) {
        for (k = 0; k <= n; k++)
            if (children[k] > 0 && waitpid(children[k], &status, WNOHANG) == children[k]) {
                children[k] = 0;
                left--;
                if (status != 0 && stopped == 0) {
                    stopped = seconds();
                    bad = status;
                    if (k < n)
                        snprintf(v.what, sizeof v.what, "rank %d ended by %s %d", k,
                                 WIFSIGNALED(status) ? "signal" : "status",
                                 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
                    else
                        snprintf(v.what, sizeof v.what, "the twin ended by status %x", status);
                }
            }
        if (records[0]->done + records[1]->done != done) {
            done = records[0]->done + records[1]->done;
            progress = seconds();
        }
        if (left > 0 && (stopped > 0 || seconds() > progress + longest_wait)) {
            if (stopped == 0) {
                snprintf(v.what, sizeof v.what, "no step for %d seconds", longest_wait);
                bad = 1;
            }
            for (k = 0; k <= n; k++)
                if (children[k] > 0)
                    kill(children[k], SIGKILL);
            stopped = seconds();
        }
        usleep(500);
    }
    if (bad)
        v.step = records[0]->done < script.n ? records[0]->done : script.n - 1;
    {
        verdict of_numbers = {-1, ""};
        compare(&of_numbers, !bad);
        if (of_numbers.step >= 0)
            v = of_numbers;
    }
    return v;
}

/* One sequence in four has many of the operations, some of them often. The others have some operations of at most three
 * themes: otherwise four certain ones in a row would be rare. If forces are one theme, three of four sequences begin
 * with a trajectory. Every other step repeats an earlier one with the same draws: the same links, source and mass. */
static void add_sequence(uint64_t seed) {
    const char *const all_themes = nx > 2 ? "gwlsfebm" : "gwlsfeb";
    uint64_t drawn = seed * 0x9E3779B97F4A7C15u;
    const int first = script.n, n = 8 + mixed(++drawn) % (longest - 8), of_all = mixed(++drawn) % 4 == 0;
    int weights[n_operations], k, all = 0;
    char themes[] = "...*";
    for (k = 0; k < 3; k++)
        themes[k] = all_themes[mixed(++drawn) % strlen(all_themes)];
    for (k = 0; k < n_operations; k++)
        all += weights[k] = operations[k].weight * (of_all || strchr(themes, operations[k].theme) != NULL) *
                            (int[]){0, !of_all, 1, 4}[mixed(++drawn) % 4];
    script.steps[script.n++] = (step){BEGIN, mixed(++drawn)};
    if (strchr(themes, 'f') != NULL && mixed(++drawn) % 4 != 0)
        script.steps[script.n++] = (step){ENTER, mixed(++drawn)};
    while (script.n < first + n && all > 0) {
        int at = mixed(++drawn) % all;
        if (script.n > first + 1 && mixed(++drawn) % 2 == 0) {
            script.steps[script.n] = script.steps[first + 1 + mixed(++drawn) % (script.n - first - 1)];
            script.n++;
            continue;
        }
        for (k = 0; at >= weights[k]; k++)
            at -= weights[k];
        script.steps[script.n++] = (step){k, mixed(++drawn)};
    }
}

static void print_script(const char *before) {
    int k;
    printf("%s", before);
    for (k = 0; k < script.n; k++)
        printf(" %s:%llx", operations[script.steps[k].operation].name, (unsigned long long)script.steps[k].seed);
    printf("\n");
}

/* Leaves out steps, fewer and fewer at a time, as long as the rest differs. */
static verdict shorten(verdict v) {
    const double begun = seconds();
    int size;
    script.n = v.step + 1;
    for (size = script.n / 2; size >= 1 && seconds() < begun + 120; size = size > 1 ? size / 2 : 0) {
        int at = 0, again = 1;
        while (again) {
            again = 0;
            for (at = script.n - size; at > -size && seconds() < begun + 120; at -= size) {
                const int from = at > 0 ? at : 0, n = at > 0 ? size : at + size;
                const int all = script.n;
                step *const kept = (step *)malloc(sizeof script.steps);
                memcpy(kept, script.steps, sizeof script.steps);
                memmove(script.steps + from, script.steps + from + n, (all - from - n) * sizeof(step));
                script.n -= n;
                const verdict w = script.n > 0 ? run_script() : (verdict){-1, ""};
                if (w.step >= 0) {
                    v = w;
                    script.n = v.step + 1;
                    if (at > script.n)
                        at = script.n;
                    again = size == 1;
                } else {
                    memcpy(script.steps, kept, sizeof script.steps);
                    script.n = all;
                }
                free(kept);
            }
        }
    }
    return v;
}

static int parse_steps(int n, char **words) {
    int k, o;
    for (k = 0; k < n && k < most_steps; k++) {
        const char *const colon = strchr(words[k], ':');
        for (o = 0; colon != NULL && o < n_operations; o++)
            if (strncmp(words[k], operations[o].name, colon - words[k]) == 0 &&
                operations[o].name[colon - words[k]] == 0)
                break;
        if (colon == NULL || o == n_operations) {
            fprintf(stderr, "%s is no step: want NAME:SEED, a name of operations.c\n", words[k]);
            return 0;
        }
        script.steps[script.n++] = (step){o, strtoull(colon + 1, NULL, 16)};
    }
    return 1;
}

static void show_numbers(void) {
    int k;
    for (k = 0; k < records[0]->n || k < records[1]->n; k++)
        printf("step %d %s: %.15g, the twin %.15g\n", records[0]->numbers[k].step,
               operations[script.steps[records[0]->numbers[k].step].operation].name,
               k < records[0]->n ? records[0]->numbers[k].value : NAN,
               k < records[1]->n ? records[1]->numbers[k].value : NAN);
}

static void *mapped(size_t bytes) {
    void *const p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        perror("the twin's memory");
        exit(2);
    }
    return p;
}

int twin(int argc, char **argv) {
    const int by_steps = argc > 2 && strcmp(argv[2], "steps") == 0;
    const long n = argc > 2 ? atol(argv[2]) : 50, first = argc > 3 ? atol(argv[3]) : 1;
    long seed = first;
    int different = 0;
    nx = ny = getenv("MILC_TWIN_MEASURES") != NULL ? 4 : 2;
    nz = asked_ranks() == 4 ? 6 : nx;
    nt = asked_ranks() == 1 ? 4 : 6;
    shared = (run_memory *)mapped(bytes_of_run_memory);
    records[0] = (record *)mapped(sizeof(record));
    records[1] = (record *)mapped(sizeof(record));
    published = (handed_over *)mapped(sizeof *published);
    if (by_steps) {
        verdict v;
        if (!parse_steps(argc - 3, argv + 3))
            return 2;
        v = run_script();
        if (getenv("MILC_TWIN_SHOW") != NULL)
            show_numbers();
        printf("%s %s\n", v.step < 0 ? "no difference" : operations[script.steps[v.step].operation].name, v.what);
        return v.step >= 0;
    }
    while (seed < first + n) {
        int starts[group], k = 0;
        verdict v;
        script.n = 0;
        if (FERM_ACTION == HISQ && seed / group % 2)
            script.steps[script.n++] = (step){WITHOUT_AUXILIARY, 0};
        do {
            starts[k] = script.n;
            add_sequence(seed + k);
            k++;
        } while (seed + k < first + n && (seed + k) % group != 0);
        v = run_script();
        if (v.step >= 0) {
            for (k = 0;
                 k + 1 < group && starts[k + 1] > starts[k] && starts[k + 1] <= v.step && seed + k + 1 < first + n;)
                k++;
            printf("seed %ld: %s: %s\n", seed + k, operations[script.steps[v.step].operation].name, v.what);
            if (different++ == 0) {
                v = shorten(v);
                printf("%d steps are enough; the last, %s: %s\n", script.n,
                       operations[script.steps[v.step].operation].name, v.what);
                print_script("again by: program twin steps");
            }
            fflush(stdout);
            k++;
        }
        seed += k;
    }
    printf("%ld sequences, %d differ; the closest took %.2g of its tolerance\n", n, different, closest);
    return different != 0;
}
