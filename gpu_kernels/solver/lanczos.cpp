#include "gpu_kernels/solver/lanczos.h"
#include "gpu_kernels/algebra/random_vector.h"
#include "gpu_kernels/solver/lanczos_restarts.h"
#include <algorithm>
#include <numeric>

namespace milcgpu {

using namespace lanczos;

namespace {

// The number of vectors in the basis, as a multiple of the wanted ones: if memory suffices, and the least.
constexpr double roomy = 1.5, lean = 1.125;
int whole_blocks(double vectors) { return static_cast<int>(std::ceil(vectors / block)) * block; }
int largest_basis(int wanted) { return std::max(4 * block, whole_blocks(roomy * wanted + 2 * block)); }
int least_basis(int wanted) { return std::max(4 * block, whole_blocks(lean * wanted) + block); }

// The filter's edge is the value whose mode number is `edge` times the modes wanted; d = c sqrt(hi / l) for the last
// mode wanted. ratio: basis / wanted. A smaller basis needs a lower edge and a higher degree, and hardly more
// applications. Example: a diagonal matrix with the density of a large lattice, 256 vectors, and the steps of conjugate
// gradient that is deflated with the good vectors.
//
//   basis / wanted, edge, c        1.69, 1.35, 1.78   1.38, 1.15, 2.4   1.25, 1.1, 2.8   1.13, 1.05, 3.2
//   applications a vector, steps   73, 275            80, 276           84, 289          87, 317
struct Filter {
    double edge, c;
    explicit Filter(double ratio) {
        const double more = std::fmin(ratio, 1.7) - 1;
        edge = 1 + more / 2, c = (3 + 0.1 / more) / (1 + more);
    }
};
int kept_at_restart(int wanted, int basis) { return std::min(whole_blocks(wanted), basis - block); }

void convert(Device &device, const SpinorBlock &from, const SpinorBlock &to) {
    for (int k = 0; k < to.sources; ++k)
        convert_spinor(device, from[k], to[k], 1, nullptr);
}

// `count` sites of a block, from site `first` on.
SpinorBlock sites_of(const Device &device, SpinorBlock block, int first, int count) {
    block.data += first * bytes_between_elements(device.on_gpu(), block.precision);
    block.sites = block.component_sites = count;
    return block;
}

// Orthonormal vectors, in the memory and precision of the result, and V^dag A V.
class Basis {
  public:
    Basis(Device &device, const NormalOperator &A, Precision precision, const LanczosPlan &plan, Workspace &space)
        : device_(device), space_(space) {
        device.collective("memory for eigenvectors", [&] {
            set_ = std::make_unique<Eigenvectors>(device, A, precision, plan.basis);
            low_ = {device, precision, A.geometry().without_ghosts(), A.parity(), owner, block};
        });
    }
    int count() const { return count_; }
    Eigenvectors &set() const { return *set_; }
    std::unique_ptr<Eigenvectors> take() { return std::move(set_); }

    // Orthonormalizes w, a block in the precision of A, against the basis and appends it. Returns false if w depends on
    // the basis. w and `scratch`: fields of the workspace.
    bool add(const SpinorBlock &w, const SpinorBlock &scratch) {
        convert(device_, w, low_);
        for (int again = 0; again < 2; ++again) {
            project_out(low_);
            if (!orthonormalize(device_, low_))
                return false;
        }
        for (int k = 0; k < block; ++k)
            convert_spinor(device_, low_[k], (*set_)[count_ + k], 1, nullptr);
        count_ += block;
        convert(device_, low_, w);
        space_.apply.apply(w, scratch);
        convert(device_, scratch, low_);
        columns_.resize(count_);
        each([&](const SpinorBlock &group, int first) {
            const std::vector<Number> g = gram_over_ranks(device_, group, low_);
            require_finite(g);
            for (int j = 0; j < block; ++j) {
                std::vector<Number> &column = columns_[count_ - block + j];
                for (int i = 0; i < group.sources && first + i <= count_ - block + j; ++i)
                    column.push_back(g[i * block + j]);
            }
        });
        return true;
    }
    // Projects the basis out of w, a block in the precision of A, and orthonormalizes it if its vectors are
    // independent.
    void clear(const SpinorBlock &w) {
        convert(device_, w, low_);
        project_out(low_);
        orthonormalize(device_, low_);
        convert(device_, low_, w);
    }
    // Shortens the basis to its first vectors. The others stay in memory behind it.
    void keep(int count) { count_ = count, columns_.resize(count); }
    // Replaces the basis by the lowest `taken` Ritz vectors. scratch: a field of the workspace.
    void diagonalize(int taken, const SpinorBlock &scratch) {
        std::vector<Number> G(size_t(count_) * count_);
        for (int j = 0; j < count_; ++j)
            for (int i = 0; i <= j; ++i)
                G[size_t(j) * count_ + i] = conj(columns_[j][i]);
        const HermitianEigen ritz = eigen_of_hermitian(G, count_, taken);
        rotate(ritz.vectors, taken, scratch);
        columns_.assign(taken, {});
        for (int j = 0; j < taken; ++j)
            columns_[j].resize(j + 1), columns_[j][j].re = ritz.values[j];
    }

