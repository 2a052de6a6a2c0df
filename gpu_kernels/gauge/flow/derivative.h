// Z of flow.h for one link, for the kernels that use it.
#pragma once
#include "gpu_kernels/gauge/flow/flow.h"
#include "gpu_kernels/gauge/forces/exponential.h"
#include "gpu_kernels/gauge/forces/steps.h"
#include "gpu_kernels/gauge/links/staples.h"

namespace milcgpu {

// Z by staples: 12 products of matrices, 18 matrices loaded. The sum of staples is rescaled as it grows, so that one
// matrix holds it: scale[mu][k] after the staple along the k-th direction other than mu; 0: skips that staple.
template <Precision p> struct ByStaples {
    using Real = typename LinkReal<p>::Real;
    Lattice lattice;
    MatrixView<p> u;
    Real scale[4][3];
    explicit ByStaples(const Derivative &of) : lattice(of.box.wide().lattice()), u(of.u), scale{} {
        for (int mu = 0; mu < 4; ++mu) {
            double next = 1; // the weight that is divided out again when the sum is rescaled
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

// Z with rectangles: 84 products, path by path. Loops stay rolled: a path needs three matrices.
template <Precision p> struct BySymanzikStaples {
    using Real = typename LinkReal<p>::Real;
    Lattice lattice;
    MatrixView<p> u;
    Real weights[4][4], plaquette, rectangle;
    explicit BySymanzikStaples(const Derivative &of)
        : lattice(of.box.wide().lattice()), u(of.u),
          plaquette(
              static_cast<Real>(of.signs == Signs::phases_in ? -symanzik_loops.plaquette : symanzik_loops.plaquette)),
          rectangle(static_cast<Real>(symanzik_loops.rectangle)) {
        for (int k = 0; k < 16; ++k)
            weights[k / 4][k % 4] = static_cast<Real>(of.weights.of[k / 4][k % 4]);
    }
    MILCGPU_HD AntiHermitian<Real> operator()(const SitesAndParts::Item &item, const Matrix<Real> &link) const {
        const Site x = lattice.site(item.parity, item.i);
        const int along = 2 * item.part;
        Matrix<Real> sum = {};
        MILCGPU_ROLLED
        for (int there = 0; there < steps; ++there) {
            if (axis(there) == item.part)
                continue;
            MILCGPU_ROLLED
            for (int staple = 0; staple < 4; ++staple) {
                const Matrix<Real> path = product(x, item.parity, along, there, staple);
                multiply_add(sum, weights[item.part][axis(there)] * (staple == 0 ? plaquette : rectangle), path);
            }
        }
        return traceless_antihermitian(link * adjoint(sum));
    }

  private:
    // The plaquette's staple (0) or a rectangle's: twice as long along `there` (1), or beginning with a step along the
    // link, so that its way back ends with one (2), or with a step against the link (3). A path has four bits a step.
    MILCGPU_HD Matrix<Real> product(Site x, int parity, int along, int there, int staple) const {
        const unsigned a = along, b = opposite(along), t = there, r = opposite(there);
        const unsigned path = staple == 0   ? t | a << 4 | r << 8
                              : staple == 1 ? t | t << 4 | a << 8 | r << 12 | r << 16
                              : staple == 2 ? t | a << 4 | a << 8 | r << 12 | b << 16
                                            : b | t << 4 | a << 8 | a << 12 | r << 16;
        Matrix<Real> m = link_along(lattice, u, x, parity, path & 15);
        MILCGPU_ROLLED
        for (int k = 1; k < (staple == 0 ? 3 : 5); ++k) {
            x = walk(lattice, x, path >> 4 * (k - 1) & 15), parity = 1 - parity;
            m = m * link_along(lattice, u, x, parity, path >> 4 * k & 15);
        }
        return m;
    }
};

template <Precision p> struct AsKnown {
    using Real = typename LinkReal<p>::Real;
    MomentumView<p> z;
    explicit AsKnown(const Derivative &of) : z(*of.known) {}
    MILCGPU_HD AntiHermitian<Real> operator()(const SitesAndParts::Item &item, const Matrix<Real> &) const {
        return z.template take<Reuse::stream>(item.parity, item.part, item.own);
    }
};

// function(precision, functor that computes Z)
template <class Function> void for_derivative(const Derivative &of, const Function &function) {
    for_real(of.u.precision(), [&](auto p) {
        constexpr Precision precision = decltype(p)::value;
        if (of.known != nullptr)
            function(p, AsKnown<precision>(of));
        else if (of.symanzik)
            function(p, BySymanzikStaples<precision>(of));
        else
            function(p, ByStaples<precision>(of));
    });
}

// Sums over stages as kernels take them.
constexpr int most_stages = 13;
template <Precision p> struct StagesView {
    using Real = typename LinkReal<p>::Real;
    unsigned char *data[most_stages] = {};
    size_t stride = 0, block_bytes = 0;
    Real weights[most_stages] = {};
    int count;
    explicit StagesView(const SumOfStages &sum) : count(static_cast<int>(sum.k.size())) {
        if (count > most_stages || sum.weights.size() != sum.k.size())
            throw Error(Status::bad_argument,
                        format("sum of stages: %d stages and %zu weights; their numbers must be equal and at most %d",
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
