// The lowest eigenvectors v_i of an operator A at shift 0 (solver/normal_operator.h), kept on the device, and the
// deflation of solves with them. With V = (v_1 .. v_N) and L = diag(l_1 .. l_N)
//
//     x += V (L + shift)^-1 V^dag r,    r = b - A x in double
//
// is an exact solve of the part of the error that lies in the space of V. It is made at the start of a solve and at
// each reliable update, and leaves conjugate gradient with the eigenvalues from l_N + shift on. Once is not enough: r
// is in double, but V has rounding errors, which are multiplied with 1 / shift.
//
// Vectors are in half precision, 16 bytes a site, which deflates as well as single. Double is for vectors whose
// |A v - l v| must be below 1e-6 of the largest l. Passes over V: `gram` and
// `block_axpy`; in half `project` and `combine`. V is read twice, whether there are 1 or most_few right sides.
#pragma once
#include "gpu_kernels/algebra/convert_sources.h"
#include "gpu_kernels/solver/normal_operator.h"
#include <functional>
#include <memory>

namespace milcgpu {

// Computes Rayleigh quotients and residuals of vectors in double, for an A of shift 0. It takes up to `together`
// vectors at once, because D of several vectors reads the links once.
class VectorLook {
  public:
    static constexpr int together = 4;
    struct Seen {
        double norm, value, residual; // |v|, the Rayleigh quotient l, |A v - l v| / |v|
    };
    VectorLook(Device &, const NormalOperator &A, int most = together);
    static size_t bytes(const Geometry &, int most);      // memory for `most` vectors
    SpinorBlock operator[](int k) const { return v_[k]; } // where the caller puts vector k
    SpinorBlock first(int n) const { return v_.block().first(n); }
    int most() const { return v_.sources(); }
    // Looks at the first n. values: l for the residuals, in place of the Rayleigh quotients.
    std::vector<Seen> at(const NormalOperator &A, int n, const double *values = nullptr);

  private:
    Device &device_;
    SpinorField v_, av_, between_;
    DeviceArray<double> sums_;
};

class Eigenvectors {
  public:
    // Room for `count` vectors on the sites of `of`, in groups of up to group_size. Throws Error(no_memory),
    // Error(bad_argument).
    Eigenvectors(Device &, const NormalOperator &of, Precision, int count);

    int count() const { return static_cast<int>(values.size()); }
    int parity() const { return parity_; }
    Precision precision() const { return precision_; }
    int groups() const { return static_cast<int>(groups_.size()); }
    const SpinorField &group(int g) const { return groups_[g]; }
    SpinorBlock operator[](int k) const { return groups_[k / group_size()][k % group_size()]; }
    void keep(int count); // drops all but the first
    void grow(int more);  // allocates this many more; all groups must be full
    void sort();          // the lowest value first

    // Sets vector k to `from` / |from|, computed in double, and its value and residual as below. A vector whose norm is
    // 1 to rounding keeps its bits.
    void load(int k, const SpinorBlock &from, const NormalOperator &A);
    // Sets values and residuals of `count` vectors from A, in double: the Rayleigh quotient l, and |A v - l v| / |v|.
    // together: vectors at once, which take memory until free_scratch().
    void look_at(int first, int count, const NormalOperator &A, int together = 1);
    // The same for the vectors with these numbers, without setting anything.
    std::vector<VectorLook::Seen> look(const std::vector<int> &numbers, const NormalOperator &A,
                                       int together = 1) const;
    // Empty if the vectors belong to A: |A v - l v| of a few of them has not changed and is small enough. Else the
    // reason why not.
    std::string why_not_of(const NormalOperator &A) const;
    // The same from the stored values and residuals of all vectors.
    std::string why_none(double highest) const;
    // The part of a Rayleigh quotient that comes from high modes, which lie around highest / 2. A fraction e of them in
    // v makes |A v - l v| = e (highest / 2 - l), and adds e^2 highest / 2 to the quotient. Returns 0 if v is an
    // eigenvector to rounding or to a hundredth of l.
    static double of_high_modes(double value, double residual, double highest);
    // Empty if the vectors are independent: the sum of |<u, v>| over all other vectors u is at most a half for each v
    // (Gershgorin). Else the reason why not.
    std::string why_not_orthogonal() const;
    double lowest() const; // of the values, in any order
    double highest() const;

