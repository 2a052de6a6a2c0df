// Z of flow.h for one link, in the kernels that go on with it.
#pragma once
#include "gpu_kernels/forces/exponential.h"
#include "gpu_kernels/gauge/flow.h"
#include "gpu_kernels/links/staples.h"

namespace milcgpu {

// By staples: 12 products of matrices, 18 matrices loaded. Sums of staples are scaled as they grow, so that one matrix
// holds them: scale[mu][k] after the staple along the k-th direction other than mu; 0: that one is left out.
template <Precision p> struct ByStaples {
    using Real = typename LinkReal<p>::Real;
    Lattice lattice;
    MatrixView<p> u;
    Real scale[4][3];
    explicit ByStaples(const Derivative &of) : lattice(of.box.wide().lattice()), u(of.u), scale{} {
        for (int mu = 0; mu < 4; ++mu) {
            double next = 1; // the weight that is taken out again when what follows is scaled
            for (int k = 2; k >= 0; --k) {
                const double weight = (of.signs == Signs::phases_in ? -1 : 1) * of.weights.of[mu][k + (k >= mu)];
                if (weight == 0)
                    continue;
                scale[mu][k] = static_cast<Real>(weight / next);
                next = weight;
            }
        }
    }
    MILCGPU_HD AntiHermitian<Real> operator()(const SitesAndParts::Item &item, const Matrix<Real> &link) const {
        const Staples<p, 18> staples{lattice, u, item.part, {}, false};
        const Site x = lattice.site(item.parity, item.i);
        Matrix<Real> sum = {};
        for (int k = 0; k < 3; ++k) {
            const Real s = scale[item.part][k];
            if (s == 0)
                continue;
            staples.add_staple(sum, x, item.parity, staples.other(k), u, item.part);
            MILCGPU_UNROLL
            for (int e = 0; e < 9; ++e)
                sum.e[e / 3][e % 3] = s * sum.e[e / 3][e % 3];
        }
        return traceless_antihermitian(link * adjoint(sum));
    }
};

template <Precision p> struct AsKnown {
    using Real = typename LinkReal<p>::Real;
    MomentumView<p> z;
    explicit AsKnown(const Derivative &of) : z(*of.known) {}
    MILCGPU_HD AntiHermitian<Real> operator()(const SitesAndParts::Item &item, const Matrix<Real> &) const {
        return z.template load<Reuse::stream>(item.parity, item.part, item.own);
    }
};

// function(precision, what gives Z)
template <class Function> void for_derivative(const Derivative &of, const Function &function) {
    for_real(of.u.precision(), [&](auto p) {
        constexpr Precision precision = decltype(p)::value;
        if (of.known != nullptr)
            function(p, AsKnown<precision>(of));
        else
            function(p, ByStaples<precision>(of));
    });
}

// Sums over stages, as kernels take them.
constexpr int most_stages = 13;
template <Precision p> struct StagesView {
    using Real = typename LinkReal<p>::Real;
    unsigned char *data[most_stages] = {};
    size_t stride = 0, block_bytes = 0;
    Real weights[most_stages] = {};
    int count;
    explicit StagesView(const SumOfStages &sum) : count(static_cast<int>(sum.k.size())) {
        if (count > most_stages || sum.weights.size() != sum.k.size())
            throw Error(Status::bad_argument, format("sum of stages: %d stages and %zu weights; both alike and at most "
                                                     "%d are needed",
                                                     count, sum.weights.size(), most_stages));
        for (int j = 0; j < count; ++j) {
            data[j] = sum.k[j]->block(0, 0), stride = sum.k[j]->stride(), block_bytes = sum.k[j]->block_bytes();
            weights[j] = static_cast<Real>(sum.weights[j]);
        }
    }
    MILCGPU_HD AntiHermitian<Real> stage(int j, const SitesAndParts::Item &item) const {
        return MomentumView<p>(data[j], stride, block_bytes)
            .template load<Reuse::written>(item.parity, item.part, item.own);
    }
    MILCGPU_HD AntiHermitian<Real> sum(const SitesAndParts::Item &item) const {
        AntiHermitian<Real> total = {};
        for (int j = 0; j < count; ++j)
            if (weights[j] != 0)
                multiply_add(total, weights[j], stage(j, item));
        return total;
    }
};

// [a, b] = a b - (a b)^dag
template <class T> MILCGPU_HD AntiHermitian<T> commutator(const AntiHermitian<T> &a, const AntiHermitian<T> &b) {
    const AntiHermitian<T> half = traceless_antihermitian(matrix(a) * matrix(b));
    AntiHermitian<T> whole = half;
    multiply_add(whole, T(1), half);
    return whole;
}

} // namespace milcgpu
