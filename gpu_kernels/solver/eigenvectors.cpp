#include "gpu_kernels/solver/eigenvectors.h"
#include "gpu_kernels/algebra/deflate.h"
#include "gpu_kernels/algebra/dense.h"
#include "gpu_kernels/machine/backend/on_all_ranks.h"
#include "gpu_kernels/solver/precision_ladder.h"
#include <algorithm>
#include <cmath>
#include <numeric>

namespace milcgpu {

namespace {
constexpr const char *owner = "eigenvectors";

int groups_of(int count) { return (count + most_dense - 1) / most_dense; }

// Right sides are in single if vectors are in half precision: they are read once a group, and its kernels need single.
Precision of_right_sides(Precision vectors) { return vectors == Precision::half ? Precision::single : vectors; }

// The largest scratch of a product of a group with up to `sources` right sides.
size_t most_scratch(Precision precision, int vectors, int sources) {
    if (precision == Precision::half)
        return project_scratch(sources);
    size_t most = 0;
    for (const int group : {std::min(vectors, most_dense), (vectors - 1) % most_dense + 1})
        for (int n = 1; n <= sources; ++n)
            most = std::max(most, gram_scratch(group, n));
    return most;
}

// Vectors still belong to A if |A v - l v| is at most still_fits times its old value, plus rounding times the largest
// eigenvalue. At most this part of l may come from high modes, twice what Lanczos accepts.
constexpr double still_fits = 1.5, rounding = 1e-6, from_high_modes = 0.2;
constexpr double of_value = 0.01,
                 rounding_of_half = 1e-5; // |A v - l v| of an eigenvector relative to l, to the largest l
} // namespace

// ---- the set ------------------------------------------------------------------------------------------------------

int Eigenvectors::group_size() { return most_dense; }

Eigenvectors::Eigenvectors(Device &device, const NormalOperator &of, Precision precision, int count)
    : device_(device), geometry_(of.geometry()), parity_(of.parity()), precision_(precision) {
    if (count < 1 || of.components() != 1 || of.sign() < 0)
        throw Error(Status::bad_argument, format("%d eigenvectors: at least 1, of staggered fermions", count));
    grow(count);
}

void Eigenvectors::grow(int more) {
    for (int first = 0; first < more; first += most_dense)
        groups_.emplace_back(device_, precision_, geometry_.without_ghosts(), parity_, owner,
                             std::min(most_dense, more - first));
    values.resize(count() + more, 0), residuals.resize(values.size(), INFINITY);
}

size_t Eigenvectors::bytes(const Geometry &geometry, Precision precision, int count) {
    size_t sum = 0;
    for (int first = 0; first < count; first += most_dense)
        sum += SpinorField::allocated_bytes(precision, geometry.without_ghosts(), std::min(most_dense, count - first));
    return sum;
}

void Eigenvectors::keep(int count) {
    values.resize(count), residuals.resize(count);
    sums_.resize(std::min(sums_.size(), values.size()));
    groups_.resize(groups_of(count));
    const int last = (count - 1) % most_dense + 1;
    if (last == groups_.back().sources())
        return;
    try {
        SpinorField smaller(device_, precision_, geometry_.without_ghosts(), parity_, owner, last);
        for (int k = 0; k < last; ++k)
            convert_spinor(device_, groups_.back()[k], smaller[k], 1, nullptr);
        groups_.back() = std::move(smaller);
    } catch (const Error &error) {
        if (error.status() != Status::no_memory) // else the larger one serves as well
            throw;
    }
}

VectorLook::VectorLook(Device &device, const NormalOperator &A, int most)
    : device_(device), v_(A.vectors(device, owner, most)), av_(A.vectors(device, owner, most)),
      between_(A.between(device, owner, most)), sums_(device, 3 * together, owner) {}

size_t VectorLook::bytes(const Geometry &geometry, int most) {
    return 3 * SpinorField::allocated_bytes(Precision::double_, geometry, most) +
           Device::allocated_bytes(3 * together * sizeof(double));
}

std::vector<VectorLook::Seen> VectorLook::at(const NormalOperator &A, int n, const double *values) {
    for (int k = 0, several = A.takes_several() ? n : 1; k < n; k += several) {
        HalfCall call;
        call.out = av_.block().from(k).first(several), call.x = v_.block().from(k).first(several);
        apply(device_, A, call, between_.block().from(k).first(several), Epilogue::normal);
    }
    for (int k = 0; k < n; ++k) {
        norm_squared(device_, v_[k], sums_.data() + k);
        norm_squared(device_, between_[k], sums_.data() + together + k); // <v, A v>, because A = B^dag B
    }
    std::vector<double> sums = sums_.to_host();
    std::vector<Seen> seen(n);
    for (int k = 0; k < n; ++k) {
        seen[k].norm = std::sqrt(sums[k]);
        seen[k].value = values != nullptr ? values[k] : sums[together + k] / sums[k];
        scaled_difference(device_, 1, seen[k].value, v_[k], av_[k]);
        norm_squared(device_, av_[k], sums_.data() + 2 * together + k);
    }
    sums = sums_.to_host();
    for (int k = 0; k < n; ++k)
        seen[k].residual = std::sqrt(sums[2 * together + k] / sums[k]);
    return seen;
}

std::vector<VectorLook::Seen> Eigenvectors::look(const std::vector<int> &numbers, const NormalOperator &A,
                                                 int together) const {
    if (!look_ || look_->most() < together)
        device_.collective("memory for eigenvectors", [&] {
            look_.reset();
            look_ = std::make_unique<VectorLook>(device_, A, together);
        });
    std::vector<VectorLook::Seen> all;
    while (all.size() < numbers.size()) {
        const int *const which = &numbers[all.size()];
        const int n = std::min(together, static_cast<int>(numbers.size() - all.size()));
        for (int k = 0; k < n; ++k)
            convert_spinor(device_, (*this)[which[k]], (*look_)[k], 1, nullptr);
        const std::vector<VectorLook::Seen> seen = look_->at(A, n);
        for (int k = 0; k < n; ++k)
            if (!(seen[k].residual < INFINITY))
                throw Error(Status::nan_or_inf,
                            format("eigenvector %d has NaN or infinity, or its norm is 0", which[k]));
        all.insert(all.end(), seen.begin(), seen.end());
    }
    return all;
}

void Eigenvectors::look_at(int first, int count, const NormalOperator &A, int together) {
    std::vector<int> numbers(count);
    std::iota(numbers.begin(), numbers.end(), first);
    const std::vector<VectorLook::Seen> seen = look(numbers, A, together);
    for (int k = 0; k < count; ++k)
        values[first + k] = seen[k].value, residuals[first + k] = seen[k].residual;
}

double Eigenvectors::of_high_modes(double value, double residual, double highest) {
    if (residual < std::fmax(of_value * value, rounding_of_half * highest))
        return 0;
    const double gap = highest / 2 - value;
    return gap > 0 && value > 0 ? residual * residual * highest / (2 * gap * gap * value) : INFINITY;
}

namespace {
// Empty if it is an eigenvector, else the reason why not. The largest l of links of an unusual action is unknown.
std::string not_one(int k, const VectorLook::Seen &seen, double highest) {
    const double part = Eigenvectors::of_high_modes(seen.value, seen.residual, std::fmax(highest, 4 * seen.value));
    if (part <= from_high_modes)
        return {};
    return format("eigenvector %d is not one of these links: |B v - l v| is %.2g for l = %.2g", k, seen.residual,
                  seen.value);
}
} // namespace

std::string Eigenvectors::why_none(double highest) const {
    std::string why;
    for (int k = 0; k < count() && why.empty(); ++k)
        why = not_one(k, {1, values[k], residuals[k]}, highest);
    return why;
}

std::string Eigenvectors::why_not_orthogonal() const {
    constexpr int at_once = 16;
    constexpr double most = 0.5;
    static_assert(most_dense % at_once == 0, "they lie in one group");
    for (int first = 0; first < count(); first += at_once) {
        const int n = std::min(at_once, count() - first);
        std::vector<double> sums(n), largest(n);
        std::vector<int> with(n);
        for (int g = 0; g < groups(); ++g) {
            const SpinorBlock group = groups_[g].block().first(std::min(most_dense, count() - g * most_dense));
            const std::vector<Complex<double>> c = gram_over_ranks(device_, group, (*this)[first].first(n));
            for (int i = 0; i < group.sources; ++i)
                for (int j = 0; j < n; ++j) {
                    const double size = std::sqrt(norm(c[size_t(i) * n + j]));
                    if (g * most_dense + i == first + j)
                        continue;
                    sums[j] += size;
                    if (!(size <= largest[j]))
                        largest[j] = size, with[j] = g * most_dense + i;
                }
        }
        for (int j = 0; j < n; ++j)
            if (!(sums[j] <= most))
                return format(
                    "vectors %d and %d are not orthogonal: |<u, v>| is %.3g, and for vector %d over all others "
                    "it sums to %.3g, at most %g is allowed; eigenvectors are orthogonal, also those of one "
                    "l",
                    first + j, with[j], largest[j], first + j, sums[j], most);
    }
    return {};
}

double Eigenvectors::lowest() const { return *std::min_element(values.begin(), values.end()); }
double Eigenvectors::highest() const { return *std::max_element(values.begin(), values.end()); }

void Eigenvectors::sort() {
    if (std::is_sorted(values.begin(), values.end()))
        return;
    std::vector<int> from(count());
    std::iota(from.begin(), from.end(), 0);
    std::stable_sort(from.begin(), from.end(), [&](int a, int b) { return values[a] < values[b]; });
    const std::vector<double> old_values = values, old_residuals = residuals;
    const std::vector<uint64_t> old_sums = sums_;
    const size_t bytes = (*this)[0].bytes();
    DeviceArray<unsigned char> first;
    device_.collective("memory for an eigenvector", [&] { first = DeviceArray<unsigned char>(device_, bytes, owner); });
    std::vector<bool> done(count());
    for (int k = 0; k < count(); ++k) {
        if (done[k])
            continue;
        device_.copy_on_device(first.data(), (*this)[k].data, bytes);
        for (int to = k; !done[to]; to = from[to]) { // a cycle
            done[to] = true;
            device_.copy_on_device((*this)[to].data, from[to] == k ? first.data() : (*this)[from[to]].data, bytes);
        }
    }
    for (int k = 0; k < count(); ++k) {
        values[k] = old_values[from[k]], residuals[k] = old_residuals[from[k]];
        if (!old_sums.empty())
            sums_[k] = old_sums[from[k]];
    }
}

std::string Eigenvectors::why_not_of(const NormalOperator &A) const {
    const int last = count() - 1;
    const std::vector<int> numbers = {0, last / 4, last / 2, last};
    const std::vector<VectorLook::Seen> all = look(numbers, A);
    for (size_t n = 0; n < numbers.size(); ++n) {
        const int k = numbers[n];
        const VectorLook::Seen &seen = all[n];
        const double off = std::fabs(seen.value - values[k]);
        if (seen.residual > still_fits * residuals[k] + rounding || off > still_fits * residuals[k] + rounding)
            return format("eigenvector %d is not one of these links: |A v - l v| is %.1e, was %.1e; l is %.3e, "
                          "was %.3e",
                          k, seen.residual, residuals[k], seen.value, values[k]);
        if (const std::string why = not_one(k, seen, A.highest(0)); !why.empty())
            return why;
    }
    return {};
}

void Eigenvectors::load(int k, const SpinorBlock &from, const NormalOperator &A) {
    const double size = std::sqrt(norm_over_ranks(from));
    if (!(size > 0) || !(size < INFINITY))
        throw Error(Status::nan_or_inf, format("eigenvector %d: NaN or infinity, or 0", k));
    const bool is_unit = std::fabs(size - 1) < rounding; // then its bits stay, if the precision has them
    convert_spinor(device_, from, (*this)[k], is_unit ? 1 : 1 / size, nullptr);
    look_at(k, 1, A);
}

double Eigenvectors::norm_over_ranks(const SpinorBlock &of) const {
    const auto sum =
        made_on_all_ranks(device_, "memory for a norm", [&] { return DeviceArray<double>(device_, 1, owner); });
    norm_squared(device_, of, sum.data());
    return sum.to_host()[0];
}

void Eigenvectors::take_checksum(int k) {
    sums_.resize(count());
    const SpinorBlock v = (*this)[k];
    device_.collective("a checksum of an eigenvector", [&] { sums_[k] = checksum(device_, v.data, v.bytes()); });
}

void Eigenvectors::take_checksums() {
    sums_.assign(count(), 0);
    device_.collective("checksums of eigenvectors", [&] { sums_ = checksums(0, count()); });
}

std::vector<Region> Eigenvectors::checked_regions() const {
    std::vector<Region> all;
    for (size_t k = 0; k < sums_.size(); ++k) {
        const SpinorBlock v = (*this)[static_cast<int>(k)];
        all.push_back({v.data, v.bytes(), sums_[k], owner});
    }
    return all;
}

std::vector<uint64_t> Eigenvectors::checksums(int first, int count) const {
    const std::vector<Region> all = checked_regions();
    const DeviceArray<uint64_t> sums(device_, count, owner);
    device_.fill_zero(sums.data(), sums.bytes());
    milcgpu::take_checksums(device_, &all[first], count, sums.data());
    return sums.to_host();
}

bool Eigenvectors::are_as_summed(int first, int count) const {
    const std::vector<uint64_t> seen = checksums(first, count);
    return std::equal(seen.begin(), seen.end(), sums_.begin() + first);
}

// ---- the step -----------------------------------------------------------------------------------------------------

Deflation::Deflation(Device &device, const Eigenvectors &vectors, const NormalOperator &like, int sources)
    : device_(device), vectors_(vectors), sites_(like.geometry().global_volume() / 2) {
    const Geometry bare = like.geometry().without_ghosts();
    const Precision p = of_right_sides(vectors.precision());
    low_ = {device, p, bare, like.parity(), owner, sources};
    correction_ = {device, p, bare, like.parity(), owner, sources};
    before_ = like.vectors(device, owner, sources);
    c_ = DeviceArray<Complex<double>>(device, size_t(vectors.count()) * sources, owner);
    values_ = DeviceArray<double>(device, vectors.count(), owner);
    device.copy_to_device(values_.data(), vectors.values.data(), vectors.count() * sizeof(double));
    scratch_ = DeviceArray<double>(device, most_scratch(vectors.precision(), vectors.count(), sources), owner);
}

void Deflation::add(const SpinorBlock &r, const int *r_of, const SpinorBlock &x, const int *x_of, const double *rr,
                    int n, double shift) {
    const SpinorBlock low = low_.block().first(n), y = correction_.block().first(n);
    SourceScales to{};
    x_ = x, n_ = n;
    for (int k = 0; k < n; ++k) {
        const double unit = unit_of(rr[k], sites_);
        to.scale[k] = 1 / unit, to.from[k] = r_of[k];
        back_.scale[k] = unit, back_.from[k] = x_of[k];
    }
    convert_sources(device_, r, low, to, nullptr);
    const int groups = vectors_.groups();
    const auto part = [&](int g) { return c_.data() + size_t(g) * most_dense * n; };
    const auto group = [&](int g) { // those that are kept
        return vectors_.group(g).block().first(std::min(most_dense, vectors_.count() - g * most_dense));
    };
    const bool half = vectors_.precision() == Precision::half;
    for (int g = 0; g < groups; ++g)
        half ? project(device_, group(g), low, part(g), scratch_.data())
             : gram(device_, group(g), low, part(g), scratch_.data());
    if (device_.ranks() != nullptr) {
        std::vector<Complex<double>> all(size_t(vectors_.count()) * n);
        device_.copy_to_host(all.data(), c_.data(), all.size() * sizeof all[0]);
        device_.add_over_ranks(&all[0].re, 2 * static_cast<int>(all.size()));
        device_.copy_to_device(c_.data(), all.data(), all.size() * sizeof all[0]);
    }
    divide_by_eigenvalues(device_, c_.data(), values_.data(), vectors_.count(), n, shift);
    if (half) {
        std::vector<SpinorBlock> all;
        for (int g = 0; g < groups; ++g)
            all.push_back(group(g));
        combine(device_, all, c_.data(), y, false);
    }
    for (int g = 0; g < groups && !half; ++g)
        block_axpy(device_, group(g), part(g), y, g == 0 ? SpinorBlock{} : y);
    add_sources(device_, y, x, back_, before_.block().first(n));
}

bool Deflation::lessened_error(const SpinorBlock &r_new, double shift) {
    const SpinorBlock low = low_.block().first(n_), dx = correction_.block().first(n_); // in units of back_
    SourceScales to{};
    for (int k = 0; k < n_; ++k)
        to.scale[k] = 1 / back_.scale[k], to.from[k] = k;
    convert_sources(device_, r_new, low, to, nullptr);
    const std::vector<Complex<double>> with_new = gram_over_ranks(device_, dx, low);
    std::vector<Complex<double>> c(size_t(vectors_.count()) * n_);
    device_.copy_to_host(c.data(), c_.data(), c.size() * sizeof c[0]);
    for (int k = 0; k < n_; ++k) {
        double fall = with_new[k * n_ + k].re;
        for (int i = 0; i < vectors_.count(); ++i)
            fall += (vectors_.values[i] + shift) * norm(c[i * n_ + k]);
        if (!(fall > 0))
            return false;
    }
    return true;
}

void Deflation::undo() {
    const size_t bytes_of_x = before_.stride() * spinor_bytes(Precision::double_);
    for (int k = 0; k < n_; ++k)
        device_.copy_on_device(x_[back_.from[k]].data, before_[k].data, bytes_of_x);
}

bool Deflation::add_if_it_helps(const SpinorBlock &r, const int *r_of, const SpinorBlock &x, const int *x_of,
                                const std::vector<double> &rr, double shift,
                                const std::function<std::vector<double>()> &residuals) {
    add(r, r_of, x, x_of, rr.data(), static_cast<int>(rr.size()), shift);
    const std::vector<double> after = residuals();
    const bool raised = !std::equal(after.begin(), after.end(), rr.begin(),
                                    [](double a, double b) { return a < ladder::deflation_raises * b; });
    if (!raised || lessened_error(r, shift))
        return true;
    undo();
    return false;
}

double Deflation::flops(int sources) const { return 2.0 * sources * dense_flops(vectors_.count(), 1, low_.sites()); }

double Deflation::bytes(int sources) const {
    const int groups = vectors_.groups(),
              at_once = vectors_.precision() == Precision::half ? combined_at_once(sources) : 1;
    const double of_few = 2.0 + groups + 2 * ((groups - 1) / at_once + 1) - 1; // the first sum adds to nothing
    return low_.sites() *
           (2.0 * vectors_.count() * spinor_bytes(vectors_.precision()) +
            sources * (of_few * spinor_bytes(low_.precision()) + 4.0 * spinor_bytes(Precision::double_)));
}

} // namespace milcgpu
