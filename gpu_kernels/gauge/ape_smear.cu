// APE smearing with projection by hits (gauge_fix.h). One thread a link. Matrices a link at the least: read and
// written.
#include "gpu_kernels/forces/steps.h"
#include "gpu_kernels/gauge/gauge_fix.h"
#include "gpu_kernels/gauge/su2.h"
#include "gpu_kernels/links/gram_schmidt.h"
#include "gpu_kernels/links/staples.h"

namespace milcgpu {

namespace {

template <Precision p> struct ApeSmear {
    using Real = typename LinkReal<p>::Real;
    SitesAndParts work;
    Lattice lattice;
    MatrixView<p> u, to;
    Phases phases;
    bool phased, staples_in_time;
    double weight, tolerance;
    int most_hits;

    MILCGPU_HD Sums<1> operator()(int thread) const {
        const SitesAndParts::Item item = work.item(thread);
        if (!item.valid)
            return {{0}};
        const int mu = item.part;
        const Staples<p, 18> staples{lattice, u, mu, {}, false};
        const Site x = lattice.site(item.parity, item.i);
        Matrix<Real> sum = {};
        int count = 0;
        for (int k = 0; k < 3; ++k) {
            const int nu = staples.other(k);
            if (mu < 3 && nu == 3 && !staples_in_time)
                continue;
            staples.add_staple(sum, x, item.parity, nu, u, mu);
            count += 2;
        }
        const double sign = phased ? phases.sign(x, mu) : 1, norm = 1 / (1 + weight * count);
        Matrix<double> v = times(sign * norm, convert<double>(u.load(item.parity, mu, item.i)));
        multiply_add(v, (phased ? -sign : sign) * weight * norm, convert<double>(sum));
        Matrix<double> w = v;
        if (most_hits > 0)
            gram_schmidt(w);
        const bool good = most_hits == 0 || project_by_hits(v, w, most_hits, tolerance);
        to.store(item.parity, mu, item.own, convert<Real>(times(sign, w)));
        return {{good ? 0.0 : 1.0}};
    }
};

} // namespace

double ape_smear_bytes(Precision p) { return 8 * link_bytes(p, 18); }
double ape_smear_flops(const ApeSpec &spec) {
    const double staples = (spec.staples_in_time ? 18 : 12) + 6;
    return staples * 414 + 4 * (190 + 198 + spec.most_hits * (2 * 84 + 20.0));
}

double ape_smear(Device &device, const WideBox &box, const LinkField &u, const ApeSpec &spec, const LinkField &to) {
    const SitesAndParts work = box.work(4);
    Sums<1> sums = {};
    for_real(u.precision(), [&](auto p) {
        constexpr Precision precision = decltype(p)::value;
        const ApeSmear<precision> body{work,
                                       box.wide().lattice(),
                                       MatrixView<precision>(u),
                                       MatrixView<precision>(to),
                                       Phases(box.box(), box.wide()),
                                       spec.signs == Signs::phases_in,
                                       spec.staples_in_time,
                                       spec.weight,
                                       spec.tolerance,
                                       spec.most_hits};
        sums = sum_to_host<1>(device, work.threads(), body, "APE smearing");
    });
    return sums.v[0];
}

} // namespace milcgpu
