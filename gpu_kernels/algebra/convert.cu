// y = scale x between precisions, |x|^2, and the search for NaN: passes of 1 or 2 spinors.
#include "gpu_kernels/algebra/blas.h"
#include "gpu_kernels/fields/for_precision.h"
#include "gpu_kernels/machine/backend/device_array.h"
#include "gpu_kernels/machine/geometry/places.h"
#include <cmath>
#include <limits>

namespace milcgpu {

namespace {

template <class X, class Y> struct Convert {
    SpinorView<X> x;
    SpinorView<Y> y;
    double scale;
    MILCGPU_HD Sums<1> operator()(int i) const {
        const Vector<double> v = scale * convert<double>(x.load(i));
        y.store(i, convert<typename Y::Real>(v));
        return {{norm(v)}};
    }
};

template <class X> struct Norm {
    SpinorView<X> x;
    MILCGPU_HD Sums<1> operator()(int i) const { return {{norm(convert<double>(x.load(i)))}}; }
};

template <class X> struct FindNotFinite {
    SpinorView<X> x;
    uint32_t *first; // ~index, so that the maximum is the first
    MILCGPU_HD void operator()(int i) const {
        const Vector<typename X::Real> v = x.load(i);
        typename X::Real zero = 0;
        for (int k = 0; k < 3; ++k)
            zero += v.c[k].re * 0 + v.c[k].im * 0; // NaN for NaN and for infinity
        if (!(zero == 0))
            atomic_max(first, ~static_cast<uint32_t>(i));
    }
};

} // namespace

void convert_spinor(Device &device, const SpinorBlock &x, const SpinorBlock &y, double scale, double *sum) {
    for_precision(x.precision, [&](auto from) {
        for_precision(y.precision, [&](auto to) {
            launch_sum<1>(device, x.sites,
                          Convert<decltype(from), decltype(to)>{SpinorView<decltype(from)>(x),
                                                                SpinorView<decltype(to)>(y), scale},
                          StoreSum{sum}, {"convert a spinor"});
        });
    });
}

void norm_squared(Device &device, const SpinorBlock &x, double *sum) {
    for_precision(x.precision, [&](auto s) {
        launch_sum<1>(device, x.sites, Norm<decltype(s)>{SpinorView<decltype(s)>(x)}, StoreSum{sum}, {"norm"});
    });
}

long long first_not_finite(Device &device, const SpinorBlock &x) {
    const DeviceArray<uint32_t> first(device, 1, "search for NaN");
    queue_of(device).fill_zero(first.data(), first.bytes());
    for_precision(x.precision, [&](auto s) {
        launch(device, x.sites, FindNotFinite<decltype(s)>{SpinorView<decltype(s)>(x), first.data()}, "search for NaN");
    });
    const uint32_t found = first.to_host()[0];
    return found == 0 ? -1 : static_cast<long long>(~found);
}

void require_finite(Device &device, const SpinorBlock &x, const Geometry &geometry, int parity, const char *what) {
    queue_of(device).collective("a look for NaN", [&] {
        const long long bad = first_not_finite(device, x);
        if (bad >= 0)
            throw Error(Status::nan_or_inf, format("%s: the site %s holds NaN or infinity", what,
                                                   place_of_site(geometry, parity, bad).c_str()));
    });
}

bool is_there(Device &device, double bb, const SpinorBlock &b, const Geometry &geometry, int parity, double tolerance,
              const SpinorBlock &scratch, double *sum) {
    constexpr double least = std::numeric_limits<double>::min(), most = std::numeric_limits<double>::max();
    const double finest = std::fmin(std::fmax(tolerance, 1e-17), 1.0), smallest = least / (finest * finest);
    if (bb >= smallest && bb <= most)
        return true;
    if (!(bb <= most))
        require_finite(device, b, geometry, parity, "source");
    constexpr double larger = 0x1p600; // then the square of no element is 0
    double norm = std::sqrt(bb);
    if (bb == 0) {
        convert_spinor(device, b, scratch, larger, sum);
        queue_of(device).copy_to_host(&norm, sum, sizeof norm);
        norm = std::sqrt(norm) / larger;
    }
    if (norm == 0)
        return false;
    throw Error(Status::nan_or_inf,
                format("source: its norm is %.1e. For a tolerance of %.1e it must lie between %.1e and %.1e, where the "
                       "solver can square it in double precision. Multiply source, guess and solution by a power "
                       "of two",
                       norm, tolerance, std::sqrt(smallest), std::sqrt(most)));
}

} // namespace milcgpu
