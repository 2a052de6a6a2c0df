/* MILC's routines for lattice files. Its own reading and writing is left out: a mark in the links shows that it ran. */
#include "../generic_ks/generic_ks_includes.h"
#include <math.h>
#include <string.h>

static gauge_file *own(const char *routine, file_name name) {
    printf("MILC's own %s of %s\n", routine, name);
    lattice[0].link[0].e[0][0].real = -7;
    return NULL;
}
gauge_file *restore_serial(file_name name) { return own("restore_serial", name); }
gauge_file *restore_parallel(file_name name) { return own("restore_parallel", name); }
gauge_file *save_serial(file_name name) { return own("save_serial", name); }
gauge_file *save_parallel(file_name name) { return own("save_parallel", name); }
gauge_file *restore_mpiio(file_name name) { return own("restore_mpiio", name); }
gauge_file *save_mpiio(file_name name) { return own("save_mpiio", name); }
#ifdef MILC_HOST_MASTER
#define READS file_name name
#define WRITES file_name name
#else
#define READS su3_matrix *field, file_name name
#define WRITES su3_matrix *field, file_name name, int prec
#endif
gauge_file *restore_serial_scidac(READS) { return own("restore_serial_scidac", name); }
gauge_file *restore_parallel_scidac(READS) { return own("restore_parallel_scidac", name); }
gauge_file *save_serial_scidac(WRITES) { return own("save_serial_scidac", name); }
gauge_file *save_parallel_scidac(WRITES) { return own("save_parallel_scidac", name); }
gauge_file *save_serial_ildg(WRITES, file_name lfn) { return own("save_serial_ildg", name); }
gauge_file *save_parallel_ildg(WRITES, file_name lfn) { return own("save_parallel_ildg", name); }
char *create_QCDML(void) { return strcpy((char *)malloc(64), "<usqcdInfo><plaq>1.5</plaq></usqcdInfo>"); }
void free_QCDML(char *text) { free(text); }

gauge_file *setup_input_gauge_file(file_name name) {
    gauge_file *gf = (gauge_file *)calloc(1, sizeof *gf);
    gf->header = (gauge_header *)calloc(1, sizeof *gf->header);
    gf->filename = name;
    return gf;
}
gauge_file *setup_output_gauge_file(void) {
    gauge_file *gf = setup_input_gauge_file(NULL);
    strcpy(gf->header->time_stamp, "Thu Nov 26 10:00:00 2026");
    return gf;
}
void free_output_gauge_file(gauge_file *gf) { free(gf->header), free(gf); }
void write_gauge_info_file(gauge_file *gf) {
    printf("info of %s: %s, %x %x\n", gf->filename, gf->header->time_stamp, gf->check.sum29, gf->check.sum31);
}

/* MILC's checks of a lattice, which count their calls. */
int own_checks;

Real check_su3(su3_matrix *link) {
    Real worst = 0;
    int row, k;
    for (row = 0; row < 3; row++) {
        Real norm = 0;
        for (k = 0; k < 6; k++)
            norm += ((Real *)link->e[row])[k] * ((Real *)link->e[row])[k];
        worst = fmax(worst, fabs(sqrt(norm) - 1));
    }
    return worst;
}
Real check_unitarity(void) {
    Real worst = 0;
    size_t i;
    int failed;
    own_checks++;
    for (i = 0; i < 4 * sites_on_node; i++)
        worst = fmax(worst, check_su3(&lattice[i / 4].link[i % 4]));
    failed = worst > 0.0001;
    g_intsum(&failed);
    return worst;
}
u_int32type nersc_cksum(void) {
    u_int32type sum = 0;
    size_t i;
    int k;
    own_checks++;
    for (i = 0; i < 4 * sites_on_node; i++)
        for (k = 0; k < 12; k++) {
            union {
                float number;
                u_int32type word;
            } x = {((Real *)&lattice[i / 4].link[i % 4])[k]};
            sum += x.word;
        }
    g_uint32sum(&sum);
    return sum;
}
void d_linktrsum(double_complex *mean) {
    size_t i;
    int k;
    own_checks++;
    mean->real = mean->imag = 0;
    for (i = 0; i < 4 * sites_on_node; i++)
        for (k = 0; k < 3; k++) {
            mean->real += (double)lattice[i / 4].link[i % 4].e[k][k].real / (4 * volume);
            mean->imag += (double)lattice[i / 4].link[i % 4].e[k][k].imag / (4 * volume);
        }
    g_dcomplexsum(mean);
}
