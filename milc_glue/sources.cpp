// The C interface to the solver of several sources.
#include "gpu_kernels/solver/precision_ladder.h"
#include "milc_glue/vectors.h"
#include "milc_glue/verify.h"
#include <algorithm>

using namespace milcgpu;

namespace {

struct SourceFields : OfEachSource {
    std::vector<VectorPlace> sources, solutions;
    int count() const { return static_cast<int>(sources.size()); }
};

// With room for `most` sources, or fewer where memory is short.
BlockCgSolver &block_solver(milcgpu_context &context, milcgpu_links &links, const SolveArguments &a, int most,
                            milcgpu_context::CachedSolver &cached) {
    OperatorSpec spec = ladder::of_several(a.sloppy);
    const Operator A = level_operator(links, a.parity, spec);
    if (cached.block && cached.block->spec() == A->spec() && cached.block->sources() >= most)
        return *cached.block;
    cached.block.reset(); // its memory first
    make_for_most(most, [&](int room) {
        context.device->agree("memory for several sources", [&] {
            cached.block = std::make_unique<BlockCgSolver>(*context.device, full_operator(links, a.parity), A, room,
                                                           *cached.solver);
        });
    });
    return *cached.block;
}

// For MILCGPU_TOGETHER_AUTO.
bool together_pays(milcgpu_context &context, milcgpu_links &links, const SolveArguments &a, int n) {
    OperatorSpec spec = a.sloppy;
    const double limit = a.limits.jump_limit > 0 ? a.limits.jump_limit : ladder::jump_limit;
    const bool half = spec.spinor == Precision::half &&
                      !ladder::half_is_hopeless(*level_operator(links, a.parity, spec), a.limits.shift, limit);
    const double sites = 0.5 * double(context.geometry.global_volume()) / context.ranks->size();
    return ladder::together_pays(n, sites, half, context.device->on_gpu());
}

} // namespace

int milcgpu::sources_at_once(int n) {
    const int groups = (n + most_block - 1) / most_block;
    return (n + groups - 1) / groups;
}

void milcgpu::check_together(int together, int n) {
    if (together < MILCGPU_TOGETHER_AUTO || together > MILCGPU_ONE_BY_ONE)
        refuse(format("together is %d: must be one of milcgpu_together (0 to %d)", together, MILCGPU_ONE_BY_ONE));
    require_count(n, 0, "the number of sources");
}

milcgpu_solve_spec milcgpu::spec_of_source(const milcgpu_solve_spec &spec, int k) {
    milcgpu_solve_spec own = spec;
    if (spec.source_tolerances != nullptr)
        own.tolerance = spec.source_tolerances[k];
    if (spec.source_max_iterations != nullptr)
        own.max_iterations = spec.source_max_iterations[k];
    own.source_tolerances = nullptr, own.source_max_iterations = nullptr;
    return own;
}

SolveArguments milcgpu::checked_sources(const milcgpu_solve_spec &spec, int n, OfEachSource &of_each) {
    require_size(spec.struct_size, sizeof spec, "milcgpu_solve_spec");
    if (n == 0)
        return checked_solve(spec);
    SolveArguments arguments{};
    for (int k = 0; k < n; ++k) {
        try {
            const SolveArguments own = checked_solve(spec_of_source(spec, k));
            if (k == 0)
                arguments = own;
            of_each.tolerances.push_back(own.limits.tolerance);
            of_each.max_iterations.push_back(own.limits.max_iterations);
        } catch (const Error &error) {
            const bool own = spec.source_tolerances != nullptr || spec.source_max_iterations != nullptr;
            throw Error(error.status(), own ? format("source %d: %s", k, error.what()) : error.what());
        }
    }
    return arguments;
}

