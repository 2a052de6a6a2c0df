#include "milc_glue/solve/learning.h"
#include "gpu_kernels/solver/lanczos.h"
#include "gpu_kernels/solver/precision_ladder.h"
#include "milc_glue/api/settings.h"
#include "milc_glue/links/links_handle.h"
#include <algorithm>
#include <cmath>

using namespace milcgpu;

namespace {

// The density is not computed below these numbers of sources, of steps, and of steps times sites of a parity. Below the
// last one launches cost more than memory traffic.
constexpr double least_sources = 4, least_steps = 4000, least_work = 1e9;

// Computing the density of eigenvalues may cost this part of the solves so far. If that is too little, as on a rough
// lattice whose lowest modes lie close, the next attempt comes when solves have cost spent_grows times as much.
constexpr double of_spent = 0.1, spent_grows = 4;

// The part of free memory to use. On the host other programs need memory, too.
double of_free_memory(bool on_gpu) { return on_gpu ? 0.9 : 0.5; }

// A flop in bytes through the device's memory: a GPU with 3 TB/s and 30 TFLOPS beside a host with 5 GFLOPS; the host
// alone with 20 GB/s. Example: at 3 TB/s 256 vectors of a 24^3 x 32 lattice count as 0.9 s, 1000 of 48^3 x 64 as 66;
// an H200 makes them in 1.0 and 63.
double bytes_of_flop(bool as_gpu) { return as_gpu ? 0.1 : 4; }
double bytes_of_host_flop(bool as_gpu) { return as_gpu ? 600 : 4; }
// If small lattices learn (tests), costs are counted as on the host: a GPU would never gain there.
bool counts_as_gpu(const milcgpu_context &context) {
    return context.device->on_gpu() && context.learns != Learns::soon;
}

// Few candidates, so that a little more or less free memory changes nothing.
constexpr int counts[] = {16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072};

constexpr double most_steps = 1e6; // of a new mass, which may be 0

double logarithm_of(double residual) { return std::log(2 / std::fmin(std::fmax(residual, 1e-15), 1)); }

LanczosLimits limits_of(int count, double memory) {
    LanczosLimits limits;
    limits.count = count;
    limits.memory = static_cast<size_t>(std::fmin(memory, 1e18));
    return limits;
}

} // namespace

void Learning::Groups::add(const Groups &more) {
    groups += more.groups, sources += more.sources, steps += more.steps;
    logarithms += more.logarithms, cost += more.cost, own_steps += more.own_steps;
}

Learning::Learning(milcgpu_links &links, int parity)
    : Evictable(*links.context), links_(links), context_(*links.context), parity_(parity) {
    register_here();
}

std::shared_ptr<Learning> milcgpu::learning_of(milcgpu_links &links, int parity) {
    if (links.context->learns == Learns::never)
        return {};
    std::shared_ptr<Learning> &own = links.learning[parity];
    if (!own)
        own = std::make_shared<Learning>(links, parity);
    return own;
}

// ---- the account --------------------------------------------------------------------------------------------------

void Learning::after(double shift, const GroupWork &work) {
    in_use_ = false;
    if (work.deflated && !are_whole_after(*vectors_, work.deflation_off))
        give_up(changed_eigenvectors);
    else if (work.deflation_off)
        give_up("a deflation raised the residual");
    if (work.steps == 0)
        return;
    auto mass = std::find_if(masses_.begin(), masses_.end(), [&](const Mass &one) { return one.shift == shift; });
    if (mass == masses_.end())
        mass = masses_.insert(mass, {shift, {}, {}});
    const double sources = work.sources, steps = work.steps;
    const Groups one{
        1, sources, steps, logarithm_of(work.true_residual), cost(work.bytes, work.flops), steps * sources};
    mass->since.add(one);
    if (!work.deflated)
        mass->plain.add(one);
}

Learning::Groups Learning::all_since() const {
    Groups all;
    for (const Mass &mass : masses_)
        all.add(mass.since);
    return all;
}

