/* What the files of molecular dynamics share: md.c (who has the newest fields), updates.c (gauge force, links,
 * actions), fermion_force.c. */
#ifndef MILCGPU_GLUE_MD_H
#define MILCGPU_GLUE_MD_H

#include "glue.h"

#define MILCGPU_BOTH (MILCGPU_LINKS | MILCGPU_MOMENTA)

/* The links and momenta in MILC's sites. */
milcgpu_plugin_lattice milcgpu_in_sites(void);

/* The order to which this program expands the exponential of the momenta; 0: not known. */
int milcgpu_exponential_order(void);

/* Links with phases in for the device to read, where it has not the newest: 1 where they were out. */
int milcgpu_put_phases_in(void);
void milcgpu_put_phases_back(int were_out);

/* Whether the device does this call. Both copies are equal afterwards if it is to be compared. can: 0 where it is
 * MILC's, for the reason `why`. */
int milcgpu_md_takes(milcgpu_routine routine, int can, const char *why, const char *who);

/* Before and after MILC's own routine works on the sites; the outermost of them is counted. */
void milcgpu_begin_own(milcgpu_routine routine, int reads, const char *who);
void milcgpu_end_own(milcgpu_routine routine, int writes);

/* What is left to do after the device has written `one`. Returns 1 where MILC's routine is to run now, on the host's
 * old copy, between begin_compare and end_compare. */
int milcgpu_finish(int one, const char *who);
double milcgpu_begin_compare(milcgpu_routine routine);
double milcgpu_end_original(milcgpu_routine routine, double cpu_seconds); /* the seconds of MILC's routine */
void milcgpu_end_compare(milcgpu_routine routine, int one, const char *expected, double seconds, double cpu_seconds);

/* Why this program's routines are MILC's, as milcgpu_md_left. */
void milcgpu_updates_left(const char **left);
void milcgpu_fermion_force_left(const char **left);

#endif
