// Gradient flow of quda.h, for MILC's program wilson_flow.
#include "milc_glue/quda_compat/internal.h"
#include "milc_glue/quda_compat/quda.h"
#include <cmath>
#include <limits>

using namespace milcgpu::quda;

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

struct Lines {
    int digits;
    QudaGaugeObservableParam *next;
};

// Prints MILC's line for a measurement and stores the numbers for the caller.
int note(void *user, const milcgpu_flow_point *point) {
    Lines &lines = *static_cast<Lines *>(user);
    const milcgpu_observables &of = point->of;
    if (lattice.messages[0].rank == 0) {
        if (point->steps == 0)
            std::printf("#LABEL time Clover_t Clover_s Plaq_t Plaq_s Rect_t Rect_s charge\n");
        std::printf("GFLOW:");
        for (const double number : {point->time, of.clover_t, of.clover_s, of.plaquette_t, of.plaquette_s,
                                    of.rectangle_t, of.rectangle_s, of.charge})
            std::printf(" %.*g", lines.digits, number);
        std::printf("\n");
        std::fflush(stdout);
    }
    QudaGaugeObservableParam &to = *lines.next++;
    const double s = of.plaquette_s / 3, t = of.plaquette_t / 3;
    to.plaquette[0] = (s + t) / 2, to.plaquette[1] = s, to.plaquette[2] = t;
    to.energy[0] = of.clover_s + of.clover_t, to.energy[1] = of.clover_s, to.energy[2] = of.clover_t;
    to.qcharge = of.charge;
    return 0;
}

int measurements(const QudaGaugeSmearParam &flow) {
    const int every = flow.meas_interval;
    return 1 + (static_cast<int>(flow.n_steps) + every - 1) / every;
}

void run(const char *function, int integrator, const QudaGaugeSmearParam *flow, QudaGaugeObservableParam *observables) {
    const bool wilson = flow != nullptr && flow->smear_type == QUDA_GAUGE_SMEAR_WILSON_FLOW,
               symanzik = flow != nullptr && flow->smear_type == QUDA_GAUGE_SMEAR_SYMANZIK_FLOW;
    const char *wrong = lattice.ranks == 0            ? "called before qudaInit"
                        : state.flow.links == nullptr ? "no links: loadGaugeQuda comes first"
                        : flow == nullptr             ? "no parameters"
                        : observables == nullptr      ? "no room for observables"
                        : !wilson && !symanzik        ? "smear_type must be Wilson or Symanzik flow"
                        : !(flow->epsilon > 0)        ? "epsilon must be above 0"
                        : flow->meas_interval < 1     ? "meas_interval must be 1 or more"
                        : flow->n_steps > 100000000   ? "too many steps: the automatic stop is not built here. "
                                                        "Give a time to stop at"
                                                      : nullptr;
    if (wrong != nullptr)
        return complain(function, wrong);
    for (int k = 0; k < measurements(*flow); ++k) {
        QudaGaugeObservableParam &of = observables[k];
        for (double *number : {of.plaquette, of.energy})
            std::fill_n(number, 3, nan);
        of.qcharge = of.ploop[0] = of.ploop[1] = nan;
    }
    milcgpu_flow_spec spec;
    milcgpu_flow_defaults(&spec, sizeof spec);
    spec.action = wilson ? MILCGPU_FLOW_WILSON : MILCGPU_FLOW_SYMANZIK;
    spec.integrator = integrator;
    spec.exp_order = 0;
    spec.step = flow->epsilon, spec.stop = 0, spec.as_milc = 1;
    for (unsigned step = 0; step < flow->n_steps; ++step) // summed as the flow sums, so that rounding adds no step
        spec.stop += spec.step;
    spec.every = flow->meas_interval;
    spec.most_steps = static_cast<int>(flow->n_steps) + 1;
    spec.signs = MILCGPU_SIGNS_OUT;
    const milcgpu_field links = packed(state.flow.links, state.flow.precision);
    milcgpu_flow_report report{};
    bool begun = false;
    const bool good = done(function, state.flow.precision, [&] {
        if (begun)
            complain(function, "ignore the GFLOW lines so far: the flow starts again");
        begun = true;
        Lines lines{state.flow.precision == 1 ? 6 : 16, observables};
        return milcgpu_plugin_gradient_flow(links, &spec, note, &lines, &report) != 0;
    });
    if (!good)
        fill_with_nan(state.flow.links, 72 * lattice.sites(), state.flow.precision);
}

} // namespace

extern "C" {

void milcgpu_quda_links_of_flow(void *links, int precision) {
    state.flow.links = links, state.flow.precision = precision;
}

void performWFlowQuda(QudaGaugeSmearParam *flow, QudaGaugeObservableParam *observables) {
    run(__func__, MILCGPU_FLOW_LUSCHER, flow, observables);
}

void performWFlowFourthOrderQuda(QudaGaugeSmearParam *flow, QudaGaugeObservableParam *observables) {
    run(__func__, MILCGPU_FLOW_BBB, flow, observables);
}

} // extern "C"