// From counts alone, which are equal on all ranks.
bool Learning::is_worth_a_look() const {
    const Groups all = all_since();
    const bool enough =
        all.own_steps >= least_steps && all.own_steps * context_.geometry.global_volume() / 2 >= least_work;
    return made_ || (all.sources >= least_sources && (enough || context_.learns == Learns::soon));
}

// ---- the arithmetic -----------------------------------------------------------------------------------------------

double Learning::cost(double bytes, double flops) const {
    return std::fmax(bytes, flops * bytes_of_flop(counts_as_gpu(context_)));
}

// The cost of a group of this mass without vectors; for a new mass from the formula, with the other masses' cost a
// step.
Learning::Groups Learning::plain(double shift, double logarithm) const {
    Groups all;
    for (const Mass &mass : masses_) {
        if (mass.shift == shift && mass.plain.groups > 0)
            return mass.plain;
        all.add(mass.plain);
    }
    const double steps = std::fmin(ladder::expected_steps(highest_, shift, logarithm), most_steps);
    return {1, 1, steps, logarithm, steps * all.cost / all.steps, steps};
}

// The cost of these groups with such vectors.
double Learning::deflated(const Groups &of, double shift, const Vectors &with) const {
    const double logarithm = of.logarithms / of.groups;
    const double left = ladder::expected_steps(highest_, with.last + shift, logarithm);
    const double deflations = 2 + logarithm / -std::log(ladder::reliable_delta_deflated);
    const double pass = double(with.count) * context_.geometry.sites(parity_);
    const double passes = cost(2 * spinor_bytes(Precision::half) * pass, 2 * 24 * pass * of.sources / of.groups);
    return of.cost * std::fmin(1, of.groups * left / of.steps) + of.groups * deflations * passes;
}

bool Learning::gains(double shift, double logarithm, const Vectors &with) const {
    const Groups without = plain(shift, logarithm);
    return deflated(without, shift, with) < without.cost;
}

Learning::Vectors Learning::best(double memory) const {
    const double spent = all_since().cost;
    Vectors best;
    for (Vectors one : candidates_) {
        const LanczosLimits limits = limits_of(one.count, memory);
        if ((vectors_ && one.count < 2 * vectors_->set->count()) ||
            lanczos_plan(*context_.device, context_.geometry, limits).count < one.count)
            continue;
        one.total = one.set_up;
        for (const Mass &mass : masses_)
            one.total += mass.since.groups > 0 ? std::fmin(mass.since.cost, deflated(mass.since, mass.shift, one)) : 0;
        if (one.total <= spent && one.total < best.total)
            best = one;
    }
    return best;
}

double Learning::memory() const {
    const Device &device = *context_.device;
    return std::fmin(of_free_memory(device.on_gpu()) * double(device.free_bytes()), context_.bytes_to_learn);
}

// ---- eigenvectors -------------------------------------------------------------------------------------------------

namespace {

// Runs work(); logs why there are no eigenvectors if it fails.
template <class Work> std::string why_not(const Work &work) {
    try {
        work();
    } catch (const Error &error) {
        if (error.status() != Status::no_memory && error.status() != Status::not_converged &&
            error.status() != Status::nan_or_inf)
            throw;
        return error.what();
    }
    return {};
}

} // namespace

double Learning::set_up(const ModeNumber &density, const NormalOperator &A, int count) const {
    const LanczosWork work = lanczos_work(density, A, count);
    return cost(work.bytes, work.flops) + work.host_flops * bytes_of_host_flop(counts_as_gpu(context_));
}

// Computes the density of eigenvalues and the costs of vectors.
bool Learning::look() {
    const Geometry &geometry = context_.geometry;
    const std::string why = why_not([&] {
        int most = counts[0]; // that this lattice allows
        for (const int count : counts)
            if (lanczos_plan(*context_.device, geometry, limits_of(count, INFINITY)).count == count)
                most = count;
        const Operator single = for_lanczos(links_, parity_, Precision::half);
        const LanczosWork one = work_of_application(*single);
        const double spent = context_.learns == Learns::soon ? INFINITY : all_since().cost;
        const ModeNumber density(*context_.device, *single, std::max(most / 4, counts[0]), 1,
                                 of_spent * spent / cost(one.bytes, one.flops));
        if (density.ended_early()) {
            look_from_ = spent_grows * spent;
            return;
        }
        for (const int count : counts)
            if (count <= most)
                candidates_.push_back({count, density.value_of(count), set_up(density, *single, count)});
        highest_ = density.highest();
    });
    if (!why.empty())
        give_up(why);
    return highest_ > 0;
}

