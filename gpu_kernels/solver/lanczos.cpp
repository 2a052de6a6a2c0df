#include "gpu_kernels/solver/lanczos.h"
#include "gpu_kernels/blas/random_vector.h"
#include "gpu_kernels/dense/dense.h"
#include "gpu_kernels/solver/hermitian.h"
#include <algorithm>
#include <cmath>

namespace milcgpu {

namespace {

using Number = Complex<double>;
constexpr const char *owner = "Lanczos vectors";
constexpr int block = lanczos_block;

// The largest eigenvalue by power iteration is too low by a few per cent at the most.
constexpr int power_steps = 20, power_steps_a_basis = 5;
constexpr double above_highest = 1.05;
// Noise may exceed what a polynomial that stays within [-1, 1] leaves of it by so much.
constexpr double noise_grows = 1.05;
// Moments until the angle of the last mode is so many widths of what they resolve, pi / moments.
constexpr double widths = 5;
constexpr int first_moments = 64, most_moments = 4096;

// The filter's edge lies where there are so many times the modes wanted; then c in d = c sqrt(hi / a), and the basis.
// Example: of a quenched 8^3 x 16 lattice, 64, 96 and 128 vectors take 68, 40 and 32 applications a vector, and
// solves then take 111, 82 and 69 steps, as with exact vectors.
constexpr double degree_factor = 2.4;
constexpr int least_degree = 4;
// A vector with a part e of high modes has |A v - l v| = e hi, and e^2 hi of its Rayleigh quotient comes from there. So
// much of the quotient may.
constexpr double of_high_modes = 0.1;
// More than wanted are made, because the last ones converge last.
int with_spare(int wanted) { return wanted + wanted / 8 + 2; }
int basis_of(int spare) { return std::max(4, (spare * 3 / 2 + 2 * block) / block) * block; }
double modes_below_edge(int spare) { return std::fmax(1.2 * spare, block); }
// With a tolerance the basis grows by half as long as there are worse vectors, at most to so many times its beginning.
constexpr int most_growth = 4;

// Pivots of a block relative to its vectors: weaker ones are rounding errors of single precision.
constexpr double weakest = 1e-10;

double dimension_of(const Geometry &geometry) { return 3 * geometry.global_volume() / 2; }

// Blocks that A is applied to.
class Applier {
  public:
    Applier(Device &device, const NormalOperator &A)
        : device_(device), A_(A), between_(A.between(device, owner, block)) {
        if (A.sign() < 0 || A.components() != 1 || !A.takes_several())
            throw Error(Status::not_built, "eigenvectors are made of staggered fermions alone");
    }
    SpinorField field() const { return A_.vectors(device_, owner, block); }
    // out = A in
    void apply(const SpinorBlock &in, const SpinorBlock &out) {
        half(in);
        HalfCall call;
        call.in = between_.block().first(in.sources), call.out = out, call.x = in;
        A_.second_half(device_, call, Epilogue::normal);
    }
    // out = z - alpha (a + A) in; z may be out.
    void residual(double alpha, double a, const SpinorBlock &z, const SpinorBlock &in, const SpinorBlock &out) {
        half(in);
        HalfCall call;
        call.in = between_.block().first(in.sources), call.out = out, call.x = in, call.z = z;
        call.a = a, call.alpha = alpha;
        A_.second_half(device_, call, Epilogue::residual);
    }
    // y = T_1 x, then T_{k+1} from T_k (in y) and T_{k-1} (in before, where it comes out), k >= 1, for the polynomial
    // of (hi + a - 2 A) / (hi - a). The fields are those of T_k times s_k = 1, 1, -1, -1, ..: so the recursion is
    // T_{k-1} less a multiple of T_k, which is the end of a residual.
    struct Interval {
        double low, high;
        double width() const { return high - low; }
    };
    static double sign(int k) { return (k & 2) != 0 ? -1 : 1; }
    void first(const Interval &of, const SpinorBlock &x, const SpinorBlock &y) {
        residual(2 / of.width(), 0.5 * (of.width() - of.low - of.high), x, x, y);
    }
    void next(const Interval &of, int k, const SpinorBlock &y, const SpinorBlock &before) {
        residual(sign(k) * sign(k + 1) * 4 / of.width(), -0.5 * (of.low + of.high), before, y, before);
    }
    long long applications = 0;

