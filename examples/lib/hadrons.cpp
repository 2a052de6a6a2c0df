#include "examples/lib/hadrons.h"
#include <chrono>
#include <cmath>

namespace examples {

namespace {

using Progress = std::function<void(const char *, int, double)>;
void fixing_goes_on(void *user, int step, double, double change) {
    (*static_cast<Progress *>(user))("gauge fixing", step, change);
}
void solve_goes_on(void *user, int step, double residual) { (*static_cast<Progress *>(user))("solve", step, residual); }

} // namespace

constexpr const char *Hadrons::part_names[], *Hadrons::classes[];

Hadrons::Hadrons(const Job &ranks, const reference::Lattice &lattice, Action action, int backend, HadronSpec spec)
    : ranks_(ranks), lattice_(lattice), action_(action), spec_(std::move(spec)) {
    const milcgpu_layout layout = ranks.layout(lattice);
    for_sites(layout, [&](const std::array<int, 4> &x) {
        sites_.push_back(x);
        even_ += (x[0] + x[1] + x[2] + x[3]) % 2 == 0;
    });
    const milcgpu_options options = options_for(backend);
    milcgpu_context *context;
    must(milcgpu_context_create(&layout, &options, &context));
    context_.reset(context);
    milcgpu_gauge *gauge;
    must(milcgpu_gauge_create(context, MILCGPU_DOUBLE, &gauge));
    gauge_.reset(gauge);
    milcgpu_meson_links *meson_links;
    must(milcgpu_meson_links_create(context, MILCGPU_DOUBLE, &meson_links));
    meson_links_.reset(meson_links);
    milcgpu_vectors *quarks;
    must(milcgpu_vectors_create(context, MILCGPU_DOUBLE, 3, &quarks));
    quarks_.reset(quarks);
}

template <class Work> void Hadrons::timed(Part part, const Work &work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    seconds_[part] += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Hadrons::Loaded Hadrons::load(std::vector<double> gauge) {
    Loaded result{};
    bool free = true;
    for (size_t k = 0; k < gauge.size(); ++k)
        free = free && gauge[k] == (k % 18 % 8 == 0); // 1 on the diagonal
    result.free = ranks_.sum(!free) == 0;
    System system = make_system(ranks_, lattice_, std::move(gauge), action_, false);
    result.plaquette = std::pow(system.u0, 4);
    Field own = std::move(system.own);
    const milcgpu_field field = field_of(own);
    must(milcgpu_gauge_load(gauge_.get(), &field, 0));
    if (spec_.fix_gauge)
        timed(gauge_fixing, [&] {
            milcgpu_gauge_fix_spec fix{};
            fix.struct_size = sizeof fix;
            fix.direction = 3;
            if (spec_.progress)
                fix.progress = fixing_goes_on, fix.user = &spec_.progress;
            milcgpu_gauge_fix_report report{};
            report.struct_size = sizeof report;
            must(milcgpu_gauge_fix(gauge_.get(), &fix, &report));
            result.fix_steps = report.steps, result.fix_mean = report.mean;
        });
    timed(links, [&] {
        const milcgpu_fatlink_spec how = link_spec(system);
        milcgpu_links *handle = links_.release();
        const milcgpu_fatlink_set set{0, nullptr, nullptr, &handle};
        const milcgpu_status status = milcgpu_gauge_make_links(gauge_.get(), &how, &set, 1, nullptr, nullptr);
        links_.reset(handle);
        must(status);
        must(milcgpu_gauge_save(gauge_.get(), &field));
        const milcgpu_meson_links_spec as_they_are{sizeof as_they_are, 1, MILCGPU_SIGNS_IN, {}};
        must(milcgpu_meson_links_load(meson_links_.get(), &as_they_are, &field));
    });
    return result;
}

template <class Sum> Hadrons::Field Hadrons::slice_sums(const Sum &of_site) const {
    Field sums(lattice_.n[3]);
    for (size_t k = 0; k < sites_.size(); ++k)
        sums[sites_[k][3]] += of_site(k);
    for (double &sum : sums)
        sum = ranks_.sum(sum);
    return sums;
}

double Hadrons::norm2(const Field &v, bool even_sites_only) const {
    double sum = 0;
    for (size_t j = 0; j < 6 * (even_sites_only ? even_ : sites_.size()); ++j)
        sum += v[j] * v[j];
    return ranks_.sum(sum);
}

void Hadrons::apply_d(Field &from, Field &to, int parity) {
    const milcgpu_storage what{MILCGPU_DOUBLE, 18};
    const milcgpu_field source = field_of(from), destination = field_of(to);
    must(milcgpu_staggered_dslash(links_.get(), &what, parity, &source, &destination));
}

std::vector<Hadrons::Field> Hadrons::wall_source(int slice) const {
    std::vector<Field> eta(3, Field(6 * sites_.size(), 0.0));
    for (size_t k = 0; k < sites_.size(); ++k) {
        const auto &x = sites_[k];
        const bool corner = x[0] % 2 == 0 && x[1] % 2 == 0 && x[2] % 2 == 0;
        const bool on = spec_.shape == Wall::full || (spec_.shape == Wall::corner && corner) ||
                        (spec_.shape == Wall::even && (x[0] + x[1] + x[2]) % 2 == 0);
        for (int c = 0; c < 3; ++c)
            eta[c][6 * k + 2 * c] = on && x[3] == slice;
    }
    return eta;
}

std::vector<Hadrons::Field> Hadrons::smeared_source(int slice) {
    std::vector<Field> eta(3, Field(6 * sites_.size(), 0.0));
    std::vector<milcgpu_field> fields;
    for (int c = 0; c < 3; ++c) {
        for (size_t k = 0; k < sites_.size(); ++k)
            eta[c][6 * k + 2 * c] = sites_[k] == std::array<int, 4>{0, 0, 0, slice};
        fields.push_back(field_of(eta[c]));
    }
    const milcgpu_quarks sources{fields.data(), nullptr, 0};
    timed(smearing, [&] {
        must(milcgpu_quarks_gauss_smear(meson_links_.get(), 2, spec_.width, spec_.smear_steps, slice, 3, &sources));
    });
    return eta;
}

void Hadrons::make_sources(int slice) {
    slice_ = slice;
    eta_.clear();
    if (spec_.wall)
        eta_ = wall_source(slice);
    if (spec_.smeared)
        for (Field &field : smeared_source(slice))
            eta_.push_back(std::move(field));
}

// G = M^-1 eta: (4 m^2 - D^2) G = 2m eta - D eta on even sites, and G = (eta - D G) / 2m on odd sites. The residual of
// M G = eta is the residual of the solve divided by 2m.
std::vector<HadronResult> Hadrons::solve(double mass, std::vector<Field> &g) {
    const size_t n = eta_.size(), even = 6 * even_, all = 6 * sites_.size();
    milcgpu_solve_spec spec{};
    spec.struct_size = sizeof spec;
    spec.parity = MILCGPU_EVEN;
    spec.mass = mass;
    spec.max_iterations = 100000, spec.max_restarts = 5;
    spec.precise.precision = spec_.how.precise, spec.sloppy.precision = spec_.how.sloppy;
    if (spec_.progress)
        spec.progress = solve_goes_on, spec.user = &spec_.progress;
    spec.tolerance = 1;
    std::vector<Field> b = eta_;
    Field size(n);
    timed(residuals, [&] {
        for (size_t k = 0; k < n; ++k) {
            apply_d(eta_[k], b[k], MILCGPU_EVEN);
            for (size_t j = 0; j < even; ++j)
                b[k][j] = 2 * mass * eta_[k][j] - b[k][j];
            size[k] = std::sqrt(norm2(eta_[k]));
            const double of_b = std::sqrt(norm2(b[k], true));
            spec.tolerance = std::min(spec.tolerance, 0.9 * spec_.tolerance * 2 * mass * size[k] / of_b);
        }
    });
    std::vector<milcgpu_field> from, to;
    std::vector<milcgpu_solve_report> reports(n);
    g.assign(n, Field(all, 0.0));
    for (size_t k = 0; k < n; ++k) {
        from.push_back(field_of(b[k])), to.push_back(field_of(g[k]));
        reports[k].struct_size = sizeof reports[k];
    }
    timed(solves, [&] {
        must(milcgpu_staggered_solve_sources(links_.get(), &spec, MILCGPU_TOGETHER_AUTO, int(n), from.data(), to.data(),
                                             reports.data()));
    });
    std::vector<HadronResult> results(n / 3);
    timed(residuals, [&] {
        for (size_t k = 0; k < n; ++k) {
            HadronResult &result = results[k / 3];
            Field r(all);
            apply_d(g[k], r, MILCGPU_ODD);
            for (size_t j = even; j < all; ++j)
                g[k][j] = (eta_[k][j] - r[j]) / (2 * mass);
            apply_d(g[k], r, MILCGPU_EVEN);
            double overlap = 0;
            for (size_t j = 0; j < all; ++j) {
                overlap += eta_[k][j] * g[k][j];
                r[j] = eta_[k][j] - 2 * mass * g[k][j] - r[j];
            }
            const double of_r = std::sqrt(norm2(r)), g2 = norm2(g[k]);
            result.steps = std::max(result.steps, reports[k].steps);
            result.residual = worse(result.residual, of_r / size[k]);
            // 2m <G,G> = Re <G, M G> = Re <G, eta - r>
            result.ward = worse(result.ward, std::fabs(ranks_.sum(overlap) / (2 * mass * g2) - 1));
            result.ward_limit = worse(result.ward_limit, of_r / (2 * mass * std::sqrt(g2)) + 1e-12);
        }
    });
    return results;
}

// For the three colours at `first`, which are smeared before if requested.
void Hadrons::contract(std::vector<Field> &g, size_t first, bool smeared, HadronResult &result) {
    const int nt = lattice_.n[3];
    const milcgpu_quarks quarks{nullptr, quarks_.get(), 0};
    const int parities[] = {MILCGPU_EVEN, MILCGPU_ODD};
    Field sums(4 * size_t(nt), 0.0);
    timed(contractions, [&] {
        for (int c = 0; c < 3; ++c)
            for (const int parity : parities) {
                const milcgpu_field field = field_of(g[first + c]);
                must(milcgpu_vectors_load(quarks_.get(), c, parity, &field));
            }
    });
    if (smeared)
        timed(smearing, [&] {
            must(milcgpu_quarks_gauss_smear(meson_links_.get(), 2, spec_.width, spec_.smear_steps, -1, 3, &quarks));
            for (int c = 0; c < 3; ++c)
                for (const int parity : parities) {
                    const milcgpu_field field = field_of(g[first + c]);
                    must(milcgpu_vectors_save(quarks_.get(), c, parity, &field));
                }
        });
    timed(contractions, [&] {
        const milcgpu_momentum at_rest{{0, 0, 0}, {MILCGPU_EVEN, MILCGPU_EVEN, MILCGPU_EVEN}};
        const int n_mesons = 2;
        std::vector<milcgpu_meson_term> terms = {{milcgpu_spin_taste_index("pion5"), 0, 0, 1, pion}};
        for (const char *each : {"rhox", "rhoy", "rhoz"})
            terms.push_back({milcgpu_spin_taste_index(each), 0, 0, 1.0 / 3, rho});
        const milcgpu_meson_spec spec{sizeof spec, {}, 1, int(terms.size()), n_mesons, &at_rest, terms.data()};
        must(milcgpu_quarks_contract(meson_links_.get(), &spec, nullptr, nullptr, 3, &quarks, &quarks, sums.data()));
        const Field on_host = slice_sums([&](size_t k) {
            double sum = 0;
            for (int j = 0; j < 18; ++j)
                sum += std::pow(g[first + j / 6][6 * k + j % 6], 2);
            return sum;
        });
        const milcgpu_vector equal[3] = {{quarks_.get(), 0}, {quarks_.get(), 0}, {quarks_.get(), 0}};
        Field baryon(2 * size_t(nt), 0.0);
        must(milcgpu_baryon_nucleon(context_.get(), equal, baryon.data()));
        for (int t = 0; t < nt; ++t) {
            const int at = (slice_ + t) % nt;
            result.of[pion].push_back(sums[2 * at]);
            result.of[rho].push_back(sums[2 * (nt + at)]);
            result.of[nucleon].push_back(at < slice_ ? -baryon[2 * at] : baryon[2 * at]);
            if (sums[2 * at] != on_host[at]) // 0 may be both
                result.norm = worse(result.norm, std::fabs(sums[2 * at] / on_host[at] - 1));
        }
    });
}

std::vector<HadronResult> Hadrons::measure(double mass) {
    std::vector<Field> g;
    std::vector<HadronResult> results = solve(mass, g);
    for (size_t k = 0; k < results.size(); ++k)
        contract(g, 3 * k, spec_.smeared && k + 1 == results.size(), results[k]);
    return results;
}

// A source has sites of one parity p: (4 m^2 - D^2) G = 2m eta there, and G = -D G / 2m on the other sites. So the
// residual of M G = eta, relative to eta, is the residual of the solve.
Hadrons::Octet Hadrons::make_octet(double mass, int slice) {
    constexpr int colours = 3, corners = 8, n = colours * corners / 2; // corners of one parity are solved together
    const auto empty = [&](int count) {
        milcgpu_vectors *made;
        must(milcgpu_vectors_create(context_.get(), MILCGPU_DOUBLE, count, &made));
        return Owned<milcgpu_vectors>(made, milcgpu_vectors_destroy);
    };
    Octet octet;
    timed(octets, [&] {
        octet.quarks = empty(colours * corners);
        const Owned<milcgpu_vectors> sources = empty(n);
        milcgpu_solve_spec spec{};
        spec.struct_size = sizeof spec;
        spec.mass = mass, spec.tolerance = spec_.tolerance;
        spec.max_iterations = 100000, spec.max_restarts = 5;
        spec.precise.precision = spec_.how.precise, spec.sloppy.precision = spec_.how.sloppy;
        for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD}) {
            const int other = MILCGPU_EVEN + MILCGPU_ODD - parity;
            std::vector<milcgpu_vector> eta, g;
            std::vector<milcgpu_solve_report> reports(n);
            for (int s = 0; s < corners; ++s) {
                if (((s ^ s >> 1 ^ s >> 2 ^ slice) & 1) != (parity == MILCGPU_ODD))
                    continue;
                for (int c = 0; c < colours; ++c) {
                    Field field(6 * sites_.size(), 0.0);
                    for (size_t k = 0; k < sites_.size(); ++k) {
                        const auto &x = sites_[k];
                        const int corner = x[0] % 2 + 2 * (x[1] % 2) + 4 * (x[2] % 2);
                        field[6 * k + 2 * c] = corner == s && x[3] == slice ? 2 * mass : 0;
                    }
                    const milcgpu_field from = field_of(field);
                    eta.push_back({sources.get(), int(eta.size())}), g.push_back({octet.quarks.get(), colours * s + c});
                    reports[g.size() - 1].struct_size = sizeof(milcgpu_solve_report);
                    for (const int each : {parity, other})
                        must(milcgpu_vectors_load(sources.get(), eta.back().index, each, &from));
                    must(milcgpu_vectors_minus_dslash(links_.get(), parity, 0, 0, eta.back(), eta.back(), g.back()));
                }
            }
            spec.parity = parity;
            must(milcgpu_staggered_solve_vectors(links_.get(), &spec, MILCGPU_TOGETHER_AUTO, n, eta.data(), g.data(),
                                                 reports.data()));
            for (int k = 0; k < n; ++k) {
                must(milcgpu_vectors_minus_dslash(links_.get(), other, 1 / (2 * mass), 1, eta[k], g[k], g[k]));
                octet.steps = std::max(octet.steps, reports[k].steps);
                octet.residual = worse(octet.residual, reports[k].true_residual);
            }
        }
    });
    return octet;
}