    void free_scratch() const { look_.reset(); } // the memory of look()

    // Checksums of the vectors, one each, and regions to compare with them later.
    void take_checksum(int k);
    void take_checksums();
    std::vector<Region> checked_regions() const;
    // Whether `count` vectors from `first` on still have their checksums. Waits for the device.
    bool are_as_summed(int first, int count) const;

    static int group_size();
    static size_t bytes(const Geometry &, Precision, int count);

    std::vector<double> values, residuals; // of A at shift 0, the lowest first if they were computed or sorted
    uint64_t links = 0;                    // the caller's tag of the links that the vectors belong to

  private:
    double norm_over_ranks(const SpinorBlock &) const;
    std::vector<uint64_t> checksums(int first, int count) const; // as the vectors are now
    Device &device_;
    Geometry geometry_;
    int parity_;
    Precision precision_;
    std::vector<SpinorField> groups_;
    std::vector<uint64_t> sums_; // of each vector
    mutable std::unique_ptr<VectorLook> look_;
};

// The step above, for up to `sources` right sides at once. Traffic a site: V twice, and for each right side 4 spinors
// in double, 1 in single, and 3 more for each group of V (in half 1, and 2 for each combined_at_once groups). Flops a
// site: 48 N for each right side. Launches: 3, and 3 for each group of V (in half 2, and 1 for each combined_at_once
// groups).
class Deflation {
  public:
    // like: an operator on the solutions, in double. The vectors must outlive this object.
    Deflation(Device &, const Eigenvectors &, const NormalOperator &like, int sources);
    const Eigenvectors &vectors() const { return vectors_; }
    int sources() const { return low_.sources(); }

    // x_k += V (L + shift)^-1 V^dag r_k for n right sides, in double. r_of[k], x_of[k]: the places of r_k and x_k in r
    // and x. rr: |r_k|^2, not 0. The sum over sites does not depend on the number of right sides.
    void add(const SpinorBlock &r, const int *r_of, const SpinorBlock &x, const int *x_of, const double *rr, int n,
             double shift);
    // Whether the last add, dx, has reduced the error of x in the norm of A for all right sides. With the residuals r
    // before and r' after it, the error fell by <dx, r + r'>, which is <dx, r> for exact vectors. r_new: the residuals
    // r', in the order of the last add. One pass over a vector for each right side.
    bool lessened_error(const SpinorBlock &r_new, double shift);
    // Restores x as it was before the last add.
    void undo();
    // Calls add, and undoes it if it raises a residual by more than rounding and does not reduce all errors. Returns
    // whether it was kept. residuals(): computes the residuals of x into the places 0 .. n - 1 of r, returns |r|^2.
    bool add_if_it_helps(const SpinorBlock &r, const int *r_of, const SpinorBlock &x, const int *x_of,
                         const std::vector<double> &rr, double shift,
                         const std::function<std::vector<double>()> &residuals);

    // A lower bound of the eigenvalues that are left.
    double lowest(double shift) const { return vectors_.highest() + shift; }
    double flops(int sources) const;
    double bytes(int sources) const;

  private:
    Device &device_;
    const Eigenvectors &vectors_;
    double sites_;                          // of a parity, on all ranks
    SpinorField low_, correction_, before_; // before_: x, in double
    DeviceArray<Complex<double>> c_;
    DeviceArray<double> values_, scratch_;
    SpinorBlock x_{};
    SourceScales back_{}; // unit and place in x of each right side
    int n_ = 0;
};

// The lowest eigenvalue of A that a solve has to deal with, with a deflation or (nullptr) without.
inline double lowest_of(const NormalOperator &A, const Deflation *deflation, double shift) {
    return deflation != nullptr ? deflation->lowest(shift) : A.lowest(shift);
}

} // namespace milcgpu
