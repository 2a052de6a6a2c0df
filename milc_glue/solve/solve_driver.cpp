#include "milc_glue/solve/solve_driver.h"
#include "gpu_kernels/solver/precision_ladder.h"
#include "milc_glue/api/sized.h"
#include "milc_glue/solve/kept_solver.h"
#include "milc_glue/solve/solve_arguments.h"
#include <algorithm>
#include <cmath>

using namespace milcgpu;

// ---- solvers that are kept ------------------------------------------------------------------------------------------

void OperatorFamily::make_solver(KeptSolver &s) { make_cg(device(), s, full()); }

void milcgpu::make_cg(Device &device, KeptSolver &s, OperatorSpec full) {
    CgOperators &of = s.operators;
    full.for_residuals = !(full == s.sloppy), s.precise.for_residuals = !(s.precise == s.sloppy);
    of.full = s.make(full);
    of.precise = s.precise == full ? of.full : s.make(s.precise);
    OperatorSpec sloppy = s.sloppy; // a copy: s.sloppy is a key of the solver
    of.sloppy = s.sloppy == s.precise ? of.precise : s.make(sloppy);
    s.sloppy.reals = sloppy.reals;
    // If links in half iterate beside finer ones: single precision with as many reals.
    if (of.sloppy->spec().link == Precision::half && s.precise.link != Precision::half)
        of.finer = [make = s.make, reals = s.sloppy.reals] {
            OperatorSpec spec{Precision::single, Precision::single, reals};
            return make(spec);
        };
    device.collective("memory for a solver", [&] { s.cg = std::make_unique<CgSolver>(device, of); });
}

Operator milcgpu::operator_of_several(KeptSolver &s, OperatorSpec spec) {
    spec.allows_half_links = false; // rounding would add to each source a part that is not in their space
    return spec == s.operators.full->spec() ? s.operators.full : s.make(spec);
}

namespace {

KeptSolver &kept_solver(OperatorFamily &family, OperatorSpec &precise, OperatorSpec &sloppy) {
    family.grant(precise), family.grant(sloppy);
    KeptSolver made;
    static_cast<SolverKey &>(made) = family.key();
    made.precise = precise, made.sloppy = sloppy;
    auto &solvers = kept_solvers(family.context).all;
    size_t on_shelf = 0;
    auto oldest = solvers.end();
    for (auto entry = solvers.begin(); entry != solvers.end(); ++entry) {
        if (static_cast<const SolverKey &>(*entry) == made) {
            solvers.splice(solvers.begin(), solvers, entry);
            return solvers.front();
        }
        if (entry->shelf == made.shelf)
            ++on_shelf, oldest = entry;
    }
    if (on_shelf >= family.most_kept())
        solvers.erase(oldest); // frees its memory first
    if (family.context.is_half_full_on_any_rank())
        for (KeptSolver &idle : solvers)
            if (&idle != kept_solvers(family.context).busy)
                idle.multi_mass.reset();
    made.make = family.maker();
    family.make_solver(made);
    solvers.push_front(std::move(made));
    return solvers.front();
}

} // namespace

SolverInUse::SolverInUse(OperatorFamily &family, OperatorSpec &precise, OperatorSpec &sloppy)
    : kept_(kept_solvers(family.context)), solver_(&kept_solver(family, precise, sloppy)) {
    kept_.busy = solver_;
    kept_.busy_with_several = false;
}