  private:
    template <class Work> void each(const Work &work) const { // (group, number of its first vector)
        for (int first = 0; first < count_; first += most_dense)
            work(set_->group(first / most_dense).block().first(std::min(most_dense, count_ - first)), first);
    }
    // Projects the basis out of w.
    void project_out(const SpinorBlock &w) const {
        each([&](const SpinorBlock &group, int) {
            std::vector<Number> c = gram_over_ranks(device_, group, w);
            require_finite(c);
            for (Number &number : c)
                number = -1.0 * number;
            block_axpy(device_, group, on_device(device_, c).data(), w, w);
        });
    }
    // Replaces vector j by the sum of by[j][i] times vector i, for as many sites at a time as fit into scratch.
    void rotate(const std::vector<Number> &by, int taken, const SpinorBlock &scratch) {
        std::vector<DeviceArray<Number>> c; // for each group of results and each group of the basis
        const auto columns = [&](int first) { return std::min(most_dense, taken - first); };
        for (int to = 0; to < taken; to += most_dense)
            each([&](const SpinorBlock &group, int from) {
                const int n = columns(to);
                std::vector<Number> part(size_t(group.sources) * n);
                for (int i = 0; i < group.sources; ++i)
                    for (int j = 0; j < n; ++j)
                        part[i * n + j] = by[size_t(to + j) * count_ + from + i];
                c.push_back(on_device(device_, part));
            });
        const int all = set_->group(0).sites(), site_bytes = static_cast<int>(spinor_bytes(set_->precision()));
        const size_t fit = scratch.bytes() / (size_t(taken) * site_bytes) / 8 * 8;
        SpinorBlock results = set_->group(0).block();
        results.stride = std::max<size_t>(std::min<size_t>(fit, all), 8);
        results.source_bytes = results.stride * site_bytes, results.sources = taken;
        DeviceArray<unsigned char> own; // in place of scratch, if a small box has more vectors than sites
        device_.collective("memory for eigenvectors", [&] {
            if (fit == 0)
                own = DeviceArray<unsigned char>(device_, results.bytes(), owner);
        });
        results.data = fit == 0 ? own.data() : scratch.data;
        for (int first = 0; first < all; first += static_cast<int>(results.stride)) {
            const int sites = std::min(static_cast<int>(results.stride), all - first);
            const SpinorBlock there = sites_of(device_, results, 0, sites);
            size_t next = 0;
            for (int to = 0; to < taken; to += most_dense)
                each([&](const SpinorBlock &group, int from) {
                    const SpinorBlock y = there.from(to).first(columns(to));
                    block_axpy(device_, sites_of(device_, group, first, sites), c[next++].data(), y,
                               from == 0 ? SpinorBlock{} : y);
                });
            for (int k = 0; k < taken; ++k)
                convert_spinor(device_, there[k], sites_of(device_, (*set_)[k], first, sites), 1, nullptr);
        }
        count_ = taken;
    }

