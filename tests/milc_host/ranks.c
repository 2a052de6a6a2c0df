/* See ranks.h. */
#define _GNU_SOURCE /* RTLD_NEXT, MAP_ANONYMOUS */
#include "ranks.h"
#include "generic_ks/generic_ks_includes.h"
#include "plugin.h"
#include <dlfcn.h>
#include <linux/futex.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { tables = 2, ring_bytes = 1 << 20, board_bytes = 1 << 20, most_sums = 1024 };
typedef struct {
    size_t written, read; /* bytes so far, by the sender and by the receiver */
    char bytes[ring_bytes];
} ring;
struct run_memory {
    int arrived, turn;     /* for the barrier */
    int bells[most_ranks]; /* changes if a message for this rank has arrived, or a message of this rank was read */
    char board[board_bytes];
    double sums[most_ranks][most_sums];
    ring rings[tables][most_ranks][most_ranks]; /* from, to */
};
static run_memory *shared;

const size_t bytes_of_run_memory = sizeof(run_memory);

/* Sleeps, because ranks may be more than processors: until the word is no longer this value, or a millisecond. */
static void wait_for(int *word, int value) {
    const struct timespec longest = {0, 1000000};
    syscall(SYS_futex, word, FUTEX_WAIT, value, &longest, NULL, 0);
}
static void ring_bell(int *word) {
    __atomic_add_fetch(word, 1, __ATOMIC_ACQ_REL);
    syscall(SYS_futex, word, FUTEX_WAKE, most_ranks, NULL, NULL, 0);
}

void wait_for_all_ranks(void) {
    if (ranks == 1)
        return;
    const int turn = __atomic_load_n(&shared->turn, __ATOMIC_ACQUIRE);
    if (__atomic_add_fetch(&shared->arrived, 1, __ATOMIC_ACQ_REL) == ranks) {
        shared->arrived = 0;
        ring_bell(&shared->turn);
    }
    while (__atomic_load_n(&shared->turn, __ATOMIC_ACQUIRE) == turn)
        wait_for(&shared->turn, turn);
}

static int is_here(size_t s) {
    const int x = s % nx, y = s / nx % ny, z = s / nx / ny % nz, t = s / nx / ny / nz;
    return node_number(x, y, z, t) == this_node;
}

void share_sites(void *field, size_t bytes) {
    size_t s;
    if (ranks == 1)
        return;
    if (volume * bytes > board_bytes)
        abort();
    for (s = 0; s < volume; s++)
        if (is_here(s))
            memcpy(shared->board + s * bytes, (char *)field + s * bytes, bytes);
    wait_for_all_ranks();
    memcpy(field, shared->board, volume * bytes);
    wait_for_all_ranks();
}

int sums_over_ranks;

void g_vecdoublesum(double *sums, int n) {
    int r, k;
    sums_over_ranks++;
    if (ranks == 1)
        return;
    if (n > most_sums)
        abort();
    memcpy(shared->sums[this_node], sums, n * sizeof *sums);
    wait_for_all_ranks();
    for (k = 0; k < n; k++)
        for (sums[k] = 0, r = 0; r < ranks; r++)
            sums[k] += shared->sums[r][k];
    wait_for_all_ranks();
}
void g_intsum(int *sum) {
    double all = *sum;
    g_vecdoublesum(&all, 1);
    *sum = (int)all;
}
void g_uint32sum(uint32_t *sum) {
    double all = *sum;
    g_vecdoublesum(&all, 1);
    *sum = (uint32_t)(unsigned long long)all;
}
void g_doublesum(double *sum) { g_vecdoublesum(sum, 1); }
void g_dcomplexsum(double_complex *sum) { g_vecdoublesum(&sum->real, 2); }

/* ---- messages between ranks, by the table of milcgpu.h
 * ------------------------------------------------------------- */

typedef struct half { /* a message that this rank sends or receives, or one that arrived before its request */
    struct half *next;
    void *at;
    size_t bytes;
    int tag, is_done;
} half;
typedef struct {
    int table;
    half *sends[most_ranks], *receives[most_ranks], *unasked[most_ranks]; /* oldest first */
} post;
typedef struct {
    int count;
    half *halves[]; /* two for each message; NULL: that direction has none */
} handle;
static post posts[tables];

static void append(half **list, half *h) {
    while (*list != NULL)
        list = &(*list)->next;
    h->next = NULL;
    *list = h;
}
static half *new_half(void *at, const milcgpu_message *m) {
    half *const h = (half *)malloc(sizeof *h);
    h->at = at, h->bytes = m->bytes, h->tag = m->tag, h->is_done = 0;
    return h;
}
static half *take(half **list, int tag) {
    half *found;
    while (*list != NULL && (*list)->tag != tag)
        list = &(*list)->next;
    found = *list;
    if (found != NULL)
        *list = found->next;
    return found;
}

