// Shared by Lanczos and the mode number: blocks of vectors in the precision of A, and Chebyshev polynomials of A.
#pragma once
#include "gpu_kernels/algebra/dense.h"
#include "gpu_kernels/machine/backend/on_all_ranks.h"
#include "gpu_kernels/solver/hermitian.h"
#include "gpu_kernels/solver/normal_operator.h"
#include <cmath>
#include <memory>
#include <vector>

namespace milcgpu::lanczos {

using Number = Complex<double>;
constexpr const char *owner = "Lanczos vectors";
constexpr int block = 16; // vectors that A is applied to at once

// Pivots of a block below this number, relative to its vectors, are rounding errors of single precision.
constexpr double weakest = 1e-10;

inline double dimension_of(const Geometry &geometry) { return 3 * geometry.global_volume() / 2; }

// Applies A, and polynomials of A, to blocks.
class Applier {
  public:
    Applier(Device &device, const NormalOperator &A)
        : device_(device), A_(A), between_(A.between(device, owner, block)) {
        if (A.sign() < 0 || A.components() != 1 || !A.takes_several())
            throw Error(Status::not_built, "eigenvectors are built for staggered fermions only");
    }
    SpinorField field() const { return A_.vectors(device_, owner, block); }
    // out = A in
    void apply(const SpinorBlock &in, const SpinorBlock &out) {
        HalfCall call;
        call.out = out, call.x = in;
        apply(call, Epilogue::normal);
    }
    // out = z - alpha (a + A) in; z may be out.
    void residual(double alpha, double a, const SpinorBlock &z, const SpinorBlock &in, const SpinorBlock &out) {
        HalfCall call;
        call.out = out, call.x = in, call.z = z;
        call.a = a, call.alpha = alpha;
        apply(call, Epilogue::residual);
    }
    // first: y = T_1 x. next: T_{k+1}, written over T_{k-1} in `before`, from that and T_k in y, k >= 1. The argument
    // of the polynomial is (hi + a - 2 A) / (hi - a). Fields hold T_k times s_k = 1, 1, -1, -1, ..: so the recursion
    // subtracts a multiple of T_k from T_{k-1}, which is the epilogue of a residual.
    struct Interval {
        double low, high;
        double width() const { return high - low; }
    };
    static double sign(int k) { return (k & 2) != 0 ? -1 : 1; }
    void first(const Interval &of, const SpinorBlock &x, const SpinorBlock &y) {
        residual(2 / of.width(), 0.5 * (of.width() - of.low - of.high), x, x, y);
    }
    void next(const Interval &of, int k, const SpinorBlock &y, const SpinorBlock &before) {
        residual(sign(k) * sign(k + 1) * 4 / of.width(), -0.5 * (of.low + of.high), before, y, before);
    }
    // x = T_d x for d >= 2; overwrites scratch.
    void filter(const Interval &of, int d, SpinorBlock &x, SpinorBlock &scratch) {
        first(of, x, scratch);
        for (int k = 1; k < d; ++k) {
            next(of, k, scratch, x);
            std::swap(x, scratch);
        }
        std::swap(x, scratch);
    }
    long long applications = 0;

  private:
    void apply(const HalfCall &call, Epilogue end) {
        milcgpu::apply(device_, A_, call, between_.block().first(call.x.sources), end);
        applications += call.x.sources;
    }
    Device &device_;
    const NormalOperator &A_;
    SpinorField between_;
};

// Allocated on all ranks or on none.
struct Workspace {
    Applier apply;
    SpinorField fields[3];
};
inline std::unique_ptr<Workspace> workspace(Device &device, const NormalOperator &A, int fields) {
    std::unique_ptr<Workspace> made;
    device.collective("memory for Lanczos vectors", [&] {
        made.reset(new Workspace{Applier(device, A), {}});
        for (int k = 0; k < fields; ++k)
            made->fields[k] = made->apply.field();
    });
    return made;
}

inline void require_finite(const std::vector<Number> &numbers) {
    for (const Number &n : numbers)
        if (!(norm(n) < INFINITY))
            throw Error(Status::nan_or_inf, "NaN or infinity in a Gram matrix of Lanczos vectors: check the links");
}

inline DeviceArray<Number> on_device(Device &device, const std::vector<Number> &numbers) {
    auto there = made_on_all_ranks(device, "memory for coefficients",
                                   [&] { return DeviceArray<Number>(device, numbers.size(), owner); });
    device.copy_to_device(there.data(), numbers.data(), numbers.size() * sizeof numbers[0]);
    return there;
}

// Makes w an orthonormal basis of its space. Returns false if its vectors are not independent.
inline bool orthonormalize(Device &device, const SpinorBlock &w) {
    const std::vector<Number> g = gram_over_ranks(device, w, w);
    require_finite(g);
    const std::vector<Number> root = inverse_of_root(g, w.sources, weakest);
    if (root.empty())
        return false;
    block_axpy(device, w, on_device(device, root).data(), w);
    return true;
}

} // namespace milcgpu::lanczos
