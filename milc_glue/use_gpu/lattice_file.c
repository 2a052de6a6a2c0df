/* restore_serial: MILC reads a lattice file of its versions 5 to 7 site by site on one thread, and most of the time
 * makes its two checksums. Here all threads read and sum. Header, site list and the judgement on the checksums are
 * MILC's. Other files, and those that end early, are MILC's own. */
#define _XOPEN_SOURCE 700 /* pread */
#include "glue.h"
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "routines.h"

#ifdef GAUGE_VERSION_NUMBER /* MILC's headers have it, those of a test program may not */

#define SITE_WORDS 72 /* four matrices of floats */
#define SITE_BYTES ((off_t)SITE_WORDS * 4)
#define SITES_AT_ONCE 64
#define ONE_READER 0 /* MILC's `parallel` */

static uint32_t reversed(uint32_t w) { return w >> 24 | (w >> 8 & 0xff00) | (w << 8 & 0xff0000) | w << 24; }
static uint32_t turned(uint32_t w, int left) { return left == 0 ? w : w << left | w >> (32 - left); }

typedef struct {
    int file;
    off_t start; /* of the first site's links */
    const gauge_file *gf;
    uint32_t sum29, sum31;
} reading;

static void take_site(reading *r, size_t rank, uint32_t *words, uint32_t sums[2]) {
    const size_t at = r->gf->rank2rcv != NULL ? (size_t)r->gf->rank2rcv[rank] : rank;
    const size_t yzt = at / nx, zt = yzt / ny;
    su3_matrix *link = lattice[node_index(at % nx, yzt % ny, zt % nz, zt / nz % nt)].link;
    Real *to = (Real *)link;
    int turn29 = (int)(rank * SITE_WORDS % 29), turn31 = (int)(rank * SITE_WORDS % 31), k;
    for (k = 0; k < SITE_WORDS; k++) {
        float value;
        if (r->gf->byterevflag == 1)
            words[k] = reversed(words[k]);
        sums[0] ^= turned(words[k], turn29);
        sums[1] ^= turned(words[k], turn31);
        turn29 = turn29 == 28 ? 0 : turn29 + 1;
        turn31 = turn31 == 30 ? 0 : turn31 + 1;
        memcpy(&value, &words[k], sizeof value);
        to[k] = value;
    }
}

/* 1: the file ends early, or cannot be read. */
static int read_part(void *what, size_t from, size_t to) {
    reading *r = (reading *)what;
    uint32_t words[SITES_AT_ONCE][SITE_WORDS], sums[2] = {0, 0};
    size_t rank, k;
    for (rank = from; rank < to; rank += SITES_AT_ONCE) {
        const size_t n = to - rank < SITES_AT_ONCE ? to - rank : SITES_AT_ONCE;
        if (pread(r->file, words, n * SITE_BYTES, r->start + (off_t)rank * SITE_BYTES) != (ssize_t)(n * SITE_BYTES))
            return 1;
        for (k = 0; k < n; k++)
            take_site(r, rank + k, words[k], sums);
    }
    __atomic_fetch_xor(&r->sum29, sums[0], __ATOMIC_RELAXED);
    __atomic_fetch_xor(&r->sum31, sums[1], __ATOMIC_RELAXED);
    return 0;
}

/* Whether the file begins with the number of versions 5 to 7, of whatever byte order. */
static int is_known(int file) {
    uint32_t first;
    return pread(file, &first, sizeof first, 0) == sizeof first &&
           (first == GAUGE_VERSION_NUMBER || reversed(first) == GAUGE_VERSION_NUMBER);
}

/* NULL: MILC's own is to read it, from the start. */
static gauge_file *restore(const char *name, int file) {
    gauge_file *gf = milcgpu_there(r_serial_i)((milcgpu_file_name)name);
    const off_t list_bytes = gf->rank2rcv != NULL ? (off_t)(volume * sizeof(int32_t)) : 0;
    const off_t sums_at = gf->header->header_bytes + list_bytes;
    reading r = {file, sums_at + (off_t)sizeof gf->check, gf, 0, 0};
    const int done = milcgpu_plugin_by_all_threads(volume, read_part, &r) == 0 &&
                     milcgpu_there(g_seek)(gf->fp, sums_at, SEEK_SET) >= 0;
    if (done) {
        gauge_check made;
        made.sum29 = r.sum29;
        made.sum31 = r.sum31;
        printf("Restored binary gauge configuration serially from file %s\nTime stamp %s\n", gf->filename,
               gf->header->time_stamp);
        milcgpu_there(read_checksum)(ONE_READER, gf, &made);
        fflush(stdout);
    }
    milcgpu_there(r_serial_f)(gf);
    if (done)
        return gf;
    free(gf->header);
    free(gf);
    return NULL;
}

gauge_file *__wrap_restore_serial(milcgpu_file_name name) {
    gauge_file *gf = NULL;
    const int file =
        numnodes() == 1 && milcgpu_plugin_by_all_threads(0, read_part, NULL) == 0 ? open(name, O_RDONLY) : -1;
    if (file >= 0) {
        if (is_known(file))
            gf = restore(name, file);
        close(file);
    }
    return gf != NULL ? gf : milcgpu_original(restore_serial)(name);
}
#else
typedef int milcgpu_no_lattice_file;
#endif