static void through_ring(ring *r, size_t *position, void *at, size_t bytes, int writes) {
    char *const mine = (char *)at;
    size_t k = 0;
    while (k < bytes) {
        const size_t place = (*position + k) % ring_bytes,
                     n = bytes - k < ring_bytes - place ? bytes - k : ring_bytes - place;
        writes ? memcpy(r->bytes + place, mine + k, n) : memcpy(mine + k, r->bytes + place, n);
        k += n;
    }
    *position += bytes;
}

static void send_what_fits(post *p, int peer) {
    ring *const r = &shared->rings[p->table][this_node][peer];
    half *h;
    while ((h = p->sends[peer]) != NULL) {
        size_t head[2] = {(size_t)h->tag, h->bytes}, at = r->written;
        if (at + sizeof head + h->bytes - __atomic_load_n(&r->read, __ATOMIC_ACQUIRE) > ring_bytes)
            return;
        through_ring(r, &at, head, sizeof head, 1);
        through_ring(r, &at, h->at, h->bytes, 1);
        __atomic_store_n(&r->written, at, __ATOMIC_RELEASE);
        ring_bell(&shared->bells[peer]);
        p->sends[peer] = h->next;
        h->is_done = 1;
    }
}
static int receive_what_came(post *p, int peer) {
    ring *const r = &shared->rings[p->table][peer][this_node];
    while (r->read < __atomic_load_n(&r->written, __ATOMIC_ACQUIRE)) {
        size_t head[2], at = r->read;
        half *h;
        through_ring(r, &at, head, sizeof head, 0);
        h = take(&p->receives[peer], (int)head[0]);
        if (h == NULL) {
            const milcgpu_message m = {peer, NULL, NULL, head[1], (int)head[0]};
            h = new_half(malloc(head[1]), &m);
            append(&p->unasked[peer], h);
        } else if (h->bytes != head[1])
            return 99; /* the two ranks disagree on the size */
        through_ring(r, &at, h->at, head[1], 0);
        __atomic_store_n(&r->read, at, __ATOMIC_RELEASE);
        ring_bell(&shared->bells[peer]);
        h->is_done = 1;
    }
    return 0;
}

static int start_messages(void *user, int count, const milcgpu_message *messages, void **handle_to) {
    post *const p = (post *)user;
    handle *const made = (handle *)calloc(1, sizeof *made + 2 * count * sizeof(half *));
    int k;
    made->count = 2 * count;
    for (k = 0; k < count; k++) {
        const milcgpu_message *const m = &messages[k];
        if (m->send != NULL)
            append(&p->sends[m->peer], made->halves[2 * k] = new_half((void *)m->send, m));
        if (m->receive != NULL) {
            half *const h = made->halves[2 * k + 1] = new_half(m->receive, m),
                        *came = take(&p->unasked[m->peer], m->tag);
            if (came == NULL)
                append(&p->receives[m->peer], h);
            else {
                if (came->bytes != h->bytes)
                    return 99;
                memcpy(h->at, came->at, h->bytes);
                h->is_done = 1;
                free(came->at), free(came);
            }
        }
    }
    *handle_to = made;
    return 0;
}
static int test_messages(void *user, void *of, int *done) {
    post *const p = (post *)user;
    handle *const h = (handle *)of;
    int *const bell = &shared->bells[this_node], rung = __atomic_load_n(bell, __ATOMIC_ACQUIRE);
    int peer, k, code = 0;
    for (peer = 0; peer < ranks && code == 0; peer++) {
        send_what_fits(p, peer);
        code = receive_what_came(p, peer);
    }
    for (*done = 1, k = 0; k < h->count; k++)
        *done = *done && (h->halves[k] == NULL || h->halves[k]->is_done);
    if (*done) {
        for (k = 0; k < h->count; k++)
            free(h->halves[k]);
        free(h);
    } else if (code == 0)
        wait_for(bell, rung);
    return code;
}
static void end_here(void *user, const char *why) {
    (void)user;
    fprintf(stderr, "%s\n", why);
    abort();
}

/* The glue calls the library's function of this name through this one, which has no MPI to pass on. */
int milcgpu_plugin_start(const milcgpu_milc *milc) {
    int (*const start)(const milcgpu_milc *) = (int (*)(const milcgpu_milc *))dlsym(RTLD_NEXT, "milcgpu_plugin_start");
    static milcgpu_messages messages[tables];
    milcgpu_milc with = *milc;
    int k;
    for (k = 0; k < tables; k++) {
        const milcgpu_messages table = {sizeof table,   this_node,     ranks,    this_node, ranks,          &posts[k],
                                        start_messages, test_messages, end_here, 0,         "shared memory"};
        posts[k].table = k;
        messages[k] = table;
    }
    if (ranks > 1)
        with.messages = &messages[0], with.decisions = &messages[1];
    return start(&with);
}

