// Molecular dynamics of quda_milc_interface.h: forces, update of the links, momenta. MILC reads the links in its sites
// after every update, so each update copies them back. The plugin compares their hash to see whether MILC has changed
// them since.
#include "gpu_kernels/machine/geometry/places.h"
#include "milc_glue/quda_compat/internal.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

using namespace milcgpu::quda;

namespace {

constexpr int order_of_update = 8;
constexpr uint64_t most_bad_links = 100; // MILC's own limit

// Runs `change` and copies what it wrote back to the host, except resident momenta. False: neither the GPU nor the host
// backend could do it.
template <class Change> bool changed(const char *function, int precision, int writes, const Change &change) {
    bool is_done = false; // `change` must not run again if only the copy back failed
    return momenta_are_whole(function) && done(function, precision, [&] {
               is_done = is_done || change();
               const bool stays =
                   writes == MILCGPU_MOMENTA && state.momenta.scratch != nullptr && milcgpu_plugin_resident() != 0;
               return is_done && (stays || milcgpu_plugin_host_needs(writes, function) != 0);
           });
}

// The place of the first link that failed; negative: none on this rank.
std::string place_of_failed(long long link) {
    milcgpu::Geometry::Extents n, origin, whole;
    for (int mu = 0; mu < 4; ++mu)
        n[mu] = lattice.n(mu), origin[mu] = lattice.box.origin[mu], whole[mu] = lattice.box.whole[mu];
    return link < 0 ? "another rank" : milcgpu::place_of_link({n, origin, whole, 0}, link);
}

// Marks what could not be computed: NaN in MILC's fields.
void mark(int what, const milcgpu_field &field, int precision) {
    if (what == MILCGPU_MOMENTA && state.momenta.scratch != nullptr) {
        state.momenta.lost = true;
        return;
    }
    const int reals = what == MILCGPU_LINKS ? 72 : 40;
    const milcgpu::HostRecords records = records_of(field, reals, precision);
    for (size_t i = 0; i < records.count; ++i)
        fill_with_nan(static_cast<unsigned char *>(field.data) + i * records.pitch, reals, precision);
    milcgpu_plugin_host_wrote(what);
}

// Whether this rank writes on standard output: one rank does.
bool speaks() { return lattice.ranks <= 1 || lattice.messages[0].rank == 0; }

bool is_argument(const char *function, const QudaMILCSiteArg_t *arg) {
    if (arg == nullptr)
        complain(function, "arg is NULL: nothing is done");
    return arg != nullptr;
}

void update_links(const char *function, int precision, double eps, const QudaMILCSiteArg_t *arg) {
    if (!is_argument(function, arg))
        return;
    const milcgpu_plugin_lattice l = lattice_of(*arg, precision);
    if (!changed(function, precision, MILCGPU_LINKS,
                 [&] { return milcgpu_plugin_update_links(&l, eps, order_of_update) != 0; }))
        mark(MILCGPU_LINKS, l.links, precision);
}

// MILC computed these numbers in its own precision.
bool same(double a, double b) { return std::abs(a - b) <= 1e-5 * std::max(std::abs(a), std::abs(b)); }

// Converts MILC's rows of coefficients to the members of milcgpu_force_spec. Row t < terms is 2 residue_t times {1,
// Naik coefficient}. Further rows, for the last terms again, are 2 residue_t eps times the coefficients that eps_naik
// multiplies.
struct HisqTerms {
    std::vector<double> residues;
    std::vector<milcgpu_force_set> sets;
    double eps_one_link = 0, eps_naik = 0; // up to a factor, which the sets' eps includes

    HisqTerms(double *const *rows, int terms, int naik_terms, double naik) : sets{{0, terms - naik_terms}} {
        for (int t = 0; t < terms; ++t) {
            if (!same(rows[t][1], naik * rows[t][0]))
                throw milcgpu::Error(milcgpu::Status::not_built,
                                     "the Naik coefficient of a term is not level2_coeff[1] times 2 residue: "
                                     "this force is not built");
            residues.push_back(rows[t][0] / 2);
        }
        for (int k = 0; k < naik_terms; ++k)
            add_naik_term(rows[terms - naik_terms + k][0], rows[terms + k]);
    }

