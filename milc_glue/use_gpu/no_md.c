/* Programs without molecular dynamics: routines on the links in the sites, which otherwise sites.c and updates.c wrap.
 */
#include "reload.h"

#include "routines.h"

void __wrap_d_plaquette(double *space, double *time) {
    milcgpu_end_warm();
    milcgpu_host_plaquettes(space, time);
    milcgpu_note_plaquettes(*space, *time);
}
void __wrap_rephase(int flag) { milcgpu_host_rephase(flag); }

gauge_file *__wrap_reload_lattice(int flag, milcgpu_file_name file) {
    gauge_file *loaded;
    milcgpu_begin_warm(flag);
    loaded = milcgpu_original(reload_lattice)(flag, file);
    milcgpu_end_warm();
    return loaded;
}