/* ---- this rank's box --------------------------------------------------------------------------------------------- */

int ranks = 1, box_origin[4], box_extent[4];
static int grid[4] = {1, 1, 1, 1};

void become_rank(run_memory *memory, int rank, const int cut[4]) {
    const int whole[4] = {nx, ny, nz, nt};
    int d, left = rank;
    shared = memory;
    this_node = rank;
    for (d = 0, ranks = 1; d < 4; d++) {
        grid[d] = cut[d];
        box_extent[d] = whole[d] / cut[d];
        box_origin[d] = box_extent[d] * (left % cut[d]);
        left /= cut[d];
        ranks *= cut[d];
    }
}
int node_number(int x, int y, int z, int t) {
    if (ranks == 1)
        return 0;
    return x / box_extent[0] +
           grid[0] * (y / box_extent[1] + grid[1] * (z / box_extent[2] + grid[2] * (t / box_extent[3])));
}

/* ---- addresses --------------------------------------------------------------------------------------------------- */

#if !defined(__SANITIZE_ADDRESS__)
/* Fields come from here if the run requests it: the last freed block, which keeps its content, because the library must
 * not take old content for new; or a block that was never used, while a freed block is filled with NaN. Sizes are
 * rounded up, so that fields of different kinds get the same addresses. The C library serves all else: smaller blocks,
 * and the gigabytes that the library reserves at its start and never touches. */
enum { least_bytes = 1024, most_bytes = 64 << 20, head_bytes = 64, classes = 4096, class_bytes = 32 << 10 };
void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
void __libc_free(void *);
static enum address_rule rule = as_libc;
static char *arena, *arena_next, *arena_end;
static struct {
    size_t bytes;
    char *last; /* the first word of a freed block points to the one freed before */
} freed[classes];
static int locked;
static void lock(void) {
    while (__atomic_exchange_n(&locked, 1, __ATOMIC_ACQUIRE))
        sched_yield();
}
static void unlock(void) { __atomic_store_n(&locked, 0, __ATOMIC_RELEASE); }

void use_addresses(enum address_rule asked) {
    const size_t bytes = (size_t)64 << 30;
    arena = (char *)mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (arena == MAP_FAILED)
        abort();
    arena_next = arena, arena_end = arena + bytes;
    rule = asked;
}
static int is_of_arena(const void *p) { return (const char *)p >= arena && (const char *)p < arena_end; }
static size_t *bytes_of(void *p) { return (size_t *)((char *)p - head_bytes); }
static char **freed_of(size_t bytes) {
    size_t k = bytes / class_bytes % classes;
    while (freed[k].bytes != 0 && freed[k].bytes != bytes)
        k = (k + 1) % classes;
    freed[k].bytes = bytes;
    return &freed[k].last;
}

void *malloc(size_t bytes) {
    char *p = NULL, **last;
    if (rule == as_libc || bytes < least_bytes || bytes > most_bytes)
        return __libc_malloc(bytes);
    bytes = (bytes + class_bytes - 1) / class_bytes * class_bytes;
    lock();
    last = freed_of(bytes);
    if (rule == reuse_last && *last != NULL) {
        p = *last;
        memcpy(last, p, sizeof *last);
    } else if (arena_next + head_bytes + bytes <= arena_end) {
        p = arena_next + head_bytes;
        arena_next += head_bytes + bytes;
        *bytes_of(p) = bytes;
    }
    unlock();
    return p;
}
void free(void *p) {
    if (!is_of_arena(p)) {
        __libc_free(p);
        return;
    }
    lock();
    if (rule == reuse_never) {
        memset(p, 0xFF, *bytes_of(p));
    } else {
        char **const last = freed_of(*bytes_of(p));
        memcpy(p, last, sizeof *last);
        *last = (char *)p;
    }
    unlock();
}
void *calloc(size_t n, size_t size) {
    void *p;
    if (rule == as_libc || n * size < least_bytes || n * size > most_bytes)
        return __libc_calloc(n, size);
    p = malloc(n * size);
    return p != NULL ? memset(p, 0, n * size) : NULL;
}
void *realloc(void *old, size_t bytes) {
    void *p;
    if (!is_of_arena(old))
        return __libc_realloc(old, bytes);
    p = malloc(bytes);
    if (p != NULL) {
        memcpy(p, old, *bytes_of(old) < bytes ? *bytes_of(old) : bytes);
        free(old);
    }
    return p;
}
#else
void use_addresses(enum address_rule asked) { (void)asked; }
#endif
