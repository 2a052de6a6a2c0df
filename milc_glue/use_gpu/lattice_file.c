/* Lattice files, read and written by all ranks and threads: restore_serial, restore_parallel, restore_mpiio and the
 * matching save_ routines, and their SciDAC and ILDG versions. Printed lines, headers and info files are MILC's. The
 * plugin takes files of MILC's version 5 with sites in natural order, and single files of SciDAC and ILDG. MILC's own
 * routines take all other files, and names that cannot be opened. All threads also do the checks of a lattice that MILC
 * does in one thread after loading or before saving. */
#include "glue.h"
#include <string.h>

#include "routines.h"

/* The description of MILC for the library. The caller frees the site map. */
static milcgpu_milc described(void) {
    milcgpu_milc milc;
    memset(&milc, 0, sizeof milc);
    milcgpu_describe_ranks(&milc);
    milc.site_map = milcgpu_site_map(&milc);
    return milc;
}

/* Four links for each site of a field; NULL: the links of the sites. */
static milcgpu_field links_of(su3_matrix *field) {
    milcgpu_field links = milcgpu_field_of(field != NULL ? field : lattice[0].link);
    links.pitch_bytes = field != NULL ? 4 * sizeof *field : sizeof(site);
    return links;
}

static int read_links(const char *name, int lime, int serial, milcgpu_field links, milcgpu_plugin_file *file) {
    const milcgpu_milc milc = described();
    const int done = milcgpu_plugin_read_lattice(&milc, name, lime, serial, &links, file);
    free((void *)milc.site_map);
    if (done < 0)
        milcgpu_stop_all_ranks();
    return done;
}

/* Leaves for the program what MILC's routines leave. */
static gauge_file *file_of(milcgpu_file_name name, int parallel, const milcgpu_plugin_file *file) {
    gauge_file *gf = milcgpu_there(setup_input_gauge_file)(name);
    gauge_header *head = gf->header;
    head->magic_number = GAUGE_VERSION_NUMBER;
    head->dims[0] = nx, head->dims[1] = ny, head->dims[2] = nz, head->dims[3] = nt;
    memcpy(head->time_stamp, file->time, sizeof file->time);
    head->header_bytes = sizeof head->magic_number + sizeof head->dims + sizeof head->time_stamp + sizeof head->order;
    head->order = 0;
    gf->fp = NULL;
    gf->byterevflag = file->turned;
    gf->parallel = parallel;
    gf->check.sum29 = file->says[0], gf->check.sum31 = file->says[1];
    return gf;
}

/* MILC's names for the ways to read and write. */
typedef enum { SERIALLY, IN_PARALLEL, BY_MPI_IO } way;
static const char *name_of(way how) {
    return how == SERIALLY ? "serially" : how == IN_PARALLEL ? "in parallel" : "in parallel with MPI I/O";
}

/* As in MILC: a wrong checksum is printed, and the program continues. */
static void say_read(const gauge_file *gf, way how, const milcgpu_plugin_file *file) {
    if (this_node != 0)
        return;
    printf("Restored binary gauge configuration %s from file %s\nTime stamp %s\n", name_of(how), gf->filename,
           gf->header->time_stamp);
    if (file->found[0] == file->says[0] && file->found[1] == file->says[1])
        printf("Checksums %x %x OK\n", file->says[0], file->says[1]);
    else
        printf("read_checksum: Checksum violation. Computed %x %x.  Read %x %x.\n", file->found[0], file->found[1],
               file->says[0], file->says[1]);
    fflush(stdout);
}

/* NULL: MILC's own routine must do it. */
static gauge_file *restore(milcgpu_file_name name, way how) {
    milcgpu_plugin_file file;
    gauge_file *gf;
    if (!read_links(name, 0, how == SERIALLY, links_of(NULL), &file))
        return NULL;
    gf = file_of(name, how != SERIALLY, &file);
    say_read(gf, how, &file);
    return gf;
}

