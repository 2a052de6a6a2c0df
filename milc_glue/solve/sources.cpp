// The C interface to solves of staggered fermions, of one source and of several.
#include "milc_glue/api/members.h"
#include "milc_glue/links/links_handle.h"
#include "milc_glue/links/vectors.h"
#include "milc_glue/solve/eigen_handle.h"
#include "milc_glue/solve/learning.h"
#include "milc_glue/solve/solve_arguments.h"
#include "milc_glue/solve/staggered_family.h"
#include <utility>

using namespace milcgpu;

namespace {

// Where the sources of a call are, and their solutions.
class StaggeredSources : public SourcesOfCall {
  public:
    // learning: nullptr if the call has eigenvectors of its own, or wants none.
    StaggeredSources(milcgpu_links &links, const SolveArguments &a, double mass, std::vector<VectorPlace> sources,
                     std::vector<VectorPlace> solutions, std::shared_ptr<Learning> learning)
        : links_(links), context_(*links.context), parity_(a.parity), mass_(mass), limits_(a.limits),
          sources_(std::move(sources)), solutions_(std::move(solutions)), learning_(std::move(learning)) {}
    ~StaggeredSources() override {
        if (learning_)
            learning_->rest();
    }
    void deflate_with(const Eigenvectors *given) { given_ = given; }
    const Eigenvectors *eigenvectors() override {
        return learning_ ? learning_->before(limits_.shift, limits_.tolerance) : given_;
    }
    void taken(const GroupWork &work) override {
        if (learning_)
            learning_->after(limits_.shift, work);
    }
    void load(Group &group, Verification &verification) override {
        flip_if_planted(links_);
        int zero = !group.alone; // all guesses
        context_.device->collective("the loading of sources", [&] {
            for (int k = 0; k < group.count; ++k)
                sources_[group.first + k].read(context_, parity_, group.b[k]);
            verification.loaded(group.b);
            for (int k = 0; k < group.count; ++k) {
                const VectorPlace &guess = solutions_[group.first + k];
                if (group.alone)
                    guess.read(context_, parity_, group.x);
                else
                    zero &= guess.read_guess(context_, parity_, group.x[k]);
            }
        });
        if (group.alone)
            return;
        for (const int there : context_.ranks->gathered("guesses of sources", zero))
            zero &= there;
        group.zero_guesses = zero != 0;
    }
    void write(const Group &group, int k) override { solutions_[group.first + k].write(context_, parity_, group.x[k]); }
    bool residual_of_solver() const override { return true; }
    uint64_t links_version() const override { return links_.links->generation(); }
    std::string name() const override { return "solve"; }
    std::string parameters() const override { return format("m %g", mass_); }

