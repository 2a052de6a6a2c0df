// The CPU originals of gauge fixing and APE smearing, by tests/reference, with MILC's loop and lines.
#include "fields.h"
#include "tests/reference/gauge_fix.h"
#include <cmath>
#include <cstring>

namespace {

void reunitarize_sites() {
    reference::Gauge links = links_of_sites();
    for (auto &u : links)
        u = reference::reunitarize(u);
    to_sites(links);
}

} // namespace

extern "C" {

su3_matrix *create_G(void) { return static_cast<su3_matrix *>(std::calloc(4 * volume, sizeof(su3_matrix))); }
void destroy_G(su3_matrix *links) { std::free(links); }

void gaugefix(int gauge_dir, Real relax_boost, int max_gauge_iter, Real gauge_fix_tol) {
    double before = 0, now = 0, change = 0;
    int step = 0;
    for (; step < max_gauge_iter; ++step) {
        reference::Gauge links = links_of_sites();
        now = reference::gauge_fix_step(here(), links, gauge_dir, relax_boost);
        to_sites(links);
        if (step != 0) {
            change = now - before;
            if (std::fabs(change) < gauge_fix_tol)
                break;
        }
        before = now;
        if (step % 20 == 19) {
            std::printf("step %d av gf action %.8e, delta %.3e\n", step, now, change);
            reunitarize_sites();
        }
    }
    if (step % 20 != 0)
        reunitarize_sites();
    std::printf("GFIX: Ended at step %d. Av gf action %.8e, delta %.3e\n", step, now, change);
}

su3_matrix *ape_smear_4D(Real staple_weight, int iters) {
    if (iters < 0)
        return create_G();
    reference::Gauge links = links_of_sites();
    for (int k = 0; k < iters; ++k)
        links = reference::ape_smear(here(), links, staple_weight, true, 10, 1e-5, nullptr);
    su3_matrix *out = create_G();
    store(links, out);
    std::printf("Time to APE smear %e sec\n", 0.0);
    return out;
}

static reference::Gauge smeared(const reference::Gauge &links, Real weight, int space_only, int hits, Real tolerance) {
    int failed = 0;
    reference::Gauge made = reference::ape_smear(here(), links, weight, space_only == 1, hits, tolerance, &failed);
    if (failed > 0)
        std::printf("WARNING %d sites report no convergence in project_su3\n", failed);
    return made;
}
// The links in one direction, or in all (TUP + 1).
static void put_direction(const reference::Gauge &from, int dir, su3_matrix *to, size_t pitch_bytes) {
    std::vector<su3_matrix> all(4 * volume);
    store(from, all.data());
    for (size_t i = 0; i < volume; ++i)
        std::memcpy(reinterpret_cast<char *>(to) + i * pitch_bytes, &all[4 * i + dir % (TUP + 1)],
                    (dir > TUP ? 4 : 1) * sizeof(su3_matrix));
}

void ape_smear_dir(field_offset src, int dir1, field_offset dest, Real staple_weight, Real, int space_only, int nhits,
                   Real tol) {
    std::vector<su3_matrix> links(4 * volume);
    for (size_t i = 0; i < volume; ++i)
        std::memcpy(&links[4 * i], F_PT(&lattice[i], src), 4 * sizeof(su3_matrix));
    put_direction(smeared(gauge(links.data()), staple_weight, space_only, nhits, tol), dir1,
                  reinterpret_cast<su3_matrix *>(F_PT(lattice, dest)), sizeof(site));
}
void ape_smear(field_offset src, field_offset dest, Real staple_weight, Real link_u0, int space_only, int nhits,
               Real tol) {
    ape_smear_dir(src, TUP + 1, dest, staple_weight, link_u0, space_only, nhits, tol);
}
void ape_smear_field_dir(su3_matrix *src, int dir1, su3_matrix *dest, Real staple_weight, Real, int space_only,
                         int nhits, Real tol) {
    put_direction(smeared(gauge(src), staple_weight, space_only, nhits, tol), dir1, dest + dir1 % (TUP + 1),
                  4 * sizeof(su3_matrix));
}
void ape_smear_field(su3_matrix *src, su3_matrix *dest, Real staple_weight, Real link_u0, int space_only, int nhits,
                     Real tol) {
    ape_smear_field_dir(src, TUP + 1, dest, staple_weight, link_u0, space_only, nhits, tol);
}

} // extern "C"