namespace {

// Whether half precision is requested and suffices for the eigenvalues of the solve.
bool half_serves(const KeptSolver &solver, const SolveTask &task, const Eigenvectors *eigenvectors) {
    const NormalOperator &A = *solver.operators.sloppy;
    const CgLimits &limits = task.a.limits;
    const double lowest = eigenvectors != nullptr ? eigenvectors->highest() + limits.shift : A.lowest(limits.shift);
    return A.spec().spinor == Precision::half &&
           !ladder::half_is_hopeless(A, lowest, limits.jump_limit > 0 ? limits.jump_limit : ladder::jump_limit);
}

// Whether the caller leaves the choice open and several sources with this shift were found to be faster in lock-step.
bool found_faster_in_lock_step(const KeptSolver &solver, const SolveTask &task, bool deflated) {
    return task.together == MILCGPU_TOGETHER_AUTO && !deflated &&
           solver.faster_in_lock_step.count(task.a.limits.shift) > 0;
}

// Whether several sources iterate in half precision: if lock-step was found to be faster, or with eigenvectors that
// leave only eigenvalues for which half suffices.
bool half_serves_several(const KeptSolver &solver, const SolveTask &task, const Eigenvectors *eigenvectors) {
    if (found_faster_in_lock_step(solver, task, eigenvectors != nullptr))
        return true;
    return eigenvectors != nullptr && half_serves(solver, task, eigenvectors) &&
           solver.operators.sloppy->rounding(Precision::half) <=
               ladder::several_in_half_up_to * (eigenvectors->highest() + task.a.limits.shift);
}

// A block solver for `most` sources, or fewer if memory is short. in_half: half precision iterates.
BlockCgSolver &block_solver(const OperatorFamily &family, SourcesOfCall &sources, KeptSolver &solver, int most,
                            bool in_half) {
    kept_solvers(family.context).busy_with_several = true;
    const OperatorSpec spec = in_half ? solver.sloppy : ladder::of_several(solver.sloppy);
    if (solver.block && solver.block->sources() >= most && solver.block->spec() == spec)
        return *solver.block;
    solver.block.reset(); // frees its memory first
    const Operator &full = solver.operators.full;
    const Operator A = operator_of_several(solver, spec);
    make_for_most(most, [&](int scratch) {
        solver.block = made_on_all_ranks(family.device(), "memory for several sources", [&] {
            return std::make_unique<BlockCgSolver>(family.device(), full, A, scratch, *solver.cg);
        });
        try {
            sources.allocate(solver, scratch);
        } catch (...) { // also if the host's memory is exhausted
            solver.block.reset();
            solver.beside.clear();
            throw;
        }
    });
    return *solver.block;
}

// ---- a group --------------------------------------------------------------------------------------------------------

// Whether sources are solved one after the other.
bool are_alone(const OperatorFamily &family, const KeptSolver &solver, const SolveTask &task,
               const Eigenvectors *eigenvectors) {
    if (sources_at_once(task.n, task.together, task.each.loose > 0) == 1 || solver.cg == nullptr)
        return true;
    if (task.together != MILCGPU_TOGETHER_AUTO)
        return false;
    const milcgpu_context &context = family.context;
    const double vectors =
        0.5 * solver.operators.sloppy->components() * double(context.geometry.global_volume()) / context.ranks->size();
    return !ladder::together_pays(task.n, vectors, half_serves(solver, task, eigenvectors), family.device().backend());
}

void add(const CgReport &of_pass, CgReport &all) {
    const CgReport before = all;
    all = of_pass;
    all.iterations += before.iterations;
    all.steps += before.steps;
    all.restarts += before.restarts;
    all.reliable_updates += before.reliable_updates;
    all.deflations += before.deflations;
    all.deflation_off = all.deflation_off || before.deflation_off;
    all.steps_in_precise += before.steps_in_precise;
    all.steps_in_half += before.steps_in_half;
    all.largest_jump = std::fmax(all.largest_jump, before.largest_jump);
    all.seconds += before.seconds;
    all.flops += before.flops, all.bytes += before.bytes;
}

class GroupSolve {
  public:
    GroupSolve(OperatorFamily &family, SourcesOfCall &sources, const SolveTask &task, const Group &group,
               Deflation *deflation)
        : family_(family), sources_(sources), task_(task), group_(group), deflation_(deflation) {}

