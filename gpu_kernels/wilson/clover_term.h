// The clover term R of Wilson fermions (Sheikholeslami, Wohlert, Nucl. Phys. B 259 (1985) 572), MILC's conventions:
//
//   R = 1 + cku0 i sum_(mu<nu) sigma_mu,nu f_mu,nu,   f_mu,nu = (G - G^dag) / 8,   cku0 = kappa c_sw / u0^3
//
// with G the four plaquettes around a site that turn from mu to nu. Traces of f are kept, as in MILC's
// generic_clover/f_mu_nu.c and make_clov2.c. In the chiral basis R is two hermitian 6x6 blocks a site: chirality 0
// (spins 0, 1) and 1 (spins 2, 3), row 3 (spin mod 2) + colour. With h = i f and s = -1 for chirality 0, +1 for 1:
//
//   ( 1 + cku0 a   cku0 b^dag )    a = h_xy + s h_zt
//   ( cku0 b       1 - cku0 a )    b = h_yz + s h_xt + i (h_xz - s h_yt)
//
// A block is 36 reals: the diagonal (6), then what is below it, row by row (15 complex). That is MILC's
// di[chirality][6] and tr[chirality][15]. Words of 16 bytes are striped over the sites, as those of links are:
//
//   [parity][chirality][word][i],  i < stride     in device memory, double 18 words, single 9
//   [parity][chirality][i][word]                  on the host backend
//
// Half precision keeps R - 1: 36 numbers of 16 bits (fixed point, as for links) in units of the largest, and the
// largest as a float: 76 bytes. Error of an element: 2^-16 of the largest of R - 1. A block with NaN or infinity is all
// NaN.
#pragma once
#include "gpu_kernels/fields/link_field.h"
#include "gpu_kernels/fields/settle.h"
#include "gpu_kernels/fields/spinor_block.h"
#include "gpu_kernels/halo/wide_box.h"

namespace milcgpu {

constexpr int clover_reals = 36; // of a block

constexpr size_t clover_block_bytes(Precision p) {
    return link_bytes(p, clover_reals) + (p == Precision::half ? sizeof(float) : 0);
}

class CloverField {
  public:
    CloverField() = default;
    CloverField(Device &, Precision, const Geometry &, const char *owner);
    static size_t bytes_of(Precision precision, const Geometry &geometry) {
        return 4 * geometry.stride() * clover_block_bytes(precision);
    }
    explicit operator bool() const { return data_.data() != nullptr; }
    Precision precision() const { return precision_; }
    int sites(int parity) const { return sites_[parity]; }
    size_t stride() const { return stride_; }
    size_t bytes() const { return data_.bytes(); }
    // Writers keep the checksum of what they write. It starts at zero: the present content does not count and must be
    // overwritten.
    KeptSum kept() const { return {sum_.get()}; }
    uint64_t kept_sum() const { return kept().read(data_.device()); }
    // The words of one chirality on the sites of one parity.
    unsigned char *block(int parity, int chirality) const {
        return data_.data() + (2 * parity + chirality) * block_bytes();
    }
    size_t block_bytes() const { return stride_ * clover_block_bytes(precision_); }
    Region region(const char *name) const { return {data_.data(), bytes(), checksum, name}; }
    uint64_t checksum = 0; // of what was written here, if results depend on it

