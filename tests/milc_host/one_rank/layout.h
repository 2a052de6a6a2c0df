/* The layout of a program on one rank, after the type `site`, and its file of links. */
#ifndef LAYOUT_H
#define LAYOUT_H

extern site *lattice;
extern int nx, ny, nz, nt, this_node;
extern size_t volume, sites_on_node, even_sites_on_node;

int node_index(int x, int y, int z, int t);
int node_number(int x, int y, int z, int t);
int mynode(void), numnodes(void);
void initialize_machine(int *argc, char ***argv);
void normal_exit(int status);
void terminate(int status);

/* extents: command-line words. */
void make_lattice(char **extents);
/* Reads ("rb") or writes ("wb") a file of 4 links a site in MILC's order. The links of neighbouring sites are
 * `pitch` bytes apart. */
void links_file(const char *name, const char *mode, su3_matrix *links, size_t pitch);

#endif