  private:
    void half(const SpinorBlock &in) {
        HalfCall call;
        call.in = in, call.out = between_.block().first(in.sources);
        A_.first_half(device_, call);
        applications += in.sources;
    }
    Device &device_;
    const NormalOperator &A_;
    SpinorField between_;
};

// Allocated on all ranks, or on none.
struct Workspace {
    Applier apply;
    SpinorField fields[3];
};
std::unique_ptr<Workspace> workspace(Device &device, const NormalOperator &A, int fields) {
    std::unique_ptr<Workspace> made;
    device.collective("memory for Lanczos vectors", [&] {
        made.reset(new Workspace{Applier(device, A), {}});
        for (int k = 0; k < fields; ++k)
            made->fields[k] = made->apply.field();
    });
    return made;
}

void require_finite(const std::vector<Number> &numbers) {
    for (const Number &n : numbers)
        if (!(norm(n) < INFINITY))
            throw Error(Status::nan_or_inf, "NaN or infinity in a Gram matrix of Lanczos vectors: look at the links");
}

DeviceArray<Number> on_device(Device &device, const std::vector<Number> &numbers) {
    DeviceArray<Number> there(device, numbers.size(), owner);
    device.copy_to_device(there.data(), numbers.data(), numbers.size() * sizeof numbers[0]);
    return there;
}

// w becomes an orthonormal basis of its space. False: its vectors are not independent.
bool orthonormalize(Device &device, const SpinorBlock &w) {
    const std::vector<Number> g = gram_over_ranks(device, w, w);
    require_finite(g);
    const std::vector<Number> root = inverse_of_root(g, w.sources, weakest);
    if (root.empty())
        return false;
    block_axpy(device, w, on_device(device, root).data(), w);
    return true;
}

// The basis, in groups of up to most_dense vectors.
class Basis {
  public:
    Basis(Device &device, const NormalOperator &A) : device_(device), geometry_(A.geometry()), parity_(A.parity()) {}
    int count() const { return count_; }
    // Room for a block behind the others.
    SpinorBlock room() {
        if (count_ % most_dense == 0)
            device_.collective("memory for Lanczos vectors", [&] {
                groups_.emplace_back(device_, Precision::single, geometry_.without_ghosts(), parity_, owner,
                                     most_dense);
            });
        return groups_.back().block().from(count_ % most_dense).first(block);
    }
    void add() { count_ += block; }
    template <class Work> void each(const Work &work) const { // (group, number of its first vector)
        for (int first = 0; first < count_; first += most_dense)
            work(groups_[first / most_dense].block().first(std::min(most_dense, count_ - first)), first);
    }
    // w loses its parts along the basis.
    void project_out(const SpinorBlock &w) const {
        each([&](const SpinorBlock &group, int) {
            std::vector<Number> c = gram_over_ranks(device_, group, w);
            require_finite(c);
            for (Number &number : c)
                number = -1.0 * number;
            block_axpy(device_, group, on_device(device_, c).data(), w, w);
        });
    }