  private:
    Precision precision_ = Precision::double_;
    int sites_[2] = {0, 0};
    size_t stride_ = 0;
    DeviceArray<unsigned char> data_;
    std::shared_ptr<uint64_t> sum_; // on the device
};

// R on both parities, in double. u: links of 18 reals, double or single, scale 1, without staggered phases; a boundary
// sign cancels. On a cut lattice, u is on the wide box with clover_reach layers filled, R on the box.
constexpr int clover_reach = 1;
void make_clover(Device &, const WideBox &, const LinkField &u, double cku0, const CloverField &r);
constexpr double make_clover_flops = 2 * 6 * (12 * 198 + 4 * 18 + 36); // a site: each chirality makes all six f
constexpr double make_clover_bytes(Precision links) { return 4.0 * link_bytes(links, 18) + 2 * 288; }

// inverse = R^-1 on the sites of one parity, in double; `inverse` may be R itself, and its other parity does not
// change. Uses six sweeps of Gauss-Jordan (Goodnight, Am. Stat. 33 (1979) 149), whose pivots are those of LDL^dag. Each
// block is multiplied by its inverse again: if the product differs from 1 by more than 1e-8, the block counts as having
// no inverse. Throws Error(nan_or_inf) if blocks of R hold NaN or infinity, and Error(bad_argument) if blocks have no
// inverse, with their number; `inverse` then holds NaN in these blocks.
struct CloverInverse {
    double trace_log;     // sum of log |pivot|: tr log R on the parity if all blocks are positive, as in MILC
    long long indefinite; // blocks with a negative eigenvalue, for which MILC's Cholesky gives NaN
};
CloverInverse invert_clover(Device &, const CloverField &r, int parity, const CloverField &inverse);
constexpr double invert_clover_flops = 2 * (6 * (5 * 2 + 15 * 8) + 6 * 6 * 6 * 8); // a site
constexpr double invert_clover_bytes = 2.0 * 2 * 288;

// to = from in the precision of `to`; from is in double.
void convert_clover(Device &, const CloverField &from, const CloverField &to);

// out = R in on the sites of one parity; in and out (4 components) are in the precision of R, and may be one field.
// gate: if it is 0 on the device, the launch does nothing; nullptr: no gate.
void multiply_clover(Device &, const CloverField &r, int parity, const SpinorBlock &in, const SpinorBlock &out,
                     const int *gate = nullptr);
constexpr double clover_flops = 2 * (6 * 2 + 30 * 8);                              // a site
constexpr double clover_bytes(Precision p) { return 2.0 * clover_block_bytes(p); } // R alone

// A block in registers.
template <class T> struct CloverBlock {
    T diagonal[6];
    Complex<T> below[15]; // [row (row - 1) / 2 + column]
};

// (x, y) = block (x, y), the two spins of its chirality.
template <class T> MILCGPU_HD void multiply(const CloverBlock<T> &block, Vector<T> &x, Vector<T> &y) {
    const Complex<T> in[6] = {x.c[0], x.c[1], x.c[2], y.c[0], y.c[1], y.c[2]};
    Complex<T> out[6];
    MILCGPU_UNROLL
    for (int row = 0; row < 6; ++row)
        out[row] = block.diagonal[row] * in[row];
    MILCGPU_UNROLL
    for (int row = 1; row < 6; ++row)
        MILCGPU_UNROLL
    for (int column = 0; column < row; ++column) {
        const Complex<T> e = block.below[row * (row - 1) / 2 + column];
        out[row] = plus(out[row], e, in[column]);
        out[column] = plus(out[column], conj(e), in[row]);
    }
    x = {{out[0], out[1], out[2]}};
    y = {{out[3], out[4], out[5]}};
}

// The term as kernels take it.
template <Precision p> struct CloverView {
    using Real = typename LinkReal<p>::Real;
    using Raw = RawLink<p, clover_reals>;
    static constexpr int bytes = static_cast<int>(clover_block_bytes(p));
    unsigned char *data;
    size_t stride, block_bytes;
    KeptSum sum;
    CloverView() = default;
    explicit CloverView(const CloverField &f)
        : data(f.block(0, 0)), stride(f.stride()), block_bytes(f.block_bytes()), sum(f.kept()) {}

    template <Reuse reuse = Reuse::stream> MILCGPU_HD CloverBlock<Real> load(int parity, int chirality, int i) const {
        uint32_t words[bytes / 4];
        load_element<bytes, 16, reuse>(data + (2 * parity + chirality) * block_bytes, stride, i, words);
        Raw raw;
        memcpy(raw.w, words, sizeof raw.w);
        CloverBlock<Real> block;
        if constexpr (p == Precision::half) {
            const float unit = bit_cast<float>(words[bytes / 4 - 1]);
            MILCGPU_UNROLL
            for (int k = 0; k < 6; ++k)
                block.diagonal[k] = fmaf(unit, raw.get(k), 1.0f);
            MILCGPU_UNROLL
            for (int k = 0; k < 15; ++k)
                block.below[k] = unit * Complex<float>{raw.get(6 + 2 * k), raw.get(7 + 2 * k)};
        } else {
            MILCGPU_UNROLL
            for (int k = 0; k < 6; ++k)
                block.diagonal[k] = raw.get(k);
            MILCGPU_UNROLL
            for (int k = 0; k < 15; ++k)
                block.below[k] = {raw.get(6 + 2 * k), raw.get(7 + 2 * k)};
        }
        return block;
    }

    MILCGPU_HD void store(int parity, int chirality, int i, const CloverBlock<double> &block) const {
        double reals[clover_reals];
        MILCGPU_UNROLL
        for (int k = 0; k < 6; ++k)
            reals[k] = block.diagonal[k] - (p == Precision::half ? 1 : 0);
        MILCGPU_UNROLL
        for (int k = 0; k < 15; ++k)
            reals[6 + 2 * k] = block.below[k].re, reals[7 + 2 * k] = block.below[k].im;
        uint32_t words[bytes / 4];
        double per_unit = 1;
        if constexpr (p == Precision::half) {
            double largest = 0, check = 0;
            MILCGPU_UNROLL
            for (int k = 0; k < clover_reals; ++k) {
                largest = fmax(largest, fabs(reals[k]));
                check += reals[k] * 0; // NaN or infinity anywhere makes this NaN; fmax would drop a NaN
            }
            // The largest number becomes 32767 units of 2^-15.
            const float unit = check == 0 ? static_cast<float>(largest * (32768.0 / 32767.0)) : NAN;
            per_unit = unit > 0 ? 1.0 / unit : 0;
            words[bytes / 4 - 1] = bit_cast<uint32_t>(unit);
        }
        Raw raw = {};
        MILCGPU_UNROLL
        for (int k = 0; k < clover_reals; ++k)
            raw.set(k, p == Precision::half ? per_unit * reals[k] : reals[k]);
        memcpy(words, raw.w, sizeof raw.w);
        settle(words);
        store_element<bytes, 16>(data + (2 * parity + chirality) * block_bytes, stride, i, words);
        const auto piece = static_cast<uint32_t>((2 * parity + chirality) * (block_bytes / 16));
        sum.add(i, sum.weight<bytes>(words, piece, stride, i));
    }
};

} // namespace milcgpu
