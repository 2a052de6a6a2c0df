#include "gpu_kernels/gauge/forces/fermion_force.h"
#include "gpu_kernels/halo/halo.h"

namespace milcgpu {

namespace {

// Shared data of the steps of a derivative.
struct Steps {
    Device &device;
    const WideBox &box;
    Precision precision;
    Halo *halo; // nullptr: the lattice is whole

    // Allocates fields, which may fail on one rank alone.
    template <class... Fields> void make(Fields &...fields) const {
        queue_of(device).collective("memory for a force", [&] {
            ((fields = LinkField(device, precision, 18, box.wide(), "derivatives by links")), ...);
            if (halo == nullptr) // margins are filled otherwise
                (fields.keep_sum(), ...);
        });
    }
    std::unique_ptr<AdjointSpace> space(bool lepage) const {
        std::unique_ptr<AdjointSpace> made;
        queue_of(device).collective("memory for a force", [&] {
            made = std::make_unique<AdjointSpace>(device, box.wide(), precision, lepage);
        });
        return made;
    }
    void fill_margin(const LinkField &field, int layers) const {
        if (halo != nullptr)
            halo->fill_margin(field, box, layers);
    }
    void fill_ghosts(const ForceVectors &x) const {
        if (halo == nullptr)
            return;
        halo->exchange(x.even, 0);
        halo->exchange(x.odd, 1);
    }
};

constexpr const char *by_long_links = "derivatives by long links", *by_fat_links = "derivatives by fat links";

std::vector<double> scaled(std::vector<double> values, double factor) {
    for (double &value : values)
        value *= factor;
    return values;
}

} // namespace

LinkField asqtad_derivative(Device &device, const WideBox &box, const LinkField &u, const PathCoefficients &paths,
                            const ForceTerms &terms, AskedFields &asked, Halo *halo) {
    const Steps steps{device, box, u.precision(), halo};
    LinkField by_fat, by_u;
    steps.fill_ghosts(terms.x);
    {
        LinkField by_long;
        steps.make(by_fat, by_u, by_long);
        by_u.clear();
        outer_products(device, box, terms.x, terms.residues, scaled(terms.residues, paths.naik), false, by_fat,
                       &by_long);
        steps.fill_margin(by_long, long_links_reach);
        long_links_adjoint(device, box, u, 1, by_long, by_u);
        asked.used_up(by_long, by_long_links);
    }
    steps.fill_margin(by_fat, paths.reach());
    fat_links_adjoint(device, box, u, paths, by_fat, by_u, *steps.space(paths.lepage != 0));
    asked.used_up(by_fat, by_fat_links);
    return by_u;
}

double asqtad_derivative_flops(const PathCoefficients &paths, int terms) {
    return outer_products_flops(terms) + fat_links_adjoint_flops(paths.lepage != 0) + long_links_adjoint_flops;
}

HisqDerivative hisq_derivative(Device &device, const WideBox &box, const HisqLevels &levels, const HisqForceSpec &spec,
                               const ForceTerms &terms, AskedFields &asked, Halo *halo) {
    const LinkField &u = levels.u, &v = levels.v, &w = levels.w;
    std::vector<double> long_weights, more_weights; // more: for the one-link part of eps_naik
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
    const Steps steps{device, box, u.precision(), halo};
    LinkField by_fat, by_w;
    steps.fill_ghosts(terms.x);
    steps.fill_margin(w, long_links_reach);
    {
        LinkField by_long;
        steps.make(by_fat, by_w, by_long);
        outer_products(device, box, terms.x, terms.residues, long_weights, false, by_fat, &by_long);
        steps.fill_margin(by_long, long_links_reach);
        size_t first = 0;
        while (first < more_weights.size() && more_weights[first] == 0)
            ++first;
        by_w.clear();
        if (first < more_weights.size()) {
            const int skip = static_cast<int>(first);
            outer_products(device, box, {terms.x.even.from(skip), terms.x.odd.from(skip)},
                           {more_weights.begin() + skip, more_weights.end()}, {}, true, by_w, nullptr);
        }
        long_links_adjoint(device, box, w, 1, by_long, by_w);
        asked.used_up(by_long, by_long_links);
    }
    const std::unique_ptr<AdjointSpace> space = steps.space(spec.level_1.lepage != 0 || spec.level_2.lepage != 0);
    steps.fill_margin(by_fat, spec.level_2.reach());
    fat_links_adjoint(device, box, w, spec.level_2, by_fat, by_w, *space);
    asked.used_up(by_fat, by_fat_links);
    asked.unchanged(w, "HISQ's W");
    UnitarizeAdjointCounts counts;
    queue_of(device).collective("the derivative of a unitarization", [&] {
        // The derivative by V from here on
        counts = unitarize_adjoint(device, box, v, spec.unitarize, spec.filter, by_w);
    });
    asked.used_up(v, "HISQ's V");
    steps.fill_margin(by_w, spec.level_1.reach());
    by_fat.clear(); // the derivative by U from here on
    if (by_fat.keeps_sum())
        by_fat.keep_sum();
    fat_links_adjoint(device, box, u, spec.level_1, by_w, by_fat, *space);
    asked.used_up(by_w, "derivatives by HISQ's V");
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