namespace {

// Of sources first to first + count.
SourcesReport solve_some(milcgpu_context &context, milcgpu_links &links, const SolveArguments &a, Together together,
                         const SourceFields &fields, int first, int count, BlockCgSolver &solver,
                         const CgProgress &progress) {
    Device &device = *context.device;
    SourcesLimits limits;
    limits.shift = a.limits.shift;
    limits.together = together;
    limits.tolerances = {fields.tolerances.begin() + first, fields.tolerances.begin() + first + count};
    limits.max_iterations = {fields.max_iterations.begin() + first, fields.max_iterations.begin() + first + count};
    limits.relative_tolerance = a.limits.relative_tolerance;
    limits.max_restarts = a.limits.max_restarts;
    limits.reliable_delta = a.limits.reliable_delta, limits.jump_limit = a.limits.jump_limit;
    const SourcesReport r = verified(
        context, links,
        [&](Verification &verification) {
            int zero = 1; // all guesses
            device.agree("the loading of sources", [&] {
                for (int k = 0; k < count; ++k)
                    fields.sources[first + k].read(context, a.parity, solver.source(k));
                verification.loaded(solver.all_sources().first(count));
                for (int k = 0; k < count; ++k)
                    zero &= fields.solutions[first + k].read_guess(context, a.parity, solver.solution(k));
            });
            for (const int there : context.ranks->gathered("guesses of sources", zero))
                zero &= there;
            limits.zero_guesses = zero != 0;
            return solver.solve(limits, progress);
        },
        [&](const SourcesReport &report) { return solver.stands_on(report.status == Status::ok); });
    // From here on nothing but the copies themselves can fail.
    device.agree("the copy of solutions", [&] {
        device.in_a_row([&] {
            for (int k = 0; k < count; ++k)
                if (is_answer(r.sources[k].status))
                    fields.solutions[first + k].write(context, a.parity, solver.solution(k));
        });
    });
    return r;
}

Status solve_together(milcgpu_context &context, milcgpu_links &links, const milcgpu_solve_spec &spec, SolveArguments a,
                      Together together, const SourceFields &fields, std::vector<milcgpu_solve_report> &reports) {
    const int n = fields.count();
    std::vector<Alike> alike = numbers_of(a, spec);
    alike.push_back({"how sources are solved together", double(static_cast<int>(together))});
    alike.push_back({"the number of sources", double(n)});
    check_alike(context, alike);
    alike.clear();
    for (int k = 0; k < n; ++k) {
        alike.push_back({"a source's tolerance", fields.tolerances[k]});
        alike.push_back({"a source's max_iterations", double(fields.max_iterations[k])});
    }
    check_alike(context, alike);
    milcgpu_context::CachedSolver &cached = cached_solver(context, links, a.parity, a.precise, a.sloppy);
    context.busy_with_several = true;
    BlockCgSolver &solver = block_solver(context, links, a, sources_at_once(n), cached);
    const CgProgress progress = progress_of(context, spec);
    Status worst = Status::ok;
    for (int first = 0; first < n; first += solver.sources()) {
        const CallMeter meter(*context.device);
        const int count = std::min(solver.sources(), n - first);
        const SourcesReport r = solve_some(context, links, a, together, fields, first, count, solver, progress);
        for (int k = 0; k < count; ++k) {
            milcgpu_solve_report &report = reports[first + k];
            fill_report(r.sources[k], a, report);
            meter.fill(report);
            report.links_version = links.links->generation();
            report.seconds /= count;
            report.solver_seconds = r.seconds / count;
            report.bytes_to_device /= count, report.bytes_to_host /= count;
            report.gflops = r.flops / r.seconds * 1e-9, report.gbytes_per_second = r.bytes / r.seconds * 1e-9;
        }
        if (is_graver(r.status, worst)) {
            worst = r.status;
            set_last_error("milcgpu_solve_sources", r.message.c_str());
        }
        context.tell(2, [&] {
            return format("solve of %d sources %s/%s m %g: %s, %d steps together, %.4f s, %.1f GFLOPS", count,
                          name(a.precise.spinor), name(a.sloppy.spinor), spec.mass,
                          milcgpu_status_name(static_cast<int>(r.status)), r.steps_together,
                          reports[first].seconds * count, reports[first].gflops);
        });
    }
    return worst;
}

// An entry. fields(): where sources and solutions are; it refuses what it cannot take.
template <class Fields>
milcgpu_status solve_sources(const char *function, milcgpu_context *context, milcgpu_links *links,
                             const milcgpu_solve_spec *spec, int together, int n, milcgpu_solve_report *reports,
                             const Fields &fields_of) {
    return guarded(context, function, [&] {
        require(context, function, "context");
        SolveArguments a{};
        SourceFields fields;
        std::vector<milcgpu_solve_report> filled;
        context->device->agree(function, [&] {
            require(spec, function, "spec");
            resident(context, links);
            check_together(together, n);
            a = checked_sources(*spec, n, fields);
            check_version(spec->links_version, *links->links);
            SourceFields places = fields_of();
            fields.sources = std::move(places.sources), fields.solutions = std::move(places.solutions);
            for (int k = 0; k < n && reports != nullptr; ++k)
                require_size(reports[k].struct_size, sizeof *reports, "milcgpu_solve_report");
            filled.resize(n);
            for (milcgpu_solve_report &report : filled)
                report.struct_size = sizeof report;
        });
        Status status = Status::ok;
        const bool apart = together == MILCGPU_TOGETHER_AUTO ? n > 0 && !together_pays(*context, *links, a, n)
                                                             : together == MILCGPU_ONE_BY_ONE || n == 1;
        if (apart) {
            for (int k = 0; k < n; ++k) {
                const auto place = [&] { return std::pair(fields.sources[k], fields.solutions[k]); };
                const milcgpu_solve_spec of_one = spec_of_source(*spec, k);
                const auto own =
                    static_cast<Status>(solve_one("milcgpu_solve", context, links, &of_one, place, &filled[k]));
                status = is_graver(own, status) ? own : status;
            }
        } else if (n > 0) {
            status =
                solve_together(*context, *links, *spec, a,
                               together == MILCGPU_LOCK_STEP ? Together::lock_step : Together::block, fields, filled);
        }
        for (int k = 0; k < n && reports != nullptr; ++k)
            reports[k] = filled[k];
        return status;
    });
}

// Where the caller's n sources and solutions are: place(given, name) of each.
template <class Given, class Place>
SourceFields fields_of(const char *function, int n, const Given *sources, const Given *solutions, const Place &place) {
    SourceFields fields;
    if (n > 0) {
        require(sources, function, "sources");
        require(solutions, function, "solutions");
    }
    for (int k = 0; k < n; ++k) {
        fields.sources.push_back(place(sources[k], format("sources[%d]", k).c_str()));
        fields.solutions.push_back(place(solutions[k], format("solutions[%d]", k).c_str()));
    }
    return fields;
}

} // namespace

