/* Lattice files, with MILC's names. */
#ifndef IO_LAT_H
#define IO_LAT_H

#include <stdint.h>
#include <stdio.h>

#ifdef MILC_HOST_MASTER
typedef char *file_name;
#else
typedef const char *file_name;
#endif

enum { CONTINUE = 10, FRESH, RELOAD_SERIAL, FORGET = 40, SAVE_SERIAL };
#define WARM 20
#define SAVE_CHECKPOINT 43
#define GAUGE_VERSION_NUMBER 20103

typedef struct {
    int32_t magic_number;
    char time_stamp[64];
    int32_t dims[4], header_bytes, order;
} gauge_header;
typedef struct {
    uint32_t sum31, sum29;
} gauge_check;
typedef struct {
    FILE *fp;
    gauge_header *header;
    file_name filename;
    int byterevflag;
    uint32_t *rank2rcv;
    int parallel, dataformat, precision;
    gauge_check check;
} gauge_file;

gauge_file *reload_lattice(int flag, file_name file);
gauge_file *restore_serial(file_name file), *restore_parallel(file_name file);
gauge_file *save_serial(file_name file), *save_parallel(file_name file);
gauge_file *restore_mpiio(file_name file), *save_mpiio(file_name file);
#ifdef MILC_HOST_MASTER
gauge_file *restore_serial_scidac(file_name file), *restore_parallel_scidac(file_name file);
gauge_file *save_serial_scidac(file_name file), *save_parallel_scidac(file_name file);
gauge_file *save_serial_ildg(file_name file, char *lfn), *save_parallel_ildg(file_name file, char *lfn);
#else
gauge_file *restore_serial_scidac(su3_matrix *field, file_name file);
gauge_file *restore_parallel_scidac(su3_matrix *field, file_name file);
gauge_file *save_serial_scidac(su3_matrix *field, file_name file, int prec);
gauge_file *save_parallel_scidac(su3_matrix *field, file_name file, int prec);
gauge_file *save_serial_ildg(su3_matrix *field, file_name file, int prec, file_name lfn);
gauge_file *save_parallel_ildg(su3_matrix *field, file_name file, int prec, file_name lfn);
#endif
gauge_file *setup_input_gauge_file(file_name file), *setup_output_gauge_file(void);
void free_output_gauge_file(gauge_file *gf), write_gauge_info_file(gauge_file *gf);

typedef uint32_t u_int32type;
u_int32type nersc_cksum(void);

#endif