/* Reads the links of the sites or of a field. NULL: MILC's own routine must do it. */
static gauge_file *restore_scidac(su3_matrix *field, milcgpu_file_name name, way how) {
    milcgpu_plugin_file file;
    gauge_file *gf;
    if (!read_links(name, how == BY_MPI_IO ? 2 : 1, how == SERIALLY, links_of(field), &file))
        return NULL;
    gf = milcgpu_there(setup_input_gauge_file)(name);
    gf->filename = name;
    if (this_node == 0) {
        printf("Calling build_qio_layout with volume %lu\nRestoring binary SciDAC file %s\nFile info \n\"%s\"\n",
               (unsigned long)volume, name, file.about);
        printf("Record info \n\"%s\"\nChecksums %x %x\n", file.record, file.found[0], file.found[1]);
        fflush(stdout);
    }
    free(file.about);
    free(file.record);
    return gf;
}

/* Writes a field or the links of the sites. NULL: MILC's own routine must do it. */
static gauge_file *save_as(milcgpu_file_name name, way how, su3_matrix *field, milcgpu_plugin_form form,
                           milcgpu_plugin_file *file) {
    const milcgpu_field links = links_of(field);
    gauge_file *gf = milcgpu_there(setup_output_gauge_file)();
    const milcgpu_milc milc = described();
    int done;
    form.time = gf->header->time_stamp;
    done = milcgpu_plugin_write_lattice(&milc, name, &form, how == SERIALLY, &links, file);
    free((void *)milc.site_map);
    if (done < 0)
        milcgpu_stop_all_ranks();
    if (!done) {
        milcgpu_there(free_output_gauge_file)(gf);
        return NULL;
    }
    gf->filename = name;
    return gf;
}

static gauge_file *save(milcgpu_file_name name, way how) {
    const milcgpu_plugin_form version_5 = {0};
    milcgpu_plugin_file file;
    gauge_file *gf = save_as(name, how, NULL, version_5, &file);
    if (gf == NULL)
        return NULL;
    gf->header->order = 0;
    gf->header->header_bytes = sizeof gf->header->magic_number + sizeof gf->header->dims +
                               sizeof gf->header->time_stamp + sizeof gf->header->order;
    gf->fp = NULL;
    gf->byterevflag = 0;
    gf->parallel = how != SERIALLY;
    gf->check.sum29 = file.found[0], gf->check.sum31 = file.found[1];
    if (this_node == 0) {
        if (how != SERIALLY)
            printf("Checksums %x %x\nSaved gauge configuration %s to binary file %s\nTime stamp %s\n", file.found[0],
                   file.found[1], name_of(how), name, gf->header->time_stamp);
        else
            printf("Saved gauge configuration serially to binary file %s\nTime stamp %s\nChecksums %x %x\n", name,
                   gf->header->time_stamp, file.found[0], file.found[1]);
        milcgpu_there(write_gauge_info_file)(gf);
    }
    return gf;
}

/* lfn: the name for ILDG; NULL: SciDAC. precision: of the numbers in the file, 1 or 2. */
static gauge_file *save_scidac(su3_matrix *field, milcgpu_file_name name, way how, int precision, const char *lfn) {
    milcgpu_plugin_form form = {0};
    milcgpu_plugin_file file;
    char *const record = milcgpu_there(create_QCDML)();
    gauge_file *gf;
    form.about = "<?xml version=\"1.0\" encoding=\"UTF-8\"?><title>MILC ILDG archival gauge configuration</title>";
    form.record = record;
    form.lfn = lfn;
    form.precision = precision == 1 ? MILCGPU_SINGLE : MILCGPU_DOUBLE;
    gf = save_as(name, how, field, form, &file);
    milcgpu_there(free_QCDML)(record);
    if (gf != NULL && this_node == 0)
        printf("Saved gauge configuration as a single binary file %s\nTime stamp %s\nChecksums %x %x\n", name,
               gf->header->time_stamp, file.found[0], file.found[1]);
    return gf;
}

