/* Lattice files of MILC's version 5: number, extents, time stamp, order of the sites, [their list], two checksums,
 * links as floats. */
#include "../generic_ks/generic_ks_includes.h"
#include <string.h>

size_t sites_read; /* by this file */

static uint32_t other_end(uint32_t w) {
    unsigned char b[4];
    memcpy(b, &w, 4);
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static uint32_t word_of(gauge_file *gf) {
    uint32_t w;
    if (fread(&w, 4, 1, gf->fp) != 1) {
        printf("a lattice file ends early\n");
        terminate(1);
    }
    return gf->byterevflag ? other_end(w) : w;
}

int g_seek(FILE *stream, off_t offset, int whence) { return fseek(stream, (long)offset, whence); }

gauge_file *r_serial_i(file_name filename) {
    gauge_file *gf = (gauge_file *)calloc(1, sizeof *gf);
    gauge_header *gh = (gauge_header *)calloc(1, sizeof *gh);
    size_t k;
    gf->header = gh;
    gf->filename = (char *)filename;
    gf->fp = fopen(filename, "rb");
    if (gf->fp == NULL) {
        printf("no lattice file\n");
        terminate(1);
    }
    gh->magic_number = (int)word_of(gf);
    gf->byterevflag = gh->magic_number != GAUGE_VERSION_NUMBER;
    if (gf->byterevflag)
        gh->magic_number = (int)other_end((uint32_t)gh->magic_number);
    for (k = 0; k < 4; k++)
        gh->dims[k] = (int)word_of(gf);
    if (fread(gh->time_stamp, 1, sizeof gh->time_stamp, gf->fp) != sizeof gh->time_stamp)
        terminate(1);
    gh->order = (int)word_of(gf);
    gh->header_bytes = (int)ftell(gf->fp);
    if (gh->order != 0) {
        gf->rank2rcv = (int *)malloc(volume * sizeof(int));
        for (k = 0; k < volume; k++)
            gf->rank2rcv[k] = (int)word_of(gf);
    }
    return gf;
}

void r_serial_f(gauge_file *gf) {
    fclose(gf->fp);
    free(gf->rank2rcv);
    gf->rank2rcv = NULL;
}

void read_checksum(int parallel, gauge_file *gf, gauge_check *made) {
    (void)parallel;
    gf->check.sum29 = word_of(gf);
    gf->check.sum31 = word_of(gf);
    printf(gf->check.sum29 == made->sum29 && gf->check.sum31 == made->sum31 ? "Checksums %x %x OK\n"
                                                                            : "Checksums %x %x are others\n",
           made->sum29, made->sum31);
}

gauge_file *restore_serial(file_name filename) {
    gauge_file *gf = r_serial_i(filename);
    gauge_check made = {0, 0};
    size_t rank, k, n = 0;
    fseek(gf->fp, gf->header->header_bytes + 8 + (gf->rank2rcv != NULL ? 4 * (long)volume : 0), SEEK_SET);
    for (rank = 0; rank < volume; rank++, sites_read++) {
        const int at = gf->rank2rcv != NULL ? gf->rank2rcv[rank] : (int)rank;
        Real *to = (Real *)lattice[node_index(at % nx, at / nx % ny, at / nx / ny % nz, at / nx / ny / nz)].link;
        for (k = 0; k < 72; k++, n++) {
            const uint32_t w = word_of(gf);
            float value;
            made.sum29 ^= (uint32_t)((uint64_t)w << n % 29 | (uint64_t)w << n % 29 >> 32);
            made.sum31 ^= (uint32_t)((uint64_t)w << n % 31 | (uint64_t)w << n % 31 >> 32);
            memcpy(&value, &w, 4);
            to[k] = value;
        }
    }
    printf("Restored binary gauge configuration serially from file %s\nTime stamp %s\n", filename,
           gf->header->time_stamp);
    fseek(gf->fp, gf->header->header_bytes + (gf->rank2rcv != NULL ? 4 * (long)volume : 0), SEEK_SET);
    read_checksum(0, gf, &made);
    r_serial_f(gf);
    return gf;
}
