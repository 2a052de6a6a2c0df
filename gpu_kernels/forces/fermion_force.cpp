#include "gpu_kernels/forces/fermion_force.h"

namespace milcgpu {

namespace {

struct Fields {
    Device &device;
    const Geometry &geometry;
    Precision precision;
    LinkField matrices() const { return {device, precision, 18, geometry, "derivatives by links"}; }
    void clear(const LinkField &field) const { device.fill_zero(field.block(0, 0), field.bytes()); }
};

std::vector<double> scaled(std::vector<double> values, double factor) {
    for (double &value : values)
        value *= factor;
    return values;
}

} // namespace

LinkField asqtad_derivative(Device &device, const Geometry &geometry, const LinkField &u, const PathCoefficients &paths,
                            const ForceTerms &terms) {
    const Fields fields{device, geometry, u.precision()};
    LinkField by_fat = fields.matrices(), by_u = fields.matrices();
    fields.clear(by_u);
    {
        const LinkField by_long = fields.matrices();
        outer_products(device, geometry, terms.x, terms.residues, scaled(terms.residues, paths.naik), false, by_fat,
                       &by_long);
        long_links_adjoint(device, geometry, u, 1, by_long, by_u);
    }
    const AdjointSpace space(device, geometry, u.precision(), paths.lepage != 0);
    fat_links_adjoint(device, geometry, u, paths, by_fat, by_u, space);
    return by_u;
}

double asqtad_derivative_flops(const PathCoefficients &paths, int terms) {
    return outer_products_flops(terms) + fat_links_adjoint_flops(paths.lepage != 0) + long_links_adjoint_flops;
}

HisqDerivative hisq_derivative(Device &device, const Geometry &geometry, const LinkField &u, const LinkField &v,
                               const LinkField &w, const HisqForceSpec &spec, const ForceTerms &terms) {
    std::vector<double> long_weights, more_weights; // more: of the one-link part of eps_naik
    for (const HisqForceSpec::Set &set : spec.sets)
        for (int k = 0; k < set.terms; ++k) {
            long_weights.push_back(spec.level_2.naik + set.eps_naik * spec.naik_part.naik);
            more_weights.push_back(set.eps_naik * spec.naik_part.one_link);
        }
    if (long_weights.size() != terms.residues.size())
        throw Error(Status::bad_argument, format("HISQ force: %zu terms in the sets of eps_naik, %zu residues",
                                                 long_weights.size(), terms.residues.size()));
    for (size_t t = 0; t < terms.residues.size(); ++t)
        long_weights[t] *= terms.residues[t], more_weights[t] *= terms.residues[t];
    const Fields fields{device, geometry, u.precision()};
    LinkField by_fat = fields.matrices(), by_w = fields.matrices();
    {
        const LinkField by_long = fields.matrices();
        outer_products(device, geometry, terms.x, terms.residues, long_weights, false, by_fat, &by_long);
        size_t first = 0;
        while (first < more_weights.size() && more_weights[first] == 0)
            ++first;
        fields.clear(by_w);
        if (first < more_weights.size()) {
            const int skip = static_cast<int>(first);
            outer_products(device, geometry, {terms.x.even.from(skip), terms.x.odd.from(skip)},
                           {more_weights.begin() + skip, more_weights.end()}, {}, true, by_w, nullptr);
        }
        long_links_adjoint(device, geometry, w, 1, by_long, by_w);
    }
    const bool lepage = spec.level_1.lepage != 0 || spec.level_2.lepage != 0;
    const AdjointSpace space(device, geometry, u.precision(), lepage);
    fat_links_adjoint(device, geometry, w, spec.level_2, by_fat, by_w, space);
    const UnitarizeAdjointCounts counts =
        unitarize_adjoint(device, geometry, v, spec.unitarize, spec.filter, by_w); // by V from here on
    fields.clear(by_fat);                                                          // by U from here on
    fat_links_adjoint(device, geometry, u, spec.level_1, by_w, by_fat, space);
    return {std::move(by_fat), counts};
}

double hisq_derivative_flops(const HisqForceSpec &spec, int terms) {
    int more = 0;
    for (const HisqForceSpec::Set &set : spec.sets)
        more += set.eps_naik != 0 ? set.terms : 0;
    return outer_products_flops(terms) + outer_products_flops(more) / 2 + long_links_adjoint_flops +
           fat_links_adjoint_flops(spec.level_1.lepage != 0) + fat_links_adjoint_flops(spec.level_2.lepage != 0) +
           unitarize_adjoint_flops;
}

} // namespace milcgpu