gauge_file *__wrap_restore_serial(milcgpu_file_name name) {
    gauge_file *gf = restore(name, SERIALLY);
    return gf != NULL ? gf : milcgpu_original(restore_serial)(name);
}
gauge_file *__wrap_restore_parallel(milcgpu_file_name name) {
    gauge_file *gf = restore(name, IN_PARALLEL);
    return gf != NULL ? gf : milcgpu_original(restore_parallel)(name);
}
gauge_file *__wrap_restore_mpiio(milcgpu_file_name name) {
    gauge_file *gf = restore(name, BY_MPI_IO);
    if (gf == NULL) /* MILC's own routine mistakes SciDAC files for another format */
        gf = restore_scidac(NULL, name, BY_MPI_IO);
    return gf != NULL ? gf : milcgpu_original(restore_mpiio)(name);
}
gauge_file *__wrap_save_serial(milcgpu_file_name name) {
    gauge_file *gf = save(name, SERIALLY);
    return gf != NULL ? gf : milcgpu_original(save_serial)(name);
}
gauge_file *__wrap_save_parallel(milcgpu_file_name name) {
    gauge_file *gf = save(name, IN_PARALLEL);
    return gf != NULL ? gf : milcgpu_original(save_parallel)(name);
}
gauge_file *__wrap_save_mpiio(milcgpu_file_name name) {
    gauge_file *gf = save(name, BY_MPI_IO);
    return gf != NULL ? gf : milcgpu_original(save_mpiio)(name);
}

#if MILCGPU_MILC == 1 /* always the links of the sites, in single precision */
static su3_matrix *const field = NULL;
enum { precision = 1 };
#define TO_READ char *name
#define READ name
#define TO_WRITE char *name
#define WRITTEN name
#else
#define TO_READ su3_matrix *field, const char *name
#define READ field, name
#define TO_WRITE su3_matrix *field, const char *name, int precision
#define WRITTEN field, name, precision
#endif
gauge_file *__wrap_restore_serial_scidac(TO_READ) {
    gauge_file *gf = restore_scidac(field, name, SERIALLY);
    return gf != NULL ? gf : milcgpu_original(restore_serial_scidac)(READ);
}
gauge_file *__wrap_restore_parallel_scidac(TO_READ) {
    gauge_file *gf = restore_scidac(field, name, IN_PARALLEL);
    return gf != NULL ? gf : milcgpu_original(restore_parallel_scidac)(READ);
}
gauge_file *__wrap_save_serial_scidac(TO_WRITE) {
    gauge_file *gf = save_scidac(field, name, SERIALLY, precision, NULL);
    return gf != NULL ? gf : milcgpu_original(save_serial_scidac)(WRITTEN);
}
gauge_file *__wrap_save_parallel_scidac(TO_WRITE) {
    gauge_file *gf = save_scidac(field, name, IN_PARALLEL, precision, NULL);
    return gf != NULL ? gf : milcgpu_original(save_parallel_scidac)(WRITTEN);
}
gauge_file *__wrap_save_serial_ildg(TO_WRITE, milcgpu_file_name lfn) {
    gauge_file *gf = save_scidac(field, name, SERIALLY, precision, lfn);
    return gf != NULL ? gf : milcgpu_original(save_serial_ildg)(WRITTEN, lfn);
}
gauge_file *__wrap_save_parallel_ildg(TO_WRITE, milcgpu_file_name lfn) {
    gauge_file *gf = save_scidac(field, name, IN_PARALLEL, precision, lfn);
    return gf != NULL ? gf : milcgpu_original(save_parallel_ildg)(WRITTEN, lfn);
}

/* ---- checks of a lattice ----------------------------------------------------------------------------------------- */