    // Solves, and checks the data that the answers depend on.
    void run() {
        verified(
            family_.context, [this] { family_.empty(); },
            [this](Verification &verification) {
                all_well_ = true;
                total_ = {};
                group_.of.clear();
                for (int k = group_.first; k < group_.first + group_.count; ++k)
                    group_.of.push_back({task_.each.tolerances[k], task_.each.tolerances[k]});
                sources_.load(group_, verification);
                const auto open = [](const SourceOnTheWay &source) { return !source.ended; };
                while (std::any_of(group_.of.begin(), group_.of.end(), open)) {
                    if (group_.alone) {
                        const KeptSolver &solver = group_.solver;
                        SourceOnTheWay &source = group_.of[0];
                        const CgLimits limits = limits_alone(verification);
                        group_.look(0, [&] {
                            last_ = solver.bicgstab ? solver.bicgstab->solve(limits, task_.progress)
                                                    : solver.cg->solve(limits, task_.progress);
                            add(last_, source.report);
                            ++source.passes;
                        });
                        all_well_ = !source.ended && last_.status == Status::ok;
                    } else {
                        pass_together();
                    }
                    sources_.complete(group_);
                }
                return 0;
            },
            [this](int) { return checked_regions(); });
        // From here on nothing but the copies themselves can fail.
        family_.device().collective("the copy of solutions", [&] {
            family_.device().in_a_row([&] {
                for (int k = 0; k < group_.count; ++k)
                    if (is_answer(group_.of[k].report.status))
                        sources_.write(group_, k);
            });
        });
    }
    void report(const CallMeter &meter, std::vector<milcgpu_solve_report> &reports) const {
        for (int k = 0; k < group_.count; ++k) {
            milcgpu_solve_report &report = reports[group_.first + k];
            fill_report(group_.of[k].report, task_.a, report);
            meter.fill(report);
            report.links_version = sources_.links_version();
            report.eigenvectors = deflation_ != nullptr ? deflation_->vectors().count() : 0;
            report.seconds /= group_.count;
            report.bytes_to_device /= group_.count, report.bytes_to_host /= group_.count;
            if (group_.alone || total_.seconds <= 0)
                continue;
            fill_rates(total_.seconds, total_.flops, total_.bytes, report);
            report.solver_seconds /= group_.count;
        }
    }
    GroupWork work() const {
        GroupWork all{group_.count, total_.steps_together, total_.bytes, total_.flops, 0, deflation_ != nullptr};
        if (const CgReport &own = group_.of[0].report; group_.alone)
            all.steps = own.steps, all.bytes = own.bytes, all.flops = own.flops;
        for (const SourceOnTheWay &source : group_.of) {
            all.true_residual = std::fmax(all.true_residual, source.report.true_residual);
            all.deflation_off = all.deflation_off || source.report.deflation_off;
        }
        return all;
    }
    void log(const std::vector<milcgpu_solve_report> &reports) const {
        const milcgpu_solve_report &first = reports[group_.first];
        const SolveArguments &a = task_.a;
        family_.context.log(2, [&] {
            const std::string what =
                format("%s %s/%s", group_.alone ? "" : format(" of %d sources", group_.count).c_str(),
                       name(a.precise.spinor), name(a.sloppy.spinor));
            const std::string with =
                first.eigenvectors > 0 ? format(", deflated with %d eigenvectors", first.eigenvectors) : "";
            const std::string how =
                group_.alone ? format("%s, %d iterations, true residual %.2e", milcgpu_status_name(first.status),
                                      first.iterations, first.true_residual)
                             : format("%d steps together", total_.steps_together);
            return format("%s%s %s: %s%s, %.4f s, %.1f GFLOPS", sources_.name().c_str(), what.c_str(),
                          sources_.parameters().c_str(), how.c_str(), with.c_str(), first.seconds * group_.count,
                          first.gflops);
        });
    }

