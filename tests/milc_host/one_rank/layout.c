/* Part of each program's layout_hyper_prime.c, after its headers. */
site *lattice;
int nx, ny, nz, nt, this_node;
size_t volume, sites_on_node, even_sites_on_node;

int node_index(int x, int y, int z, int t) {
    const int k = x + nx * (y + ny * (z + nz * t));
    return (x + y + z + t) % 2 ? (k + (int)volume) / 2 : k / 2;
}
int node_number(int x, int y, int z, int t) { return 0 * (x + y + z + t); }
int mynode(void) { return 0; }
int numnodes(void) { return 1; }
void initialize_machine(int *argc, char ***argv) { (void)argc, (void)argv; }
void normal_exit(int status) { exit(status); }
void terminate(int status) { exit(status); }

void make_lattice(char **extents) {
    int x, y, z, t;
    nx = atoi(extents[0]), ny = atoi(extents[1]), nz = atoi(extents[2]), nt = atoi(extents[3]);
    volume = sites_on_node = (size_t)nx * ny * nz * nt;
    even_sites_on_node = volume / 2;
    lattice = (site *)calloc(volume, sizeof(site));
    for (t = 0; t < nt; t++)
        for (z = 0; z < nz; z++)
            for (y = 0; y < ny; y++)
                for (x = 0; x < nx; x++) {
                    site *s = &lattice[node_index(x, y, z, t)];
                    s->x = x, s->y = y, s->z = z, s->t = t;
                }
}

void links_file(const char *name, const char *mode, su3_matrix *links, size_t pitch) {
    FILE *const file = fopen(name, mode);
    size_t k, moved = 0;
    for (k = 0; k < volume; k++) {
        su3_matrix *const of_site = (su3_matrix *)((char *)links + k * pitch);
        moved +=
            *mode == 'r' ? fread(of_site, sizeof(su3_matrix), 4, file) : fwrite(of_site, sizeof(su3_matrix), 4, file);
    }
    if (moved != 4 * volume || fclose(file) != 0)
        terminate(2);
}
