/* milcgpu: gauge fields in files, read and written by all ranks.
 *
 * Files of MILC's version 5 are read, in either byte order, and written, in single precision; single files of SciDAC
 * and ILDG are read. Files have links without phases. Numbers are converted to the precision of the field. Each rank
 * reads the sites of its box. On several hosts, where these lie in short runs, it reads a share of the file in large
 * pieces instead, and passes on what belongs to other boxes. No rank has more than its own box and pieces of 32 MB.
 * Every rank must see the file under this name.
 *
 * A damaged or foreign file gives BAD_ARGUMENT on all ranks, with its name, the byte, what is wrong and what to do: too
 * short, extents of another lattice, no known format, sites in an order of their own (MILC's
 * save_checkpoint), checksums that are not those of the data. What its head shows leaves `links` untouched. After a
 * wrong checksum `links` holds what was read; where the disk failed, or the file became shorter meanwhile, it holds 0.
 */
#ifndef MILCGPU_FILE_H
#define MILCGPU_FILE_H

#include "milcgpu.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum { MILCGPU_FILE_MILC = 1, MILCGPU_FILE_SCIDAC = 2 /* and ILDG */ } milcgpu_file_format;

typedef struct {
    size_t struct_size;
    int format; /* milcgpu_file_format */
    int extent[4];
    int precision;         /* of the numbers in the file */
    int has_checksums;     /* 0: an ILDG file without them; its data are not checked */
    uint32_t checksums[2]; /* sum29 and sum31 of version 5, suma and sumb of SciDAC */
    char time[64];         /* of writing, in version 5; else empty */
} milcgpu_gauge_file;

/* Reads the head of a file alone, on this rank; needs no context. */
milcgpu_status milcgpu_gauge_file_look(const char *path, milcgpu_gauge_file *file);

/* Reads the links, 4 a site, of this rank's box. All ranks call it. file may be NULL. */
milcgpu_status milcgpu_gauge_file_read(milcgpu_context *context, const char *path, const milcgpu_field *links,
                                       milcgpu_gauge_file *file);

/* Writes a file of version 5, as MILC's save_serial and save_parallel do. All ranks call it. time: the time of
 * writing as the file shall name it, at most 63 characters; NULL: now. The file gets its name when it is whole and
 * on the disk; until then it is beside it (NAME.<process>.part), and an older one of that name stays. BAD_ARGUMENT if
 * it cannot be written, is no plain file, or the disk is full; if the name cannot be given, as to a mount point, the
 * whole file stays beside it, and the message names it. NAN_OR_INF: a number is NaN, or is infinite in single
 * precision, with the place. file may be NULL. */
milcgpu_status milcgpu_gauge_file_write(milcgpu_context *context, const char *path, const milcgpu_field *links,
                                        const char *time, milcgpu_gauge_file *file);

#ifdef __cplusplus
}
#endif
#endif
