/* Declarations that the files of this program share: checks, fields, settings of solves, faults. */
#pragma once
#include "generic_ks/generic_ks_includes.h"
#include "include/fermion_links.h"

extern const double resid; /* of solves */

void check(int good, const char *what, double value);
void check_iterations(int good, const char *what, double value);
double difference(const void *a, const void *b, size_t reals);
double allowed(double mass);
void inject(const char *fault);
void fill_gauge_field(unsigned long seed);
void fill_action(ks_action_paths *asqtad, ks_action_paths_hisq *hisq);
su3_vector *random_field(unsigned seed);
su3_vector *solved_field(unsigned seed, fn_links_t *fn); /* of a random source, by mat_invert */
su3_vector *copy(const su3_vector *f);
quark_invert_control control(int parity);
void try_solve(int parity, Real mass, fn_links_t *fn);

/* make_prop.c */
enum { most_condensates = 3 };
extern fn_links_t *set_links;               /* for solve_ksprop and f_meas_imp_field */
extern double condensate[most_condensates]; /* of the last call, for each random source */
extern long drawn_for_first;                /* random numbers of a site, drawn when the first source was made */