extern "C" milcgpu_status milcgpu_solve_sources(milcgpu_context *context, milcgpu_links *links,
                                                const milcgpu_solve_spec *spec, int together, int n,
                                                const milcgpu_field *sources, const milcgpu_field *solutions,
                                                milcgpu_solve_report *reports) {
    constexpr const char *function = "milcgpu_solve_sources";
    return solve_sources(function, context, links, spec, together, n, reports, [&] {
        return fields_of(function, n, sources, solutions, [](const milcgpu_field &field, const char *what) {
            return VectorPlace(host_field(&field, 6, what));
        });
    });
}

extern "C" milcgpu_status milcgpu_solve_vectors(milcgpu_context *context, milcgpu_links *links,
                                                const milcgpu_solve_spec *spec, int together, int n,
                                                const milcgpu_vector *sources, const milcgpu_vector *solutions,
                                                milcgpu_solve_report *reports) {
    constexpr const char *function = "milcgpu_solve_vectors";
    return solve_sources(function, context, links, spec, together, n, reports, [&] {
        const SourceFields fields =
            fields_of(function, n, sources, solutions, [&](const milcgpu_vector &vector, const char *what) {
                return VectorPlace(context, vector, what);
            });
        for (int k = 0; k < n; ++k) {
            const auto same = [&](const VectorPlace &other) { return other.is(fields.solutions[k]); };
            if (std::any_of(fields.sources.begin(), fields.sources.end(), same) ||
                std::any_of(fields.solutions.begin(), fields.solutions.begin() + k, same))
                refuse(format("solutions[%d]: that vector is another solution, too, or a source", k));
        }
        return fields;
    });
}

extern "C" milcgpu_status milcgpu_sources_plan(milcgpu_context *context, int host_precision,
                                               const milcgpu_solve_spec *spec, int together, int n, char *text,
                                               size_t text_size, size_t *bytes) {
    return guarded(context, "milcgpu_sources_plan", [&] {
        require(context, "milcgpu_sources_plan", "context");
        require(spec, "milcgpu_sources_plan", "spec");
        check_together(together, n);
        MemoryPlan plan = plan_of(*context, host_precision, *spec);
        if (n > 1 && together != MILCGPU_ONE_BY_ONE) {
            const SolveArguments a = checked_solve(*spec);
            const OperatorSpec several = ladder::of_several(a.sloppy);
            plan = solve_plan(context->geometry, host_precision_of(host_precision, "host_precision"), {several},
                              a.precise, a.sloppy);
            plan.vectors += BlockCgSolver::workspace_bytes(context->geometry, several, sources_at_once(n));
            plan.more += BlockCgSolver::later_bytes(context->geometry, several, sources_at_once(n));
        }
        hand_over(*context, plan, text, text_size, bytes);
        return Status::ok;
    });
}