  private:
    CgLimits limits_alone(Verification &verification) const {
        CgLimits limits = task_.a.limits;
        limits.tolerance = group_.of[0].tolerance;
        limits.max_iterations = task_.each.max_iterations[group_.first];
        limits.reliable_delta = sources_.reliable_delta(limits.reliable_delta, group_.solver.sloppy.spinor);
        limits.checksums = verification.checksums_of_links();
        limits.deflation = deflation_;
        return limits;
    }
    void pass_together() {
        BlockCgSolver &solver = *group_.solver.block;
        const CgLimits &asked = task_.a.limits;
        SourcesLimits limits;
        limits.shift = asked.shift;
        const bool lock_step = task_.together == MILCGPU_LOCK_STEP ||
                               found_faster_in_lock_step(group_.solver, task_, deflation_ != nullptr);
        limits.together = lock_step ? Together::lock_step : Together::block;
        limits.all_are_loose = task_.each.loose == int(task_.each.tolerances.size());
        for (int k = 0; k < group_.count; ++k) {
            limits.tolerances.push_back(group_.of[k].ended ? INFINITY : group_.of[k].tolerance); // left out
            limits.max_iterations.push_back(task_.each.max_iterations[group_.first + k]);
        }
        limits.relative_tolerance = asked.relative_tolerance;
        limits.max_restarts = asked.max_restarts;
        limits.reliable_delta = sources_.reliable_delta(asked.reliable_delta, solver.spec().spinor);
        limits.jump_limit = asked.jump_limit;
        limits.zero_guesses = group_.zero_guesses;
        limits.deflation = deflation_;
        const SourcesReport r = solver.solve(limits, task_.progress);
        all_well_ = r.status == Status::ok;
        if (all_well_ && task_.together == MILCGPU_TOGETHER_AUTO && deflation_ == nullptr && !lock_step)
            judge(r);
        total_.steps_together += r.steps_together;
        total_.seconds += r.seconds;
        total_.flops += r.flops, total_.bytes += r.bytes;
        for (int k = 0; k < group_.count; ++k) {
            SourceOnTheWay &source = group_.of[k];
            if (source.ended)
                continue;
            add(r.sources[k], source.report);
            ++source.passes;
        }
    }
    // After a solve in one Krylov space: remembers whether the next sources with this shift are faster in lock-step.
    void judge(const SourcesReport &taken) const {
        double residual = 1;
        for (const CgReport &source : taken.sources)
            if (source.true_residual > 0)
                residual = std::fmin(residual, source.true_residual);
        const NormalOperator &A = *group_.solver.operators.sloppy;
        const double shift = task_.a.limits.shift,
                     expected = ladder::expected_steps(A.highest(shift), A.lowest(shift), std::log(2 / residual));
        if (ladder::lock_step_pays(taken.steps_together, expected) && half_serves(group_.solver, task_, nullptr) &&
            !ladder::must_descend(*group_.solver.operators.full, A, Precision::single, A.lowest(shift)))
            group_.solver.faster_in_lock_step.insert(shift);
    }
    std::vector<Region> checked_regions() const {
        const KeptSolver &solver = group_.solver;
        const bool residual_alone = sources_.residual_of_solver() && all_well_;
        std::vector<Region> all = solver.bicgstab  ? solver.bicgstab->checked_regions()
                                  : !group_.alone  ? solver.block->checked_regions(residual_alone)
                                  : residual_alone ? solver.cg->checked_regions(last_)
                                                   : solver.cg->checked_regions(false);
        sources_.add_checked_regions(all);
        return all;
    }

    OperatorFamily &family_;
    SourcesOfCall &sources_;
    const SolveTask &task_;
    Group group_;
    Deflation *deflation_;
    CgReport last_;        // of the last pass, if alone
    SourcesReport total_;  // of all passes of several
    bool all_well_ = true; // in the last pass
};

// ---- a call ---------------------------------------------------------------------------------------------------------

// Runs work(). If memory is short, the message says how much the whole solve needs.
template <class Work> void with_plan(const SourcesOfCall &sources, int at_once, const Work &work) {
    try {
        work();
    } catch (const Error &error) {
        const std::string needs = error.status() == Status::no_memory ? sources.needs(at_once) : "";
        if (needs.empty())
            throw;
        throw Error(Status::no_memory, needs + error.what());
    }
}

Group group_of(KeptSolver &solver, const SolveTask &task, int first, int count, bool alone) {
    Group group{solver, first, count, alone, {}, {}, Precision::double_};
    if (!alone) {
        group.b = solver.block->all_sources().first(count), group.x = solver.block->all_solutions().first(count);
    } else if (solver.bicgstab) {
        group.b = solver.bicgstab->source(), group.x = solver.bicgstab->solution();
    } else {
        group.b = solver.cg->source(), group.x = solver.cg->solution();
        group.precise = task.a.precise.spinor;
    }
    return group;
}

} // namespace