  private:
    void add_naik_term(double weight, const double *row) {
        if (weight == 0) {
            ++sets.back().n_terms;
            return;
        }
        const double one = row[0] / weight, three = row[1] / weight;
        if (eps_one_link == 0 && eps_naik == 0)
            eps_one_link = one, eps_naik = three;
        const double size = eps_one_link * eps_one_link + eps_naik * eps_naik;
        const double eps = size > 0 ? (one * eps_one_link + three * eps_naik) / size : 0;
        if (!same(one, eps * eps_one_link) || !same(three, eps * eps_naik))
            throw milcgpu::Error(milcgpu::Status::not_built,
                                 "the ratio of the one-link to the Naik coefficient of eps_naik differs between "
                                 "terms: this force is not built");
        if (!same(eps, sets.back().eps_naik))
            sets.push_back({eps, 0});
        ++sets.back().n_terms;
    }
};

} // namespace

namespace milcgpu::quda {

milcgpu_field links_of(const QudaMILCSiteArg_t &arg, int precision) {
    return arg.link != nullptr
               ? packed(arg.link, precision)
               : milcgpu_field{static_cast<unsigned char *>(arg.site) + arg.link_offset, real_of(precision), arg.size};
}
milcgpu_field momenta_of(const QudaMILCSiteArg_t &arg, int precision) {
    return arg.mom != nullptr
               ? packed(arg.mom, precision)
               : milcgpu_field{static_cast<unsigned char *>(arg.site) + arg.mom_offset, real_of(precision), arg.size};
}
HostRecords records_of(const milcgpu_field &field, int reals, int precision) {
    const size_t bytes = reals * bytes_of(precision);
    return {field.data, lattice.sites(), bytes, field.pitch_bytes != 0 ? field.pitch_bytes : bytes};
}

bool momenta_are_whole(const char *function) {
    if (!state.momenta.lost && milcgpu_plugin_host_needs(0, function) != 0)
        return true;
    complain(function, "the momenta on the device are lost, or a force was not added to them: the result is NaN");
    return false;
}

milcgpu_plugin_lattice lattice_of(const QudaMILCSiteArg_t &arg, int precision) {
    return {links_of(arg, precision),
            state.momenta.scratch != nullptr ? packed(state.momenta.scratch, precision) : momenta_of(arg, precision)};
}

} // namespace milcgpu::quda

