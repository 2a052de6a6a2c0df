// The C interface: several masses of Wilson fermions on one source.
#include "milc_glue/api/apart.h"
#include "milc_glue/solve/multi_mass_solves.h"
#include "milc_glue/solve/solve_arguments.h"
#include "milc_glue/solve/wilson_calls.h"

using namespace milcgpu;

namespace {

milcgpu_status multi_mass(milcgpu_wilson &w, const milcgpu_wilson_spec *spec, const milcgpu_multi_mass_spec *given,
                          const milcgpu_field *source, const milcgpu_field *solutions,
                          milcgpu_multi_mass_report &report) {
    constexpr const char *function = "milcgpu_wilson_multi_mass";
    const CallMeter meter(w.device());
    WilsonParameters of{};
    MassesOfCall call{function, "Wilson multi-mass", {}, {}, {}, {}, false};
    MultiMassArguments &a = call.a;
    std::vector<HostField> to;
    HostField from{};
    milcgpu_multi_mass_spec how{};
    same_on_all_ranks(*w.context, function, [&](CallArguments &arguments) {
        of = parameters_of(arguments.copy_of("spec", spec));
        how = arguments.copy_of("how", given);
        a = checked_multi_mass(how);
        check_unused(how.links_version == 0, "how->links_version");
        std::vector<OperatorSpec> levels = stages_of(a);
        levels.insert(levels.end(), {a.precise, a.sloppy});
        for (const OperatorSpec &level : levels)
            find_wilson(level.spinor, level.link, level.reals); // throws not_built
        if (how.n_shifts > 0)
            arguments.given("solutions", solutions);
        for (int k = 0; k < how.n_shifts; ++k) {
            check_unused(how.shifts[k].relative_tolerance == 0, format("shifts[%d].relative_tolerance", k).c_str());
            to.push_back(host_field(&solutions[k], reals_of_vector, format("solutions[%d]", k).c_str()));
        }
        require_apart(occupied(*w.context, "solutions", true, to, a.parity));
        from = host_field(source, reals_of_vector, "source");
        need_links(w);
    });
    call.progress = progress_of(*w.context, how);
    call.load = [&](const SpinorBlock &b, Verification &verification) {
        w.device().collective("the loading of a source", [&] {
            w.reorder.to_device(from, a.parity, b);
            verification.loaded(b);
        });
        require_finite_vector(w, b, a.parity, "source");
    };
    call.write = [&](int k, const SpinorBlock &x, bool) { w.reorder.to_host(x, a.parity, to[k]); };
    WilsonFamily family(w, of, a.parity, MILCGPU_WILSON_CG);
    return static_cast<milcgpu_status>(solve_masses(family, call, meter, report));
}

} // namespace

extern "C" {

milcgpu_status milcgpu_wilson_multi_mass(milcgpu_wilson *wilson, const milcgpu_wilson_spec *spec,
                                         const milcgpu_multi_mass_spec *how, const milcgpu_field *source,
                                         const milcgpu_field *solutions, milcgpu_multi_mass_report *report) {
    milcgpu_multi_mass_report filled{};
    filled.struct_size = sizeof filled;
    filled.shifts = shifts_of(report);
    const milcgpu_status status = with_wilson(wilson, "milcgpu_wilson_multi_mass", [&](milcgpu_wilson &w) {
        w.device().collective("milcgpu_wilson_multi_mass", [&] { require_sizes(report, 1); });
        return multi_mass(w, spec, how, source, solutions, filled);
    });
    return report_to_caller(status, filled, report);
}

} // extern "C"