const Eigenvectors *Learning::before(double shift, double tolerance) {
    if (given_up_ || !is_worth_a_look() || (highest_ == 0 && (all_since().cost < look_from_ || !look())))
        return nullptr;
    // Each rank's own decision, then the common one.
    struct Said {
        int has, uses;
        Vectors wants;
        double memory;
    } all{vectors_ != nullptr, 1, {}, 0};
    if (best(INFINITY).count > 0) {
        all.memory = memory();
        all.wants = best(all.memory);
    }
    Vectors present;
    if (vectors_)
        present.count = vectors_->set->count(), present.last = vectors_->set->highest();
    const Vectors &with = all.wants.count > 0 ? all.wants : present;
    all.uses = with.count > 0 && gains(shift, logarithm_of(tolerance > 0 ? tolerance : 1e-8), with);
    for (const Said &there : context_.ranks->gathered("eigenvectors of these links", all)) {
        all.has = all.has && there.has, all.uses = all.uses && there.uses;
        if (there.wants.count <= all.wants.count)
            all.wants = there.wants;
        all.memory = std::fmin(all.memory, there.memory);
    }
    if (made_ && !all.has)
        give_up("memory was short");
    else if (all.wants.count > 0)
        make(all.wants, all.memory);
    if (!vectors_ || !all.uses)
        return nullptr;
    in_use_ = true;
    return vectors_->set.get();
}

// Logs the numbers behind the decision.
void Learning::make(const Vectors &wanted, double memory) {
    const double begin = wall_seconds();
    const Groups all = all_since();
    const Mass *most = &masses_[0]; // the mass with the largest cost
    for (const Mass &mass : masses_)
        if (mass.since.cost > most->since.cost)
            most = &mass;
    const double each = most->since.steps / most->since.groups,
                 left = ladder::expected_steps(highest_, wanted.last + most->shift,
                                               most->since.logarithms / most->since.groups);
    const std::string gain = format(
        "%.0f solves with these links took %.0f steps. %d eigenvectors cost as much as %.0f steps, and a solve at "
        "mass %g takes %.0f steps with them in place of %.0f",
        all.sources, all.steps, wanted.count, wanted.set_up * all.steps / all.cost, 0.5 * std::sqrt(most->shift),
        std::fmin(left, each), each);
    LanczosReport report;
    const std::string why = why_not([&] {
        LanczosLimits limits = limits_of(wanted.count, memory);
        limits.start = vectors_ ? vectors_->set.get() : nullptr;
        in_use_ = true;
        const double between_lines = asked_for("progress") ? 0 : 30;
        const LanczosProgress progress = [&, logged = begin](int done, int of) mutable {
            if (wall_seconds() - logged < between_lines)
                return;
            logged = wall_seconds();
            context_.log(1,
                         [&] { return format("eigenvectors for further solves: %d of %d Lanczos vectors", done, of); });
        };
        vectors_ = lowest_of(links_, parity_, limits, progress, report);
    });
    in_use_ = false;
    if (!why.empty())
        return give_up(why);
    made_ = true;
    for (Mass &mass : masses_)
        mass.since = {};
    const double bytes = double(Eigenvectors::bytes(context_.geometry, Precision::half, report.found));
    context_.log(1, [&] {
        return format("eigenvectors that pay: %s. %d were made in %.2f s, %.2f GB a rank. MILCGPU_AUTO=no_eigenvectors "
                      "turns this off",
                      gain.c_str(), report.found, wall_seconds() - begin, bytes * 1e-9);
    });
}

void Learning::give_up(const std::string &why) {
    given_up_ = true;
    vectors_.reset();
    context_.log(1, [&] { return "solves go on without the eigenvectors that would have paid: " + why; });
}

bool Learning::release_idle() {
    if (in_use_ || !vectors_)
        return false;
    vectors_.reset();
    return true;
}