static milcgpu_solve_report empty_report() {
    milcgpu_solve_report empty{};
    empty.struct_size = sizeof empty;
    return empty;
}

std::vector<milcgpu_solve_report> milcgpu::empty_reports(int n) {
    return std::vector<milcgpu_solve_report>(n, empty_report());
}

milcgpu_status milcgpu::hand_back_one(milcgpu_status status, const std::vector<milcgpu_solve_report> &filled,
                                      milcgpu_solve_report *report) {
    milcgpu_solve_report one = filled.empty() ? empty_report() : filled[0];
    return report_to_caller(status, one, report);
}

Numbers milcgpu::numbers_of(const OfEachSource &each) {
    Numbers numbers;
    for (size_t k = 0; k < each.tolerances.size(); ++k)
        numbers.insert(numbers.end(), {{"a source's tolerance", each.tolerances[k]},
                                       {"a source's max_iterations", double(each.max_iterations[k])}});
    return numbers;
}

void milcgpu::check_one_source(const milcgpu_solve_spec &spec) {
    if (spec.source_tolerances != nullptr || spec.source_max_iterations != nullptr)
        refuse("source_tolerances and source_max_iterations are for several sources: here they must be NULL");
}

Status milcgpu::solve_in_groups(OperatorFamily &family, SourcesOfCall &sources, SolveTask &task,
                                std::vector<milcgpu_solve_report> &reports) {
    std::optional<CallMeter> meter(family.device());
    const int n = task.n, most = sources_at_once(n, task.together, task.each.loose > 0);
    std::optional<SolverInUse> in_use;
    bool alone = true;
    const Eigenvectors *eigenvectors = nullptr;
    with_plan(sources, most, [&] {
        in_use.emplace(family, task.a.precise, task.a.sloppy);
        eigenvectors = sources.eigenvectors();
        alone = are_alone(family, in_use->solver(), task, eigenvectors);
        if (alone)
            sources.allocate(in_use->solver(), 1);
    });
    KeptSolver &solver = in_use->solver();
    Status worst = Status::ok;
    std::unique_ptr<Deflation> deflation; // for all sources of a group
    const auto deflation_of = [&](int count) -> Deflation * {
        if (deflation != nullptr && &deflation->vectors() == eigenvectors && deflation->sources() >= count)
            return deflation.get();
        deflation.reset();
        if (eigenvectors == nullptr)
            return nullptr;
        family.device().collective("memory for a deflation", [&] {
            deflation = std::make_unique<Deflation>(family.device(), *eigenvectors, *solver.operators.full, count);
        });
        return deflation.get();
    };
    for (int first = 0, count = 1; first < n; first += count) {
        if (!alone)
            with_plan(sources, most, [&] {
                const int wanted = std::min(most, n - first);
                const bool in_half = half_serves_several(solver, task, eigenvectors);
                count = std::min(wanted, block_solver(family, sources, solver, wanted, in_half).sources());
            });
        GroupSolve group(family, sources, task, group_of(solver, task, first, count, alone), deflation_of(count));
        group.run();
        group.report(*meter, reports);
        for (int k = first; k < first + count; ++k) {
            const Status own = static_cast<Status>(reports[k].status);
            if (!is_graver(own, worst))
                continue;
            worst = own;
            char number[32] = "", message[sizeof number + sizeof reports[k].message]; // solutions are written:
            if (task.numbered)                                                        // this may not fail
                std::snprintf(number, sizeof number, "source %d: ", k);
            std::snprintf(message, sizeof message, "%s%s", number, reports[k].message);
            set_last_error(task.function, message);
        }
        group.log(reports);
        sources.taken(group.work());
        meter.emplace(family.device());
        if (first + count < n)
            eigenvectors = sources.eigenvectors();
    }
    return worst;
}
