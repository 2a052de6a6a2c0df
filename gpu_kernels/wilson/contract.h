// Contractions of two Dirac fields: the numbers that bilinears phi^dag Gamma psi and mesons consist of.
//
// A Dirac field is a FullVectors of four components a site (SpinorField), double or single, on both parities. With m, n
// for spins, a for colours, r, s for sources:
//
//   open spin  A_mn(x) = sum_a conj(phi_ma) psi_na
//   16 gammas  G_k(x) = sum_mn Gamma_k,mn A_mn
//   mesons     sum_rs sum_mn in_rs out_mn sum_a conj(phi_r,ma) psi_s,na    phi and psi have four sources: the spins at
//                                                                          the source of a propagator (MILC's
//                                                                          spin_wilson_vector)
//   open meson sum_rs in_rs conj(phi_r,ma) psi_s,nb, 144 numbers
//
// Every gamma matrix has one element a row, so a matrix is stored as the column of that element, two bits of signs, and
// a power of i (gamma_matrices.h). So four gammas that differ only in their signs share all their products of colours.
// The products of three colours are in the fields' precision; sums of them over spins, sources and sites are in double.
//
// Sums over time slices store no field of numbers: each thread loops over z and multiplies by the factors of z as it
// computes the numbers (momentum_sums.h has the rest). QUDA's contractions do one momentum a pass (lib/contract.cu).
#pragma once
#include "gpu_kernels/algebra/momentum_sums.h"
#include "gpu_kernels/fields/spinor_block.h"
#include "gpu_kernels/wilson/gamma_matrices.h"

namespace milcgpu {

// The target of numbers of sites: number k of the site in place j (even sites, then odd ones) becomes complex number k
// from_number + (map ? map[j] : j) from_site of `data`, in the precision of the fields.
struct SiteNumbers {
    void *data;
    size_t from_number, from_site;
    const int *map = nullptr;
};

// Number 4 m + n is A_mn. phi and psi have one source. Bytes a site: 80 p, p bytes a real; flops: 288.
void open_spins(Device &, const Geometry &, const FullVectors &phi, const FullVectors &psi, const SiteNumbers &to);
// Number k is G_k of the set. Flops a site: 288 + 256.
void gammas_of_sites(Device &, const Geometry &, GammaBasis, const FullVectors &phi, const FullVectors &psi,
                     const SiteNumbers &to);

struct GammaPair {
    Gamma in, out;
};

// Sums of f(x) times these numbers over the sites of each time slice of the box, for many momenta. Functions that
// return numbers wait for the device.
class DiracSums {
  public:
    DiracSums(Device &, const Geometry &, const std::vector<Momentum> &, const int *origin);
    // [(momentum pairs + pair) T + t]. phi and psi have one source (then `in` is not used) or four. Up to 16 pairs
    // share a pass over the fields.
    std::vector<Complex<double>> of_gammas(const FullVectors &phi, const FullVectors &psi,
                                           const std::vector<GammaPair> &);
    // [(momentum 144 + ((a 4 + m) 4 + n) 3 + b) T + t]. phi and psi have four sources.
    std::vector<Complex<double>> of_open_meson(const FullVectors &phi, const FullVectors &psi, const Gamma &in);
    // The first pass of of_gammas; its results stay on the device. Returns how many pairs it has done.
    int first_pass(const FullVectors &phi, const FullVectors &psi, const std::vector<GammaPair> &);

  private:
    struct Plan;
    void pass_over(const FullVectors &phi, const FullVectors &psi, const Plan &, int first_group);
    void sum_over_y_and_x(int classes);
    void allocate(int classes);
    Device &device_;
    Geometry geometry_; // of the box
    MomentumSums momenta_;
    DeviceArray<Complex<double>> along_z_, along_y_, sums_;
};

// For a site, one momentum and fields of `sources` sources: reads each field once.
constexpr double dirac_sums_bytes(Precision p, int sources) { return 48.0 * real_bytes(p) * sources; }
// Products of colours once for every four pairs that share their columns, then signs, and a factor in z.
constexpr double dirac_sums_flops(int sources, int shared_columns, int pairs, int factors) {
    return 4.0 * sources * (24 * shared_columns + 4 * pairs) + 8.0 * pairs * factors;
}

} // namespace milcgpu
