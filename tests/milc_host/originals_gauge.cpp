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

} // extern "C"
