/* Declarations that twin.c, the driver, and operations.c, the table of operations, share. */
#pragma once
#include "ranks.h"
#include <stdint.h>

typedef struct {
    const char *name;
    char theme;       /* the section of the table; *: of every sequence */
    int weight;       /* how often it is drawn */
    int (*can)(void); /* 0: the library and its twin skip the step */
    void (*run)(void);
} operation;
extern const operation operations[];
extern const int n_operations;
enum { BEGIN, WITHOUT_AUXILIARY, ENTER, LEAVE }; /* the first ones, which the driver uses */

/* True if this process is the twin; if the library has one rank; if update() runs; the number of the current step. */
extern int is_twin, one_rank, in_trajectory, this_step;
void begin_program(void); /* after make_lattice() */
void leave_trajectory(void);

/* Random numbers of the current step, equal on all ranks. */
uint64_t draw(void);
int any(int n);                /* 0 ... n - 1 */
double noise_of(uint64_t key); /* from -1 to 1, a function of the key */

/* A number that both must have, within `tolerance` relative to the larger of its size and 1. */
void say(double value, double tolerance);

/* What the library's process passes to its twin: eigenvectors. */
enum { vectors = 4, most_sites = 512 };
typedef struct {
    int step, taken; /* the step that published them, and the last step whose vectors the twin has copied */
    double value[vectors], vector[vectors][most_sites][6];
} handed_over;
extern handed_over *published;
