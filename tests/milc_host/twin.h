/* What twin.c, the driver, and operations.c, the table of what a program does, call of each other. */
#pragma once
#include "ranks.h"
#include <stdint.h>

typedef struct {
    const char *name;
    char theme;       /* the section of the table */
    int weight;       /* how often it is drawn */
    int (*can)(void); /* 0: the step is skipped, by the library and its twin alike */
    void (*run)(void);
} operation;
extern const operation operations[];
extern const int n_operations;
enum { BEGIN, WITHOUT_AUXILIARY, ENTER, LEAVE }; /* the first ones, which the driver knows */

/* Whether this process is the twin; whether the library has one rank; whether update() runs; the number of the step
 * that runs. */
extern int is_twin, one_rank, in_trajectory, this_step;
void begin_program(void); /* after make_lattice() */
void leave_trajectory(void);

/* Numbers of the step that runs. All ranks draw the same. */
uint64_t draw(void);
int any(int n);                /* 0 ... n - 1 */
double noise_of(uint64_t key); /* from -1 to 1, of the key alone */

/* A number that both must have, to this difference relative to the larger of it and 1. */
void say(double value, double tolerance);

/* What the library's process hands to its twin: eigenvectors. */
enum { vectors = 4, most_sites = 512 };
typedef struct {
    int step, taken; /* that has published them; that has taken them */
    double value[vectors], vector[vectors][most_sites][6];
} handed_over;
extern handed_over *published;
