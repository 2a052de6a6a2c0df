// Shared by all calls for Wilson fermions: checks of arguments, vectors, with_wilson.
#pragma once
#include "milc_glue/api/members.h"
#include "milc_glue/solve/kept_solver.h"
#include "milc_glue/solve/solve_driver.h"
#include "milc_glue/solve/wilson_handle.h"
#include <cmath>

namespace milcgpu {

constexpr int reals_of_vector = 6 * wilson_components;

inline WilsonParameters parameters_of(const milcgpu_wilson_spec &spec) {
    return {spec.kappa, spec.kappa * spec.clover};
}

// M_p for BiCGstab, M_p^dag M_p for conjugate gradient.
class WilsonFamily : public OperatorFamily {
  public:
    WilsonFamily(milcgpu_wilson &w, const WilsonParameters &of, int parity, int method)
        : OperatorFamily(*w.context), w_(w), of_(of), parity_(parity), method_(method) {}
    SolverKey key() const override {
        return {&w_, w_.tag(), &w_, parity_, {of_.kappa, of_.cku0, double(method_)}, {}, {}};
    }
    size_t most_kept() const override { return 1; }
    void grant(OperatorSpec &spec) override { w_.version(spec); }
    OperatorMaker maker() override {
        return [&w = w_, of = of_, parity = parity_](OperatorSpec &spec) {
            return std::make_shared<const WilsonNormal>(w.matrix(of, parity, spec));
        };
    }
    void make_solver(KeptSolver &solver) override;
    void empty() override { w_.clear(); }

  private:
    milcgpu_wilson &w_;
    WilsonParameters of_;
    int parity_, method_;
};

// Throws Error(nan_or_inf) if there is NaN or infinity; the message names the first site and spin.
inline void require_finite_vector(const milcgpu_wilson &w, const SpinorBlock &x, int parity, const char *what) {
    Device &device = w.device();
    DeviceArray<double> sum;
    device.collective("room for a norm", [&] { sum = {device, 1, "norm of a vector"}; });
    norm_squared(device, x, sum.data());
    if (sum.to_host()[0] < INFINITY)
        return;
    for (int d = 0; d < x.components; ++d)
        require_finite(device, x.component(d), w.geometry(), parity, format("%s, spin %d", what, d).c_str());
    throw Error(Status::nan_or_inf,
                format("%s: its norm overflows on %s sites; scale it down", what, parity == 0 ? "even" : "odd"));
}

// A vector of a call on both parities, in one precision.
struct WilsonVectors {
    SpinorField on[2];
    WilsonVectors(milcgpu_wilson &w, Precision precision, const char *owner) {
        w.device().collective("memory for Wilson vectors", [&] {
            for (int parity = 0; parity < 2; ++parity)
                on[parity] = SpinorField(w.device(), precision, w.geometry(), parity, owner, 1, wilson_components);
        });
    }
    void load(milcgpu_wilson &w, const HostField &from, int parity, const char *what) {
        w.device().collective("the loading of a vector", [&] { w.reorder.to_device(from, parity, on[parity]); });
        require_finite_vector(w, on[parity], parity, what);
    }
};

// out = D_sign in on `parity`, or, with `own`, own - factor D_sign in.
inline WilsonCall call_on(const milcgpu_wilson &w, const LinkField &links, int parity, int sign, const SpinorBlock &in,
                          const SpinorBlock &out) {
    WilsonCall call{};
    call.lattice = w.halo() != nullptr ? w.halo()->lattice : w.geometry().lattice();
    call.halo = w.halo();
    call.parity = parity;
    call.links = &links;
    call.form = WilsonForm::hop;
    call.sign = sign;
    call.in = in, call.out = out;
    return call;
}
inline WilsonCall call_on(const milcgpu_wilson &w, const LinkField &links, int parity, int sign, const SpinorBlock &in,
                          const SpinorBlock &out, const SpinorBlock &own, double factor) {
    WilsonCall call = call_on(w, links, parity, sign, in, out);
    call.form = WilsonForm::matrix;
    call.own = own, call.factor = factor;
    return call;
}

inline void need_links(const milcgpu_wilson &w) {
    if (!w.loaded())
        refuse("there are no links: load them first (milcgpu_wilson_load)");
}

inline void check_unused(bool unused, const char *what) {
    if (!unused)
        refuse(format("%s must be 0: calls for Wilson fermions do not take it", what));
}

// Runs body(wilson) with its context's device current, and turns its errors into a status.
template <class Body> milcgpu_status with_wilson(milcgpu_wilson *wilson, const char *function, const Body &body) {
    return guarded(wilson != nullptr ? wilson->context : nullptr, function, [&] {
        require(wilson, function, "wilson");
        return body(*wilson);
    });
}

} // namespace milcgpu
