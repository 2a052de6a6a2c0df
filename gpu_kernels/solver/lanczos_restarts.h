// Decides from Ritz values and residuals whether Lanczos has found the lowest eigenvectors, and how it restarts if not.
#pragma once
#include "gpu_kernels/solver/eigenvectors.h"
#include "gpu_kernels/solver/lanczos_blocks.h"
#include <algorithm>

namespace milcgpu::lanczos {

constexpr int least_degree = 4;
// The last vectors may be bad. If more than this part of all is missing, Lanczos restarts.
constexpr double may_be_missing = 1.0 / 16;
// A restart gains nothing if it makes no more vectors good and does not reduce the residual of the first bad one by
// this factor. Two such restarts in a row end Lanczos.
constexpr double slow = 0.8;
constexpr int most_restarts = 20;
// Usual spectra take fewer. After more, each restart keeps a block more than the last one.
constexpr int few_restarts = 5;

// The part of a Rayleigh quotient that may come from high modes (Eigenvectors::of_high_modes). That criterion holds
// below this multiple of the filter's edge, where the filter amplifies the vector more than the others.
constexpr double from_high_modes = 0.1, above_edge = 1.2;

// The density is smeared, so its edge may lie below all eigenvalues, as on free links. If the last Ritz value times
// clear_of_edge is not below the edge, the edge becomes edge_above_last times that value, but at most most_rise times
// itself and below_highest times the largest eigenvalue.
constexpr double clear_of_edge = 1.1, edge_above_last = 1.4, most_rise = 2, below_highest = 0.9;

// Values below this part of the largest one are 0 up to rounding.
constexpr double rounding_of_values = 1e-6;
// A level: values that agree to `one_level`. A Krylov space of a block has at most 16 vectors of one eigenvalue, except
// for rounding. So vectors may be missing if a level has 16 values and there are others above it, or if the last value
// exceeds the density's by above_density. Then random vectors follow. They are filtered until their part of all other
// modes is `of_the_rest` of their part of a mode at the last value. If no value falls by more than `falls`, none is
// missing.
constexpr double one_level = 1e-3, above_density = 1.5, of_the_rest = 0.01, falls = 0.02;
// While the vectors of a full level are not good, further vectors of the level mix with them, and random vectors bring
// parts of other modes into the level. So once values no longer change, the present vectors are filtered alone, this
// many times.
constexpr int polish = 4;

// The number of values up to the end of the first level of at least `block`; 0 if there is none. zero: see above.
inline int end_of_full_level(const std::vector<double> &values, int count, double zero) {
    for (int k = 0, first = 0; k <= count; ++k)
        if (k == count || values[k] > (1 + one_level) * values[first] + zero) {
            if (k - first >= block)
                return k;
            first = k;
        }
    return 0;
}

class Restarts {
  public:
    // by_density: the value of the last vector wanted, from the density.
    Restarts(int wanted, double tolerance, double dimension, double by_density, const Applier::Interval &filtered,
             int degree)
        : filtered(filtered), degree(degree), wanted_(wanted), tolerance_(tolerance), dimension_(dimension),
          by_density_(by_density) {}

    Applier::Interval filtered; // what the filter damps
    int degree;
    int good = 0;             // the lowest `good` vectors are good
    int full = 0;             // end_of_full_level of all vectors kept
    double missed = INFINITY; // residual of the first bad vector
    // What extends the basis beyond the kept vectors: T of its last block; random vectors; nothing.
    enum class More { chain, drawn, none } more = More::chain;
    int times = 1; // how often each block of these (with `none`, of the kept vectors) is filtered
    int restarts = 0;

    bool is_good(double value, double residual) const {
        if (tolerance_ > 0)
            return residual < tolerance_ * filtered.high;
        const double part = Eigenvectors::of_high_modes(value, residual, filtered.high);
        return part == 0 || (value < above_edge * filtered.low && part < from_high_modes);
    }

    // Looks at the lowest `count` vectors, and for full levels at all `taken` vectors, which may be more than are
    // wanted. Returns true at the end. Else the members above say how to continue.
    bool end(const Eigenvectors &seen, int count, int taken) {
        const int good_before = good;
        for (good = 0; good < count && is_good(seen.values[good], seen.residuals[good]);)
            ++good;
        bool fell = values_.empty();
        for (int k = 0; k < count && !values_.empty(); ++k)
            fell = fell || seen.values[k] < (1 - falls) * values_[k] - zero();
        values_.assign(seen.values.begin(), seen.values.begin() + count);
        whole_ = !fell && (whole_ || more == More::drawn);
        const double raised = raised_edge();
        full = end_of_full_level(seen.values, taken, zero());
        const bool rises = raised > filtered.low, levels = full > 0,
                   gains = good > good_before || good == count || seen.residuals[good] < slow * missed || rises || fell,
                   enough = wanted_ - good <= (tolerance_ > 0 ? 0 : may_be_missing * wanted_);
        idle_ = gains ? 0 : idle_ + 1;
        missed = good < count ? seen.residuals[good] : 0;
        const bool lacks = !whole_ && may_lack_some(),
                   mixed = tolerance_ <= 0 && levels && more == More::drawn;
        if ((enough && !lacks && !mixed) || idle_ > 1 || restarts == most_restarts) {
            if (lacks && levels) // vectors above a full level may not be the lowest
                good = std::min(good, full);
            return true;
        }
        ++restarts;
        if (rises) {
            degree = std::max(least_degree, static_cast<int>(std::lround(degree * std::sqrt(filtered.low / raised))));
            filtered.low = raised;
        }
        if (enough)
            more = lacks ? More::drawn : More::none;
        else if (!fell || more == More::none)
            more = levels && !fell && more != More::none ? More::none : More::chain;
        times = more == More::chain ? 1 : more == More::none ? polish : passes();
        return false;
    }

  private:
    double zero() const { return rounding_of_values * filtered.high; }
    bool may_lack_some() const {
        const int full = end_of_full_level(values_, good, zero());
        return good > 0 && ((full > 0 && full < good) || values_[good - 1] > above_density * by_density_);
    }
    double raised_edge() const {
        const double low = filtered.low, last = values_.back();
        if (last * clear_of_edge <= low)
            return low;
        return std::fmin(std::fmin(edge_above_last * last, most_rise * low), below_highest * filtered.high);
    }
    // How often random vectors are filtered until a mode at the last value shows.
    int passes() const {
        const double rest = tolerance_ > 0 ? std::fmin(tolerance_, of_the_rest) : of_the_rest,
                     above = std::fmax(filtered.low - values_.back(), 0),
                     of_mode = std::cosh(degree * std::acosh(1 + 2 * above / filtered.width()));
        return static_cast<int>(
            std::ceil(std::log(std::sqrt(dimension_ / block) / rest) / std::log(std::fmax(of_mode, 3))));
    }

    int wanted_;
    double tolerance_, dimension_, by_density_;
    std::vector<double> values_; // of the last look
    int idle_ = 0;               // restarts in a row without gain
    bool whole_ = false;         // random vectors found no other values
};

} // namespace milcgpu::lanczos
