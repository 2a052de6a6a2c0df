// K = dexp^-1_a(Z): the result of a stage of a method of Runge, Kutta and Munthe-Kaas (Munthe-Kaas, Appl. Numer. Math.
// 29 (1999) 115). One thread a link. Matrices a link, at the least: u read; 10 reals of K written, and as many read for
// each earlier stage.
#include "gpu_kernels/gauge/flow/derivative.h"

namespace milcgpu {

namespace {

constexpr int most_commutators = 7;

// B_k / k!, B the Bernoulli numbers
constexpr double bernoulli[most_commutators + 1] = {1, -1.0 / 2, 1.0 / 12, 0, -1.0 / 720, 0, 1.0 / 30240, 0};

template <Precision p, class GivesZ> struct StageDerivative {
    using Real = typename LinkReal<p>::Real;
    SitesAndParts work;
    GivesZ derivative;
    MatrixView<p> u; // on the wide box
    StagesView<p> before;
    MomentumView<p> k;
    Real factors[most_commutators + 1];
    int commutators;
    MILCGPU_HD void operator()(int thread) const {
        const SitesAndParts::Item item = work.item(thread);
        if (!item.valid)
            return;
        const AntiHermitian<Real> z = derivative(item, u.template take<Reuse::keep>(item.parity, item.part, item.i));
        AntiHermitian<Real> total = z;
        if (commutators > 0) {
            const AntiHermitian<Real> a = before.sum(item);
            AntiHermitian<Real> nested = z;
            for (int n = 1; n <= commutators; ++n) {
                nested = commutator(a, nested);
                multiply_add(total, factors[n], nested);
            }
        }
        k.store(item.parity, item.part, item.own, total);
    }
};

} // namespace

void stage_derivative(Device &device, const Derivative &of, const SumOfStages &a, int order, const LinkField &k) {
    if (order < 1 || order > most_commutators + 1)
        throw Error(Status::bad_argument,
                    format("derivative of a stage: order %d; 1 to %d is built", order, most_commutators + 1));
    const SitesAndParts work = of.box.work(4);
    for_derivative(of, [&](auto p, const auto &gives_z) {
        constexpr Precision precision = decltype(p)::value;
        using Z = std::decay_t<decltype(gives_z)>;
        const MatrixView<precision> u = MatrixView<precision>(of.u).to_take(of.used_up);
        StageDerivative<precision, Z> body{
            work, gives_z, u, StagesView<precision>(a), MomentumView<precision>(k), {}, a.k.empty() ? 0 : order - 1};
        for (int n = 0; n <= most_commutators; ++n)
            body.factors[n] = static_cast<typename LinkReal<precision>::Real>(bernoulli[n]);
        launch_bounded<128, precision == Precision::double_ ? 3 : 4>(device, work.threads(), body,
                                                                     "derivative of a stage");
    });
}

} // namespace milcgpu