    Device &device_;
    Workspace &space_;
    std::unique_ptr<Eigenvectors> set_;
    std::vector<std::vector<Number>> columns_; // of V^dag A V, upper triangle: [column][row]
    SpinorField low_;                          // a block in the precision of the basis
    int count_ = 0;
};
static_assert(most_dense % block == 0, "a block lies in one group");

// As in lowest_eigenvectors. Only fields that A is applied to have ghosts.
size_t bytes_of(const Device &device, const Geometry &geometry, Precision stored, const LanczosPlan &plan) {
    const int basis = plan.basis, taken = kept_at_restart(plan.count, basis);
    size_t rotation = 0;
    for (int to = 0; to < taken; to += most_dense)
        for (int from = 0; from < basis; from += most_dense)
            rotation += Device::allocated_bytes(sizeof(Number) * std::min(most_dense, basis - from) *
                                                std::min(most_dense, taken - to));
    const int widest = std::min(most_dense, basis);
    const size_t grams = (device.on_gpu() ? Device::allocated_bytes(gram_scratch(widest, block) * sizeof(double)) : 0) +
                         Device::allocated_bytes(sizeof(Number) * widest * block),
                 looks = VectorLook::bytes(geometry, plan.looks_at);
    return Eigenvectors::bytes(geometry, stored, basis) +
           SpinorField::allocated_bytes(stored, geometry.without_ghosts(), block) +
           3 * SpinorField::allocated_bytes(precision_of_lanczos(stored), geometry, block) +
           std::max({rotation, grams, looks});
}

double modes_of(int wanted) { return std::fmax(wanted, 0.75 * block); }
int degree_of(const Filter &filter, const ModeNumber &density, double modes) {
    return std::max(least_degree, static_cast<int>(filter.c * std::sqrt(density.highest() / density.value_of(modes))));
}
// Flops of the basis: orthogonalization twice, V^dag A V, and the vectors.
double dense_work(double m, double taken, double sites) { return (5 + 2 * taken / m) * 12 * m * m * sites; }

} // namespace

LanczosPlan lanczos_plan(const Device &device, const Geometry &geometry, const LanczosLimits &limits) {
    const int most = static_cast<int>(std::fmin(dimension_of(geometry) / 4, 1 << 28));
    LanczosPlan plan;
    for (plan.count = std::min(limits.count, std::max(most, 1));; plan.count -= std::max(1, plan.count / 16))
        for (plan.basis = largest_basis(plan.count); plan.basis >= least_basis(plan.count); plan.basis -= block) {
            for (const int looks_at : {VectorLook::together, 1}) {
                plan.looks_at = looks_at;
                plan.bytes = bytes_of(device, geometry, limits.stored, plan);
                if (plan.bytes <= limits.memory)
                    return plan;
            }
            if (plan.count <= block && plan.basis == least_basis(plan.count))
                return plan;
        }
}

LanczosWork work_of_application(const NormalOperator &A) {
    const double sites = A.geometry().sites(A.parity()),
                 vectors = A.passes(Epilogue::residual) * spinor_bytes(Precision::single) * sites,
                 links = A.bytes(Epilogue::residual) - vectors;
    return {vectors + links / block, A.flops(Epilogue::residual), 0};
}

LanczosWork lanczos_work(const ModeNumber &density, const NormalOperator &A, int count) {
    const int basis = largest_basis(count);
    const double modes = modes_of(count), m = basis, taken = kept_at_restart(count, basis),
                 sites = A.geometry().sites(A.parity());
    const LanczosWork one = work_of_application(A);
    const double applications = density.applications() + m * (1 + degree_of(Filter(m / modes), density, modes));
    // Per block the basis, on average half of it, is read four times for projections and once for G.
    const double dense = sites * (5 * m * m / 2 + taken * m) / block * spinor_bytes(Precision::half);
    return {applications * one.bytes + dense, applications * one.flops + dense_work(m, taken, sites),
            8 * (8.0 / 3 + 2) * m * m * m}; // more than in hermitian.h: learning.cpp's rates were fitted with this
}

std::unique_ptr<Eigenvectors> lowest_eigenvectors(Device &device, const NormalOperator &full, const NormalOperator &A,
                                                  const LanczosLimits &limits, const LanczosProgress &progress,
                                                  LanczosReport &report) {
    const double begin = wall_seconds();
    if (limits.count < 1)
        throw Error(Status::bad_argument, format("%d eigenvectors: at least 1", limits.count));
    const Geometry &geometry = A.geometry();
    const LanczosPlan plan = lanczos_plan(device, geometry, limits);
    const int wanted = plan.count;
    LanczosLimits without = limits;
    without.memory = SIZE_MAX;
    const LanczosPlan all = lanczos_plan(device, geometry, without);
    const auto say = [&](const std::string &more) { report.message += (report.message.empty() ? "" : ". ") + more; };
    if (all.count < limits.count)
        say(format("%d eigenvectors: a lattice of this size allows at most %d", limits.count, all.count));
    if (wanted < all.count)
        say(format("%d of %d eigenvectors fit: they may take %.3g GB of memory, but all need at least %.3g", wanted,
                   all.count, limits.memory * 1e-9,
                   bytes_of(device, geometry, limits.stored, {all.count, least_basis(all.count), 1, 0}) * 1e-9));

    const double modes = modes_of(wanted);
    const ModeNumber density(device, A, static_cast<int>(modes), limits.seed);
    const Filter filter(plan.basis / modes);
    report.highest = density.highest();
    const double edge = std::fmin(density.value_of(filter.edge * modes), 0.5 * report.highest),
                 dimension = dimension_of(geometry);
    Restarts state(wanted, limits.tolerance, dimension, density.value_of(modes), {edge, report.highest},
                   degree_of(filter, density, modes));
    report.applications = density.applications();

    std::unique_ptr<Workspace> space = workspace(device, A, 2);
    Basis basis(device, full, limits.stored, plan, *space);
    SpinorBlock w = space->fields[0], v = space->fields[1];
    int drawn = 0;
    const auto draw = [&] { random_vectors(device, geometry, A.parity(), limits.seed + (2 + drawn++) * block, 0, w); };
    const auto damp = [&](int times) { // the high modes of w
        for (int k = 0; k < times; ++k) {
            if (k > 0)
                basis.clear(w);
            space->apply.filter(state.filtered, state.degree, w, v);
        }
    };
    int kept = kept_at_restart(wanted, plan.basis);
    const int given = limits.start != nullptr ? limits.start->count() : 0;
    for (int first = 0; first + block <= std::min(given, kept); first += block) {
        convert(device, (*limits.start)[first].first(block), w);
        std::vector<int> numbers(block);
        std::iota(numbers.begin(), numbers.end(), first);
        const std::vector<VectorLook::Seen> seen = limits.start->look(numbers, full, plan.looks_at);
        report.applications += block;
        if (!std::all_of(seen.begin(), seen.end(), [&](auto &one) { return state.is_good(one.value, one.residual); }))
            damp(1);
        if (!basis.add(w, v))
            break;
    }
    if (given > 0)
        limits.start->free_scratch(); // the plan has memory for one look
    draw();
    using More = Restarts::More;
    int largest = 0, taken = 0; // taken: vectors kept at the last restart; those behind the basis are filtered again
    for (bool ended = false; !ended;) {
        bool closed = false;
        const double most = std::fmin(state.more == More::none ? whole_blocks(taken) : plan.basis, dimension);
        while (!closed && basis.count() + block <= most) {
            const bool again = basis.count() < taken;
            if (again)
                convert(device, basis.set()[basis.count()].first(block), w);
            else if (state.more == More::drawn)
                draw();
            damp(again && state.more == More::drawn ? 1 : state.times);
            if (!basis.add(w, v)) {
                draw();
                damp(1);
                closed = !basis.add(w, v);
            }
            if (progress && !closed)
                progress(basis.count(), plan.basis);
        }
        largest = std::max(largest, basis.count());
        taken = std::min(kept, basis.count());
        basis.diagonalize(taken, v);
        basis.set().look_at(0, taken, full, plan.looks_at);
        report.applications += taken;
        ended = state.end(basis.set(), std::min(wanted, taken), taken);
        // A level that is split by less than the filter resolves is resolved once all its vectors are kept.
        if (state.full > 0 || state.restarts > few_restarts)
            kept = std::max(kept, std::min(std::max(kept, whole_blocks(state.full)) + block, plan.basis - block));
        if (!ended)
            basis.keep(state.more == More::none ? 0 : state.good / block * block);
    }
    const int good = state.good;
    std::unique_ptr<Eigenvectors> found = basis.take();
    found->free_scratch();
    report.applications += space->apply.applications;
    space.reset(); // room to make the last group of vectors smaller
    report.left_out = limits.count - good;
    report.found = good;
    report.edge = state.filtered.low, report.degree = state.degree, report.restarts = state.restarts;
    report.basis = largest;
    report.seconds = wall_seconds() - begin;
    const double sites = geometry.sites(A.parity()), m = largest;
    report.flops = report.applications * A.flops(Epilogue::residual) + dense_work(m, taken, sites);
    if (good < wanted)
        say(format("%d of %d eigenvectors are left out: from there on |A v - l v| is above %s%s", wanted - good, wanted,
                   limits.tolerance > 0 ? "the tolerance" : "what deflation can use",
                   state.missed > 0 ? "" : ", or not all vectors of one l were found"));
    if (good == 0)
        throw Error(Status::not_converged,
                    format("no eigenvector converged: |B v - l v| of the lowest is %.1e of the largest l%s",
                           state.missed / report.highest,
                           limits.tolerance > 0
                               ? format(", above the tolerance %.1e: set a larger one%s", limits.tolerance,
                                        limits.stored == Precision::double_ ? "" : ", or keep vectors in double")
                                     .c_str()
                               : ""));
    found->keep(good);
    found->take_checksums();
    return found;
}

} // namespace milcgpu