std::string Hadrons::octets_plan(int octets) const {
    char text[1000];
    must(milcgpu_octets_plan(context_.get(), MILCGPU_DOUBLE, 8 * octets, octets == 1 ? 715 : 2080, text, sizeof text,
                             nullptr));
    return text;
}

std::vector<Correlator> Hadrons::golterman_bailey(const Octet &light, const Octet &other, int slice) {
    constexpr int n = sizeof classes / sizeof *classes;
    const int nt = lattice_.n[3];
    std::vector<milcgpu_gb_term> terms;
    for (const char *source : classes)
        for (const char *sink : classes) {
            milcgpu_gb_term term{};
            term.source = milcgpu_gb_operator_index((std::string("16+ M1/2 ") + source).c_str());
            term.sink = milcgpu_gb_operator_index((std::string("16+ M1/2 ") + sink).c_str());
            term.factor = 1, term.correlator = int(terms.size());
            terms.push_back(term);
        }
    milcgpu_gb_spec spec;
    milcgpu_gb_defaults(&spec, sizeof spec);
    spec.n_terms = spec.n_correlators = n * n, spec.terms = terms.data();
    std::vector<milcgpu_vector> quarks;
    for (const Octet *const octet : {&light, &light, &other})
        for (int s = 0; s < 8; ++s)
            quarks.push_back({octet->quarks.get(), 3 * s});
    Field sums(2 * size_t(n * n) * nt, 0.0);
    timed(baryons, [&] { must(milcgpu_gb_correlate(context_.get(), &spec, quarks.data(), sums.data())); });
    std::vector<Correlator> all(n * n);
    for (int k = 0; k < n * n; ++k)
        for (int t = 0; t < nt; ++t) {
            const int at = (slice + t) % nt;
            all[k].push_back((at < slice ? -1 : 1) * sums[2 * (k * nt + at)]);
        }
    return all;
}

} // namespace examples
