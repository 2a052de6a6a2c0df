#include "milc_glue/links/link_checks.h"
#include "gpu_kernels/machine/geometry/places.h"
#include "milc_glue/links/gauge.h"
#include <algorithm>
#include <cmath>

using namespace milcgpu;

PathCoefficients milcgpu::coefficients(const milcgpu_paths &p, const char *what) {
    if (p.one_link == 0 && p.naik == 0 && p.three_staple == 0 && p.five_staple == 0 && p.seven_staple == 0 &&
        p.lepage == 0)
        refuse(format(
            "%s: all six path coefficients are 0; fill them in (milcgpu_asqtad_defaults and milcgpu_hisq_defaults do)",
            what));
    return {p.one_link, p.naik, p.three_staple, p.five_staple, p.seven_staple, p.lepage};
}

UnitarizeSpec milcgpu::unitarize_spec(const milcgpu_fatlink_spec &spec) {
    UnitarizeSpec how;
    how.special = spec.special_unitary != 0;
    how.svd_only = spec.svd_only != 0;
    if (spec.svd_relative > 0)
        how.svd_relative = spec.svd_relative;
    if (spec.svd_absolute > 0)
        how.svd_absolute = spec.svd_absolute;
    return how;
}

std::string milcgpu::place_of_record(const milcgpu_context &context, size_t k) {
    const std::vector<int> map = context.map.data() != nullptr ? context.map.to_host() : std::vector<int>();
    const auto found = std::find(map.begin(), map.end(), static_cast<int>(k));
    return place_of_site(context.geometry, map.empty() ? static_cast<long long>(k) : found - map.begin());
}

LinkStatistics milcgpu::checked_gauge_field(Device &device, const Geometry &geometry, const LinkField &u, double limit,
                                            const Phases *phases) {
    const LinkStatistics statistics = link_statistics(device, u, geometry, phases);
    device.collective("the check of a gauge field", [&] {
        if (statistics.first_bad >= 0)
            throw Error(Status::nan_or_inf,
                        format("gauge field: the first element that is NaN, infinite or too large to be squared is in "
                               "the link of %s",
                               place_of_link(geometry, statistics.first_bad).c_str()));
        if (limit == 0)
            limit = 1e-4;
        long long worst;
        const double violation = limit < 0 ? 0 : unitarity_violation(device, geometry, u, &worst);
        if (limit >= 0 && !(violation <= limit))
            refuse(format("gauge field: not unitary, an element of |U U^dag - 1| is %.2e (accepted %.1e) in the link "
                          "of %s. Reunitarize the lattice, or allow more (unitarity)",
                          violation, limit, place_of_link(geometry, worst).c_str()));
    });
    return statistics;
}

void milcgpu::need_signs(Device &device, const Geometry &geometry, const LinkField &u, const LinkSigns &found,
                         const Phases &phases, const SaidSigns &said) {
    const bool phased = said.signs == Signs::phases_in;
    if (found.of(phased ? Signs::phases_out : Signs::phases_in))
        device.collective("the check of the signs of links", [&] {
            const long long first = first_against(device, u, geometry, phases, said.signs);
            refuse(format("gauge field: links %s staggered phases are expected here, and these %s. Of %.0f links along "
                          "x, y and z, %.0f have a determinant of the wrong sign, the first is the link of %s. %s",
                          phased ? "with" : "without", phased ? "have none" : "carry them", found.links,
                          found.against[phased ? 0 : 1], place_of_link(geometry, first).c_str(), said.otherwise));
        });
    if (said.boundary && (phased ? found.without_boundary() : found.with_boundary()))
        refuse(format("gauge field: of %.0f t links of the last time slice %.0f have a determinant below zero; this "
                      "call expects links %s the boundary sign there. %s",
                      found.last_slice, found.turned, phased ? "with" : "without", said.otherwise));
}
