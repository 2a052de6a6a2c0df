// The C interface: several masses of Wilson fermions on one source.
#include "milc_glue/multi_mass.h"
#include "milc_glue/verify.h"
#include "milc_glue/wilson_calls.h"
#include <optional>

using namespace milcgpu;

namespace {

milcgpu_status multi_mass(milcgpu_wilson &w, const milcgpu_wilson_spec *spec, const milcgpu_multi_mass_spec *how,
                          const milcgpu_field *source, const milcgpu_field *solutions,
                          milcgpu_multi_mass_report &report) {
    constexpr const char *function = "milcgpu_wilson_multi_mass";
    const CallMeter meter(w.device());
    WilsonParameters of{};
    MultiMassArguments a{};
    std::vector<OperatorSpec> levels;
    int n = 0;
    std::vector<HostField> to;
    HostField from{};
    const auto look = [&] {
        of = parameters_of(spec, function);
        require(how, function, "how");
        a = checked_multi_mass(*how);
        check_unused(how->links_version == 0, "how->links_version");
        levels = stages_of(a);
        for (const OperatorSpec &of : levels)
            find_wilson(of.spinor, of.link, of.reals); // throws not_built
        find_wilson(a.precise.spinor, a.precise.link, a.precise.reals);
        find_wilson(a.sloppy.spinor, a.sloppy.link, a.sloppy.reals);
        n = how->n_shifts;
        if (n > 0)
            require(solutions, function, "solutions");
        for (int k = 0; k < n; ++k) {
            check_unused(how->shifts[k].relative_tolerance == 0, format("shifts[%d].relative_tolerance", k).c_str());
            to.push_back(host_field(&solutions[k], reals_of_vector, format("solutions[%d]", k).c_str()));
        }
        from = host_field(source, reals_of_vector, "source");
        need_links(w);
    };
    agreed(*w.context, function, look, [&] { return with_parameters(numbers_of(a), *spec); });
    if (n == 0)
        return MILCGPU_OK;
    milcgpu_wilson::Solver &refiner = w.solver(of, a.parity, MILCGPU_WILSON_CG, a.precise, a.sloppy);
    std::vector<Operator> stages;
    for (OperatorSpec level : levels)
        stages.push_back(std::make_shared<const WilsonNormal>(w.matrix(of, a.parity, level)));
    OperatorSpec together = together_spec(a);
    const Operator single =
        refines_together(a) ? std::make_shared<const WilsonNormal>(w.matrix(of, a.parity, together)) : nullptr;
    std::optional<MultiMassSolver> made;
    w.device().agree("memory for several masses", [&] {
        made.emplace(w.device(), stages, std::make_shared<const WilsonNormal>(refiner.full), single, n, *refiner.cg);
    });
    MultiMassSolver &solver = *made;
    const CgProgress progress = progress_of(*w.context, *how);
    const MultiMassReport r = verified(
        *w.context, w.emptying(),
        [&](Verification &verification) {
            w.device().agree("the loading of a source", [&] {
                w.reorder.to_device(from, a.parity, solver.source());
                verification.loaded(solver.source());
            });
            require_finite_vector(w.device(), solver.source(), a.parity, "source");
            return solver.solve(a.limits, progress);
        },
        [&](const MultiMassReport &) { return solver.stands_on(false); });
    fill_report(r, n, report);
    if (r.status != Status::ok)
        set_last_error(function, r.message.c_str());
    // From here on nothing but the copies themselves can fail.
    const bool nothing = r.status == Status::nan_or_inf || r.status == Status::not_positive;
    w.device().agree("the copy of solutions", [&] {
        for (int k = 0; k < n && !nothing; ++k)
            w.reorder.to_host(solver.solution(k), a.parity, to[k]);
    });
    meter.fill(report);
    return static_cast<milcgpu_status>(r.status);
}

} // namespace

extern "C" {

milcgpu_status milcgpu_wilson_multi_mass(milcgpu_wilson *wilson, const milcgpu_wilson_spec *spec,
                                         const milcgpu_multi_mass_spec *how, const milcgpu_field *source,
                                         const milcgpu_field *solutions, milcgpu_multi_mass_report *report) {
    milcgpu_multi_mass_report filled{};
    filled.struct_size = sizeof filled;
    const milcgpu_status status = with_wilson(wilson, "milcgpu_wilson_multi_mass", [&](milcgpu_wilson &w) {
        w.device().agree("milcgpu_wilson_multi_mass", [&] {
            if (report != nullptr) {
                require_size(report->struct_size, sizeof *report, "milcgpu_multi_mass_report");
                filled.shifts = report->shifts;
            }
        });
        return multi_mass(w, spec, how, source, solutions, filled);
    });
    return hand_back(status, filled, report);
}

} // extern "C"
