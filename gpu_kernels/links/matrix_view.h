// What the link kernels share: fields of matrices as kernels take them.
#pragma once
#include "gpu_kernels/backend/reduce.h"
#include "gpu_kernels/geometry/sites_and_parts.h"
#include "gpu_kernels/links/links.h"
#include "gpu_kernels/su3/for_real.h"
#include "gpu_kernels/su3/reconstruct.h"
#include "gpu_kernels/su3/settle.h"

namespace milcgpu {

template <Precision p, int reals = 18> struct MatrixView {
    using Real = typename LinkReal<p>::Real;
    static constexpr int reals_of_a_link = reals;
    unsigned char *data;
    size_t stride, block_bytes;
    int directions;
    KeptSum sum;
    explicit MatrixView(const LinkField &f)
        : data(f.block(0, 0)), stride(f.stride()), block_bytes(f.block_bytes()), directions(f.directions()),
          sum(f.kept()) {}
    // Memory that is no field: one parity, `slots` matrices a site.
    MatrixView(unsigned char *memory, size_t sites, int slots)
        : data(memory), stride(sites), block_bytes(sites * link_bytes(p, reals)), directions(slots) {}
    // For a kernel that reads by take(). last_use: no launch reads these links again; else their checksum stays as it
    // is.
    MatrixView to_take(bool last_use) const {
        MatrixView view = *this;
        if (!last_use)
            view.sum = {};
        return view;
    }
    template <Reuse reuse = Reuse::keep> MILCGPU_HD Matrix<Real> load(int parity, int mu, int i) const {
        return plain_matrix(load_link<p, reals, reuse>(data + (parity * directions + mu) * block_bytes, stride, i));
    }
    // What is replaced then, or not read again by any launch.
    template <Reuse reuse = Reuse::written> MILCGPU_HD Matrix<Real> take(int parity, int mu, int i) const {
        const auto raw = load_link<p, reals, reuse>(data + (parity * directions + mu) * block_bytes, stride, i);
        sum.put<raw.bytes>(raw.w, piece(parity, mu), stride, i, true);
        return plain_matrix(raw);
    }
    // What was taken, and stays.
    MILCGPU_HD void put_back(int parity, int mu, int i) const {
        const auto raw = load_link<p, reals>(data + (parity * directions + mu) * block_bytes, stride, i);
        sum.put<raw.bytes>(raw.w, piece(parity, mu), stride, i);
    }
    MILCGPU_HD void store(int parity, int mu, int i, const Matrix<Real> &m) const {
        static_assert(reals == 18, "only plain matrices are written");
        RawLink<p, 18> raw = {};
        MILCGPU_UNROLL
        for (int k = 0; k < 9; ++k) {
            raw.set(2 * k, m.e[k / 3][k % 3].re);
            raw.set(2 * k + 1, m.e[k / 3][k % 3].im);
        }
        settle(raw);
        store_link<p, 18>(data + (parity * directions + mu) * block_bytes, stride, i, raw);
        sum.put<raw.bytes>(raw.w, piece(parity, mu), stride, i);
    }

  private:
    MILCGPU_HD uint32_t piece(int parity, int mu) const {
        return static_cast<uint32_t>((parity * directions + mu) * (block_bytes / 16));
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

} // namespace milcgpu