/* Results for one slice of the sites. Slices do not depend on the threads, and their sums are added in order. */
typedef struct {
    Real deviation;
    u_int32type checksum;
    double_complex trace;
} check;
enum { SLICES = 4096 };
#ifdef SCHROED_FUN
enum { LOOKS_AT_ALL = 0 }; /* but links in space at time 0 */
#else
enum { LOOKS_AT_ALL = 1 };
#endif

static check of_slices[SLICES];

static size_t first_site(size_t slice) { return slice * sites_on_node / SLICES; }

static int deviations(void *unused, size_t from, size_t to) {
    size_t slice, i;
    (void)unused;
    for (slice = from; slice < to; slice++) {
        Real *const worst = &of_slices[slice].deviation;
        *worst = 0;
        for (i = 4 * first_site(slice); i < 4 * first_site(slice + 1); i++) {
            const Real deviation = milcgpu_there(check_su3)(&lattice[i / 4].link[i % 4]);
            if (*worst < deviation)
                *worst = deviation;
        }
    }
    return 0;
}

/* If a link of any rank is off by more, MILC's own routine ends the run and prints its message. Its only other result
 * is this rank's largest deviation. */
Real __wrap_check_unitarity(void) {
    const Real tolerance = 0.0001;
    Real worst = 0;
    int slice;
    int failed = !LOOKS_AT_ALL || check_su3 == NULL || milcgpu_plugin_by_all_threads(SLICES, deviations, NULL) < 0;
    for (slice = 0; !failed && slice < SLICES; slice++) {
        failed = of_slices[slice].deviation > tolerance;
        if (of_slices[slice].deviation > worst)
            worst = of_slices[slice].deviation;
    }
    g_intsum(&failed);
    return failed ? milcgpu_original(check_unitarity)() : worst;
}

/* Sums the words of two rows of every link, in single precision. */
static int checksums(void *unused, size_t from, size_t to) {
    size_t slice, i;
    int k;
    (void)unused;
    for (slice = from; slice < to; slice++) {
        u_int32type sum = 0;
        for (i = 4 * first_site(slice); i < 4 * first_site(slice + 1); i++)
            for (k = 0; k < 12; k++) {
                const float number = ((const Real *)&lattice[i / 4].link[i % 4])[k];
                u_int32type word;
                memcpy(&word, &number, sizeof word);
                sum += word;
            }
        of_slices[slice].checksum = sum;
    }
    return 0;
}

u_int32type __wrap_nersc_cksum(void) {
    u_int32type sum = 0;
    int slice;
    if (milcgpu_plugin_by_all_threads(SLICES, checksums, NULL) < 0) {
        sum = milcgpu_original(nersc_cksum)();
    } else {
        for (slice = 0; slice < SLICES; slice++)
            sum += of_slices[slice].checksum;
        g_uint32sum(&sum);
    }
    milcgpu_plugin_lattice_is(NULL, &sum);
    return sum;
}

static int traces(void *unused, size_t from, size_t to) {
    size_t slice, i;
    int k;
    (void)unused;
    for (slice = from; slice < to; slice++) {
        double_complex sum = {0, 0};
        for (i = 4 * first_site(slice); i < 4 * first_site(slice + 1); i++)
            for (k = 0; k < 3; k++) {
                sum.real += lattice[i / 4].link[i % 4].e[k][k].real;
                sum.imag += lattice[i / 4].link[i % 4].e[k][k].imag;
            }
        of_slices[slice].trace = sum;
    }
    return 0;
}

void __wrap_d_linktrsum(double_complex *mean) {
    double_complex sum = {0, 0};
    int slice;
    if (milcgpu_plugin_by_all_threads(SLICES, traces, NULL) < 0) {
        milcgpu_original(d_linktrsum)(mean);
        return;
    }
    for (slice = 0; slice < SLICES; slice++) {
        sum.real += of_slices[slice].trace.real;
        sum.imag += of_slices[slice].trace.imag;
    }
    g_dcomplexsum(&sum);
    mean->real = sum.real / (4. * volume);
    mean->imag = sum.imag / (4. * volume);
}