  private:
    milcgpu_links &links_;
    milcgpu_context &context_;
    int parity_;
    double mass_;
    CgLimits limits_;
    std::vector<VectorPlace> sources_, solutions_;
    std::shared_ptr<Learning> learning_;
    const Eigenvectors *given_ = nullptr;
};

struct Places {
    std::vector<VectorPlace> sources, solutions;
};

// Puts `why` in front of the report's message and, if `logged`, into the log.
void put_before(const std::string &why, milcgpu_context &context, milcgpu_solve_report &report, bool logged) {
    const std::string before = report.message;
    std::snprintf(report.message, sizeof report.message, "%s%s%s", why.c_str(), before.empty() ? "" : ". ",
                  before.c_str());
    if (logged)
        context.log(1, [&] { return why; });
}

// Does not use the eigenvectors if they belong to other links.
Status solve_deflated(milcgpu_eigenvectors &eigenvectors, milcgpu_links &links, StaggeredFamily &family,
                      StaggeredSources &sources, SolveTask &task, std::vector<milcgpu_solve_report> &reports) {
    const std::string wrong = why_not_of(eigenvectors, links);
    if (wrong.empty())
        sources.deflate_with(eigenvectors.set.get());
    const Status status = solve_in_groups(family, sources, task, reports);
    bool raised = false;
    for (milcgpu_solve_report &report : reports) {
        raised = raised || report.deflation_off != 0;
        if (!wrong.empty())
            report.deflation_off = 1;
    }
    if (!wrong.empty())
        put_before("solved without deflation: " + wrong, family.context, reports[0],
                   std::exchange(eigenvectors.said, links.links->tag()) != links.links->tag());
    else if (!are_whole_after(eigenvectors, raised))
        put_before(changed_eigenvectors, family.context, reports[0], true);
    return status;
}

// places_of(call): where sources and solutions are; it refuses what it cannot take.
template <class PlacesOf>
Status solve_staggered(const SourcesCall &of, milcgpu_links &links, const milcgpu_solve_spec *given,
                       std::vector<milcgpu_solve_report> &reports, const PlacesOf &places_of) {
    milcgpu_context &context = *links.context;
    SolveTask task{of, {}, {}, {}};
    Places places;
    milcgpu_solve_spec spec{};
    same_on_all_ranks(context, of.function, [&](CallArguments &call) {
        spec = call.copy_of("spec", given), call("together", of.together), call("n", of.n);
        resident(links);
        check_together(of.together, of.n);
        if (!of.numbered)
            check_one_source(spec);
        places = places_of(call);
        task.a = checked_sources(spec, of.n, task.each);
        if (of.numbered) // solutions may be written while other sources are still read
            require_apart(occupied(context, "sources", false, places.sources, task.a.parity),
                          occupied(context, "solutions", true, places.solutions, task.a.parity));
        check_version(spec.links_version, *links.links);
        reports = empty_reports(of.n);
        if (of.numbered)
            for (const RankNumber &number : numbers_of(task.each))
                call.of_entries.push_back(number);
    });
    if (spec.eigenvectors != nullptr) // on all ranks
        same_on_all_ranks(context, of.function, [&](CallArguments &call) {
            need_eigenvectors(*spec.eigenvectors, context, task.a.parity);
            call("count of spec.eigenvectors", milcgpu_eigenvectors_count(spec.eigenvectors));
        });
    if (of.n == 0)
        return Status::ok;
    task.progress = progress_of(context, spec);
    StaggeredFamily family(links, task.a.parity);
    // Loose solutions do not change as the library learns.
    const bool learns = spec.eigenvectors == nullptr && task.each.loose == 0;
    StaggeredSources sources(links, task.a, spec.mass, std::move(places.sources), std::move(places.solutions),
                             learns ? learning_of(links, task.a.parity) : nullptr);
    if (spec.eigenvectors == nullptr)
        return solve_in_groups(family, sources, task, reports);
    return solve_deflated(*spec.eigenvectors, links, family, sources, task, reports);
}

// For several sources. place(given, name): the place of each.
template <class Given, class Place>
milcgpu_status solve_sources(const SourcesCall &of, milcgpu_links *links, const milcgpu_solve_spec *spec,
                             const Given *sources, const Given *solutions, milcgpu_solve_report *reports,
                             const Place &place) {
    return with_links(links, of.function, [&](milcgpu_context &) {
        std::vector<milcgpu_solve_report> filled;
        const auto places_of = [&]([[maybe_unused]] CallArguments &call) {
            Places places;
            if (of.n > 0) {
                require(sources, of.function, "sources");
                require(solutions, of.function, "solutions");
            }
            for (int k = 0; k < of.n; ++k) {
                places.sources.push_back(place(sources[k], format("sources[%d]", k).c_str()));
                places.solutions.push_back(place(solutions[k], format("solutions[%d]", k).c_str()));
            }
            require_sizes(reports, of.n);
            if constexpr (std::is_same_v<Given, milcgpu_vector>)
                call.entries("sources", sources, of.n), call.entries("solutions", solutions, of.n);
            return places;
        };
        const Status status = solve_staggered(of, *links, spec, filled, places_of);
        copy_to_caller(filled, reports);
        return status;
    });
}

} // namespace

extern "C" milcgpu_status milcgpu_staggered_solve(milcgpu_links *links, const milcgpu_solve_spec *spec,
                                                  const milcgpu_field *source, const milcgpu_field *solution,
                                                  milcgpu_solve_report *report) {
    constexpr const char *function = "milcgpu_staggered_solve";
    std::vector<milcgpu_solve_report> filled;
    const milcgpu_status status = with_links(links, function, [&](milcgpu_context &) {
        const auto places_of = [&](CallArguments &) {
            require_sizes(report, 1);
            return Places{{host_field(source, 6, "source")}, {host_field(solution, 6, "solution")}};
        };
        return solve_staggered({function}, *links, spec, filled, places_of);
    });
    return hand_back_one(status, filled, report);
}

extern "C" milcgpu_status milcgpu_staggered_solve_sources(milcgpu_links *links, const milcgpu_solve_spec *spec,
                                                          int together, int n, const milcgpu_field *sources,
                                                          const milcgpu_field *solutions,
                                                          milcgpu_solve_report *reports) {
    const auto place = [](const milcgpu_field &field, const char *what) {
        return VectorPlace(host_field(&field, 6, what));
    };
    return solve_sources({"milcgpu_staggered_solve_sources", n, together, true}, links, spec, sources, solutions,
                         reports, place);
}

extern "C" milcgpu_status milcgpu_staggered_solve_vectors(milcgpu_links *links, const milcgpu_solve_spec *spec,
                                                          int together, int n, const milcgpu_vector *sources,
                                                          const milcgpu_vector *solutions,
                                                          milcgpu_solve_report *reports) {
    const auto place = [&](const milcgpu_vector &vector, const char *what) {
        return VectorPlace(links->context, vector, what);
    };
    return solve_sources({"milcgpu_staggered_solve_vectors", n, together, true}, links, spec, sources, solutions,
                         reports, place);
}
