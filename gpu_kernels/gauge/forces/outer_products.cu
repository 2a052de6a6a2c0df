// Outer products of all terms in one pass over the vectors. One thread a link: X_t(x), X_t(x+mu), X_t(x+3mu) of one
// term after the other, the two sums in registers. Vectors of a site are read for 12 links; all but the first come from
// the caches.
#include "gpu_kernels/fields/matrix_view.h"
#include "gpu_kernels/fields/spinor_block.h"
#include "gpu_kernels/fields/spinor_storage.h"
#include "gpu_kernels/gauge/forces/fermion_force.h"

namespace milcgpu {

namespace {

constexpr int most_terms = 48; // in one launch

template <class S> struct Terms {
    const unsigned char *x[2]; // by parity
    size_t stride, source_bytes;
    int count;
    double one[most_terms], three[most_terms];
    MILCGPU_HD Vector<typename S::Real> load(int parity, int term, int i) const {
        return load_spinor<S>(x[parity] + term * source_bytes, stride, i);
    }
};

// The host's form has the same bits on whole and on cut lattices, however the compiler fuses the other one.
template <class T> MILCGPU_HD void add_outer(Matrix<T> &sum, const Vector<T> &a, const Vector<T> &b) {
#if MILCGPU_LANES
    rows::add_outer<T>(sum, a, b);
#else
    MILCGPU_UNROLL
    for (int row = 0; row < 3; ++row)
        MILCGPU_UNROLL
    for (int column = 0; column < 3; ++column)
        sum.e[row][column] = plus(sum.e[row][column], a.c[row], conj(b.c[column]));
#endif
}

// L: the lattice of the vectors, Lattice or CutLattice. Products may be on a wide box.
template <Precision p, class S, bool with_three, class L> struct OuterProducts {
    using Real = typename S::Real;
    L lattice;
    SitesAndParts work;
    Terms<S> terms;
    MatrixView<p> one, three;
    bool add;
    MILCGPU_HD void operator()(int thread) const {
        const SitesAndParts::Item item = work.item(thread);
        if (!item.valid)
            return;
        const int mu = item.part, opposite = 1 - item.parity;
        const Site x = lattice.site(item.parity, item.own);
        const int next = lattice.forward(x, mu, 1);
        [[maybe_unused]] const int third = lattice.forward(x, mu, lattice.third_hop[mu]);
        const Real sign = item.parity == 0 ? Real(1) : Real(-1);
        Matrix<Real> sum_one = {};
        [[maybe_unused]] Matrix<Real> sum_three = {};
#if MILCGPU_ON_DEVICE
#pragma unroll 2
#endif
        for (int t = 0; t < terms.count; ++t) {
            const Vector<Real> here = sign * terms.load(item.parity, t, item.own);
            add_outer(sum_one, static_cast<Real>(terms.one[t]) * here, terms.load(opposite, t, next));
            if constexpr (with_three)
                add_outer(sum_three, static_cast<Real>(terms.three[t]) * here, terms.load(opposite, t, third));
        }
        store(one, item, sum_one);
        if constexpr (with_three)
            store(three, item, sum_three);
    }

  private:
    MILCGPU_HD void store(const MatrixView<p> &to, const SitesAndParts::Item &item, Matrix<Real> sum) const {
        if (add)
            multiply_add(sum, Real(1), to.take(item.parity, item.part, item.i));
        to.store(item.parity, item.part, item.i, sum);
    }
};

template <Precision p, class S, bool with_three, class L>
OuterProducts<p, S, with_three, L> outer_products_of(const L &lattice, const SitesAndParts &work, const Terms<S> &terms,
                                                     const LinkField &one, const LinkField &three, bool add) {
    return {lattice, work, terms, MatrixView<p>(one), MatrixView<p>(three), add};
}

} // namespace

double outer_products_bytes(Precision p, int terms) { return terms * spinor_bytes(p) + 8.0 * link_bytes(p, 18); }

void outer_products(Device &device, const WideBox &box, const ForceVectors &vectors,
                    const std::vector<double> &one_weights, const std::vector<double> &three_weights, bool add,
                    const LinkField &one, const LinkField *three) {
    const int count = static_cast<int>(one_weights.size());
    const auto fits = [&](const SpinorBlock &block) {
        return block.sources >= count && block.precision == one.precision();
    };
    if (!fits(vectors.even) || !fits(vectors.odd) || (three != nullptr && three_weights.size() != one_weights.size()))
        throw Error(Status::bad_argument,
                    format("outer products: %d and %zu weights for %d even and %d odd vectors, %s, into %s matrices",
                           count, three_weights.size(), vectors.even.sources, vectors.odd.sources,
                           name(vectors.even.precision), name(one.precision())));
    const SitesAndParts work = box.work(4);
    const CutLattice &cut = box.box().lattice();
    const Lattice &whole = cut;
    for_real(one.precision(), [&](auto p) {
        constexpr Precision precision = decltype(p)::value;
        using S = std::conditional_t<precision == Precision::double_, SpinorDouble, SpinorSingle>;
        for (int first = 0; first == 0 || first < count; first += most_terms) {
            Terms<S> terms{};
            terms.x[0] = vectors.even[first].data, terms.x[1] = vectors.odd[first].data;
            terms.stride = vectors.even.stride;
            terms.source_bytes = vectors.even.source_bytes;
            terms.count = std::min(most_terms, count - first);
            for (int t = 0; t < terms.count; ++t) {
                terms.one[t] = one_weights[first + t];
                terms.three[t] = three != nullptr ? three_weights[first + t] : 0;
            }
            const auto start = [&](const auto &lattice, auto with_three) {
                constexpr bool both = decltype(with_three)::value;
                const auto body = outer_products_of<precision, S, both>(lattice, work, terms, one, both ? *three : one,
                                                                        add || first > 0);
                launch_bounded<128, 3>(device, work.threads(), body, "outer products");
            };
            const auto start_on = [&](const auto &lattice) {
                if (three != nullptr)
                    start(lattice, std::true_type());
                else
                    start(lattice, std::false_type());
            };
            if (cut.is_cut())
                start_on(cut);
            else
                start_on(whole);
        }
    });
}

} // namespace milcgpu
