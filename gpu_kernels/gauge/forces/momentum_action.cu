// The kinetic energy of the links. One thread a site, so that it has enough loads in flight. 4 times 10 reals a site.
#include "gpu_kernels/gauge/forces/momentum_view.h"
#include "gpu_kernels/gauge/forces/steps.h"

namespace milcgpu {

namespace {

template <Precision p> struct MomentumAction {
    int even_sites;
    MomentumView<p> momenta;
    MILCGPU_HD Sums<1> operator()(int thread) const {
        const int parity = thread >= even_sites, i = parity ? thread - even_sites : thread;
        double sum = 0;
        MILCGPU_UNROLL
        for (int mu = 0; mu < 4; ++mu)
            sum += half_norm(convert<double>(momenta.template load<Reuse::stream>(parity, mu, i))) - 4;
        return {{sum}};
    }
};

} // namespace

double momentum_action_bytes(Precision p) { return 4 * link_bytes(p, momentum_reals); }

void momentum_action(Device &device, const Geometry &geometry, const LinkField &momenta, double *action) {
    for_real(momenta.precision(), [&](auto p) {
        constexpr Precision precision = decltype(p)::value;
        const MomentumAction<precision> body{geometry.sites(0), MomentumView<precision>(momenta)};
        launch_sum<1>(device, geometry.volume(), body, StoreSums<1>{{}, action}, {"momentum action"});
    });
}

double momentum_action(Device &device, const Geometry &geometry, const LinkField &momenta) {
    DeviceArray<double> action;
    queue_of(device).collective("memory for a momentum action", [&] { action = {device, 1, "momentum action"}; });
    momentum_action(device, geometry, momenta, action.data());
    return action.to_host()[0];
}

} // namespace milcgpu
