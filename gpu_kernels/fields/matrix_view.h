// Fields of 3x3 matrices as kernels take them.
#pragma once
#include "gpu_kernels/fields/for_real.h"
#include "gpu_kernels/fields/link_field.h"
#include "gpu_kernels/fields/reconstruct.h"
#include "gpu_kernels/fields/settle.h"
#include "gpu_kernels/machine/backend/reduce.h"
#include "gpu_kernels/machine/geometry/sites_and_parts.h"

namespace milcgpu {

// Sum: KeptSum, or NoSum for scratch memory whose matrices live from one launch to the next (ScratchView).
template <Precision p, int reals = 18, class Sum = KeptSum> struct MatrixView {
    using Real = typename LinkReal<p>::Real;
    unsigned char *data;
    size_t stride, block_bytes;
    int directions;
    Sum sum = {};
    explicit MatrixView(const LinkField &f)
        : data(f.block(0, 0)), stride(f.stride()), block_bytes(f.block_bytes()), directions(f.directions()) {
        if constexpr (std::is_same_v<Sum, KeptSum>)
            sum = f.kept();
    }
    // Plain memory instead of a field: one parity, `slots` matrices a site.
    MatrixView(unsigned char *memory, size_t sites, int slots)
        : data(memory), stride(sites), block_bytes(sites * link_bytes(p, reals)), directions(slots) {}
    // These matrices with another sum.
    template <class Other>
    MILCGPU_HD MatrixView(const MatrixView<p, reals, Other> &view, const Sum &with)
        : data(view.data), stride(view.stride), block_bytes(view.block_bytes), directions(view.directions), sum(with) {}
    // For a kernel that reads by take(). last_use: no later launch reads these links; otherwise their checksum stays
    // unchanged.
    MatrixView to_take(bool last_use) const {
        MatrixView view = *this;
        if (!last_use)
            view.sum = {};
        return view;
    }
    template <Reuse reuse = Reuse::keep> MILCGPU_HD Matrix<Real> load(int parity, int mu, int i) const {
        if constexpr (is_matrix)
            return matrix_at(parity, mu, i);
        else
            return plain_matrix(load_link<p, reals, reuse>(data + (parity * directions + mu) * block_bytes, stride, i));
    }
    // Loads a matrix that is replaced later, or that no later launch reads: subtracts it from the checksum.
    template <Reuse reuse = Reuse::written> MILCGPU_HD Matrix<Real> take(int parity, int mu, int i) const {
        const auto raw = load_link<p, reals, reuse>(data + (parity * directions + mu) * block_bytes, stride, i);
        sum.add(i, 0 - weight(raw, parity, mu, i));
        return matrix_of(raw, parity, mu, i);
    }
    // As above, but returns the matrix's weight in the checksum; subtract() subtracts it. Loads between the two need
    // not wait for it.
    template <Reuse reuse> MILCGPU_HD Matrix<Real> take(int parity, int mu, int i, uint64_t &weighs) const {
        const auto raw = load_link<p, reals, reuse>(data + (parity * directions + mu) * block_bytes, stride, i);
        weighs = weight(raw, parity, mu, i);
        return matrix_of(raw, parity, mu, i);
    }
    MILCGPU_HD void subtract(int i, uint64_t weighs) const { sum.add(i, 0 - weighs); }
    // Adds back to the checksum a matrix that was taken and stays.
    MILCGPU_HD void put_back(int parity, int mu, int i) const {
        sum.add(i,
                weight(load_link<p, reals>(data + (parity * directions + mu) * block_bytes, stride, i), parity, mu, i));
    }
    MILCGPU_HD void store(int parity, int mu, int i, const Matrix<Real> &m) const { replace(0, parity, mu, i, m); }
    // Applies change(matrix) in place: one addition to the checksum, while take() and store() make two.
    template <class Change> MILCGPU_HD void modify(int parity, int mu, int i, const Change &change) const {
        const auto raw =
            load_link<p, reals, Reuse::written>(data + (parity * directions + mu) * block_bytes, stride, i);
        const uint64_t before = weight(raw, parity, mu, i);
        Matrix<Real> m = matrix_of(raw, parity, mu, i);
        change(m);
        replace(before, parity, mu, i, m);
    }

  private:
    // True if an element of the array is a Matrix<Real>. Compilers would copy it word by word.
    static constexpr bool is_matrix = MILCGPU_LANES && reals == 18 && p != Precision::half;
    static MILCGPU_HD void copy_rows([[maybe_unused]] void *to, [[maybe_unused]] const void *from) {
#if MILCGPU_LANES
        constexpr int bytes = sizeof(Matrix<Real>) / 3;
        for (int k = 0; k < 3; ++k)
            rows::row<Real>(static_cast<const unsigned char *>(from) + k * bytes)
                .store(static_cast<unsigned char *>(to) + k * bytes);
#endif
    }
    // before: the weight of the old matrix, if it counts.
    MILCGPU_HD void replace(uint64_t before, int parity, int mu, int i, const Matrix<Real> &m) const {
        static_assert(reals == 18, "only plain matrices are written");
        RawLink<p, 18> raw = {};
        if constexpr (is_matrix)
            copy_rows(raw.w, &m);
        else
            MILCGPU_UNROLL
        for (int k = 0; k < 9; ++k) {
            raw.set(2 * k, m.e[k / 3][k % 3].re);
            raw.set(2 * k + 1, m.e[k / 3][k % 3].im);
        }
        settle(raw);
        store_link<p, 18>(data + (parity * directions + mu) * block_bytes, stride, i, raw);
        sum.add(i, weight(raw, parity, mu, i) - before);
    }
    MILCGPU_HD uint64_t weight(const RawLink<p, reals> &raw, int parity, int mu, int i) const {
        const auto piece = static_cast<uint32_t>((parity * directions + mu) * (block_bytes / 16));
        return sum.template weight<RawLink<p, reals>::bytes>(raw.w, piece, stride, i);
    }
    // raw: the words of the matrix that is stored there.
    MILCGPU_HD Matrix<Real> matrix_of(const RawLink<p, reals> &raw, int parity, int mu, int i) const {
        if constexpr (is_matrix)
            return matrix_at(parity, mu, i);
        else
            return plain_matrix(raw);
    }
    MILCGPU_HD Matrix<Real> matrix_at(int parity, int mu, int i) const {
        Matrix<Real> m;
        copy_rows(&m, data + (parity * directions + mu) * block_bytes + i * sizeof m);
        return m;
    }
    static MILCGPU_HD Matrix<Real> plain_matrix(const RawLink<p, reals> &raw) {
        const Link<p, reals> link(raw);
        Matrix<Real> u = link.u;
        if constexpr (reals == 12)
            MILCGPU_UNROLL
        for (int k = 0; k < 3; ++k)
            u.e[2][k] = link.det.re * u.e[2][k];
        return u;
    }
};
template <Precision p> using ScratchView = MatrixView<p, 18, NoSum>;

} // namespace milcgpu