  private:
    Device &device_;
    Geometry geometry_;
    int parity_, count_ = 0;
    std::vector<SpinorField> groups_;
};
static_assert(most_dense % block == 0, "a block lies in one group");

} // namespace

// ---- bounds -------------------------------------------------------------------------------------------------------

ModeNumber::ModeNumber(Device &device, const NormalOperator &A, int modes, uint64_t seed)
    : dimension_(dimension_of(A.geometry())) {
    {
        const std::unique_ptr<Workspace> space = workspace(device, A, 2);
        Applier &apply = space->apply;
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
        applications_ += apply.applications;
    }
    if (!(highest_ > 0))
        throw Error(Status::nan_or_inf, "the operator has no eigenvalue above 0: its links are 0");
    for (int count = first_moments;; count *= 2) {
        while (!take_moments(device, A, count, seed + block))
            highest_ *= above_highest;
        const double angle = 2 * std::asin(std::sqrt(std::fmin(value_of(modes) / highest_, 1)));
        if (angle * count >= widths * M_PI || count >= most_moments)
            return;
    }
}

// False: the largest eigenvalue is above highest_.
bool ModeNumber::take_moments(Device &device, const NormalOperator &A, int count, uint64_t seed) {
    const std::unique_ptr<Workspace> space = workspace(device, A, 2);
    Applier &apply = space->apply;
    const SpinorField *const fields = space->fields; // T_k of the noise, k even and odd
    random_vectors(device, A.geometry(), A.parity(), seed, 0, fields[0]);
    const Applier::Interval all{0, highest_};
    const auto trace = [&](const SpinorBlock &x, const SpinorBlock &y) {
        const std::vector<Number> g = gram_over_ranks(device, x, y);
        require_finite(g);
        double sum = 0;
        for (int k = 0; k < block; ++k)
            sum += g[k * block + k].re;
        return sum;
    };
    const double norm = trace(fields[0], fields[0]);
    moments_.assign(count, 0);
    moments_[0] = dimension_;
    bool inside = true;
    for (int k = 1; 2 * k - 1 < count && inside; ++k) {
        const SpinorField &to = fields[k % 2], &from = fields[1 - k % 2];
        k == 1 ? apply.first(all, from, to) : apply.next(all, k - 1, from, to);
        const double signs = Applier::sign(k) * Applier::sign(k - 1);
        const double with_before = signs * trace(to, from) / norm, own = trace(to, to) / norm;
        moments_[2 * k - 1] = k == 1 ? dimension_ * with_before : 2 * dimension_ * with_before - moments_[1];
        if (2 * k < count)
            moments_[2 * k] = (2 * own - 1) * dimension_;
        inside = own < noise_grows;
    }
    applications_ += apply.applications;
    return inside;
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
    const double half = std::sin(0.5 * low);
    return highest_ * half * half;
}

// ---- eigenvectors -------------------------------------------------------------------------------------------------

namespace {

// All fields are without ghosts but those that A is applied to.
size_t bytes_of_basis(const Geometry &geometry, int basis) {
    const int groups = (basis + most_dense - 1) / most_dense;
    return groups * Device::allocated_bytes(
                        SpinorField::bytes_of(Precision::single, geometry.without_ghosts(), most_dense)) +
           4 * Device::allocated_bytes(SpinorField::bytes_of(Precision::single, geometry, block)) +
           3 * Device::allocated_bytes(SpinorField::bytes_of(Precision::double_, geometry, 1));
}

size_t bytes_of(const Geometry &geometry, const LanczosLimits &limits, int wanted) {
    const int spare = with_spare(wanted), grown = limits.tolerance > 0 ? 2 : 1;
    return bytes_of_basis(geometry, grown * basis_of(spare)) + Eigenvectors::bytes(geometry, limits.stored, spare);
}

} // namespace

size_t lanczos_bytes(const Geometry &geometry, const LanczosLimits &limits) {
    return bytes_of(geometry, limits, limits.count);
}

std::unique_ptr<Eigenvectors> lowest_eigenvectors(Device &device, const NormalOperator &full, const NormalOperator &A,
                                                  const LanczosLimits &limits, const LanczosProgress &progress,
                                                  LanczosReport &report) {
    const double begin = wall_seconds();
    if (limits.count < 1)
        throw Error(Status::bad_argument, format("%d eigenvectors: at least 1", limits.count));
    const Geometry &geometry = A.geometry();
    int wanted = limits.count;
    const int most = static_cast<int>(std::fmin(dimension_of(geometry) / 4, 1 << 28));
    if (wanted > most && most >= 1)
        wanted = most,
        report.message = format("%d eigenvectors: a lattice of this size has %d to give. ", wanted, most);
    while (wanted > block && bytes_of(geometry, limits, wanted) > limits.memory)
        wanted -= std::max(1, wanted / 16);
    if (wanted < std::min(limits.count, most))
        report.message += format("%d of %d eigenvectors: memory is for %.1f GB, and all would take %.1f. ", wanted,
                                 limits.count, limits.memory * 1e-9, lanczos_bytes(geometry, limits) * 1e-9);
    const int spare = with_spare(wanted);
    int basis_wanted = basis_of(spare);

    const ModeNumber density(device, A, spare, limits.seed);
    report.highest = density.highest();
    report.edge = std::fmin(density.value_of(modes_below_edge(spare)), 0.5 * report.highest);
    report.applications = density.applications();
    report.degree = std::max(least_degree, static_cast<int>(degree_factor * std::sqrt(report.highest / report.edge)));

    const std::unique_ptr<Workspace> space = workspace(device, A, 3);
    Applier &apply = space->apply;
    const Applier::Interval filtered{report.edge, report.highest};
    Basis basis(device, A);
    SpinorBlock w = space->fields[0], v = space->fields[1], x = space->fields[2];
    random_vectors(device, geometry, A.parity(), limits.seed + 2 * block, 0, w);
    std::vector<std::vector<Number>> columns; // of G = V^dag A V, upper triangle: [column][row]
    std::unique_ptr<Eigenvectors> found;
    for (bool ended = false; !ended;) {
        while (basis.count() < basis_wanted) {
            bool independent = basis.count() + block <= dimension_of(geometry);
            for (int again = 0; again < 2 && independent; ++again) {
                basis.project_out(w);
                independent = orthonormalize(device, w);
            }
            if (!independent) { // the space is closed
                ended = true;
                break;
            }
            const SpinorBlock room = basis.room();
            for (int k = 0; k < block; ++k)
                convert_spinor(device, w[k], room[k], 1, nullptr);
            basis.add();
            apply.apply(w, x);
            std::vector<std::vector<Number>> more(block, std::vector<Number>(basis.count()));
            basis.each([&](const SpinorBlock &group, int first) {
                const std::vector<Number> g = gram_over_ranks(device, group, x);
                require_finite(g);
                for (int i = 0; i < group.sources; ++i)
                    for (int j = 0; j < block; ++j)
                        more[j][first + i] = g[i * block + j];
            });
            columns.insert(columns.end(), more.begin(), more.end());
            apply.first(filtered, w, v); // w: T_0, v: T_1
            for (int k = 1; k < report.degree; ++k) {
                apply.next(filtered, k, v, w);
                std::swap(v, w);
            }
            std::swap(v, w);
            if (progress)
                progress(basis.count(), basis_wanted);
        }
        const int m = basis.count(), taken = std::min(spare, m);
        std::vector<Number> G(size_t(m) * m);
        for (int j = 0; j < m; ++j)
            for (int i = 0; i <= j; ++i)
                G[size_t(j) * m + i] = conj(columns[j][i]);
        const HermitianEigen ritz = eigen_of_hermitian(std::move(G), m, taken);
        found.reset();
        device.collective("memory for eigenvectors",
                          [&] { found = std::make_unique<Eigenvectors>(device, full, limits.stored, taken); });
        std::vector<Number> c;
        for (int first = 0; first < taken; first += block) {
            const int n = std::min(block, taken - first);
            basis.each([&](const SpinorBlock &group, int from) {
                c.assign(size_t(group.sources) * n, {});
                for (int i = 0; i < group.sources; ++i)
                    for (int j = 0; j < n; ++j)
                        c[i * n + j] = ritz.vectors[size_t(first + j) * m + from + i];
                const SpinorBlock to = x.first(n);
                block_axpy(device, group, on_device(device, c).data(), to, from == 0 ? SpinorBlock{} : to);
            });
            for (int j = 0; j < n; ++j)
                convert_spinor(device, x[j], (*found)[first + j], 1, nullptr);
        }
        report.basis = m;
        double worst = 0;
        for (int k = 0; k < taken; ++k) {
            found->look_at(k, full);
            if (k < wanted)
                worst = std::fmax(worst, found->residuals[k]);
        }
        if (limits.tolerance <= 0 || worst < limits.tolerance * report.highest || m >= most_growth * basis_of(spare) ||
            bytes_of_basis(geometry, m + m / 2) > limits.memory)
            ended = true;
        basis_wanted = (m + m / 2) / block * block;
    }
    int good = 0;
    const auto is_good = [&](int k) {
        const double r = found->residuals[k], hi = report.highest;
        return limits.tolerance > 0 ? r < limits.tolerance * hi : r * r < of_high_modes * hi * found->values[k];
    };
    while (good < std::min(wanted, found->count()) && is_good(good))
        ++good;
    found->free_scratch();
    report.left_out = wanted - good;
    report.found = good;
    report.applications += apply.applications + found->count();
    report.seconds = wall_seconds() - begin;
    const double sites = geometry.sites(A.parity()), m = report.basis;
    report.flops = report.applications * A.flops(Epilogue::residual) + (4 + 1 + 2.0 * spare / m) * 12 * m * m * sites;
    if (report.left_out > 0)
        report.message +=
            format("%d of %d eigenvectors are left out: from there on |A v - l v| is above %s. ", report.left_out,
                   wanted, limits.tolerance > 0 ? "the tolerance" : "what deflation takes");
    if (good == 0)
        throw Error(Status::not_converged, "no eigenvector converged");
    found->keep(good);
    found->take_checksums();
    return found;
}

} // namespace milcgpu
