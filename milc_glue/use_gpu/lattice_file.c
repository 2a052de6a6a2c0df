/* Lattice files, read and written by all ranks and threads (restore_serial, restore_parallel, restore_mpiio and their
 * save_...). MILC's lines, headers and info files stay. Files of MILC's version 5 with sites in their natural order are
 * taken over; all others, and names that cannot be opened, are MILC's own. */
#include "glue.h"
#include <string.h>

#include "routines.h"

/* What the library asks. The site map is to be freed. */
static milcgpu_milc described(void) {
    milcgpu_milc milc;
    memset(&milc, 0, sizeof milc);
    milcgpu_describe_ranks(&milc);
    milc.site_map = milcgpu_site_map(&milc);
    return milc;
}

static milcgpu_field links_of_sites(void) {
    milcgpu_field links = milcgpu_field_of(lattice[0].link);
    links.pitch_bytes = sizeof(site);
    return links;
}

static int read_links(const char *name, int lime, int serial, milcgpu_plugin_file *file) {
    const milcgpu_field links = links_of_sites();
    const milcgpu_milc milc = described();
    const int done = milcgpu_plugin_read_lattice(&milc, name, lime, serial, &links, file);
    free((void *)milc.site_map);
    if (done < 0)
        milcgpu_stop_all_ranks();
    return done;
}

/* As MILC's routines leave it for the program. */
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

/* MILC's judgement: a wrong checksum is said, and the program goes on. */
static void say_read(const gauge_file *gf, const char *how, const milcgpu_plugin_file *file) {
    if (this_node != 0)
        return;
    printf("Restored binary gauge configuration %s from file %s\nTime stamp %s\n", how, gf->filename,
           gf->header->time_stamp);
    if (file->found[0] == file->says[0] && file->found[1] == file->says[1])
        printf("Checksums %x %x OK\n", file->says[0], file->says[1]);
    else
        printf("read_checksum: Checksum violation. Computed %x %x.  Read %x %x.\n", file->found[0], file->found[1],
               file->says[0], file->says[1]);
    fflush(stdout);
}

/* NULL: MILC's own must do it. */
static gauge_file *restore(milcgpu_file_name name, int parallel) {
    milcgpu_plugin_file file;
    gauge_file *gf;
    if (!read_links(name, 0, !parallel, &file))
        return NULL;
    gf = file_of(name, parallel, &file);
    say_read(gf, parallel ? "in parallel" : "serially", &file);
    return gf;
}

gauge_file *__wrap_restore_serial(milcgpu_file_name name) {
    gauge_file *gf = restore(name, 0);
    return gf != NULL ? gf : milcgpu_original(restore_serial)(name);
}
gauge_file *__wrap_restore_parallel(milcgpu_file_name name) {
    gauge_file *gf = restore(name, 1);
    return gf != NULL ? gf : milcgpu_original(restore_parallel)(name);
}
gauge_file *__wrap_restore_mpiio(milcgpu_file_name name) {
    gauge_file *gf = restore(name, 1);
    return gf != NULL ? gf : milcgpu_original(restore_mpiio)(name);
}

/* NULL: MILC's own must do it. */
static gauge_file *save(milcgpu_file_name name, int parallel) {
    const milcgpu_field links = links_of_sites();
    gauge_file *gf = milcgpu_there(setup_output_gauge_file)();
    const milcgpu_milc milc = described();
    milcgpu_plugin_file file;
    const int done = milcgpu_plugin_write_lattice(&milc, name, gf->header->time_stamp, !parallel, &links, &file);
    free((void *)milc.site_map);
    if (done < 0)
        milcgpu_stop_all_ranks();
    if (!done) {
        milcgpu_there(free_output_gauge_file)(gf);
        return NULL;
    }
    gf->header->order = 0;
    gf->header->header_bytes = sizeof gf->header->magic_number + sizeof gf->header->dims +
                               sizeof gf->header->time_stamp + sizeof gf->header->order;
    gf->fp = NULL;
    gf->filename = name;
    gf->byterevflag = 0;
    gf->parallel = parallel;
    gf->check.sum29 = file.found[0], gf->check.sum31 = file.found[1];
    if (this_node == 0) {
        if (parallel)
            printf("Checksums %x %x\nSaved gauge configuration in parallel to binary file %s\nTime stamp %s\n",
                   file.found[0], file.found[1], name, gf->header->time_stamp);
        else
            printf("Saved gauge configuration serially to binary file %s\nTime stamp %s\nChecksums %x %x\n", name,
                   gf->header->time_stamp, file.found[0], file.found[1]);
        milcgpu_there(write_gauge_info_file)(gf);
    }
    return gf;
}

gauge_file *__wrap_save_serial(milcgpu_file_name name) {
    gauge_file *gf = save(name, 0);
    return gf != NULL ? gf : milcgpu_original(save_serial)(name);
}
gauge_file *__wrap_save_parallel(milcgpu_file_name name) {
    gauge_file *gf = save(name, 1);
    return gf != NULL ? gf : milcgpu_original(save_parallel)(name);
}
gauge_file *__wrap_save_mpiio(milcgpu_file_name name) {
    gauge_file *gf = save(name, 1);
    return gf != NULL ? gf : milcgpu_original(save_mpiio)(name);
}
