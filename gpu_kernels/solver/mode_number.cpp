#include "gpu_kernels/solver/mode_number.h"
#include "gpu_kernels/algebra/random_vector.h"
#include "gpu_kernels/solver/lanczos_blocks.h"

namespace milcgpu {

using namespace lanczos;

namespace {

// The largest eigenvalue by power iteration is too low by a few per cent at the most.
constexpr int power_steps = 20, power_steps_a_basis = 5;
constexpr double above_highest = 1.05;
// A polynomial within [-1, 1] does not make noise larger, but for this factor. More: an eigenvalue is above highest_.
constexpr double noise_grows = 1.05;
// Moments are added until the angle of the last mode is this many times their resolution, pi / moments.
constexpr double widths = 5;
constexpr int first_moments = 64, most_moments = 4096;

} // namespace

ModeNumber::ModeNumber(Device &device, const NormalOperator &A, int modes, uint64_t seed, double most_applications)
    : dimension_(dimension_of(A.geometry())) {
    const std::unique_ptr<Workspace> space = workspace(device, A, 2);
    Applier &apply = space->apply;
    {
        SpinorBlock x = space->fields[0], y = space->fields[1];
        random_vectors(device, A.geometry(), A.parity(), seed, 0, x);
        for (int step = 0; step < power_steps; ++step) {
            if (step % power_steps_a_basis == 0 && !orthonormalize(device, x))
                break;
            apply.apply(x, y);
            std::swap(x, y);
        }
        if (orthonormalize(device, x)) {
            apply.apply(x, y);
            highest_ = above_highest * eigen_of_hermitian(gram_over_ranks(device, x, y), block, 0).values.back();
        }
    }
    if (!(highest_ > 0))
        throw Error(Status::nan_or_inf, "the operator has no eigenvalue above 0: its links are 0");
    const SpinorField *const fields = space->fields; // T_k of the noise, k even and odd
    double norm = 0;
    const auto trace = [&](const SpinorBlock &x, const SpinorBlock &y) {
        const std::vector<Number> g = gram_over_ranks(device, x, y);
        require_finite(g);
        double sum = 0;
        for (int k = 0; k < block; ++k)
            sum += g[k * block + k].re;
        return sum;
    };
    const auto start = [&] {
        random_vectors(device, A.geometry(), A.parity(), seed + block, 0, fields[0]);
        norm = trace(fields[0], fields[0]);
        moments_.assign(1, dimension_);
    };
    // Two more of them. False: the largest eigenvalue is above highest_.
    const auto take_moments = [&] {
        const int k = static_cast<int>(moments_.size() + 1) / 2;
        const Applier::Interval all{0, highest_};
        const SpinorField &to = fields[k % 2], &from = fields[1 - k % 2];
        k == 1 ? apply.first(all, from, to) : apply.next(all, k - 1, from, to);
        const double signs = Applier::sign(k) * Applier::sign(k - 1);
        const double with_before = signs * trace(to, from) / norm, own = trace(to, to) / norm;
        moments_.push_back(k == 1 ? dimension_ * with_before : 2 * dimension_ * with_before - moments_[1]);
        moments_.push_back((2 * own - 1) * dimension_);
        return own < noise_grows;
    };
    start();
    for (size_t count = first_moments;;) {
        const double more = block * (static_cast<double>(count) - static_cast<double>(moments_.size())) / 2;
        ended_early_ = static_cast<double>(apply.applications) + more > most_applications;
        if (ended_early_)
            break;
        while (moments_.size() < count)
            if (!take_moments()) {
                highest_ *= above_highest;
                start();
            }
        const double angle = 2 * std::asin(std::sqrt(std::fmin(value_of(modes) / highest_, 1))),
                     enough = widths * M_PI / angle;
        if (enough <= count || count >= most_moments)
            break;
        count = static_cast<size_t>(std::fmin(std::fmin(1.1 * enough, 2.0 * count), most_moments)) + 1;
    }
    applications_ = apply.applications;
}

// Eigenvalues highest (1 - cos phi) / 2 with angles up to phi: Chebyshev's series of a step, with Jackson's factors.
double ModeNumber::below_angle(double phi) const {
    const int count = static_cast<int>(moments_.size());
    const double step = M_PI / (count + 1);
    double sum = moments_[0] * phi / M_PI;
    for (int k = 1; k < count; ++k) {
        const double factor =
            ((count - k + 1) * std::cos(k * step) + std::sin(k * step) / std::tan(step)) / (count + 1);
        sum += factor * 2 * std::sin(k * phi) / (k * M_PI) * moments_[k];
    }
    return sum;
}

double ModeNumber::below(double value) const {
    return below_angle(2 * std::asin(std::sqrt(std::fmin(std::fmax(value / highest_, 0), 1))));
}

double ModeNumber::value_of(double modes) const {
    double low = 0, high = M_PI;
    for (int k = 0; k < 60; ++k) {
        const double middle = 0.5 * (low + high);
        (below_angle(middle) < modes ? low : high) = middle;
    }
    const double half = std::fmax(std::sin(0.5 * low), modes / dimension_);
    return highest_ * half * half;
}

} // namespace milcgpu
