// Observables of MILC's site structures: action of the momenta, plaquettes, Polyakov loop, traces of named loops.
#include "milc_glue/quda_compat/internal.h"
#include <algorithm>
#include <cmath>
#include <vector>

using namespace milcgpu::quda;

namespace {

// Loops as the library takes them.
struct Loops {
    std::vector<int> steps;
    const int *lengths = nullptr;
    int count = 0;

    Loops() = default;
    Loops(int **paths, const int *lengths, int count) : lengths(lengths), count(count) {
        for (int k = 0; k < count; ++k)
            steps.insert(steps.end(), paths[k], paths[k] + lengths[k]);
    }
};

struct Measured {
    double plaquettes[2] = {NAN, NAN}, polyakov[2] = {NAN, NAN}; // for unit links: 3
    std::vector<double> traces;

    // After a failure, which is logged, the results are NaN.
    Measured(const char *function, int precision, const QudaMILCSiteArg_t *arg, int phase_in, const Loops &loops)
        : traces(2 * loops.count, NAN) {
        if (!observable(function, precision, arg))
            return;
        if (std::any_of(loops.steps.begin(), loops.steps.end(), [](int step) { return step < 0 || step > 7; })) {
            complain(function, "steps of a loop must be 0 to 7: the results are NaN");
            return;
        }
        const milcgpu_plugin_lattice l = lattice_of(*arg, precision);
        done(function, precision, [&] {
            return milcgpu_plugin_gauge_measure(&l, phase_in, loops.count, loops.lengths, loops.steps.data(),
                                                plaquettes, polyakov, traces.data()) != 0;
        });
    }
    void give_plaquettes(double plaq[3]) const {
        for (int k = 0; k < 2; ++k)
            plaq[1 + k] = plaquettes[k] / 3;
        plaq[0] = 0.5 * (plaq[1] + plaq[2]);
    }
    void give_traces(const double *coefficients, double factor, double *to) const {
        for (size_t k = 0; k < traces.size(); ++k)
            to[k] = factor * coefficients[k / 2] * lattice.whole_sites() * traces[k];
    }
};

} // namespace

bool milcgpu::quda::observable(const char *function, int precision, const QudaMILCSiteArg_t *arg) {
    const bool has_ranks = lattice.ranks == 1 || (lattice.ranks > 1 && lattice.has_messages);
    if (arg != nullptr && (precision == 1 || precision == 2) && has_ranks)
        return true;
    complain(function, lattice.ranks == 0 ? "called before qudaInit"
                       : !has_ranks       ? "several ranks, and no mpi.h was found when MILC was built"
                                          : "bad argument");
    return false;
}

extern "C" {

double qudaMomAction(int precision, QudaMILCSiteArg_t *arg) {
    double action = NAN;
    if (!observable(__func__, precision, arg) || !momenta_are_whole(__func__))
        return action;
    const milcgpu_plugin_lattice l = lattice_of(*arg, precision);
    done(__func__, precision, [&] { return milcgpu_plugin_momentum_action(&l, &action) != 0; });
    return action;
}

void qudaPlaquettePhased(int precision, double plaq[3], QudaMILCSiteArg_t *arg, int phase_in) {
    Measured(__func__, precision, arg, phase_in, {}).give_plaquettes(plaq);
}

void qudaPolyakovLoopPhased(int precision, double ploop[2], int dir, QudaMILCSiteArg_t *arg, int phase_in) {
    qudaGaugeMeasurementsPhased(precision, nullptr, ploop, dir, nullptr, nullptr, nullptr, nullptr, 0, 0, 0, arg,
                                phase_in);
}

void qudaGaugeLoopTracePhased(int precision, double *traces, int **paths, int *lengths, double *coefficients,
                              int num_paths, int max_length, double factor, QudaMILCSiteArg_t *arg, int phase_in) {
    qudaGaugeMeasurementsPhased(precision, nullptr, nullptr, 3, traces, paths, lengths, coefficients, num_paths,
                                max_length, factor, arg, phase_in);
}

// Computes those of plaq, ploop and traces that are not NULL.
void qudaGaugeMeasurementsPhased(int precision, double plaq[3], double ploop[2], int dir, double *traces, int **paths,
                                 int *lengths, double *coefficients, int num_paths, int, double factor,
                                 QudaMILCSiteArg_t *arg, int phase_in) {
    const char *const function = __func__;
    std::fill_n(plaq, plaq != nullptr ? 3 : 0, NAN);
    std::fill_n(ploop, ploop != nullptr ? 2 : 0, NAN);
    std::fill_n(traces, 2 * std::max(0, num_paths), NAN);
    guarded(function, [&] {
        const Measured all(function, precision, arg, phase_in, {paths, lengths, num_paths});
        if (plaq != nullptr)
            all.give_plaquettes(plaq);
        if (ploop != nullptr && dir == 3)
            std::copy_n(all.polyakov, 2, ploop);
        if (dir != 3)
            complain("qudaPolyakovLoopPhased", "only loops along t (dir 3) are built: the result is NaN");
        all.give_traces(coefficients, factor, traces);
        return true;
    });
}

} // extern "C"
