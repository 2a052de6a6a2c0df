// Colour vectors of several sites, with a lane for each site. In memory they have the layout of spinor_storage.h;
// loads and stores transpose them in registers.
#pragma once
#include "gpu_kernels/fields/spinor_storage.h"
#include "gpu_kernels/machine/backend/lanes.h"
#include <algorithm>

namespace milcgpu {

#if MILCGPU_LANES

template <class Scalar> struct SpinorLanes {
    using Real = Lanes<typename Scalar::Real>;
    static constexpr Precision precision = Scalar::precision;
    static constexpr int site_bytes = Scalar::words * Scalar::word_bytes;
};
// A launch on the host sends nothing to peers, so it does not need the vector that it has stored.
template <class Scalar> struct StoredSpinor<SpinorLanes<Scalar>> {};

// The neighbours of a block of sites: at[l] is the neighbour of the block's site l, or, if at[0] is negative, they are
// the sites from ~at[0] on. The field has `end` sites, ghosts included. A bit of `at` that flips in memory leads to
// another site of the field; checksums notice it later.
struct NeighboursAtOnce {
    const int *at;
    unsigned end;
};

namespace lanes {

// A pair has 8 bytes. Memory has four elements of three pairs, one element after the other, in three registers.
// to_pairs makes register k of the pairs k of all elements; from_pairs does the reverse. Both exchange the same pairs,
// in another order (the digits in the comments are element and pair).
typedef double FourPairs __attribute__((vector_size(32)));
MILCGPU_HD FourPairs four_at(const unsigned char *from) {
    FourPairs x;
    memcpy(&x, from, sizeof x);
    return x;
}
MILCGPU_HD void to_pairs(const FourPairs (&in)[3], FourPairs (&out)[3]) {
    const FourPairs &a = in[0], &b = in[1], &c = in[2];                                    // 00 01 02 10, 11 12 20 21
    const FourPairs x = MILCGPU_SHUFFLE(MILCGPU_SHUFFLE(a, b, 0, 1, 6, 3), c, 0, 5, 2, 3); // 00 30 20 10
    const FourPairs y = MILCGPU_SHUFFLE(MILCGPU_SHUFFLE(b, a, 0, 5, 2, 3), c, 0, 1, 6, 3); // 11 01 31 21
    const FourPairs z = MILCGPU_SHUFFLE(MILCGPU_SHUFFLE(c, b, 0, 5, 2, 3), a, 0, 1, 6, 3); // 22 12 02 32
    out[0] = MILCGPU_SHUFFLE(x, x, 0, 3, 2, 1), out[1] = MILCGPU_SHUFFLE(y, y, 1, 0, 3, 2),
    out[2] = MILCGPU_SHUFFLE(z, z, 2, 1, 0, 3);
}
MILCGPU_HD void from_pairs(const FourPairs (&in)[3], FourPairs (&out)[3]) {
    const FourPairs x = MILCGPU_SHUFFLE(in[0], in[0], 0, 3, 2, 1), y = MILCGPU_SHUFFLE(in[1], in[1], 1, 0, 3, 2),
                    z = MILCGPU_SHUFFLE(in[2], in[2], 2, 1, 0, 3);
    out[0] = MILCGPU_SHUFFLE(MILCGPU_SHUFFLE(x, y, 0, 5, 2, 3), z, 0, 1, 6, 3);
    out[1] = MILCGPU_SHUFFLE(MILCGPU_SHUFFLE(y, z, 0, 5, 2, 3), x, 0, 1, 6, 3);
    out[2] = MILCGPU_SHUFFLE(MILCGPU_SHUFFLE(z, x, 0, 5, 2, 3), y, 0, 1, 6, 3);
}

// Single precision: eight sites, a pair is a complex number. Shuffles within the halves of a register are fast, so
// lanes 0 to 7 hold the sites 0 1 4 5 2 3 6 7.
MILCGPU_HD constexpr int site_of(int lane, float) { return lane >= 2 && lane < 6 ? lane ^ 6 : lane; }
MILCGPU_HD void from_halves(const FourPairs (&low)[3], const FourPairs (&high)[3], Vector<Lanes<float>> &x) {
    typedef float Single __attribute__((vector_size(32)));
    for (int k = 0; k < 3; ++k) {
        const Single a = reinterpret_cast<Single>(low[k]), b = reinterpret_cast<Single>(high[k]);
        x.c[k].re.v = MILCGPU_SHUFFLE(a, b, 0, 2, 8, 10, 4, 6, 12, 14);
        x.c[k].im.v = MILCGPU_SHUFFLE(a, b, 1, 3, 9, 11, 5, 7, 13, 15);
    }
}
MILCGPU_HD void load(const unsigned char *from, Vector<Lanes<float>> &x) {
    FourPairs low[3], high[3];
    to_pairs({four_at(from), four_at(from + 32), four_at(from + 64)}, low);
    to_pairs({four_at(from + 96), four_at(from + 128), four_at(from + 160)}, high);
    from_halves(low, high, x);
}
// site(l): the address of site l.
template <class At> MILCGPU_HD void load_each(const At &site, Vector<Lanes<float>> &x) {
    const auto four = [&](int l, int k) {
        FourPairs pairs;
        for (int j = 0; j < 4; ++j)
            memcpy(reinterpret_cast<double *>(&pairs) + j, site(l + j) + 8 * k, 8);
        return pairs;
    };
    from_halves({four(0, 0), four(0, 1), four(0, 2)}, {four(4, 0), four(4, 1), four(4, 2)}, x);
}
MILCGPU_HD void store(const Vector<Lanes<float>> &x, unsigned char *to) {
    FourPairs low[3], high[3], raw[3];
    for (int k = 0; k < 3; ++k) {
        low[k] = reinterpret_cast<FourPairs>(MILCGPU_SHUFFLE(x.c[k].re.v, x.c[k].im.v, 0, 8, 1, 9, 4, 12, 5, 13));
        high[k] = reinterpret_cast<FourPairs>(MILCGPU_SHUFFLE(x.c[k].re.v, x.c[k].im.v, 2, 10, 3, 11, 6, 14, 7, 15));
    }
    from_pairs(low, raw);
    for (int k = 0; k < 3; ++k)
        memcpy(to + 32 * k, &raw[k], 32);
    from_pairs(high, raw);
    for (int k = 0; k < 3; ++k)
        memcpy(to + 96 + 32 * k, &raw[k], 32);
}

// Double precision: four sites, half a register is a complex number. Sites 0 and 2 share registers, and sites 1 and 3
// share registers, so lane l holds site l.
MILCGPU_HD constexpr int site_of(int lane, double) { return lane; }
template <class At> MILCGPU_HD void load_each(const At &site, Vector<Lanes<double>> &x) {
    const auto two = [&](int l, int k) {
        double number[4];
        memcpy(number, site(l) + 16 * k, 16), memcpy(number + 2, site(l + 2) + 16 * k, 16);
        return FourPairs{number[0], number[1], number[2], number[3]};
    };
    for (int k = 0; k < 3; ++k) {
        const FourPairs even = two(0, k), odd = two(1, k);
        x.c[k].re.v = MILCGPU_SHUFFLE(even, odd, 0, 4, 2, 6), x.c[k].im.v = MILCGPU_SHUFFLE(even, odd, 1, 5, 3, 7);
    }
}
MILCGPU_HD void load(const unsigned char *from, Vector<Lanes<double>> &x) {
    load_each([&](int l) { return from + 48 * l; }, x);
}
MILCGPU_HD void store(const Vector<Lanes<double>> &x, unsigned char *to) {
    for (int k = 0; k < 3; ++k, to += 16) {
        const FourPairs even = MILCGPU_SHUFFLE(x.c[k].re.v, x.c[k].im.v, 0, 4, 2, 6),
                        odd = MILCGPU_SHUFFLE(x.c[k].re.v, x.c[k].im.v, 1, 5, 3, 7);
        const double two[4][2] = {{even[0], even[1]}, {odd[0], odd[1]}, {even[2], even[3]}, {odd[2], odd[3]}};
        for (int l = 0; l < 4; ++l)
            memcpy(to + 48 * l, two[l], 16);
    }
}

} // namespace lanes

// As in su3.h. The products have names, so the compiler fuses the same product with the addition as for a single site.
template <class T> MILCGPU_HD Lanes<T> norm(Complex<Lanes<T>> a) {
    const Lanes<T> re = a.re * a.re, im = a.im * a.im;
    return re + im;
}
template <class T> MILCGPU_HD Lanes<T> real_dot(const Vector<Lanes<T>> &x, const Vector<Lanes<T>> &y) {
    Lanes<T> sum = 0;
    for (int k = 0; k < 3; ++k) {
        const Lanes<T> re = x.c[k].re * y.c[k].re, im = x.c[k].im * y.c[k].im;
        sum += re + im;
    }
    return sum;
}

template <class S, Reuse = Reuse::keep>
MILCGPU_HD Vector<typename S::Real> load_spinor(const unsigned char *data, size_t, const SitesAtOnce &at) {
    Vector<typename S::Real> x;
    lanes::load(data + size_t(at.first) * S::site_bytes, x);
    return x;
}
template <class S>
MILCGPU_HD Vector<typename S::Real> load_spinor(const unsigned char *data, size_t stride,
                                                const NeighboursAtOnce &from) {
    const auto within = [](int at, unsigned last) { return std::min(static_cast<unsigned>(at), last); };
    if (from.at[0] < 0)
        return load_spinor<S>(data, stride,
                              SitesAtOnce{static_cast<int>(within(~from.at[0], from.end - S::Real::count))});
    Vector<typename S::Real> x;
    lanes::load_each([&](int l) { return data + size_t(within(from.at[l], from.end - 1)) * S::site_bytes; }, x);
    return x;
}
template <class S>
MILCGPU_HD StoredSpinor<S> store_spinor(unsigned char *data, size_t, const SitesAtOnce &at,
                                        const Vector<typename S::Real> &x) {
    lanes::store(x, data + size_t(at.first) * S::site_bytes);
    return {};
}

#endif

} // namespace milcgpu