extern "C" {

void qudaMomLoad(int precision, QudaMILCSiteArg_t *arg) {
    guarded(__func__, [&] {
        if (!observable("qudaMomLoad", precision, arg))
            return false;
        const milcgpu::HostRecords from = records_of(momenta_of(*arg, precision), 40, precision);
        if (state.momenta.scratch == nullptr)
            state.momenta.scratch = milcgpu::host_allocate(from.count * from.bytes);
        if (milcgpu_plugin_agreed(state.momenta.scratch == nullptr) != 0) { // all ranks keep using those in the sites
            std::free(std::exchange(state.momenta.scratch, nullptr));
            complain("qudaMomLoad", "no room in the host's memory: the momenta are copied in every call");
            return false;
        }
        gather_records(from, state.momenta.scratch);
        milcgpu_plugin_host_wrote(MILCGPU_MOMENTA);
        state.momenta.lost = false;
        return true;
    });
}

void qudaMomSave(int precision, QudaMILCSiteArg_t *arg) {
    guarded(__func__, [&] {
        if (!observable("qudaMomSave", precision, arg) || state.momenta.scratch == nullptr)
            return false;
        const bool good = momenta_are_whole("qudaMomSave") && milcgpu_plugin_host_needs(MILCGPU_MOMENTA, "qudaMomSave");
        const milcgpu::HostRecords from = records_of(lattice_of(*arg, precision).momenta, 40, precision),
                                   to = records_of(momenta_of(*arg, precision), 40, precision);
        for (size_t i = 0; i < from.count; ++i) {
            auto *site = static_cast<unsigned char *>(const_cast<void *>(to.data)) + i * to.pitch;
            std::memcpy(site, static_cast<const unsigned char *>(from.data) + i * from.pitch, from.bytes);
            if (!good)
                fill_with_nan(site, 40, precision);
        }
        return good;
    });
}

void qudaGaugeForcePhased(int precision, int num_loop_types, double milc_loop_coeff[3], double eb3,
                          QudaMILCSiteArg_t *arg, int phase_in) {
    if (!is_argument(__func__, arg))
        return;
    const milcgpu_plugin_lattice l = lattice_of(*arg, precision);
    double c[3] = {0, 0, 0};
    const bool is_known = num_loop_types >= 1 && num_loop_types <= 3;
    if (is_known)
        std::copy_n(milc_loop_coeff, num_loop_types, c);
    else
        complain(__func__, "num_loop_types must be 1 to 3 (plaquettes, rectangles, bent loops): the momenta are NaN");
    const milcgpu_loops loops{c[0], c[1], c[2], phase_in == 0};
    if (!is_known || !changed(__func__, precision, MILCGPU_MOMENTA,
                              [&] { return milcgpu_plugin_gauge_force(&l, &loops, 3, eb3) != 0; }))
        mark(MILCGPU_MOMENTA, l.momenta, precision);
}

void qudaHisqForce(int precision, int num_terms, int num_naik_terms, double dt, double **coeff, void **quark_field,
                   const double level2_coeff[6], const double fat7_coeff[6], const void *, const void *,
                   const void *u_link, void *milc_momentum) {
    // Without momenta of its own, the library returns what the force adds.
    const bool increment = state.momenta.scratch == nullptr;
    const bool good = guarded(__func__, [&] {
        const HisqTerms terms(coeff, num_terms, num_naik_terms, level2_coeff[1]);
        std::vector<milcgpu_field> x;
        for (int t = 0; t < num_terms; ++t)
            x.push_back(packed(quark_field[t], precision));
        milcgpu_fatlink_spec links{};
        links.struct_size = sizeof links;
        links.hisq = 1;
        links.paths = paths_of(level2_coeff);
        links.fat7 = paths_of(fat7_coeff);
        links.eps_one_link = terms.eps_one_link;
        links.eps_naik = terms.eps_naik;
        links.svd_relative = state.hisq.reunit_svd_rel_error;
        links.svd_absolute = state.hisq.reunit_svd_abs_error;
        links.svd_only = state.hisq.reunit_svd_only != 0;
        milcgpu_force_spec spec{};
        spec.struct_size = sizeof spec;
        spec.links = &links;
        spec.eps = dt;
        spec.n_terms = num_terms;
        spec.residues = terms.residues.data();
        spec.n_sets = static_cast<int>(terms.sets.size());
        spec.sets = terms.sets.data();
        spec.filter = state.hisq.force_filter > 0 ? state.hisq.force_filter : -1;
        QudaMILCSiteArg_t arg{};
        arg.link = const_cast<void *>(u_link);
        arg.mom = milc_momentum;
        const milcgpu_plugin_lattice l = lattice_of(arg, precision);
        if (increment)
            std::memset(milc_momentum, 0, 40 * lattice.sites() * bytes_of(precision));
        milcgpu_force_report report{};
        return changed("qudaHisqForce", precision, MILCGPU_MOMENTA,
                       [&] { return milcgpu_plugin_fermion_force(&l, &spec, x.data(), &report) != 0; });
    });
    if (!good)
        mark(MILCGPU_MOMENTA, packed(milc_momentum, precision), precision);
}

void qudaUpdateUPhased(int precision, double eps, QudaMILCSiteArg_t *arg, int) {
    update_links(__func__, precision, eps, arg);
}
void qudaUpdateUPhasedPipeline(int precision, double eps, QudaMILCSiteArg_t *arg, int, int) {
    update_links(__func__, precision, eps, arg);
}

void qudaUnitarizeSU3Phased(int precision, double tol, QudaMILCSiteArg_t *arg, int phase_in) {
    if (!is_argument(__func__, arg))
        return;
    const milcgpu_plugin_lattice l = lattice_of(*arg, precision);
    milcgpu_reunitarize_report report{};
    if (phase_in == 0)
        complain(__func__, "links without phases are not built: the links are NaN");
    const bool good = phase_in != 0 && changed(__func__, precision, MILCGPU_LINKS,
                                               [&] { return milcgpu_plugin_reunitarize(&l, tol, &report) != 0; });
    if (good && report.failed > 0)
        complain(__func__, milcgpu::format("%llu links are too far from SU(3), the first at %s; largest "
                                           "deviation %g, limit %g. %s",
                                           static_cast<unsigned long long>(report.failed),
                                           place_of_failed(report.first_failed).c_str(), report.largest_deviation, tol,
                                           report.failed > most_bad_links ? "They are too many: all links are NaN now"
                                                                          : "They are left as they are")
                               .c_str());
    if (!good || report.failed > most_bad_links)
        mark(MILCGPU_LINKS, l.links, precision);
}

void qudaGaugeFixingOVR(int precision, unsigned gauge_dir, int Nsteps, int verbose_interval, double relax_boost,
                        double tolerance, unsigned reunit_interval, unsigned stopWtheta, QudaMILCSiteArg_t *arg) {
    if (!is_argument(__func__, arg))
        return;
    struct Said {
        int every;
        double tolerance;
    } said{verbose_interval, tolerance};
    milcgpu_gauge_fix_spec spec{};
    spec.struct_size = sizeof spec;
    spec.direction = gauge_dir == 3 ? 3 : int(MILCGPU_LANDAU);
    spec.boost = relax_boost;
    spec.most_steps = Nsteps;
    spec.tolerance = tolerance > 0 ? tolerance : -1;
    spec.reunitarize_every = static_cast<int>(reunit_interval);
    spec.signs = MILCGPU_SIGNS_OUT;
    spec.user = &said;
    spec.progress = [](void *user, int step, double mean, double change) {
        const Said &how = *static_cast<Said *>(user);
        if (speaks() && how.every > 0 && (step + 1) % how.every == 0 && !(std::abs(change) < how.tolerance))
            std::printf("step %d av gf action %.8e, delta %.3e\n", step, mean, change);
    };
    if (stopWtheta != 0)
        complain(__func__, "a stop by theta is not built: it ends where the action changes by less than the tolerance");
    const milcgpu_field links = links_of(*arg, precision);
    milcgpu_gauge_fix_report report{};
    if (Nsteps <= 0 || (gauge_dir != 3 && gauge_dir != 4)) {
        complain(__func__, milcgpu::format("gauge_dir %u, %d steps: must be 3 (Coulomb) or 4 (Landau), and positive; "
                                           "nothing is done",
                                           gauge_dir, Nsteps)
                               .c_str());
        return;
    }
    const bool good = done(__func__, precision, [&] {
        return milcgpu_plugin_host_needs(MILCGPU_LINKS, __func__) != 0 &&
               milcgpu_plugin_gauge_fix(links, &spec, &report) != 0;
    });
    if (!good)
        return mark(MILCGPU_LINKS, links, precision);
    milcgpu_plugin_host_wrote(MILCGPU_LINKS);
    if (speaks())
        std::printf("GFIX: Ended at step %d. Av gf action %.8e, delta %.3e\n", report.steps, report.mean,
                    report.change);
}

} // extern "C"
