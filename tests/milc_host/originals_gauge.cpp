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

Real check_unitarity(void) {
    double worst = 0;
    for (const reference::Matrix &u : links_of_sites()) {
        const reference::Matrix product = u * reference::adjoint(u);
        for (int a = 0; a < 3; ++a)
            for (int b = a; b < 3; ++b)
                worst = std::fmax(worst, a == b ? std::fabs(std::sqrt(product.e[a][a].real()) - 1)
                                                : std::abs(product.e[a][b]));
    }
    if (worst > 1e-4)
        std::printf("Unitarity problem\n");
    return static_cast<Real>(worst);
}

// Of the first two rows of each link, in single precision.
uint32_t nersc_cksum(void) {
    std::printf("MILC's own checksum\n");
    uint32_t sum = 0;
    for (size_t i = 0; i < 4 * volume; ++i)
        for (int k = 0; k < 6; ++k) {
            const auto &element = lattice[i / 4].link[i % 4].e[k / 3][k % 3];
            for (const float part : {static_cast<float>(element.real), static_cast<float>(element.imag)}) {
                uint32_t bits;
                std::memcpy(&bits, &part, sizeof bits);
                sum += bits;
            }
        }
    return sum;
}

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
