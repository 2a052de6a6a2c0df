/* Compiles with the headers of a MILC whose get_fm_links returns one set of links (since 2025): the make fragment asks. */
#include "glue.h"

imp_ferm_links_t *get_fm_links(fermion_links_t *fl, int i_naik);
