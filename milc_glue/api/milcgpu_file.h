/* milcgpu: gauge fields in files, read and written by all ranks.
 *
 * Files of MILC's version 5 are read, in either byte order, and written, in single precision; single files of SciDAC
 * and ILDG are read; NERSC archives are read and written. Files have links without phases. Numbers are converted to the
 * precision of the field. Each rank reads the sites of its box. On several hosts, if these lie in short runs, each rank
 * reads a share of the file in large pieces instead, and sends sites of other boxes to their ranks. No rank has more
 * than its own box and pieces of 32 MB. Every rank must see the file under this name.
 *
 * A damaged or foreign file gives BAD_ARGUMENT on all ranks, with its name, the byte, what is wrong and what to do: too
 * short, extents of another lattice, no known format, sites in an order of their own (MILC's save_checkpoint),
 * checksums or a plaquette that do not fit the data, or a head that contradicts itself. If its head shows the fault,
 * `links` is untouched. After a wrong checksum or plaquette `links` holds what was read; if the disk failed, or the
 * file became shorter meanwhile, it holds 0. If memory runs out during the read, it holds a part of the file.
 */
#ifndef MILCGPU_FILE_H
#define MILCGPU_FILE_H

#include "milcgpu.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    MILCGPU_FILE_MILC = 1,
    MILCGPU_FILE_SCIDAC = 2, /* and ILDG */
    MILCGPU_FILE_NERSC = 3   /* DATATYPE 4D_SU3_GAUGE_3x3, or 4D_SU3_GAUGE without the third rows */
} milcgpu_file_format;

typedef struct {
    size_t struct_size;
    int format; /* milcgpu_file_format */
    int extent[4];
    int precision;         /* of the numbers in the file */
    int has_checksums;     /* 0: an ILDG file without checksums; its data are not checked */
    uint32_t checksums[2]; /* sum29 and sum31 of version 5, suma and sumb of SciDAC; NERSC: the sum of all words, 0 */
    char time[64];         /* of writing, in version 5 and NERSC; else empty */
    double plaquette;      /* NERSC: mean of Re tr / 3 of all plaquettes, 1 on unit links; NaN: the file does not say */
} milcgpu_gauge_file;

/* Reads the head of a file alone, on this rank; needs no context. */
milcgpu_status milcgpu_gauge_file_look(const char *path, milcgpu_gauge_file *file);

/* Reads the links, 4 a site, of this rank's box. All ranks call it. file may be NULL. If the file says its plaquette,
 * the plaquette of the links is compared, up to 1e-5; that takes a gauge field on the device for a moment. */
milcgpu_status milcgpu_gauge_file_read(milcgpu_context *context, const char *path, const milcgpu_field *links,
                                       milcgpu_gauge_file *file);

/* Writes a file of version 5, as MILC's save_serial and save_parallel do. All ranks call it. time: the time of writing
 * for the file, at most 63 characters; NULL: now. The file gets its name when it is whole and on the disk; until then
 * it is beside it (NAME.<process>.part), and an older one of that name stays. BAD_ARGUMENT if it cannot be written, is
 * no plain file, or the disk is full; if the file cannot be renamed, as onto a mount point, the whole file stays beside
 * it, and the message names it. NAN_OR_INF: a number is NaN, or is infinite in single precision, with the place. file
 * may be NULL. */
milcgpu_status milcgpu_gauge_file_write(milcgpu_context *context, const char *path, const milcgpu_field *links,
                                        const char *time, milcgpu_gauge_file *file);

typedef struct {
    size_t struct_size;
    int precision;                            /* of the numbers in the file, single or double */
    int rows;                                 /* of each link: 3, or 2, which must be in SU(3) then; 0: 3 */
    int sequence_number;                      /* of the configuration in its ensemble */
    const char *ensemble_id, *ensemble_label; /* at most 100 printable characters; NULL: none. Rank 0's are written */
} milcgpu_nersc_spec;
void milcgpu_nersc_defaults(milcgpu_nersc_spec *spec, size_t size); /* single precision */

/* Writes a NERSC archive in big endian, with the plaquette and the mean trace of the links. All ranks call it. Else as
 * milcgpu_gauge_file_write. */
milcgpu_status milcgpu_gauge_file_write_nersc(milcgpu_context *context, const char *path, const milcgpu_field *links,
                                              const milcgpu_nersc_spec *spec, milcgpu_gauge_file *file);

#ifdef __cplusplus
}
#endif
#endif
